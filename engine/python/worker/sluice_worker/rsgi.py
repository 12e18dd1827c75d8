#: rsgi
"""RSGI, as granian publishes it."""

from .asgi import AsgiWebSocket, AsyncWebSocket
from .control import worker
from .failures import ClientDisconnected, RuleError, brief
from .frames import BODY, END, SAFE_METHODS, WEBSOCKET
from .responses import ResponseMixin, address
from .tasks import AsyncSeat, AsyncStream, serve_lanes
from .websocket import SocketMessage


class RsgiScope:
    """What RSGI applications get instead of a dictionary."""

    rsgi_version = "1.6"

    def __init__(self, scope, proto):
        self.proto = proto
        self.http_version = scope["http_version"]
        self.server = address(scope.get("server"))
        self.client = address(scope.get("client"))
        self.scheme = scope["scheme"]
        self.method = scope.get("method", "GET")
        self.path = scope["path"]
        self.query_string = scope["query_string"].decode("latin-1")
        self.headers = RsgiHeaders(scope["headers"])
        self.authority = self.headers.get("host")


class RsgiHeaders:
    """Headers by name, without regard to case. Indexing gives the first value."""

    def __init__(self, pairs):
        self.pairs = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in pairs]
        self.first = dict(reversed(self.pairs))

    def __getitem__(self, name):
        return self.first[name.lower()]

    def __contains__(self, name):
        return name.lower() in self.first

    def __iter__(self):
        return iter(self.keys())

    def __len__(self):
        return len(self.first)

    def get(self, name, default=None):
        return self.first.get(name.lower(), default)

    def get_all(self, name):
        name = name.lower()
        return [value for key, value in self.pairs if key == name]

    def keys(self):
        return list(dict(self.pairs))

    def values(self):
        return [value for _, value in self.pairs]

    def items(self):
        return list(self.pairs)


class RsgiStream(AsyncStream):
    async def run(self, seat, scope):
        """Runs the application to its end. Raises nothing."""
        try:
            await seat.call(scope, self)
            if not self.done:
                self.returned(None)
        except BaseException as error:
            self.fail(error)
        del seat.active[self]
        if worker.draining:
            seat.ended(self)


class RsgiHttp(ResponseMixin, RsgiStream):
    """The protocol object of a request to an RSGI application, and the transport of its streamed response."""

    streaming = False

    async def __call__(self):
        parts = [part async for part in self]
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def __aiter__(self):
        while True:
            if self.chunks:
                yield self.take_body()
            elif self.ended:
                return
            elif self.cancelled or self.done:
                raise ClientDisconnected("the client closed the connection before it had sent the whole request body")
            else:
                await self.wait()

    async def client_disconnect(self):
        while not self.cancelled:
            await self.wait()

    def begin_response(self, body):
        rest = self.respond(body, True)
        if rest:
            seat = self.lane.seat
            task = seat.loop.create_task(self.send_rest(rest))
            seat.active[task] = task
            task.add_done_callback(seat.ended)
        self.lane.flush_soon(self.prompt)

    async def send_rest(self, rest):
        try:
            await self.send_body(rest, True)
        except ClientDisconnected:
            self.end_silently()

    def response_stream(self, status, headers=()):
        self.prepare(status, headers)
        self.streaming = True
        self.lane.heads.append(self)
        if not self.lane.scheduled:
            self.lane.schedule()
        return self

    async def send_bytes(self, data):
        if not self.streaming or self.done:
            raise RuleError("the response is not a stream, or it is complete")
        if not isinstance(data, bytes):
            raise RuleError("data is %s, not bytes" % type(data).__name__)
        if data and not self.bodiless:
            if 0 <= self.length < self.sent + len(data):
                raise RuleError("the response is longer than its Content-Length of %d bytes" % self.length)
            await self.send_body(data, False)

    async def send_str(self, data):
        await self.send_bytes(data.encode("utf-8"))

    def returned(self, result):
        if self.done or not self.status:
            if not self.done:
                super().returned(result)
        elif self.cancelled:
            self.end_silently()
        elif self.streaming:
            if self.sent < self.length and not self.bodiless:
                return self.too_little()
            if not self.head_sent:
                self.respond(b"", True)
            else:
                self.frame(BODY, END)
                self.finish()


class RsgiWebSocket(AsyncWebSocket, RsgiStream):
    """The protocol object of a WebSocket of an RSGI application, and its transport."""

    async def accept(self):
        if self.accepted or self.done:
            raise RuleError("the WebSocket was accepted or closed already")
        if self.gone():
            raise ClientDisconnected("the client closed the WebSocket")
        self.accept_frame(b"")
        self.lane.flush_soon(True)
        return self

    def close(self, status=None):
        if not self.done:
            if self.gone():
                self.end_silently()
            else:
                self.close_frame(1000 if status is None else status, "")
            self.lane.flush_soon(True)
        return self.close_code, True

    async def receive(self):
        while not self.messages:
            if self.gone() or self.done:
                return SocketMessage(0)
            await self.wait()
        data = self.next_message()
        return SocketMessage(2 if type(data) is str else 1, data)

    async def send_bytes(self, data):
        await self.send_message(bytes(data), False)

    async def send_str(self, data):
        await self.send_message(data.encode("utf-8"), True)

    returned = AsgiWebSocket.returned


class RsgiSeat(AsyncSeat):
    def begin(self, lane, number, flags, scope):
        if flags & WEBSOCKET:
            stream = RsgiWebSocket(lane, number, flags)
            proto = "ws"
        else:
            stream = RsgiHttp(lane, number, flags)
            stream.is_head = scope["method"] == "HEAD"
            stream.prompt = scope["method"] not in SAFE_METHODS
            proto = "http"
        lane.begun = True
        self.requests += 1
        lane.streams[number] = stream
        self.active[stream] = None
        task = self.create_task(stream.run(self, RsgiScope(scope, proto)))
        if stream in self.active:  # not ended yet, which an eager task may
            self.active[stream] = task


async def run(loop, name, descriptors):
    application = worker.application
    seat = RsgiSeat(loop, descriptors)
    seat.call = getattr(application, "__rsgi__", application)
    try:
        if hasattr(application, "__rsgi_init__"):
            application.__rsgi_init__(loop)
    except Exception as error:
        worker.fail("lifespan", "the application's __rsgi_init__ raised: %s" % brief(error), error)
    await serve_lanes(seat, name)
    if hasattr(application, "__rsgi_del__"):
        application.__rsgi_del__(loop)
