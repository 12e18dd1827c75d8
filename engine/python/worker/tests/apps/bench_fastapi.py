"""FastAPI of study 002, for bench.py."""

from fastapi import FastAPI

app = FastAPI()


@app.get("/hello")
async def hello():
    return {"message": "Hello, World!"}
