#: loading
"""Finds, imports and examines the application."""

import os
import re
import sys

from .control import worker
from .failures import brief


class LoadError(Exception):
    """The application cannot be loaded; the message says why."""


def load():
    """Loads the application and settles its interface. Ends the process if it cannot."""
    try:
        application = find_application(worker.config)
        interface = choose_interface(application, worker.config.get("interface") or "auto")
    except LoadError as error:
        worker.fail("import", str(error))
    except ModuleNotFoundError as error:
        worker.fail("import", describe_missing(error), error)
    except SystemExit as error:
        worker.fail("import", "the application called sys.exit(%r) while it was imported" % error.code, error)
    except SyntaxError as error:
        worker.fail("import", "syntax error in %s, line %s: %s" % (error.filename, error.lineno, error.msg), error)
    except BaseException as error:
        worker.fail("import", "the application raised while it was imported: %s" % brief(error), error)
    if interface == "asgi2":
        application = adapt_asgi2(application)
        interface = "asgi"
    worker.application = application
    worker.interface = interface


def describe_missing(error):
    """Names a package that is not installed, and a virtual environment of another Python."""
    version = "%d.%d" % sys.version_info[:2]
    text = "the application imports `%s`, which is not installed for Python %s (%s)"
    text %= (error.name, version, sys.executable)
    packages = worker.config.get("site_packages") or ()
    for path in [packages] if isinstance(packages, str) else packages:
        match = re.search(r"python(\d+\.\d+)", path)
        if match and match.group(1) != version:
            text += "; %s belongs to Python %s" % (path, match.group(1))
    return text


def prepare_path(config):
    """Makes the application's modules importable: its folder first, then its site-packages."""
    folder = config.get("working_dir") or os.getcwd()
    try:
        os.chdir(folder)
    except OSError as error:
        worker.fail("start", "cannot enter working_dir %s: %s" % (folder, error.strerror))
    folder = os.getcwd()
    if sys.path and sys.path[0] == "":
        del sys.path[0]
    sys.path.insert(0, folder)
    packages = config.get("site_packages") or ()
    for path in [packages] if isinstance(packages, str) else packages:
        import site

        before = list(sys.path)
        site.addsitedir(path)
        added = [entry for entry in sys.path if entry not in before]
        sys.path[:] = [folder] + added + [entry for entry in before if entry != folder]


def split_target(target):
    """`module:attribute.path` or `path/app.py:attribute()` as (module, attribute, arguments of the call or None)."""
    module, colon, attribute = target.partition(":")
    arguments = None
    if attribute.endswith(")") and "(" in attribute:
        import ast

        try:
            call = ast.parse(attribute, mode="eval").body
            if not isinstance(call, ast.Call):
                raise ValueError
            arguments = (
                [ast.literal_eval(value) for value in call.args],
                {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords},
            )
        except (SyntaxError, ValueError):
            raise LoadError("`%s` is not a call with literal arguments" % attribute) from None
        attribute = attribute[: attribute.index("(")]
    if not module or colon and not attribute:
        raise LoadError("`%s` is not MODULE:ATTRIBUTE" % target)
    return module, attribute, arguments


def import_module(name):
    if name.endswith(".py") or os.sep in name:
        import importlib.util

        path = os.path.abspath(name)
        if not os.path.isfile(path):
            raise LoadError("there is no file %s" % path)
        folder, base = os.path.split(path)
        if folder != sys.path[0]:
            sys.path.insert(0, folder)
        stem = base[:-3] if base.endswith(".py") else base
        spec = importlib.util.spec_from_file_location(stem, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[stem] = module
        spec.loader.exec_module(module)
        return module
    try:
        __import__(name)
    except ModuleNotFoundError as error:
        explain_missing(name, error)
        raise
    return sys.modules[name]


def explain_missing(name, error):
    """Tells a missing application module from a package that it imports."""
    missing = error.name or ""
    if name == missing or name.startswith(missing + "."):
        raise LoadError(
            "there is no module `%s` in %s%s"
            % (missing, sys.path[0], "" if name == missing else " (needed for `%s`)" % name)
        ) from None


def find_attribute(module, name, path):
    target = module
    for part in path.split("."):
        try:
            target = getattr(target, part)
        except AttributeError:
            import difflib

            names = [key for key in vars(module) if not key.startswith("_")]
            close = difflib.get_close_matches(part, names, 1) or [
                key for key in ("app", "application", "create_app", "make_app") if key in names
            ]
            hint = "; did you mean `%s`?" % close[0] if close else ""
            raise LoadError("module `%s` has no attribute `%s`%s" % (name, path, hint)) from None
    return target


def find_application(config):
    """Imports the application's module and returns the application."""
    name, path, arguments = split_target(config["module"])
    module = import_module(name)
    if not path:
        path = next((key for key in ("app", "application") if hasattr(module, key)), "")
        if not path:
            raise LoadError("module `%s` has neither `app` nor `application`; name it: `%s:ATTRIBUTE`" % (name, name))
    application = find_attribute(module, name, path)
    if arguments is None and config.get("factory"):
        arguments = ([], {})
    if arguments is not None:
        if not callable(application):
            raise LoadError("`%s` is %s, which cannot be called" % (path, type(application).__name__))
        positional, named = arguments
        application = application(*positional, **named)
    if not any(callable(getattr(application, name, None)) for name in ("__call__", "__rsgi__", "__esgi__")):
        raise LoadError("`%s` is %s, not an application" % (config["module"], type(application).__name__))
    return application


def parameters(target):
    """Names of the positional parameters that a call must give, or None if that cannot be known."""
    import inspect

    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):
        return None
    names = []
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            return None
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            if parameter.default is parameter.empty:
                names.append(parameter.name)
    return names


def detect_interface(application):
    """The interface of an application, or None if it cannot be told. `asgi2` is the double callable of ASGI 2."""
    import functools
    import inspect

    if hasattr(application, "__rsgi__"):
        return "rsgi"
    if hasattr(application, "__esgi__"):
        return "esgi"
    if inspect.isclass(application):
        names = parameters(application)
        if names is not None and len(names) == 2:
            return "wsgi"
        if names is not None and len(names) == 1 and inspect.iscoroutinefunction(getattr(application, "__call__")):
            return "asgi2"
        return None
    inner = application
    while isinstance(inner, functools.partial):
        inner = inner.func
    if not inspect.isroutine(inner):
        inner = type(inner).__call__
    names = parameters(application)
    if inspect.iscoroutinefunction(inner):
        if names is not None and len(names) == 2:
            return "rsgi"
        return "asgi"
    if names is None:
        return None
    if len(names) == 3:
        return "asgi"
    if len(names) == 2:
        return "esgi" if names == ["scope", "protocol"] else "wsgi"
    if len(names) == 1 and names[0] == "scope":
        return "asgi2"
    return None


def choose_interface(application, wanted):
    """The interface to run an application with. Raises LoadError where it cannot be the wanted one."""
    found = detect_interface(application)
    if wanted == "auto":
        if found is None:
            names = parameters(application)
            if names == []:
                raise LoadError("the application takes no arguments; if it is a factory, add `()` to its name")
            raise LoadError("cannot detect the application's interface; name it (wsgi, asgi, esgi, rsgi)")
        return found
    coroutine = ("asgi", "rsgi", "asgi2")
    if wanted == "wsgi" and found in coroutine or wanted in coroutine and found == "wsgi":
        if not (found == "rsgi" and callable(application) and hasattr(application, "__rsgi__")):
            raise LoadError("the application is %s, but it is configured as %s" % (found.upper(), wanted.upper()))
    if wanted == "asgi" and found == "asgi2":
        return "asgi2"
    return wanted


def adapt_asgi2(application):
    """An ASGI 3 application from a double callable."""

    async def application3(scope, receive, send):
        scope["asgi"] = dict(scope["asgi"], version="2.0")
        await application(scope)(receive, send)

    return application3
