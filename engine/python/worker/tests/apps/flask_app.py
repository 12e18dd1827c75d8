"""A Flask application for test_frameworks.py."""

import io

from flask import Flask, Response, jsonify, request, send_file, stream_with_context

app = Flask(__name__)
CLOSED = []


@app.route("/json")
def json_view():
    return jsonify(path=request.path, script=request.script_root, args=request.args.to_dict())


@app.route("/caf\u00e9")
def unicode_path():
    return request.path


@app.route("/upload", methods=["POST"])
def upload():
    file = request.files["file"]
    data = file.read()
    return jsonify(name=file.filename, size=len(data), field=request.form["field"])


@app.route("/stream")
def stream():
    @stream_with_context
    def generate():
        for index in range(3):
            yield "%d;" % index

    response = Response(generate(), mimetype="text/plain")
    response.call_on_close(lambda: CLOSED.append("stream"))
    return response


@app.route("/closed")
def closed():
    return jsonify(CLOSED)


@app.route("/file")
def file():
    return send_file(__file__, mimetype="text/x-python", conditional=False)


@app.route("/range")
def range_view():
    return send_file(__file__, mimetype="text/x-python", conditional=True)


@app.route("/memory")
def memory():
    return send_file(io.BytesIO(b"in memory"), mimetype="text/plain")


@app.route("/error")
def error():
    app.config["PROPAGATE_EXCEPTIONS"] = True
    raise ValueError("from flask")


@app.route("/cookie")
def cookie():
    response = jsonify(ok=True)
    response.set_cookie("a", "b")
    response.set_cookie("c", "d", httponly=True)
    return response
