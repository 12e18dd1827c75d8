"""A Starlette application with lifespan state."""

import contextlib

from starlette.applications import Starlette
from starlette.responses import FileResponse, JSONResponse
from starlette.routing import Route


@contextlib.asynccontextmanager
async def lifespan(app):
    yield {"greeting": "hello from lifespan"}


async def greeting(request):
    return JSONResponse({"greeting": request.state.greeting, "path": request.url.path})


async def source(request):
    return FileResponse(__file__)


app = Starlette(routes=[Route("/greeting", greeting), Route("/source", source)], lifespan=lifespan)
