"""WebSockets of ASGI applications."""

import unittest

from driver import (
    BODY,
    CANCEL,
    CREDIT,
    CREDIT_IN,
    END,
    ERROR,
    MORE,
    RESPONSE,
    TEXT,
    WEBSOCKET,
    WINDOW,
    WS_ACCEPT,
    WS_CLOSE,
    WS_CLOSE_IN,
    WS_MESSAGE,
    WS_MESSAGE_IN,
    scope,
)
from support import WorkerTest, module_missing


OVERHEAD = 128  # what a frame counts besides its payload
PIECE = WINDOW - OVERHEAD


class WebSocketTest(WorkerTest):
    module = "asgi_app:app"
    options = {"loop": "asyncio"}

    def open(self, path, query=b"", **more):
        if not isinstance(query, bytes):
            query = repr(query).encode()
        return self.worker.request(scope(path=path, query=query, kind="websocket", **more), flags=WEBSOCKET)

    def accept(self, path, query=b"", **more):
        stream = self.open(path, query, **more)
        self.assertEqual(self.next().kind, WS_ACCEPT)
        return stream

    def send(self, stream, data):
        if isinstance(data, str):
            self.lane.send(WS_MESSAGE_IN, stream, TEXT, payload=data.encode())
        else:
            self.lane.send(WS_MESSAGE_IN, stream, payload=data)

    def close(self, stream, code=1000, reason=b""):
        self.lane.send(WS_CLOSE_IN, stream, END, small=code, payload=reason)

    def result(self, name):
        stream = self.worker.request(scope(path="/results", query=name.encode()))
        return eval(self.worker.response(stream).body)

    def assert_close(self, frame, code, reason=b""):
        self.assertEqual((frame.kind, frame.small, frame.payload, frame.end), (WS_CLOSE, code, reason, True))

    def assert_error(self, frame, kind, text):
        self.assertEqual((frame.kind, frame.small, frame.end), (ERROR, kind, True), frame)
        self.assertIn(text, frame.payload.decode())

    # -- messages

    def test_messages_are_echoed(self):
        stream = self.accept("/ws_echo")
        for data in ("text", "", "caf\u00e9 \U0001f600", b"bytes", b"", b"\xff\x00"):
            self.send(stream, data)
            frame = self.next()
            self.assertEqual((frame.kind, frame.end), (WS_MESSAGE, False))
            self.assertEqual(frame.flags & TEXT, TEXT if isinstance(data, str) else 0)
            self.assertEqual(frame.payload, data.encode() if isinstance(data, str) else data)
        self.close(stream, 4000, "done \u00e9".encode())
        self.assert_close(self.next(), 4000)
        expected = {"type": "websocket.disconnect", "code": 4000, "reason": "done \u00e9"}
        self.assertEqual(self.result("disconnect"), expected)

    def test_messages_before_the_close_are_delivered(self):
        stream = self.accept("/ws_echo")
        for index in range(50):
            self.send(stream, str(index))
        self.close(stream, 1005)
        frames = []
        while not frames or not frames[-1].end:
            frames.append(self.next())
        self.assertEqual(self.result("disconnect")["code"], 1005)
        # The client is gone, so what was not written before stays unwritten.
        self.assertEqual([frame.payload for frame in frames[:-1]], [b"%d" % index for index in range(len(frames) - 1)])

    def test_a_lost_connection(self):
        for lose in (lambda stream: self.close(stream, 1006), lambda stream: self.lane.send(CANCEL, stream)):
            stream = self.accept("/ws_echo")
            lose(stream)
            self.assert_close(self.next(), 1006)
            self.assertEqual(self.result("disconnect")["code"], 1006)

    # -- handshake

    def test_subprotocol_headers_and_close(self):
        stream = self.open("/ws_subprotocol", subprotocols=["one", "two"])
        frame = self.next()
        self.assertEqual((frame.kind, frame.payload), (WS_ACCEPT, b"sec-websocket-protocol: two\r\nx-a: b\r\n"))
        reason = ("caf\u00e9 " + "r" * 200).encode()[:123]
        self.assert_close(self.next(), 3001, reason)
        self.assertEqual(self.result("closed")["code"], 3001)
        self.close(stream, 3001)
        self.assert_silent()

    def test_a_refused_handshake(self):
        self.open("/ws_reject")
        self.assert_close(self.next(), 1008)

    def test_a_denial_response(self):
        stream = self.open("/ws_deny")
        response = self.worker.response(stream)
        self.assertEqual((response.status, response.headers), (401, [("x-why", "token")]))
        self.assertEqual(response.body, b"no entry")
        self.assertEqual({frame.kind for frame in response.frames}, {RESPONSE, BODY})

    def test_the_scope_has_the_extension(self):
        stream = self.open("/show")
        self.assert_error(self.next(), 3, "expected ASGI message 'websocket.accept'")
        self.close(stream)

    # -- ends

    def test_an_application_that_returns(self):
        self.accept("/ws_return")
        self.assert_close(self.next(), 1000)
        self.open("/ws_nothing")
        self.assert_error(self.next(), 3, "returned without a response")

    def test_exceptions(self):
        stream = self.accept("/ws_raise")
        self.send(stream, "go")
        frame = self.next()
        self.assert_error(frame, 2, "ValueError: in the socket")
        self.open("/ws_raise_early")
        self.assert_error(self.next(), 1, "ValueError: before accept")

    def test_send_after_the_client_has_closed(self):
        stream = self.accept("/ws_send_after_disconnect")
        self.close(stream, 1001)
        self.assert_close(self.next(), 1001)
        self.assertEqual(self.result("late"), "ClientDisconnected")

    def test_messages_out_of_order(self):
        accept, close = {"type": "websocket.accept"}, {"type": "websocket.close"}
        send = {"type": "websocket.send", "text": "x"}
        self.open("/ws_messages", [send])
        self.assert_error(self.next(), 3, "expected ASGI message 'websocket.accept', 'websocket.close'")
        self.accept("/ws_messages", [accept, accept])
        self.assert_error(self.next(), 2, "expected ASGI message 'websocket.send' or 'websocket.close'")
        self.accept("/ws_messages", [accept, {"type": "websocket.send"}])
        self.assert_error(self.next(), 2, "neither 'bytes' nor 'text'")
        self.accept("/ws_messages", [accept, {"type": "http.response.start", "status": 200}])
        self.assert_error(self.next(), 2, "expected ASGI message 'websocket.send'")
        self.accept("/ws_messages", [accept, close, send])
        self.assert_close(self.next(), 1000)
        self.last_log("after sending 'websocket.close' or response already completed")
        self.open("/ws_messages", [close, accept])
        self.assert_close(self.next(), 1000)
        self.last_log("after sending 'websocket.close' or response already completed")
        start = {"type": "websocket.http.response.start", "status": 403}
        self.open("/ws_messages", [start, accept])
        self.assert_error(self.next(), 3, "expected ASGI message 'websocket.http.response.body'")
        for code in (70000, 999, 1006, 1015, "1000"):
            self.accept("/ws_messages", [accept, dict(close, code=code)])
            self.assert_error(self.next(), 2, "is not a close code that can be sent")
        self.open("/ws_messages", [dict(accept, headers=[(b"sec-websocket-protocol", b"x")])])
        self.assert_error(self.next(), 3, "use the message's 'subprotocol'")
        self.open("/ws_messages", [dict(accept, headers=[(b"a", b"b\r\n")])])
        self.assert_error(self.next(), 3, "control characters")
        for code, wire in ((None, 1000), (4999, 4999), (1005, 1005)):
            self.accept("/ws_messages", [accept, dict(close, code=code, reason=None)])
            self.assert_close(self.next(), wire)

    # -- flow control

    def test_sent_messages_wait_for_credit(self):
        stream = self.accept("/ws_flood", (100_000, 20))
        for index in range(2):
            self.assertEqual(self.next().payload[:4], b"%04d" % index)
        self.assert_silent()
        self.lane.send(CREDIT_IN, stream, large=100_000)
        self.assertEqual(self.next().payload[:4], b"0002")
        self.assert_silent()
        for index in range(3, 20):
            self.lane.send(CREDIT_IN, stream, large=100_000)
            self.assertEqual(self.next().payload[:4], b"%04d" % index)
        self.assert_close(self.next(), 1000)

    def message(self, stream, text=0, credit=WINDOW):
        """A message whose pieces come as credit allows: the frames."""
        frames = []
        while not frames or frames[-1].flags & MORE:
            frames.append(self.next())
            self.assertEqual((frames[-1].kind, frames[-1].flags & TEXT), (WS_MESSAGE, text))
            self.lane.send(CREDIT_IN, stream, large=len(frames[-1].payload) + OVERHEAD)
        return frames

    def test_a_message_larger_than_the_window_is_sent_in_pieces(self):
        size = 3 * WINDOW + 1000
        stream = self.accept("/ws_flood", (size, 3))
        first = self.next()
        self.assertEqual((len(first.payload), first.flags), (PIECE, MORE))
        # Not in crumbs.
        self.lane.send(CREDIT_IN, stream, large=PIECE // 4 + OVERHEAD - 1)
        self.assert_silent()
        self.lane.send(CREDIT_IN, stream, large=1)
        second = self.next()
        self.assertEqual((len(second.payload), second.flags), (PIECE // 4, MORE))
        self.lane.send(CREDIT_IN, stream, large=WINDOW)
        payloads = [first.payload, second.payload] + [frame.payload for frame in self.message(stream)]
        self.assertEqual(b"".join(payloads), b"0000" + b"f" * (size - 4))
        for index in range(1, 3):
            payload = b"".join(frame.payload for frame in self.message(stream))
            self.assertEqual((payload[:4], len(payload)), (b"%04d" % index, size))
        self.assert_close(self.next(), 1000)

    def test_pieces_of_a_text_end_between_characters(self):
        text = "a" + "\u20ac" * WINDOW
        stream = self.accept("/ws_say", text)
        frames = self.message(stream, TEXT)
        self.assertGreater(len(frames), 3)
        self.assertEqual("".join(frame.payload.decode() for frame in frames), text)

    def test_a_cancelled_send_does_not_end_within_a_message(self):
        stream = self.accept("/ws_impatient", PIECE * 2)
        first = self.next()
        self.assertEqual((len(first.payload), first.flags), (PIECE, MORE))
        self.assertEqual(self.result("impatient"), "TimeoutError")
        self.lane.send(CREDIT_IN, stream, large=WINDOW)
        rest = self.next()
        self.assertEqual((len(rest.payload), rest.flags), (PIECE, 0))
        self.lane.send(CREDIT_IN, stream, large=WINDOW)
        self.assertEqual(self.next().payload, b"the next one")
        self.assert_close(self.next(), 1000)

    def test_two_tasks_do_not_mix_their_messages(self):
        stream = self.accept("/ws_two_tasks", WINDOW * 2)
        seen = set()
        for _ in range(2):
            payload = b"".join(frame.payload for frame in self.message(stream))
            self.assertEqual((len(payload), len(set(payload))), (WINDOW * 2, 1))
            seen.add(payload[:1])
        self.assertEqual(seen, {b"a", b"b"})
        self.assert_close(self.next(), 1000)

    def test_empty_messages_are_bounded_as_well(self):
        stream = self.accept("/ws_empty", b"100000")
        most = WINDOW // OVERHEAD
        for _ in range(most):
            self.assertEqual((self.next().payload), b"")
        self.assert_silent()
        self.lane.send(CREDIT_IN, stream, large=OVERHEAD)
        self.assertEqual(self.next().payload, b"")
        self.assert_silent()

    def test_close_within_a_message(self):
        stream = self.accept("/ws_flood", (WINDOW * 3, 1))
        self.assertEqual(self.next().flags, MORE)
        self.close(stream, 1001)
        self.assert_close(self.next(), 1001)

    def test_received_messages_in_pieces(self):
        stream = self.accept("/ws_echo")
        euro = "\u20ac".encode()
        for data, pieces, text in (
            ("a\u20acb", (b"a", euro, b"", b"b"), TEXT),
            (b"abc", (b"ab", b"c"), 0),
            (b"", (b"", b""), 0),
        ):
            for index, piece in enumerate(pieces):
                more = MORE if index + 1 < len(pieces) else 0
                self.lane.send(WS_MESSAGE_IN, stream, text | more, payload=piece)
            frame = self.next()
            self.assertEqual((frame.flags, frame.payload), (text, data.encode() if text else data))
        self.lane.send(WS_MESSAGE_IN, stream, TEXT | MORE, payload=b"never complete")
        self.close(stream)
        self.assert_close(self.next(), 1000)
        self.assertEqual(self.result("disconnect")["code"], 1000)

    def test_close_while_waiting_for_credit(self):
        stream = self.accept("/ws_flood", (WINDOW, 5))
        self.next()
        self.close(stream, 1001)
        self.assert_close(self.next(), 1001)

    def test_credit_is_granted_for_consumed_messages(self):
        stream = self.accept("/ws_slow", b"slow")
        granted = 0
        size = WINDOW // 4 - OVERHEAD
        for _ in range(4):
            self.send(stream, b"m" * size)
        self.assert_silent()
        other = self.worker.request(scope(path="/set_event", query=b"slow"))
        total = 0
        while granted < WINDOW or total < 4:
            frame = self.lane.receive()
            if frame.stream == other:
                continue
            if frame.kind == CREDIT:
                granted += frame.large
            else:
                total += 1
                self.assertEqual(frame.payload, b"%d" % (total * size))
        self.assertEqual(granted, WINDOW)
        self.send(stream, b"m" * (WINDOW * 2))
        frames = [self.lane.receive(), self.lane.receive()]
        credit = next(frame for frame in frames if frame.kind == CREDIT)
        self.assertEqual(credit.large, WINDOW * 2 + OVERHEAD)
        self.close(stream)
        self.assert_close(self.next(), 1000)


@unittest.skipIf(module_missing("uvloop"), "uvloop is not installed")
class UvloopWebSocketTest(WebSocketTest):
    options = {"loop": "uvloop"}


if __name__ == "__main__":
    unittest.main()
