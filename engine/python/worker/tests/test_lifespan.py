"""The lifespan protocol of ASGI."""

import os
import unittest

import driver
from driver import FAILED
from support import APPS


class LifespanTest(unittest.TestCase):
    def worker(self, name, lifespan, **options):
        worker = driver.Worker(
            "lifespan_app:" + name, APPS, lifespan=lifespan, interface="asgi", loop="asyncio", **options
        )
        self.addCleanup(worker.close)
        return worker

    def failure(self, name, lifespan):
        worker = self.worker(name, lifespan, start=False)
        failure = worker.expect(FAILED).json()
        self.assertEqual(os.WEXITSTATUS(worker.wait_exit()), 3)
        return failure

    def test_startup_and_shutdown(self):
        for lifespan in ("on", "auto"):
            worker = self.worker("app", lifespan)
            self.assertEqual(worker.stdout(), "startup\n")
            self.assertEqual(worker.drain(), 0)
            self.assertEqual(worker.stdout(), "startup\nshutdown\n")

    def test_state_is_copied_for_each_request(self):
        worker = self.worker("app", "on")
        self.assertEqual(worker.get().body, b"{'value': 1, 'list': [1], 'mine': True}")
        self.assertEqual(worker.get().body, b"{'value': 1, 'list': [1, 1], 'mine': True}")

    def test_off(self):
        worker = self.worker("without", "off")
        self.assertEqual(worker.get().body, b"without")
        self.assertEqual(worker.drain(), 0)

    def test_auto_with_an_application_that_does_not_speak_it(self):
        for name in ("without", "returns", "raises"):
            worker = self.worker(name, "auto")
            if name != "raises":
                self.assertEqual(worker.get().body, b"without")
            self.assertEqual(worker.drain(), 0)

    def test_on_with_an_application_that_does_not_speak_it(self):
        failure = self.failure("without", "on")
        self.assertEqual(failure["stage"], "lifespan")
        self.assertIn("AssertionError: only http", failure["message"])
        self.assertIn("lifespan_app.py", failure["file"])
        failure = self.failure("returns", "on")
        self.assertIn("the application ignores lifespan", failure["message"])

    def test_startup_that_raises_or_fails(self):
        failure = self.failure("raises", "on")
        self.assertIn("ValueError: cannot start", failure["message"])
        self.assertIn("ValueError: cannot start", failure["traceback"])
        self.assertNotIn("sluice_worker", failure["traceback"])
        for lifespan in ("on", "auto"):
            failure = self.failure("fails", lifespan)
            self.assertEqual(
                (failure["stage"], failure["message"]), ("lifespan", "the application's startup failed: no database")
            )

    def test_auto_with_an_exception_during_startup_is_logged(self):
        worker = self.worker("raises", "auto")
        self.assertEqual(worker.drain(), 0)
        self.assertIn("runs without lifespan", worker.logs[0]["message"])
        self.assertIn("ValueError: cannot start", worker.logs[0]["traceback"])

    def test_startup_that_reports_a_traceback_and_raises(self):
        """As Starlette does."""
        failure = self.failure("reports", "auto")
        self.assertEqual(failure["message"], "the application's startup failed: KeyError: 'DATABASE'")
        self.assertIn("lifespan_app.py", failure["file"])
        self.assertIn("KeyError: 'DATABASE'", failure["traceback"])

    def test_shutdown_that_raises_or_fails_is_logged(self):
        worker = self.worker("shutdown_raises", "on")
        self.assertEqual(worker.drain(), 0)
        self.assertIn("ValueError: cannot stop", worker.logs[0]["traceback"])
        worker = self.worker("shutdown_fails", "on")
        self.assertEqual(worker.drain(), 0)
        self.assertIn("queue is full", worker.logs[0]["message"])

    def test_startup_and_shutdown_run_in_one_task(self):
        worker = self.worker("context", "on")
        self.assertEqual(worker.drain(), 0)
        self.assertEqual(worker.stdout(), "same task: True\n")


if __name__ == "__main__":
    unittest.main()
