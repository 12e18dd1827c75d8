"""The ESGI application of study 002."""

import json

BODY = json.dumps({"message": "Hello, World!"}, separators=(",", ":")).encode()


def application(scope, protocol):
    if scope["path"] == "/hello":
        protocol.response_bytes(200, [("content-type", "application/json")], BODY)
    else:
        protocol.response_bytes(404, [("content-type", "text/plain")], b"not found")
