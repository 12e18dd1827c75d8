"""Measures what the worker costs per request, beside the same application called in a loop.

    bench.py [--runs N] [--python PATH] [CASE ...]      cases: wsgi flask asgi fastapi rsgi esgi

Figures are CPU time of the worker process in microseconds per request: the smallest of many short runs, since other
programs use the same CPUs. `depth` is the number of requests in flight; sluice's side of the socket pair is not
counted.
The interpreter needs flask, fastapi, uvloop and gevent for the cases that use them.
"""

import argparse
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "tests"))
import driver  # noqa: E402

APPS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tests", "apps")
CASES = {
    "wsgi": ("bench_bare:wsgi", "wsgi"),
    "flask": ("bench_flask:app", "wsgi"),
    "asgi": ("bench_bare:asgi", "asgi"),
    "fastapi": ("bench_fastapi:app", "asgi"),
    "rsgi": ("bench_bare:rsgi", "rsgi"),
    "esgi": ("bench_bare:esgi", "esgi"),
}
LOOP = """
import asyncio, sys, time
sys.path[:0] = [%(apps)r, %(tests)r]
import driver
module, name = %(module)r.split(":")
app = getattr(__import__(module), name)
count = %(count)d

def wsgi():
    head = driver.environ(path="/hello")
    head.update({"wsgi.input": None, "wsgi.errors": sys.stderr, "wsgi.version": (1, 0), "wsgi.multithread": False,
                 "wsgi.multiprocess": True, "wsgi.run_once": False})
    def start_response(status, headers, exc_info=None):
        pass
    begun = time.process_time()
    for _ in range(count):
        result = app(head.copy(), start_response)
        b"".join(result)
        if hasattr(result, "close"):
            result.close()
    return time.process_time() - begun

async def asgi():
    head = driver.scope(path="/hello", asgi={"version": "3.0", "spec_version": "2.5"})
    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}
    async def send(message):
        pass
    begun = time.process_time()
    for _ in range(count):
        await app(head.copy(), receive, send)
    return time.process_time() - begun

def run():
    if %(interface)r == "wsgi":
        return wsgi()
    try:
        import uvloop
        loop = uvloop.new_event_loop()
    except ImportError:
        loop = asyncio.new_event_loop()
    return loop.run_until_complete(asgi())

print(min(run() for _ in range(%(runs)d)) / count * 1e6)
"""


def floor(python, module, interface, count, runs):
    """CPU time per call of the application in a loop, or None for interfaces without one."""
    if interface not in ("wsgi", "asgi"):
        return None
    text = LOOP % {
        "apps": APPS,
        "tests": os.path.dirname(APPS),
        "module": module,
        "interface": interface,
        "count": count,
        "runs": runs,
    }
    return float(subprocess.run([python, "-c", text], check=True, stdout=subprocess.PIPE).stdout)


def cpu_time(pid):
    return time.clock_gettime((~pid << 3) | 2)  # CPUCLOCK_SCHED of a process: clock_getcpuclockid(3)


def measure(worker, head, depth, count):
    """CPU time of the worker and wall time per request, with `depth` requests in flight."""
    payload = driver.encode_marshal(head)
    lane = worker.lanes[0].sock
    batch = b"".join(
        driver.HEADER.pack(len(payload), number, driver.REQUEST, driver.END, 0, 0) + payload
        for number in range(1, depth + 1)
    )
    rounds = max(count // depth, 1)
    cpu = cpu_time(worker.pid)
    wall = time.perf_counter()
    unpack = driver.HEADER.unpack_from
    for _ in range(rounds):
        lane.sendall(batch)
        left = depth
        data = b""
        while left:
            data += lane.recv(1 << 20)
            pos = 0
            while len(data) - pos >= 16:
                length, _, kind, flags, _, _ = unpack(data, pos)
                if len(data) - pos - 16 < length:
                    break
                assert kind == driver.RESPONSE or kind == driver.BODY, data[pos:]
                left -= flags & 1
                pos += 16 + length
            data = data[pos:]
    wall = time.perf_counter() - wall
    return (cpu_time(worker.pid) - cpu) / rounds / depth * 1e6, wall / rounds / depth * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--count", type=int, default=300, help="requests of a run")
    parser.add_argument("--loop", default="auto")
    parser.add_argument("--eager", action="store_true")
    parser.add_argument("cases", nargs="*", default=list(CASES), metavar="CASE")
    options = parser.parse_args()
    print("%-8s %9s %9s %9s %9s %7s %14s" % ("case", "loop", "depth 100", "depth 10", "depth 1", "over", "latency 1"))
    for name in options.cases:
        module, interface = CASES[name]
        base = floor(options.python, module, interface, options.count, options.runs)
        settings = {"interface": interface, "loop": options.loop, "eager": options.eager}
        with driver.Worker(module, APPS, python=options.python, **settings) as worker:
            if interface == "wsgi":
                head = driver.environ(path="/hello")
            else:
                head = driver.scope(path="/hello")
            measure(worker, head, 10, 1000)
            best = {}
            for _ in range(options.runs):
                for depth in (100, 10, 1):
                    cpu, wall = measure(worker, head, depth, options.count)
                    best[depth] = min(best.get(depth, (1e9, 0))[0], cpu), min(best.get(depth, (0, 1e9))[1], wall)
            print(
                "%-8s %9s %9.1f %9.1f %9.1f %7s %14.1f"
                % (
                    name,
                    "-" if base is None else "%.1f" % base,
                    best[100][0],
                    best[10][0],
                    best[1][0],
                    "-" if base is None else "%.1f" % (best[100][0] - base),
                    best[1][1],
                )
            )


if __name__ == "__main__":
    main()
