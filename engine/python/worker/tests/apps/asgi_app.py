"""ASGI applications for test_asgi.py and test_websocket.py; the path chooses one."""

import asyncio
import functools
import os
import sys
import time

EVENTS = {}
RESULTS = {}


async def start(send, status=200, headers=((b"content-type", b"text/plain"),), **more):
    await send({"type": "http.response.start", "status": status, "headers": list(headers), **more})


async def body(send, data=b"", more=False):
    await send({"type": "http.response.body", "body": data, "more_body": more})


async def reply(send, data, **more):
    await start(send, **more)
    await body(send, data)


async def read_body(receive):
    data = b""
    while True:
        message = await receive()
        assert message["type"] == "http.request", message
        data += message["body"]
        if not message["more_body"]:
            return data


async def hello(scope, receive, send):
    await reply(send, b"hello")


async def clean_up(scope, receive, send):
    """Does something slow after its response: waits until the FIFO of the query is opened for writing."""
    await reply(send, b"hello")
    open(scope["query_string"].decode()).close()


async def only_start(scope, receive, send):
    """A response whose last message has no body, and whose start has no headers."""
    await send({"type": "http.response.start", "status": 201})
    await send({"type": "http.response.body"})


async def show(scope, receive, send):
    await reply(send, repr({key: scope[key] for key in sorted(scope)}).encode())


async def echo(scope, receive, send):
    await reply(send, await read_body(receive))


async def count_body(scope, receive, send):
    size = messages = 0
    more = True
    while more:
        message = await receive()
        size += len(message["body"])
        more = message["more_body"]
        messages += 1
    await reply(send, b"%d" % size)


async def stepwise(scope, receive, send):
    await start(send)
    await body(send, b"begin", True)
    while True:
        message = await receive()
        if not message["more_body"]:
            return await body(send)
        await body(send, b"got " + message["body"], True)


async def head_first(scope, receive, send):
    """Sends the head, and the body once the request body is there."""
    await start(send)
    await body(send, await read_body(receive))


async def chunks(scope, receive, send):
    await start(send)
    for item in (b"one ", b"", b"two ", b"three"):
        await body(send, item, True)
    await body(send)


async def big(scope, receive, send):
    await reply(send, b"x" * int(scope["query_string"]))


async def big_chunks(scope, receive, send):
    await start(send)
    for _ in range(int(scope["query_string"])):
        await body(send, b"y" * 100_000, True)
    await body(send)


async def wait_disconnect(scope, receive, send):
    await receive()
    RESULTS["disconnect"] = await receive()
    RESULTS["again"] = await receive()
    try:
        await start(send)
    except OSError as error:
        RESULTS["send"] = type(error).__name__


async def wait_disconnect_streaming(scope, receive, send):
    """Streams while another task listens, as Starlette does."""
    await start(send)

    async def listen():
        while (await receive())["type"] != "http.disconnect":
            pass

    listener = asyncio.create_task(listen())
    while not listener.done():
        try:
            await body(send, b"tick", True)
        except OSError as error:
            RESULTS["streaming"] = type(error).__name__
        await asyncio.wait([listener], timeout=0.01)
    RESULTS.setdefault("streaming", "listener")


async def endless(scope, receive, send):
    await start(send)
    try:
        while True:
            await body(send, b"z" * 1000, True)
    finally:
        RESULTS["endless"] = True


async def results(scope, receive, send):
    while scope["query_string"].decode() not in RESULTS:
        await asyncio.sleep(0.002)
    await reply(send, repr(RESULTS.pop(scope["query_string"].decode())).encode())


async def after_response(scope, receive, send):
    """What receive gives once the response is complete, and work in the background."""
    await receive()
    waiting = asyncio.create_task(receive())
    await asyncio.sleep(0)
    await reply(send, b"done")
    RESULTS["after"] = [await waiting, await receive()]


async def tasks_of_calls(scope, receive, send):
    """Wraps the calls themselves in tasks."""
    message = await asyncio.create_task(receive())
    await asyncio.ensure_future(send({"type": "http.response.start", "status": 200}))
    await asyncio.wait_for(send({"type": "http.response.body", "body": repr(message).encode()}), 5)


async def raise_before(scope, receive, send):
    raise ValueError("before the head")


async def raise_started(scope, receive, send):
    await start(send)
    raise ValueError("after start")


async def raise_after(scope, receive, send):
    await start(send)
    await body(send, b"part", True)
    raise ValueError("after the head")


async def raise_complete(scope, receive, send):
    await reply(send, b"complete")
    raise ValueError("after the response")


async def raise_exit(scope, receive, send):
    sys.exit("please")


async def raise_disconnect(scope, receive, send):
    await receive()
    await receive()
    try:
        await body(send)
    except OSError as error:
        raise RuntimeError("wrapped") from error


async def raise_cancelled(scope, receive, send):
    await receive()
    await receive()
    raise ValueError("a real mistake")


async def nothing(scope, receive, send):
    pass


async def half(scope, receive, send):
    await start(send)
    await body(send, b"half", True)


async def started_only(scope, receive, send):
    await start(send)


async def returns_value(scope, receive, send):
    await reply(send, b"x")
    return 5


async def messages(scope, receive, send):
    """Sends the messages of the query."""
    for message in eval(scope["query_string"]):
        await send(message)


async def sync_block(scope, receive, send):
    time.sleep(float(scope["query_string"]))
    await reply(send, b"slept")


async def wait_event(scope, receive, send):
    await EVENTS.setdefault(scope["query_string"], asyncio.Event()).wait()
    await reply(send, b"waited")


async def wait_long(scope, receive, send):
    """Waits until it is cancelled."""
    if scope["query_string"] == b"started":
        await start(send)
        await body(send, b"part", True)
    try:
        await asyncio.sleep(600)
    except asyncio.CancelledError:
        RESULTS["cancelled"] = True
        raise


async def set_event(scope, receive, send):
    EVENTS.setdefault(scope["query_string"], asyncio.Event()).set()
    await reply(send, b"set")


async def in_thread(scope, receive, send):
    loop = asyncio.get_running_loop()
    await reply(send, await loop.run_in_executor(None, functools.partial(str.encode, "thread")))


async def path_send(scope, receive, send):
    name = scope["query_string"].decode()
    await start(send)
    await send({"type": "http.response.pathsend", "path": name})


async def late_path_send(scope, receive, send):
    """Sends the path when the head was sent already."""
    await start(send)
    await receive()
    await send({"type": "http.response.pathsend", "path": scope["query_string"].decode()})


async def hints(scope, receive, send):
    await send({"type": "http.response.early_hint", "links": [b"</a.css>; rel=preload", b"</b.js>; rel=preload"]})
    await reply(send, b"hinted")


async def trailers(scope, receive, send):
    await start(send, trailers=True)
    await body(send, b"data")
    await send({"type": "http.response.trailers", "headers": [(b"x-sum", b"1")], "more_trailers": True})
    await send({"type": "http.response.trailers", "headers": [(b"x-more", b"2")]})


async def hard_exit(scope, receive, send):
    os._exit(7)


async def state(scope, receive, send):
    scope["state"]["count"] = scope["state"].get("count", 0) + 1
    scope["state"].setdefault("shared", []).append(1)
    await reply(send, repr(scope["state"]).encode())


# -- WebSocket


async def ws_echo(scope, receive, send):
    assert (await receive())["type"] == "websocket.connect"
    await send({"type": "websocket.accept"})
    while True:
        message = await receive()
        if message["type"] == "websocket.disconnect":
            RESULTS["disconnect"] = message
            return
        del message["type"]
        try:
            await send({"type": "websocket.send", **message})
        except OSError:
            RESULTS["unsent"] = True  # the client is gone already


async def ws_subprotocol(scope, receive, send):
    await receive()
    await send({"type": "websocket.accept", "subprotocol": scope["subprotocols"][-1], "headers": [(b"x-a", b"b")]})
    await send({"type": "websocket.close", "code": 3001, "reason": "caf\u00e9 " + "r" * 200})
    RESULTS["closed"] = await receive()


async def ws_reject(scope, receive, send):
    await receive()
    await send({"type": "websocket.close", "code": 1008})


async def ws_deny(scope, receive, send):
    await receive()
    await send({"type": "websocket.http.response.start", "status": 401, "headers": [(b"x-why", b"token")]})
    await send({"type": "websocket.http.response.body", "body": b"no ", "more_body": True})
    await send({"type": "websocket.http.response.body", "body": b"entry"})


async def ws_return(scope, receive, send):
    await receive()
    await send({"type": "websocket.accept"})


async def ws_nothing(scope, receive, send):
    pass


async def ws_raise(scope, receive, send):
    await receive()
    await send({"type": "websocket.accept"})
    await receive()
    raise ValueError("in the socket")


async def ws_raise_early(scope, receive, send):
    raise ValueError("before accept")


async def ws_messages(scope, receive, send):
    await receive()
    for message in eval(scope["query_string"]):
        await send(message)


async def ws_send_after_disconnect(scope, receive, send):
    await receive()
    await send({"type": "websocket.accept"})
    await receive()
    try:
        await send({"type": "websocket.send", "text": "too late"})
    except OSError as error:
        RESULTS["late"] = type(error).__name__
        raise


async def ws_flood(scope, receive, send):
    await receive()
    await send({"type": "websocket.accept"})
    size, count = eval(scope["query_string"])
    for index in range(count):
        await send({"type": "websocket.send", "bytes": b"%04d" % index + b"f" * (size - 4)})
    await send({"type": "websocket.close"})


async def ws_empty(scope, receive, send):
    await receive()
    await send({"type": "websocket.accept"})
    for _ in range(int(scope["query_string"])):
        await send({"type": "websocket.send", "text": ""})


async def ws_say(scope, receive, send):
    await receive()
    await send({"type": "websocket.accept"})
    await send({"type": "websocket.send", "text": eval(scope["query_string"])})
    await receive()


async def ws_impatient(scope, receive, send):
    """Gives up a long message that its client does not take."""
    await receive()
    await send({"type": "websocket.accept"})
    message = {"type": "websocket.send", "bytes": b"l" * int(scope["query_string"])}
    try:
        await asyncio.wait_for(send(message), 0.05)
    except asyncio.TimeoutError:
        RESULTS["impatient"] = "TimeoutError"
    await send({"type": "websocket.send", "bytes": b"the next one"})
    await send({"type": "websocket.close"})


async def ws_two_tasks(scope, receive, send):
    await receive()
    await send({"type": "websocket.accept"})
    size = int(scope["query_string"])
    await asyncio.gather(*[send({"type": "websocket.send", "bytes": data * size}) for data in (b"a", b"b")])
    await send({"type": "websocket.close"})


async def ws_slow(scope, receive, send):
    """Receives messages only when the event is set."""
    await receive()
    await send({"type": "websocket.accept"})
    await EVENTS.setdefault(scope["query_string"], asyncio.Event()).wait()
    total = 0
    while True:
        message = await receive()
        if message["type"] == "websocket.disconnect":
            return
        total += len(message["bytes"])
        await send({"type": "websocket.send", "text": str(total)})


async def app(scope, receive, send):
    assert scope["type"] in ("http", "websocket")
    name = scope["path"].split("/")[1] or "hello"
    return await globals()[name.replace("-", "_")](scope, receive, send)


class ClassApp:
    async def __call__(self, scope, receive, send):
        await app(scope, receive, send)


instance = ClassApp()


class Asgi2:
    def __init__(self, scope):
        self.scope = scope

    async def __call__(self, receive, send):
        await reply(send, b"asgi " + self.scope["asgi"]["version"].encode())


def asgi2(scope):
    return Asgi2(scope)


def decorated(scope, receive, send):
    """Not a coroutine function, as decorators make it."""
    return app(scope, receive, send)


def create_app():
    return app
