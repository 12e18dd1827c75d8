"""WSGI applications behind `wsgiref.validate`, the standard library's check of PEP 3333: each rule that the server breaks is
an AssertionError, and with it 500."""

import io
import sys
import warnings
import zlib
from wsgiref.validate import WSGIWarning, validator

warnings.simplefilter("error", WSGIWarning)


def application(environ, start_response):
    return ROUTES[environ["PATH_INFO"]](environ, start_response)


def hello(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "5")])
    return [b"hello"]


def digest(environ, start_response):
    """Length and CRC-32 of the request body, and what `CONTENT_LENGTH` said."""
    source, length, total = environ["wsgi.input"], 0, 0
    while True:
        piece = source.read(10000)
        if not piece:
            break
        length += len(piece)
        total = zlib.crc32(piece, total)
    start_response("200 OK", [("Content-Type", "text/plain"), ("X-Length", environ.get("CONTENT_LENGTH", "none"))])
    return [b"%d %08x" % (length, total)]


def lines(environ, start_response):
    """The lines of the request body, read in all ways that there are."""
    source = environ["wsgi.input"]
    found = [source.readline(), source.readline(2), *source.readlines(1), *source]
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"|".join(found)]


class Pieces:
    closed = 0

    def __init__(self, count):
        self.left = count

    def __iter__(self):
        return self

    def __next__(self):
        if self.left == 0:
            raise StopIteration
        self.left -= 1
        return b"piece\n"

    def close(self):
        Pieces.closed += 1


def streamed(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return Pieces(100)


def endless(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return Pieces(-1)


def closed(environ, start_response):
    body = b"%d" % Pieces.closed
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [body]


def written(environ, start_response):
    write = start_response("200 OK", [("Content-Type", "text/plain")])
    write(b"written, ")
    write(b"")
    write(b"again, ")
    return [b"returned"]


def wrapped(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return environ["wsgi.file_wrapper"](io.BytesIO(b"from a file\n" * 1000), 100)


def wrapped_file(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return environ["wsgi.file_wrapper"](open(__file__, "rb"))


def replaced(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    try:
        raise ValueError("on purpose")
    except ValueError:
        start_response("500 On Purpose", [("Content-Type", "text/plain")], sys.exc_info())
    return [b"replaced"]


def empty(environ, start_response):
    start_response("204 No Content", [])
    return []


def errors(environ, start_response):
    stream = environ["wsgi.errors"]
    stream.write("one\n")
    stream.writelines(["two\n", "three\n"])
    stream.flush()
    return hello(environ, start_response)


def broken(environ, start_response):
    """The application breaks a rule: shows that the check is there."""
    start_response(200, [("Content-Type", "text/plain")])
    return [b"never seen"]


ROUTES = {
    "/hello": hello, "/digest": digest, "/lines": lines, "/streamed": streamed, "/endless": endless, "/closed": closed,
    "/written": written, "/wrapped": wrapped, "/wrapped-file": wrapped_file, "/replaced": replaced, "/empty": empty,
    "/errors": errors, "/broken": broken,
}
app = validator(application)
