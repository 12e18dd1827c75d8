"""The extension module: how it is found, and requests that it reads beside the one before."""

import ast
import os
import random
import shutil
import tempfile
import textwrap
import unittest

import driver
from driver import FAILED, environ, scope
from support import APPS


class FindTest(unittest.TestCase):
    """Which module the worker accepts. The modules are imitations in Python."""

    def start(self, wanted, text=None, start=True):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        if text is not None:
            with open(os.path.join(folder, "sluice_accelerator.py"), "w") as file:
                file.write(textwrap.dedent(text))
        worker = driver.Worker("wsgi_app:app", APPS, accelerator=wanted, start=start, env={"PYTHONPATH": folder})
        self.addCleanup(worker.close)
        return worker

    def failure(self, text=None):
        worker = self.start("on", text, start=False)
        failure = worker.expect(FAILED).json()
        self.assertEqual(os.WEXITSTATUS(worker.wait_exit()), 3)
        self.assertEqual(failure["stage"], "accelerator")
        return failure["message"]

    def assert_pure(self, worker):
        self.assertIsNone(worker.ready["accelerator"])
        self.assertEqual(worker.get("/hello").body, b"hello")

    def test_missing(self):
        self.assertRegex(self.failure(), r"cannot load the accelerator: it is not installed for Python 3\.\d+ \(/")
        worker = self.start("auto")
        self.assert_pure(worker)
        self.assertEqual(worker.drain(), 0)
        self.assertEqual(worker.logs, [])

    def test_another_protocol(self):
        text = "PROTOCOL, VERSION = 99, '9.1.0'"
        self.assertIn("version 9.1.0 of it does not fit", self.failure(text))
        worker = self.start("auto", text)
        self.assert_pure(worker)
        worker.wait_log("the worker runs without the accelerator: version 9.1.0 of it does not fit")

    def test_a_module_that_cannot_be_loaded(self):
        text = "raise ImportError('undefined symbol: PyNothing')"
        self.assertIn("undefined symbol: PyNothing", self.failure(text))
        worker = self.start("auto", text)
        self.assert_pure(worker)
        worker.wait_log("undefined symbol: PyNothing")

    def test_off(self):
        self.assert_pure(self.start("off", "raise SystemExit('imported')"))

    def test_the_module_under_test_is_used(self):
        with driver.Worker("wsgi_app:app", APPS) as worker:
            self.assertEqual(worker.ready["accelerator"] is not None, driver.ACCELERATOR is not None)


TEXTS = ["", "a", "x" * 54, "y" * 300, "caf\u00e9", "\u65e5\u672c", "\ud800", "z" * 70000]
NAMES = ["HTTP_%s" % name for name in ("HOST", "COOKIE", "X_A", "X_B", "X_" + "LONG_" * 20)]


class ReadingTest(unittest.TestCase):
    """Requests are read as Python reads them, whatever came before and whatever the application did with it."""

    def setUp(self):
        self.seed = random.randrange(1 << 32)
        self.random = random.Random(self.seed)

    def run(self, result=None):
        with self.subTest(seed=getattr(self, "seed", None)):
            return super().run(result)

    def text(self):
        return self.random.choice(TEXTS)

    def test_environs(self):
        with driver.Worker("reading_app:wsgi", APPS, interface="wsgi") as worker:
            for _ in range(300):
                head = environ(path="/" + self.text())
                for name in self.random.sample(NAMES, self.random.randrange(3)):
                    head[name] = self.text()
                if self.random.random() < 0.2:
                    del head["REMOTE_PORT"]
                body = b"body" if self.random.random() < 0.2 else None
                response = worker.response(worker.request(head, body))
                self.assertEqual(response.status, 200, response.error)
                seen = ast.literal_eval(response.body.decode())
                self.assertEqual({key: seen[key] for key in head}, head)
                self.assertEqual(len(seen), len(head) + 9, sorted(seen))

    def scope(self):
        headers = [(b"x-%d" % index, self.text().encode("utf-8", "surrogatepass")) for index in range(3)]
        more = {}
        if self.random.random() < 0.3:
            chain = [self.text() for _ in range(self.random.randrange(3))]
            more["extensions"] = {"tls": {"client_cert_chain": chain, "tls_version": 772, "server_cert": None}}
        if self.random.random() < 0.2:
            more["client"] = None
        headers = headers[: self.random.randrange(4)]
        path = "/" + self.text().replace("\ud800", "")
        return scope(path=path, query=self.random.choice([b"", b"a=b"]), headers=headers, **more)

    def test_scopes(self):
        with driver.Worker("reading_app:asgi", APPS, interface="asgi") as worker:
            for _ in range(300):
                head = self.scope()
                body = b"body" if self.random.random() < 0.2 else None
                response = worker.response(worker.request(head, body))
                self.assertEqual(response.status, 200, response.error)
                seen = ast.literal_eval(response.body.decode())
                extensions = seen.pop("extensions")
                own = head.pop("extensions", {})
                self.assertEqual({name: extensions.pop(name) for name in own}, own)
                self.assertEqual(
                    sorted(extensions),
                    ["http.response.early_hint", "http.response.pathsend", "http.response.trailers"],
                )
                self.assertEqual(seen.pop("asgi"), {"version": "3.0", "spec_version": "2.5"})
                self.assertEqual(seen, head)


if __name__ == "__main__":
    unittest.main()
