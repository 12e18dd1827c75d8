#: headers
"""Header blocks from the headers of applications."""

import re

from .failures import RuleError
from .limits import NAMES_MAX

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


TEXT_NAMES = {}  # header names as applications write them: 0, CONTENT_LENGTH or HOP_BY_HOP
BYTES_NAMES = {}


def text_block(headers, refuse):
    """The block of headers that are pairs of str, and the Content-Length among them (or -1).

    `refuse`: hop-by-hop headers are errors (WSGI); otherwise they are dropped."""
    block = ""
    length = -1
    try:
        for header in headers:
            name, value = header
            if TEXT_NAMES[name]:
                if TEXT_NAMES[name] != CONTENT_LENGTH or length >= 0 or not value.isdigit():
                    return careful_block(headers, str, refuse)
                length = int(value)
            if type(value) is not str or type(header) is not tuple:
                return careful_block(headers, str, refuse)
            block += f"{name}: {value}\r\n"
        data = block.encode("latin-1")
    except (KeyError, TypeError, ValueError):
        return careful_block(headers, str, refuse)
    if len(data) - len(data.translate(None, CONTROLS)) != 2 * len(headers):
        return careful_block(headers, str, refuse)
    return data, length


def bytes_block(headers):
    """The block of headers that are pairs of bytes, without hop-by-hop headers, and the Content-Length (or -1)."""
    if type(headers) is not list:
        headers = list_of(headers)
    block = b""
    length = -1
    try:
        for name, value in headers:
            if BYTES_NAMES[name]:
                if BYTES_NAMES[name] != CONTENT_LENGTH or length >= 0 or not value.isdigit():
                    return careful_block(headers, bytes, False)
                length = int(value)
            block = b"%b%b: %b\r\n" % (block, name, value)
    except (KeyError, TypeError, ValueError):
        return careful_block(headers, bytes, False)
    if len(block) - len(block.translate(None, CONTROLS)) != 2 * len(headers):
        return careful_block(headers, bytes, False)
    return block, length


def list_of(headers):
    try:
        return list(headers)
    except TypeError:
        raise RuleError("headers is %s, not a list" % type(headers).__name__) from None


def careful_block(headers, kind, refuse):
    """The block of headers that the quick functions do not accept at once. Raises RuleError with the reason."""
    lines = []
    length = -1
    for header in list_of(headers):
        if refuse and not isinstance(header, tuple):
            raise RuleError("a header is %s, not a tuple: %.100r" % (type(header).__name__, header))
        try:
            name, value = header
        except (TypeError, ValueError):
            raise RuleError("a header is not a pair: %.100r" % (header,)) from None
        if kind is bytes and isinstance(name, (bytearray, memoryview)):
            name = bytes(name)
        if kind is bytes and isinstance(value, (bytearray, memoryview)):
            value = bytes(value)
        if not isinstance(name, kind) or not isinstance(value, kind):
            raise RuleError("a header is not a pair of %s: %.100r" % (kind.__name__, header))
        text = value if kind is str else value.decode("latin-1")
        meaning = classify(name, kind)
        if meaning == HOP_BY_HOP:
            if refuse:
                raise RuleError("%s is a hop-by-hop header, which applications may not set" % name)
            continue
        if meaning == CONTENT_LENGTH:
            before = length
            if not DIGITS(text.strip()):
                raise RuleError("Content-Length is %.100r" % text)
            length = int(text)
            if before >= 0:
                if length != before:
                    raise RuleError("two headers Content-Length, %d and %d" % (before, length))
                continue
        try:
            data = text.encode("latin-1")
        except UnicodeEncodeError:
            raise RuleError("header %s has characters outside of latin-1: %.100r" % (name, text)) from None
        if data.translate(None, CONTROLS) != data:
            raise RuleError("header %s has control characters: %.100r" % (name, text))
        lines += (name.encode("latin-1") if kind is str else name, b": ", data, b"\r\n")
    return b"".join(lines), length


def classify(name, kind):
    """Checks a header name, and remembers it."""
    names = TEXT_NAMES if kind is str else BYTES_NAMES
    meaning = names.get(name)
    if meaning is None:
        text = name if kind is str else name.decode("latin-1")
        if not TOKEN(text):
            raise RuleError("%.100r is not a header name" % (name,))
        text = text.lower()
        meaning = CONTENT_LENGTH if text == "content-length" else HOP_BY_HOP if text in HOP_BY_HOP_NAMES else 0
        if len(names) < NAMES_MAX:
            names[kind(name)] = meaning
    return meaning
