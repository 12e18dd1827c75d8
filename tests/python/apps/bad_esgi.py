"""An ESGI application that breaks the rules of its interface, or worse, as the path asks."""

import os

TEXT = [("content-type", "text/plain")]


def app(scope, protocol):
    ROUTES[scope["path"].strip("/")](scope, protocol)


def fine(scope, protocol):
    protocol.response_str(200, TEXT, "fine")


def status_text(scope, protocol):
    protocol.response_str("200 OK", TEXT, "body")


def status_number(scope, protocol):
    protocol.response_str(99, TEXT, "body")


def header_crlf(scope, protocol):
    protocol.response_str(200, [("x-split", "a\r\nset-cookie: evil=1")], "body")


def header_pair(scope, protocol):
    protocol.response_str(200, ["x-header"], "body")


def body_text(scope, protocol):
    protocol.response_bytes(200, TEXT, "text")


def too_long(scope, protocol):
    protocol.response_bytes(200, [("content-length", "4")], b"more than four")


def too_short(scope, protocol):
    protocol.response_bytes(200, [("content-length", "400000")], b"less")


def twice(scope, protocol):
    protocol.response_str(200, TEXT, "once")
    protocol.response_str(200, TEXT, "twice")


def returns(scope, protocol):
    pass


def raises(scope, protocol):
    raise ValueError("secret detail of the traceback")


def no_file(scope, protocol):
    protocol.response_file(200, TEXT, "/no/such/file")


def exits(scope, protocol):
    os._exit(7)


def stream_raises(scope, protocol):
    transport = protocol.response_stream(200, TEXT)
    transport.send_bytes(b"x" * 300000)
    raise ValueError("after the head")


def stream_short(scope, protocol):
    transport = protocol.response_stream(200, [("content-length", "400000")])
    transport.send_bytes(b"x" * 300000)


ROUTES = {name.replace("_", "-"): value for name, value in globals().items() if callable(value) and name != "app"}
