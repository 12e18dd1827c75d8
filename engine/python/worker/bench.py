"""Measures what the worker costs per request, beside the same application called in a loop.

    bench.py [--runs N] [--python PATH] [--accelerator FOLDER] [CASE ...]
                                                        cases: wsgi flask asgi fastapi rsgi esgi

Figures are CPU time of the worker process in microseconds per request: of many short runs, which alternate with the
loop, the tenth that was disturbed least, since other programs use the same CPUs. `depth` is the number of requests in flight; sluice's side of the socket pair is not
counted. With `--accelerator`, the folder of a built `sluice_accelerator`, a second worker runs with it in turn with the first;
its row is marked with a plus.
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
    return loop.run_until_complete(asgi())

if %(interface)r != "wsgi":
    try:
        import uvloop
        loop = uvloop.new_event_loop()
    except ImportError:
        loop = asyncio.new_event_loop()
for _ in sys.stdin:
    print(run() / count * 1e6, flush=True)
"""


class Floor:
    """The application called in a loop by a process of its own."""

    def __init__(self, python, module, interface, count):
        text = LOOP % {
            "apps": APPS,
            "tests": os.path.dirname(APPS),
            "module": module,
            "interface": interface,
            "count": count,
        }
        pipe = subprocess.PIPE
        self.process = subprocess.Popen([python, "-c", text], stdin=pipe, stdout=pipe, universal_newlines=True)

    def measure(self):
        """CPU time of a call in microseconds."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


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
    parser.add_argument("--accelerator", metavar="FOLDER")
    parser.add_argument("cases", nargs="*", default=list(CASES), metavar="CASE")
    options = parser.parse_args()
    columns = "%-9s %7s %10s %10s %10s %7s %7s %10s"
    print(columns % ("case", "loop", "depth 100", "depth 10", "depth 1", "over", "ratio", "latency 1"))
    for name in options.cases:
        for mark, low in measure_case(options, *CASES[name]):
            base = low.get("loop")
            print(
                columns
                % (
                    name + mark,
                    "%.1f" % base if base else "-",
                    "%.1f" % low[100],
                    "%.1f" % low[10],
                    "%.1f" % low[1],
                    "%.1f" % (low[100] - base) if base else "-",
                    "%.2f" % (low[100] / base) if base else "-",
                    "%.1f" % low["latency"],
                )
            )


def measure_case(options, module, interface):
    """Of each worker its mark, and of each quantity the tenth of the runs that was disturbed least."""
    floor = Floor(options.python, module, interface, options.count) if interface in ("wsgi", "asgi") else None
    settings = {"interface": interface, "loop": options.loop, "eager": options.eager}
    head = driver.environ(path="/hello") if interface == "wsgi" else driver.scope(path="/hello")
    workers = []
    for mark, accelerator, folder in (("", "off", ""), ("+", "on", options.accelerator)):
        if folder is not None:
            environment = {"PYTHONPATH": folder}
            worker = driver.Worker(
                module, APPS, python=options.python, accelerator=accelerator, env=environment, **settings
            )
            measure(worker, head, 10, 1000)
            workers.append((mark, worker, {"loop": [], 100: [], 10: [], 1: [], "latency": []}))
    for _ in range(options.runs):
        base = floor.measure() if floor else None
        for _, worker, runs in workers:
            if floor:
                runs["loop"].append(base)
            for depth in (100, 10, 1):
                cpu, wall = measure(worker, head, depth, options.count)
                runs[depth].append(cpu)
            runs["latency"].append(wall)
    if floor:
        floor.close()
    for mark, worker, runs in workers:
        worker.close()
        yield mark, {key: sorted(values)[len(values) // 10] for key, values in runs.items() if values}


if __name__ == "__main__":
    main()
