"""A bare WSGI application that shows what it got, and uses each part of PEP 3333."""

import io
import json
import os
import sys
import threading
import time
import zlib


def app(environ, start_response):
    path = environ["PATH_INFO"]
    handler = ROUTES.get(path, environment)
    return handler(environ, start_response)


def text(start_response, body, status="200 OK", headers=()):
    if isinstance(body, str):
        body = body.encode()
    start_response(status, [("Content-Type", "text/plain"), ("Content-Length", str(len(body))), *headers])
    return [body]


def environment(environ, start_response):
    shown = {name: value for name, value in environ.items() if isinstance(value, str)}
    shown["wsgi.version"] = list(environ["wsgi.version"])
    shown["wsgi.multithread"] = environ["wsgi.multithread"]
    shown["wsgi.multiprocess"] = environ["wsgi.multiprocess"]
    return text(start_response, json.dumps(shown, sort_keys=True))


def process(environ, start_response):
    return text(start_response, str(os.getpid()))


def variable(environ, start_response):
    return text(start_response, os.environ.get(environ["QUERY_STRING"], "(unset)"))


def where(environ, start_response):
    return text(start_response, os.getcwd() + "\n" + sys.path[0] + "\n" + sys.executable)


def digest(environ, start_response):
    """The length and CRC-32 of the request body, read in pieces."""
    source, length, total = environ["wsgi.input"], 0, 0
    while True:
        piece = source.read(65536)
        if not piece:
            break
        length += len(piece)
        total = zlib.crc32(piece, total)
    return text(start_response, f"{length} {total:08x}")


def lines(environ, start_response):
    found = [len(line) for line in environ["wsgi.input"]]
    return text(start_response, repr(found))


def unread(environ, start_response):
    return text(start_response, "did not read")


def echo(environ, start_response):
    body = environ["wsgi.input"].read()
    return text(start_response, body)


class Closing:
    """An iterable that notes when it is closed."""

    closed = 0

    def __init__(self, pieces):
        self.pieces = iter(pieces)

    def __iter__(self):
        return self

    def __next__(self):
        return next(self.pieces)

    def close(self):
        Closing.closed += 1


def streamed(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return Closing(f"piece {number}\n".encode() for number in range(5))


def closed(environ, start_response):
    return text(start_response, str(Closing.closed))


def endless(environ, start_response):
    start_response("200 OK", [("Content-Type", "application/octet-stream")])

    def pieces():
        while True:
            yield b"x" * 65536

    return Closing(pieces())


def large(environ, start_response):
    """So many bytes of a pattern."""
    size = int(environ["QUERY_STRING"])
    start_response("200 OK", [("Content-Type", "application/octet-stream"), ("Content-Length", str(size))])
    block = bytes(range(256)) * 256

    def pieces(left):
        while left > 0:
            yield block[:left]
            left -= len(block)

    return pieces(size)


def writing(environ, start_response):
    write = start_response("200 OK", [("Content-Type", "text/plain")])
    write(b"written, ")
    return [b"returned"]


def wrapped(environ, start_response):
    handle = open(__file__, "rb")
    start_response("200 OK", [("Content-Type", "text/x-python")])
    return environ["wsgi.file_wrapper"](handle, 8192)


def wrapped_memory(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return environ["wsgi.file_wrapper"](io.BytesIO(b"no descriptor"), 4)


def replaced(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain"), ("X-First", "1")])
    try:
        raise ValueError("on purpose")
    except ValueError:
        body = b"replaced"
        start_response("418 Teapot", [("Content-Type", "text/plain"), ("Content-Length", "8")], sys.exc_info())
        return [body]


def cookies(environ, start_response):
    return text(start_response, "two", headers=[("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")])


def empty(environ, start_response):
    start_response("204 No Content", [])
    return []


def log(environ, start_response):
    print("a line on standard output", flush=True)
    environ["wsgi.errors"].write("a line on wsgi.errors\n")
    environ["wsgi.errors"].flush()
    return text(start_response, "logged")


def slow(environ, start_response):
    time.sleep(float(environ["QUERY_STRING"] or "0.2"))
    return text(start_response, f"{os.getpid()} {threading.get_ident()}")


ROUTES = {
    "/pid": process, "/variable": variable, "/where": where, "/digest": digest, "/lines": lines, "/unread": unread,
    "/echo": echo, "/streamed": streamed, "/closed": closed, "/endless": endless, "/large": large, "/writing": writing,
    "/wrapped": wrapped, "/wrapped-memory": wrapped_memory, "/replaced": replaced, "/cookies": cookies, "/empty": empty,
    "/log": log, "/slow": slow,
}


def create_app():
    return app
