"""Flask with SQLAlchemy and SQLite: notes that survive the process. `DATABASE` names the file."""

import os

from flask import Flask, jsonify, request
from sqlalchemy import String, create_engine, select
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column


class Base(DeclarativeBase):
    pass


class Note(Base):
    __tablename__ = "notes"
    id: Mapped[int] = mapped_column(primary_key=True)
    text: Mapped[str] = mapped_column(String(200))


engine = create_engine("sqlite:///" + os.environ["DATABASE"])
try:
    Base.metadata.create_all(engine)
except OperationalError:
    pass  # another worker was faster
app = Flask(__name__)


@app.post("/notes")
def add():
    with Session(engine) as session:
        note = Note(text=request.get_json()["text"])
        session.add(note)
        session.commit()
        return jsonify(id=note.id), 201


@app.get("/notes")
def notes():
    with Session(engine) as session:
        found = session.scalars(select(Note).order_by(Note.id))
        return jsonify([{"id": note.id, "text": note.text} for note in found])


@app.get("/fails")
def fails():
    raise RuntimeError("on purpose")
