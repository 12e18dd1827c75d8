"""Runs the tests of the worker with several interpreters: the worker with each of them, the tests with this one.

    run.py [--accelerator FOLDER] [INTERPRETER ...] [-- ARGUMENTS OF unittest]

Without interpreters: CPython 3.9 to 3.14 and PyPy, where PATH or pyenv has them. Lists those that are missing.
`--accelerator` names the folder of a built `sluice_accelerator`: the worker then runs with it, and interpreters that
cannot load it are listed. Exit status 1 if a test failed.
"""

import glob
import os
import shutil
import subprocess
import sys

WANTED = ["python3.%d" % minor for minor in range(9, 15)] + ["pypy3"]
TESTS = os.path.dirname(os.path.abspath(__file__))
VERSION = "import sys; print(sys.implementation.name, '.'.join(map(str, sys.version_info[:3])))"


def find(name):
    """The path of an interpreter, or None. pyenv's own are preferred to its shims, which depend on the folder."""
    version = name[6:] if name.startswith("python") else "pypy3"
    pattern = os.path.join(os.path.expanduser("~"), ".pyenv", "versions", version + "*", "bin", name)
    found = sorted(glob.glob(pattern))
    return found[-1] if found else shutil.which(name)


def main():
    arguments = sys.argv[1:]
    environment = dict(os.environ, PYTHONDONTWRITEBYTECODE="1")
    environment.pop("WORKER_ACCELERATOR", None)
    if arguments[:1] == ["--accelerator"]:
        environment["WORKER_ACCELERATOR"] = environment["PYTHONPATH"] = os.path.abspath(arguments[1])
        del arguments[:2]
    extra = []
    if "--" in arguments:
        split = arguments.index("--")
        arguments, extra = arguments[:split], arguments[split + 1 :]
    interpreters = [shutil.which(name) or name for name in arguments] or [find(name) for name in WANTED]
    missing = [name for name, path in zip(WANTED, interpreters) if not path] if not arguments else []
    failed = []
    for path in filter(None, interpreters):
        version = subprocess.run([path, "-c", VERSION], stdout=subprocess.PIPE, universal_newlines=True).stdout.strip()
        print("== %s (%s)" % (version, path), flush=True)
        if "WORKER_ACCELERATOR" in environment:
            load = subprocess.run([path, "-c", "import sluice_accelerator"], env=environment, stderr=subprocess.PIPE)
            if load.returncode:
                print("cannot load the accelerator: %s" % load.stderr.decode().strip().split("\n")[-1])
                continue
        command = [sys.executable, "-m", "unittest", "discover", "-s", TESTS, "-t", TESTS] + extra
        if subprocess.run(command, env=dict(environment, WORKER_PYTHON=path)).returncode:
            failed.append(version)
    for name in missing:
        print("missing: " + name)
    for version in failed:
        print("failed: " + version)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
