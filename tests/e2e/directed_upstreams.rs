//! Upstreams that an operator drains, weighs and limits while the server runs.

use std::sync::Mutex;
use std::sync::mpsc::channel;

use serde_json::{Value, json};
use sluice_net::sys::process::Signal;

use crate::client::{Client, Response, exchange};
use crate::harness::{Server, Setup, eventually, run_to_end, text};
use crate::upstream::Upstream;

/// Two upstreams that respond with their names.
fn upstreams() -> [Upstream; 2] {
    ["one", "two"].map(saying)
}

fn saying(name: &str) -> Upstream {
    Upstream::responding(format!(
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{name}"
    ))
}

fn proxy(options: &str, [one, two]: &[Upstream; 2]) -> String {
    format!(
        "{{\n\tadmin localhost:{{admin}}\n}}\n:{{port}} {{\n\treverse_proxy 127.0.0.1:{} 127.0.0.1:{} {{\n\t\t{options}\n\t}}\n}}\n",
        one.port, two.port
    )
}

fn patch(server: &Server, address: &str, body: &Value) -> Response {
    let (admin, body) = (server.admin, body.to_string());
    exchange(
        admin,
        format!(
            "PATCH /reverse_proxy/upstreams/{address} HTTP/1.1\r\nHost: localhost:{admin}\r\nContent-Length: {}\r\n\
             Content-Type: application/json\r\nConnection: close\r\n\r\n{body}",
            body.len()
        ),
    )
}

fn direct(server: &Server, upstream: &Upstream, body: &Value) -> Value {
    let response = patch(server, &format!("127.0.0.1:{}", upstream.port), body);
    assert_eq!(response.status, 200, "{}", response.text());
    serde_json::from_slice(&response.body).expect("JSON")
}

/// How often each name was the response, of so many requests.
fn shares(server: &Server, requests: usize) -> [usize; 2] {
    let mut shares = [0; 2];
    for _ in 0..requests {
        match server.ask("/").text().as_str() {
            "one" => shares[0] += 1,
            "two" => shares[1] += 1,
            other => panic!("{other}"),
        }
    }
    shares
}

#[test]
fn a_draining_upstream_gets_no_new_requests() {
    let upstreams = upstreams();
    let server = Server::start(&proxy("lb_policy round_robin", &upstreams));
    assert_eq!(shares(&server, 4), [2, 2]);
    let state = direct(&server, &upstreams[0], &json!({"state": "draining"}));
    assert_eq!(state["state"], "draining");
    assert_eq!(shares(&server, 4), [0, 4]);
    // Both drain: there is none to take a request.
    direct(&server, &upstreams[1], &json!({"state": "draining"}));
    assert_eq!(server.ask("/").status, 503);
    direct(&server, &upstreams[0], &json!({"state": "ready"}));
    assert_eq!(shares(&server, 4), [4, 0]);
}

#[test]
fn the_only_upstream_can_be_drained() {
    let upstreams = upstreams();
    let server = Server::start(&format!(
        "{{\n\tadmin localhost:{{admin}}\n}}\n:{{port}} {{\n\treverse_proxy 127.0.0.1:{}\n}}\n",
        upstreams[0].port
    ));
    assert_eq!(server.ask("/").text(), "one");
    direct(&server, &upstreams[0], &json!({"state": "draining"}));
    assert_eq!(server.ask("/").status, 503);
    direct(&server, &upstreams[0], &json!({"state": "ready"}));
    assert_eq!(server.ask("/").text(), "one");
}

#[test]
fn weights_change_the_shares() {
    let upstreams = upstreams();
    let server = Server::start(&proxy("lb_policy weighted_round_robin 1 1", &upstreams));
    assert_eq!(shares(&server, 8), [4, 4]);
    let state = direct(&server, &upstreams[0], &json!({"weight": 3}));
    assert_eq!(state["weight"], 3);
    assert_eq!(shares(&server, 8), [6, 2]);
    let state = direct(&server, &upstreams[0], &json!({"weight": null}));
    assert_eq!(state["weight"], Value::Null);
    assert_eq!(shares(&server, 8), [4, 4]);
}

#[test]
fn a_maximum_holds_for_requests_at_a_time() {
    let (arrived, arrival) = channel();
    let (release, released) = channel::<()>();
    let (arrived, released) = (Mutex::new(arrived), Mutex::new(released));
    let held = Upstream::start(move |mut wire| {
        while let Some(head) = wire.head() {
            let _ = wire.body(&head);
            let _ = arrived.lock().expect("unpoisoned").send(());
            // Until the test lets it respond, or ends.
            let _ = released.lock().expect("unpoisoned").recv();
            wire.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nheld");
        }
    });
    let upstreams = [held, saying("two")];
    let server = Server::start(&proxy("lb_policy first", &upstreams));
    let state = direct(&server, &upstreams[0], &json!({"max_requests": 1}));
    assert_eq!(state["max_requests"], 1);
    let mut waiting = Client::connect(server.port);
    waiting.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    arrival.recv().expect("it arrives");
    assert_eq!(server.ask("/").text(), "two");
    release.send(()).expect("the upstream waits");
    assert_eq!(waiting.response().text(), "held");
}

#[test]
fn servers_of_nginx_groups_are_directed_too() {
    let upstreams = upstreams();
    let setup = Setup::bare();
    let conf = format!(
        "events {{}}\nhttp {{\nupstream both {{\nserver 127.0.0.1:{};\nserver 127.0.0.1:{};\n}}\n\
         server {{\nlisten 127.0.0.1:{{port}};\nlocation / {{\nproxy_pass http://both;\n}}\n}}\n}}\n",
        upstreams[0].port, upstreams[1].port
    );
    setup.folder().write("nginx.conf", setup.fill(&conf));
    let server = setup
        .env("SLUICE_WORKERS", "1")
        .args(&["run", "--config", "nginx.conf"])
        .start();
    assert_eq!(shares(&server, 4), [2, 2]);
    direct(&server, &upstreams[0], &json!({"state": "draining"}));
    assert_eq!(shares(&server, 4), [0, 4]);
    direct(
        &server,
        &upstreams[0],
        &json!({"state": "ready", "weight": 3}),
    );
    let [one, two] = shares(&server, 8);
    assert!(one >= 5 && one + two == 8, "{one} {two}");
}

#[test]
fn only_what_is_kept_outlives_a_reload() {
    let upstreams = upstreams();
    let server = Server::start(&proxy("lb_policy round_robin", &upstreams));
    direct(
        &server,
        &upstreams[0],
        &json!({"state": "draining", "keep": true}),
    );
    server.write(&proxy("lb_policy first", &upstreams));
    server.signal(Signal::Hangup);
    eventually(
        "the reload",
        || server.stderr().contains("SIGHUP"),
        || server.stderr(),
    );
    assert_eq!(shares(&server, 2), [0, 2]);
    direct(&server, &upstreams[0], &json!({"keep": false}));
    server.write(&proxy("lb_policy round_robin", &upstreams));
    server.signal(Signal::Hangup);
    eventually(
        "requests to the first",
        || server.ask("/").text() == "one",
        || server.stderr(),
    );
}

#[test]
fn bad_directions_change_nothing() {
    let upstreams = upstreams();
    let server = Server::start(&proxy("lb_policy round_robin", &upstreams));
    let own = format!("127.0.0.1:{}", upstreams[0].port);
    for (address, body, status) in [
        ("nowhere:1", json!({"state": "draining"}), 404),
        (&own, json!({"state": "gone"}), 400),
        (&own, json!({"weight": 0}), 400),
        (&own, json!({"weight": -1}), 400),
        (&own, json!({"weight": 70_000}), 400),
        (&own, json!({"wait": 1}), 400),
        (&own, json!([]), 400),
        ("%zz", json!({}), 400),
    ] {
        let response = patch(&server, address, &body);
        assert_eq!(response.status, status, "{body}: {}", response.text());
    }
    assert_eq!(shares(&server, 4), [2, 2]);
}

#[test]
fn the_command_directs_and_lists() {
    let upstreams = upstreams();
    let server = Server::start(&proxy("lb_policy round_robin", &upstreams));
    let (admin, own) = (
        format!("localhost:{}", server.admin),
        format!("127.0.0.1:{}", upstreams[0].port),
    );
    let run = |args: &[&str]| {
        let args = [&["upstream"], args, &["--address", &admin]].concat();
        let output = run_to_end(&server.folder, &args);
        (
            output.status.code(),
            text(&output.stdout),
            text(&output.stderr),
        )
    };
    let (code, list, _) = run(&[]);
    assert_eq!(code, Some(0));
    assert!(
        list.starts_with("ADDRESS") && list.contains(&own) && list.contains("ready"),
        "{list}"
    );
    let (code, shown, _) = run(&["drain", &own]);
    assert_eq!(code, Some(0));
    assert!(shown.contains("draining"), "{shown}");
    assert_eq!(shares(&server, 2), [0, 2]);
    let (_, shown, _) = run(&["set", &own, "--weight", "3", "--max-requests", "5"]);
    assert!(
        shown.contains(" 5 ") && shown.trim_end().ends_with('3'),
        "{shown}"
    );
    run(&["ready", &own]);
    assert_eq!(shares(&server, 4), [2, 2]);
    let (code, _, said) = run(&["drain", "nowhere:1"]);
    assert_eq!(code, Some(1));
    assert!(
        said.contains("no upstream in use has the address"),
        "{said}"
    );
    assert_eq!(run(&["set", &own]).0, Some(1));
}

#[test]
fn the_command_ejects_for_some_time() {
    let upstreams = upstreams();
    let server = Server::start(&proxy("lb_policy round_robin", &upstreams));
    let admin = format!("localhost:{}", server.admin);
    let own = format!("127.0.0.1:{}", upstreams[0].port);
    let run = |args: &[&str]| {
        let args = [&["upstream"], args, &["--address", &admin]].concat();
        let output = run_to_end(&server.folder, &args);
        let said = text(&output.stdout) + &text(&output.stderr);
        (output.status.code(), said)
    };
    let (code, shown) = run(&["eject", &own, "--for", "1h"]);
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("ejected for"), "{shown}");
    assert_eq!(shares(&server, 4), [0, 4]);
    let (_, list) = run(&["list"]);
    assert!(
        list.contains("ejected for") && list.contains("ready"),
        "{list}"
    );
    assert_eq!(run(&["eject", &own, "--for", "0s"]).0, Some(0));
    assert_eq!(shares(&server, 4), [2, 2]);
    assert_eq!(run(&["eject", &own]).0, Some(0));
    assert_eq!(shares(&server, 4), [0, 4], "for thirty seconds");
    let (code, said) = run(&["eject", &own, "--for", "2h"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("up to 1h"), "{said}");
    assert_eq!(run(&["eject", "nowhere:1"]).0, Some(1));
}
