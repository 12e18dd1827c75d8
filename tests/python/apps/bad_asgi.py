"""An ASGI application that breaks the rules of ASGI 3, or worse, as the path asks."""

import asyncio
import os
import time


async def app(scope, receive, send):
    if scope["type"] == "websocket":
        await receive()
    await ROUTES[scope["path"].strip("/")](scope, receive, send)


async def start(send, status=200, headers=()):
    await send({"type": "http.response.start", "status": status, "headers": list(headers)})


async def fine(scope, receive, send):
    await start(send)
    await send({"type": "http.response.body", "body": b"fine"})


async def status_text(scope, receive, send):
    await start(send, status="two hundred")
    await send({"type": "http.response.body", "body": b""})


async def header_crlf(scope, receive, send):
    await start(send, headers=[(b"x-split", b"a\r\nset-cookie: evil=1")])
    await send({"type": "http.response.body", "body": b"body"})


async def body_text(scope, receive, send):
    await start(send)
    await send({"type": "http.response.body", "body": "text"})


async def body_first(scope, receive, send):
    await send({"type": "http.response.body", "body": b"body"})


async def unknown_event(scope, receive, send):
    await send({"type": "http.response.nonsense"})


async def too_long(scope, receive, send):
    await start(send, headers=[(b"content-length", b"4")])
    await send({"type": "http.response.body", "body": b"more than four"})


async def too_short(scope, receive, send):
    await start(send, headers=[(b"content-length", b"400000")])
    await send({"type": "http.response.body", "body": b"less"})


async def returns(scope, receive, send):
    return


async def returns_early(scope, receive, send):
    await start(send)
    await send({"type": "http.response.body", "body": b"begun", "more_body": True})


async def raises(scope, receive, send):
    raise ValueError("secret detail of the traceback")


async def raises_late(scope, receive, send):
    await start(send)
    await send({"type": "http.response.body", "body": b"x" * 300000, "more_body": True})
    raise ValueError("after the head")


async def exits(scope, receive, send):
    os._exit(7)


async def blocks(scope, receive, send):
    time.sleep(3600)


async def hangs(scope, receive, send):
    await asyncio.sleep(3600)


async def send_first(scope, receive, send):
    await send({"type": "websocket.send", "text": "before accept"})


async def ws_returns(scope, receive, send):
    pass


async def ws_raises(scope, receive, send):
    raise ValueError("before accept")


async def ws_header(scope, receive, send):
    await send({"type": "websocket.accept", "headers": [(b"x-split", b"a\r\nset-cookie: evil=1")]})


async def accept_twice(scope, receive, send):
    await send({"type": "websocket.accept"})
    await send({"type": "websocket.accept"})


async def send_nothing(scope, receive, send):
    await send({"type": "websocket.accept"})
    await send({"type": "websocket.send"})


async def send_number(scope, receive, send):
    await send({"type": "websocket.accept"})
    await send({"type": "websocket.send", "text": 7})


async def bad_code(scope, receive, send):
    await send({"type": "websocket.accept"})
    await send({"type": "websocket.close", "code": 1006})


async def raises_open(scope, receive, send):
    await send({"type": "websocket.accept"})
    raise ValueError("in the socket")


ROUTES = {name.replace("_", "-"): value for name, value in globals().items() if callable(value) and name not in ("app", "start")}
