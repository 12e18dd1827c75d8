//! `overload` in the running server, in both languages.

use std::sync::{Arc, Condvar, Mutex};

use sluice_net::sys::process::Signal;

use crate::client::{Client, Response};
use crate::harness::{Server, Setup, eventually};
use crate::upstream::Upstream;

/// An upstream that sends a response head when the test lets it, and the body when the test ends.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<State>, Condvar)>);

#[derive(Default)]
struct State {
    /// The paths of its requests, in order.
    seen: Vec<String>,
    /// How many may get a response.
    freed: usize,
    begun: usize,
    has_ended: bool,
}

impl Gate {
    fn start(&self) -> Upstream {
        let gate = self.clone();
        Upstream::start(move |mut wire| {
            while let Some(head) = wire.head() {
                let path = head[0].split(' ').nth(1).unwrap_or_default().to_owned();
                gate.change(|state| state.seen.push(path));
                gate.wait(|state| state.begun < state.freed);
                gate.change(|state| state.begun += 1);
                let _ = wire.try_send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n");
                gate.wait(|state| state.has_ended);
                let _ = wire.try_send("hi");
            }
        })
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let (state, changed) = &*self.0;
        change(&mut state.lock().expect("nobody panics with it"));
        changed.notify_all();
    }

    fn wait(&self, is_true: impl Fn(&State) -> bool) {
        let (state, changed) = &*self.0;
        let state = state.lock().expect("nobody panics with it");
        let waited = changed.wait_while(state, |state| !is_true(state));
        drop(waited.expect("nobody panics with it"));
    }

    /// Lets one more response begin.
    fn free(&self) {
        self.change(|state| state.freed += 1);
    }

    fn end(&self) {
        self.change(|state| {
            state.freed = usize::MAX;
            state.has_ended = true;
        });
    }

    fn seen(&self) -> Vec<String> {
        self.0.0.lock().expect("nobody panics with it").seen.clone()
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.end();
        }
    }
}

fn request(path: &str, header: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{header}\r\n")
}

fn send(server: &Server, path: &str, header: &str) -> Client {
    let mut client = Client::connect(server.port);
    client.send(request(path, header));
    client
}

fn wait_for_requests(gate: &Gate, server: &Server, count: usize) {
    eventually(
        "requests at the upstream",
        || gate.seen().len() >= count,
        || format!("{:?} of {count}\n{}", gate.seen(), server.metrics()),
    );
}

/// Sends requests (path and header lines) one after the other, each once the one before waits.
fn queue_up(server: &Server, clients: &mut Vec<Client>, requests: &[(&str, &str)]) {
    for (index, (path, header)) in requests.iter().enumerate() {
        clients.push(send(server, path, header));
        let waiting = format!("sluice_overload_waiting{{name=\"app\"}} {}", index + 1);
        server.wait_for_sample(&waiting);
    }
}

/// Lets the upstream serve the four requests of `clients` one after the other.
fn serve_all(gate: &Gate, server: &Server, clients: &mut [Client]) {
    for count in 2..=4 {
        gate.free();
        wait_for_requests(gate, server, count);
    }
    gate.end();
    for client in clients {
        assert_eq!(client.response().status, 200);
    }
}

fn assert_shed(response: &Response) {
    assert_eq!(response.status, 503, "{response:?}");
    let after = response.field("Retry-After").expect("it says when");
    assert!((1..=3).contains(&after.parse::<u32>().expect("seconds")));
}

fn site(port: u16, global: &str, overload: &str) -> String {
    format!(
        "{{\n{global}\n}}\n:{{port}} {{\n\t@app not path /version\n\t\
         overload @app {overload}\n\t\
         reverse_proxy @app localhost:{port}\n\trespond /version one\n}}\n"
    )
}

#[test]
fn fail_fast_sheds_at_once_and_a_response_head_frees_the_slot() {
    let gate = Gate::default();
    let upstream = gate.start();
    let text = site(upstream.port, "", "fail_fast 1 {\n\t\tname app\n\t}");
    let server = Server::start(&text);
    let mut first = send(&server, "/1", "");
    wait_for_requests(&gate, &server, 1);
    assert_shed(&server.ask("/2"));
    // A reload keeps the count.
    server.write(&text.replace("version one", "version two"));
    server.signal(Signal::Hangup);
    eventually(
        "the new configuration",
        || server.ask("/version").text() == "two",
        || server.stderr(),
    );
    assert_shed(&server.ask("/3"));
    gate.free();
    assert!(first.head().expect("a head").contains("200"));
    // Its body has not ended: a client that takes it slowly occupies no slot.
    let mut second = send(&server, "/4", "");
    wait_for_requests(&gate, &server, 2);
    assert_shed(&server.ask("/5"));
    let page = server.metrics();
    for sample in [
        "sluice_overload_limit{name=\"app\"} 1",
        "sluice_overload_in_flight{name=\"app\"} 1",
        "sluice_overload_admitted_total{name=\"app\",class=\"normal\"} 2",
        "sluice_overload_shed_total{name=\"app\",class=\"normal\",reason=\"full\"} 3",
    ] {
        assert!(page.lines().any(|line| line == sample), "{sample}\n{page}");
    }
    gate.end();
    assert_eq!(second.response().body, b"hi");
    assert_eq!(gate.seen(), ["/1", "/4"]);
}

#[test]
fn a_queue_serves_important_requests_first() {
    let gate = Gate::default();
    let upstream = gate.start();
    let overload = "queue 1 {\n\t\tname app\n\t\ttimeout 1m\n\t\t\
                    priority low {\n\t\t\tpath /low*\n\t\t}\n\t\t\
                    priority high {\n\t\t\tpath /health\n\t\t}\n\t}";
    let server = Server::start(&site(upstream.port, "", overload));
    let mut clients = vec![send(&server, "/first", "")];
    wait_for_requests(&gate, &server, 1);
    let waiting = [
        ("/low", ""),
        ("/normal", ""),
        // A client cannot make itself important.
        ("/low/too", "X-Priority: high\r\n"),
        ("/health", ""),
    ];
    queue_up(&server, &mut clients, &waiting);
    // One that leaves is not served.
    clients.remove(1);
    server.wait_for_sample("sluice_overload_waiting{name=\"app\"} 3");
    serve_all(&gate, &server, &mut clients);
    assert_eq!(gate.seen(), ["/first", "/health", "/normal", "/low/too"]);
}

#[test]
fn trusted_proxies_say_how_important_requests_are() {
    let gate = Gate::default();
    let upstream = gate.start();
    let global = "\tservers {\n\t\ttrusted_proxies static 127.0.0.1\n\t}";
    let overload = "queue 1 {\n\t\tname app\n\t\ttimeout 1m\n\t}";
    let server = Server::start(&site(upstream.port, global, overload));
    let mut clients = vec![send(&server, "/first", "")];
    wait_for_requests(&gate, &server, 1);
    let waiting = [
        ("/low", "X-Priority: low\r\n"),
        ("/normal", "X-Priority: very\r\n"),
        ("/high", "X-Priority: High\r\n"),
    ];
    queue_up(&server, &mut clients, &waiting);
    serve_all(&gate, &server, &mut clients);
    assert_eq!(gate.seen(), ["/first", "/high", "/normal", "/low"]);
}

#[test]
fn requests_that_wait_for_too_long_are_shed() {
    let gate = Gate::default();
    let upstream = gate.start();
    let overload = "adaptive {\n\t\tname app\n\t\ttarget_latency 300ms\n\t\tmin 1\n\t\tmax 1\n\t}";
    let server = Server::start(&site(upstream.port, "", overload));
    let mut first = send(&server, "/1", "");
    wait_for_requests(&gate, &server, 1);
    assert_shed(&server.ask("/2"));
    // The deadline of a gRPC call is shorter, and over when the slot is free.
    let mut second = send(&server, "/3", "grpc-timeout: 1u\r\n");
    server.wait_for_sample("sluice_overload_waiting{name=\"app\"} 1");
    gate.free();
    assert_shed(&second.response());
    let late = "sluice_overload_shed_total{name=\"app\",class=\"normal\",reason=\"late\"} 2";
    server.wait_for_sample(late);
    gate.end();
    assert_eq!(first.response().body, b"hi");
    assert_eq!(gate.seen(), ["/1"]);
}

#[test]
fn places_of_an_nginx_conf_share_the_limit_that_they_inherit() {
    let gate = Gate::default();
    let upstream = gate.start();
    let setup = Setup::bare();
    let text = setup.fill(&format!(
        "events {{}}\nhttp {{\nserver {{ listen 127.0.0.1:{{port}};\noverload fail_fast 1 name=app;\n\
         location /a {{ proxy_pass http://127.0.0.1:{up}; }}\n\
         location /b {{ proxy_pass http://127.0.0.1:{up}; }}\n\
         location /guarded {{ auth_request /auth; proxy_pass http://127.0.0.1:{up}; }}\n\
         location /auth {{ proxy_pass http://127.0.0.1:{up}; }}\n\
         location /off {{ overload off; return 204; }}\n\
         location /own {{ overload queue 1 timeout=1m; return 204; }}\n}}\n}}\n",
        up = upstream.port
    ));
    setup.folder().write("nginx.conf", text);
    let server = setup.args(&["--config", "nginx.conf"]).start();
    let mut first = send(&server, "/a", "");
    wait_for_requests(&gate, &server, 1);
    assert_shed(&server.ask("/b"));
    assert_eq!(server.ask("/off").status, 204);
    assert_eq!(server.ask("/own").status, 204);
    gate.free();
    assert!(first.head().expect("a head").contains("200"));
    let mut second = send(&server, "/b", "");
    wait_for_requests(&gate, &server, 2);
    gate.end();
    assert_eq!(second.response().body, b"hi");
    // A subrequest has no slot of its own, or the request would wait for itself.
    assert_eq!(server.ask("/guarded").status, 200);
}

#[test]
fn an_nginx_conf_trusts_the_priorities_of_its_proxies() {
    for (trusted, served) in [
        // Addresses of servers and of locations count alike, with and without the address of a client.
        ("set_real_ip_from 127.0.0.1;", ["/high", "/normal", "/low"]),
        ("set_real_ip_from 192.0.2.1;", ["/low", "/normal", "/high"]),
        ("", ["/low", "/normal", "/high"]),
    ] {
        for (of_server, of_location) in [(trusted, ""), ("", trusted)] {
            let gate = Gate::default();
            let upstream = gate.start();
            let server = nginx_queue(upstream.port, of_server, of_location);
            let mut clients = vec![send(&server, "/first", "")];
            wait_for_requests(&gate, &server, 1);
            let waiting = [
                ("/low", "X-Priority: low\r\nX-Forwarded-For: 10.1.1.1\r\n"),
                (
                    "/normal",
                    "X-Priority: very\r\nX-Forwarded-For: 10.1.1.2\r\n",
                ),
                ("/high", "X-Priority: High\r\n"),
            ];
            queue_up(&server, &mut clients, &waiting);
            serve_all(&gate, &server, &mut clients);
            assert_eq!(gate.seen()[1..], served, "{of_server}, {of_location}");
        }
    }
}

fn nginx_queue(upstream: u16, of_server: &str, of_location: &str) -> Server {
    let setup = Setup::bare();
    let text = setup.fill(&format!(
        "events {{}}\nhttp {{\nserver {{ listen 127.0.0.1:{{port}};\n{of_server}\n\
         location / {{ {of_location} overload queue 1 timeout=1m name=app; \
         proxy_pass http://127.0.0.1:{upstream}; }}\n}}\n}}\n"
    ));
    setup.folder().write("nginx.conf", text);
    setup.args(&["--config", "nginx.conf"]).start()
}
