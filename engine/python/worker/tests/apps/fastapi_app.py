"""A FastAPI application for test_frameworks.py."""

import asyncio
import contextlib

from fastapi import FastAPI, File, Form, Request, UploadFile, WebSocket
from fastapi.responses import FileResponse, StreamingResponse
from starlette.background import BackgroundTask
from starlette.middleware.base import BaseHTTPMiddleware

EVENTS = []


@contextlib.asynccontextmanager
async def lifespan(app):
    yield {"name": "state"}


app = FastAPI(lifespan=lifespan)


async def middleware(request, call_next):
    response = await call_next(request)
    response.headers["x-middleware"] = "yes"
    return response


app.add_middleware(BaseHTTPMiddleware, dispatch=middleware)


@app.get("/json")
async def json_view(request: Request, q: str = ""):
    return {"q": q, "state": request.state.name, "url": str(request.url), "client": request.client.host}


@app.get("/sync")
def sync_view():
    return {"sync": True}


@app.post("/upload")
async def upload(file: UploadFile = File(...), field: str = Form(...)):
    data = await file.read()
    return {"name": file.filename, "size": len(data), "field": field}


@app.get("/sse")
async def sse():
    async def events():
        try:
            for index in range(1000):
                yield "data: %d\n\n" % index
                await asyncio.sleep(0.01)
        finally:
            EVENTS.append("sse closed")

    return StreamingResponse(events(), media_type="text/event-stream")


@app.get("/events")
async def events():
    while not EVENTS:
        await asyncio.sleep(0.01)
    return [EVENTS.pop()]


@app.get("/background")
async def background():
    from fastapi.responses import JSONResponse

    async def task():
        await asyncio.sleep(0.01)
        EVENTS.append("background")

    return JSONResponse({"ok": True}, background=BackgroundTask(task))


@app.get("/file")
async def file():
    return FileResponse(__file__)


@app.get("/error")
async def error():
    raise ValueError("from fastapi")


@app.websocket("/ws")
async def websocket(socket: WebSocket):
    await socket.accept(subprotocol="chat")
    async for text in socket.iter_text():
        await socket.send_json({"echo": text})
    EVENTS.append("ws closed")


@app.websocket("/ws-propagates")
async def websocket_propagates(socket: WebSocket):
    await socket.accept()
    while True:
        await socket.receive_text()
