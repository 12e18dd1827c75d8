"""WSGI: PEP 3333, flow control, cancelled requests."""

import gzip
import os
import tempfile
import unittest

import driver
from driver import BODY, BODY_IN, CANCEL, CREDIT, CREDIT_IN, END, ERROR, FILE, REQUEST, RESPONSE, WINDOW, environ
from support import WorkerTest


class WsgiTest(WorkerTest):
    module = "wsgi_app:app"

    def get(self, path, query="", body=None, **more):
        stream = self.worker.request(environ(path=path, query=query, **more), body)
        return self.worker.response(stream)

    def kinds(self, response):
        return [frame.kind for frame in response.frames]

    def assert_rule(self, response, text):
        self.assertIsNotNone(response.error, response.frames)
        self.assertEqual(response.error[0], 3, response.error)
        self.assertIn(text, response.error[1])
        self.assertIsNone(response.status)

    # -- complete responses

    def test_a_list_is_one_frame_with_content_length(self):
        response = self.get("/hello")
        self.assertEqual(response.status, 200)
        self.assertEqual(response.headers, [("Content-Type", "text/plain"), ("Content-Length", "5")])
        self.assertEqual(response.body, b"hello")
        self.assertEqual(self.kinds(response), [RESPONSE])

    def test_a_response_that_is_alone_does_not_wait_for_close(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "fifo")
            os.mkfifo(path)
            try:
                self.assertEqual(self.get("/clean_up", path).body, b"hello")
            finally:
                os.close(os.open(path, os.O_WRONLY))

    def test_several_items_of_a_list_are_one_body(self):
        response = self.get("/parts")
        self.assertEqual(response.body, b"one two three")
        self.assertEqual(response.header("Content-Length"), "13")
        self.assertEqual(self.get("/tuple_body").body, b"tuple")

    def test_an_empty_list_has_length_0(self):
        response = self.get("/empty")
        self.assertEqual(response.header("Content-Length"), "0")
        self.assertEqual(response.body, b"")

    def test_204_and_304_have_no_body_and_no_added_length(self):
        response = self.get("/no_content")
        self.assertEqual((response.status, response.headers), (204, []))
        response = self.get("/not_modified")
        self.assertEqual((response.status, response.header("Content-Length")), (304, "10"))

    def test_head_sends_the_head_only(self):
        response = self.get("/hello", method="HEAD")
        self.assertEqual((response.status, response.body), (200, b""))
        self.assertEqual(response.header("Content-Length"), "5")
        self.assertIsNone(self.get("/empty", method="HEAD").header("Content-Length"))
        response = self.get("/generator", method="HEAD")
        self.assertEqual((response.body, self.kinds(response)), (b"", [RESPONSE]))
        self.assertEqual(self.get("/endless", method="HEAD").body, b"")
        self.assertIn(b"endless", self.get("/closed_names").body)
        response = self.get("/file", method="HEAD")
        self.assertEqual((response.header("Content-Length"), self.kinds(response)), ("100", [RESPONSE]))

    def test_paths_and_headers_are_latin_1(self):
        response = self.get("/headers_given", repr([("X-Name", "caf\u00e9")]))
        self.assertEqual(response.header("X-Name"), "caf\u00e9")

    # -- streamed responses

    def test_each_item_is_sent_before_the_next_is_asked_for(self):
        stream = self.worker.request(environ(path="/stepwise"), [])
        frame = self.lane.receive()
        self.assertEqual((frame.kind, frame.payload[frame.large :]), (RESPONSE, b"begin"))
        for byte in (b"1", b"2", b"3"):
            self.lane.send(BODY_IN, stream, payload=byte)
            frame = self.lane.receive()
            self.assertEqual((frame.kind, frame.payload, frame.end), (BODY, b"got " + byte, False))
        self.lane.send(BODY_IN, stream, END)
        frame = self.lane.receive()
        self.assertEqual((frame.kind, frame.payload, frame.end), (BODY, b"", True))

    def test_a_generator_is_streamed_without_length(self):
        response = self.get("/generator")
        self.assertEqual(response.body, b"firstsecond")
        self.assertIsNone(response.header("Content-Length"))

    def test_start_response_may_come_with_the_first_item(self):
        self.assertEqual(self.get("/late_start").body, b"late")

    def test_close_is_always_called(self):
        self.assertEqual(self.get("/close_tracking").body, b"ab")
        response = self.get("/close_after_error")
        self.assertEqual(response.error[0], 2)
        self.assertIn("ValueError: in the middle", response.error[1])
        names = self.get("/closed_names").body
        self.assertIn(b"tracked", names)
        self.assertIn(b"after-error", names)

    def test_write_sends_at_once(self):
        stream = self.worker.request(environ(path="/write"), [])
        frame = self.lane.receive()
        self.assertEqual((frame.kind, frame.payload[frame.large :], frame.end), (RESPONSE, b"written ", False))
        self.lane.send(BODY_IN, stream, END)
        response = self.worker.response(stream)
        self.assertEqual(response.body, b"twice and returned")
        self.assertEqual(self.get("/write_only").body, b"written")

    # -- request bodies

    def test_request_bodies(self):
        self.assertEqual(self.get("/echo").body, b"")
        self.assertEqual(self.get("/echo", body=b"").body, b"")
        self.assertEqual(self.get("/echo", body=b"content", method="POST").body, b"content")

    def test_a_body_in_parts(self):
        stream = self.worker.request(environ("POST", "/echo"), [])
        for part in (b"one ", b"two ", b"three"):
            self.lane.send(BODY_IN, stream, payload=part)
        self.lane.send(BODY_IN, stream, END)
        self.assertEqual(self.worker.response(stream).body, b"one two three")

    def test_lines(self):
        body = b"first\nsecond\nthird\nfourth"
        expected = repr([b"first\n", b"sec", b"on", b"d\n", b"third\n", b"fourth"]).encode()
        self.assertEqual(self.get("/lines", body=body).body, expected)
        stream = self.worker.request(environ("POST", "/lines"), [])
        for index in range(len(body)):
            self.lane.send(BODY_IN, stream, payload=body[index : index + 1])
        self.lane.send(BODY_IN, stream, END)
        self.assertEqual(self.worker.response(stream).body, expected)
        self.assertEqual(self.get("/iterate", body=b"a\nb\n\nc").body, repr([b"a\n", b"b\n", b"\n", b"c"]).encode())

    def upload(self, size):
        """Uploads `size` bytes as credit allows; returns the response's body and the credit that was granted."""
        stream = self.worker.request(environ("POST", "/count_body"), [])
        block = b"u" * 65536
        room, granted = WINDOW, 0
        while size:
            while room and size:
                part = block[: min(len(block), room, size)]
                self.lane.send(BODY_IN, stream, payload=part)
                size -= len(part)
                room -= len(part)
            if size:
                frame = self.lane.receive()
                self.assertEqual((frame.kind, frame.stream), (CREDIT, stream))
                room += frame.large
                granted += frame.large
        self.lane.send(BODY_IN, stream, END)
        while True:
            frame = self.lane.receive()
            if frame.kind == RESPONSE:
                return frame.payload[frame.large :], granted
            self.assertEqual(frame.kind, CREDIT)

    def test_a_large_body_is_read_as_credit_allows(self):
        body, granted = self.upload(20_000_000)
        self.assertEqual(body, b"20000000")
        self.assertGreaterEqual(granted, 20_000_000 - WINDOW)

    def test_a_body_of_1_gb(self):
        self.assertEqual(self.upload(1 << 30)[0], b"1073741824")

    def test_a_body_that_is_not_read_is_no_obstacle(self):
        stream = self.worker.request(environ("POST", "/ignore_body"), [])
        self.assertEqual(self.worker.response(stream).body, b"ignored")
        self.lane.send(BODY_IN, stream, payload=b"late")
        self.lane.send(CREDIT_IN, stream, large=5)
        self.lane.send(CANCEL, stream)
        self.assert_silent()

    def test_frames_of_any_size_and_split_anywhere(self):
        payload = driver.encode_marshal(environ("POST", "/echo"))
        stream = self.worker.number()
        data = driver.HEADER.pack(len(payload), stream, REQUEST, 0, 0, 0) + payload
        data += driver.HEADER.pack(3, stream, BODY_IN, END, 0, 0) + b"abc"
        for index in range(len(data)):
            self.lane.send_raw(data[index : index + 1])
        self.assertEqual(self.worker.response(stream).body, b"abc")
        body = bytes(range(256)) * 1000
        self.assertEqual(self.get("/echo", body=body).body, body)
        huge = "x" * 1_000_000
        self.assertEqual(self.get("/hello", headers=[("X-Huge", huge)]).body, b"hello")
        self.assertEqual(self.get("/hello").body, b"hello")

    # -- environ

    def test_what_the_worker_adds_to_the_environ(self):
        lines = self.get("/show").body.decode().split("\n")
        self.assertIn("wsgi.version=(1, 0)", lines)
        self.assertIn("wsgi.multithread=True", lines)
        self.assertIn("wsgi.multiprocess=True", lines)
        self.assertIn("wsgi.run_once=False", lines)
        self.assertIn("wsgi.url_scheme='http'", lines)
        self.assertIn("wsgi.input_terminated=True", lines)
        self.assertIn("file_wrapper=FileWrapper", lines)

    def test_wsgi_errors_is_standard_error(self):
        self.get("/errors")
        self.assertIn("written to wsgi.errors\none\ntwo\n", self.worker.stderr())

    def test_validator(self):
        response = self.get("/validated", body=b"12345", method="POST")
        self.assertEqual((response.error, response.body), (None, b"validated 12345"))
        response = self.get("/validated/items")
        self.assertEqual((response.error, response.body), (None, b"validated"))

    # -- errors of the application

    def test_an_exception_before_the_response(self):
        for path in ("/raise_before", "/raise_started"):
            response = self.get(path)
            self.assertEqual((response.status, response.error[0]), (None, 1))
            self.assertTrue(response.error[1].startswith("Traceback (most recent call last):\n"))
            self.assertIn("wsgi_app.py", response.error[1])
            self.assertIn("ValueError: ", response.error[1])
            self.assertNotIn("sluice_worker", response.error[1])

    def test_an_exception_after_the_head(self):
        response = self.get("/raise_after")
        self.assertEqual((response.status, response.body, response.error[0]), (200, b"part", 2))
        self.assertIn("ValueError: after the head", response.error[1])

    def test_sys_exit_is_an_error_of_the_request(self):
        response = self.get("/raise_exit")
        self.assertEqual(response.error[0], 1)
        self.assertIn("SystemExit: please", response.error[1])
        self.assertEqual(self.get("/hello").body, b"hello")

    def test_exc_info(self):
        response = self.get("/exc_info_before")
        self.assertEqual((response.status, response.body), (500, b"handled"))
        response = self.get("/exc_info_after")
        self.assertEqual((response.status, response.body, response.error[0]), (200, b"sent", 2))
        self.assertIn("KeyError: 'too late'", response.error[1])

    def test_start_response_is_called_once(self):
        self.assert_rule(self.get("/start_twice"), "start_response was called twice")
        self.assert_rule(self.get("/no_start"), "did not call start_response")
        self.assert_rule(self.get("/no_start_iterable"), "before it called start_response")

    def test_bad_statuses(self):
        for status in (
            '"200"',
            '"20 OK"',
            '"2000 OK"',
            '"abc OK"',
            '"199 Early"',
            '"100 Continue"',
            "b'200 OK'",
            "200",
            "None",
            '"200 OK\\r\\nX: y"',
            '"200 a\\x00"',
            '""',
        ):
            self.assert_rule(self.get("/status_given", status), "status")
        for status in ('"200 OK"', '"299 "', '"404 Not Found"', '"999 Odd"', '"200 caf\\xe9"'):
            self.assertEqual(self.get("/status_given", status).status, int(status[1:4]))

    def test_bad_headers(self):
        for headers, text in (
            ("None", "headers is NoneType"),
            ("()", "headers is tuple"),
            ("{}", "headers is dict"),
            ("[1]", "not a tuple"),
            ("[['A', 'b']]", "not a tuple"),
            ("[('A',)]", "not a pair"),
            ("[('A', 'b', 'c')]", "not a pair"),
            ("[(b'A', 'b')]", "not a pair of str"),
            ("[('A', b'b')]", "not a pair of str"),
            ("[('A', 1)]", "not a pair of str"),
            ("[('A', None)]", "not a pair of str"),
            ("[(None, 'b')]", "not a pair of str"),
            ("[('A', 'b\\r\\nC: d')]", "control characters"),
            ("[('A', 'b\\n')]", "control characters"),
            ("[('A', 'b\\r')]", "control characters"),
            ("[('A', 'b\\0')]", "control characters"),
            ("[('A', 'b\\x7f')]", "control characters"),
            ("[('A b', 'c')]", "not a header name"),
            ("[('A:', 'c')]", "not a header name"),
            ("[('', 'c')]", "not a header name"),
            ("[('A\\r\\n', 'c')]", "not a header name"),
            ("[('caf\\xe9', 'c')]", "not a header name"),
            ("[('A', '\\u20ac')]", "latin-1"),
            ("[('Connection', 'close')]", "hop-by-hop"),
            ("[('transfer-encoding', 'chunked')]", "hop-by-hop"),
            ("[('Keep-Alive', '5')]", "hop-by-hop"),
            ("[('UPGRADE', 'x')]", "hop-by-hop"),
            ("[('Trailer', 'x')]", "hop-by-hop"),
            ("[('TE', 'x')]", "hop-by-hop"),
            ("[('Proxy-Authenticate', 'x')]", "hop-by-hop"),
            ("[('Content-Length', 'ten')]", "Content-Length"),
            ("[('Content-Length', '-1')]", "Content-Length"),
            ("[('Content-Length', '1_0')]", "Content-Length"),
            ("[('Content-Length', '\\u00b2')]", "Content-Length"),
            ("[('Content-Length', '1'), ('Content-Length', '2')]", "two headers Content-Length"),
        ):
            with self.subTest(headers):
                for _ in range(2):  # the second time with the names remembered
                    self.assert_rule(self.get("/headers_given", headers), text)

    def test_unusual_headers_that_are_allowed(self):
        response = self.get("/headers_given", "[('A', 'b\\tc'), ('A', ''), ('X-_!#$%&', '\\xff')]")
        self.assertEqual(response.headers[:3], [("A", "b\tc"), ("A", ""), ("X-_!#$%&", "\xff")])
        response = self.get("/headers_given", "[('Content-Length', '1'), ('content-length', '1')]")
        self.assertEqual(response.headers, [("Content-Length", "1")])
        response = self.get("/headers_given", "[(type('S', (str,), {})('A'), type('S', (str,), {})('b'))]")
        self.assertEqual(response.header("A"), "b")

    def test_bodies_of_a_wrong_type(self):
        for body in (
            "None",
            "5",
            "b'bytes'",
            "'text'",
            "['text']",
            "[5]",
            "[b'a', 'b']",
            "iter(['text'])",
            "iter([None])",
            "[bytearray(b'x')]",
        ):
            with self.subTest(body):
                self.assert_rule(self.get("/body_given", body), "")
        response = self.get("/body_given", "iter([b'good', 'bad'])")
        self.assertEqual((response.body, response.error[0]), (b"good", 2))
        self.assertIn("not bytes", response.error[1])

    # -- Content-Length

    def test_more_than_the_content_length_is_dropped_and_logged(self):
        for path in ("/length_list", "/length_items"):
            for length in ("4", "0", "5", "7"):
                response = self.get(path, length)
                self.assertEqual((response.error, response.body), (None, b"0123456789"[: int(length)]))
                entry = self.last_log("more than its Content-Length of %s" % length)
                self.assertEqual(entry["level"], "warn")
        self.assertIn(b"length", self.get("/closed_names").body)

    def test_the_right_length_is_complete_with_its_last_item(self):
        response = self.get("/length_items", "10")
        self.assertEqual((response.body, self.kinds(response)), (b"0123456789", [RESPONSE, BODY]))
        self.assertEqual(self.get("/length_list", "10").body, b"0123456789")

    def test_less_than_the_content_length_is_an_error(self):
        self.assert_rule(self.get("/length_list", "12"), "Content-Length is 12, but the application sent 10 bytes")
        response = self.get("/length_items", "12")
        self.assertEqual((response.body, response.error[0]), (b"0123456789", 2))
        self.assertIn("Content-Length is 12, but the application sent 10 bytes", response.error[1])

    # -- files

    def test_a_file_is_passed_as_a_descriptor(self):
        response = self.get("/file")
        self.assertEqual(self.kinds(response), [RESPONSE, FILE])
        self.assertEqual((response.file, response.body), ((0, 100), b"0123456789" * 10))
        self.assertEqual(response.header("Content-Length"), "100")

    def test_a_file_from_its_position_and_to_the_content_length(self):
        response = self.get("/file", "(95, None)")
        self.assertEqual((response.file, response.body), ((95, 5), b"56789"))
        response = self.get("/file", "(10, 3)")
        self.assertEqual((response.file, response.body), ((10, 3), b"012"))
        response = self.get("/file", "(100, None)")
        self.assertEqual((response.file, response.body, response.header("Content-Length")), (None, b"", "0"))
        self.assert_rule(self.get("/file", "(90, 20)"), "Content-Length is 20, but the application sent 10 bytes")

    def test_the_position_of_a_buffered_file(self):
        with tempfile.NamedTemporaryFile() as file:
            file.write(b"0123456789")
            file.flush()
            response = self.get("/file_buffered", file.name)
            self.assertEqual((response.file, response.body), ((5, 5), b"56789"))
        response = self.get("/file_named")
        self.assertEqual((response.file, response.body), ((1, 4), b"amed"))

    def test_other_file_objects_are_read(self):
        response = self.get("/file_like")
        self.assertEqual((response.file, response.body), (None, b"0123456789" * 3))
        with tempfile.NamedTemporaryFile(suffix=".gz") as file:
            file.write(gzip.compress(b"unpacked"))
            file.flush()
            response = self.get("/file_gzip", file.name)
            self.assertEqual((response.file, response.body), (None, b"unpacked"))
        self.assertEqual(self.get("/file_other").body, b"other")
        self.assertEqual(self.get("/file_wrapped").body, b"WRAPPED")

    # -- flow control

    def test_a_response_waits_for_credit(self):
        stream = self.worker.request(environ(path="/big", query="1000000"))
        received = 0
        while received < WINDOW:
            frame = self.lane.receive()
            received += len(frame.payload) - frame.large
        self.assertEqual(received, WINDOW)
        self.assertTrue(self.lane.quiet())
        self.lane.send(CREDIT_IN, stream, large=1000)
        frame = self.lane.receive()
        self.assertEqual((frame.kind, len(frame.payload)), (BODY, 1000))
        self.assertTrue(self.lane.quiet())
        self.lane.send(CREDIT_IN, stream, large=1_000_000)
        response = self.worker.response(stream)
        self.assertEqual(received + 1000 + len(response.body), 1_000_000)

    def test_a_streamed_response_waits_for_credit(self):
        stream = self.worker.request(environ(path="/big_items", query="20"))
        received = 0
        while received < WINDOW:
            frame = self.lane.receive()
            received += len(frame.payload) - frame.large
        self.assertEqual(received, WINDOW)
        self.lane.send(CREDIT_IN, stream, large=WINDOW)
        response = self.worker.response(stream)
        self.assertEqual(received + len(response.body), 2_000_000)

    # -- cancelled requests

    def end_of(self, stream):
        """The frame that ends a cancelled stream, behind what had been sent."""
        while True:
            frame = self.lane.receive()
            self.assertEqual(frame.stream, stream)
            self.assertNotEqual(frame.kind, ERROR)
            if frame.end:
                self.assertEqual((frame.kind, frame.payload), (BODY, b""))
                return

    def test_cancel_while_the_body_is_read(self):
        stream = self.worker.request(environ("POST", "/echo"), [])
        self.lane.send(BODY_IN, stream, payload=b"half")
        self.lane.send(CANCEL, stream)
        self.end_of(stream)
        self.assert_silent()

    def test_cancel_while_a_response_waits_for_credit(self):
        stream = self.worker.request(environ(path="/big", query="1000000"))
        self.lane.receive()
        self.lane.send(CANCEL, stream)
        self.end_of(stream)
        self.assert_silent()

    def test_cancel_of_an_endless_response_closes_it(self):
        stream = self.worker.request(environ(path="/endless"))
        frame = self.lane.receive()
        self.assertEqual(frame.kind, RESPONSE)
        self.lane.send(CANCEL, stream)
        self.end_of(stream)
        self.assertIn(b"endless", self.get("/closed_names").body)

    def test_cancel_of_a_request_that_waits_behind_another(self):
        first = self.worker.request(environ("POST", "/echo"), [])
        second = self.worker.request(environ(path="/raise_before"))
        third = self.worker.request(environ(path="/hello"))
        self.lane.send(CANCEL, second)
        self.lane.send(BODY_IN, first, END, payload=b"x")
        self.assertEqual(self.worker.response(first).body, b"x")
        frame = self.lane.receive()
        self.assertEqual((frame.kind, frame.stream, frame.end, frame.payload), (BODY, second, True, b""))
        self.assertEqual(self.worker.response(third).body, b"hello")

    # -- batches

    def test_many_requests_at_once(self):
        streams = [self.worker.request(environ(path="/hello")) for _ in range(300)]
        for stream in streams:
            self.assertEqual(self.worker.response(stream).body, b"hello")

    def test_responses_are_written_before_a_request_that_may_not_be_repeated(self):
        """A POST that ends the process is the only request without END in front of those that were not begun."""
        with driver.Worker(self.module, self.worker.folder) as worker:
            payloads = [environ(path="/hello"), environ("POST", "/hard_exit"), environ("POST", "/hello")]
            data = b""
            for number, head in enumerate(payloads, 1):
                payload = driver.encode_marshal(head)
                data += driver.HEADER.pack(len(payload), number, REQUEST, END, 0, 0) + payload
            worker.lanes[0].send_raw(data)
            self.assertEqual(worker.response(1).body, b"hello")
            with self.assertRaises(driver.Gone):
                worker.lanes[0].receive()
            self.assertEqual(os.WEXITSTATUS(worker.wait_exit()), 7)


class WsgiLanesTest(WorkerTest):
    """A seat with several lanes, and several seats."""

    module = "wsgi_app:app"
    options = {"lanes": 3}

    def test_requests_on_all_lanes(self):
        lanes = self.worker.lanes[:3]
        for _ in range(3):
            streams = [self.worker.request(environ(path="/hello"), lane=lane) for lane in lanes]
            for stream, lane in zip(streams, lanes):
                self.assertEqual(self.worker.response(stream, lane).body, b"hello")

    def test_a_further_seat_is_a_thread(self):
        lanes = self.worker.seat()
        self.assertEqual(len(lanes), 3)
        self.assertEqual(self.worker.get("/thread").body, b"main")
        self.assertEqual(self.worker.get("/thread", lane=lanes[2]).body, b"other")
        waiting = self.worker.request(environ(path="/wait_event", query="a"))
        self.assertEqual(self.worker.get("/set_event", lane=lanes[0], query="a").body, b"set")
        self.assertEqual(self.worker.response(waiting).status, 200)

    def test_the_end_of_a_lane_cancels_its_requests(self):
        lane = self.worker.lanes[1]
        self.worker.request(environ(path="/endless"), lane=lane)
        lane.receive()
        lane.sock.close()
        while b"endless" not in self.worker.get("/closed_names").body:
            pass
        self.assertEqual(self.worker.get("/hello", lane=self.worker.lanes[2]).body, b"hello")


if __name__ == "__main__":
    unittest.main()
