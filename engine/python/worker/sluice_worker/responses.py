#: responses
"""What RSGI and ESGI have in common."""

import os
import stat

from .failures import RuleError
from .headers import list_of, text_block


def address(pair):
    """`host:port` of a scope's client or server."""
    if not pair:
        return ""
    host, port = pair
    if port is None:
        return host
    return ("[%s]:%s" if ":" in host else "%s:%s") % (host, port)


class ResponseMixin:
    """The response calls that RSGI and ESGI share. `begin_response` starts sending without waiting for the client."""

    def prepare(self, status, headers):
        if self.status:
            raise RuleError("the application has responded already")
        if not isinstance(status, int) or not 200 <= status <= 999:
            raise RuleError("status is %r, not a number from 200 to 999" % (status,))
        self.block, self.length = text_block(headers if type(headers) is list else list_of(headers), False)
        self.status = int(status)
        self.bodiless = self.is_head or status == 204 or status == 304

    def response_empty(self, status, headers=()):
        self.prepare(status, headers)
        if self.length > 0 and not self.bodiless:
            raise RuleError("Content-Length is %d, but the response is empty" % self.length)
        if self.length < 0 and not self.bodiless:
            self.block += b"content-length: 0\r\n"
        self.begin_response(b"")

    def response_str(self, status, headers=(), body=""):
        self.response_bytes(status, headers, body.encode("utf-8"))

    def response_bytes(self, status, headers=(), body=b""):
        if not isinstance(body, bytes):
            raise RuleError("body is %s, not bytes" % type(body).__name__)
        self.prepare(status, headers)
        size = len(body)
        if self.length < 0:
            if self.status != 204 and self.status != 304:
                self.block += b"content-length: %d\r\n" % size
        elif self.length != size and not self.bodiless:
            raise RuleError("Content-Length is %d, but the body has %d bytes" % (self.length, size))
        self.begin_response(b"" if self.bodiless else body)

    def response_file(self, status, headers, file):
        self.response_part(status, headers, file, 0, None)

    def response_file_range(self, status, headers, file, start, end):
        self.response_part(status, headers, file, start, end)

    def response_part(self, status, headers, file, start, end):
        fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        try:
            info = os.fstat(fd)
            if not stat.S_ISREG(info.st_mode):
                raise RuleError("%s is not a regular file" % file)
            stop = info.st_size if end is None else min(end, info.st_size)
            size = max(stop - start, 0)
            self.prepare(status, headers)
            if self.length < 0:
                if self.status != 204 and self.status != 304:
                    self.block += b"content-length: %d\r\n" % size
            elif self.length != size and not self.bodiless:
                raise RuleError("Content-Length is %d, but the file has %d bytes" % (self.length, size))
            if self.bodiless or not size:
                self.begin_response(b"")
            else:
                self.respond(b"", False)
                self.send_file(fd, start, size, True)
        finally:
            os.close(fd)
