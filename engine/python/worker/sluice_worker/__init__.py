#: __init__
"""The worker process of a Python application behind sluice.

The process reads requests as finished dictionaries from socket pairs ("lanes", one for each thread of sluice) and
writes framed responses; docs/decisions/0023-python-applications.md describes the frames. Python 3.9 or newer, standard
library only; uvloop and gevent are used where they can be imported and are asked for.

sluice starts `python -c` with the text of bootstrap.py, and passes all files of this folder as one text through a
descriptor. Where it is installed, the extension module `sluice_accelerator` replaces the innermost loop. Only modules
that the application's interface needs are compiled:

    process, preload, control, loading, accelerator, failures    the process and its supervisor
    frames, limits, lane, stream, headers                    what all interfaces share
    blocking, wsgi                                           requests in threads
    loops, tasks, websocket, asgi, lifespan, rsgi            requests as tasks of asyncio
    loops, greenlets, websocket, esgi, wsgi_greenlets        requests in greenlets of gevent
"""
