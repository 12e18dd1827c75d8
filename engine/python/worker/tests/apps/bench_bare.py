"""The smallest applications of each interface, for bench.py."""

BODY = b'{"message":"Hello, World!"}'


def wsgi(environ, start_response):
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", "27")])
    return [BODY]


async def asgi(scope, receive, send):
    await send(
        {
            "type": "http.response.start",
            "status": 200,
            "headers": [(b"content-type", b"application/json"), (b"content-length", b"27")],
        }
    )
    await send({"type": "http.response.body", "body": BODY})


async def rsgi(scope, protocol):
    protocol.response_bytes(200, [("content-type", "application/json")], BODY)


def esgi(scope, protocol):
    protocol.response_bytes(200, [("Content-Type", "application/json")], BODY)
