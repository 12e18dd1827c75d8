"""ASGI: HTTP messages, flow control, disconnects."""

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
    EARLY_HINTS,
    END,
    ERROR,
    FILE,
    RESPONSE,
    TRAILERS,
    WINDOW,
    scope,
)
from support import WorkerTest, module_missing

MESSAGE_START = {"type": "http.response.start", "status": 200, "headers": []}
MESSAGE_BODY = {"type": "http.response.body", "body": b"x"}


class AsgiTest(WorkerTest):
    module = "asgi_app:app"
    options = {"loop": "asyncio"}

    def get(self, path, query=b"", body=None, **more):
        if not isinstance(query, bytes):
            query = repr(query).encode()
        stream = self.worker.request(scope(path=path, query=query, **more), body)
        return self.worker.response(stream)

    def kinds(self, response):
        return [frame.kind for frame in response.frames]

    def result(self, name):
        return eval(self.get("/results", name.encode()).body)

    # -- responses

    def test_a_response_is_one_frame(self):
        response = self.get("/hello")
        self.assertEqual((response.status, response.body), (200, b"hello"))
        self.assertEqual(response.headers, [("content-type", "text/plain")])
        self.assertEqual(self.kinds(response), [RESPONSE])
        response = self.get("/only_start")
        self.assertEqual((response.status, response.headers, response.body), (201, [], b""))

    def test_a_response_that_is_alone_does_not_wait_for_the_clean_up(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "fifo")
            os.mkfifo(path)
            try:
                stream = self.worker.request(scope(path="/clean_up", query=path.encode()))
                self.assertEqual(self.worker.response(stream).body, b"hello")
            finally:
                os.close(os.open(path, os.O_WRONLY))

    def test_chunks(self):
        response = self.get("/chunks")
        self.assertEqual(response.body, b"one two three")
        self.assertIsNone(response.header("content-length"))

    def test_head(self):
        for path in ("/hello", "/chunks", "/big"):
            response = self.get(path, b"1000", method="HEAD")
            self.assertEqual((response.status, response.body), (200, b""))

    def test_each_chunk_is_sent_at_once(self):
        stream = self.worker.request(scope(path="/stepwise"), [])
        frame = self.lane.receive()
        self.assertEqual((frame.kind, frame.payload[frame.large :], frame.end), (RESPONSE, b"begin", False))
        for byte in (b"1", b"2"):
            self.lane.send(BODY_IN, stream, payload=byte)
            frame = self.lane.receive()
            self.assertEqual((frame.kind, frame.payload, frame.end), (BODY, b"got " + byte, False))
        self.lane.send(BODY_IN, stream, END)
        self.assertTrue(self.lane.receive().end)

    def test_the_head_is_sent_before_the_body_is_there(self):
        stream = self.worker.request(scope(path="/head_first"), [])
        frame = self.lane.receive()
        self.assertEqual((frame.kind, frame.end, len(frame.payload)), (RESPONSE, False, frame.large))
        self.lane.send(BODY_IN, stream, END, payload=b"now")
        self.assertEqual(self.lane.receive().payload, b"now")

    def test_many_requests_at_once(self):
        streams = {self.worker.request(scope(path="/hello")) for _ in range(300)}
        while streams:
            frame = self.lane.receive()
            self.assertEqual((frame.kind, frame.payload[frame.large :], frame.end), (RESPONSE, b"hello", True))
            streams.remove(frame.stream)

    def test_requests_run_concurrently(self):
        first = self.worker.request(scope(path="/wait_event", query=b"c"))
        self.assertEqual(self.get("/set_event", b"c").body, b"set")
        self.assertEqual(self.worker.response(first).body, b"waited")
        self.assertEqual(self.get("/in_thread").body, b"thread")

    # -- scope

    def test_what_the_worker_adds_to_the_scope(self):
        found = eval(self.get("/show", b"a=b", root_path="/root").body)
        self.assertEqual(found["asgi"], {"version": "3.0", "spec_version": "2.5"})
        self.assertIn("http.response.pathsend", found["extensions"])
        self.assertEqual(found["query_string"], b"a=b")
        self.assertEqual(found["client"], ("127.0.0.1", 34567))
        self.assertEqual(found["root_path"], "/root")
        tls = {"server_cert": None, "client_cert_chain": ["PEM"], "tls_version": 0x0304, "cipher_suite": 4865}
        found = eval(self.get("/show", extensions={"tls": tls}).body)
        self.assertEqual(found["extensions"]["tls"], tls)
        self.assertIn("http.response.trailers", found["extensions"])
        self.assertNotIn("tls", eval(self.get("/show").body)["extensions"])

    # -- request bodies

    def test_request_bodies(self):
        self.assertEqual(self.get("/echo").body, b"")
        self.assertEqual(self.get("/echo", body=b"").body, b"")
        self.assertEqual(self.get("/echo", body=b"content", method="POST").body, b"content")
        body = bytes(range(256)) * 1000
        self.assertEqual(self.get("/echo", body=body).body, body)

    def test_a_large_body_is_read_as_credit_allows(self):
        size = left = 20_000_000
        stream = self.worker.request(scope("POST", "/count_body"), [])
        room, block = WINDOW, b"u" * 65536
        while left:
            while room and left:
                part = block[: min(len(block), room, left)]
                self.lane.send(BODY_IN, stream, payload=part)
                left -= len(part)
                room -= len(part)
            if left:
                frame = self.lane.receive()
                self.assertEqual((frame.kind, frame.stream), (CREDIT, stream))
                room += frame.large
        self.lane.send(BODY_IN, stream, END)
        while True:
            frame = self.lane.receive()
            if frame.kind == RESPONSE:
                break
            self.assertEqual(frame.kind, CREDIT)
        self.assertEqual(frame.payload[frame.large :], b"%d" % size)

    # -- calls

    def test_the_calls_may_be_wrapped_in_tasks(self):
        response = self.get("/tasks_of_calls")
        self.assertEqual(eval(response.body), {"type": "http.request", "body": b"", "more_body": False})

    def test_receive_after_the_response(self):
        self.assertEqual(self.get("/after_response").body, b"done")
        self.assertEqual(self.result("after"), [{"type": "http.disconnect"}] * 2)

    # -- errors

    def assert_error(self, response, kind, text):
        self.assertIsNotNone(response.error, response.frames)
        self.assertEqual(response.error[0], kind, response.error)
        self.assertIn(text, response.error[1])

    def test_exceptions(self):
        response = self.get("/raise_before")
        self.assert_error(response, 1, "ValueError: before the head")
        self.assertIn("asgi_app.py", response.error[1])
        self.assertNotIn("sluice_worker", response.error[1])
        self.assert_error(self.get("/raise_started"), 1, "ValueError: after start")
        response = self.get("/raise_after")
        self.assert_error(response, 2, "ValueError: after the head")
        self.assertEqual((response.status, response.body), (200, b"part"))
        self.assert_error(self.get("/raise_exit"), 1, "SystemExit: please")
        self.assertEqual(self.get("/hello").body, b"hello")

    def test_an_exception_after_the_response_is_logged(self):
        self.assertEqual(self.get("/raise_complete").body, b"complete")
        self.last_log("ValueError: after the response")

    def test_applications_that_return_too_early(self):
        self.assert_error(self.get("/nothing"), 3, "returned without a response")
        self.assert_error(self.get("/started_only"), 3, "returned before its response was complete")
        response = self.get("/half")
        self.assert_error(response, 2, "returned before its response was complete")
        self.assertEqual(response.body, b"half")

    def test_an_application_that_returns_a_value(self):
        self.assertEqual(self.get("/returns_value").body, b"x")
        self.last_log("should return None")

    def test_messages_out_of_order(self):
        start, body = MESSAGE_START, MESSAGE_BODY
        expected = "expected ASGI message 'http.response.start', but got"
        self.assert_error(self.get("/messages", [body]), 3, expected)
        self.assert_error(self.get("/messages", [{"type": "nonsense"}]), 3, expected)
        self.assert_error(self.get("/messages", [{"type": "websocket.accept"}]), 3, expected)
        self.assert_error(self.get("/messages", [start, start]), 3, "expected ASGI message 'http.response.body'")
        response = self.get("/messages", [start, dict(body, more_body=True), start])
        self.assert_error(response, 2, "expected ASGI message 'http.response.body'")
        for message in (start, body):
            self.assertEqual(self.get("/messages", [start, body, message]).body, b"x")
            self.last_log("after the response was complete")
        self.assert_error(self.get("/messages", [{}]), 1, "KeyError")

    def test_bad_statuses_headers_and_bodies(self):
        for status in ("'200'", "None", "100", "199", "1000", "20.5"):
            message = b"[{'type': 'http.response.start', 'status': %s}]" % status.encode()
            self.assert_error(self.get("/messages", message), 3, "status")
        self.assert_error(self.get("/messages", [{"type": "http.response.start"}]), 1, "KeyError")
        for headers, text in (
            ("5", "not a list"),
            ("[5]", "not a pair"),
            ("[(b'a',)]", "not a pair"),
            ("[(b'a', b'b', b'c')]", "not a pair"),
            ("[('a', b'b')]", "not a pair of bytes"),
            ("[(b'a', 'b')]", "not a pair of bytes"),
            ("[(b'a', None)]", "not a pair of bytes"),
            ("[(b'a', b'b\\r\\nc: d')]", "control characters"),
            ("[(b'a', b'b\\0')]", "control characters"),
            ("[(b'a b', b'c')]", "not a header name"),
            ("[(b'', b'c')]", "not a header name"),
            ("[(b'content-length', b'ten')]", "Content-Length"),
            ("[(b'content-length', b'1'), (b'content-length', b'2')]", "two headers Content-Length"),
        ):
            message = b"[{'type': 'http.response.start', 'status': 200, 'headers': %s}]" % headers.encode()
            with self.subTest(headers):
                self.assert_error(self.get("/messages", message), 3, text)
        for body in ("'text'", "None", "5"):
            message = b"[%r, {'type': 'http.response.body', 'body': %s}]" % (MESSAGE_START, body.encode())
            response = self.get("/messages", message)
            self.assertIn(response.error[0], (1, 3))

    def test_headers_that_are_allowed(self):
        headers = "((bytearray(b'a'), memoryview(b'b')), [b'C', b'd'], (b'connection', b'close'))"
        message = b"[{'type': 'http.response.start', 'status': 200, 'headers': %s}, %r]"
        response = self.get("/messages", message % (headers.encode(), MESSAGE_BODY))
        self.assertEqual(response.headers, [("a", "b"), ("C", "d")])
        headers = "(h for h in [(b'x', b'y'), (b'transfer-encoding', b'chunked')])"
        response = self.get("/messages", message % (headers.encode(), MESSAGE_BODY))
        self.assertEqual(response.headers, [("x", "y")])
        body = "{'type': 'http.response.body', 'body': bytearray(b'array')}"
        response = self.get("/messages", b"[%r, %s]" % (MESSAGE_START, body.encode()))
        self.assertEqual(response.body, b"array")

    def test_content_length_is_enforced(self):
        def messages(length, *bodies):
            start = dict(MESSAGE_START, headers=[(b"content-length", b"%d" % length)])
            return [start] + [dict(MESSAGE_BODY, body=body, more_body=more) for body, more in bodies]

        self.assertEqual(self.get("/messages", messages(4, (b"four", False))).body, b"four")
        self.assertEqual(self.get("/messages", messages(4, (b"fo", True), (b"ur", False))).body, b"four")
        self.assert_error(self.get("/messages", messages(3, (b"four", False))), 3, "longer than its Content-Length")
        self.assert_error(self.get("/messages", messages(5, (b"four", False))), 3, "shorter than its Content-Length")
        response = self.get("/messages", messages(3, (b"fo", True), (b"ur", False)))
        self.assert_error(response, 2, "longer than its Content-Length of 3")
        response = self.get("/messages", messages(9, (b"fo", True), (b"ur", False)))
        self.assert_error(response, 2, "shorter than its Content-Length of 9")
        self.assertEqual(self.get("/messages", messages(9, (b"", False)), method="HEAD").error, None)

    # -- extensions

    def test_pathsend(self):
        with tempfile.NamedTemporaryFile() as file:
            file.write(b"content of a file")
            file.flush()
            response = self.get("/path_send", file.name.encode())
            self.assertEqual((response.file, response.body), ((0, 17), b"content of a file"))
            self.assertEqual(response.header("content-length"), "17")
            self.assertEqual(self.kinds(response), [RESPONSE, FILE])
            response = self.get("/path_send", file.name.encode(), method="HEAD")
            self.assertEqual((self.kinds(response), response.header("content-length")), ([RESPONSE], "17"))
            stream = self.worker.request(scope(path="/late_path_send", query=file.name.encode()), [])
            self.assertEqual(self.lane.receive().kind, RESPONSE)
            self.lane.send(BODY_IN, stream, END)
            response = self.worker.response(stream)
            self.assertEqual((response.file, response.body), ((0, 17), b"content of a file"))
            file.truncate(0)
            self.assertEqual(self.get("/path_send", file.name.encode()).body, b"")
        self.assert_error(self.get("/path_send", b"/does/not/exist"), 1, "FileNotFoundError")
        self.assert_error(self.get("/path_send", b"/"), 3, "not a regular file")

    def test_early_hints(self):
        response = self.get("/hints")
        self.assertEqual(self.kinds(response), [EARLY_HINTS, RESPONSE])
        hint = response.frames[0]
        self.assertEqual(hint.payload, b"link: </a.css>; rel=preload\r\nlink: </b.js>; rel=preload\r\n")
        self.assertEqual((response.status, response.body), (200, b"hinted"))

    def test_trailers(self):
        response = self.get("/trailers")
        self.assertEqual(self.kinds(response), [RESPONSE, TRAILERS, TRAILERS])
        self.assertEqual(response.body, b"data")
        self.assertEqual([frame.payload for frame in response.frames[1:]], [b"x-sum: 1\r\n", b"x-more: 2\r\n"])
        self.assertEqual([frame.end for frame in response.frames], [False, False, True])

    # -- flow control

    def receive_window(self):
        received = 0
        while received < WINDOW:
            frame = self.lane.receive()
            received += len(frame.payload) - frame.large
        return received

    def test_responses_wait_for_credit(self):
        for path, query in (("/big", b"2000000"), ("/big_chunks", b"20")):
            stream = self.worker.request(scope(path=path, query=query))
            received = self.receive_window()
            self.assertEqual(received, WINDOW)
            self.assert_silent()
            self.lane.send(CREDIT_IN, stream, large=1000)
            frame = self.lane.receive()
            self.assertEqual((frame.kind, len(frame.payload)), (BODY, 1000))
            self.lane.send(CREDIT_IN, stream, large=WINDOW)
            response = self.worker.response(stream)
            self.assertEqual(received + 1000 + len(response.body), 2_000_000)

    def test_many_large_responses_at_once(self):
        """More than the socket takes at once: what it does not take waits."""
        streams = {self.worker.request(scope(path="/big", query=b"200000")): 0 for _ in range(50)}
        while streams:
            frame = self.lane.receive()
            streams[frame.stream] += len(frame.payload) - frame.large
            if frame.end:
                self.assertEqual(streams.pop(frame.stream), 200_000)

    # -- disconnects

    def end_of(self, stream):
        while True:
            frame = self.lane.receive()
            self.assertEqual(frame.stream, stream)
            self.assertNotEqual(frame.kind, ERROR)
            if frame.end:
                self.assertEqual((frame.kind, frame.payload), (BODY, b""))
                return

    def test_cancel_is_delivered_at_once(self):
        stream = self.worker.request(scope(path="/wait_disconnect"))
        self.lane.send(CANCEL, stream)
        self.end_of(stream)
        self.assertEqual(self.result("disconnect"), {"type": "http.disconnect"})
        self.assertEqual(self.result("again"), {"type": "http.disconnect"})
        self.assertEqual(self.result("send"), "ClientDisconnected")

    def test_cancel_while_streaming(self):
        stream = self.worker.request(scope(path="/wait_disconnect_streaming"))
        self.lane.receive()
        self.lane.send(CANCEL, stream)
        self.end_of(stream)
        self.assertIn(self.result("streaming"), ("listener", "ClientDisconnected"))

    def test_cancel_while_waiting_for_credit(self):
        stream = self.worker.request(scope(path="/endless"))
        self.receive_window()
        self.lane.send(CANCEL, stream)
        self.end_of(stream)
        self.assertTrue(self.result("endless"))

    def test_a_request_that_takes_too_long_is_cancelled_as_a_task(self):
        for query in (b"", b"started"):
            stream = self.worker.request(scope(path="/wait_long", query=query))
            if query:
                self.lane.receive()
                self.lane.send(CANCEL, stream)
                self.assert_silent()
            self.lane.send(CANCEL, stream, small=1)
            self.end_of(stream)
            self.assertTrue(self.result("cancelled"))
        self.assertFalse(self.worker.logs)

    def test_exceptions_of_cancelled_requests(self):
        stream = self.worker.request(scope(path="/raise_disconnect"))
        self.lane.send(CANCEL, stream)
        self.end_of(stream)
        stream = self.worker.request(scope(path="/raise_cancelled"))
        self.lane.send(CANCEL, stream)
        self.end_of(stream)
        self.last_log("a real mistake")
        self.assertFalse([entry for entry in self.worker.logs if "wrapped" in entry.get("traceback", "")])

    def test_frames_of_streams_that_are_over(self):
        stream = self.worker.request(scope("POST", "/hello"), [])
        self.assertEqual(self.worker.response(stream).body, b"hello")
        self.lane.send(BODY_IN, stream, payload=b"late")
        self.lane.send(CREDIT_IN, stream, large=5)
        self.lane.send(CANCEL, stream)
        self.assert_silent()


@unittest.skipIf(module_missing("uvloop"), "uvloop is not installed")
class UvloopTest(AsgiTest):
    options = {"loop": "uvloop"}

    def test_the_loop_is_uvloop(self):
        self.assertEqual(self.worker.ready["loop"], "uvloop")


class EagerTest(AsgiTest):
    """Tasks that start at once (Python 3.12 and newer; elsewhere the option changes nothing)."""

    options = {"loop": "asyncio", "eager": True, "lanes": 2}


class JsonTest(AsgiTest):
    """Requests as JSON, for interpreters that read marshal differently."""

    options = {"sample": b"{0", "loop": "asyncio"}

    def setUp(self):
        self.assertFalse(self.worker.ready["marshal"])
        real = self.worker.request
        self.worker.request = lambda *args, **more: real(*args, json_form=True, **more)
        self.addCleanup(delattr, self.worker, "request")


class AdaptedTest(WorkerTest):
    """Applications in other forms."""

    def serve(self, module, **options):
        with driver.Worker(module, os.path.join(os.path.dirname(__file__), "apps"), **options) as worker:
            self.assertEqual(worker.ready["interface"], "asgi")
            return worker.get("/hello").body

    @classmethod
    def setUpClass(cls):
        pass

    @classmethod
    def tearDownClass(cls):
        pass

    def tearDown(self):
        pass

    def test_forms_of_applications(self):
        self.assertEqual(self.serve("asgi_app:instance"), b"hello")
        self.assertEqual(self.serve("asgi_app:decorated"), b"hello")
        self.assertEqual(self.serve("asgi_app:create_app()"), b"hello")
        self.assertEqual(self.serve("asgi_app:create_app", factory=True, interface="asgi"), b"hello")

    def test_asgi_2(self):
        self.assertEqual(self.serve("asgi_app:asgi2"), b"asgi 2.0")
        self.assertEqual(self.serve("asgi_app:Asgi2", interface="asgi"), b"asgi 2.0")


if __name__ == "__main__":
    unittest.main()
