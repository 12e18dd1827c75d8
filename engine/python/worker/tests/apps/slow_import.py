"""An application whose import waits for a file."""

import os
import time

while not os.path.exists(os.environ["WAIT_FOR"]):
    time.sleep(0.01)


def app(environ, start_response):
    start_response("200 OK", [])
    return [b"imported"]
