"""A bare ASGI application that shows what it got, and uses each part of ASGI 3."""

import asyncio
import functools
import json
import os
import tempfile
import zlib

STATE = {"disconnects": 0}
LATE = asyncio.Event()


async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        return await lifespan(scope, receive, send)
    if scope["type"] == "websocket":
        return await websocket(scope, receive, send)
    await ROUTES.get(scope["path"], show)(scope, receive, send)


async def lifespan(scope, receive, send):
    assert (await receive())["type"] == "lifespan.startup"
    if os.environ.get("LIFESPAN") == "fails":
        await send({"type": "lifespan.startup.failed", "message": "no database"})
        return
    scope["state"]["greeting"] = "from lifespan"
    await send({"type": "lifespan.startup.complete"})
    assert (await receive())["type"] == "lifespan.shutdown"
    path = os.environ.get("SHUTDOWN_FILE")
    if path:
        with open(path, "w") as file:
            file.write("shut down")
    await send({"type": "lifespan.shutdown.complete"})


async def text(send, body, status=200, headers=()):
    body = body.encode() if isinstance(body, str) else body
    length = str(len(body)).encode()
    start = [(b"content-type", b"text/plain"), (b"content-length", length), *headers]
    await send({"type": "http.response.start", "status": status, "headers": start})
    await send({"type": "http.response.body", "body": body})


def printable(value):
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, (list, tuple)):
        return [printable(one) for one in value]
    if isinstance(value, dict):
        return {printable(name): printable(one) for name, one in value.items()}
    return value if isinstance(value, (str, int, float, bool, type(None))) else repr(value)


async def show(scope, receive, send):
    await text(send, json.dumps(printable(scope), sort_keys=True))


async def process(scope, receive, send):
    await text(send, str(os.getpid()))


async def digest(scope, receive, send):
    length, total, more = 0, 0, True
    while more:
        event = await receive()
        if event["type"] == "http.disconnect":
            return
        length += len(event["body"])
        total = zlib.crc32(event["body"], total)
        more = event.get("more_body", False)
    await text(send, f"{length} {total:08x}")


async def both_ways(scope, receive, send):
    """Sends each piece of the request back while the rest arrives."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    more = True
    while more:
        event = await receive()
        more = event.get("more_body", False)
        await send({"type": "http.response.body", "body": event["body"], "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def events(scope, receive, send):
    """Server-sent events until the client is gone."""
    headers = [(b"content-type", b"text/event-stream")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    gone = asyncio.ensure_future(receive_disconnect(receive))
    number = 0
    while not gone.done():
        body = f"data: {number}\n\n".encode()
        await send({"type": "http.response.body", "body": body, "more_body": True})
        number += 1
        await asyncio.wait({gone}, timeout=0.02)
    STATE["disconnects"] += 1


async def receive_disconnect(receive):
    while (await receive())["type"] != "http.disconnect":
        pass


async def disconnects(scope, receive, send):
    await text(send, str(STATE["disconnects"]))


async def endless(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    try:
        while True:
            await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})
    finally:
        STATE["disconnects"] += 1


async def large(scope, receive, send):
    """So many bytes."""
    left = int(scope["query_string"])
    length = str(left).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", length)]})
    block = b"x" * 65536
    while left > 0:
        piece = block[:left]
        left -= len(piece)
        await send({"type": "http.response.body", "body": piece, "more_body": left > 0})


async def hints(scope, receive, send):
    if "http.response.early_hint" in scope.get("extensions", {}):
        await send({"type": "http.response.early_hint", "links": [b"</style.css>; rel=preload"]})
    await text(send, "hinted")


async def trailers(scope, receive, send):
    headers = [(b"trailer", b"x-sum")]
    await send({"type": "http.response.start", "status": 200, "headers": headers, "trailers": True})
    await send({"type": "http.response.body", "body": b"with trailers"})
    await send({"type": "http.response.trailers", "headers": [(b"x-sum", b"13")], "more_trailers": False})


async def path(scope, receive, send):
    with tempfile.NamedTemporaryFile(delete=False) as file:
        file.write(b"from a file\n" * 1000)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"12000")]})
    await send({"type": "http.response.pathsend", "path": file.name})
    os.unlink(file.name)


async def slow(scope, receive, send):
    await asyncio.sleep(float(scope["query_string"] or b"0.2"))
    await text(send, "slept")


@functools.lru_cache(4)
def alike(size):
    """Bytes that all WebSockets share."""
    return b"y" * size


async def websocket(scope, receive, send):
    """Echoes messages, or receives none at `/deaf`, and at `/late` when it is told; `close CODE REASON` closes, `large N` sends N bytes, `scope` shows the scope."""
    assert (await receive())["type"] == "websocket.connect"
    if scope["path"] == "/refuse":
        await send({"type": "websocket.close"})
        return
    if scope["path"] == "/deny":
        headers = [(b"content-type", b"text/plain")]
        await send({"type": "websocket.http.response.start", "status": 401, "headers": headers})
        await send({"type": "websocket.http.response.body", "body": b"who are you?"})
        return
    offered = scope["subprotocols"]
    chosen = "chat.v2" if "chat.v2" in offered else None
    await send({"type": "websocket.accept", "subprotocol": chosen, "headers": [(b"x-greeting", b"hi")]})
    if scope["path"] == "/deaf":
        await asyncio.Event().wait()
    if scope["path"] == "/late":
        await LATE.wait()
    while True:
        event = await receive()
        if event["type"] == "websocket.disconnect":
            STATE["disconnects"] += 1
            STATE["code"] = event.get("code")
            return
        message = event.get("text")
        if message is None:
            await send({"type": "websocket.send", "bytes": event["bytes"]})
        elif message.startswith("close "):
            _, code, reason = message.split(" ", 2)
            await send({"type": "websocket.close", "code": int(code), "reason": reason})
            return
        elif message.startswith("large "):
            await send({"type": "websocket.send", "bytes": alike(int(message[6:]))})
        elif message == "scope":
            await send({"type": "websocket.send", "text": json.dumps(printable(scope), sort_keys=True)})
        elif message == "pid":
            await send({"type": "websocket.send", "text": str(os.getpid())})
        elif message == "raise":
            raise RuntimeError("on purpose")
        else:
            await send({"type": "websocket.send", "text": message})


async def loop(scope, receive, send):
    """The module of the event loop."""
    await text(send, type(asyncio.get_running_loop()).__module__)


async def listen(scope, receive, send):
    """Lets WebSockets at `/late` receive."""
    LATE.set()
    await text(send, "done")


async def last_code(scope, receive, send):
    await text(send, str(STATE.get("code")))


ROUTES = {
    "/pid": process, "/digest": digest, "/both-ways": both_ways, "/events": events, "/disconnects": disconnects,
    "/endless": endless, "/hints": hints, "/trailers": trailers, "/path": path, "/slow": slow, "/last-code": last_code,
    "/loop": loop, "/listen": listen, "/large": large,
}
