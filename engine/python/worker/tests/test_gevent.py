"""gevent: ESGI, and WSGI with a greenlet for each request."""

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
    MORE,
    RESPONSE,
    TEXT,
    WINDOW,
    WS_ACCEPT,
    WS_CLOSE,
    WS_CLOSE_IN,
    WS_MESSAGE,
    WS_MESSAGE_IN,
    environ,
    scope,
)
from support import APPS, ScopeTest, WorkerTest, module_missing
from test_wsgi import WsgiTest

MISSING = module_missing("gevent")


@unittest.skipIf(MISSING, "gevent is not installed")
class EsgiTest(ScopeTest):
    module = "esgi_app:app"
    options = {"interface": "esgi"}

    def test_scope(self):
        self.assertEqual(self.worker.ready["loop"], "gevent")
        headers = [(b"x-two", b"1"), (b"x-two", b"2")]
        found = eval(self.get("/show", b"a=b", headers=headers).body)
        self.assertEqual(
            found,
            {
                "proto": "http",
                "esgi_version": "0.1",
                "http_version": "1.1",
                "server": "localhost:9080",
                "client": "127.0.0.1:34567",
                "scheme": "http",
                "method": "GET",
                "path": "/show",
                "query_string": "a=b",
                "headers": {"host": "localhost:9080", "x-two": "1, 2"},
                "authority": "localhost:9080",
            },
        )

    def test_responses(self):
        response = self.get("/hello")
        self.assertEqual((response.status, response.body, response.header("content-length")), (200, b"hello", "5"))
        self.assertEqual([frame.kind for frame in response.frames], [RESPONSE])
        response = self.get("/empty")
        self.assertEqual((response.status, response.headers), (204, [("x-a", "b")]))
        response = self.get("/hello", method="HEAD")
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

    def test_files(self):
        with tempfile.NamedTemporaryFile() as file:
            file.write(b"0123456789")
            file.flush()
            response = self.get("/file", file.name.encode())
            self.assertEqual((response.file, response.body), ((0, 10), b"0123456789"))
            self.assertEqual([frame.kind for frame in response.frames], [RESPONSE, FILE])
            self.assertEqual(self.get("/file_range", file.name.encode()).body, b"234")

    def test_streams(self):
        response = self.get("/stream", body=b"three")
        self.assertEqual((response.body, response.header("x-a")), (b"one two three", "b"))

    def test_standard_modules_are_patched_and_requests_concurrent(self):
        self.assertIn("gevent", self.get("/patched").body.decode())
        first = self.worker.request(scope(path="/wait_event", query=b"c"))
        self.assertEqual(self.get("/set_event", b"c").body, b"set")
        self.assertEqual(self.worker.response(first).body, b"waited")
        streams = {self.worker.request(scope(path="/sleep")) for _ in range(100)}
        while streams:
            frame = self.lane.receive()
            self.assertEqual(frame.payload[frame.large :], b"slept")
            streams.remove(frame.stream)

    def test_responses_wait_for_credit(self):
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

    def test_cancel(self):
        for path in ("/endless", "/wait_disconnect", "/big"):
            stream = self.worker.request(scope(path=path, query=b"2000000"))
            if path == "/wait_disconnect":
                self.lane.send(CANCEL, stream)
            else:
                self.lane.receive()
                self.lane.send(CANCEL, stream)
            while True:
                frame = self.lane.receive()
                self.assertEqual(frame.stream, stream)
                if frame.end:
                    self.assertEqual((frame.kind, frame.payload), (BODY, b""))
                    break
        self.assertEqual(self.get("/results", b"endless").body, b"True")

    def test_a_request_that_takes_too_long_is_killed(self):
        streams = [self.worker.request(scope(path="/wait_long")) for _ in range(2)]
        self.assert_silent()
        streams.append(self.worker.request(scope(path="/wait_long")))
        for stream in streams:
            self.lane.send(CANCEL, stream, small=1)
        ended = [self.lane.receive() for _ in streams]
        self.assertEqual({frame.stream for frame in ended}, set(streams))
        for frame in ended:
            self.assertEqual((frame.kind, frame.payload, frame.end), (BODY, b"", True))
        self.assertEqual(self.get("/results", b"killed").body, b"True")

    def test_many_large_responses_at_once(self):
        streams = {self.worker.request(scope(path="/big", query=b"200000")): 0 for _ in range(50)}
        while streams:
            frame = self.lane.receive()
            streams[frame.stream] += len(frame.payload) - frame.large
            if frame.end:
                self.assertEqual(streams.pop(frame.stream), 200_000)

    def test_errors(self):
        self.assertEqual(self.get("/nothing").error[0], 3)
        response = self.get("/raises")
        self.assertEqual(response.error[0], 1)
        self.assertIn("ValueError: in esgi", response.error[1])
        self.assertNotIn("sluice_worker", response.error[1])
        self.assertEqual(self.get("/twice").status, 200)
        self.last_log("responded already")
        self.assertEqual(self.get("/bad_header").error[0], 3)
        self.assertEqual(self.get("/bad_length").error[0], 3)

    def test_websocket(self):
        stream = self.open("/ws_echo")
        self.assertEqual(self.next().kind, WS_ACCEPT)
        self.lane.send(WS_MESSAGE_IN, stream, TEXT, payload=b"text")
        frame = self.next()
        self.assertEqual((frame.kind, frame.flags, frame.payload), (WS_MESSAGE, TEXT, b"ECHO:text"))
        self.lane.send(WS_MESSAGE_IN, stream, payload=b"bytes")
        self.assertEqual(self.next().payload, b"ECHO:bytes")
        self.lane.send(WS_CLOSE_IN, stream, END, small=1001)
        frame = self.next()
        self.assertEqual((frame.kind, frame.end), (WS_CLOSE, True))
        self.assertEqual(self.get("/results", b"closed").body, b"1001")

    def test_websocket_ends(self):
        self.open("/ws_close")
        self.assertEqual(self.next().kind, WS_ACCEPT)
        frame = self.next()
        self.assertEqual((frame.kind, frame.small, frame.payload, frame.end), (WS_CLOSE, 4001, b"enough", True))
        self.open("/ws_reject")
        frame = self.next()
        self.assertEqual((frame.kind, frame.small, frame.end), (WS_CLOSE, 1008, True))
        self.open("/nothing")
        self.assertEqual(self.next().kind, ERROR)

    def test_a_long_websocket_message_is_sent_in_pieces(self):
        stream = self.open("/ws_long")
        self.assertEqual(self.next().kind, WS_ACCEPT)
        for letter in (b"a", b"b"):
            frames = []
            while not frames or frames[-1].flags & MORE:
                frames.append(self.next())
                self.assertEqual(frames[-1].kind, WS_MESSAGE)
                self.lane.send(CREDIT_IN, stream, large=len(frames[-1].payload) + 128)
            self.assertGreater(len(frames), 3)
            self.assertEqual(b"".join(frame.payload for frame in frames), letter * 1_000_000)
        frame = self.next()
        self.assertEqual((frame.kind, frame.small), (WS_CLOSE, 1000))

    def test_websocket_messages_wait_for_credit(self):
        stream = self.open("/ws_flood")
        self.assertEqual(self.next().kind, WS_ACCEPT)
        for index in range(20):
            self.assertEqual(self.next().payload[:4], b"%04d" % index)
            if index == 1:
                self.assert_silent()
                self.lane.send(CREDIT_IN, stream, large=200_000)
            elif index > 1:
                self.lane.send(CREDIT_IN, stream, large=100_000)
        frame = self.next()
        self.assertEqual((frame.kind, frame.small), (WS_CLOSE, 1000))


@unittest.skipIf(MISSING, "gevent is not installed")
class EsgiProcessTest(unittest.TestCase):
    def test_init_and_del(self):
        with driver.Worker("esgi_app:instance", APPS, interface="esgi") as worker:
            self.assertEqual(worker.get("/hello").body, b"hello")
            self.assertEqual(worker.drain(), 0)
            self.assertEqual(worker.stdout(), "init\ndel\n")

    def test_drain_waits_for_requests(self):
        with driver.Worker("esgi_app:app", APPS, interface="esgi", lanes=2) as worker:
            first = worker.request(scope(path="/wait_event", query=b"d"), lane=worker.lanes[1])
            worker.control.send(driver.DRAIN)
            self.assertEqual(worker.get("/set_event", query=b"d").body, b"set")
            self.assertEqual(worker.response(first, worker.lanes[1]).body, b"waited")
            self.assertEqual(os.WEXITSTATUS(worker.wait_exit()), 0)

    def test_detected_by_its_method(self):
        with driver.Worker("esgi_app:instance", APPS) as worker:
            self.assertEqual(worker.ready["interface"], "esgi")
            self.assertEqual(worker.get("/hello").body, b"hello")


class MissingGeventTest(unittest.TestCase):
    @unittest.skipUnless(MISSING, "gevent is installed")
    def test_a_missing_gevent_is_reported(self):
        with driver.Worker("esgi_app:app", APPS, interface="esgi", start=False) as worker:
            failure = worker.expect(FAILED).json()
            self.assertEqual(failure["stage"], "start")
            self.assertIn("gevent is needed, and cannot be imported", failure["message"])


@unittest.skipIf(MISSING, "gevent is not installed")
class PatchedTest(WorkerTest):
    """A WSGI application that patches the standard library itself, and runs in threads of the worker."""

    module = "patched_app:app"

    def test_greenlets_run_while_the_worker_waits(self):
        self.assertEqual(self.worker.ready["loop"], None)
        before = int(self.worker.get("/ticks").body)
        while int(self.worker.get("/ticks").body) < before + 3:
            pass
        stream = self.worker.request(environ("POST", "/read"), [])
        self.lane.send(BODY_IN, stream, payload=b"x")
        while self.lane.quiet():
            self.lane.send(BODY_IN, stream, payload=b"x")
        self.lane.send(BODY_IN, stream, END)
        self.assertEqual(self.worker.response(stream).body, b"ticked")

    def test_requests_and_threads(self):
        self.assertEqual(self.worker.get("/sleep").body, b"slept")
        lanes = self.worker.seat()
        self.assertEqual(self.worker.get("/sleep", lane=lanes[0]).body, b"slept")
        self.assertEqual(self.worker.get("/pool").body, b"[0, 1, 4]")


@unittest.skipIf(MISSING, "gevent is not installed")
class WsgiGreenletTest(WsgiTest):
    """All tests of WSGI again, with greenlets instead of threads."""

    options = {"interface": "wsgi", "loop": "gevent"}

    def test_requests_run_concurrently(self):
        first = self.worker.request(environ("POST", "/echo"), [])
        self.assertEqual(self.get("/hello").body, b"hello")
        self.lane.send(BODY_IN, first, END, payload=b"x")
        self.assertEqual(self.worker.response(first).body, b"x")

    # Requests do not wait behind others, and one that ends the process takes all with it.
    test_cancel_of_a_request_that_waits_behind_another = None
    test_responses_are_written_before_a_request_that_may_not_be_repeated = None


if __name__ == "__main__":
    unittest.main()
