"""The process: draining, signals, forks, dumps, garbage, preloading."""

import json
import os
import signal
import socket
import sys
import tempfile
import time
import unittest

import driver
from driver import (
    BODY_IN,
    DRAIN,
    DRAINING,
    DUMP,
    END,
    EXITED,
    FORK,
    FORKED,
    READY,
    REQUEST,
    SEAT,
    STATS,
    environ,
    scope,
)
from support import APPS, module_missing


def inheritable(fd):
    """Whether this process passes a descriptor on to what it starts."""
    try:
        return os.get_inheritable(fd)
    except OSError:
        return False


class ProcessTest(unittest.TestCase):
    def start(self, module="wsgi_app:app", **options):
        worker = driver.Worker(module, APPS, **options)
        self.addCleanup(worker.close)
        return worker

    # -- start

    def test_ready(self):
        worker = self.start()
        ready = worker.ready
        self.assertEqual(ready["pid"], worker.pid)
        self.assertEqual(
            (ready["interface"], ready["loop"], bool(ready["accelerator"]), ready["marshal"]),
            ("wsgi", None, bool(driver.ACCELERATOR), True),
        )
        self.assertIn(ready["implementation"], ("cpython", "pypy"))
        self.assertRegex(ready["python"], r"^3\.\d+\.\d+")

    def test_the_text_may_come_through_a_pipe(self):
        reader, writer = os.pipe()
        control, theirs = socket.socketpair()
        lane, theirs_lane = socket.socketpair()
        if not os.fork():
            try:
                high = [
                    os.dup2(fd, 100 + index) for index, fd in enumerate((theirs_lane.fileno(), theirs.fileno(), reader))
                ]
                for index, fd in enumerate(high):
                    os.dup2(fd, 3 + index)
                os.closerange(6, 200)
                python = os.environ.get("WORKER_PYTHON") or sys.executable
                os.execv(python, [python, "-c", driver.bootstrap(), "1", "5"])
            finally:
                os._exit(99)
        theirs.close()
        theirs_lane.close()
        os.close(reader)
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(driver.worker_text())
        channel = driver.Channel(control)
        config = {"interface": "auto", "module": "wsgi_app:app", "window": 1000, "working_dir": APPS}
        channel.send(driver.CONFIG, payload=json.dumps(config).encode())
        sample = driver.encode_marshal(driver.SAMPLE_SCOPE)
        channel.send(driver.SAMPLE, large=len(sample), payload=sample + driver.encode_json(driver.SAMPLE_SCOPE))
        ready = channel.receive()
        self.assertEqual(ready.kind, READY)
        control.close()  # ends the process
        self.assertEqual(lane.recv(1), b"")
        os.waitpid(ready.json()["pid"], 0)
        lane.close()

    def test_another_marshal_means_json(self):
        worker = self.start(sample=b"N")
        self.assertFalse(worker.ready["marshal"])
        stream = worker.request(environ(path="/hello"), json_form=True)
        self.assertEqual(worker.response(stream).body, b"hello")

    # -- end

    def test_drain_when_idle(self):
        for lanes in (1, 3):
            worker = self.start(lanes=lanes)
            self.assertEqual(worker.drain(), 0)

    def test_drain_finishes_what_runs_and_what_was_sent(self):
        worker = self.start()
        first = worker.request(environ("POST", "/echo"), [])
        second = worker.request(environ(path="/hello"))
        worker.control.send(DRAIN)
        worker.lanes[0].send(BODY_IN, first, END, payload=b"x")
        self.assertEqual(worker.response(first).body, b"x")
        self.assertEqual(worker.response(second).body, b"hello")
        self.assertEqual(os.WEXITSTATUS(worker.wait_exit()), 0)

    def test_drain_with_further_seats(self):
        worker = self.start(lanes=2)
        lanes = worker.seat()
        busy = worker.request(environ("POST", "/echo"), [], lane=lanes[1])
        worker.control.send(DRAIN)
        lanes[1].send(BODY_IN, busy, END, payload=b"x")
        self.assertEqual(worker.response(busy, lanes[1]).body, b"x")
        self.assertEqual(os.WEXITSTATUS(worker.wait_exit()), 0)

    def test_drain_of_asgi_finishes_what_runs(self):
        worker = self.start("asgi_app:app")
        first = worker.request(scope(path="/echo"), [])
        worker.control.send(DRAIN)
        worker.lanes[0].send(BODY_IN, first, END, payload=b"x")
        self.assertEqual(worker.response(first).body, b"x")
        self.assertEqual(os.WEXITSTATUS(worker.wait_exit()), 0)

    def test_the_end_of_the_control_channel_kills_the_process_and_its_children(self):
        for module in ("wsgi_app:app", "asgi_app:app"):
            worker = self.start(module)
            child = None
            if module == "wsgi_app:app":
                child = int(worker.get("/fork_child").body.split(b"\n")[0])
            worker.control.close()
            status = worker.wait_exit()
            self.assertEqual(os.WTERMSIG(status), signal.SIGKILL)
            if child:
                self.wait_gone(child)

    def wait_gone(self, pid):
        """Waits until a process that is not our child has ended."""
        while True:
            try:
                with open("/proc/%d/stat" % pid) as file:
                    if file.read().rsplit(")", 1)[1].split()[0] == "Z":
                        return
            except FileNotFoundError:
                return

    def test_the_end_of_the_control_channel_during_the_import(self):
        worker = self.start("slow_import:app", start=False, env={"WAIT_FOR": "/does/not/exist"})
        worker.control.close()
        self.assertEqual(os.WTERMSIG(worker.wait_exit()), signal.SIGKILL)

    def test_the_end_of_all_lanes_ends_the_process(self):
        for module in ("wsgi_app:app", "asgi_app:app"):
            worker = self.start(module, lanes=2)
            worker.get("/hello")
            for lane in worker.lanes:
                lane.sock.shutdown(socket.SHUT_WR)
            self.assertEqual(os.WEXITSTATUS(worker.wait_exit()), 0)

    def test_os_exit(self):
        worker = self.start()
        worker.request(environ(path="/hard_exit"))
        self.assertEqual(os.WEXITSTATUS(worker.wait_exit()), 7)

    # -- signals

    def test_signals_ask_for_draining(self):
        for module in ("wsgi_app:app", "asgi_app:app"):
            for number in (signal.SIGTERM, signal.SIGINT):
                worker = self.start(module)
                worker.get("/hello")
                os.kill(worker.pid, number)
                self.assertEqual(worker.expect(DRAINING).json(), {"signal": number})
                self.assertEqual(worker.get("/hello").body, b"hello")
                self.assertEqual(worker.drain(), 0)

    # -- dumps

    def wait_dump(self, worker, text, ask=None):
        """Asks for dumps until one shows what the test waits for."""
        while text not in worker.stderr():
            ask() if ask else worker.control.send(DUMP)
            time.sleep(0.02)

    def test_dump_of_a_busy_thread(self):
        worker = self.start()
        worker.request(environ(path="/sleep", query="600"))
        self.wait_dump(worker, "in sleep")
        self.assertIn("wsgi_app.py", worker.stderr())

    def test_dump_of_waiting_tasks(self):
        worker = self.start("asgi_app:app")
        worker.request(scope(path="/wait_event", query=b"never"))
        self.wait_dump(worker, "in wait_event")
        self.assertIn("await EVENTS.setdefault", worker.stderr())

    def test_dump_by_signal(self):
        worker = self.start()
        worker.request(environ(path="/sleep", query="600"))
        self.wait_dump(worker, "in sleep", lambda: os.kill(worker.pid, signal.SIGUSR1))

    def test_dump_during_the_import(self):
        worker = self.start("slow_import:app", start=False, env={"WAIT_FOR": "/does/not/exist"})
        self.wait_dump(worker, "slow_import.py")

    # -- statistics

    def test_stats_once_a_second_while_there_is_traffic(self):
        for module in ("wsgi_app:app", "asgi_app:app"):
            worker = self.start(module)
            worker.get("/hello")
            first = worker.expect(STATS).json()
            self.assertEqual((first["requests"], first["streams"]), (1, 0))
            second = worker.expect(STATS).json()
            self.assertEqual(second["requests"], 1)
            worker.get("/hello")
            third = worker.expect(STATS).json()
            self.assertEqual(third["requests"], 2)
            self.assertGreaterEqual(third["busy_us"], second["busy_us"])

    # -- output

    def test_output_is_written_by_lines(self):
        worker = self.start(env={"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"})
        worker.get("/printing")
        self.assertEqual(worker.stdout(), "printed without flush\n")
        self.assertIn("caf", worker.stderr())

    # -- forks

    def test_a_forked_child_keeps_no_descriptor_of_the_worker(self):
        for lanes in (1, 2):
            worker = self.start(lanes=lanes)
            worker.get("/hello", lane=worker.seat()[0])
            pid, *links = worker.get("/fork_child").body.decode().split("\n")
            inherited = [os.readlink("/proc/self/fd/%d" % fd) for fd in range(1024) if inheritable(fd)]
            links = [link for link in links if link.split(" ")[1] not in inherited]
            sockets = [link for link in links if " socket:" in link]
            pipes = [link for link in links if " pipe:" in link]
            self.assertEqual((sockets, len(pipes)), ([], 1), links)  # the application's own pipe
            self.assertEqual(worker.get("/end_child").body, b"%d" % signal.SIGTERM)

    def test_a_forked_child_of_asgi_keeps_no_descriptor_of_the_worker(self):
        worker = self.start("wsgi_app:app", loop="asyncio")
        links = worker.get("/fork_child").body.decode().split("\n")[1:]
        self.assertFalse([link for link in links if " socket:" in link])
        worker.get("/end_child")

    def test_a_child_that_returns_to_the_worker_ends(self):
        worker = self.start()
        pid, status = eval(worker.get("/fork_and_return").body)
        self.assertEqual((os.WIFEXITED(status), os.WEXITSTATUS(status)), (True, 1))
        self.assertEqual(worker.get("/hello").body, b"hello")

    def test_a_child_forked_during_the_import_keeps_no_descriptor_of_the_worker(self):
        worker = self.start("fork_import:app", lanes=2)
        links = eval(worker.get().body)
        self.assertFalse([link for link in links if link.startswith("socket:")], links)

    def test_a_subprocess_inherits_nothing(self):
        worker = self.start(lanes=2)
        fds = json.loads(worker.get("/run_subprocess").body)
        self.assertEqual(fds[:3], [0, 1, 2])
        self.assertLessEqual(len(fds), 4)  # and the listing itself

    def test_multiprocessing(self):
        for method in ("fork", "spawn", "forkserver"):
            worker = self.start()
            self.assertEqual(worker.get("/run_multiprocessing", query=method).body, b"[1, 2, 3]")
            self.assertEqual(worker.drain(), 0)

    # -- garbage

    def assert_garbage(self, worker, text):
        status = worker.wait_exit()
        self.assertEqual(os.WEXITSTATUS(status), 4, worker.stderr())
        self.assertIn("received garbage", worker.logs[-1]["message"])
        self.assertIn(text, worker.logs[-1]["message"])

    def test_garbage_on_a_lane(self):
        for module, head in (("wsgi_app:app", environ()), ("asgi_app:app", scope())):
            for data, text in self.garbage(driver.encode_marshal(head)):
                with self.subTest(text, module=module):
                    worker = self.start(module)
                    worker.lanes[0].send_raw(data)
                    self.assert_garbage(worker, text)

    def garbage(self, head):
        """(frames, text of the report) for all that a lane may not carry; `head` is a dictionary that it may."""
        pack = driver.HEADER.pack
        return (
            (b"\xff" * 16, "a frame of 4294967295 bytes"),
            (pack((16 << 20) + 1, 1, BODY_IN, 0, 0, 0), "a frame of 16777217 bytes"),
            (pack(0, 1, 0x77, 0, 0, 0), "a frame of type 0x77"),
            (pack(4, 1, REQUEST, END, 0, 0) + b"junk", "a frame of type 0x1: "),
            (pack(0, 1, REQUEST, END, 0, 0), "a frame of type 0x1: "),
            (pack(1, 1, REQUEST, END, 0, 0) + b"N", "a frame of type 0x1: "),
            (pack(2, 1, REQUEST, END, 0, 0) + b"{0", "a frame of type 0x1: KeyError"),
            (pack(len(head), 0, REQUEST, END, 0, 0) + head, "request 0 is not new"),
            ((pack(len(head), 1, REQUEST, 0, 0, 0) + head) * 2, "request 1 is not new"),
            (pack(len(head), 1, REQUEST, 0, 0, 0) + head + pack(0, 1, 0x05, 0, 0, 0), "WebSocket"),
            (pack(len(head), 1, REQUEST, 0, 0, 0) + head + pack(0, 1, 0x77, 0, 0, 0), "a frame of type 0x77"),
        )

    def test_garbage_on_the_control_channel(self):
        worker = self.start()
        worker.control.send(0x77)
        self.assert_garbage(worker, "control frame 0x77")
        worker = self.start()
        worker.control.send(SEAT)
        self.assert_garbage(worker, "0 descriptors instead of 1")
        worker = self.start("asgi_app:app")
        worker.control.send(SEAT)
        self.assert_garbage(worker, "SEAT for a process without threads")

    # -- preloading

    def fork(self, worker, lanes=1):
        """Asks a preloaded process for a child; returns (pid, lanes, control, output, errors)."""
        pairs = [socket.socketpair() for _ in range(lanes + 1)]
        self.leash, leash = socket.socketpair()
        output, errors = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        fds = [pair[1].fileno() for pair in pairs] + [output.fileno(), errors.fileno(), leash.fileno()]
        worker.control.send(FORK, fds=fds)
        for pair in pairs:
            pair[1].close()
        leash.close()
        self.addCleanup(self.leash.close)
        channels = [driver.Channel(pair[0]) for pair in pairs]
        for channel in channels:
            self.addCleanup(channel.close)
        self.addCleanup(output.close)
        self.addCleanup(errors.close)
        pid = worker.expect(FORKED).json()["pid"]
        ready = channels[-1].receive()
        self.assertEqual(ready.kind, READY)
        self.assertEqual(ready.json()["pid"], pid)
        return pid, channels[:-1], channels[-1], output, errors

    def test_preloaded_processes(self):
        for lanes in (1, 3):
            parent = self.start("preload_app:app", preload=True, lanes=lanes)
            self.assertEqual(parent.ready["pid"], parent.pid)
            children = [self.fork(parent, lanes) for _ in range(2)]
            for pid, channels, control, output, errors in children:
                parent.ready["interface"] = "wsgi"
                for lane in channels:
                    body = parent.get("/x", lane=lane).body
                    self.assertEqual(eval(body), (parent.pid, pid, parent.pid, pid))
                output.seek(0)
                self.assertEqual(output.read(), b"served by %d\n" % pid * lanes)
                errors.seek(0)
                self.assertIn(b"to stderr", errors.read())
            self.assertEqual(parent.stdout(), "loaded\n")
            self.end_children(parent, children)

    def end_children(self, parent, children):
        """Ends one child by its application and one by draining; both are reported, and the parent ends by draining."""
        (first, lanes, _, _, _), (second, _, control, _, _) = children
        parent.request(environ(path="/exit"), lane=lanes[0])
        self.assertEqual(parent.expect(EXITED).json(), {"pid": first, "status": 9 << 8})
        control.send(DRAIN)
        self.assertEqual(parent.expect(EXITED).json(), {"pid": second, "status": 0})
        self.assertEqual(parent.drain(), 0)

    def test_preloaded_asgi(self):
        parent = self.start("preload_app:asgi", preload=True, interface="asgi", loop="asyncio")
        pid, lanes, control, _, _ = self.fork(parent)
        self.assertEqual(
            eval(parent.response(parent.request(scope(), lane=lanes[0]), lanes[0]).body), (parent.pid, pid)
        )
        os.kill(pid, signal.SIGKILL)
        self.assertEqual(parent.expect(EXITED).json(), {"pid": pid, "status": 9})

    @unittest.skipIf(module_missing("gevent"), "gevent is not installed")
    def test_preloaded_esgi(self):
        parent = self.start("esgi_app:app", preload=True, interface="esgi")
        pid, lanes, control, _, _ = self.fork(parent)
        stream = parent.request(scope(path="/sleep"), lane=lanes[0])
        self.assertEqual(parent.response(stream, lanes[0]).body, b"slept")
        control.send(DRAIN)
        self.assertEqual(parent.expect(EXITED).json(), {"pid": pid, "status": 0})

    def test_the_end_of_a_preloaded_parent(self):
        parent = self.start("preload_app:app", preload=True)
        pid, lanes, control, _, _ = self.fork(parent)
        parent.control.close()
        parent.wait_exit()
        stream = parent.request(environ(), lane=lanes[0])
        self.assertEqual(parent.response(stream, lanes[0]).status, 200)
        control.close()
        self.wait_gone(pid)

    def test_the_leash_of_a_preloaded_process(self):
        """It ends a process that does not run and so does not notice the end of its control channel."""
        parent = self.start("preload_app:app", preload=True)
        pid, lanes, control, _, _ = self.fork(parent)
        stream = parent.request(environ(), lane=lanes[0])
        self.assertEqual(parent.response(stream, lanes[0]).status, 200)
        os.kill(pid, signal.SIGSTOP)
        self.leash.close()
        self.assertEqual(parent.expect(EXITED).json(), {"pid": pid, "status": signal.SIGKILL})

    def test_signals_of_a_preloaded_parent(self):
        parent = self.start("preload_app:app", preload=True)
        os.kill(parent.pid, signal.SIGTERM)
        self.assertEqual(parent.expect(DRAINING).json(), {"signal": signal.SIGTERM})
        self.assertEqual(parent.drain(), 0)


if __name__ == "__main__":
    unittest.main()
