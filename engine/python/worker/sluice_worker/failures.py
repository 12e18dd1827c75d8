#: failures
"""Tracebacks of applications, as sluice shows them."""

import os
import sys

from .limits import TEXT_MAX

WORKER_FILE = "<sluice_worker/"


class ClientDisconnected(ConnectionError):
    """The client is gone, or sluice has given the request up."""


class RuleError(RuntimeError):
    """The application broke a rule of its interface."""


def bounded(text):
    """UTF-8 of a text, at most TEXT_MAX bytes: its beginning and its end."""
    data = text.encode("utf-8", "backslashreplace")
    if len(data) > TEXT_MAX:
        half = TEXT_MAX // 2 - 32
        data = data[:half] + b"\n  [...]\n" + data[-half:]
        data = data.decode("utf-8", "ignore").encode("utf-8")
    return data


def is_foreign(filename):
    """Whether a frame belongs to the worker or to the import system, and says nothing about the application."""
    return filename.startswith((WORKER_FILE, "<frozen importlib"))


def failure_text(error):
    """The traceback of an exception without the worker's own frames."""
    import traceback

    try:
        report = traceback.TracebackException.from_exception(error)
        strip_frames(report, set())
        return "".join(report.format()).rstrip()
    except Exception as second:  # an exception whose __str__ raises, for example
        return "%s (its traceback cannot be formatted: %s)" % (type(error).__name__, type(second).__name__)


def strip_frames(report, seen):
    while report is not None and id(report) not in seen:
        seen.add(id(report))
        report.stack[:] = [frame for frame in report.stack if not is_foreign(frame.filename)]
        for member in getattr(report, "exceptions", None) or ():
            strip_frames(member, seen)
        strip_frames(report.__context__, seen)
        report = report.__cause__


# asyncio's, gevent's, Starlette's and Quart's exceptions for a client that is gone.
DISCONNECT_NAMES = frozenset(["CancelledError", "GreenletExit", "ClientDisconnect", "WebSocketDisconnect"])


def is_disconnect(error):
    """Whether an exception only says that the client is gone, or that a task was cancelled for it."""
    chain = []  # the exception and its explicit causes
    while error is not None and not any(error is other for other in chain):
        chain.append(error)
        error = error.__cause__
    for error in chain:
        if type(error).__name__ in DISCONNECT_NAMES or comes_of_disconnect(error):
            return True
        members = getattr(error, "exceptions", None)
        if members and all(is_disconnect(member) for member in members):
            return True
    return False


def comes_of_disconnect(error):
    """Whether an exception is ClientDisconnected, or was raised while one was handled."""
    seen = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, ClientDisconnected):
            return True
        seen.add(id(error))
        error = error.__context__
    return False


def failure_place(error):
    """File and line of the application's own code that an exception passed through last, or (None, None)."""
    if isinstance(error, SyntaxError) and error.filename:
        return error.filename, error.lineno
    own = last = (None, None)
    trace = error.__traceback__
    while trace is not None:
        filename = trace.tb_frame.f_code.co_filename
        if not is_foreign(filename) and filename != "<string>":
            last = (filename, trace.tb_lineno)
            if not is_library(filename):
                own = last
        trace = trace.tb_next
    return own if own[0] else last


def is_library(filename):
    return (
        "site-packages" in filename
        or "dist-packages" in filename
        or filename.startswith("<")
        or filename.startswith(os.path.dirname(os.__file__) + os.sep)
    )


def brief(error):
    """An exception in one line."""
    text = str(error).strip().split("\n")[0]
    return "%s: %s" % (type(error).__name__, text) if text else type(error).__name__


def flush_standard_streams():
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass
