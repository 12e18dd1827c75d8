"""A WSGI application that patches the standard library for gevent when it is imported."""

from gevent import monkey

monkey.patch_all()

import time  # noqa: E402
from concurrent.futures import ThreadPoolExecutor  # noqa: E402

import gevent  # noqa: E402

TICKS = [0]


def tick():
    while True:
        TICKS[0] += 1
        time.sleep(0.002)


gevent.spawn(tick)


def app(environ, start_response):
    if environ["PATH_INFO"] == "/sleep":
        time.sleep(0.005)
        body = b"slept"
    elif environ["PATH_INFO"] == "/pool":
        with ThreadPoolExecutor(2) as pool:
            body = repr(list(pool.map(lambda n: n * n, range(3)))).encode()
    elif environ["PATH_INFO"] == "/read":
        write = start_response("200 OK", [])
        before = TICKS[0]
        while TICKS[0] < before + 3:
            environ["wsgi.input"].read(1)
        write(b"ticked")
        while environ["wsgi.input"].read(1):
            pass
        return []
    else:
        body = b"%d" % TICKS[0]
    start_response("200 OK", [])
    return [body]
