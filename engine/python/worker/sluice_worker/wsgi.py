#: wsgi
"""WSGI (PEP 3333)."""

import io
import itertools
import os
import re
import stat
import sys
from collections import deque

from .blocking import BlockingLane, BlockingStream
from .control import close, worker
from .failures import ClientDisconnected, RuleError
from .frames import END, POLLIN, RESPONSE, allocate_lock, clock, current_poll, pack, start_new_thread
from .headers import text_block
from .limits import HELD, LONG, LOOK_AGAIN, NAMES_MAX, PART_MAX, RESTLESS

STATUS = re.compile(r"([2-9][0-9][0-9]) [^\x00-\x08\x0a-\x1f\x7f]*").fullmatch


STATUSES = {}


class FileWrapper:
    """`wsgi.file_wrapper`: sluice sends regular files itself; other objects are read in blocks."""

    def __init__(self, filelike, blksize=8192):
        self.filelike = filelike
        self.blksize = blksize
        if hasattr(filelike, "close"):
            self.close = filelike.close

    def __iter__(self):
        return self

    def __next__(self):
        data = self.filelike.read(self.blksize)
        if data:
            return data
        raise StopIteration

    def regular(self):
        """(descriptor, offset, bytes left) of a regular file, or None for objects that have to be read.

        Only the classes of `io` count: a GzipFile, for example, has a descriptor but other bytes than its file."""
        source = self.filelike
        try:
            if type(source).__module__ in ("tempfile", "django.core.files.base"):
                source = source.file
            if type(source) in (io.BufferedReader, io.BufferedRandom):
                if type(source.raw) is not io.FileIO:
                    return None
                if type(source) is io.BufferedRandom:
                    source.flush()
            elif type(source) is not io.FileIO:
                return None
            if not source.readable():
                return None
            fd = source.fileno()
            info = os.fstat(fd)
            if not stat.S_ISREG(info.st_mode):
                return None
            offset = source.tell()
            return fd, offset, max(info.st_size - offset, 0)
        except (AttributeError, OSError, ValueError):
            return None


class RequestBody(io.RawIOBase):
    """The part of `wsgi.input` that waits for BODY frames. A BufferedReader around it adds read and readline."""

    def __init__(self, exchange):
        self.exchange = exchange

    def readable(self):
        return True

    def readinto(self, target):
        data = self.exchange.read_body(len(target))
        target[: len(data)] = data
        return len(data)


class WsgiExchange(BlockingStream):
    """A request to a WSGI application (PEP 3333)."""

    excess = False

    def __init__(self, lane, number, flags, environ):
        self.lane = lane
        self.number = number
        self.environ = environ
        if not flags & END:
            self.ended = False
        method = environ["REQUEST_METHOD"]
        if method != "GET":
            self.is_head = method == "HEAD"
            self.prompt = not self.is_head

    def run(self):
        """Calls the application and sends what it returns. Raises nothing."""
        environ = self.environ
        self.environ = None
        if self.cancelled:
            return self.end_silently()
        try:
            seat = self.lane.seat
            environ.update(seat.template)
            if not self.ended:
                body = io.BufferedReader(RequestBody(self), 65536)
            elif self.chunks:
                body = io.BytesIO(b"".join(self.chunks))
                self.chunks = ()
            else:
                body = io.BytesIO()
            environ["wsgi.input"] = body
            result = seat.application(environ, self.start_response)
        except BaseException as error:
            self.fail(error)
        else:
            self.send_result(result)
        if self.excess:
            self.too_much()

    def send_result(self, result):
        """Sends what the application has returned. Raises nothing."""
        try:
            kind = type(result)
            if kind is list or kind is tuple:
                self.send_list(result)
            else:
                try:
                    if kind is not FileWrapper or not self.send_regular_file(result):
                        self.send_items(result)
                finally:
                    close = getattr(result, "close", None)
                    if close is not None:
                        close()
        except BaseException as error:
            self.fail(error)

    def start_response(self, status, headers, exc_info=None):
        if exc_info is not None:
            try:
                if self.head_sent:
                    raise exc_info[1].with_traceback(exc_info[2])
            finally:
                exc_info = None
        elif self.status:
            raise RuleError("start_response was called twice without exc_info")
        code = STATUSES.get(status) if type(status) is str else None
        if code is None:
            code = self.check_status(status)
        if type(headers) is not list and not isinstance(headers, list):
            raise RuleError("headers is %s, not a list" % type(headers).__name__)
        self.block, self.length = text_block(headers, True)
        self.status = code
        self.bodiless = self.is_head or code == 204 or code == 304
        return self.write

    @staticmethod
    def check_status(status):
        if not isinstance(status, str):
            raise RuleError("status is %s, not str: %.100r" % (type(status).__name__, status))
        match = STATUS(status)
        if not match:
            raise RuleError("status %.100r is not three digits from 200 to 999, a space and a reason" % status)
        code = int(match.group(1))
        if len(STATUSES) < NAMES_MAX:
            STATUSES[status] = code
        return code

    def write(self, data):
        """The callable that start_response returns: sends at once."""
        self.send_item(data)
        self.lane.flush()

    def send_list(self, items):
        """Sends a body that is complete, with a Content-Length."""
        if len(items) == 1:
            data = items[0]
        else:
            try:
                data = b"".join(items)
            except TypeError as error:
                raise RuleError("the application's iterable does not yield bytes: %s" % error) from None
        if type(data) is not bytes and not isinstance(data, bytes):
            raise RuleError("the application's iterable yields %s, not bytes" % type(data).__name__)
        if not self.status:
            raise RuleError("the application did not call start_response")
        if self.head_sent:
            if data:
                self.send_item(data)
            return self.finish_items()
        size = len(data)
        if self.length != size:
            if self.bodiless:
                if size and self.is_head and self.length < 0:
                    self.block += b"Content-Length: %d\r\n" % size
            elif self.length < 0:
                self.block += b"Content-Length: %d\r\n" % size
            elif size > self.length:
                self.excess = True
                data = data[: self.length]
            else:
                self.sent = size
                return self.too_little()
        if self.bodiless:
            data = b""
        if len(data) <= self.credit and len(data) <= PART_MAX:
            self.send_whole(data)
        else:
            self.send_body(data, True)

    def send_whole(self, data):
        """Sends a whole response in one frame."""
        block = self.block
        lane = self.lane
        head = pack(len(block) + len(data), self.number, RESPONSE, END, self.status, len(block))
        lane.out.append(b"%b%b%b" % (head, block, data))
        self.head_sent = self.done = True
        del lane.streams[self.number]

    def send_items(self, result):
        """Sends what an iterable yields, each item before the next is asked for."""
        if isinstance(result, (str, bytes)) or not hasattr(result, "__iter__"):
            raise RuleError("the application returned %s, not an iterable of bytes" % type(result).__name__)
        self.send_each(result)

    def send_each(self, items):
        for item in items:
            if (
                type(item) is bytes
                and len(item) == self.length  # -1 before start_response
                and not self.head_sent
                and not self.bodiless
                and self.length <= self.credit
                and self.length <= PART_MAX
            ):
                self.sent = self.length
                self.send_whole(item)
            else:
                self.send_item(item)
            if not self.done or self.prompt or self.lane.seat.restless or not self.lane.streams:
                self.lane.flush()
            if self.excess or self.done and self.bodiless:
                return
        self.finish_items()

    def send_item(self, data):
        """Sends one item: less where it exceeds the Content-Length, with END where it completes it."""
        if type(data) is not bytes and not isinstance(data, bytes):
            raise RuleError("the application sent %s, not bytes" % type(data).__name__)
        if not self.status:
            raise RuleError("the application sent data before it called start_response")
        if not data:
            return
        if self.bodiless:
            if not self.done:
                self.send_body(b"", True)
            return
        if self.length >= 0:
            left = self.length - self.sent
            if len(data) >= left:
                if len(data) > left:
                    self.excess = True
                if not self.done:
                    self.send_body(data[:left], True)
                return
        if self.cancelled:
            raise ClientDisconnected("the client closed the connection before it had received the whole response")
        self.send_body(data, False)

    def finish_items(self):
        """The application has nothing more to send."""
        if self.done:
            return
        if not self.status:
            raise RuleError("the application did not call start_response")
        if self.length >= 0 and self.sent < self.length and not self.bodiless:
            return self.too_little()
        if not self.head_sent and self.length < 0 and not self.bodiless:
            self.block += b"Content-Length: 0\r\n"
        self.send_body(b"", True)

    def send_regular_file(self, wrapper):
        """Passes a file's descriptor to sluice. Returns False if there is none to pass."""
        regular = wrapper.regular()
        if regular is None or self.head_sent or not self.status:
            return False
        fd, offset, size = regular
        if self.length < 0:
            if self.status not in (204, 304):
                self.block += b"Content-Length: %d\r\n" % size
        elif self.length < size:
            size = self.length
        elif self.length > size and not self.bodiless:
            self.sent = size
            self.too_little()
            return True
        if self.bodiless or not size:
            self.send_body(b"", True)
            return True
        self.respond(b"", False)
        self.send_file(fd, offset, size, True)
        return True


class PromotedExchange(WsgiExchange):
    """A request that the accelerator has begun. Its methods raise nothing."""

    def returned(self, result):
        """The application has returned."""
        self.send_result(result)
        if self.excess:
            self.too_much()

    def raised(self, error):
        """The application has raised an exception."""
        self.fail(error)
        if self.excess:
            self.too_much()

    def take_over(self, result, items, begun):
        """Goes on with an iterable of which `begun` was read from `items`."""
        try:
            try:
                self.send_each(itertools.chain(begun, items))
            finally:
                close = getattr(result, "close", None)
                if close is not None:
                    close()
        except BaseException as error:
            self.fail(error)
        if self.excess:
            self.too_much()

    def fail_items(self, result, error):
        """The iterable has raised an exception."""

        def items():
            raise error
            yield

        self.take_over(result, items(), ())


def promoted(lane, number, environ, status, block, length, done):
    """The exchange that takes over from one of the accelerator."""
    exchange = PromotedExchange.__new__(PromotedExchange)
    exchange.lane = lane
    exchange.number = number
    exchange.environ = environ
    if status:
        exchange.status = status
        exchange.block = block
        if length is not None:
            exchange.length = length
    if done:
        exchange.head_sent = exchange.done = True
        exchange.sent = exchange.length
    return exchange


class WsgiSeat:
    """A thread that runs one request after the other."""

    def __init__(self, descriptors):
        self.application = worker.application
        self.template = environ_template()
        self.lanes = [BlockingLane(fd, self) for fd in descriptors]
        self.pending = deque()
        self.restless = 0
        for lane in self.lanes:
            lane.accelerate(
                more={**self.template, "wsgi.input": None},
                wsgi=(self.application, self.pending.append, promoted, io.BytesIO, FileWrapper),
            )
        self.busy = 0.0
        self.requests = 0
        self.wake_reader, self.wake_writer = os.pipe()
        self.threads = 0
        self.threads_lock = allocate_lock()
        self.threads_ended = allocate_lock()  # held while threads of further seats run

    def begin(self, lane, number, flags, environ):
        exchange = WsgiExchange(lane, number, flags, environ)
        lane.streams[number] = exchange
        self.pending.append(exchange)

    def flush(self):
        for lane in self.lanes:
            if lane.out:
                lane.flush()

    def wake(self):
        """Called by other threads: the seat looks at `worker.draining`."""
        os.write(self.wake_writer, b"x")

    def stats(self):
        return self.busy, self.requests, sum(len(lane.streams) for lane in self.lanes)

    def abandon(self):
        """Closes the lanes in a child that the application has forked."""
        for lane in self.lanes:
            lane.abandon()
        close(self.wake_reader)
        close(self.wake_writer)

    def start_thread(self, descriptors):
        """Starts a thread for one more seat. A method of the first seat, called by the control thread."""
        with worker.seat_lock:
            seat = WsgiSeat(descriptors)
            worker.seats.append(seat)
        with self.threads_lock:
            if not self.threads:
                self.threads_ended.acquire()
            self.threads += 1
        start_new_thread(self.run_thread, (seat,))

    def run_thread(self, seat):
        try:
            seat.serve()
        except BaseException as error:
            worker.log("error", "a thread of the worker failed", error)
            os._exit(1)
        finally:
            with self.threads_lock:
                self.threads -= 1
                if not self.threads:
                    self.threads_ended.release()

    def serve(self):
        """Runs requests until the process drains or the server has closed all lanes."""
        poller = current_poll()
        lanes = {lane.fd: lane for lane in self.lanes}
        for fd in lanes:
            poller.register(fd, POLLIN)
        poller.register(self.wake_reader, POLLIN)
        while lanes:
            draining = worker.draining
            ready = poller.poll(0 if draining else None)
            if draining and not ready:
                break
            for fd, _ in ready:
                lane = lanes.get(fd)
                if lane is None:
                    os.read(fd, 64)
                    continue
                lane.receive()
                if self.pending:
                    self.run_pending()
                if not lane.open:
                    poller.unregister(fd)
                    del lanes[fd]
        self.flush()

    def run_pending(self):
        if not worker.counting:
            worker.count_again()
        pending = self.pending
        mark = begun = clock()
        while pending:
            exchange = pending.popleft()
            lane = exchange.lane
            if exchange.prompt:
                lane.flush()
            exchange.run()
            now = clock()
            took = now - begun
            self.busy += took
            self.requests += 1
            if took > LONG:
                self.restless = RESTLESS
            elif self.restless:
                self.restless -= 1
            if now - mark > HELD or exchange.prompt or self.restless:
                lane.flush()
                if took > LOOK_AGAIN and pending:
                    for lane in self.lanes:
                        lane.look(None)
                mark = now = clock()
            begun = now
        self.flush()


def environ_template():
    """What the worker adds to the environ of each request, besides `wsgi.input`."""
    return {
        "wsgi.version": (1, 0),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": (worker.config.get("threads") or 1) > 1,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
        "wsgi.file_wrapper": FileWrapper,
        "wsgi.input_terminated": True,
        "SERVER_SOFTWARE": "sluice",
    }


def serve(descriptors):
    """Runs the application in this thread, and in further ones as the server asks for, until the process drains."""
    seat = WsgiSeat(descriptors)
    worker.seats.append(seat)
    worker.ready(None)
    seat.serve()
    worker.draining = True
    for other in worker.seats:
        other.wake()
    with seat.threads_ended:
        pass
