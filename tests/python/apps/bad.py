"""A WSGI application that breaks the rules of PEP 3333, or worse, as the path asks."""

import ctypes
import os
import time


def app(environ, start_response):
    return ROUTES[environ["PATH_INFO"].strip("/")](environ, start_response)


def fine(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"fine"]


def status_number(environ, start_response):
    start_response(200, [])
    return [b""]


def status_text(environ, start_response):
    start_response("OK", [])
    return [b""]


def header_crlf(environ, start_response):
    start_response("200 OK", [("X-Split", "a\r\nSet-Cookie: evil=1")])
    return [b"body"]


def header_name(environ, start_response):
    start_response("200 OK", [("X Bad", "a")])
    return [b"body"]


def hop_by_hop(environ, start_response):
    start_response("200 OK", [("Transfer-Encoding", "chunked"), ("Connection", "close")])
    return [b"0\r\n\r\n"]


def body_text(environ, start_response):
    start_response("200 OK", [])
    return ["text"]


def body_number(environ, start_response):
    start_response("200 OK", [])
    return 7


def too_long(environ, start_response):
    start_response("200 OK", [("Content-Length", "4")])
    return [b"more than four"]


def too_short(environ, start_response):
    start_response("200 OK", [("Content-Length", "400000")])
    return [b"less"]


def length_text(environ, start_response):
    start_response("200 OK", [("Content-Length", "ten")])
    return [b"0123456789"]


def no_start(environ, start_response):
    return [b"body without a head"]


def started_twice(environ, start_response):
    start_response("200 OK", [])
    start_response("200 OK", [])
    return [b""]


def raises(environ, start_response):
    raise ValueError("secret detail of the traceback")


def raises_late(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])

    def pieces():
        yield b"x" * 300000
        raise ValueError("after the head")

    return pieces()


def endless(environ, start_response):
    start_response("200 OK", [])

    def pieces():
        while True:
            yield b"x" * 65536

    return pieces()


def exits(environ, start_response):
    os._exit(7)


def system_exit(environ, start_response):
    raise SystemExit(3)


def segfault(environ, start_response):
    ctypes.string_at(0)


def aborts(environ, start_response):
    os.abort()


def hangs(environ, start_response):
    while True:
        time.sleep(3600)


def spins(environ, start_response):
    while True:
        pass


def slow(environ, start_response):
    time.sleep(1)
    return fine(environ, start_response)


ROUTES = {name.replace("_", "-"): value for name, value in globals().items() if callable(value) and name != "app"}
