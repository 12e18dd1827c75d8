"""What the tests have in common."""

import os
import unittest

import driver

APPS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "apps")


class WorkerTest(unittest.TestCase):
    """Tests that share one worker process. `options` are those of driver.Worker."""

    module = ""
    options = {}

    @classmethod
    def setUpClass(cls):
        cls.worker = driver.Worker(cls.module, APPS, **cls.options)
        cls.lane = cls.worker.lanes[0]

    @classmethod
    def tearDownClass(cls):
        cls.worker.close()

    def tearDown(self):
        status = os.waitpid(self.worker.pid, os.WNOHANG)[1] if self.worker.status is None else 0
        self.assertEqual(status, 0, "the worker has ended; standard error:\n" + self.worker.stderr())

    def next(self):
        """The next frame of the lane that is not CREDIT."""
        while True:
            frame = self.lane.receive()
            if frame.kind != driver.CREDIT:
                return frame

    def last_log(self, text):
        """The LOG frame with a text, which must have come or come now."""
        entry = self.worker.wait_log(text)
        self.worker.logs.remove(entry)
        return entry

    def assert_silent(self, lane=None):
        """Nothing else has been sent: a further request is answered first."""
        lane = lane or self.lane
        stream = self.worker.request(self.simple_request(), lane=lane)
        response = self.worker.response(stream, lane)
        self.assertIsNone(response.error)

    def simple_request(self):
        return driver.environ() if self.worker.ready["interface"] == "wsgi" else driver.scope()


class ScopeTest(WorkerTest):
    """Tests of an interface whose requests are scopes of ASGI."""

    def get(self, path, query=b"", body=None, **more):
        return self.worker.response(self.worker.request(driver.scope(path=path, query=query, **more), body))

    def open(self, path):
        return self.worker.request(driver.scope(path=path, kind="websocket"), flags=driver.WEBSOCKET)


def module_missing(name):
    """Whether the worker's interpreter lacks a module."""
    import subprocess
    import sys

    python = os.environ.get("WORKER_PYTHON") or sys.executable
    return subprocess.run([python, "-c", "import " + name], stderr=subprocess.DEVNULL).returncode != 0
