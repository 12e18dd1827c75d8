"""An ASGI application for the tests of the host."""

import asyncio
import os
import time
from urllib.parse import parse_qs


async def respond(send, text, headers=()):
    data = text.encode()
    length = [(b"content-length", str(len(data)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": length + list(headers)})
    await send({"type": "http.response.body", "body": data})


async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        return await lifespan(receive, send)
    path = scope["path"]
    query = {name: values[0] for name, values in parse_qs(scope["query_string"].decode()).items()}
    if scope["type"] == "websocket":
        return await websocket(path, receive, send)
    if path == "/pid":
        return await respond(send, str(os.getpid()))
    if path == "/scope":
        keys = sorted(key for key in scope if key not in ("extensions", "state", "asgi"))
        return await respond(send, "\n".join("%s=%r" % (key, scope[key]) for key in keys))
    if path == "/wait":
        while not os.path.exists(query["file"]):
            await asyncio.sleep(0.005)
        return await respond(send, "seen")
    if path == "/disconnect":
        open(query["begun"], "w").close()
        message = await receive()
        while message["type"] == "http.request":
            message = await receive()
        with open(query["file"], "w") as file:
            file.write(message["type"])
        return
    if path == "/block":
        while True:
            time.sleep(1)
    if path == "/echo":
        size = 0
        more = True
        while more:
            message = await receive()
            size += len(message.get("body", b""))
            more = message.get("more_body", False)
        return await respond(send, str(size))
    if path == "/stream":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        total = int(query["bytes"])
        sent = 0
        while sent < total:
            piece = b"x" * min(16384, total - sent)
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            sent += len(piece)
            if "file" in query:
                with open(query["file"], "w") as file:
                    file.write(str(sent))
        return await send({"type": "http.response.body", "body": b""})
    if path == "/trailers":
        await send({"type": "http.response.start", "status": 200, "headers": [], "trailers": True})
        await send({"type": "http.response.body", "body": b"body"})
        trailers = [(b"x-sum", b"42")]
        return await send({"type": "http.response.trailers", "headers": trailers, "more_trailers": False})
    if path == "/file":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        return await send({"type": "http.response.pathsend", "path": query["file"]})
    if path == "/raise":
        raise ValueError("raised on purpose")
    await respond(send, "hello")


async def lifespan(receive, send):
    await receive()
    await send({"type": "lifespan.startup.complete"})
    await receive()
    if "SHUTDOWN_FILE" in os.environ:
        open(os.environ["SHUTDOWN_FILE"], "w").close()
    await send({"type": "lifespan.shutdown.complete"})


async def websocket(path, receive, send):
    await receive()
    if path == "/refuse":
        return await send({"type": "websocket.close", "code": 1000})
    await send({"type": "websocket.accept", "subprotocol": "v1"})
    if path == "/deaf":
        await asyncio.Event().wait()
    while True:
        message = await receive()
        if message["type"] == "websocket.disconnect":
            if path.startswith("/file"):
                with open(path[5:], "w") as file:
                    file.write(str(message["code"]))
            return
        if message.get("text") == "bye":
            return await send({"type": "websocket.close", "code": 4000, "reason": "as you like"})
        if message.get("text") is not None:
            await send({"type": "websocket.send", "text": message["text"].upper()})
        else:
            await send({"type": "websocket.send", "bytes": message["bytes"][::-1]})
