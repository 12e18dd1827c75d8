"""RSGI applications for test_rsgi.py; the path chooses one."""

import asyncio

RESULTS = {}


class Rsgi:
    def __init__(self):
        self.loop = None

    def __rsgi_init__(self, loop):
        self.loop = loop
        print("init", not loop.is_closed())

    def __rsgi_del__(self, loop):
        print("del", loop is self.loop)

    async def __rsgi__(self, scope, protocol):
        await globals()[scope.path.split("/")[1]](scope, protocol)


app = Rsgi()


async def function(scope, protocol):
    protocol.response_str(200, [("content-type", "text/plain")], "function")


async def broken_init(scope, protocol):
    pass


class BrokenInit(Rsgi):
    def __rsgi_init__(self, loop):
        raise ValueError("cannot initialise")


broken = BrokenInit()


async def show(scope, protocol):
    names = "proto rsgi_version http_version server client scheme method path query_string authority".split()
    values = {name: getattr(scope, name) for name in names}
    values["headers"] = scope.headers.items()
    values["host"] = (scope.headers["Host"], "host" in scope.headers, scope.headers.get("x"), len(scope.headers))
    values["all"] = scope.headers.get_all("x-two")
    values["keys"] = list(scope.headers)
    protocol.response_str(200, [], repr(values))


async def empty(scope, protocol):
    protocol.response_empty(204, [("x-a", "b")])


async def empty_200(scope, protocol):
    protocol.response_empty(200, [])


async def bytes_(scope, protocol):
    protocol.response_bytes(200, [("content-type", "text/plain")], b"bytes")


async def echo(scope, protocol):
    protocol.response_bytes(200, [], await protocol())


async def iterate(scope, protocol):
    size = 0
    async for part in protocol:
        size += len(part)
    protocol.response_str(200, [], str(size))


async def big(scope, protocol):
    protocol.response_bytes(200, [], b"x" * int(scope.query_string))


async def file(scope, protocol):
    protocol.response_file(200, [("content-type", "text/plain")], scope.query_string)


async def file_range(scope, protocol):
    protocol.response_file_range(206, [], scope.query_string, 2, 5)


async def stream(scope, protocol):
    transport = protocol.response_stream(200, [("x-a", "b")])
    await transport.send_bytes(b"one ")
    await transport.send_str("two ")
    await transport.send_bytes(await protocol())


async def stream_big(scope, protocol):
    transport = protocol.response_stream(200, [])
    for _ in range(20):
        await transport.send_bytes(b"y" * 100_000)


async def stream_short(scope, protocol):
    transport = protocol.response_stream(200, [("content-length", "5")])
    await transport.send_bytes(b"abc")


async def stream_long(scope, protocol):
    transport = protocol.response_stream(200, [("content-length", "5")])
    await transport.send_bytes(b"abc")
    await transport.send_bytes(b"def")


async def disconnect(scope, protocol):
    await protocol.client_disconnect()
    RESULTS["disconnect"] = True
    protocol.response_empty(200, [])


async def results(scope, protocol):
    while scope.query_string not in RESULTS:
        await asyncio.sleep(0.002)
    protocol.response_str(200, [], repr(RESULTS.pop(scope.query_string)))


async def twice(scope, protocol):
    protocol.response_empty(200, [])
    protocol.response_empty(200, [])


async def nothing(scope, protocol):
    pass


async def raises(scope, protocol):
    raise ValueError("in rsgi")


async def bad_header(scope, protocol):
    protocol.response_empty(200, [("a", "b\r\n")])


async def bad_status(scope, protocol):
    protocol.response_empty("200", [])


async def bad_body(scope, protocol):
    protocol.response_bytes(200, [], "text")


async def ws_echo(scope, protocol):
    transport = await protocol.accept()
    while True:
        message = await transport.receive()
        if message.kind == 0:
            RESULTS["closed"] = True
            break
        if message.kind == 1:
            await transport.send_bytes(b"echo " + message.data)
        else:
            await transport.send_str("echo " + message.data)


async def ws_close(scope, protocol):
    await protocol.accept()
    RESULTS["close"] = protocol.close(4001)


async def ws_reject(scope, protocol):
    protocol.close()
