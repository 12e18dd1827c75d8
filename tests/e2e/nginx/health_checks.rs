//! `health_check` and `match`: servers of a group are checked from the start, and all locations see the results.

use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use super::setup;
use crate::client::ask;
use crate::harness::{Server, eventually};
use crate::support::ports::free_port;
use crate::upstream::Upstream;
use sluice_net::sys::process::Signal;

/// A server whose checks get a response that the test sets, and whose other requests get its name.
struct Checked {
    port: u16,
    response: Arc<Mutex<Vec<u8>>>,
    /// The heads of the checks.
    seen: Arc<Mutex<Vec<String>>>,
}

/// A response with these header lines.
fn response(status: u16, lines: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status} It\r\n{lines}Content-Length: {length}\r\n\r\n{body}")
}

impl Checked {
    fn start(name: &'static str) -> Checked {
        let shared = Arc::new(Mutex::new(response(200, "", "").into_bytes()));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (set, heads) = (shared.clone(), seen.clone());
        let upstream = Upstream::start(move |mut wire| {
            while let Some(head) = wire.head() {
                let is_check = head
                    .iter()
                    .any(|line| line.ends_with("sluice-health-check"));
                let bytes = match is_check {
                    true => {
                        heads
                            .lock()
                            .expect("no test panicked")
                            .push(head.join("\n"));
                        set.lock().expect("no test panicked").clone()
                    }
                    false => response(200, "", name).into_bytes(),
                };
                if wire.try_send(bytes).is_err() {
                    return;
                }
            }
        });
        Checked {
            port: upstream.port,
            response: shared,
            seen,
        }
    }

    fn says(&self, response: String) {
        *self.response.lock().expect("no test panicked") = response.into_bytes();
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().expect("no test panicked").clone()
    }
}

/// A server with these lines in `http`, and these in its `server` block.
fn start(http: &str, lines: &str) -> Server {
    setup(&conf(http, lines)).start()
}

fn conf(http: &str, lines: &str) -> String {
    format!(
        "events {{ worker_connections 1000; }}\nhttp {{\n{http}\nserver {{\nlisten 127.0.0.1:{{port}};\n{lines}\n}}\n}}\n"
    )
}

/// Waits until a path gets this status.
fn becomes(server: &Server, path: &str, status: u16) {
    eventually(
        &format!("{status} of {path}"),
        || ask(server.port, path).status == status,
        || server.stderr(),
    );
}

#[test]
fn unhealthy_servers_get_no_requests_of_any_location() {
    let (a, b) = (Checked::start("a"), Checked::start("b"));
    let group = format!(
        "upstream app {{ zone app 64k; server 127.0.0.1:{}; server 127.0.0.1:{}; }}",
        a.port, b.port
    );
    let server = start(
        &group,
        "location / { proxy_pass http://app; proxy_set_header X-Fixed yes; proxy_set_header X-Uri $uri;\n\
         health_check interval=50ms jitter=5ms fails=2 passes=2 uri=/status?full; }\n\
         location /other { proxy_pass http://app; }",
    );
    // Both get their turns; nobody has to ask first.
    eventually(
        "checks of both",
        || a.seen().len() > 1 && b.seen().len() > 1,
        || server.stderr(),
    );
    let head = a.seen()[0].to_ascii_lowercase();
    assert!(head.starts_with("get /status?full http/1.1"), "{head}");
    assert!(head.contains("host: app"), "{head}");
    assert!(
        head.contains("x-fixed: yes") && !head.contains("x-uri"),
        "{head}"
    );
    a.says(response(500, "", ""));
    let only = |name: &str, path: &str| (0..6).all(|_| ask(server.port, path).text() == name);
    eventually("b alone", || only("b", "/other"), || server.stderr());
    b.says(response(404, "", ""));
    becomes(&server, "/other", 502);
    becomes(&server, "/", 502);
    a.says(response(302, "", ""));
    eventually("a alone", || only("a", "/other"), || server.stderr());
}

#[test]
fn responses_to_checks_are_tested() {
    let app = Checked::start("app");
    let http = format!(
        "upstream app {{ server 127.0.0.1:{}; }}\n\
         match good {{ status 200-299 301; status ! 204 206-208; header Content-Type = text/html; header X-Mode !~ ^off;\n\
         header X-Here; header ! X-Gone; body ~ \"Welcome\"; body !~ 'error'; require $upstream_http_x_load $upstream_status; }}",
        app.port
    );
    let good = "Content-Type: text/html\r\nX-Mode: on\r\nX-Here: 1\r\nX-Load: 3\r\n";
    app.says(response(200, good, "Welcome home"));
    let server = start(
        &http,
        "location / { proxy_pass http://app; health_check interval=20ms mandatory match=good; }",
    );
    becomes(&server, "/", 200);
    for (status, lines, body) in [
        (204, good.to_owned(), ""),
        (207, good.to_owned(), "Welcome"),
        (302, good.to_owned(), "Welcome"),
        (200, good.replace("html", "plain"), "Welcome"),
        (200, good.replace("X-Mode: on", "X-Mode: off"), "Welcome"),
        (200, good.replace("X-Here: 1\r\n", ""), "Welcome"),
        (200, format!("{good}X-Gone: 1\r\n"), "Welcome"),
        (200, good.replace("X-Load: 3", "X-Load: 0"), "Welcome"),
        (200, good.to_owned(), "welcome"),
        (200, good.to_owned(), "Welcome, error"),
    ] {
        app.says(response(status, &lines, body));
        becomes(&server, "/", 502);
        app.says(response(301, good, "Welcome back"));
        becomes(&server, "/", 200);
    }
}

#[test]
fn one_failed_check_of_several_is_enough() {
    let app = Checked::start("app");
    let status = Checked::start("status");
    let http = format!("upstream app {{ server 127.0.0.1:{}; }}", app.port);
    let server = start(
        &http,
        &format!(
            "location / {{ proxy_pass http://app; health_check interval=20ms; }}\n\
             location /b {{ proxy_pass http://app; health_check interval=20ms port={} keepalive_time=10s; }}",
            status.port
        ),
    );
    becomes(&server, "/", 200);
    status.says(response(503, "", ""));
    becomes(&server, "/", 502);
    app.says(response(503, "", ""));
    eventually(
        "a check that failed",
        || app.seen().len() > 2,
        || server.stderr(),
    );
    status.says(response(200, "", ""));
    let count = app.seen().len();
    eventually(
        "more checks",
        || app.seen().len() > count + 2,
        || server.stderr(),
    );
    assert_eq!(
        ask(server.port, "/").status,
        502,
        "the other check still fails"
    );
    app.says(response(200, "", ""));
    becomes(&server, "/", 200);
}

#[test]
fn mandatory_checks_precede_requests_also_after_a_reload() {
    let (release, released) = mpsc::channel::<()>();
    let released = Mutex::new(released);
    let status = Arc::new(AtomicU16::new(200));
    let set = status.clone();
    // Each check waits for the test.
    let upstream = Upstream::start(move |mut wire| {
        while let Some(head) = wire.head() {
            if head
                .iter()
                .any(|line| line.ends_with("sluice-health-check"))
            {
                let _ = released.lock().expect("no test panicked").recv();
            }
            let text = response(set.load(Ordering::Relaxed), "", "app");
            if wire.try_send(text).is_err() {
                return;
            }
        }
    });
    let http = format!("upstream app {{ server 127.0.0.1:{}; }}", upstream.port);
    let of = |persistent: &str| {
        let check = format!("health_check interval=10m mandatory {persistent};");
        conf(
            &http,
            &format!("location / {{ proxy_pass http://app; {check} }}"),
        )
    };
    let setup = setup(&of("persistent"));
    let server = setup.start();
    assert_eq!(ask(server.port, "/").status, 502, "it is being checked");
    release.send(()).unwrap();
    becomes(&server, "/", 200);
    let connections = upstream.connections();
    reload(&server, &of("persistent"));
    eventually(
        "another check",
        || upstream.connections() > connections,
        || server.stderr(),
    );
    assert_eq!(ask(server.port, "/").status, 200, "it was healthy before");
    reload(&server, &of(""));
    becomes(&server, "/", 502);
}

fn reload(server: &Server, conf: &str) {
    let text = conf.replace("{port}", &server.port.to_string());
    server.folder.write("nginx.conf", text);
    server.signal(Signal::Hangup);
}

#[test]
fn servers_of_grpc_are_asked_for_their_health() {
    let message = Arc::new(Mutex::new(b"\0\0\0\0\x02\x08\x01".to_vec()));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (said, heads) = (message.clone(), seen.clone());
    let app = Upstream::start(move |mut wire| {
        while let Some(head) = wire.head() {
            let Some(body) = wire.body(&head) else { return };
            heads
                .lock()
                .expect("no test panicked")
                .push((head[0].clone(), body));
            let body = said.lock().expect("no test panicked").clone();
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
            if wire.try_send([head.as_bytes(), &body].concat()).is_err() {
                return;
            }
        }
    });
    let [serving, refusing] = [free_port(), free_port()];
    let http = format!(
        "upstream serving {{ server 127.0.0.1:{serving}; }} upstream refusing {{ server 127.0.0.1:{refusing}; }}\n\
         server {{ listen 127.0.0.1:{serving} http2; location / {{ proxy_pass http://127.0.0.1:{}; add_trailer grpc-status 0; }} }}\n\
         server {{ listen 127.0.0.1:{refusing} http2; location / {{ add_header grpc-status 12; return 200; }} }}",
        app.port
    );
    let server = start(
        &http,
        "location /a { grpc_pass grpc://serving; health_check interval=20ms mandatory type=grpc grpc_service=shop; }\n\
         location /b { grpc_pass refusing; health_check interval=20ms mandatory type=grpc grpc_status=12; }\n\
         location /c { grpc_pass refusing; }",
    );
    becomes(&server, "/a", 200);
    becomes(&server, "/b", 200);
    assert_eq!(ask(server.port, "/c").status, 200);
    let (line, body) = seen.lock().expect("no test panicked")[0].clone();
    assert_eq!(line, "POST /grpc.health.v1.Health/Check HTTP/1.1");
    assert_eq!(body, b"\0\0\0\0\x06\x0a\x04shop");
    *message.lock().expect("no test panicked") = b"\0\0\0\0\x02\x08\x02".to_vec();
    becomes(&server, "/a", 502);
}

#[test]
fn servers_that_speak_cgi_are_checked() {
    // The application of this group is not one: it closes each connection.
    let gone = Upstream::start(|_| {});
    let alive = Checked::start("alive");
    let server = start(
        &format!(
            "upstream app {{ server 127.0.0.1:{}; }} upstream web {{ server 127.0.0.1:{}; }}",
            gone.port, alive.port
        ),
        "location / { fastcgi_pass app; health_check interval=20ms mandatory; fastcgi_param SCRIPT_FILENAME /x; }\n\
         location /web { proxy_pass http://web; health_check interval=20ms; }",
    );
    becomes(&server, "/web", 200);
    let connections = gone.connections();
    eventually(
        "checks",
        || gone.connections() > connections + 1,
        || server.stderr(),
    );
    assert_eq!(ask(server.port, "/").status, 502);
}
