"""A Quart application with a WebSocket."""

from quart import Quart, jsonify, request, websocket

app = Quart(__name__)


@app.post("/echo")
async def echo():
    return jsonify(await request.get_json())


@app.websocket("/ws")
async def ws():
    while True:
        await websocket.send("quart: " + await websocket.receive())
