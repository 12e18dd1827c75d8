#: accelerator
"""The extension module that replaces the innermost loop, where the application's environment has it.

`sluice_accelerator` (engine/python/accelerator) reads the frames of a lane, and serves GET requests whose response is
complete in one piece. It hands a request that is anything else to the streams of this package ("promotes" it).
"""

import sys

from .control import worker
from .failures import brief

NAME = "sluice_accelerator"
PROTOCOL = 1  # of the calls between this package and the module


def find():
    """Imports the module as the configuration asks for it. Ends the process if it has to be there and is not."""
    wanted = worker.config.get("accelerator") or "auto"
    if wanted == "off":
        return
    try:
        module = __import__(NAME)
    except ModuleNotFoundError as error:
        if error.name == NAME:
            problem = "it is not installed for Python %d.%d (%s)" % (*sys.version_info[:2], sys.executable)
            missing = True
        else:
            problem, missing = brief(error), False
    except Exception as error:  # an interpreter that cannot load it, for example
        problem, missing = brief(error), False
    else:
        protocol = getattr(module, "PROTOCOL", None)
        if protocol == PROTOCOL:
            worker.accelerator = module
            return
        problem = "version %s of it does not fit this version of sluice (it has protocol %s instead of %d)" % (
            getattr(module, "VERSION", "unknown"),
            protocol,
            PROTOCOL,
        )
        missing = False
    if wanted == "on":
        worker.fail("accelerator", "cannot load the accelerator: " + problem)
    if not missing:
        worker.log("warn", "the worker runs without the accelerator: " + problem)
