"""WSGI applications for test_wsgi.py; the path chooses one."""

import io
import os
import subprocess
import sys
import tempfile
import threading
import time
from wsgiref.util import FileWrapper as OtherFileWrapper
from wsgiref.validate import validator

closed = []
EVENTS = {}


class Body:
    """An iterable with close()."""

    def __init__(self, items, name="body"):
        self.items = iter(items)
        self.name = name

    def __iter__(self):
        return self

    def __next__(self):
        item = next(self.items)
        if isinstance(item, BaseException):
            raise item
        return item

    def close(self):
        closed.append(self.name)


class CleanUp(Body):
    """Does something slow in close(): waits until the FIFO of its name is opened for writing."""

    def close(self):
        open(self.name).close()


def clean_up(environ, start_response):
    ok(start_response, [("Content-Length", "5")])
    return CleanUp([b"hello"], environ["QUERY_STRING"])


def ok(start_response, headers=(), status="200 OK"):
    return start_response(status, [("Content-Type", "text/plain")] + list(headers))


def hello(environ, start_response):
    ok(start_response)
    return [b"hello"]


def parts(environ, start_response):
    ok(start_response)
    return [b"one ", b"two ", b"three"]


def empty(environ, start_response):
    ok(start_response)
    return []


def tuple_body(environ, start_response):
    ok(start_response)
    return (b"tuple",)


def no_content(environ, start_response):
    start_response("204 No Content", [])
    return [b""]


def not_modified(environ, start_response):
    start_response("304 Not Modified", [("ETag", '"x"'), ("Content-Length", "10")])
    return []


def generator(environ, start_response):
    ok(start_response)
    yield b"first"
    yield b""
    yield b"second"


def late_start(environ, start_response):
    def body():
        ok(start_response)
        yield b"late"

    return body()


def stepwise(environ, start_response):
    """Yields an item for each byte of the request body: the test sees each item before it sends the next byte."""
    ok(start_response)
    yield b"begin"
    while True:
        byte = environ["wsgi.input"].read(1)
        if not byte:
            return
        yield b"got " + byte


def close_tracking(environ, start_response):
    ok(start_response)
    return Body([b"a", b"b"], "tracked")


def close_after_error(environ, start_response):
    ok(start_response)
    return Body([b"a", ValueError("in the middle")], "after-error")


def closed_names(environ, start_response):
    ok(start_response)
    return [",".join(closed).encode()]


def write(environ, start_response):
    send = ok(start_response)
    send(b"written ")
    environ["wsgi.input"].read()
    send(b"twice ")
    return [b"and returned"]


def write_only(environ, start_response):
    ok(start_response)(b"written")
    return []


def echo(environ, start_response):
    ok(start_response)
    return [environ["wsgi.input"].read()]


def count_body(environ, start_response):
    size = 0
    while True:
        data = environ["wsgi.input"].read(100_000)
        if not data:
            break
        size += len(data)
    ok(start_response)
    return [str(size).encode()]


def lines(environ, start_response):
    source = environ["wsgi.input"]
    result = [source.readline(), source.readline(3), source.read(2)]
    result += source.readlines()
    ok(start_response)
    return [repr(result).encode()]


def iterate(environ, start_response):
    result = list(environ["wsgi.input"])
    ok(start_response)
    return [repr(result).encode()]


def ignore_body(environ, start_response):
    ok(start_response)
    return [b"ignored"]


def show(environ, start_response):
    ok(start_response)
    names = sorted(key for key in environ if key.startswith("wsgi."))
    lines = ["%s=%r" % (key, environ[key]) for key in names if key not in ("wsgi.input", "wsgi.errors")]
    lines.append("file_wrapper=%s" % environ["wsgi.file_wrapper"].__name__)
    return ["\n".join(lines).encode()]


def errors(environ, start_response):
    environ["wsgi.errors"].write("written to wsgi.errors\n")
    environ["wsgi.errors"].writelines(["one\n", "two\n"])
    environ["wsgi.errors"].flush()
    ok(start_response)
    return [b"done"]


def raise_before(environ, start_response):
    raise ValueError("before the head")


def raise_started(environ, start_response):
    ok(start_response)
    raise ValueError("after start_response")


def raise_after(environ, start_response):
    ok(start_response)
    yield b"part"
    raise ValueError("after the head")


def raise_exit(environ, start_response):
    sys.exit("please")


def exc_info_before(environ, start_response):
    ok(start_response)
    try:
        raise KeyError("inner")
    except KeyError:
        start_response("500 Oops", [("Content-Type", "text/plain")], sys.exc_info())
    return [b"handled"]


def exc_info_after(environ, start_response):
    send = ok(start_response)
    send(b"sent")
    try:
        raise KeyError("too late")
    except KeyError:
        start_response("500 Oops", [("Content-Type", "text/plain")], sys.exc_info())
    return [b"never"]


def start_twice(environ, start_response):
    ok(start_response)
    ok(start_response)
    return [b""]


def no_start(environ, start_response):
    return [b"x"]


def no_start_iterable(environ, start_response):
    return iter([b"x"])


def status_given(environ, start_response):
    start_response(eval(environ["QUERY_STRING"]), [])
    return [b"x"]


def headers_given(environ, start_response):
    start_response("200 OK", eval(environ["QUERY_STRING"]))
    return [b"x"]


def body_given(environ, start_response):
    ok(start_response)
    return eval(environ["QUERY_STRING"])


def length_list(environ, start_response):
    ok(start_response, [("Content-Length", environ["QUERY_STRING"])])
    return [b"0123456789"]


def length_items(environ, start_response):
    ok(start_response, [("Content-Length", environ["QUERY_STRING"])])
    return Body([b"01234", b"56789"], "length")


def big(environ, start_response):
    ok(start_response)
    return [b"x" * int(environ["QUERY_STRING"])]


def big_items(environ, start_response):
    ok(start_response)
    for _ in range(int(environ["QUERY_STRING"])):
        yield b"y" * 100_000


def endless(environ, start_response):
    ok(start_response)
    return Body(iter(lambda: b"z" * 1000, b""), "endless")


def file(environ, start_response):
    """A file with `QUERY_STRING` as (offset, Content-Length or None)."""
    offset, length = eval(environ["QUERY_STRING"] or "(0, None)")
    source = tempfile.TemporaryFile()
    source.write(b"0123456789" * 10)
    source.flush()
    source.seek(offset)
    ok(start_response, [] if length is None else [("Content-Length", str(length))])
    return environ["wsgi.file_wrapper"](source)


def file_buffered(environ, start_response):
    name = environ["QUERY_STRING"]
    source = open(name, "rb")
    source.read(5)
    ok(start_response)
    return environ["wsgi.file_wrapper"](source, 10)


def file_like(environ, start_response):
    ok(start_response)
    return environ["wsgi.file_wrapper"](io.BytesIO(b"0123456789" * 3), 7)


def file_gzip(environ, start_response):
    import gzip

    name = environ["QUERY_STRING"]
    ok(start_response)
    return environ["wsgi.file_wrapper"](gzip.open(name, "rb"))


def file_named(environ, start_response):
    source = tempfile.NamedTemporaryFile()
    source.write(b"named")
    source.flush()
    source.seek(1)
    ok(start_response)
    return environ["wsgi.file_wrapper"](source)


def file_other(environ, start_response):
    ok(start_response)
    return OtherFileWrapper(io.BytesIO(b"other"))


def file_wrapped(environ, start_response):
    """A file wrapper that middleware has wrapped."""
    ok(start_response)
    source = tempfile.TemporaryFile()
    source.write(b"wrapped")
    source.seek(0)
    return (item.upper() for item in environ["wsgi.file_wrapper"](source))


def sleep(environ, start_response):
    time.sleep(float(environ["QUERY_STRING"]))
    ok(start_response)
    return [b"slept"]


def wait_event(environ, start_response):
    """Blocks until another request sets the event (needs two seats)."""
    EVENTS.setdefault(environ["QUERY_STRING"], threading.Event()).wait(60)
    ok(start_response)
    return [threading.current_thread().name.encode()]


def set_event(environ, start_response):
    EVENTS.setdefault(environ["QUERY_STRING"], threading.Event()).set()
    ok(start_response)
    return [b"set"]


def thread(environ, start_response):
    ok(start_response)
    main = threading.current_thread() is threading.main_thread()
    return [b"main" if main else b"other"]


def hard_exit(environ, start_response):
    os._exit(7)


def run_subprocess(environ, start_response):
    code = "import os; print(sorted(int(fd) for fd in os.listdir('/proc/self/fd')))"
    output = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True).stdout
    ok(start_response)
    return [output]


def run_multiprocessing(environ, start_response):
    import multiprocessing

    context = multiprocessing.get_context(environ["QUERY_STRING"])
    with context.Pool(2) as pool:
        result = pool.map(abs, [-1, -2, -3])
    ok(start_response)
    return [repr(result).encode()]


CHILDREN = []


def fork_child(environ, start_response):
    """Forks a child that lives until SIGTERM, and reports its open descriptors."""
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(reader)
        links = []
        for fd in os.listdir("/proc/self/fd"):
            try:
                links.append("%s %s" % (fd, os.readlink("/proc/self/fd/" + fd)))
            except OSError:
                pass
        os.write(writer, "\n".join(links).encode())
        os.close(writer)
        time.sleep(600)
        os._exit(0)
    os.close(writer)
    CHILDREN.append(pid)
    with os.fdopen(reader, "rb") as pipe:
        links = pipe.read()
    ok(start_response)
    return [b"%d\n" % pid, links]


def fork_and_return(environ, start_response):
    """A child that returns from the application as its parent does."""
    pid = os.fork()
    status = os.waitpid(pid, 0)[1] if pid else 0
    ok(start_response)
    return [repr((pid, status)).encode()]


def end_child(environ, start_response):
    import signal

    pid = CHILDREN.pop()
    os.kill(pid, signal.SIGTERM)
    _, status = os.waitpid(pid, 0)
    ok(start_response)
    return [b"%d" % status]


@validator
def validated(environ, start_response):
    if environ["PATH_INFO"].endswith("items"):
        ok(start_response)
        return Body([b"valid", b"ated"], "validated")
    data = environ["wsgi.input"].read(5)
    ok(start_response, [("Content-Length", str(len(data) + 10))])
    return [b"validated ", data]


def printing(environ, start_response):
    print("printed without flush")
    print("caf\u00e9 \udcff", file=sys.stderr)
    ok(start_response)
    return [b"x"]


def app(environ, start_response):
    name = environ["PATH_INFO"].split("/")[1] or "hello"
    return globals()[name.replace("-", "_")](environ, start_response)


class ClassApp:
    """An application as a class whose instances are the iterables (PEP 3333)."""

    def __init__(self, environ, start_response):
        self.start = start_response

    def __iter__(self):
        self.start("200 OK", [])
        yield b"class"


NOT_CALLABLE = 5


def factory(name="world", *, mark="!"):
    def made(environ, start_response):
        ok(start_response)
        return [("hello %s%s" % (name, mark)).encode()]

    return made


class Holder:
    app = staticmethod(app)


holder = Holder()
