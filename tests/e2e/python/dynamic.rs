//! Applications that placeholders select.

use super::ws_client::handshake;
use super::{caddyfile, lives};
use crate::client::{Client, Response};
use crate::harness::{Server, Setup, eventually};
use crate::support::python::Python;
use crate::wire::Wire;

/// An application that shows its name and its process.
fn app(name: &str) -> String {
    format!(
        "import os\n\ndef app(environ, start_response):\n    start_response('200 OK', [])\n    \
         return [f'{name} {{os.getpid()}} {{os.environ.get(\"WHO\")}} {{os.environ.get(\"FROM_FILE\")}}'.encode()]\n"
    )
}

/// A server with an application for each folder of `apps/`, selected by the third label of the host.
fn start(options: &str, names: &[&str]) -> Option<Server> {
    let python = Python::find()?;
    let site = format!(
        "python {{\nmodule_wsgi main:app\nworking_dir {{folder}}/apps/{{http.request.host.labels.2}}\nvenv {}\n\
         env_var WHO {{http.request.host.labels.2}}\nenv_file .env\nworkers 1\n{options}\n}}",
        python.folder().display()
    );
    let setup = Setup::new(&caddyfile(&site));
    for name in names {
        setup
            .folder()
            .write(&format!("apps/{name}/main.py"), app(name));
        setup.folder().write(
            &format!("apps/{name}/.env"),
            format!("FROM_FILE=of-{name}\n"),
        );
    }
    setup.folder().write("outside/main.py", app("outside"));
    Some(setup.start())
}

fn ask(server: &Server, host: &str) -> Response {
    let mut client = Client::connect(server.port);
    client.send(format!(
        "GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    ));
    client.response()
}

fn process(response: &Response) -> u32 {
    let text = response.text();
    let pid = text.split(' ').nth(1).and_then(|pid| pid.parse().ok());
    pid.unwrap_or_else(|| panic!("{} {text}", response.head))
}

#[test]
fn each_host_has_an_application_of_its_own() {
    let Some(server) = start("", &["one", "two"]) else {
        return;
    };
    let one = ask(&server, "one.example.org");
    assert!(
        one.text().starts_with("one ") && one.text().ends_with(" one of-one"),
        "{}",
        one.text()
    );
    let two = ask(&server, "two.example.org");
    assert!(
        two.text().starts_with("two ") && two.text().ends_with(" two of-two"),
        "{}",
        two.text()
    );
    assert_eq!(process(&ask(&server, "ONE.example.org")), process(&one));
}

#[test]
fn a_host_cannot_leave_the_folder() {
    let Some(server) = start("", &["one"]) else {
        return;
    };
    for host in [
        "none.example.org",
        "..example.org",
        "..%2foutside.example.org",
        "a\\b.example.org",
    ] {
        let response = ask(&server, host);
        assert!(
            matches!(response.status, 400 | 404),
            "{host}: {} {}",
            response.head,
            response.text()
        );
    }
    assert_eq!(ask(&server, "one.example.org").status, 200);
}

/// A WebSocket keeps its application in use: it is not the one that makes room.
#[test]
fn an_application_with_a_websocket_does_not_make_room() {
    let Some(python) = Python::find() else { return };
    let site = format!(
        "python {{\nmodule_asgi asgi:app\nworking_dir {{folder}}/apps/{{http.request.host.labels.2}}\nvenv {}\n\
         workers 1\nmax_dynamic_apps 1\n}}",
        python.folder().display()
    );
    let setup = Setup::new(&caddyfile(&site));
    let app = std::fs::read_to_string(super::apps().join("asgi.py")).expect("it is there");
    for name in ["one", "two"] {
        setup.folder().write(&format!("apps/{name}/asgi.py"), &app);
    }
    let server = setup.start();
    let mut wire = Wire::connect(server.port);
    wire.send(handshake("/ws", "").replace("Host: localhost", "Host: one.example.org"));
    let head = wire.head().expect("a response");
    assert!(head[0].starts_with("HTTP/1.1 101 "), "{head:?}");
    assert_eq!(ask(&server, "two.example.org").status, 503);
    drop(wire);
    let status = || ask(&server, "two.example.org").status;
    eventually("there is room", || status() == 200, || status().to_string());
}

#[test]
fn the_oldest_idle_application_makes_room() {
    let Some(server) = start("max_dynamic_apps 2", &["one", "two", "three"]) else {
        return;
    };
    let one = process(&ask(&server, "one.example.org"));
    let two = process(&ask(&server, "two.example.org"));
    assert_eq!(process(&ask(&server, "one.example.org")), one);
    let three = process(&ask(&server, "three.example.org"));
    eventually("the oldest one ends", || !lives(two), || two.to_string());
    assert!(lives(one) && lives(three));
}

#[test]
fn an_application_that_does_not_start_gets_503_and_others_go_on() {
    let Some(server) = start("", &["one", "two"]) else {
        return;
    };
    server
        .folder
        .write("apps/two/main.py", "raise RuntimeError('on purpose')\n");
    let response = ask(&server, "two.example.org");
    assert_eq!(response.status, 503);
    assert!(response.field("Retry-After").is_some(), "{}", response.head);
    server.wait_for_words("RuntimeError: on purpose");
    assert_eq!(ask(&server, "one.example.org").status, 200);
}
