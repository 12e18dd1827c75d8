"""A bare RSGI application."""


async def app(scope, protocol):
    if scope.path == "/digest":
        body = await protocol()
        return protocol.response_bytes(200, [("content-type", "text/plain")], body[::-1])
    protocol.response_str(200, [("content-type", "text/plain")], f"{scope.proto} {scope.method} {scope.path}")
