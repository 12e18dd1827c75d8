"""The FastAPI application of study 002."""

from fastapi import FastAPI

app = FastAPI()


@app.get("/hello")
async def hello():
    return {"message": "Hello, World!"}
