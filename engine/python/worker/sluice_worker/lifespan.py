#: lifespan
"""The lifespan protocol of ASGI."""

import asyncio

from .control import worker
from .failures import RuleError, brief, is_disconnect
from .limits import LAST_MAX, SHUTDOWN_MAX


class Lifespan:
    """The lifespan protocol of an ASGI application."""

    def __init__(self, loop, application, required):
        self.loop = loop
        self.application = application
        self.required = required
        self.state = {}
        self.messages = [{"type": "lifespan.startup"}]
        self.waiter = None
        self.started = loop.create_future()  # "": complete; text: failed; an exception: the application raised it
        self.stopped = loop.create_future()
        self.task = None
        self.received = False
        self.error = None

    async def receive(self):
        self.received = True
        while not self.messages:
            self.waiter = self.loop.create_future()
            await self.waiter
        return self.messages.pop(0)

    async def send(self, message):
        kind = message["type"]
        if kind in ("lifespan.startup.complete", "lifespan.startup.failed"):
            if self.started.done():
                raise RuleError("unexpected ASGI message %r" % kind)
            failed = kind == "lifespan.startup.failed"
            self.started.set_result(str(message.get("message") or "startup failed") if failed else "")
        elif kind in ("lifespan.shutdown.complete", "lifespan.shutdown.failed"):
            if kind == "lifespan.shutdown.failed":
                worker.log("error", "the application's shutdown failed: %s" % message.get("message", ""))
            if not self.stopped.done():
                self.stopped.set_result(None)
        else:
            raise RuleError("unexpected ASGI message %r" % kind)

    async def run(self):
        scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": self.state}
        try:
            await self.application(scope, self.receive, self.send)
        except BaseException as error:
            self.error = error
        if not self.started.done():
            self.started.set_result(self.error or NotImplementedError("the application ignores lifespan"))
        elif self.started.result() == "" and self.error is not None and not is_disconnect(self.error):
            worker.log("error", "the application's lifespan raised", self.error)
        if not self.stopped.done():
            self.stopped.set_result(None)

    async def start(self):
        """Runs startup. Returns whether the application speaks the protocol; ends the process if startup fails."""
        self.task = self.loop.create_task(self.run())
        result = await self.started
        if result == "":
            return True
        if isinstance(result, str):
            await asyncio.wait([self.stopped], timeout=LAST_MAX)  # Starlette raises what it has reported
            lines = result.strip().split("\n")
            worker.fail("lifespan", "the application's startup failed: " + lines[-1], self.error, result)
        if self.required:
            worker.fail("lifespan", "the application raised during startup: %s" % brief(result), result)
        if self.received:
            worker.log("warn", "the application runs without lifespan, since it raised during startup", result)
        return False

    async def stop(self):
        """Runs shutdown, for at most SHUTDOWN_MAX."""
        self.messages.append({"type": "lifespan.shutdown"})
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)
        done, _ = await asyncio.wait([self.stopped], timeout=SHUTDOWN_MAX)
        if not done:
            worker.log("error", "the application's shutdown took more than %d s" % SHUTDOWN_MAX)
            self.task.cancel()
        await asyncio.wait([self.task], timeout=LAST_MAX)
