#: lane
"""Lanes: sockets to the threads of sluice."""

import os

from .control import close, garbage, worker
from .frames import BODY_IN, HEADER_LEN, REQUEST, WS_CLOSE_IN, Socket, unpack_from
from .limits import BUFFER_LEN, FRAME_MAX


class Lane:
    """A socket to one thread of sluice. `buffer[pos:end]` was received and not parsed, `out` was not written yet."""

    def __init__(self, fd, seat):
        os.set_inheritable(fd, False)
        worker.unclaimed = []
        self.seat = seat
        self.fd = fd
        self.sock = Socket(fileno=fd)
        self.recv_into = self.sock.recv_into
        self.send = self.sock.send
        self.buffer = bytearray(BUFFER_LEN)
        self.view = memoryview(self.buffer)
        self.pos = 0
        self.end = 0
        self.out = []
        self.streams = {}
        self.open = True

    def fill(self):
        """Receives once, and blocks if the socket does. Returns False at the end of file."""
        end = self.end
        if self.pos == end:
            self.pos = self.end = end = 0
            if len(self.buffer) > BUFFER_LEN:
                self.replace_buffer(BUFFER_LEN, b"")
            count = self.recv_into(self.view)
        else:
            self.make_room()
            end = self.end
            count = self.recv_into(self.view[end:])
        if not count:
            return False
        self.end = end + count
        return True

    def make_room(self):
        """Makes room behind a frame that has been received in part."""
        pos, end = self.pos, self.end
        needed = HEADER_LEN
        if end - pos >= HEADER_LEN:
            needed += unpack_from(self.buffer, pos)[0]
        if len(self.buffer) - pos >= needed and len(self.buffer) - end >= 4096:
            return
        rest = bytes(self.view[pos:end])
        if needed > len(self.buffer):
            self.replace_buffer(needed + HEADER_LEN, rest)
        else:
            self.buffer[: len(rest)] = rest
        self.pos, self.end = 0, len(rest)

    def replace_buffer(self, size, rest):
        self.buffer = bytearray(size)
        self.buffer[: len(rest)] = rest
        self.view = memoryview(self.buffer)

    def parse(self):
        """Delivers all complete frames in the buffer."""
        buffer, view, pos, end = self.buffer, self.view, self.pos, self.end
        begin = self.seat.begin
        loads = worker.loads
        while end - pos >= HEADER_LEN:
            length, number, kind, flags, small, large = unpack_from(buffer, pos)
            start = pos + HEADER_LEN
            pos = start + length
            if pos > end:
                if length > FRAME_MAX:
                    garbage("a frame of %d bytes" % length)
                pos = start - HEADER_LEN
                break
            try:
                self.pos = pos  # `flush_soon` looks whether this frame is the last one
                if kind == REQUEST:
                    if number in self.streams or not number:
                        garbage("request %d is not new" % number)
                    begin(self, number, flags, loads(view[start:pos]))
                else:
                    stream = self.streams.get(number)
                    if stream is not None:
                        stream.receive_frame(kind, flags, small, large, view[start:pos])
                    elif not BODY_IN <= kind <= WS_CLOSE_IN:
                        garbage("a frame of type %#x" % kind)
            except Exception as error:
                garbage("a frame of type %#x: %r" % (kind, error))
        self.pos = pos

    def accelerate(self, **quick):
        """Leaves parsing to the extension module, and the quick requests that `quick` describes."""
        if worker.accelerator is not None:
            self.frames = worker.accelerator.Reader(self, worker.loads, garbage, worker.window, worker.marshal, **quick)
            self.parse = self.parse_quickly

    def parse_quickly(self):
        self.pos += self.frames.parse(self.view[self.pos : self.end].tobytes())

    def abandon(self):
        """Closes the socket in a child that the application has forked."""
        self.open = False
        close(self.sock.detach())

    def lose(self):
        """The server has closed the lane: nobody waits for its responses."""
        if worker.abandoned:
            os._exit(1)  # a forked child that returned from the application to the worker
        self.open = False
        self.out.clear()
        for stream in list(self.streams.values()):
            stream.cancelled = True
            stream.wake()
