"""RSGI: responses, bodies, WebSockets."""

import os
import tempfile
import unittest

import driver
from driver import (
    BODY,
    BODY_IN,
    CANCEL,
    CREDIT,
    CREDIT_IN,
    END,
    ERROR,
    FAILED,
    FILE,
    RESPONSE,
    TEXT,
    WINDOW,
    WS_ACCEPT,
    WS_CLOSE,
    WS_CLOSE_IN,
    WS_MESSAGE,
    WS_MESSAGE_IN,
    scope,
)
from support import APPS, ScopeTest


class RsgiTest(ScopeTest):
    module = "rsgi_app:app"
    options = {"loop": "asyncio"}

    def simple_request(self):
        return scope(path="/bytes_")

    def test_detected(self):
        self.assertEqual(self.worker.ready["interface"], "rsgi")

    def test_scope(self):
        headers = [(b"x-two", b"1"), (b"x-two", b"caf\xe9")]
        found = eval(self.get("/show", b"a=b", headers=headers).body.decode())
        self.assertEqual(
            found,
            {
                "proto": "http",
                "rsgi_version": "1.6",
                "http_version": "1.1",
                "server": "localhost:9080",
                "client": "127.0.0.1:34567",
                "scheme": "http",
                "method": "GET",
                "path": "/show",
                "query_string": "a=b",
                "authority": "localhost:9080",
                "host": ("localhost:9080", True, None, 2),
                "headers": [("host", "localhost:9080"), ("x-two", "1"), ("x-two", "caf\u00e9")],
                "all": ["1", "caf\u00e9"],
                "keys": ["host", "x-two"],
            },
        )
        found = eval(self.get("/show", client=None, server=("::1", 80)).body)
        self.assertEqual((found["client"], found["server"]), ("", "[::1]:80"))

    def test_responses(self):
        response = self.get("/empty")
        self.assertEqual((response.status, response.headers), (204, [("x-a", "b")]))
        self.assertEqual(self.get("/empty_200").header("content-length"), "0")
        response = self.get("/bytes_")
        self.assertEqual((response.body, response.header("content-length")), (b"bytes", "5"))
        self.assertEqual([frame.kind for frame in response.frames], [RESPONSE])
        response = self.get("/bytes_", method="HEAD")
        self.assertEqual((response.body, response.header("content-length")), (b"", "5"))

    def test_bodies(self):
        self.assertEqual(self.get("/echo").body, b"")
        self.assertEqual(self.get("/echo", body=b"content").body, b"content")
        stream = self.worker.request(scope("POST", "/iterate"), [])
        for _ in range(10):
            self.lane.send(BODY_IN, stream, payload=b"x" * (WINDOW // 2))
            frame = self.lane.receive()
            self.assertEqual((frame.kind, frame.large), (CREDIT, WINDOW // 2))
        self.lane.send(BODY_IN, stream, END)
        self.assertEqual(self.worker.response(stream).body, b"%d" % (5 * WINDOW))

    def test_large_bodies_wait_for_credit(self):
        for path in ("/big", "/stream_big"):
            stream = self.worker.request(scope(path=path, query=b"2000000"))
            received = 0
            while received < WINDOW:
                frame = self.lane.receive()
                received += len(frame.payload) - frame.large
            self.assertEqual(received, WINDOW)
            self.assert_silent()
            self.lane.send(CREDIT_IN, stream, large=WINDOW)
            self.assertEqual(received + len(self.worker.response(stream).body), 2_000_000)

    def test_cancel_while_a_large_body_waits(self):
        stream = self.worker.request(scope(path="/big", query=b"2000000"))
        self.lane.receive()
        self.lane.send(CANCEL, stream)
        frame = self.lane.receive()
        self.assertEqual((frame.kind, frame.payload, frame.end), (BODY, b"", True))

    def test_files(self):
        with tempfile.NamedTemporaryFile() as file:
            file.write(b"0123456789")
            file.flush()
            response = self.get("/file", file.name.encode())
            self.assertEqual((response.file, response.body), ((0, 10), b"0123456789"))
            self.assertEqual([frame.kind for frame in response.frames], [RESPONSE, FILE])
            response = self.get("/file_range", file.name.encode())
            self.assertEqual((response.status, response.file, response.body), (206, (2, 3), b"234"))
            self.assertEqual(response.header("content-length"), "3")
        self.assertEqual(self.get("/file", b"/does/not/exist").error[0], 1)

    def test_streams(self):
        response = self.get("/stream", body=b"three")
        self.assertEqual((response.body, response.header("x-a")), (b"one two three", "b"))
        response = self.get("/stream_short")
        self.assertEqual((response.body, response.error[0]), (b"abc", 2))
        response = self.get("/stream_long")
        self.assertEqual((response.body, response.error[0]), (b"abc", 2))
        self.assertEqual(self.get("/stream", method="HEAD").body, b"")

    def test_client_disconnect(self):
        stream = self.worker.request(scope(path="/disconnect"))
        self.lane.send(CANCEL, stream)
        frame = self.lane.receive()
        self.assertEqual((frame.stream, frame.end), (stream, True))
        self.assertEqual(self.get("/results", b"disconnect").body, b"True")

    def test_errors(self):
        self.assertEqual(self.get("/nothing").error[0], 3)
        response = self.get("/raises")
        self.assertEqual(response.error[0], 1)
        self.assertIn("ValueError: in rsgi", response.error[1])
        self.assertEqual(self.get("/twice").status, 200)
        self.last_log("responded already")
        for path in ("/bad_header", "/bad_status", "/bad_body"):
            self.assertEqual(self.get(path).error[0], 3)

    def test_websocket(self):
        stream = self.open("/ws_echo")
        self.assertEqual(self.next().kind, WS_ACCEPT)
        self.lane.send(WS_MESSAGE_IN, stream, TEXT, payload=b"text")
        frame = self.next()
        self.assertEqual((frame.kind, frame.flags, frame.payload), (WS_MESSAGE, TEXT, b"echo text"))
        self.lane.send(WS_MESSAGE_IN, stream, payload=b"bytes")
        frame = self.next()
        self.assertEqual((frame.kind, frame.flags, frame.payload), (WS_MESSAGE, 0, b"echo bytes"))
        self.lane.send(WS_CLOSE_IN, stream, END, small=1000)
        frame = self.next()
        self.assertEqual((frame.kind, frame.end), (WS_CLOSE, True))
        self.assertEqual(self.get("/results", b"closed").body, b"True")

    def test_websocket_close(self):
        self.open("/ws_close")
        self.assertEqual(self.next().kind, WS_ACCEPT)
        frame = self.next()
        self.assertEqual((frame.kind, frame.small, frame.end), (WS_CLOSE, 4001, True))
        self.assertEqual(self.get("/results", b"close").body, b"(4001, True)")
        self.open("/ws_reject")
        frame = self.next()
        self.assertEqual((frame.kind, frame.end), (WS_CLOSE, True))
        self.open("/nothing")
        self.assertEqual(self.next().kind, ERROR)


class RsgiProcessTest(unittest.TestCase):
    def test_init_and_del(self):
        with driver.Worker("rsgi_app:app", APPS, loop="asyncio") as worker:
            self.assertEqual(worker.drain(), 0)
            self.assertEqual(worker.stdout(), "init True\ndel True\n")

    def test_a_function(self):
        with driver.Worker("rsgi_app:function", APPS, loop="asyncio") as worker:
            self.assertEqual(worker.get().body, b"function")

    def test_init_that_raises(self):
        with driver.Worker("rsgi_app:broken", APPS, start=False) as worker:
            failure = worker.expect(FAILED).json()
            self.assertIn("ValueError: cannot initialise", failure["message"])
            self.assertEqual(os.WEXITSTATUS(worker.wait_exit()), 3)


if __name__ == "__main__":
    unittest.main()
