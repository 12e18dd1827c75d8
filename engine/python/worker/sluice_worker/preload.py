#: preload
"""A preloaded process: it holds the imported application, and forks worker processes when the server asks for them."""

import fcntl
import gc
import os
import signal
import sys

from .control import close, die, garbage, worker
from .failures import flush_standard_streams
from .frames import DRAIN, DRAINING, DUMP, EXITED, FORK, FORKED, POLLIN, Poll, fork as os_fork, set_signal, waitpid


def preload(lane_count):
    """Serves the control channel. Returns the descriptors of its lanes in each child."""
    from . import process

    gc.collect()
    if hasattr(gc, "freeze"):  # PyPy does not need it
        gc.freeze()
    worker.ready(None)
    children = set()
    set_signal(signal.SIGCHLD, lambda number, frame: worker.poke(b"r"))
    poller = Poll()
    poller.register(worker.sock.fileno(), POLLIN)
    poller.register(worker.wake_reader, POLLIN)
    while True:
        ready = dict(poller.poll())
        if worker.wake_reader in ready:
            if b"s" in os.read(worker.wake_reader, 64):
                worker.tell(DRAINING, {"signal": process.ControlThread.signal})
            reap(children)
        if worker.sock.fileno() in ready and not worker.receive():
            die()
        while True:
            frame = worker.next_frame()
            if frame is None:
                break
            if frame[0] == FORK:
                lanes = fork(children, lane_count + 4)
                if lanes is not None:
                    return lanes
            elif frame[0] == DRAIN:
                flush_standard_streams()
                os._exit(0)
            elif frame[0] == DUMP:
                process.dump()
            else:
                garbage("control frame %#x for a preloaded process" % frame[0])


def reap(children):
    """Reports children that have ended. Other children belong to the application."""
    for pid in list(children):
        try:
            found, status = waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            found, status = pid, 0
        if found:
            children.discard(pid)
            worker.tell(EXITED, {"pid": pid, "status": status})


def fork(children, count):
    """Forks a worker process that takes the received descriptors: returns those of its lanes there, None here."""
    descriptors = worker.take_descriptors(count)
    flush_standard_streams()
    worker.forking = True
    try:
        pid = os_fork()
    except OSError as error:
        worker.tell(FORKED, {"error": "cannot fork: %s" % error.strerror})
        pid = -1
    worker.forking = False
    if pid == 0:
        return become_worker(descriptors)
    for fd in descriptors:
        close(fd)
    if pid > 0:
        children.add(pid)
        worker.tell(FORKED, {"pid": pid})
        reap(children)
    return None


def become_worker(descriptors):
    """Makes a forked child a worker process of its own."""
    os.setpgid(0, 0)
    set_signal(signal.SIGCHLD, signal.SIG_DFL)
    worker.detach()
    *lanes, control, output, errors, leash = descriptors
    attach_leash(leash)
    os.dup2(output, 1)
    os.dup2(errors, 2)
    close(output)
    close(errors)
    worker.attach(control)
    if "gevent" in sys.modules:
        import gevent

        gevent.reinit()
    return lanes


def attach_leash(fd):
    """Lets the kernel kill the process group when the other end is closed, which only the server has."""
    fcntl.fcntl(fd, fcntl.F_SETOWN, -os.getpid())
    fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(fd, fcntl.F_SETFL, os.O_ASYNC)
