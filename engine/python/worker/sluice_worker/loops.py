#: loops
"""Lanes and seats of event loops: what asyncio and gevent have in common."""

import os
import socket
import struct
import time
from collections import deque

from .control import worker
from .frames import clock, get_ident
from .lane import Lane
from .limits import HELD, LONG, RESTLESS


class LoopLane(Lane):
    """A lane that an event loop reads and writes without blocking. Subclasses connect it to asyncio or gevent."""

    def __init__(self, fd, seat):
        super().__init__(fd, seat)
        self.sock.setblocking(False)
        self.backlog = deque()  # (bytes, descriptor or -1) that the socket did not take
        self.heads = []  # streams that hold their response's head until the body, or the next flush
        self.scheduled = False  # a flush will run
        self.mark = 0.0  # since when
        self.begun = False  # the batch had requests
        self.restless = 0  # flushes to come that hold nothing back, since the loop was blocked for LONG

    def on_readable(self):
        try:
            more = self.fill()
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            more = False
        if not more:
            self.unwatch()
            self.lose()
            self.seat.lane_closed()
            return
        self.parse()
        if self.begun:
            self.begun = False
            if not worker.counting:
                worker.count_again()
            if self.seat.eager:
                self.flush()
            if not self.scheduled:  # behind the first steps of the tasks that this batch has started
                self.schedule()

    def flush(self):
        if self.heads:
            for stream in self.heads:
                if not stream.head_sent and not stream.done:
                    stream.respond(b"", False)
            self.heads.clear()
        if self.restless:
            self.restless -= 1
        if self.scheduled:
            self.scheduled = False
            if clock() - self.mark > LONG:
                self.restless = RESTLESS
        out = self.out
        if not out:
            return
        data = out[0] if len(out) == 1 else b"".join(out)
        out.clear()
        if self.backlog:
            self.backlog.append((data, -1))
            return
        try:
            sent = self.send(data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:
            return self.lose()
        if sent < len(data):
            self.backlog.append((memoryview(data)[sent:], -1))
            self.watch_writable(True)

    def flush_soon(self, prompt):
        """Writes at once, or when the loop has run what is ready. Called behind each frame.

        Without other requests there is nothing to wait for: sluice sends the response on while the application cleans up."""
        if prompt or self.restless or not self.streams and self.pos == self.end:
            self.flush()
        elif not self.scheduled:
            self.schedule()
        elif clock() - self.mark > HELD:
            self.flush()

    def send_descriptor(self, frame, fd):
        self.flush()
        self.backlog.append((frame, os.dup(fd)))
        if len(self.backlog) == 1:
            self.on_writable()
            if self.backlog:
                self.watch_writable(True)

    def on_writable(self):
        backlog = self.backlog
        try:
            while backlog:
                data, fd = backlog[0]
                if fd >= 0:
                    sent = self.sock.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", fd))])
                    os.close(fd)
                else:
                    sent = self.send(data)
                if sent < len(data):
                    backlog[0] = (memoryview(data)[sent:], -1)
                else:
                    backlog.popleft()
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.lose()
        self.watch_writable(False)
        for stream in list(self.streams.values()):
            stream.wake()

    def lose(self):
        super().lose()
        for _, fd in self.backlog:
            if fd >= 0:
                os.close(fd)
        self.backlog.clear()

    def finish_writing(self):
        """Writes what is left before the process ends."""
        self.flush()
        if self.backlog:
            self.sock.setblocking(True)
            self.on_writable()


class LoopSeat:
    """What asyncio's and gevent's seats have in common: the streams whose application still runs."""

    eager = False
    restless = 0

    def __init__(self):
        self.application = worker.application
        self.active = {}  # streams and their tasks or greenlets, until the application has returned
        self.cpu_time = main_thread_clock()
        self.requests = 0

    def stats(self):
        return self.cpu_time(), self.requests, len(self.active)

    def accelerate(self):
        for lane in self.lanes:
            lane.accelerate()

    def abandon(self):
        """Closes the lanes in a child that the application has forked."""
        for lane in self.lanes:
            lane.abandon()

    def lane_closed(self):
        if not any(lane.open for lane in self.lanes):
            self.drain()

    def drain(self):
        worker.draining = True
        self.stop_if_idle()

    def stop_if_idle(self):
        """Stops if no request runs and none waits in a socket."""
        for lane in self.lanes:
            if lane.open and not self.active:
                lane.on_readable()
        if not self.active:
            self.stop()

    def ended(self, stream):
        """The application has returned: nothing of the request runs any more."""
        self.active.pop(stream, None)
        if worker.draining:
            self.stop_if_idle()


def main_thread_clock():
    """A function that returns the CPU time of the calling thread, from any thread."""
    try:
        identity = time.pthread_getcpuclockid(get_ident())
    except (AttributeError, OSError):
        return time.process_time
    return lambda: time.clock_gettime(identity)
