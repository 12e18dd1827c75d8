#: frames
"""The frames of the protocol, and names that applications may replace in their modules (gevent.monkey)."""

import _thread
import os
import select
import signal
import socket
import struct
import time

Poll = select.poll
POLLIN = select.POLLIN
Socket = socket.socket
allocate_lock = _thread.allocate_lock
start_new_thread = _thread.start_new_thread
get_ident = _thread.get_ident
set_signal = signal.signal
fork = os.fork
waitpid = os.waitpid
clock = time.perf_counter


def current_poll():
    """A poll object for waits during which greenlets of a patched application may run; `Poll` blocks them."""
    return getattr(select, "poll", Poll)()


HEADER = struct.Struct("<IIBBHI")  # length, stream, type, flags, small, large
pack = HEADER.pack
unpack_from = HEADER.unpack_from
HEADER_LEN = HEADER.size
FILE_RANGE = struct.Struct("<QQ")

END = 1
WEBSOCKET = 2
TEXT = 2
MORE = 4  # the message goes on in the next WS_MESSAGE of the stream

REQUEST = 0x01
BODY_IN = 0x02
CANCEL = 0x03
CREDIT_IN = 0x04
WS_MESSAGE_IN = 0x05
WS_CLOSE_IN = 0x06

RESPONSE = 0x11
BODY = 0x12
FILE = 0x13
ERROR = 0x14
CREDIT = 0x15
WS_ACCEPT = 0x16
WS_MESSAGE = 0x17
WS_CLOSE = 0x18
EARLY_HINTS = 0x19
TRAILERS = 0x1A

CONFIG = 0x40
SEAT = 0x41
DRAIN = 0x42
DUMP = 0x43
FORK = 0x44
SAMPLE = 0x45
READY = 0x50
FAILED = 0x51
STATS = 0x52
LOG = 0x53
FORKED = 0x54
EXITED = 0x55
DRAINING = 0x56

# Methods whose requests may be repeated without harm, should the process end before their responses are written.
SAFE_METHODS = frozenset(["GET", "HEAD"])

# What an ERROR frame says: the application raised before its response, after its head, or it broke a rule.
BEFORE_RESPONSE = 1
AFTER_HEAD = 2
RULE = 3
