#: esgi
"""ESGI 0.1: blocking calls in greenlets."""

from .control import worker
from .failures import ClientDisconnected, RuleError, brief
from .frames import END, SAFE_METHODS, WEBSOCKET
from .greenlets import GeventSeat, GeventStream
from .responses import ResponseMixin, address
from .websocket import SocketMessage, WebSocketMixin


class EsgiStream(GeventStream):
    def __init__(self, lane, number, flags, scope, proto):
        self.lane = lane
        self.number = number
        self.scope = esgi_scope(scope, proto)
        self.is_head = self.scope["method"] == "HEAD"
        self.prompt = self.scope["method"] not in SAFE_METHODS
        if not flags & END:
            self.ended = False

    def run(self):
        if self.cancelled:
            return self.end_silently()
        try:
            self.lane.seat.call(self.scope, self)
            if not self.done:
                self.returned()
        except BaseException as error:
            self.fail(error)

    def returned(self):
        if self.gone():
            self.end_silently()
        elif not self.status:
            self.break_rule("the application returned without a response")
        else:
            self.break_rule("the application returned before its response was complete")


class EsgiHttp(ResponseMixin, EsgiStream):
    """The protocol object of a request to an ESGI application, and the transport of its streamed response."""

    body_taken = False
    streaming = False

    def read_body(self, limit=None):
        if limit is not None:
            return super().read_body(limit)
        return b"".join(self.iter_body())

    def iter_body(self):
        if self.body_taken:
            raise RuleError("the request body was read already")
        self.body_taken = True
        return iter(super().read_body, b"")

    def wait_disconnect(self):
        while not self.cancelled and not self.done:
            self.wait()

    def begin_response(self, body):
        self.send_body(body, True)

    def response_stream(self, status, headers=()):
        self.prepare(status, headers)
        self.streaming = True
        return self

    def send_bytes(self, data):
        if not self.streaming or self.done:
            raise RuleError("the response is not a stream, or it is complete")
        if not isinstance(data, bytes):
            raise RuleError("data is %s, not bytes" % type(data).__name__)
        if self.cancelled:
            raise ClientDisconnected("the client closed the connection")
        if data and not self.bodiless:
            if 0 <= self.length < self.sent + len(data):
                raise RuleError("the response is longer than its Content-Length of %d bytes" % self.length)
            self.send_body(data, False)
            self.lane.flush()

    def send_str(self, data):
        self.send_bytes(data.encode("utf-8"))

    def returned(self):
        if not self.streaming or self.cancelled:
            return super().returned()
        if self.sent < self.length and not self.bodiless:
            return self.too_little()
        self.send_body(b"", True)


class EsgiWebSocket(WebSocketMixin, EsgiStream):
    """The protocol object of a WebSocket of an ESGI application, and its transport."""

    def accept(self):
        if self.accepted or self.done:
            raise RuleError("the WebSocket was accepted or closed already")
        if self.gone():
            raise ClientDisconnected("the client closed the WebSocket")
        self.accept_frame(b"")
        self.lane.flush()
        return self

    def close(self, code=None, reason=None):
        if self.done:
            return
        if self.gone():
            self.end_silently()
        else:
            self.close_frame(1000 if code is None else int(code), reason or "")
        self.lane.flush()

    def receive(self):
        while not self.messages:
            if self.gone() or self.done:
                return SocketMessage(0, self.close_code or 1006)
            self.wait()
        data = self.next_message()
        return SocketMessage(2 if type(data) is str else 1, data)

    def send_bytes(self, data):
        self.send_message(bytes(data), False)

    def send_str(self, data):
        self.send_message(data.encode("utf-8"), True)

    def send_message(self, payload, text):
        while not self.message_room(len(payload)) or self.lane.backlog:
            if self.gone():
                break
            self.wait()
        if self.gone():
            raise ClientDisconnected("the client closed the WebSocket")
        if self.done or not self.accepted:
            raise RuleError("a WebSocket message before accept or after close")
        self.message_frame(payload, text)
        if not self.lane.scheduled:
            self.lane.schedule()
        if self.rest is not None:
            number = self.long_messages
            while self.in_pieces(number):
                self.wait()
            if self.gone():
                raise ClientDisconnected("the client closed the WebSocket")

    def returned(self):
        if self.gone():
            self.end_silently()
        elif self.accepted:
            self.close_frame(1000, "")
        else:
            super().returned()


def esgi_scope(scope, proto):
    """ESGI's scope from ASGI's."""
    headers = {}
    for name, value in scope["headers"]:
        name = name.decode("latin-1")
        value = value.decode("latin-1")
        headers[name] = headers[name] + ", " + value if name in headers else value
    return {
        "proto": proto,
        "esgi_version": "0.1",
        "http_version": scope["http_version"],
        "server": address(scope.get("server")),
        "client": address(scope.get("client")),
        "scheme": scope["scheme"],
        "method": scope.get("method", "GET"),
        "path": scope["path"],
        "query_string": scope["query_string"].decode("latin-1"),
        "headers": headers,
        "authority": headers.get("host"),
    }


class EsgiSeat(GeventSeat):
    """The seat of an ESGI application."""

    def __init__(self, descriptors):
        super().__init__(descriptors)
        self.call = getattr(self.application, "__esgi__", self.application)

    def new_stream(self, lane, number, flags, scope):
        if flags & WEBSOCKET:
            return EsgiWebSocket(lane, number, flags, scope, "ws")
        return EsgiHttp(lane, number, flags, scope, "http")

    def start(self):
        if hasattr(self.application, "__esgi_init__"):
            try:
                self.application.__esgi_init__()
            except Exception as error:
                worker.fail("lifespan", "the application's __esgi_init__ raised: %s" % brief(error), error)

    def end(self):
        if hasattr(self.application, "__esgi_del__"):
            self.application.__esgi_del__()
