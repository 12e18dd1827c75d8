#: asgi
"""ASGI 3: HTTP and WebSocket."""

import os
import stat

from .control import worker
from .failures import ClientDisconnected, RuleError
from .frames import BODY, EARLY_HINTS, END, RESPONSE, TRAILERS, WEBSOCKET, pack
from .headers import bytes_block
from .lifespan import Lifespan
from .limits import HINTS_MAX, PART_MAX
from .tasks import AsyncSeat, AsyncStream, serve_lanes
from .websocket import WebSocketMixin

# What scopes have in common. sluice sends what differs, and `extensions` with `tls` for encrypted connections.
ASGI = {"version": "3.0", "spec_version": "2.5"}
HTTP_EXTENSIONS = {"http.response.pathsend": {}, "http.response.early_hint": {}, "http.response.trailers": {}}
EMPTY_BODY = {"type": "http.request", "body": b"", "more_body": False}
WEBSOCKET_EXTENSIONS = {"websocket.http.response": {}}


BAD_STATUS = "status is %r, not a number from 200 to 999"


class AsgiStream(AsyncStream):
    async def run(self, seat, scope):
        """Runs the application to its end. Raises nothing."""
        try:
            result = await seat.application(scope, self.receive, self.send)
            if result is not None or not self.done:
                self.returned(result)
        except BaseException as error:
            self.fail(error)
        del seat.active[self]
        if worker.draining:
            seat.ended(self)


class AsgiHttp(AsgiStream):
    """A request to an ASGI application."""

    body_given = False  # the application has received the end of the request body
    trailers = False

    async def receive(self):
        while True:
            if self.cancelled or self.done:
                return {"type": "http.disconnect"}
            if self.ended and not self.body_given:
                self.body_given = True
                return {"type": "http.request", "body": self.take_body() if self.chunks else b"", "more_body": False}
            if self.chunks:
                body = self.take_body()
                if self.lane.out and not self.lane.scheduled:
                    self.lane.schedule()
                return {"type": "http.request", "body": body, "more_body": True}
            await self.wait()

    async def send(self, message):
        kind = message["type"]
        if kind == "http.response.start" and not self.status:
            if self.cancelled:
                raise ClientDisconnected("the client closed the connection")
            status = message["status"]
            if not isinstance(status, int) or not 200 <= status <= 999:
                raise RuleError(BAD_STATUS % (status,))
            self.block, self.length = bytes_block(message.get("headers") or ())
            self.status = int(status)
            if self.is_head or status == 204 or status == 304:
                self.bodiless = True
            if "trailers" in message:
                self.trailers = message["trailers"]
            lane = self.lane
            lane.heads.append(self)
            if not lane.scheduled:
                lane.schedule()
        elif kind == "http.response.body" and self.status and not self.done:
            body = message.get("body", b"")
            if message.get("more_body", False):
                if body:
                    await self.send_part(body, False)
                return
            size = len(body)
            if (
                self.head_sent
                or self.length != size
                and self.length >= 0
                or self.bodiless
                or self.trailers
                or size > self.credit
                or size > PART_MAX
                or self.cancelled
                or type(body) is not bytes
            ):
                await self.send_part(body, not self.trailers)
                return
            # The whole response in one frame.
            block = self.block
            lane = self.lane
            lane.out.append(
                b"%b%b%b" % (pack(len(block) + size, self.number, RESPONSE, END, self.status, len(block)), block, body)
            )
            self.head_sent = self.done = True
            del lane.streams[self.number]
            if self.waiters:
                self.wake()
            lane.flush_soon(self.prompt)
        else:
            await self.send_other(kind, message)

    async def send_part(self, body, end):
        if not isinstance(body, bytes):
            if not isinstance(body, (bytearray, memoryview)):
                raise RuleError("body is %s, not bytes" % type(body).__name__)
            body = bytes(body)
        if self.bodiless:
            body = b""
        elif self.length >= 0:
            size = self.sent + len(body)
            if size > self.length:
                raise RuleError("the response is longer than its Content-Length of %d bytes" % self.length)
            if end and size < self.length:
                raise RuleError("the response is shorter than its Content-Length of %d bytes" % self.length)
        await self.send_body(body, end)

    async def send_other(self, kind, message):
        """Messages that few applications send, and messages out of order."""
        if self.cancelled:
            raise ClientDisconnected("the client closed the connection")
        if self.done:
            raise RuleError("unexpected ASGI message %r after the response was complete" % kind)
        if not self.status:
            if kind == "http.response.early_hint":
                links = list(message["links"])[:HINTS_MAX]
                block, _ = bytes_block([(b"link", link) for link in links])
                self.frame(EARLY_HINTS, 0, 103, len(block), block)
                return
            raise RuleError("expected ASGI message 'http.response.start', but got %r" % kind)
        if kind == "http.response.trailers" and self.trailers:
            block, _ = bytes_block(message.get("headers") or ())
            end = not message.get("more_trailers", False)
            if not self.head_sent:
                self.respond(b"", False)
            self.frame(TRAILERS, END if end else 0, 0, len(block), block)
            if end:
                self.finish()
        elif kind == "http.response.pathsend" and not self.sent:
            self.send_path(message["path"], not self.trailers)
        else:
            raise RuleError("expected ASGI message 'http.response.body', but got %r" % kind)

    def send_path(self, path, end):
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            info = os.fstat(fd)
            if not stat.S_ISREG(info.st_mode):
                raise RuleError("%s is not a regular file" % path)
            size = info.st_size
            if self.length < 0:
                if not self.head_sent and self.status != 204 and self.status != 304:
                    self.block += b"content-length: %d\r\n" % size
            elif self.length != size and not self.bodiless:
                raise RuleError("%s has %d bytes, but Content-Length is %d" % (path, size, self.length))
            empty = self.bodiless or not size
            if not self.head_sent:
                self.respond(b"", empty and end)
            if not empty:
                self.send_file(fd, 0, size, end)
            elif end and not self.done:
                self.frame(BODY, END)
                self.finish()
        finally:
            os.close(fd)
        if self.lane.out and not self.lane.scheduled:
            self.lane.schedule()

    def returned(self, result):
        if result is not None and not self.cancelled:
            worker.log("error", "an ASGI application should return None, but returned %s" % type(result).__name__)
        if not self.done:
            super().returned(result)


class AsyncWebSocket(WebSocketMixin, AsyncStream):
    async def send_message(self, payload, text):
        while not self.message_room(len(payload)) or self.lane.backlog:
            if self.gone():
                break
            self.lane.flush()
            await self.wait()
        if self.gone():
            raise ClientDisconnected("the client closed the WebSocket")
        if self.done:
            raise RuleError("a WebSocket message after close")
        self.message_frame(payload, text)
        self.lane.flush_soon(True)
        if self.rest is not None:
            number = self.long_messages
            while self.in_pieces(number):
                await self.wait()
            if self.gone():
                raise ClientDisconnected("the client closed the WebSocket")


class AsgiWebSocket(AsyncWebSocket, AsgiStream):
    """A WebSocket of an ASGI application."""

    connect_given = False
    denied = False  # the application sends a response of its own

    async def receive(self):
        if not self.connect_given:
            self.connect_given = True
            return {"type": "websocket.connect"}
        while True:
            if self.accepted and self.messages:
                data = self.next_message()
                if type(data) is str:
                    return {"type": "websocket.receive", "text": data}
                return {"type": "websocket.receive", "bytes": data}
            if self.close_code or self.cancelled or self.done:
                return {
                    "type": "websocket.disconnect",
                    "code": self.close_code or 1006,
                    "reason": self.close_reason,
                }
            await self.wait()

    async def send(self, message):
        kind = message["type"]
        if self.done:
            raise RuleError(
                "unexpected ASGI message %r, after sending 'websocket.close' or response already completed" % kind
            )
        if self.gone():
            raise ClientDisconnected("the client closed the WebSocket")
        if kind == "websocket.send" and self.accepted:
            data = message.get("bytes")
            if data is not None:
                await self.send_message(bytes(data), False)
            else:
                text = message.get("text")
                if text is None:
                    raise RuleError("'websocket.send' has neither 'bytes' nor 'text'")
                await self.send_message(text.encode("utf-8"), True)
        elif kind == "websocket.accept" and not self.accepted and not self.denied:
            self.accept(message.get("subprotocol"), message.get("headers") or ())
        elif kind == "websocket.close" and not self.denied:
            self.close_frame(message.get("code") or 1000, message.get("reason") or "")
            self.lane.flush_soon(True)
        elif kind == "websocket.http.response.start" and not self.accepted and not self.denied:
            self.denied = True
            await AsgiHttp.send(self, {**message, "type": "http.response.start"})
        elif kind == "websocket.http.response.body" and self.denied:
            body = message.get("body", b"")
            await AsgiHttp.send_part(self, body, not message.get("more_body", False))
        elif self.accepted:
            raise RuleError("expected ASGI message 'websocket.send' or 'websocket.close', but got %r" % kind)
        elif self.denied:
            raise RuleError("expected ASGI message 'websocket.http.response.body', but got %r" % kind)
        else:
            raise RuleError(
                "expected ASGI message 'websocket.accept', 'websocket.close' or 'websocket.http.response.start', "
                "but got %r" % kind
            )

    def accept(self, subprotocol, headers):
        pairs = [(bytes(name), value) for name, value in headers]
        if any(name.lower() == b"sec-websocket-protocol" for name, _ in pairs):
            raise RuleError("Sec-WebSocket-Protocol is a header; use the message's 'subprotocol'")
        if subprotocol is not None:
            pairs.insert(0, (b"sec-websocket-protocol", subprotocol.encode("ascii")))
        block, _ = bytes_block(pairs)
        self.accept_frame(block)
        self.lane.flush_soon(True)

    def returned(self, result):
        if self.done:
            return
        if self.gone():
            self.end_silently()
        elif self.accepted:
            self.close_frame(1000, "")
        else:
            super().returned(result)


async def run_quickly(stream, seat, scope):
    """What AsgiStream.run does, for a stream of the accelerator."""
    try:
        result = await seat.application(scope, stream.receive, stream.send)
        if result is not None or not stream.done:
            stream.promote().returned(result)
    except BaseException as error:
        stream.promote().fail(error)
    del seat.active[stream.actual]
    if worker.draining:
        seat.ended(stream)


def promoted(lane, number, status, block, length, body_given, done):
    """The stream that takes over from one of the accelerator."""
    stream = AsgiHttp(lane, number, END)
    stream.body_given = body_given
    if status:
        stream.status = status
        stream.block = block
        if length is not None:
            stream.length = length
    if done:
        stream.head_sent = stream.done = True
    return stream


class AsgiSeat(AsyncSeat):
    def accelerate(self):
        for lane in self.lanes:
            quick = (self.begin_quickly, promoted, self.active, lane.heads, ASGI, HTTP_EXTENSIONS, EMPTY_BODY)
            lane.accelerate(asgi=quick)

    def begin_quickly(self, lane, stream, scope):
        """Begins a request that the accelerator serves."""
        if self.state is not None:
            scope["state"] = self.state.copy()
        lane.begun = True
        self.requests += 1
        if self.eager:
            self.active[stream] = None
            task = self.create_task(run_quickly(stream, self, scope))
            if stream.actual in self.active:
                self.active[stream.actual] = task
        else:
            self.active[stream] = self.create_task(run_quickly(stream, self, scope))

    def begin(self, lane, number, flags, scope):
        scope["asgi"] = ASGI.copy()
        if flags & WEBSOCKET:
            stream = AsgiWebSocket(lane, number, flags)
            scope["extensions"] = {**WEBSOCKET_EXTENSIONS, **scope.get("extensions", {})}
        else:
            stream = AsgiHttp(lane, number, flags)
            if "extensions" in scope:
                scope["extensions"].update(HTTP_EXTENSIONS)
            else:
                scope["extensions"] = HTTP_EXTENSIONS.copy()
            method = scope["method"]
            if method != "GET":
                stream.is_head = method == "HEAD"
                stream.prompt = not stream.is_head
        if self.state is not None:
            scope["state"] = self.state.copy()
        lane.begun = True
        self.requests += 1
        lane.streams[number] = stream
        if self.eager:
            self.start_eagerly(stream, scope)
        else:
            self.active[stream] = self.create_task(stream.run(self, scope))


async def run(loop, name, descriptors):
    """Runs an ASGI application between the startup and the shutdown of its lifespan."""
    seat = AsgiSeat(loop, descriptors)
    lifespan = None
    wanted = worker.config.get("lifespan") or "auto"
    if wanted != "off":
        lifespan = Lifespan(loop, worker.application, wanted == "on")
        if await lifespan.start():
            seat.state = lifespan.state
        else:
            lifespan = None
    await serve_lanes(seat, name)
    if lifespan is not None:
        await lifespan.stop()
