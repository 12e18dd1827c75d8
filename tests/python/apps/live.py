"""FastAPI with a WebSocket, server-sent events, and uploads."""

import asyncio
import zlib

from fastapi import FastAPI, Request, UploadFile, WebSocket, WebSocketDisconnect
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

app = FastAPI()


class Item(BaseModel):
    name: str
    price: float


@app.post("/items")
async def add(item: Item):
    return {"name": item.name.upper(), "price": item.price}


@app.get("/thread")
def thread():
    """Runs in a thread of the pool."""
    return {"from": "a thread"}


@app.post("/upload")
async def upload(file: UploadFile):
    total, length = 0, 0
    while piece := await file.read(65536):
        total = zlib.crc32(piece, total)
        length += len(piece)
    return {"name": file.filename, "length": length, "crc32": f"{total:08x}"}


@app.post("/raw")
async def raw(request: Request):
    total, length = 0, 0
    async for piece in request.stream():
        total = zlib.crc32(piece, total)
        length += len(piece)
    return {"length": length, "crc32": f"{total:08x}"}


@app.get("/events")
async def events(count: int = 3):
    async def stream():
        for number in range(count):
            yield f"data: {number}\n\n"
            await asyncio.sleep(0.01)

    return StreamingResponse(stream(), media_type="text/event-stream")


@app.websocket("/ws")
async def websocket(socket: WebSocket):
    await socket.accept()
    try:
        while True:
            text = await socket.receive_text()
            await socket.send_text(text[::-1])
    except WebSocketDisconnect:
        pass
