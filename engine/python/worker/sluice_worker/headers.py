#: headers
"""Header blocks from the headers of applications."""

import re

from .limits import NAMES_MAX
from .failures import RuleError


CONTENT_LENGTH = 1


HOP_BY_HOP = 2


TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+").fullmatch


DIGITS = re.compile(r"[0-9]{1,18}").fullmatch


# Everything that may not be in a value; CR and LF are counted, since the worker adds one of each per header.
CONTROLS = bytes(code for code in (*range(32), 127) if code != 9)


HOP_BY_HOP_NAMES = frozenset(
    "connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer trailers "
    "transfer-encoding upgrade".split()
)


NAMES = {}  # header names as applications write them (str or bytes): 0, CONTENT_LENGTH or HOP_BY_HOP


def classify(name):
    """Checks a header name that is not in NAMES, and remembers it."""
    if isinstance(name, str):
        text = name
    elif isinstance(name, bytes):
        text = name.decode("latin-1")
    else:
        raise RuleError("a header's name is %s: %.100r" % (type(name).__name__, name))
    if not TOKEN(text):
        raise RuleError("%.100r is not a header name" % (name,))
    text = text.lower()
    kind = CONTENT_LENGTH if text == "content-length" else HOP_BY_HOP if text in HOP_BY_HOP_NAMES else 0
    if len(NAMES) < NAMES_MAX:
        NAMES[name] = kind
    return kind


def declared_length(value, before):
    text = value.decode("latin-1") if isinstance(value, bytes) else value
    if not isinstance(text, str) or not DIGITS(text.strip()):
        raise RuleError("Content-Length is %.100r" % (value,))
    length = int(text)
    if before >= 0 and length != before:
        raise RuleError("two headers Content-Length, %d and %d" % (before, length))
    return length


def text_block(headers, refuse):
    """The block of headers that are pairs of str, and the Content-Length among them (or -1).

    `refuse`: hop-by-hop headers are errors (WSGI); otherwise they are dropped."""
    block = ""
    count = 0
    length = -1
    for header in headers:
        name, value = header
        if type(header) is not tuple and refuse and not isinstance(header, tuple):
            raise RuleError("a header is %s, not a tuple: %.100r" % (type(header).__name__, header))
        kind = NAMES.get(name)
        if kind is None:
            kind = classify(name)
        if type(value) is not str and not isinstance(value, str) or type(name) is bytes:
            raise RuleError("header %.100r is not a pair of str: %.100r" % (name, value))
        if kind:
            if kind == CONTENT_LENGTH:
                first = length < 0
                length = declared_length(value, length)
                if not first:
                    continue
            elif refuse:
                raise RuleError("%s is a hop-by-hop header, which applications may not set" % name)
            else:
                continue
        block += f"{name}: {value}\r\n"
        count += 1
    try:
        data = block.encode("latin-1")
    except UnicodeEncodeError:
        raise RuleError("a header holds characters outside of latin-1: %.200r" % block) from None
    if len(data) - len(data.translate(None, CONTROLS)) != 2 * count:
        raise RuleError("a header holds control characters: %.200r" % block)
    return data, length


def bytes_block(headers):
    """The block of headers that are pairs of bytes, without hop-by-hop headers, and the Content-Length (or -1)."""
    parts = []
    count = 0
    length = -1
    for name, value in headers:
        try:
            kind = NAMES.get(name)
        except TypeError:  # bytearray, memoryview
            name = bytes(name)
            kind = None
        if kind is None:
            kind = classify(name)
        if kind:
            if kind == HOP_BY_HOP:
                continue
            first = length < 0
            length = declared_length(value, length)
            if not first:
                continue
        parts += (name, b": ", value, b"\r\n")
        count += 2
    try:
        data = b"".join(parts)
    except TypeError:
        raise RuleError("headers are not pairs of bytes: %.200r" % (headers,)) from None
    if len(data) - len(data.translate(None, CONTROLS)) != count:
        raise RuleError("a header holds control characters: %.200r" % data)
    return data, length
