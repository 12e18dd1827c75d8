"""ESGI applications for test_esgi.py; the path chooses one."""

import socket
import time

import gevent
import gevent.event

RESULTS = {}
EVENTS = {}


class Esgi:
    def __esgi_init__(self):
        print("init")

    def __esgi_del__(self):
        print("del")

    def __esgi__(self, scope, protocol):
        app(scope, protocol)


instance = Esgi()


def app(scope, protocol):
    globals()[scope["path"].split("/")[1] or "hello"](scope, protocol)


def hello(scope, protocol):
    protocol.response_bytes(200, [("Content-Type", "text/plain")], b"hello")


def show(scope, protocol):
    protocol.response_str(200, [], repr(scope))


def patched(scope, protocol):
    protocol.response_str(200, [], repr((socket.socket.__module__, time.sleep.__module__)))


def echo(scope, protocol):
    protocol.response_bytes(200, [], protocol.read_body())


def iterate(scope, protocol):
    protocol.response_str(200, [], str(sum(len(part) for part in protocol.iter_body())))


def empty(scope, protocol):
    protocol.response_empty(204, [("x-a", "b")])


def big(scope, protocol):
    protocol.response_bytes(200, [], b"x" * int(scope["query_string"]))
    RESULTS["big"] = True


def file(scope, protocol):
    protocol.response_file(200, [], scope["query_string"])


def file_range(scope, protocol):
    protocol.response_file_range(206, [], scope["query_string"], 2, 5)


def stream(scope, protocol):
    transport = protocol.response_stream(200, [("x-a", "b")])
    transport.send_bytes(b"one ")
    transport.send_str("two ")
    transport.send_bytes(protocol.read_body())


def stream_big(scope, protocol):
    transport = protocol.response_stream(200, [])
    for _ in range(20):
        transport.send_bytes(b"y" * 100_000)


def endless(scope, protocol):
    transport = protocol.response_stream(200, [])
    try:
        while True:
            transport.send_bytes(b"z" * 1000)
    finally:
        RESULTS["endless"] = True


def wait_disconnect(scope, protocol):
    protocol.wait_disconnect()
    RESULTS["disconnect"] = True


def wait_event(scope, protocol):
    EVENTS.setdefault(scope["query_string"], gevent.event.Event()).wait()
    protocol.response_str(200, [], "waited")


def wait_long(scope, protocol):
    try:
        gevent.sleep(600)
    except gevent.GreenletExit:
        RESULTS["killed"] = True
        raise


def set_event(scope, protocol):
    EVENTS.setdefault(scope["query_string"], gevent.event.Event()).set()
    protocol.response_str(200, [], "set")


def sleep(scope, protocol):
    time.sleep(0.01)
    protocol.response_str(200, [], "slept")


def results(scope, protocol):
    while scope["query_string"] not in RESULTS:
        gevent.sleep(0.002)
    protocol.response_str(200, [], repr(RESULTS.pop(scope["query_string"])))


def nothing(scope, protocol):
    pass


def raises(scope, protocol):
    raise ValueError("in esgi")


def twice(scope, protocol):
    protocol.response_empty(200, [])
    protocol.response_empty(200, [])


def bad_header(scope, protocol):
    protocol.response_empty(200, [("a", "b\r\n")])


def bad_length(scope, protocol):
    protocol.response_bytes(200, [("Content-Length", "3")], b"four")


def ws_echo(scope, protocol):
    assert scope["proto"] == "ws"
    transport = protocol.accept()
    while True:
        message = transport.receive()
        if message.kind == 0:
            RESULTS["closed"] = message.data
            break
        if message.kind == 1:
            transport.send_bytes(b"ECHO:" + message.data)
        else:
            transport.send_str("ECHO:" + message.data)
    protocol.close()


def ws_close(scope, protocol):
    protocol.accept()
    protocol.close(4001, "enough")


def ws_reject(scope, protocol):
    protocol.close(code=1008, reason="invalid path")


def ws_long(scope, protocol):
    transport = protocol.accept()
    for letter in (b"a", b"b"):
        transport.send_bytes(letter * 1_000_000)


def ws_flood(scope, protocol):
    transport = protocol.accept()
    for index in range(20):
        transport.send_bytes(b"%04d" % index + b"f" * 99_996)
