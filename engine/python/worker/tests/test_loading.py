"""Finding the application, its interface, and what is reported where that fails."""

import os
import shutil
import tempfile
import textwrap
import unittest

import driver
from driver import FAILED
from support import APPS


class LoadingTest(unittest.TestCase):
    def setUp(self):
        self.folder = os.path.realpath(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(textwrap.dedent(text))
        return path

    def serve(self, module, folder=APPS, path="/hello", **options):
        """The interface and the body of a response."""
        with driver.Worker(module, folder, **options) as worker:
            return worker.ready["interface"], worker.get(path).body

    def failure(self, module, folder=None, **options):
        with driver.Worker(module, folder or self.folder, start=False, **options) as worker:
            failure = worker.expect(FAILED).json()
            self.assertEqual(os.WEXITSTATUS(worker.wait_exit()), 3)
            self.assertNotIn("sluice_worker", failure["traceback"])
            self.assertNotIn("importlib", failure["traceback"])
            return failure

    # -- forms of names

    def test_forms_of_names(self):
        self.assertEqual(self.serve("wsgi_app:app"), ("wsgi", b"hello"))
        self.assertEqual(self.serve("wsgi_app"), ("wsgi", b"hello"))
        self.assertEqual(self.serve("wsgi_app:Holder.app"), ("wsgi", b"hello"))
        self.assertEqual(self.serve("wsgi_app:holder.app"), ("wsgi", b"hello"))
        self.assertEqual(self.serve("wsgi_app:ClassApp"), ("wsgi", b"class"))
        self.assertEqual(self.serve("wsgi_app:factory()"), ("wsgi", b"hello world!"))
        self.assertEqual(self.serve("wsgi_app:factory('you', mark='?')"), ("wsgi", b"hello you?"))
        self.assertEqual(self.serve("wsgi_app:factory", factory=True), ("wsgi", b"hello world!"))
        self.assertEqual(self.serve("wsgi_app.py:app"), ("wsgi", b"hello"))
        self.assertEqual(self.serve("apps/wsgi_app.py:app", os.path.dirname(APPS)), ("wsgi", b"hello"))
        self.assertEqual(self.serve(os.path.join(APPS, "wsgi_app.py") + ":app", self.folder), ("wsgi", b"hello"))

    def test_packages(self):
        self.write("shop/__init__.py", "")
        self.write("shop/web/__init__.py", "from .views import app as application\n")
        self.write(
            "shop/web/views.py",
            """
            def app(environ, start_response):
                start_response("200 OK", [])
                return [__name__.encode()]
        """,
        )
        self.assertEqual(self.serve("shop.web:application", self.folder), ("wsgi", b"shop.web.views"))
        self.assertEqual(self.serve("shop.web", self.folder), ("wsgi", b"shop.web.views"))

    def test_the_process_of_the_application(self):
        self.write(
            "facts.py",
            """
            import os, sys
            def app(environ, start_response):
                start_response("200 OK", [])
                main = sys.modules["__main__"]
                return [repr((os.getcwd(), sys.path[0], sys.argv, __name__, sys.stdin.read())).encode()]
        """,
        )
        _, body = self.serve("facts:app", self.folder)
        self.assertEqual(eval(body), (self.folder, self.folder, ["sluice"], "facts", ""))

    def test_site_packages(self):
        self.write("packages/helper.py", "NAME = 'helper'\n")
        self.write("packages/more.pth", "../extra\n")
        self.write("extra/other.py", "NAME = 'other'\n")
        self.write(
            "uses.py",
            """
            import helper, other
            def app(environ, start_response):
                start_response("200 OK", [])
                return [(helper.NAME + other.NAME).encode()]
        """,
        )
        packages = os.path.join(self.folder, "packages")
        self.assertEqual(self.serve("uses:app", self.folder, site_packages=packages)[1], b"helperother")
        self.assertEqual(self.serve("uses:app", self.folder, site_packages=[packages])[1], b"helperother")

    # -- interfaces

    def test_interfaces_are_detected(self):
        self.assertEqual(self.serve("asgi_app:app"), ("asgi", b"hello"))
        self.assertEqual(self.serve("asgi_app:instance"), ("asgi", b"hello"))
        self.assertEqual(self.serve("rsgi_app:app", path="/function")[0], "rsgi")
        self.write(
            "forms.py",
            """
            import functools

            def plain(environ, start_response):
                start_response("200 OK", [])
                return [b"plain"]

            def with_default(environ, start_response, extra=None):
                return plain(environ, start_response)

            def with_prefix(prefix, environ, start_response):
                return plain(environ, start_response)

            partial = functools.partial(with_prefix, "p")

            def decorate(function):
                @functools.wraps(function)
                def wrapper(*args, **kwargs):
                    return function(*args, **kwargs)
                return wrapper

            decorated = decorate(plain)

            class Instance:
                def __call__(self, environ, start_response):
                    return plain(environ, start_response)

                def method(self, environ, start_response):
                    return plain(environ, start_response)

            instance = Instance()
            method = instance.method

            async def coroutine(scope, receive, send):
                assert scope["type"] == "http", scope
                await send({"type": "http.response.start", "status": 200})
                await send({"type": "http.response.body", "body": b"coroutine"})

            partial_coroutine = functools.partial(coroutine)

            def any(*args):
                return plain(*args)

            def nothing():
                return plain
        """,
        )
        for name in ("plain", "with_default", "partial", "decorated", "instance", "method"):
            self.assertEqual(self.serve("forms:" + name, self.folder), ("wsgi", b"plain"), name)
        for name in ("coroutine", "partial_coroutine"):
            self.assertEqual(self.serve("forms:" + name, self.folder), ("asgi", b"coroutine"), name)
        self.assertEqual(self.serve("forms:any", self.folder, interface="wsgi"), ("wsgi", b"plain"))
        self.assertIn("cannot detect the application's interface", self.failure("forms:any")["message"])
        self.assertIn("if it is a factory, add `()`", self.failure("forms:nothing")["message"])
        failure = self.failure("forms:coroutine", interface="wsgi")
        self.assertEqual(failure["message"], "the application is ASGI, but it is configured as WSGI")
        failure = self.failure("forms:plain", interface="asgi")
        self.assertEqual(failure["message"], "the application is WSGI, but it is configured as ASGI")

    # -- failures

    def test_a_missing_module(self):
        failure = self.failure("absent:app")
        self.assertEqual(failure["stage"], "import")
        self.assertEqual(failure["message"], "there is no module `absent` in " + self.folder)
        self.write("shop/__init__.py", "")
        self.assertIn("no module `shop.web`", self.failure("shop.web:app")["message"])
        self.assertIn(
            "no module `gone` in %s (needed for `gone.web`)" % self.folder, self.failure("gone.web:app")["message"]
        )
        self.assertIn("there is no file " + self.folder + "/absent.py", self.failure("absent.py:app")["message"])

    def test_a_missing_attribute(self):
        self.write("near.py", "application = 1\n")
        message = self.failure("near:aplication")["message"]
        self.assertEqual(message, "module `near` has no attribute `aplication`; did you mean `application`?")
        message = self.failure("near:web")["message"]
        self.assertEqual(message, "module `near` has no attribute `web`; did you mean `application`?")
        self.assertIn("no attribute `application.x`", self.failure("near:application.x")["message"])
        self.write("bare.py", "")
        self.assertIn("has neither `app` nor `application`", self.failure("bare")["message"])

    def test_a_missing_package(self):
        path = self.write("needs.py", "\nimport not_installed_anywhere\n")
        failure = self.failure("needs:app")
        self.assertIn("imports `not_installed_anywhere`, which is not installed for Python", failure["message"])
        self.assertEqual((failure["file"], failure["line"]), (path, 2))
        self.assertIn("ModuleNotFoundError", failure["traceback"])

    def test_a_virtual_environment_of_another_python(self):
        self.write("needs.py", "import not_installed_anywhere\n")
        packages = os.path.join(self.folder, "lib", "python2.7", "site-packages")
        os.makedirs(packages)
        message = self.failure("needs:app", site_packages=packages)["message"]
        self.assertIn("%s belongs to Python 2.7" % packages, message)

    def test_a_syntax_error(self):
        path = self.write("broken.py", "x = 1\ndef (:\n")
        failure = self.failure("broken:app")
        self.assertIn("syntax error in %s, line 2" % path, failure["message"])
        self.assertEqual((failure["file"], failure["line"]), (path, 2))
        self.write("imports.py", "import broken\n")
        self.assertEqual(self.failure("imports:app")["file"], path)

    def test_an_exception_during_the_import(self):
        path = self.write(
            "raises.py",
            """\
            import json
            def configure():
                return json.loads("{")
            app = configure()
        """,
        )
        failure = self.failure("raises:app")
        self.assertIn("raised while it was imported: JSONDecodeError", failure["message"])
        self.assertEqual((failure["file"], failure["line"]), (path, 3))
        self.assertIn("raises.py", failure["traceback"])

    def test_sys_exit_during_the_import(self):
        path = self.write("exits.py", "import sys\nsys.exit('no settings')\n")
        failure = self.failure("exits:app")
        self.assertIn("called sys.exit('no settings')", failure["message"])
        self.assertEqual((failure["file"], failure["line"]), (path, 2))

    def test_a_factory_that_raises(self):
        path = self.write("made.py", "def create_app():\n    raise ValueError('no')\n")
        failure = self.failure("made:create_app()")
        self.assertIn("ValueError: no", failure["message"])
        self.assertEqual((failure["file"], failure["line"]), (path, 2))

    def test_objects_that_are_not_applications(self):
        self.assertIn("is int, not an application", self.failure("wsgi_app:NOT_CALLABLE", APPS)["message"])
        self.assertIn("is int, which cannot be called", self.failure("wsgi_app:NOT_CALLABLE()", APPS)["message"])
        self.assertIn("literal arguments", self.failure("wsgi_app:factory(name)", APPS)["message"])
        self.assertIn("is not MODULE:ATTRIBUTE", self.failure(":app")["message"])
        self.assertIn("is not MODULE:ATTRIBUTE", self.failure("wsgi_app:")["message"])

    def test_a_missing_working_folder(self):
        failure = self.failure("wsgi_app:app", os.path.join(self.folder, "absent"))
        self.assertEqual(failure["stage"], "start")
        self.assertIn("cannot enter working_dir", failure["message"])

    def test_asgi_applications_are_imported_while_their_loop_runs(self):
        self.write(
            "loops.py",
            """
            import asyncio
            loop = asyncio.get_running_loop()
            async def app(scope, receive, send):
                await send({"type": "http.response.start", "status": 200})
                await send({"type": "http.response.body", "body": repr(loop is asyncio.get_running_loop()).encode()})
        """,
        )
        self.assertEqual(self.serve("loops:app", self.folder, interface="asgi", lifespan="off"), ("asgi", b"True"))


if __name__ == "__main__":
    unittest.main()
