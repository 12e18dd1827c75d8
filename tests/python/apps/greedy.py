"""A WSGI application that shows what its process may do, and takes more than that on request. It needs no packages."""

import mmap
import os
import resource
import time

LOADED_BY = os.getpid()
KEPT = []
# What stops a test that the limit under test does not stop.
FORKS_MAX = 300
FILES_MAX = 500
KEPT_MAX = 600 << 20
RESOURCES = {
    "nproc": "RLIMIT_NPROC", "as": "RLIMIT_AS", "nofile": "RLIMIT_NOFILE", "cpu": "RLIMIT_CPU", "fsize": "RLIMIT_FSIZE",
    "core": "RLIMIT_CORE", "stack": "RLIMIT_STACK", "memlock": "RLIMIT_MEMLOCK", "data": "RLIMIT_DATA",
}


def app(environ, start_response):
    body = ROUTES[environ["PATH_INFO"]](environ["QUERY_STRING"]).encode()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]


def process(_):
    return str(os.getpid())


def loaded(_):
    """The process that imported the application, and the one that runs it."""
    return f"{LOADED_BY} {os.getpid()}"


def user(_):
    return f"{os.getuid()} {os.getgid()} {os.getgroups()}"


def limits(_):
    """Soft and hard limits as `name=soft,hard` lines."""
    found = {name: resource.getrlimit(getattr(resource, value)) for name, value in RESOURCES.items()}
    return "\n".join(f"{name}={soft},{hard}" for name, (soft, hard) in found.items())


def descendant(_):
    """Starts a process that nobody waits for, and gives its PID."""
    pid = os.fork()
    if pid == 0:
        while True:
            time.sleep(1000)
    return str(pid)


def forks(path):
    """Forks without end. What happened is in the file `path`: a PID per line, then `refused`."""
    with open(path, "w") as file:
        count = 0
        while count < FORKS_MAX:
            try:
                pid = os.fork()
            except BlockingIOError:
                print("refused", file=file, flush=True)
                break
            if pid == 0:
                while True:
                    time.sleep(1000)
            count += 1
            print(pid, file=file, flush=True)
    while count < FORKS_MAX:
        try:
            if os.fork() == 0:
                os._exit(0)
            count += 1
        except BlockingIOError:
            time.sleep(0.001)
    return "forked"


def files(_):
    """How many files can be opened."""
    opened = []
    try:
        while len(opened) < FILES_MAX:
            opened.append(open("/dev/null"))
    except OSError:
        pass
    count = len(opened)
    for file in opened:
        file.close()
    return str(count)


def memory(size):
    """Whether so many bytes can be allocated; they are not touched."""
    try:
        mmap.mmap(-1, int(size)).close()
    except (OSError, MemoryError):
        return "refused"
    return "allocated"


def leak(size):
    """Keeps so many bytes more; gives the PID."""
    if sum(len(block) for block in KEPT) < KEPT_MAX:
        KEPT.append(b"x" * int(size))
    return str(os.getpid())


ROUTES = {
    "/pid": process, "/loaded": loaded, "/user": user, "/limits": limits, "/descendant": descendant, "/forks": forks,
    "/files": files, "/memory": memory, "/leak": leak,
}
