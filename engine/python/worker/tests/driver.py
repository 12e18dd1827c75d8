"""The server's side of the frame protocol, for tests and measurements. Starts a worker as sluice does."""

import fcntl
import json
import os
import select
import signal
import socket
import struct
import sys
import tempfile
import time

FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HEADER = struct.Struct("<IIBBHI")
END, WEBSOCKET, TEXT, MORE = 1, 2, 2, 4
REQUEST, BODY_IN, CANCEL, CREDIT_IN, WS_MESSAGE_IN, WS_CLOSE_IN = range(1, 7)
RESPONSE, BODY, FILE, ERROR, CREDIT, WS_ACCEPT, WS_MESSAGE, WS_CLOSE, EARLY_HINTS, TRAILERS = range(0x11, 0x1B)
CONFIG, SEAT, DRAIN, DUMP, FORK, SAMPLE = range(0x40, 0x46)
READY, FAILED, STATS, LOG, FORKED, EXITED, DRAINING = range(0x50, 0x57)
WINDOW = 262144
ACCELERATOR = os.environ.get("WORKER_ACCELERATOR")  # the folder of the extension module to test the worker with
WAIT_MAX = 60  # seconds until a test fails: far more than a loaded machine needs

NAMES = {value: name for name, value in list(globals().items()) if name.isupper() and isinstance(value, int)}


def worker_text():
    """The worker's modules as one text, as sluice passes it."""
    folder = os.path.join(FOLDER, "sluice_worker")
    text = []
    for name in sorted(os.listdir(folder)):
        if name.endswith(".py"):
            with open(os.path.join(folder, name), "rb") as file:
                text.append(file.read())
    return b"".join(text)


def bootstrap():
    with open(os.path.join(FOLDER, "bootstrap.py")) as file:
        return file.read()


# ---------------------------------------------------------------------------------------------------------------------
# Marshal as sluice writes it: only the codes { 0 z a u s i ) [ N T F
# ---------------------------------------------------------------------------------------------------------------------


def encode_marshal(value):
    if value is None:
        return b"N"
    if value is True:
        return b"T"
    if value is False:
        return b"F"
    if isinstance(value, int):
        return b"i" + struct.pack("<i", value)
    if isinstance(value, str):
        try:
            data = value.encode("ascii")
        except UnicodeEncodeError:
            data = value.encode("utf-8", "surrogatepass")
            return b"u" + struct.pack("<I", len(data)) + data
        if len(data) < 256:
            return b"z" + bytes([len(data)]) + data
        return b"a" + struct.pack("<I", len(data)) + data
    if isinstance(value, bytes):
        return b"s" + struct.pack("<I", len(value)) + value
    if isinstance(value, tuple):
        return b")" + bytes([len(value)]) + b"".join(map(encode_marshal, value))
    if isinstance(value, list):
        return b"[" + struct.pack("<I", len(value)) + b"".join(map(encode_marshal, value))
    if isinstance(value, dict):
        pairs = b"".join(encode_marshal(key) + encode_marshal(item) for key, item in value.items())
        return b"{" + pairs + b"0"
    raise TypeError(type(value))


def encode_json(value):
    def plain(value):
        if isinstance(value, bytes):
            return value.decode("latin-1")
        if isinstance(value, (list, tuple)):
            return [plain(item) for item in value]
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items()}
        return value

    return json.dumps(plain(value)).encode()


def environ(method="GET", path="/", query="", headers=(), **more):
    """An environ as sluice makes it."""
    result = {
        "REQUEST_METHOD": method,
        "SCRIPT_NAME": "",
        "PATH_INFO": path,
        "QUERY_STRING": query,
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "9080",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "127.0.0.1",
        "REMOTE_PORT": "34567",
        "wsgi.url_scheme": "http",
        "HTTP_HOST": "localhost:9080",
    }
    for name, value in headers:
        key = name.upper().replace("-", "_")
        result[key if key in ("CONTENT_TYPE", "CONTENT_LENGTH") else "HTTP_" + key] = value
    result.update(more)
    return result


def scope(method="GET", path="/", query=b"", headers=(), kind="http", **more):
    """A scope as sluice makes it."""
    result = {
        "type": kind,
        "http_version": "1.1",
        "method": method,
        "scheme": "http" if kind == "http" else "ws",
        "path": path,
        "raw_path": path.encode("utf-8"),
        "query_string": query,
        "root_path": "",
        "headers": [(b"host", b"localhost:9080")] + list(headers),
        "client": ("127.0.0.1", 34567),
        "server": ("localhost", 9080),
    }
    if kind == "websocket":
        del result["method"]
        result["subprotocols"] = []
    result.update(more)
    return result


SAMPLE_SCOPE = scope(
    path="/caf\u00e9/" + "x" * 300,
    query=b"a=%20",
    tls={"server_cert": None, "cipher_suite": 4865, "client_cert_chain": [], "on": True, "off": False},
)


# ---------------------------------------------------------------------------------------------------------------------
# The worker process
# ---------------------------------------------------------------------------------------------------------------------


class Frame:
    def __init__(self, kind, stream, flags, small, large, payload, fds=()):
        self.kind = kind
        self.stream = stream
        self.flags = flags
        self.small = small
        self.large = large
        self.payload = payload
        self.fds = fds

    @property
    def end(self):
        return bool(self.flags & END)

    def json(self):
        return json.loads(self.payload)

    def __repr__(self):
        name = NAMES.get(self.kind, hex(self.kind)) if self.kind > 0x10 else hex(self.kind)
        return "<%s stream=%d flags=%d small=%d large=%d %.300r>" % (
            name,
            self.stream,
            self.flags,
            self.small,
            self.large,
            self.payload,
        )


class Gone(Exception):
    """The worker has closed the socket."""


class Channel:
    """A socket on which frames are sent and received."""

    def __init__(self, sock):
        self.sock = sock
        self.buffer = b""
        self.fds = []

    def send(self, kind, stream=0, flags=0, small=0, large=0, payload=b"", fds=()):
        data = HEADER.pack(len(payload), stream, kind, flags, small, large) + payload
        if fds:
            sent = socket.send_fds(self.sock, [data], list(fds))
            data = data[sent:]
        if data:
            self.sock.sendall(data)

    def send_raw(self, data):
        self.sock.sendall(data)

    def receive(self, timeout=WAIT_MAX):
        """The next frame."""
        deadline = time.monotonic() + timeout
        while True:
            if len(self.buffer) >= HEADER.size:
                length, stream, kind, flags, small, large = HEADER.unpack_from(self.buffer)
                if len(self.buffer) >= HEADER.size + length:
                    payload = self.buffer[HEADER.size : HEADER.size + length]
                    self.buffer = self.buffer[HEADER.size + length :]
                    fds = (self.fds.pop(0),) if kind == FILE else ()
                    return Frame(kind, stream, flags, small, large, payload, fds)
            left = deadline - time.monotonic()
            if not select.select([self.sock], [], [], max(left, 0))[0]:
                raise TimeoutError("the worker sent nothing for %d s" % timeout)
            data, fds, _, _ = socket.recv_fds(self.sock, 1 << 20, 16)
            self.fds += fds
            if not data:
                raise Gone("the worker closed the socket")
            self.buffer += data

    def quiet(self):
        """Whether nothing has arrived so far."""
        return not self.buffer and not select.select([self.sock], [], [], 0)[0]

    def close(self):
        self.sock.close()
        for fd in self.fds:
            os.close(fd)


class Response:
    """A response that was received to its end."""

    def __init__(self):
        self.status = None
        self.headers = []
        self.body = b""
        self.frames = []
        self.error = None
        self.file = None

    def header(self, name):
        values = [value for key, value in self.headers if key.lower() == name.lower()]
        return values[0] if values else None


def parse_block(block):
    lines = block.decode("latin-1").split("\r\n")
    assert lines.pop() == "", block
    return [tuple(line.split(": ", 1)) for line in lines]


class Worker:
    """A worker process and the sockets to it."""

    def __init__(self, module="", folder=None, lanes=1, start=True, python=None, sample=None, env=None, **config):
        self.python = python or os.environ.get("WORKER_PYTHON") or sys.executable
        self.lane_count = lanes
        self.next_stream = 0
        self.logs = []
        self.stats = []
        self.folder = folder or os.getcwd()
        self.env = dict(os.environ, PYTHONDONTWRITEBYTECODE="1")
        if ACCELERATOR:
            self.env["PYTHONPATH"] = ACCELERATOR
        self.env.update(env or {})
        self.output = tempfile.TemporaryFile()
        self.errors = tempfile.TemporaryFile()
        self.config = {
            "interface": "auto",
            "module": module,
            "factory": False,
            "threads": 4,
            "window": WINDOW,
            "lifespan": "auto",
            "loop": "auto",
            "root_path": "",
            "working_dir": self.folder,
            "site_packages": None,
            "preload": False,
            "accelerator": "on" if ACCELERATOR else "off",
        }
        self.config.update(config)
        pairs = [socket.socketpair() for _ in range(lanes + 1)]
        ours = [Channel(pair[0]) for pair in pairs]
        self.lanes, self.control = ours[:-1], ours[-1]
        self.status = None
        self.spawn([pair[1] for pair in pairs])
        for pair in pairs:
            pair[1].close()
        self.control.send(CONFIG, payload=json.dumps(self.config).encode())
        if sample is None:
            sample = encode_marshal(SAMPLE_SCOPE)
        self.control.send(SAMPLE, large=len(sample), payload=sample + encode_json(SAMPLE_SCOPE))
        self.ready = self.expect(READY).json() if start else None

    def spawn(self, sockets):
        """Starts `python -c BOOTSTRAP W FD` with the sockets as descriptors from 3 on and the text behind them."""
        text = tempfile.TemporaryFile()
        text.write(worker_text())
        text.flush()
        sources = [sock.fileno() for sock in sockets] + [text.fileno()]
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 200) for fd in sources]
        null = os.open(os.devnull, os.O_RDONLY)
        actions = [
            (os.POSIX_SPAWN_DUP2, null, 0),
            (os.POSIX_SPAWN_DUP2, self.output.fileno(), 1),
            (os.POSIX_SPAWN_DUP2, self.errors.fileno(), 2),
        ]
        actions += [(os.POSIX_SPAWN_DUP2, fd, 3 + index) for index, fd in enumerate(high)]
        arguments = [self.python, "-c", bootstrap(), str(self.lane_count), str(3 + len(sockets))]
        self.pid = os.posix_spawn(self.python, arguments, self.env, file_actions=actions, setpgroup=0)
        for fd in high + [null]:
            os.close(fd)
        text.close()

    # -- control channel

    def expect(self, kind, timeout=WAIT_MAX):
        """The next frame of a kind on the control channel. LOG and STATS frames are collected meanwhile."""
        while True:
            frame = self.control.receive(timeout)
            if frame.kind == kind:
                return frame
            if frame.kind == LOG:
                self.logs.append(frame.json())
            elif frame.kind == STATS:
                self.stats.append(frame.json())
            else:
                raise AssertionError("%r instead of %s; standard error:\n%s" % (frame, NAMES[kind], self.stderr()))

    def wait_log(self, text):
        """Waits for a LOG frame with a text."""
        while True:
            for entry in self.logs:
                if text in entry["message"] or text in entry.get("traceback", ""):
                    return entry
            frame = self.control.receive()
            if frame.kind == LOG:
                self.logs.append(frame.json())

    def seat(self):
        """Opens a further seat; returns its lanes."""
        pairs = [socket.socketpair() for _ in range(self.lane_count)]
        self.control.send(SEAT, small=1, fds=[pair[1].fileno() for pair in pairs])
        for pair in pairs:
            pair[1].close()
        lanes = [Channel(pair[0]) for pair in pairs]
        self.lanes += lanes
        return lanes

    def stderr(self):
        self.errors.seek(0)
        return self.errors.read().decode("utf-8", "replace")

    def stdout(self):
        self.output.seek(0)
        return self.output.read().decode("utf-8", "replace")

    def wait_exit(self, timeout=WAIT_MAX):
        """The exit status as waitpid gives it. Frames on the control channel are collected."""
        deadline = time.monotonic() + timeout
        while self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = status
                break
            if time.monotonic() > deadline:
                raise TimeoutError("the worker does not end")
            time.sleep(0.002)
        try:
            while True:
                frame = self.control.receive(0)
                if frame.kind == LOG:
                    self.logs.append(frame.json())
                elif frame.kind == STATS:
                    self.stats.append(frame.json())
        except (Gone, TimeoutError, OSError, ValueError):
            pass
        return self.status

    def drain(self):
        """Drains and returns the exit code."""
        self.control.send(DRAIN)
        status = self.wait_exit()
        return os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)

    def close(self):
        if self.status is None:
            try:
                os.killpg(self.pid, signal.SIGKILL)
            except ProcessLookupError:
                os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.status = 9
        for channel in self.lanes + [self.control]:
            channel.close()
        self.output.close()
        self.errors.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # -- requests

    def number(self):
        self.next_stream += 1
        return self.next_stream

    def request(self, head, body=None, lane=None, flags=0, json_form=False):
        """Sends a request, whose body follows in parts if `body` is a list; returns the stream's number."""
        lane = lane or self.lanes[0]
        stream = self.number()
        encode = encode_json if json_form else encode_marshal
        lane.send(REQUEST, stream, flags | (END if body is None else 0), payload=encode(head))
        if isinstance(body, bytes):
            lane.send(BODY_IN, stream, END, payload=body)
        return stream

    def response(self, stream, lane=None, credit=True):
        """Receives frames to the END of a stream. Grants credit for what it reads, and ignores CREDIT of the worker."""
        lane = lane or self.lanes[0]
        response = Response()
        while True:
            frame = lane.receive()
            assert frame.stream == stream, "%r instead of stream %d" % (frame, stream)
            response.frames.append(frame)
            size = 0
            if frame.kind == RESPONSE:
                response.status = frame.small
                response.headers = parse_block(frame.payload[: frame.large])
                response.body = frame.payload[frame.large :]
                size = len(response.body)
            elif frame.kind == BODY:
                response.body += frame.payload
                size = len(frame.payload)
            elif frame.kind == FILE:
                offset, length = struct.unpack("<QQ", frame.payload)
                response.file = (offset, length)
                response.body += os.pread(frame.fds[0], length, offset)
                os.close(frame.fds[0])
            elif frame.kind == ERROR:
                response.error = (frame.small, frame.payload.decode())
            if frame.end:
                return response
            if credit and size:
                lane.send(CREDIT_IN, stream, large=size)

    def get(self, path="/", lane=None, **more):
        """Sends a GET request and returns its response."""
        if self.ready["interface"] == "wsgi":
            head = environ(path=path, **more)
        else:
            head = scope(path=path, **more)
        return self.response(self.request(head, lane=lane), lane)
