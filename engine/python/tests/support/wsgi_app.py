"""A WSGI application for the tests of the host."""

import ctypes
import os
import sys
import threading
import time
from urllib.parse import parse_qs

lock = threading.Lock()
running = 0
most = 0


def respond(start_response, text, status="200 OK", headers=()):
    data = text.encode("utf-8", "surrogateescape")
    start_response(status, [("Content-Length", str(len(data))), *headers])
    return [data]


def app(environ, start_response):
    global running, most
    path = environ["PATH_INFO"]
    query = {name: values[0] for name, values in parse_qs(environ["QUERY_STRING"]).items()}
    if path == "/pid":
        return respond(start_response, str(os.getpid()))
    if path == "/thread":
        return respond(start_response, str(threading.get_ident()))
    if path == "/environ":
        keys = sorted(key for key in environ if key.isupper() or key == "wsgi.url_scheme")
        return respond(start_response, "\n".join("%s=%r" % (key, environ[key]) for key in keys))
    if path == "/sleep":
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(float(query["s"]))
        with lock:
            running -= 1
        return respond(start_response, "%d" % most)
    if path == "/wait":
        # Until a file exists.
        while not os.path.exists(query["file"]):
            time.sleep(0.005)
        return respond(start_response, "seen")
    if path == "/touch":
        with open(query["file"], "a") as file:
            file.write("x")
        return respond(start_response, "written")
    if path == "/exit":
        os._exit(int(query.get("code", "3")))
    if path == "/segfault":
        ctypes.string_at(0)
    if path == "/raise":
        raise ValueError("raised on purpose")
    if path == "/bad-header":
        start_response("200 OK", [("X-Bad", "a\r\nX-Injected: b")])
        return [b"x"]
    if path == "/longer":
        start_response("200 OK", [("Content-Length", "3")])
        return [b"abcdef"]
    if path == "/shorter":
        start_response("200 OK", [("Content-Length", "30000")])
        return [b"abcdef"]
    if path == "/print":
        print("INFO: on standard output", flush=True)
        sys.stderr.write("WARNING:app:on standard error\n")
        sys.stderr.flush()
        return respond(start_response, "printed")
    if path == "/big":
        size = int(query["bytes"])
        start_response("200 OK", [("Content-Length", str(size))])
        return (b"x" * min(65536, size - at) for at in range(0, size, 65536))
    if path == "/echo":
        data = environ["wsgi.input"].read()
        return respond(start_response, "%d %s" % (len(data), data[:20].decode("latin-1")))
    if path == "/file":
        file = open(query["file"], "rb")
        size = os.fstat(file.fileno()).st_size
        start_response("200 OK", [("Content-Length", str(size))])
        return environ["wsgi.file_wrapper"](file, 8192)
    if path == "/grow":
        app.kept = bytearray(int(query["bytes"]))
        return respond(start_response, "grown")
    if path == "/fork":
        count = 0
        try:
            for _ in range(1000):
                if os.fork() == 0:
                    time.sleep(1000)
                count += 1
        except OSError as error:
            return respond(start_response, "%d %s" % (count, error.strerror))
        return respond(start_response, "%d no error" % count)
    if path == "/child":
        pid = os.fork()
        if pid == 0:
            time.sleep(1000)
        return respond(start_response, str(pid))
    if path == "/id":
        return respond(start_response, "%d %d %r" % (os.getuid(), os.getgid(), os.getgroups()))
    if path == "/env":
        return respond(start_response, os.environ.get(query["name"], "missing"))
    return respond(start_response, "hello %s" % environ["REQUEST_METHOD"])
