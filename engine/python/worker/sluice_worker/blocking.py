#: blocking
"""Streams whose calls block, and lanes of seats that are threads."""

import socket
import struct

from .failures import ClientDisconnected
from .frames import BODY, END, POLLIN, Poll, current_poll
from .lane import Lane
from .limits import PART_MAX
from .stream import Stream

POLL_TYPE = type(Poll())


class BlockingStream(Stream):
    """A stream whose calls block: WSGI and ESGI."""

    def wait(self):
        """Blocks until a frame for this stream has arrived."""
        self.lane.wait(self)

    def read_body(self, limit=None):
        """Waits for a part of the request body. Empty at its end."""
        while not self.chunks:
            if self.ended:
                return b""
            if self.cancelled or self.done:
                raise ClientDisconnected("the client closed the connection before it had sent the whole request body")
            self.wait()
        data = self.take_body(limit)
        if not self.unacknowledged:
            self.lane.flush()
        return data

    def send_body(self, data, end):
        """Writes the response's head if it was not, and `data`. Blocks while credit is used up."""
        if not self.head_sent:
            size = len(data)
            data = self.respond(data, end)
            self.sent += size
            if not data:
                return
        else:
            self.lane.look(self)
            self.sent += len(data)
        while True:
            if self.cancelled:
                raise ClientDisconnected("the client closed the connection before it had received the whole response")
            room = min(self.credit, PART_MAX)
            if len(data) <= room:
                self.credit -= len(data)
                self.frame(BODY, END if end else 0, 0, 0, data)
                if end:
                    self.finish()
                return
            if room > 0:
                self.credit -= room
                self.frame(BODY, 0, 0, 0, data[:room])
                data = data[room:]
            if self.credit <= 0:
                self.wait()


class BlockingLane(Lane):
    """A lane whose seat is a thread: reads and writes block."""

    def __init__(self, fd, seat):
        super().__init__(fd, seat)
        self.sock.setblocking(True)
        self.poller = current_poll()
        self.poller.register(fd, POLLIN)

    def flush(self):
        out = self.out
        if not out:
            return
        data = out[0] if len(out) == 1 else b"".join(out)
        out.clear()
        try:
            sent = self.send(data)
            if sent < len(data):
                self.sock.sendall(memoryview(data)[sent:])
        except OSError:
            self.lose()

    def send_descriptor(self, frame, fd):
        self.flush()
        try:
            sent = self.sock.sendmsg([frame], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", fd))])
            if sent < len(frame):
                self.sock.sendall(frame[sent:])
        except OSError:
            self.lose()

    def receive(self):
        """Reads once and delivers the frames."""
        try:
            more = self.fill()
        except OSError:
            more = False
        if more:
            self.parse()
        else:
            self.lose()

    def wait(self, stream):
        self.seat.flush()
        if self.open:
            if type(self.poller) is not POLL_TYPE:  # gevent has patched it
                self.poller.poll()
            self.receive()

    def look(self, stream):
        """Delivers frames that are there, without waiting: CANCEL and CREDIT of a stream that is being written."""
        if self.open and self.poller.poll(0):
            self.receive()
