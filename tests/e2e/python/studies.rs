//! The six Caddyfiles of study 002 as printed: only ports and paths are replaced.

use std::process::{Child, Command, Stdio};

use super::apps;
use crate::client::Client;
use crate::harness::{Server, Setup, free_port};
use crate::support::python::Python;

const HELLO: &str = r#"{"message":"Hello, World!"}"#;

/// Starts a server in a folder with the three applications and `./venv`, as the study's Caddyfiles expect it.
fn start(python: &Python, text: &str) -> Server {
    assert!(text.contains("localhost:9080 {"), "the study is as printed");
    let https = free_port();
    let text = text
        .replace("9080", "{port}")
        .replace("9443", &https.to_string());
    let setup = Setup::new(&text);
    for name in ["app_flask.py", "app_fastapi.py", "app_esgi.py"] {
        let app = std::fs::read_to_string(apps().join(name)).expect("the application is there");
        setup.folder().write(name, app);
    }
    let venv = setup.folder().path().join("venv");
    std::os::unix::fs::symlink(python.folder(), venv).expect("the folder is writable");
    setup.start()
}

fn says_hello(server: &Server) {
    let mut client = Client::connect(server.port);
    for _ in 0..3 {
        let response = client.get("/hello");
        assert_eq!(response.status, 200, "{}", response.head);
        // Flask ends it with a line.
        assert_eq!(response.text().trim_end(), HELLO);
        assert_eq!(response.field("Content-Type"), Some("application/json"));
    }
    assert_eq!(client.get("/none").status, 404);
}

#[test]
fn flask_embedded() {
    let Some(python) = Python::find() else { return };
    let text = include_str!("../../data/studies/002-flask-embedded.Caddyfile");
    says_hello(&start(&python, text));
}

#[test]
fn fastapi_embedded() {
    let Some(python) = Python::find() else { return };
    let text = include_str!("../../data/studies/002-fastapi-embedded.Caddyfile");
    says_hello(&start(&python, text));
}

#[test]
fn esgi_embedded() {
    let Some(python) = Python::find() else { return };
    let text = include_str!("../../data/studies/002-esgi-embedded.Caddyfile");
    says_hello(&start(&python, text));
}

/// A program that is killed with its test.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a Python server in the folder of the applications.
fn program(python: &Python, name: &str, args: &[&str]) -> Program {
    let child = Command::new(python.program(name))
        .args(args)
        .current_dir(apps())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    Program(child.expect("the environment has it"))
}

#[test]
fn flask_proxied() {
    let Some(python) = Python::find() else { return };
    let port = free_port();
    let bind = format!("127.0.0.1:{port}");
    let args = [
        "--workers",
        "1",
        "--threads",
        "4",
        "--bind",
        &bind,
        "app_flask:app",
    ];
    let _gunicorn = program(&python, "gunicorn", &args);
    let text = include_str!("../../data/studies/002-flask-proxied.Caddyfile");
    let mut server = start(&python, &text.replace("8000", &port.to_string()));
    server.wait_for_port(port);
    says_hello(&server);
}

#[test]
fn fastapi_proxied() {
    let Some(python) = Python::find() else { return };
    let port = free_port().to_string();
    let _uvicorn = program(&python, "uvicorn", &["--port", &port, "app_fastapi:app"]);
    let text = include_str!("../../data/studies/002-fastapi-proxied.Caddyfile");
    let mut server = start(&python, &text.replace("8000", &port));
    server.wait_for_port(port.parse().expect("it is one"));
    says_hello(&server);
}

/// The study proxies to Caddy Snake's own gevent server on a Unix socket; here it is sluice that embeds it there.
#[test]
fn esgi_proxied() {
    let Some(python) = Python::find() else { return };
    let Some(upstream) = super::start("module_esgi app_esgi:application") else {
        return;
    };
    let text = include_str!("../../data/studies/002-esgi-proxied.Caddyfile");
    let socket = "unix//workspace/benchmarks/esgi_upstream.sock";
    assert!(text.contains(socket), "the study is as printed");
    let text = text.replace(socket, &format!("localhost:{}", upstream.port));
    says_hello(&start(&python, &text));
}
