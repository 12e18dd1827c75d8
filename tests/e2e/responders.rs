//! FastCGI applications with independent implementations of the protocol: Go's `net/http/fcgi` and the C library of
//! FastCGI's authors. Each is built here; if a compiler or the library is missing, the test is reported as skipped. PHP
//! is tested in `php`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::client::{Client, exchange};
use crate::harness::{Folder, Server, eventually, free_port};
use crate::support::abilities::skipped;
use crate::support::program::Program;

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/data/responders")
        .join(name)
}

/// Builds a program; `None` if something it needs is not installed.
fn build(compiler: &str, args: &[&str], needs: &str) -> Option<()> {
    let output = Command::new(compiler)
        .args(args)
        .stdin(Stdio::null())
        .output();
    match output {
        Ok(output) if output.status.success() => Some(()),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let is_missing = said.contains("fcgiapp.h") || said.contains("lfcgi");
            assert!(is_missing, "{compiler} {args:?}: {said}");
            skipped(needs);
            None
        }
        Err(_) => {
            skipped(needs);
            None
        }
    }
}

fn site(upstream: &str) -> Server {
    Server::start(&format!(
        "{{\n\tadmin off\n}}\n:{{port}} {{\n\treverse_proxy {upstream} {{\n\t\ttransport fastcgi {{\n\t\t\troot /srv\n\
         \t\t\tenv APP_MODE test\n\t\t\tcapture_stderr\n\t\t}}\n\t}}\n}}\n"
    ))
}

/// The requests that every application has to handle.
fn is_understood(server: &Server, name: &str) {
    let response = exchange(
        server.port,
        "POST /a/b?q=1 HTTP/1.1\r\nHost: site.test\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello",
    );
    assert_eq!(
        (response.status, response.text().as_str()),
        (202, "POST /a/b q=1 site.test test hello"),
        "{name}"
    );
    let body: Vec<u8> = (0..1_500_000_u32).map(|n| n.to_le_bytes()[1]).collect();
    let mut request = format!(
        "POST /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    request.extend_from_slice(&body);
    assert!(
        exchange(server.port, request).body == body,
        "{name}: it comes back as it went"
    );
    let began = Instant::now();
    let port = server.port;
    let clients: Vec<_> = (0..8)
        .map(|_| {
            thread::spawn(move || {
                let mut client = Client::connect(port);
                for _ in 0..50 {
                    let response = client.get("/hello");
                    assert_eq!(
                        (
                            response.status,
                            response.text().as_str(),
                            response.field("Connection")
                        ),
                        (200, "Hello World\n", None)
                    );
                }
            })
        })
        .collect();
    for client in clients {
        client.join().expect("every client gets its answers");
    }
    println!(
        "{name}: 400 answers to 8 clients at once in {:?}",
        began.elapsed()
    );
    assert!(
        began.elapsed() < Duration::from_secs(60),
        "nobody is locked out"
    );
}

#[test]
fn an_application_in_go_is_understood() {
    let folder = Folder::new();
    let program = folder.path().join("answer");
    let (out, from) = (
        program.display().to_string(),
        source("answer.go").display().to_string(),
    );
    if build("go", &["build", "-o", &out, &from], "Go is not installed").is_none() {
        return;
    }
    let socket = folder.path().join("app.sock");
    let port = free_port();
    for (network, listens, upstream) in [
        (
            "tcp",
            format!("127.0.0.1:{port}"),
            format!("127.0.0.1:{port}"),
        ),
        (
            "unix",
            socket.display().to_string(),
            format!("unix/{}", socket.display()),
        ),
    ] {
        let mut command = Command::new(&program);
        command.args([network, &listens]);
        let _application = Program::start(&mut command, folder.path().join("log"));
        let server = site(&upstream);
        eventually(
            "the application listens",
            || server.ask("/hello").status == 200,
            || server.stderr(),
        );
        is_understood(&server, &format!("Go over {network}"));
    }
}

#[test]
fn an_application_in_c_is_understood() {
    let folder = Folder::new();
    let program = folder.path().join("answer");
    let (out, from) = (
        program.display().to_string(),
        source("answer.c").display().to_string(),
    );
    let needs =
        "no C compiler or no libfcgi is installed; Debian has them as packages gcc and libfcgi-dev";
    if build("cc", &["-o", &out, &from, "-lfcgi"], needs).is_none() {
        return;
    }
    let socket = folder.path().join("app.sock");
    let mut command = Command::new(&program);
    let _application = Program::start(command.arg(&socket), folder.path().join("log"));
    let server = site(&format!("unix/{}", socket.display()));
    eventually(
        "the application listens",
        || server.ask("/hello").status == 200,
        || server.stderr(),
    );
    is_understood(&server, "C over unix");
    server.wait_for_words("asked for /a/b");
}
