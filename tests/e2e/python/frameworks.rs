//! Frameworks as people use them: Django with its administration, Flask with SQLAlchemy, FastAPI, Starlette, Quart, and a
//! gevent chat.

use std::process::Command;

use super::ws_client::{TEXT, WebSocket};
use super::{apps, caddyfile, digest, directive, pattern, post, start};
use crate::client::{Client, Response};
use crate::harness::{Server, Setup};
use crate::support::python::Python;
use crate::wire::Wire;

/// Sends a request with a body of this type on an open connection.
fn send(client: &mut Client, method: &str, path: &str, more: &str, body: &[u8]) -> Response {
    client.send(format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\n{more}Content-Length: {}\r\n\r\n",
        body.len()
    ));
    client.send(body);
    client.response()
}

fn json(response: &Response) -> serde_json::Value {
    serde_json::from_slice(&response.body)
        .unwrap_or_else(|_| panic!("{} {}", response.head, response.text()))
}

#[test]
fn flask_with_sqlalchemy() {
    let Some(server) = start("module_wsgi sql:app\nworkers 2\nenv_var DATABASE {folder}/notes.db")
    else {
        return;
    };
    let mut client = Client::connect(server.port);
    let kind = "Content-Type: application/json\r\n";
    for n in 1..=5 {
        let body = format!("{{\"text\":\"note {n}\"}}");
        let response = send(&mut client, "POST", "/notes", kind, body.as_bytes());
        assert_eq!(
            (response.status, &json(&response)["id"]),
            (201, &serde_json::json!(n))
        );
    }
    let notes = json(&client.get("/notes"));
    assert_eq!(notes.as_array().map(Vec::len), Some(5));
    assert_eq!(notes[4]["text"], "note 5");
    let failed = client.get("/fails");
    assert_eq!(failed.status, 500);
    server.wait_for_words("RuntimeError: on purpose");
    assert_eq!(client.get("/notes").status, 200);
}

#[test]
fn fastapi_with_uploads_events_and_a_websocket() {
    let Some(server) = start("module_asgi live:app") else {
        return;
    };
    let mut client = Client::connect(server.port);
    let kind = "Content-Type: application/json\r\n";
    let item = send(
        &mut client,
        "POST",
        "/items",
        kind,
        br#"{"name":"cup","price":2.5}"#,
    );
    assert_eq!(json(&item)["name"], "CUP");
    let bad = send(&mut client, "POST", "/items", kind, br#"{"name":"cup"}"#);
    assert_eq!(bad.status, 422);
    assert_eq!(json(&client.get("/thread"))["from"], "a thread");
    let content = pattern(3_000_000);
    let kind = "Content-Type: multipart/form-data; boundary=cut\r\n";
    let head =
        b"--cut\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.bin\"\r\n\r\n";
    let form = [&head[..], &content, b"\r\n--cut--\r\n"].concat();
    let response = json(&send(&mut client, "POST", "/upload", kind, &form));
    let expected = digest(&content);
    assert_eq!(
        format!(
            "{} {}",
            response["length"],
            response["crc32"].as_str().unwrap_or_default()
        ),
        expected
    );
    let response = json(&post(server.port, "/raw", &content));
    assert_eq!(
        format!(
            "{} {}",
            response["length"],
            response["crc32"].as_str().unwrap_or_default()
        ),
        expected
    );
    let mut wire = Wire::connect(server.port);
    wire.send("GET /events?count=3 HTTP/1.1\r\nHost: a\r\n\r\n");
    wire.head().expect("a head");
    let mut events = String::new();
    loop {
        let chunk = wire.chunk().expect("an event, or the end");
        if chunk.is_empty() {
            break;
        }
        events += &String::from_utf8(chunk).expect("it is text");
    }
    assert_eq!(events, "data: 0\n\ndata: 1\n\ndata: 2\n\n");
    let mut socket = WebSocket::open(server.port, "/ws", "");
    socket.say("stressed");
    assert_eq!(socket.hear(), "desserts");
}

#[test]
fn starlette_with_lifespan_state() {
    let Some(server) = start("module_asgi star:app\nlifespan on") else {
        return;
    };
    let mut client = Client::connect(server.port);
    let greeting = json(&client.get("/greeting"));
    assert_eq!(greeting["greeting"], "hello from lifespan");
    let source = std::fs::read(apps().join("star.py")).expect("it is there");
    assert_eq!(client.get("/source").body, source);
}

#[test]
fn quart() {
    let Some(server) = start("module_asgi quarts:app") else {
        return;
    };
    let mut client = Client::connect(server.port);
    let kind = "Content-Type: application/json\r\n";
    let response = send(&mut client, "POST", "/echo", kind, br#"{"a":[1,2]}"#);
    assert_eq!(json(&response), serde_json::json!({"a": [1, 2]}));
    let mut socket = WebSocket::open(server.port, "/ws", "");
    socket.say("hello");
    assert_eq!(socket.hear(), "quart: hello");
}

#[test]
fn a_chat_under_gevent() {
    let Some(server) = start("module_esgi chat:application") else {
        return;
    };
    let mut members: Vec<WebSocket> = (0..5)
        .map(|_| WebSocket::open(server.port, "/chat", ""))
        .collect();
    crate::harness::eventually(
        "all are in",
        || server.ask("/members").text() == "5",
        || server.ask("/members").text(),
    );
    for n in 0..5 {
        members[n].send(TEXT, format!("from {n}").as_bytes());
        for member in &mut members {
            assert_eq!(member.hear(), format!("from {n}"));
        }
    }
    let scope = json(&server.ask("/caf%C3%A9?x=1"));
    assert_eq!(scope["proto"], "http");
    assert_eq!(scope["path"], "/caf\u{e9}");
    assert_eq!(scope["query_string"], "x=1");
    assert_eq!(
        post(server.port, "/upload", &pattern(1_000_000)).text(),
        "1000000"
    );
}

/// Starts the Django project with a database that has an administrator.
pub(super) fn django(interface: &str, options: &str) -> Option<Server> {
    let python = Python::find()?;
    let site = directive(
        &python,
        &format!("{interface}\nenv_var DATABASE {{folder}}/db.sqlite3\n{options}"),
    );
    let site = site.replace(
        &apps().display().to_string(),
        &apps().join("django_site").display().to_string(),
    );
    let setup = Setup::new(&caddyfile(&site));
    let manage = |args: &[&str]| {
        let output = Command::new(python.program("python"))
            .arg("manage.py")
            .args(args)
            .current_dir(apps().join("django_site"))
            .env("DATABASE", setup.folder().path().join("db.sqlite3"))
            .env("STATIC_ROOT", setup.folder().path().join("static"))
            .env("DJANGO_SUPERUSER_PASSWORD", "secret")
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .output()
            .expect("Python starts");
        assert!(
            output.status.success(),
            "{}",
            crate::harness::text(&output.stderr)
        );
    };
    manage(&["migrate", "-v", "0"]);
    manage(&[
        "createsuperuser",
        "--noinput",
        "--username",
        "root",
        "--email",
        "root@example.com",
    ]);
    manage(&["collectstatic", "-v", "0", "--noinput"]);
    Some(setup.start())
}

/// The value of a cookie that a response sets.
fn cookie(response: &Response, name: &str) -> String {
    let start = format!("{name}=");
    let lines = response.head.lines();
    let values = lines.filter_map(|line| line.strip_prefix("Set-Cookie: ").map(str::trim_start));
    let found = values
        .filter_map(|value| value.strip_prefix(&start))
        .next_back();
    let found = found.unwrap_or_else(|| panic!("no {name} in {}", response.head));
    found.split(';').next().unwrap_or_default().to_owned()
}

/// Logs in to the administration and adds a book through its form.
fn administer(server: &Server) {
    let mut client = Client::connect(server.port);
    let redirect = client.get("/admin/");
    assert_eq!(redirect.status, 302);
    assert_eq!(
        redirect.field("Location"),
        Some("/admin/login/?next=/admin/")
    );
    let page = client.get("/admin/login/?next=/admin/");
    assert!(
        page.text().contains("Django administration"),
        "{}",
        page.text()
    );
    let token = cookie(&page, "csrftoken");
    let form = |cookies: &str| {
        format!("Cookie: {cookies}\r\nContent-Type: application/x-www-form-urlencoded\r\n")
    };
    let more = form(&format!("csrftoken={token}"));
    let body = format!("csrfmiddlewaretoken={token}&username=root&password=wrong&next=/admin/");
    assert_eq!(
        send(&mut client, "POST", "/admin/login/", &more, body.as_bytes()).status,
        200
    );
    let body = body.replace("wrong", "secret");
    let done = send(
        &mut client,
        "POST",
        "/admin/login/?next=/admin/",
        &more,
        body.as_bytes(),
    );
    assert_eq!(done.status, 302, "{}", done.text());
    let (token, session) = (cookie(&done, "csrftoken"), cookie(&done, "sessionid"));
    let more = form(&format!("csrftoken={token}; sessionid={session}"));
    let body = format!("csrfmiddlewaretoken={token}&title=Dune&_save=Save");
    let added = send(
        &mut client,
        "POST",
        "/admin/library/book/add/",
        &more,
        body.as_bytes(),
    );
    assert_eq!(added.status, 302, "{}", added.text());
    assert_eq!(client.get("/books/").text(), "Dune");
}

#[test]
fn django_administration() {
    let options = "workers 2\nstatic /static/ {folder}/static";
    let Some(server) = django("module_wsgi site_settings.wsgi:application", options) else {
        return;
    };
    administer(&server);
    let style = server.ask("/static/admin/css/base.css");
    assert_eq!(
        (style.status, style.field("Content-Type")),
        (200, Some("text/css; charset=utf-8"))
    );
}

#[test]
fn django_over_asgi() {
    let Some(server) = django("module_asgi site_settings.asgi:application", "") else {
        return;
    };
    administer(&server);
}

#[test]
fn django_redirects_to_https_and_believes_a_trusted_proxy() {
    let Some(server) = django(
        "module_wsgi site_settings.wsgi:application",
        "env_var SECURE_SSL_REDIRECT 1",
    ) else {
        return;
    };
    let redirect = server.ask("/books/");
    assert_eq!(redirect.status, 301);
    assert_eq!(redirect.field("Location"), Some("https://localhost/books/"));
    // A header that anybody can send changes nothing.
    let spoofed = super::get(server.port, "/books/", "X-Forwarded-Proto: https\r\n");
    assert_eq!(spoofed.status, 301);
}
