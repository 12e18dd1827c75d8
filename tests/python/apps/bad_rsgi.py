"""An RSGI application that breaks the rules of its interface, or worse, as the path asks."""

import os

TEXT = [("content-type", "text/plain")]


async def app(scope, protocol):
    await ROUTES[scope.path.strip("/")](scope, protocol)


async def fine(scope, protocol):
    protocol.response_str(200, TEXT, "fine")


async def status_text(scope, protocol):
    protocol.response_str("200 OK", TEXT, "body")


async def status_number(scope, protocol):
    protocol.response_str(99, TEXT, "body")


async def header_crlf(scope, protocol):
    protocol.response_str(200, [("x-split", "a\r\nset-cookie: evil=1")], "body")


async def header_pair(scope, protocol):
    protocol.response_str(200, ["x-header"], "body")


async def body_text(scope, protocol):
    protocol.response_bytes(200, TEXT, "text")


async def too_long(scope, protocol):
    protocol.response_bytes(200, [("content-length", "4")], b"more than four")


async def too_short(scope, protocol):
    protocol.response_bytes(200, [("content-length", "400000")], b"less")


async def twice(scope, protocol):
    protocol.response_str(200, TEXT, "once")
    protocol.response_str(200, TEXT, "twice")


async def returns(scope, protocol):
    pass


async def raises(scope, protocol):
    raise ValueError("secret detail of the traceback")


async def no_file(scope, protocol):
    protocol.response_file(200, TEXT, "/no/such/file")


async def exits(scope, protocol):
    os._exit(7)


async def stream_raises(scope, protocol):
    transport = protocol.response_stream(200, TEXT)
    await transport.send_bytes(b"x" * 300000)
    raise ValueError("after the head")


async def stream_short(scope, protocol):
    transport = protocol.response_stream(200, [("content-length", "400000")])
    await transport.send_bytes(b"x" * 300000)


ROUTES = {name.replace("_", "-"): value for name, value in globals().items() if callable(value) and name != "app"}
