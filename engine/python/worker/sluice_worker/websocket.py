#: websocket
"""Messages and flow control of WebSockets."""

from collections import deque

from .control import worker
from .failures import RuleError
from .frames import CANCEL, CREDIT, CREDIT_IN, END, MORE, TEXT, WS_ACCEPT, WS_CLOSE, WS_CLOSE_IN, WS_MESSAGE
from .limits import OVERHEAD, PIECE_MAX


class WebSocketMixin:
    """Messages and flow control of a WebSocket, for streams of asyncio and of gevent."""

    accepted = False
    close_code = 0  # 0: the client has not closed
    close_reason = ""
    messages = ()
    pieces = ()  # of a received message that is not complete
    rest = None  # of a message that is sent in pieces
    rest_text = 0
    long_messages = 0  # sent in pieces, including the one in progress

    def receive_frame(self, kind, flags, small, large, payload):
        if kind == CANCEL:
            self.rest = None
            self.pieces = ()
            if not self.close_code:
                self.close_code = 1006
        super().receive_frame(kind, flags, small, large, payload)
        if kind == CREDIT_IN and self.rest is not None:
            self.send_pieces()

    def receive_message(self, kind, flags, small, payload):
        if kind == WS_CLOSE_IN:
            self.close_code = small or 1005
            self.close_reason = payload.decode("utf-8", "replace")
            self.rest = None
            self.pieces = ()
            return
        cost = len(payload) + OVERHEAD
        if flags & MORE or self.pieces:
            if not self.pieces:
                self.pieces = []
            self.pieces.append(payload)
            if flags & MORE:
                return
            payload = b"".join(self.pieces)
            cost = len(payload) + OVERHEAD * len(self.pieces)
            self.pieces = ()
        if not self.messages:
            self.messages = deque()
        self.messages.append((payload, flags & TEXT, cost))

    def next_message(self):
        """Takes a received message: bytes or str."""
        payload, text, cost = self.messages.popleft()
        if not self.done and not self.close_code:
            # A message may be larger than the window, so an empty queue always gives all credit back.
            self.unacknowledged += cost
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
        self.rest = None
        self.frame(WS_CLOSE, END, code, 0, payload)
        self.finish()

    def message_room(self, size):
        """Whether the message before is sent, and credit allows one of this size, or the beginning of a long one, now."""
        if self.rest is not None:
            return False
        piece = piece_len()
        return self.credit >= OVERHEAD + (size if size <= piece else piece // 4)

    def message_frame(self, payload, text):
        """Sends a message. What credit does not allow is in `rest`, and follows when there is credit, even if the call that
        sends the message is cancelled: half a message would spoil the WebSocket."""
        flags = TEXT if text else 0
        if len(payload) <= piece_len():
            self.credit -= len(payload) + OVERHEAD
            self.frame(WS_MESSAGE, flags, 0, 0, payload)
        else:
            self.long_messages += 1
            self.rest = memoryview(payload)
            self.rest_text = flags
            self.send_pieces()

    def send_pieces(self):
        """Sends of the message in progress what credit allows, but no crumbs."""
        rest = self.rest
        piece = piece_len()
        while rest is not None:
            count = min(self.credit - OVERHEAD, piece, len(rest))
            last = count == len(rest)
            if not last:
                if count < piece // 4:
                    break
                if self.rest_text:
                    while rest[count] & 0xC0 == 0x80:  # a piece of a text ends between characters
                        count -= 1
            self.credit -= count + OVERHEAD
            self.frame(WS_MESSAGE, self.rest_text | (0 if last else MORE), 0, 0, rest[:count])
            rest = None if last else rest[count:]
        self.rest = rest
        if not self.lane.scheduled:
            self.lane.schedule()

    def in_pieces(self, number):
        """Whether the long message with this number is still being sent."""
        return self.rest is not None and self.long_messages == number and not self.gone() and not self.done

    def gone(self):
        return self.close_code or self.cancelled

    def end_silently(self):
        if not self.done:
            self.frame(WS_CLOSE, END, self.close_code or 1006)
            self.finish()


def piece_len():
    """The longest piece of a message: what fits into an empty window."""
    return min(worker.window - OVERHEAD, PIECE_MAX)


class SocketMessage:
    """A received WebSocket message: kind 0 close, 1 bytes, 2 text."""

    __slots__ = ("kind", "data")

    def __init__(self, kind, data=None):
        self.kind = kind
        self.data = data
