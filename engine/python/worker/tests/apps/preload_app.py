"""An application for the tests of preloading."""

import os
import sys

LOADED_BY = os.getpid()
print("loaded")


def app(environ, start_response):
    if environ["PATH_INFO"] == "/exit":
        os._exit(9)
    print("served by %d" % os.getpid())
    print("to stderr", file=sys.stderr)
    start_response("200 OK", [])
    return [repr((LOADED_BY, os.getpid(), os.getppid(), os.getpgid(0))).encode()]


async def asgi(scope, receive, send):
    assert scope["type"] == "http"
    await send({"type": "http.response.start", "status": 200})
    await send({"type": "http.response.body", "body": repr((LOADED_BY, os.getpid())).encode()})
