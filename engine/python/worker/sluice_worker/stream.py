#: stream
"""Streams: what the requests of all interfaces have in common."""

from collections import deque

from .control import garbage, worker
from .failures import RuleError, bounded, failure_text, is_disconnect
from .frames import (
    AFTER_HEAD,
    BEFORE_RESPONSE,
    BODY,
    BODY_IN,
    CANCEL,
    CREDIT,
    CREDIT_IN,
    END,
    ERROR,
    FILE,
    FILE_RANGE,
    RESPONSE,
    RULE,
    WS_CLOSE_IN,
    WS_MESSAGE_IN,
    pack,
)
from .limits import PART_MAX


class Stream:
    """One request. Subclasses add the interface; attributes that few streams need have their defaults here."""

    credit = 0  # bytes of the response body that may be sent; the window of CONFIG to begin with
    ended = True  # the request body is complete
    cancelled = False
    head_sent = False
    done = False  # END was sent
    unacknowledged = 0  # bytes of the request body read since the last CREDIT
    status = 0  # 0: the application has not given one
    block = b""
    length = -1  # the Content-Length that the application declared
    sent = 0  # bytes of the response body
    bodiless = False  # HEAD, 204, 304
    is_head = False
    prompt = False  # nothing waits for others: the request must not be repeated
    chunks = ()

    def receive_frame(self, kind, flags, small, large, payload):
        if kind == BODY_IN:
            if len(payload):
                if not self.chunks:
                    self.chunks = deque()
                self.chunks.append(bytes(payload))
            if flags & END:
                self.ended = True
        elif kind == CREDIT_IN:
            self.credit += large
        elif kind == CANCEL:
            self.cancelled = True
            if small:  # the request has taken longer than request_timeout
                self.stop()
        elif kind == WS_MESSAGE_IN or kind == WS_CLOSE_IN:
            self.receive_message(kind, flags, small, bytes(payload))
        else:
            garbage("a frame of type %#x" % kind)
        self.wake()

    def receive_message(self, kind, flags, small, payload):
        garbage("a WebSocket frame for a request without WebSocket")

    def stop(self):
        """Stops the application in the middle, where that is possible: tasks and greenlets."""

    def wake(self):
        """Something happened that a blocked call may wait for."""

    def frame(self, kind, flags=0, small=0, large=0, payload=b""):
        self.lane.out.append(pack(len(payload), self.number, kind, flags, small, large) + payload)

    def finish(self):
        """END was sent: the stream is over for the server."""
        self.done = True
        self.lane.streams.pop(self.number, None)

    def end_silently(self):
        """The END that a cancelled request still owes."""
        if not self.done:
            self.frame(BODY, END)
            self.finish()

    def take_body(self, limit=None):
        """Takes the received part of the request body, and gives the server credit for it."""
        chunks = self.chunks
        if not chunks:
            return b""
        if limit is not None and len(chunks[0]) > limit:
            data = chunks[0][:limit]
            chunks[0] = chunks[0][limit:]
        elif limit is not None or len(chunks) == 1:
            data = chunks.popleft()
        else:
            data = b"".join(chunks)
            chunks.clear()
        self.acknowledge(len(data))
        return data

    def acknowledge(self, count):
        if self.ended or self.done:
            return
        self.unacknowledged += count
        if self.unacknowledged * 2 >= worker.window:
            self.frame(CREDIT, 0, 0, self.unacknowledged)
            self.unacknowledged = 0

    def respond(self, data, end):
        """Writes RESPONSE with as much of `data` as credit allows, and returns the rest."""
        part = data
        room = min(self.credit, PART_MAX)
        if len(data) > room:
            part = data[:room]
            data = data[room:]
            end = False
        else:
            data = b""
        self.head_sent = True
        self.credit -= len(part)
        block = self.block
        self.lane.out.append(
            pack(len(block) + len(part), self.number, RESPONSE, end, self.status, len(block)) + block + part
        )
        if end:
            self.finish()
        return data

    def send_file(self, fd, offset, length, end):
        """Writes FILE. The descriptor may be closed afterwards."""
        flags = END if end else 0
        frame = pack(FILE_RANGE.size, self.number, FILE, flags, 0, 0) + FILE_RANGE.pack(offset, length)
        self.lane.send_descriptor(frame, fd)
        self.sent += length
        if end:
            self.finish()

    def gone(self):
        """Whether the client is gone."""
        return self.cancelled

    def fail(self, error):
        """The application raised `error`."""
        if self.done or self.gone():
            if not is_disconnect(error):
                when = "after its response" if self.done else "after its client had gone"
                worker.log("error", "the application raised an exception " + when, error)
            self.end_silently()
        elif self.head_sent:
            self.error(AFTER_HEAD, failure_text(error))
        else:
            self.error(RULE if isinstance(error, RuleError) else BEFORE_RESPONSE, failure_text(error))

    def break_rule(self, text):
        """The application returned, and broke a rule by what it did not do."""
        self.error(AFTER_HEAD if self.head_sent else RULE, text)

    def error(self, kind, text):
        if not self.done:
            self.frame(ERROR, END, kind, 0, bounded(text))
            self.finish()

    def too_much(self):
        worker.log(
            "warn",
            "the application sent more than its Content-Length of %d bytes; sluice dropped the rest" % self.length,
        )

    def too_little(self):
        self.break_rule("Content-Length is %d, but the application sent %d bytes" % (self.length, self.sent))
