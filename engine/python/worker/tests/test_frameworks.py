"""Frameworks, where the worker's interpreter has them."""

import json
import os
import unittest

from driver import (
    CANCEL,
    END,
    ERROR,
    FILE,
    RESPONSE,
    TEXT,
    WEBSOCKET,
    WS_ACCEPT,
    WS_CLOSE,
    WS_CLOSE_IN,
    WS_MESSAGE,
    WS_MESSAGE_IN,
    environ,
    scope,
)
from support import APPS, WorkerTest, module_missing

BOUNDARY = b"boundary"
UPLOAD = (
    b'--boundary\r\nContent-Disposition: form-data; name="field"\r\n\r\nvalue\r\n'
    b'--boundary\r\nContent-Disposition: form-data; name="file"; filename="a.bin"\r\n'
    b"Content-Type: application/octet-stream\r\n\r\n" + b"\x00\xff" * 300_000 + b"\r\n--boundary--\r\n"
)
UPLOADED = {"name": "a.bin", "size": 600_000, "field": "value"}


def content(name):
    with open(os.path.join(APPS, name), "rb") as file:
        return file.read()


class FrameworkTest(WorkerTest):
    def wsgi(self, path, method="GET", body=None, **more):
        stream = self.worker.request(environ(method, path, **more), [] if body is not None else None)
        return self.finish(stream, body)

    def asgi(self, path, method="GET", body=None, **more):
        stream = self.worker.request(scope(method, path, **more), [] if body is not None else None)
        return self.finish(stream, body)

    def finish(self, stream, body):
        """Sends a request body as credit allows, and receives the response."""
        from driver import BODY_IN, CREDIT, WINDOW

        room = WINDOW
        while body:
            part = body[: min(room, 65536)]
            if not part:
                frame = self.lane.receive()
                self.assertEqual(frame.kind, CREDIT)
                room += frame.large
                continue
            self.lane.send(BODY_IN, stream, payload=part)
            room -= len(part)
            body = body[len(part) :]
        if body is not None:
            self.lane.send(BODY_IN, stream, END)
        return self.worker.response(stream)

    def next(self):
        from driver import CREDIT

        while True:
            frame = self.lane.receive()
            if frame.kind != CREDIT:
                return frame


@unittest.skipIf(module_missing("flask"), "Flask is not installed")
class FlaskTest(FrameworkTest):
    module = "flask_app:app"

    def test_flask(self):
        response = self.wsgi("/json", query="a=b", SCRIPT_NAME="/mount")
        self.assertEqual(json.loads(response.body), {"path": "/json", "script": "/mount", "args": {"a": "b"}})
        self.assertEqual([frame.kind for frame in response.frames], [RESPONSE])
        path = "/caf\u00e9".encode().decode("latin-1")
        self.assertEqual(self.wsgi(path).body, "/caf\u00e9".encode())
        headers = [("Content-Type", "multipart/form-data; boundary=boundary")]
        response = self.wsgi("/upload", "POST", UPLOAD, headers=headers)
        self.assertEqual(json.loads(response.body), UPLOADED)
        headers.append(("Content-Length", str(len(UPLOAD))))
        response = self.wsgi("/upload", "POST", UPLOAD, headers=headers)
        self.assertEqual(json.loads(response.body), UPLOADED)
        self.assertEqual(self.wsgi("/stream").body, b"0;1;2;")
        self.assertEqual(json.loads(self.wsgi("/closed").body), ["stream"])
        response = self.wsgi("/file")
        self.assertEqual((response.frames[-1].kind, response.body), (FILE, content("flask_app.py")))
        response = self.wsgi("/range", headers=[("Range", "bytes=3-9")])
        self.assertEqual((response.status, response.body), (206, content("flask_app.py")[3:10]))
        self.assertEqual(self.wsgi("/memory").body, b"in memory")
        self.assertEqual(self.wsgi("/json", "HEAD").body, b"")
        self.assertEqual(self.wsgi("/absent").status, 404)
        cookies = [value for name, value in self.wsgi("/cookie").headers if name == "Set-Cookie"]
        self.assertEqual(cookies, ["a=b; Path=/", "c=d; HttpOnly; Path=/"])
        response = self.wsgi("/error")
        self.assertEqual(response.error[0], 1)
        self.assertIn("ValueError: from flask", response.error[1])


@unittest.skipIf(module_missing("fastapi") or module_missing("python_multipart"), "FastAPI is not installed")
class FastApiTest(FrameworkTest):
    module = "fastapi_app:app"

    def test_requests(self):
        response = self.asgi("/json", query=b"q=x")
        expected = {"q": "x", "state": "state", "url": "http://localhost:9080/json?q=x", "client": "127.0.0.1"}
        self.assertEqual(json.loads(response.body), expected)
        self.assertEqual(response.header("x-middleware"), "yes")
        self.assertEqual(self.asgi("/sync").body, b'{"sync":true}')
        headers = [(b"content-type", b"multipart/form-data; boundary=boundary")]
        response = self.asgi("/upload", "POST", UPLOAD, headers=headers)
        self.assertEqual(json.loads(response.body), UPLOADED)
        self.assertEqual(self.asgi("/file").body, content("fastapi_app.py"))
        self.assertEqual(self.asgi("/background").body, b'{"ok":true}')
        self.assertEqual(self.asgi("/events").body, b'["background"]')
        response = self.asgi("/error")
        self.assertEqual(response.status, 500)
        self.last_log("ValueError: from fastapi")

    def test_server_sent_events_and_disconnect(self):
        stream = self.worker.request(scope(path="/sse"))
        frame = self.lane.receive()
        self.assertEqual((frame.kind, frame.end), (RESPONSE, False))
        self.lane.receive()
        self.lane.send(CANCEL, stream)
        while not frame.end:
            frame = self.lane.receive()
            self.assertNotEqual(frame.kind, ERROR)
        self.assertEqual(self.asgi("/events").body, b'["sse closed"]')

    def test_websocket(self):
        stream = self.worker.request(scope(path="/ws", kind="websocket", subprotocols=["chat"]), flags=WEBSOCKET)
        frame = self.next()
        self.assertEqual((frame.kind, frame.payload), (WS_ACCEPT, b"sec-websocket-protocol: chat\r\n"))
        self.lane.send(WS_MESSAGE_IN, stream, TEXT, payload=b"hello")
        frame = self.next()
        self.assertEqual((frame.kind, frame.payload), (WS_MESSAGE, b'{"echo":"hello"}'))
        self.lane.send(WS_CLOSE_IN, stream, END, small=1000)
        frame = self.next()
        self.assertEqual((frame.kind, frame.end), (WS_CLOSE, True))
        self.assertEqual(self.asgi("/events").body, b'["ws closed"]')

    def test_a_disconnect_that_the_application_does_not_catch(self):
        stream = self.worker.request(scope(path="/ws-propagates", kind="websocket"), flags=WEBSOCKET)
        self.assertEqual(self.next().kind, WS_ACCEPT)
        self.lane.send(WS_CLOSE_IN, stream, END, small=1001)
        frame = self.next()
        self.assertEqual((frame.kind, frame.small, frame.end), (WS_CLOSE, 1001, True))
        self.assert_silent()
        self.assertFalse([entry for entry in self.worker.logs if "WebSocketDisconnect" in entry.get("traceback", "")])

    def test_a_websocket_without_route(self):
        self.worker.request(scope(path="/nowhere", kind="websocket"), flags=WEBSOCKET)
        frame = self.next()
        self.assertIn(frame.kind, (WS_CLOSE, RESPONSE))


@unittest.skipIf(module_missing("django"), "Django is not installed")
class DjangoWsgiTest(FrameworkTest):
    module = "django_app:wsgi"

    def send(self, path, method="GET", body=None, headers=(), **more):
        return self.wsgi(path, method, body, headers=headers, **more)

    def test_django(self):
        self.assertEqual(json.loads(self.send("/json").body)["path"], "/json")
        headers = [("Content-Type", "multipart/form-data; boundary=boundary"), ("Content-Length", str(len(UPLOAD)))]
        if self.worker.ready["interface"] == "asgi":
            headers = [(name.lower().encode(), value.encode()) for name, value in headers]
        response = self.send("/upload", "POST", UPLOAD, headers)
        self.assertEqual(json.loads(response.body), UPLOADED)
        self.assertEqual(self.send("/stream").body, b"ab")
        self.assertEqual(self.send("/file").body, content("django_app.py"))
        self.assertEqual(self.send("/async").body, b"async")
        self.assertIn("name=value", self.send("/cookie").header("set-cookie"))
        self.assertEqual(self.send("/absent").status, 404)


@unittest.skipIf(module_missing("django"), "Django is not installed")
class DjangoAsgiTest(DjangoWsgiTest):
    module = "django_app:asgi"

    def send(self, path, method="GET", body=None, headers=(), **more):
        return self.asgi(path, method, body, headers=headers, **more)


@unittest.skipIf(module_missing("quart"), "Quart is not installed")
class QuartTest(FrameworkTest):
    module = "quart_app:app"

    def test_quart(self):
        self.assertEqual(self.asgi("/echo", "POST", b"data").body, b"data")
        stream = self.worker.request(scope(path="/ws", kind="websocket"), flags=WEBSOCKET)
        # Quart accepts with its first message.
        self.assertEqual(self.next().kind, WS_ACCEPT)
        self.lane.send(WS_MESSAGE_IN, stream, TEXT, payload=b"hello")
        self.assertEqual(self.next().payload, b"echo hello")
        self.lane.send(WS_CLOSE_IN, stream, END, small=1000)
        frame = self.next()
        self.assertEqual((frame.kind, frame.end), (WS_CLOSE, True))


if __name__ == "__main__":
    unittest.main()
