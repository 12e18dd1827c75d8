#: tasks
"""asyncio: lanes, streams and seats of applications whose requests are tasks."""

import asyncio
import functools
import inspect
import sys
import traceback

from .control import worker
from .failures import ClientDisconnected, is_foreign
from .frames import BODY, END, clock, pack
from .limits import FRAMES_MAX, PART_MAX, TASKS_MAX
from .loading import load
from .loops import LoopLane, LoopSeat
from .stream import Stream


class AsyncLane(LoopLane):
    def __init__(self, fd, seat):
        super().__init__(fd, seat)
        self.call_soon = seat.loop.call_soon
        self.flush_later = self.flush

    def watch(self):
        self.seat.loop.add_reader(self.fd, self.on_readable)

    def unwatch(self):
        self.seat.loop.remove_reader(self.fd)
        self.seat.loop.remove_writer(self.fd)

    def watch_writable(self, on):
        if on:
            self.seat.loop.add_writer(self.fd, self.on_writable)
        else:
            self.seat.loop.remove_writer(self.fd)

    def schedule(self):
        self.scheduled = True
        self.mark = clock()
        self.call_soon(self.flush_later)


class AsyncStream(Stream):
    """A stream of an application that runs as a task."""

    waiters = ()

    def __init__(self, lane, number, flags):
        self.lane = lane
        self.number = number
        if not flags & END:
            self.ended = False

    def wake(self):
        if self.waiters:
            for waiter in self.waiters:
                if not waiter.done():
                    waiter.set_result(None)
            self.waiters = ()

    def stop(self):
        seat = self.lane.seat
        task = seat.active.get(self)
        if task is None:
            return
        if inspect.getcoroutinestate(task.get_coro()) == inspect.CORO_CREATED:
            # A task that is cancelled before its first step never runs, and would not end its stream.
            seat.loop.call_soon(self.stop)
        else:
            task.cancel()

    async def wait(self):
        """Waits for a frame of this stream, for the lane to become writable, or for the end of the response."""
        waiter = self.lane.seat.loop.create_future()
        if self.waiters:
            self.waiters.append(waiter)
        else:
            self.waiters = [waiter]
        if self.lane.out and not self.lane.scheduled:
            self.lane.schedule()
        await waiter

    def finish(self):
        self.done = True
        self.lane.streams.pop(self.number, None)
        if self.waiters:
            self.wake()

    def frame(self, kind, flags=0, small=0, large=0, payload=b""):
        lane = self.lane
        lane.out.append(pack(len(payload), self.number, kind, flags, small, large) + payload)
        if not lane.scheduled:
            lane.schedule()

    async def send_body(self, data, end):
        """Writes the response's head if it was not, and `data`, as the client takes it."""
        if self.cancelled:
            raise ClientDisconnected("the client closed the connection")
        size = len(data)
        if not self.head_sent:
            data = self.respond(data, end)
            self.sent += size
            if not data:
                self.lane.flush_soon(self.prompt)
                if not self.lane.backlog or end:
                    return
        else:
            self.sent += size
        while data or end and not self.done:
            room = min(self.credit, PART_MAX)
            if len(data) <= room:
                self.credit -= len(data)
                self.frame(BODY, END if end else 0, 0, 0, data)
                data = b""
                if end:
                    self.finish()
            elif room > 0:
                self.credit -= room
                self.frame(BODY, 0, 0, 0, data[:room])
                data = data[room:]
            if data and self.credit <= 0:
                self.lane.flush()
                await self.wait()
                if self.cancelled:
                    raise ClientDisconnected("the client closed the connection")
        self.lane.flush_soon(self.prompt)
        while self.lane.backlog and not self.cancelled and not self.done:
            await self.wait()

    def returned(self, result):
        if self.cancelled:
            self.end_silently()
        elif not self.status:
            self.break_rule("the application returned without a response")
        elif not self.done:
            self.break_rule("the application returned before its response was complete")


class AsyncSeat(LoopSeat):
    """The event loop of a process that runs an ASGI or RSGI application."""

    def __init__(self, loop, descriptors):
        super().__init__()
        self.loop = loop
        self.state = None  # of the lifespan; each scope gets a copy
        self.finished = loop.create_future()
        self.create_task = loop.create_task
        if worker.config.get("eager") and sys.version_info >= (3, 12):
            self.eager = True
            self.create_task = functools.partial(asyncio.Task, loop=loop, eager_start=True)
        self.lanes = [AsyncLane(fd, self) for fd in descriptors]

    def start_eagerly(self, stream, scope):
        """Starts a task that runs, and may end, at once."""
        self.active[stream] = None
        task = self.create_task(stream.run(self, scope))
        if stream in self.active:
            self.active[stream] = task

    def wake(self):
        self.loop.call_soon_threadsafe(self.drain)

    def stop(self):
        if not self.finished.done():
            self.finished.set_result(None)

    def ended(self, stream):
        self.active.pop(stream, None)
        if worker.draining:
            self.loop.call_soon(self.stop_if_idle)  # an eager task ends while its lane is parsed

    def dump_tasks(self):
        """Writes where tasks wait to standard error."""
        tasks = sorted(asyncio.all_tasks(self.loop), key=lambda task: task.get_name())
        for task in tasks[:TASKS_MAX]:
            print("Task %s:\n%s" % (task.get_name(), where_it_waits(task.get_coro())), file=sys.stderr, end="")
        if len(tasks) > TASKS_MAX:
            print("... and %d more tasks" % (len(tasks) - TASKS_MAX), file=sys.stderr)


def where_it_waits(awaitable):
    """The stack of a suspended coroutine through all that it awaits; a task itself knows its outermost frame only."""
    frames = []
    while awaitable is not None and len(frames) < FRAMES_MAX:
        frame = getattr(awaitable, "cr_frame", None) or getattr(awaitable, "gi_frame", None)
        if frame is not None and not is_foreign(frame.f_code.co_filename):
            frames.append((frame, frame.f_lineno))
        awaitable = getattr(awaitable, "cr_await", None) or getattr(awaitable, "gi_yieldfrom", None)
    return "".join(traceback.StackSummary.extract(frames).format())


def new_loop(name):
    """An event loop and its name: `uvloop`, `asyncio`, or `auto` for uvloop where it can be imported."""
    if name != "asyncio":
        try:
            import uvloop

            return uvloop.new_event_loop(), "uvloop"
        except ImportError:
            pass
    return asyncio.new_event_loop(), "asyncio"


def serve(descriptors):
    """Loads the application inside a new event loop and runs it until the process drains."""
    loop, name = new_loop(worker.config.get("loop") or "auto")
    asyncio.set_event_loop(loop)
    loop.run_until_complete(run(loop, name, descriptors))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


async def run(loop, name, descriptors):
    if worker.application is None:
        load()
    if worker.interface == "rsgi":
        from .rsgi import run
    else:
        from .asgi import run
    await run(loop, name, descriptors)


async def serve_lanes(seat, name):
    """Reports READY and serves until the process drains."""
    worker.seats.append(seat)
    worker.dump_tasks = lambda: seat.loop.call_soon_threadsafe(seat.dump_tasks)
    worker.ready(name)
    seat.accelerate()
    for lane in seat.lanes:
        lane.watch()
    if worker.draining:  # since before READY
        seat.drain()
    await seat.finished
    for lane in seat.lanes:
        lane.unwatch()
        lane.finish_writing()
