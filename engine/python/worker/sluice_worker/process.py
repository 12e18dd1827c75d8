#: process
"""The process from its start to its end: settings, the control thread, signals, and forks of the application."""

import faulthandler
import json
import os
import signal
import sys

from .accelerator import find as find_accelerator
from .control import close, die, garbage, worker
from .failures import flush_standard_streams
from .frames import (
    CONFIG,
    DRAIN,
    DRAINING,
    DUMP,
    POLLIN,
    SAMPLE,
    SEAT,
    STATS,
    Poll,
    clock,
    set_signal,
    start_new_thread,
)
from .limits import DRAIN_WAIT, STATS_INTERVAL
from .loading import load, prepare_path
from .stream import Stream


def main(lane_count):
    """Runs the process, whose descriptors from 3 on are the lanes and the control channel."""
    descriptors = worker.unclaimed = list(range(3, 3 + lane_count))
    for fd in descriptors:
        os.set_inheritable(fd, False)
    worker.attach(3 + lane_count)
    worker.config = config = json.loads(worker.await_frame(CONFIG)[2])
    worker.window = Stream.credit = config.get("window") or 262144
    worker.compare_sample(*worker.await_frame(SAMPLE)[1:])
    prepare_process()
    gevent = config.get("interface") == "esgi" or config.get("loop") == "gevent"
    if gevent:
        patch_gevent()
    if config.get("preload"):
        from .preload import preload

        for fd in descriptors:
            close(fd)
        worker.unclaimed = []
        prepare_path(config)
        find_accelerator()
        load()
        descriptors = preload(lane_count)  # returns in children
    start_new_thread(ControlThread(lane_count).run, ())
    if worker.application is None:
        prepare_path(config)
        find_accelerator()
    # Applications of asyncio are imported while their loop runs, as uvicorn does it.
    if config.get("interface") in ("asgi", "rsgi"):
        from .tasks import serve
    else:
        if worker.application is None:
            load()
        if gevent or worker.interface == "esgi":
            if not gevent:
                patch_gevent()
            from .greenlets import serve
        elif worker.interface == "wsgi":
            from .wsgi import serve
        else:
            from .tasks import serve
    serve(descriptors)
    worker.tell(STATS, stats())
    flush_standard_streams()


def prepare_process():
    """Standard streams, dumps of stacks, signals, and what children of the application may not keep."""
    sys.argv = ["sluice"]
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.reconfigure(line_buffering=True, errors="backslashreplace")
        except (AttributeError, ValueError):
            pass
    faulthandler.enable(all_threads=True)
    if hasattr(faulthandler, "register"):
        faulthandler.register(signal.SIGUSR1, all_threads=True)
    for number in (signal.SIGTERM, signal.SIGINT):
        set_signal(number, on_signal)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=worker.seat_lock.acquire,
            after_in_parent=worker.seat_lock.release,
            after_in_child=after_fork,
        )


def patch_gevent():
    try:
        from gevent import monkey
    except ImportError as error:
        worker.fail("start", "gevent is needed, and cannot be imported by %s: %s" % (sys.executable, error))
    monkey.patch_all()


def on_signal(number, _frame):
    """SIGTERM and SIGINT: the control thread asks the server for DRAIN."""
    ControlThread.signal = number
    worker.poke(b"s")


def after_fork():
    """In a child that the application has forked: lanes and control channel belong to the parent."""
    worker.seat_lock.release()
    if worker.forking:
        return
    worker.abandoned = True
    for seat in worker.seats:
        seat.abandon()
    for fd in worker.unclaimed:
        close(fd)
    worker.detach()
    for number, handler in ((signal.SIGTERM, signal.SIG_DFL), (signal.SIGINT, signal.default_int_handler)):
        if signal.getsignal(number) is on_signal:
            set_signal(number, handler)


def stats():
    """Totals since the process started."""
    totals = [seat.stats() for seat in worker.seats]
    busy, requests, streams = (sum(column) for column in zip(*totals)) if totals else (0, 0, 0)
    return {"busy_us": int(busy * 1e6), "requests": requests, "streams": streams}


def dump():
    """Writes the stacks of all threads, and where tasks wait, to standard error."""
    faulthandler.dump_traceback(file=sys.stderr, all_threads=True)
    if worker.dump_tasks is not None:
        try:
            worker.dump_tasks()
        except RuntimeError:
            pass  # the loop has ended


def drain():
    worker.draining = True
    for seat in list(worker.seats):
        try:
            seat.wake()
        except (OSError, RuntimeError):
            pass  # it has ended


class ControlThread:
    """The thread that reads the control channel. It sleeps while there is nothing to do."""

    signal = 0

    def __init__(self, lane_count):
        self.lane_count = lane_count
        self.deadline = None  # for DRAIN after a signal
        self.reported = None

    def run(self):
        """Runs to the end of the process, which does not go on without this thread."""
        try:
            self.watch()
        except BaseException as error:
            worker.log("error", "the control thread of the worker failed", error)
            os._exit(1)

    def watch(self):
        poller = Poll()
        control = worker.sock.fileno()
        poller.register(control, POLLIN)
        poller.register(worker.wake_reader, POLLIN)
        while True:
            ready = dict(poller.poll(self.timeout()))
            if worker.wake_reader in ready and b"s" in os.read(worker.wake_reader, 64):
                self.announce_drain()
            if control in ready:
                if not worker.receive():
                    die()
                self.handle_frames()
            if self.deadline is not None and clock() >= self.deadline:
                self.deadline = None
                drain()
            if worker.counting and not ready:
                self.report()

    def timeout(self):
        """Milliseconds until there is something to do, or None."""
        seconds = []
        if worker.counting:
            seconds.append(STATS_INTERVAL)
        if self.deadline is not None:
            seconds.append(max(self.deadline - clock(), 0))
        return int(min(seconds) * 1000) + 1 if seconds else None

    def announce_drain(self):
        if self.deadline is None and not worker.draining:
            self.deadline = clock() + DRAIN_WAIT
            worker.tell(DRAINING, {"signal": self.signal})

    def report(self):
        """Sends STATS, and ceases where nothing has changed."""
        now = stats()
        if self.reported is not None and self.reported["requests"] == now["requests"]:
            worker.counting = False
        self.reported = now
        worker.tell(STATS, now)

    def handle_frames(self):
        while True:
            frame = worker.next_frame()
            if frame is None:
                return
            kind = frame[0]
            if kind == SEAT:
                if worker.interface != "wsgi" or not worker.seats or not hasattr(worker.seats[0], "start_thread"):
                    garbage("SEAT for a process without threads")
                worker.seats[0].start_thread(worker.take_descriptors(self.lane_count))
            elif kind == DRAIN:
                drain()
            elif kind == DUMP:
                dump()
            else:
                garbage("control frame %#x" % kind)
