"""An application that forks a child while it is imported; the child reports its descriptors."""

import os

reader, writer = os.pipe()
if not os.fork():
    os.close(reader)
    links = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink("/proc/self/fd/" + fd))
        except OSError:
            pass
    os.write(writer, repr(links).encode())
    os._exit(0)
os.close(writer)
with os.fdopen(reader, "rb") as pipe:
    LINKS = pipe.read()
os.wait()


def app(environ, start_response):
    start_response("200 OK", [])
    return [LINKS]
