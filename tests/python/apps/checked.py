"""An ASGI application behind a check of what the server says: scopes, events and their order, by the ASGI 3 specification and
the types of `asgiref.typing`. `/faults` lists what was wrong."""

import asyncio
import json
import zlib

from asgiref import typing

FAULTS = []
STATE = {"loads": 0, "after": "nothing"}


def fault(what):
    FAULTS.append(what)


def check(is_right, what):
    if not is_right:
        fault(what)


# -- scopes

def is_address(value, port):
    return value is None or (
        isinstance(value, (tuple, list)) and len(value) == 2 and isinstance(value[0], str) and isinstance(value[1], port)
    )


def check_headers(headers):
    for pair in headers:
        check(len(pair) == 2 and all(isinstance(one, bytes) for one in pair), f"header {pair!r}")
        name = bytes(pair[0])
        check(name == name.lower() and name and not name.startswith(b":"), f"header name {name!r}")


COMMON = {
    "asgi": lambda v: isinstance(v, dict) and v["version"] == "3.0" and isinstance(v.get("spec_version", "2.0"), str),
    "http_version": lambda v: v in ("1.0", "1.1", "2", "3"),
    "path": lambda v: isinstance(v, str) and v.startswith("/"),
    "raw_path": lambda v: v is None or isinstance(v, bytes) and b"?" not in v,
    "query_string": lambda v: isinstance(v, bytes),
    "root_path": lambda v: isinstance(v, str) and not v.endswith("/"),
    "client": lambda v: is_address(v, int),
    "server": lambda v: is_address(v, (int, type(None))),
    "extensions": lambda v: v is None or isinstance(v, dict) and all(isinstance(one, dict) for one in v.values()),
    "state": lambda v: isinstance(v, dict),
}
HTTP = {
    "method": lambda v: isinstance(v, str) and v == v.upper(),
    "scheme": lambda v: v in ("http", "https"),
}
WEBSOCKET = {
    "scheme": lambda v: v in ("ws", "wss"),
    "subprotocols": lambda v: isinstance(v, (list, tuple)) and all(isinstance(one, str) for one in v),
}


def check_scope(scope, kind, rules):
    check(type(scope) is dict, f"a scope of {type(scope)}")
    known = set(kind.__annotations__)
    needed = known - {"state"}
    check(needed <= set(scope), f"missing in a scope: {needed - set(scope)}")
    check(set(scope) <= known, f"unknown in a scope: {set(scope) - known}")
    for name, is_right in {**COMMON, **rules}.items():
        if name in scope:
            check(is_right(scope[name]), f"{name} is {scope[name]!r}")
    check(iter(scope["headers"]) is not None, "headers")
    check_headers(scope["headers"])
    state = scope.get("state")
    if state is not None:
        check("request" not in state, "the state of another request")
        state["request"] = True
        check(state.get("greeting") == "hello", "the state of lifespan")


# -- events

class HttpEvents:
    """The events of a request in their order: `http.request` up to its end, then `http.disconnect`."""

    def __init__(self, receive):
        self.receive_next, self.is_complete, self.is_over = receive, False, False

    async def receive(self):
        event = await self.receive_next()
        check(type(event) is dict, f"an event of {type(event)}")
        if event["type"] == "http.request":
            check(not self.is_complete and not self.is_over, "http.request after its end")
            check(isinstance(event.get("body", b""), bytes), f"a body of {type(event.get('body'))}")
            check(isinstance(event.get("more_body", False), bool), "more_body")
            check(set(event) <= {"type", "body", "more_body"}, f"unknown in http.request: {set(event)}")
            self.is_complete = not event.get("more_body", False)
        else:
            check(event == {"type": "http.disconnect"}, f"{event!r}")
            self.is_over = True
        return event


class WebSocketEvents:
    """`websocket.connect`, then messages, then `websocket.disconnect`."""

    def __init__(self, receive):
        self.receive_next, self.stage = receive, "connect"

    async def receive(self):
        event = await self.receive_next()
        kind = event["type"]
        if self.stage == "connect":
            check(event == {"type": "websocket.connect"}, f"first {event!r}")
            self.stage = "open"
        elif kind == "websocket.receive":
            check(self.stage == "open", "a message after the end")
            check(set(event) <= {"type", "bytes", "text"}, f"unknown in websocket.receive: {set(event)}")
            data, text = event.get("bytes"), event.get("text")
            check((data is None) != (text is None), "a message that is not either bytes or text")
            check(isinstance(data, (bytes, type(None))) and isinstance(text, (str, type(None))), "types of a message")
        else:
            check(kind == "websocket.disconnect", f"{event!r}")
            check(self.stage == "open", "a second end")
            check(isinstance(event.get("code", 1005), int), "the code of an end")
            check(isinstance(event.get("reason"), (str, type(None))), "the reason of an end")
            check(set(event) <= {"type", "code", "reason"}, f"unknown in websocket.disconnect: {set(event)}")
            self.stage = "over"
        return event


async def app(scope, receive, send):
    async def sending(event):
        check(await send(event) is None, "send gave something")

    kind = scope["type"]
    if kind == "lifespan":
        await lifespan(scope, receive, sending)
    elif kind == "http":
        check_scope(scope, typing.HTTPScope, HTTP)
        await ROUTES[scope["path"]](scope, HttpEvents(receive).receive, sending)
    elif kind == "websocket":
        check_scope(scope, typing.WebSocketScope, WEBSOCKET)
        await websocket(scope, WebSocketEvents(receive).receive, sending)
    else:
        fault(f"a scope of type {kind!r}")


async def lifespan(scope, receive, send):
    check(set(scope) <= {"type", "asgi", "state"}, f"unknown in a lifespan scope: {set(scope)}")
    check(scope["asgi"]["version"] == "3.0", "asgi of a lifespan scope")
    check(scope["state"] == {}, "state of a lifespan scope")
    check(await receive() == {"type": "lifespan.startup"}, "the first event of lifespan")
    STATE["loads"] += 1
    check(STATE["loads"] == 1, "a second startup")
    scope["state"]["greeting"] = "hello"
    await send({"type": "lifespan.startup.complete"})
    check(await receive() == {"type": "lifespan.shutdown"}, "the second event of lifespan")
    print("faults:", json.dumps(FAULTS), flush=True)
    await send({"type": "lifespan.shutdown.complete"})


async def respond(send, body, headers=()):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain"), *headers]})
    await send({"type": "http.response.body", "body": body})


async def digest(scope, receive, send):
    length, total, more = 0, 0, True
    while more:
        event = await receive()
        length += len(event.get("body", b""))
        total = zlib.crc32(event.get("body", b""), total)
        more = event.get("more_body", False)
    await respond(send, b"%d %08x" % (length, total))


async def streamed(scope, receive, send):
    await send({"type": "http.response.start", "status": 200})
    for _ in range(100):
        await send({"type": "http.response.body", "body": b"piece\n", "more_body": True})
    await send({"type": "http.response.body"})


async def late(scope, receive, send):
    """What follows a complete response."""
    while (await receive()).get("more_body", False):
        pass
    await respond(send, b"done")
    event = await asyncio.wait_for(receive(), 10)
    check(event["type"] == "http.disconnect", f"{event!r} after the response")


async def hold(scope, receive, send):
    """A client that leaves, and what `send` does then."""
    check((await receive())["type"] == "http.request", "no request")
    await send({"type": "http.response.start", "status": 200})
    await send({"type": "http.response.body", "body": b"x", "more_body": True})
    event = await receive()
    check(event["type"] == "http.disconnect", f"{event!r} when the client left")
    try:
        await send({"type": "http.response.body", "body": b"x", "more_body": True})
        STATE["after"] = "ignored"
    except OSError:
        STATE["after"] = "OSError"


async def after(scope, receive, send):
    await respond(send, STATE["after"].encode())


async def faults(scope, receive, send):
    await respond(send, json.dumps(FAULTS).encode())


async def provoked(scope, receive, send):
    """Scopes that break a rule each: how many of them the check above does not find."""
    wrong = {
        "asgi": {"version": "2.0"}, "http_version": "HTTP/1.1", "path": b"/", "raw_path": "/", "query_string": "",
        "root_path": b"", "client": "127.0.0.1", "server": ("localhost", "80"), "extensions": {"a": None},
        "method": "get", "scheme": "ws", "headers": [(b"Upper", b"")], "unknown": 1, "state": None,
    }
    before, missed = list(FAULTS), []
    for name, value in wrong.items():
        count = len(FAULTS)
        bad = {**scope, "state": {"greeting": "hello"}, name: value}
        check_scope(bad, typing.HTTPScope, HTTP)
        if len(FAULTS) == count:
            missed.append(name)
    FAULTS[:] = before
    await respond(send, json.dumps(missed).encode())


async def websocket(scope, receive, send):
    await receive()
    await send({"type": "websocket.accept", "subprotocol": (scope["subprotocols"] or [None])[0]})
    while True:
        event = await receive()
        if event["type"] == "websocket.disconnect":
            return
        if event.get("text") == "close":
            await send({"type": "websocket.close", "code": 4000, "reason": "asked"})
            event = await asyncio.wait_for(receive(), 10)
            check(event["type"] == "websocket.disconnect", f"{event!r} after websocket.close")
            return
        await send({"type": "websocket.send", "text": event.get("text"), "bytes": event.get("bytes")})


ROUTES = {
    "/digest": digest, "/streamed": streamed, "/late": late, "/hold": hold, "/after": after, "/faults": faults,
    "/provoked": provoked,
}


async def http_only(scope, receive, send):
    """An application that knows nothing but HTTP."""
    assert scope["type"] == "http"
    await respond(send, b"http")
