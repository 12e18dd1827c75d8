"""ASGI applications with a lifespan, for test_lifespan.py."""

import asyncio
import contextlib
import sys
import traceback


async def respond(scope, send):
    scope["state"]["mine"] = True
    scope["state"].get("list", []).append(1)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": repr(scope.get("state")).encode()})


async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        assert (await receive())["type"] == "lifespan.startup"
        scope["state"].update(value=1, list=[])
        print("startup")
        await send({"type": "lifespan.startup.complete"})
        assert (await receive())["type"] == "lifespan.shutdown"
        print("shutdown")
        await send({"type": "lifespan.shutdown.complete"})
    else:
        await respond(scope, send)


async def without(scope, receive, send):
    assert scope["type"] == "http", "only http"
    assert "state" not in scope
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"without"})


async def returns(scope, receive, send):
    """Ignores the lifespan by returning."""
    if scope["type"] == "http":
        await without(scope, receive, send)


async def raises(scope, receive, send):
    await receive()
    raise ValueError("cannot start")


async def fails(scope, receive, send):
    await receive()
    await send({"type": "lifespan.startup.failed", "message": "no database"})


async def reports(scope, receive, send):
    await receive()
    try:
        {}["DATABASE"]
    except KeyError:
        await send({"type": "lifespan.startup.failed", "message": traceback.format_exc()})
        raise


async def shutdown_raises(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        raise ValueError("cannot stop")


async def shutdown_fails(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.failed", "message": "queue is full"})


async def context(scope, receive, send):
    """Shuts down in the task that started (async context managers need it)."""
    if scope["type"] == "lifespan":
        await receive()
        async with manager():
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})


@contextlib.asynccontextmanager
async def manager():
    task = asyncio.current_task()
    yield
    print("same task: %s" % (task is asyncio.current_task()))
    sys.stdout.flush()
