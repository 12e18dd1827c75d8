"""A Quart application for test_frameworks.py."""

from quart import Quart, request, websocket

app = Quart(__name__)


@app.route("/echo", methods=["POST"])
async def echo():
    return await request.get_data()


@app.websocket("/ws")
async def ws():
    while True:
        await websocket.send("echo " + await websocket.receive())
