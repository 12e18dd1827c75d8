#: websocket
"""Messages and flow control of WebSockets."""

from collections import deque

from .control import worker
from .failures import RuleError
from .frames import CANCEL, CREDIT, END, TEXT, WS_ACCEPT, WS_CLOSE, WS_CLOSE_IN, WS_MESSAGE
from .limits import FRAME_MAX


class WebSocketMixin:
    """Messages and flow control of a WebSocket, for streams of asyncio and of gevent."""

    accepted = False
    close_code = 0  # 0: the client has not closed
    close_reason = ""
    messages = ()

    def receive_frame(self, kind, flags, small, large, payload):
        if kind == CANCEL and not self.close_code:
            self.close_code = 1006
        super().receive_frame(kind, flags, small, large, payload)

    def receive_message(self, kind, flags, small, payload):
        if kind == WS_CLOSE_IN:
            self.close_code = small or 1005
            self.close_reason = payload.decode("utf-8", "replace")
            return
        if not self.messages:
            self.messages = deque()
        self.messages.append((payload, flags & TEXT))

    def next_message(self):
        """Takes a received message: bytes or str."""
        payload, text = self.messages.popleft()
        if not self.done and not self.close_code:
            # A message may be larger than the window, so an empty queue always gives all credit back.
            self.unacknowledged += len(payload)
            if not self.messages or self.unacknowledged * 2 >= worker.window:
                self.frame(CREDIT, 0, 0, self.unacknowledged)
                self.unacknowledged = 0
        return payload.decode("utf-8") if text else payload

    def accept_frame(self, block):
        self.accepted = True
        self.head_sent = True
        self.status = 101
        self.frame(WS_ACCEPT, 0, 101, len(block), block)

    def close_frame(self, code, reason):
        # 1005 stands for a close without code; RFC 6455, section 7.4.1, keeps the others off the wire.
        if not isinstance(code, int) or not 1000 <= code <= 4999 or code in (1004, 1006, 1015):
            raise RuleError("%r is not a close code that can be sent" % (code,))
        payload = reason.encode("utf-8")
        if len(payload) > 123:  # RFC 6455, section 5.5: 125 bytes with the code
            payload = payload[:123].decode("utf-8", "ignore").encode("utf-8")
        self.close_code = code
        self.frame(WS_CLOSE, END, code, 0, payload)
        self.finish()

    def message_room(self, size):
        """Whether credit allows a message now."""
        return size <= self.credit or self.credit >= worker.window

    def message_frame(self, payload, text):
        if len(payload) > FRAME_MAX:
            raise RuleError("a WebSocket message of %d bytes; the limit is %d" % (len(payload), FRAME_MAX))
        self.credit -= len(payload)
        self.frame(WS_MESSAGE, TEXT if text else 0, 0, 0, payload)

    def gone(self):
        return self.close_code or self.cancelled

    def end_silently(self):
        if not self.done:
            self.frame(WS_CLOSE, END, self.close_code or 1006)
            self.finish()


class SocketMessage:
    """A received WebSocket message: kind 0 close, 1 bytes, 2 text."""

    __slots__ = ("kind", "data")

    def __init__(self, kind, data=None):
        self.kind = kind
        self.data = data
