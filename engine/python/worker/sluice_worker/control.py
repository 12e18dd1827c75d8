#: control
"""The control channel, and what all parts of the worker share: settings, application, seats."""

import json
import marshal
import os
import signal
import socket
import struct
import sys

from .failures import bounded, failure_place, failure_text, flush_standard_streams
from .frames import FAILED, HEADER_LEN, LOG, READY, Socket, allocate_lock, pack, unpack_from
from .limits import DESCRIPTORS_MAX, FRAME_MAX

EXIT_FAILED = 3
EXIT_GARBAGE = 4


class Control:
    """The process's end of the control channel, and what all parts of the worker share."""

    def __init__(self):
        self.config = {}
        self.window = 0
        self.loads = marshal.loads  # reads the dictionary of a request
        self.marshal = True
        self.accelerator = None  # the extension module
        self.application = None
        self.interface = None
        self.seats = []
        self.unclaimed = []  # descriptors of lanes before there is a seat
        self.abandoned = False  # this is a child that the application has forked
        self.draining = False
        self.forking = False  # this fork is the worker's own
        self.seat_lock = allocate_lock()  # held while a seat is made, and while the application forks
        self.counting = False  # the control thread sends STATS each second
        self.dump_tasks = None
        self.wake_reader = self.wake_writer = -1

    def attach(self, fd):
        """Takes a descriptor as the control channel."""
        os.set_inheritable(fd, False)
        self.lock = allocate_lock()
        self.sock = Socket(fileno=fd)
        self.sock.setblocking(True)
        self.received = b""
        self.received_fds = []
        self.wake_reader, self.wake_writer = os.pipe()
        os.set_blocking(self.wake_writer, False)

    def detach(self):
        """Closes the channel in a forked child."""
        close(self.sock.detach())
        close(self.wake_reader)
        close(self.wake_writer)

    def receive(self):
        """Receives once. Returns False at the end of the channel."""
        ancillary = socket.CMSG_SPACE(DESCRIPTORS_MAX * 4)
        try:
            data, messages, _, _ = self.sock.recvmsg(65536, ancillary, getattr(socket, "MSG_CMSG_CLOEXEC", 0))
        except OSError:
            return False
        for level, kind, payload in messages:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                self.received_fds += struct.unpack("%di" % (len(payload) // 4), payload)
        self.received += data
        return bool(data)

    def next_frame(self):
        """(type, large, payload) of a received frame, or None."""
        data = self.received
        if len(data) < HEADER_LEN:
            return None
        length, _, kind, _, _, large = unpack_from(data, 0)
        if length > FRAME_MAX:
            garbage("a control frame of %d bytes" % length)
        if len(data) < HEADER_LEN + length:
            return None
        self.received = data[HEADER_LEN + length :]
        return kind, large, data[HEADER_LEN : HEADER_LEN + length]

    def await_frame(self, wanted):
        """Waits for a frame of the wanted type."""
        while True:
            frame = self.next_frame()
            if frame is not None:
                if frame[0] != wanted:
                    garbage("control frame %#x instead of %#x" % (frame[0], wanted))
                return frame
            if not self.receive():
                die()

    def take_descriptors(self, count):
        if len(self.received_fds) < count:
            garbage("%d descriptors instead of %d" % (len(self.received_fds), count))
        taken = self.received_fds[:count]
        del self.received_fds[:count]
        return taken

    def tell(self, kind, value):
        """Sends a frame with JSON."""
        payload = json.dumps(value).encode("ascii")
        with self.lock:
            try:
                self.sock.sendall(pack(len(payload), 0, kind, 0, 0, 0) + payload)
            except OSError:
                pass  # the server is gone, and the end of the channel ends the process

    def log(self, level, message, error=None):
        """Reports something to the log of sluice; an exception with its traceback."""
        value = {"level": level, "message": bounded(message).decode("utf-8")}
        if error is not None:
            value["traceback"] = bounded(failure_text(error)).decode("utf-8")
        self.tell(LOG, value)

    def fail(self, stage, message, error=None, text=""):
        """Reports that the application cannot run, and ends the process. `text` stands for a missing traceback."""
        traceback = bounded(text).decode("utf-8") if "\n" in text else ""
        value = {"stage": stage, "message": message, "traceback": traceback, "file": None, "line": None}
        if error is not None:
            value["traceback"] = bounded(failure_text(error)).decode("utf-8")
            value["file"], value["line"] = failure_place(error)
        self.tell(FAILED, value)
        flush_standard_streams()
        os._exit(EXIT_FAILED)

    def ready(self, loop):
        """Reports that requests may come."""
        value = {
            "python": "%d.%d.%d" % sys.version_info[:3],
            "implementation": sys.implementation.name,
            "interface": self.interface,
            "loop": loop,
            "accelerator": getattr(self.accelerator, "VERSION", None),
            "marshal": self.marshal,
            "pid": os.getpid(),
        }
        self.tell(READY, value)

    def compare_sample(self, split, payload):
        """Falls back to JSON where this interpreter reads marshal differently from what sluice writes."""
        try:
            self.marshal = marshal.loads(payload[:split]) == load_json(payload[split:])
        except Exception:
            self.marshal = False
        if not self.marshal:
            self.loads = load_json

    def count_again(self):
        """Called by a seat for the first request after a pause: the control thread sends STATS for a while."""
        self.counting = True
        self.poke(b"c")

    def poke(self, byte):
        """Wakes the control thread. May be called by a signal handler."""
        try:
            os.write(self.wake_writer, byte)
        except OSError:
            pass  # the pipe is full, so the thread will wake


def load_json(data):
    """A request's dictionary from JSON. In a scope some strings stand for bytes."""
    value = json.loads(bytes(data))
    if "query_string" in value:
        for key in ("raw_path", "query_string"):
            if isinstance(value.get(key), str):
                value[key] = value[key].encode("latin-1")
        value["headers"] = [(name.encode("latin-1"), text.encode("latin-1")) for name, text in value["headers"]]
        for key in ("client", "server"):
            if isinstance(value.get(key), list):
                value[key] = tuple(value[key])
    return value


def close(fd):
    try:
        os.close(fd)
    except OSError:
        pass


def die():
    """The server is gone: nothing of the application outlives it."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def garbage(what):
    """Ends the process: the other side does not speak the protocol."""
    worker.log("error", "the worker received garbage and ends: " + what)
    flush_standard_streams()
    os._exit(EXIT_GARBAGE)


worker = Control()
