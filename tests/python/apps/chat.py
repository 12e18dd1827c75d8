"""A chat for ESGI: each WebSocket is a greenlet, and a message goes to all of them."""

import json

MEMBERS = set()


def application(scope, protocol):
    if scope["proto"] == "ws":
        chat(protocol)
    elif scope["path"] == "/members":
        protocol.response_str(200, [("content-type", "text/plain")], str(len(MEMBERS)))
    elif scope["path"] == "/upload":
        body = protocol.read_body()
        protocol.response_str(200, [("content-type", "text/plain")], str(len(body)))
    else:
        shown = {name: value for name, value in scope.items() if isinstance(value, (str, dict))}
        protocol.response_str(200, [("content-type", "application/json")], json.dumps(shown, sort_keys=True))


def chat(protocol):
    transport = protocol.accept()
    MEMBERS.add(transport)
    try:
        while True:
            message = transport.receive()
            if message.kind == 0:
                return
            for member in list(MEMBERS):
                if message.kind == 1:
                    member.send_bytes(message.data)
                else:
                    member.send_str(message.data)
    finally:
        MEMBERS.discard(transport)
