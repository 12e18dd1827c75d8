"""Applications for test_accelerator.py that show a request, and then change all of it that can be changed."""


def wsgi(environ, start_response):
    shown = {key: value if isinstance(value, (str, bool, tuple)) else str(value) for key, value in environ.items()}
    body = ascii(shown).encode()
    for key in list(environ):
        environ[key] = None
    environ["more"] = 1
    del environ["PATH_INFO"]
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [body]


async def asgi(scope, receive, send):
    body = ascii(scope).encode()
    scope["headers"].append((b"more", b"1"))
    scope["asgi"]["version"] = "9"
    if "tls" in scope["extensions"]:
        scope["extensions"]["tls"]["client_cert_chain"].append("more")
    scope["extensions"]["more"] = {}
    scope["more"] = 1
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})
