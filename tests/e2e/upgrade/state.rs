//! What a new process takes over: the configuration in effect, sessions, counts of rate limits, the service manager's
//! attention; and how long the old one stays.

use rustls::HandshakeKind;
use rustls::version::TLS13;
use serde_json::{Value, json};
use sluice_net::sys::process::{Signal, send};

use super::running::{Clients, Running};
use crate::client::{Client, Response, ask, exchange};
use crate::h3::serving::site;
use crate::harness::{Setup, eventually, free_port, run_to_end, sluice, text};
use crate::nginx::prefix::is_alive;
use crate::support::python::Python;
use crate::tls::{client, connect, get};
use crate::upstream::Upstream;

fn saying(word: &str) -> String {
    format!("{{\n\tadmin localhost:{{admin}}\n}}\n:{{port}} {{\n\trespond \"{word}\"\n}}\n")
}

#[test]
fn the_configuration_in_effect_is_loaded() {
    let running = Running::start(&saying("one"));
    // It came from a file: that is read again.
    running.server.write(&saying("two"));
    running.upgrade();
    assert_eq!(running.server.ask("/").text(), "two");
    // It was loaded through the admin API: it outlives two upgrades, though the file says otherwise.
    assert_eq!(running.load(&saying("three")).status, 200);
    running.upgrade();
    running.upgrade();
    assert_eq!(running.server.ask("/").text(), "three");
    // A reload reads the file.
    send(running.pid().expect("it runs"), Signal::Hangup).expect("it runs");
    let is_two = || running.server.ask("/").text() == "two";
    eventually("the file", is_two, || running.server.stderr());
}

#[test]
fn a_configuration_from_a_command_line_or_standard_input_is_kept() {
    let setup = Setup::bare();
    let json = r#"{"admin":{"listen":"localhost:{admin}"},"apps":{"http":{"servers":{"a":{"listen":[":{port}"],
            "routes":[{"handle":[{"handler":"static_response","body":"json"}]}]}}}}}"#;
    setup.folder().write("config.json", setup.fill(json));
    let (port, admin) = (setup.port, setup.admin);
    let mut command = sluice(setup.folder());
    let stdin = std::fs::File::open(setup.folder().path().join("config.json"));
    let stderr = std::fs::File::create(setup.folder().path().join("stderr"));
    let mut child = command
        .args(["run", "--config", "-", "--pidfile", "pid"])
        .stdin(stdin.expect("it is there"))
        .stderr(stderr.expect("writable"))
        .spawn()
        .expect("it starts");
    let pid = || setup.folder().read("pid").trim().parse::<u32>().ok();
    let has_started = || setup.folder().path().join("pid").exists() && pid().is_some();
    eventually("the start", has_started, || setup.folder().read("stderr"));
    let address = format!("localhost:{admin}");
    let upgraded = run_to_end(setup.folder(), &["upgrade-binary", "--address", &address]);
    let word = ask(port, "/").text();
    let new = pid().expect("it runs");
    let _ = send(new, Signal::Quit);
    assert!(child.wait().expect("it ends").success());
    eventually("the end", || !is_alive(new), String::new);
    assert!(upgraded.status.success(), "{}", text(&upgraded.stderr));
    assert_eq!(word, "json");
    assert_ne!(new, child.id());
}

#[test]
fn a_server_in_the_background_is_upgraded() {
    let setup = Setup::new(&saying("hello"));
    // The server keeps the streams that it was started with.
    let stderr = std::fs::File::create(setup.folder().path().join("stderr"));
    let mut command = sluice(setup.folder());
    let status = command
        .args(["start", "--pidfile", "pid"])
        .stdout(std::process::Stdio::null())
        .stderr(stderr.expect("writable"))
        .status();
    assert!(status.expect("it starts").success());
    let pid = || setup.folder().read("pid").trim().parse::<u32>();
    let old = pid().expect("a number");
    let address = setup.fill("localhost:{admin}");
    let upgraded = run_to_end(setup.folder(), &["upgrade-binary", "--address", &address]);
    let new = pid().expect("a number");
    let word = ask(setup.port, "/").text();
    let stopped = run_to_end(setup.folder(), &["stop", "--address", &address]);
    for pid in [old, new] {
        eventually("the end", || !is_alive(pid), || pid.to_string());
    }
    assert!(upgraded.status.success(), "{}", text(&upgraded.stderr));
    assert!(stopped.status.success(), "{}", text(&stopped.stderr));
    assert!(old != new && word == "hello", "{old} {new} {word}");
}

#[test]
fn tls_sessions_are_resumed_by_the_new_process() {
    let running = Running::start(&site("", "respond hello"));
    let config = client(&running.server.folder, &[&TLS13]);
    let kind = || {
        let mut wire = connect(&config, running.port(), "localhost").expect("a connection");
        get(&mut wire, "localhost", "/");
        wire.stream().conn.handshake_kind()
    };
    assert_eq!(kind(), Some(HandshakeKind::Full));
    for _ in 0..2 {
        running.upgrade();
        assert_eq!(kind(), Some(HandshakeKind::Resumed));
    }
}

#[test]
fn rate_limits_hold_over_both_processes() {
    let running = Running::start(
        "{\n\tadmin localhost:{admin}\n}\n:{port} {\n\trate_limit {\n\t\tzone all {\n\t\t\tkey static\n\
         \t\t\tevents 3\n\t\t\twindow 1h\n\t\t}\n\t}\n\trespond \"hello\"\n}\n",
    );
    let status = || running.server.ask("/").status;
    assert_eq!([status(), status()], [200, 200]);
    running.upgrade();
    assert_eq!([status(), status()], [200, 429]);
    running.upgrade();
    assert_eq!(status(), 429);
}

#[test]
fn requests_may_go_on_for_the_grace_period() {
    let running = Running::start(&saying("hello"));
    // A request that never ends: the rest of it is not sent.
    let mut slow = Client::connect(running.port());
    slow.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\nGET / HTTP/1.1\r\nHost: local");
    assert_eq!(slow.response().status, 200);
    let old = running.server.pid();
    let output = running.upgrade_with(&["--grace-period", "10ms"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    eventually("the end", || !is_alive(old), || running.server.stderr());
    assert!(slow.is_closed());
}

/// A client that pauses does not notice either: its next request gets a response that says to close.
#[test]
fn idle_connections_are_not_closed_under_a_request() {
    let running = Running::start(&saying("hello"));
    let mut idle = Client::connect(running.port());
    assert_eq!(idle.get("/").status, 200);
    running.upgrade();
    let response = idle.get("/");
    assert_eq!(response.status, 200);
    assert_eq!(response.field("Connection"), Some("close"));
    let mut silent = Client::connect(running.port());
    assert_eq!(silent.get("/").status, 200);
    running.upgrade();
    assert!(silent.is_closed(), "a connection that stays idle is closed");
}

#[test]
fn systemd_learns_of_the_new_main_process() {
    let running = Running::start(&saying("hello"));
    let first = running.server.pid();
    let new = running.upgrade();
    eventually("the end", || !is_alive(first), || running.server.stderr());
    let heard = running.server.listener.heard();
    let heard: Vec<&str> = heard
        .iter()
        .map(|line| match line.starts_with("MONOTONIC_USEC=") {
            true => "MONOTONIC_USEC",
            false => line,
        })
        .collect();
    let (first, new) = (format!("MAINPID={first}"), format!("MAINPID={new}"));
    // The old one says it, whom systemd believes, and then the new one; the service does not stop.
    let expected = [
        "READY=1",
        &first,
        "RELOADING=1",
        "MONOTONIC_USEC",
        "READY=1",
        &new,
        "READY=1",
        &new,
    ];
    assert_eq!(heard, expected);
    let why = running.refusal(&["--binary", &running.program("#!/bin/sh\nexit 1\n")]);
    assert!(why.contains("exit status: 1"), "{why}");
    let heard = running.server.listener.heard();
    assert_eq!(heard[heard.len() - 2..], ["READY=1".to_owned(), new]);
}

#[test]
fn unix_sockets_stay() {
    let running = Running::start(
        "{\n\tadmin unix/{folder}/admin.sock\n}\n:{port} {\n\tbind unix/{folder}/site.sock 127.0.0.1\n\trespond hello\n}\n",
    );
    let address = format!("unix/{}/admin.sock", running.server.folder.path().display());
    for _ in 0..2 {
        let old = running.pid().expect("it runs");
        let args = ["upgrade-binary", "--address", &address];
        let output = run_to_end(&running.server.folder, &args);
        assert!(output.status.success(), "{}", text(&output.stderr));
        eventually("the end", || !is_alive(old), || running.server.stderr());
        let path = running.server.folder.path().join("site.sock");
        let stream = std::os::unix::net::UnixStream::connect(path).expect("it listens");
        let mut wire = crate::support::wire::Wire::new(stream);
        wire.send("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let head = wire.head().expect("a head");
        assert!(head[0].starts_with("HTTP/1.1 200 "), "{head:?}");
    }
}

/// The new process starts its own processes before the old one drains.
#[test]
fn python_applications_serve_without_a_gap() {
    let Some(python) = Python::find() else { return };
    let apps = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/python/apps");
    let running = Running::start(&format!(
        "{{\n\tadmin localhost:{{admin}}\n}}\n:{{port}} {{\n\tpython {{\n\t\tmodule_wsgi wsgi:app\n\t\tworkers 1\n\
         \t\tvenv {}\n\t\tworking_dir {apps}\n\t\tenv_var PYTHONDONTWRITEBYTECODE 1\n\t}}\n}}\n",
        python.folder().display()
    ));
    let before = running.server.ask("/pid").text();
    let clients = Clients::start(running.port(), "/pid", 3);
    running.upgrade();
    clients.wait_for(20);
    assert_ne!(running.server.ask("/pid").text(), before);
    clients.end();
}

/// An address that the new configuration adds is bound by the new process.
#[test]
fn a_new_configuration_may_add_addresses() {
    let running = Running::start(&saying("one"));
    let other = free_port();
    let more = format!("{}:{other} {{\n\trespond more\n}}\n", saying("two"));
    running.server.write(&more);
    running.upgrade();
    assert_eq!(ask(other, "/").text(), "more");
    assert_eq!(running.server.ask("/").text(), "two");
}

/// An nginx group continues with the failures that it has counted.
#[test]
fn servers_of_an_nginx_group_stay_out() {
    let (dead, live) = (crate::upstream::dead(), Upstream::responding(OK));
    let setup = Setup::bare();
    let conf = setup.fill(&format!(
        "events {{}}\nhttp {{\nupstream app {{ server 127.0.0.1:{dead} fail_timeout=1h; server 127.0.0.1:{}; }}\n\
         server {{ listen 127.0.0.1:{{port}}; location / {{ proxy_pass http://app; }} }}\n}}\n",
        live.port
    ));
    setup.folder().write("nginx.conf", conf);
    let running = Running::of(setup.args(&["--config", "nginx.conf"]));
    for _ in 0..2 {
        assert_eq!(running.server.ask("/").text(), "ok");
    }
    for _ in 0..2 {
        let state = upstream_state(&running, dead);
        assert_eq!(
            (&state["fails"], &state["healthy"]),
            (&json!(1), &json!(false)),
            "{state}"
        );
        running.upgrade();
    }
    let state = upstream_state(&running, dead);
    assert_eq!(
        (&state["fails"], &state["healthy"]),
        (&json!(1), &json!(false)),
        "{state}"
    );
}

/// A passive health check remembers failures; an upgrade causes no further one.
#[test]
fn ejected_upstreams_stay_ejected() {
    let (dead, live) = (crate::upstream::dead(), Upstream::responding(OK));
    let running = Running::start(&format!(
        "{{\n\tadmin localhost:{{admin}}\n}}\n:{{port}} {{\n\treverse_proxy 127.0.0.1:{dead} 127.0.0.1:{} {{\n\
         \t\tlb_policy first\n\t\tfail_duration 1h\n\t}}\n}}\n",
        live.port
    ));
    let state = || upstream_state(&running, dead);
    assert_eq!(running.server.ask("/").text(), "ok");
    assert_eq!(
        (&state()["fails"], &state()["healthy"]),
        (&json!(1), &json!(false))
    );
    for _ in 0..2 {
        running.upgrade();
        assert_eq!(
            (&state()["fails"], &state()["healthy"]),
            (&json!(1), &json!(false))
        );
        assert_eq!(running.server.ask("/").text(), "ok");
    }
    assert_eq!(upstream_state(&running, live.port)["healthy"], true);
}

/// Drained by an operator, the address stays drained; so do a weight and a maximum, until they are taken back.
#[test]
fn directions_for_upstreams_are_followed_on() {
    let (one, two) = (Upstream::responding(OK), Upstream::responding(OK));
    let caddyfile = format!(
        "{{\n\tadmin localhost:{{admin}}\n}}\n:{{port}} {{\n\treverse_proxy 127.0.0.1:{} 127.0.0.1:{} {{\n\
         \t\tlb_policy weighted_round_robin 1 1\n\t}}\n}}\n",
        one.port, two.port
    );
    let running = Running::start(&caddyfile);
    for (port, direction) in [
        (one.port, json!({"state": "draining", "keep": true})),
        (two.port, json!({"weight": 5, "max_requests": 9})),
    ] {
        let path = format!("/reverse_proxy/upstreams/127.0.0.1:{port}");
        let response = to_admin(&running, "PATCH", &path, &direction.to_string());
        assert_eq!(response.status, 200, "{}", response.text());
    }
    let states = || {
        let (one, two) = (
            upstream_state(&running, one.port),
            upstream_state(&running, two.port),
        );
        (
            one["state"].clone(),
            two["weight"].clone(),
            two["max_requests"].clone(),
        )
    };
    let directed = (json!("draining"), json!(5), json!(9));
    assert_eq!(states(), directed);
    for _ in 0..2 {
        running.upgrade();
        assert_eq!(states(), directed);
        let before = one.connections();
        assert_eq!(running.server.ask("/").status, 200);
        assert_eq!(one.connections(), before, "it drains");
    }
    // What is to be kept over reloads is kept by the new process as well, and nothing else.
    running.server.write(&format!("{caddyfile}# changed\n"));
    let pid = running.pid().expect("it runs");
    send(pid, Signal::Hangup).expect("it runs");
    let reloaded = || running.server.stderr().contains("\"trigger\":\"SIGHUP\"");
    eventually("the reload", reloaded, || running.server.stderr());
    assert_eq!(states(), (json!("draining"), json!(null), json!(null)));
}

/// Ejected by an operator, the address gets no requests from the new process either, until that is taken back.
#[test]
fn an_ejection_by_an_operator_goes_on() {
    let (one, two) = (Upstream::responding(OK), Upstream::responding(OK));
    let running = Running::start(&format!(
        "{{\n\tadmin localhost:{{admin}}\n}}\n:{{port}} {{\n\treverse_proxy 127.0.0.1:{} 127.0.0.1:{} {{\n\
         \t\tlb_policy first\n\t}}\n}}\n",
        one.port, two.port
    ));
    let eject = |seconds: Value| {
        let path = format!("/reverse_proxy/upstreams/127.0.0.1:{}", one.port);
        let direction = json!({ "eject_seconds": seconds }).to_string();
        let response = to_admin(&running, "PATCH", &path, &direction);
        assert_eq!(response.status, 200, "{}", response.text());
    };
    eject(json!(3600));
    running.upgrade();
    let left = upstream_state(&running, one.port)["ejected_for"].as_f64();
    assert!(
        left.is_some_and(|left| left > 0.0 && left < 3600.0),
        "{left:?}"
    );
    assert_eq!(running.server.ask("/").status, 200);
    assert_eq!((one.connections(), two.connections() > 0), (0, true));
    eject(Value::Null);
    assert_eq!(running.server.ask("/").status, 200);
    assert_eq!(one.connections(), 1);
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

fn to_admin(running: &Running, method: &str, path: &str, body: &str) -> Response {
    let admin = running.server.admin;
    exchange(
        admin,
        format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost:{admin}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        ),
    )
}

/// What the admin API says of an upstream.
fn upstream_state(running: &Running, port: u16) -> Value {
    let response = to_admin(running, "GET", "/reverse_proxy/upstreams", "");
    let all: Value = serde_json::from_slice(&response.body).expect("JSON");
    let address = format!("127.0.0.1:{port}");
    let found = all.as_array().expect("a list").iter();
    let mut found = found.filter(|upstream| upstream["address"] == address.as_str());
    found
        .next()
        .unwrap_or_else(|| panic!("{address} is in {all}"))
        .clone()
}

/// The unix socket of the admin endpoint, and clients of both processes on it.
#[test]
fn a_unix_socket_of_the_admin_endpoint_is_never_away() {
    use std::os::unix::net::UnixStream;
    let running = Running::start(
        "{\n\tadmin unix/{folder}/admin.sock|0600\n}\n:{port} {\n\trespond hello\n}\n",
    );
    let path = running.server.folder.path().join("admin.sock");
    let address = format!("unix/{}", path.display());
    let asked = || {
        let stream = UnixStream::connect(&path).expect("it listens");
        let mut wire = crate::support::wire::Wire::new(stream);
        wire.send(
            "GET /config/admin/listen HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
        );
        let head = wire.head().expect("a head");
        head[0].clone()
    };
    let inode =
        || std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(&path).expect("a socket"));
    let before = (
        inode(),
        std::fs::metadata(&path).expect("a socket").permissions(),
    );
    for _ in 0..2 {
        let old = running.pid().expect("it runs");
        let output = run_to_end(
            &running.server.folder,
            &["upgrade-binary", "--address", &address],
        );
        assert!(output.status.success(), "{}", text(&output.stderr));
        // The old process does not remove the socket when it ends.
        assert!(asked().starts_with("HTTP/1.1 200 "), "{}", asked());
        eventually("the end", || !is_alive(old), || running.server.stderr());
        assert!(asked().starts_with("HTTP/1.1 200 "), "{}", asked());
    }
    let after = (
        inode(),
        std::fs::metadata(&path).expect("a socket").permissions(),
    );
    assert_eq!(before, after, "it is the same socket");
}
