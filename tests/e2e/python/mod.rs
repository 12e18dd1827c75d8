//! Python applications in the real binary, over raw sockets: the three of study 002 with its Caddyfiles, frameworks, each
//! part of WSGI and ASGI, WebSockets, applications that break the rules or die, and what a server does meanwhile.

mod accelerator;
mod asgi;
mod bad;
mod chromium;
mod command;
mod compression;
mod dynamic;
mod frameworks;
mod limits;
mod load;
mod memory;
mod options;
mod soak;
mod studies;
mod supervision;
mod validation;
mod websocket;
pub mod ws_client;
mod wsgi;

use std::path::{Path, PathBuf};

use crate::client::{Client, Response, exchange};
use crate::harness::{Server, Setup, run_to_end, text};
use crate::support::python::Python;

/// The folder of the test applications.
fn apps() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/python/apps");
    folder.canonicalize().expect("the applications are there")
}

/// A Caddyfile with a site whose block is `site`, and an admin endpoint.
fn caddyfile(site: &str) -> String {
    format!(
        "{{\n\tadmin localhost:{{admin}}\n\tservers {{\n\t\tprotocols h1 h2c\n\t}}\n}}\n\
         :{{port}} {{\n\tlog {{\n\t\toutput file {{folder}}/access.log\n\t}}\n{site}\n}}\n"
    )
}

/// The directive for a test application with these options, and one worker process unless they say otherwise.
fn directive(python: &Python, options: &str) -> String {
    let workers = match options.contains("workers ") {
        true => "",
        false => "workers 1\n",
    };
    format!(
        "python {{\n{options}\n{workers}venv {}\nworking_dir {}\nenv_var PYTHONDONTWRITEBYTECODE 1\n}}",
        python.folder().display(),
        apps().display()
    )
}

/// Starts a server with one application; `None` if this machine has no Python with the packages.
fn start(options: &str) -> Option<Server> {
    let python = Python::find()?;
    Some(Server::start(&caddyfile(&directive(&python, options))))
}

/// A setup whose folder has copies of some test applications in `app/`, for tests that change them.
fn setup_with_copies(names: &[&str], site: &str) -> Setup {
    let setup = Setup::new(&caddyfile(site));
    for name in names {
        let text = std::fs::read_to_string(apps().join(name)).expect("the application is there");
        setup.folder().write(&format!("app/{name}"), text);
    }
    setup
}

/// A POST of `body` on a connection of its own.
fn post(port: u16, path: &str, body: &[u8]) -> Response {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let mut client = Client::connect(port);
    client.send(head);
    // An application may respond before it has read all of it.
    let _ = client.try_send(body);
    client.response()
}

/// So many bytes without a period of a power of two.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8).collect()
}

/// What the applications' `/digest` says about a body.
fn digest(body: &[u8]) -> String {
    let mut crc = flate2::Crc::new();
    crc.update(body);
    format!("{} {:08x}", body.len(), crc.sum())
}

/// The lines of the server's log with this text.
fn lines_with(server: &Server, text: &str) -> Vec<String> {
    let log = server.stderr();
    let lines = log.lines().filter(|line| line.contains(text));
    lines.map(str::to_owned).collect()
}

/// The PID of the process that serves a path which shows it.
fn pid(server: &Server) -> u32 {
    let text = server.ask("/pid").text();
    text.parse()
        .unwrap_or_else(|_| panic!("{text} is not a PID"))
}

/// A GET with these header lines on a connection of its own.
fn get(port: u16, path: &str, lines: &str) -> Response {
    exchange(
        port,
        format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{lines}Connection: close\r\n\r\n"),
    )
}

/// Whether a process exists.
fn lives(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    // A zombie has ended; its parent has only not looked yet.
    stat.is_ok_and(|stat| {
        !stat
            .rsplit(')')
            .next()
            .unwrap_or_default()
            .starts_with(" Z")
    })
}

/// Kills a process.
fn kill(pid: u32) {
    let status = std::process::Command::new("kill")
        .args(["-9", &pid.to_string()])
        .status();
    assert!(status.expect("kill is there").success());
}

/// The value of a metric of the only application.
fn metric(server: &Server, name: &str) -> u64 {
    let page = server.metrics();
    let line = page
        .lines()
        .find(|line| line.starts_with(&format!("{name}{{")));
    let value = line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    value.unwrap_or_else(|| panic!("no {name} in {page}")) as u64
}

/// The message of a server that does not start with this site.
fn refused(site: &str) -> String {
    let setup = Setup::new(&caddyfile(site));
    let output = run_to_end(setup.folder(), &["run"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    said
}

/// The groups and processes that the admin endpoint shows.
fn applications(server: &Server) -> serde_json::Value {
    let request = format!(
        "GET /python/applications HTTP/1.1\r\nHost: localhost:{}\r\nConnection: close\r\n\r\n",
        server.admin
    );
    let shown = exchange(server.admin, request);
    serde_json::from_slice(&shown.body).expect("it is JSON")
}
