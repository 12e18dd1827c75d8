import os, sys

from importlib.machinery import ModuleSpec


class Parts:
    """Imports the modules of the worker from its text, in which each begins with a line `#: NAME`."""

    def __init__(self, text):
        self.parts = dict(part.split("\n", 1) for part in ("\n" + text).split("\n#: ")[1:])

    def find_spec(self, name, path=None, target=None):
        package, _, part = name.partition(".")
        if package == "sluice_worker" and (part or "__init__") in self.parts:
            return ModuleSpec(name, self, is_package=not part)

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        part = module.__name__.partition(".")[2] or "__init__"
        exec(compile("\n" + self.parts[part], "<sluice_worker/%s.py>" % part, "exec"), module.__dict__)


fd = int(sys.argv[2])
try:
    text = os.pread(fd, os.fstat(fd).st_size, 0)
    os.close(fd)
except OSError:
    with os.fdopen(fd, "rb") as pipe:
        text = pipe.read()
sys.meta_path.insert(0, Parts(text.decode("utf-8")))
del text
import sluice_worker.process

sluice_worker.process.main(int(sys.argv[1]))
