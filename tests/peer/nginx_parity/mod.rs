//! Raw requests to sluice and to an installed nginx with the same configuration. Unlike in `nginx`, the status line, the
//! spelling of header names and each value count.

mod cases;
mod variables;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use crate::peer::nginx::run;
use crate::peer::peers::{Site, free_port, sluice};
use crate::support::servers;

/// A configuration and the requests to it.
pub(super) struct Case {
    name: &'static str,
    /// What stands in `http`; `PORT`, `DIR` and `UPSTREAM` are filled in.
    http: &'static str,
    /// Files below `DIR`.
    files: &'static [(&'static str, &'static str)],
    /// Responses of the upstream by target. Others are an echo of the request head.
    upstream: &'static [(&'static str, &'static str)],
    /// Requests as sent; each ends its connection.
    requests: &'static [&'static str],
    /// What differs on purpose: the request, a word of the differing line, and why.
    accepted: &'static [(&'static str, &'static str, &'static str)],
}

/// A case without files, upstream and accepted differences.
pub(super) const PLAIN: Case = Case {
    name: "",
    http: "",
    files: &[],
    upstream: &[],
    requests: &[],
    accepted: &[],
};

/// An upstream with the responses of a case.
fn upstream(responses: &'static [(&'static str, &'static str)]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("it is bound").port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || respond(stream, responses));
        }
    });
    port
}

fn respond(mut stream: TcpStream, responses: &[(&str, &str)]) {
    let mut head = String::new();
    let mut reader = BufReader::new(stream.try_clone().expect("a socket has a copy"));
    while let Ok(1..) = reader.read_line(&mut head) {
        if head.ends_with("\r\n\r\n") {
            break;
        }
    }
    let target = head.split(' ').nth(1).unwrap_or_default();
    let known = responses.iter().find(|(known, _)| *known == target);
    let response = match known {
        Some((_, response)) => (*response).to_owned(),
        None => format!(
            "HTTP/1.1 200 OK\r\nX-Line: {}\r\nConnection: close\r\nContent-Length: 2\r\n\r\nup",
            head.lines().next().unwrap_or_default()
        ),
    };
    let _ = stream.write_all(response.as_bytes());
}

fn conf(dir: &Path, case: &Case, port: u16, upstream: u16, is_nginx: bool) -> String {
    let temporary = match is_nginx {
        true => ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|name| format!("{name}_temp_path {}/nginx-temp;\n", dir.display()))
            .concat(),
        false => String::new(),
    };
    let (user, tokens) = match is_nginx {
        true => (
            "user root;\ndaemon off;\nmaster_process off;\n",
            "server_tokens off;",
        ),
        false => ("", "server_tokens \"nginx\";"),
    };
    let own = case
        .http
        .replace("PORT", &port.to_string())
        .replace("UPSTREAM", &format!("127.0.0.1:{upstream}"))
        .replace("DIR", &dir.display().to_string());
    format!(
        "{user}worker_processes 1;\npid {0}/parity.pid;\nerror_log {0}/parity-errors.log;\n\
         events {{ worker_connections 512; }}\nhttp {{\n{temporary}{tokens}\naccess_log off;\n{own}\n}}\n",
        dir.display()
    )
}

/// The lines of a response that are compared: its status line, its header, its body.
fn heard(port: u16, request: &str) -> BTreeSet<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the server listens");
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .expect("a timeout can be set");
    stream.write_all(request.as_bytes()).expect("it is read");
    let mut raw = Vec::new();
    // A rejection may end with a reset; what was received before counts.
    let _ = stream.read_to_end(&mut raw);
    let text = String::from_utf8_lossy(&raw).replace(&format!(":{port}"), ":PORT");
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let is_chunked = head.contains("Transfer-Encoding: chunked");
    let is_compared = |line: &&str| {
        !line.starts_with("Date: ")
            && !line.starts_with("Server: ")
            && !line.starts_with("Transfer-Encoding: ")
            && !line.starts_with("Content-Length: ")
    };
    let mut lines: BTreeSet<String> = head
        .lines()
        .filter(is_compared)
        .map(str::to_owned)
        .collect();
    // Compressors differ, and so does what is sent in chunks; that there is a body does not.
    lines.insert(match is_chunked || head.contains("Content-Encoding") {
        true => format!("body: {}", !body.is_empty()),
        false => format!("body: {body}"),
    });
    lines
}

#[test]
#[ignore = "a slower kind: cargo xtask peer"]
fn raw_responses_equal_those_of_nginx() {
    let Some(nginx) = servers::nginx() else {
        return;
    };
    let (mut requests, mut failures) = (0, Vec::new());
    for case in cases::CASES {
        let site = Site::new();
        for (name, content) in case.files {
            site.write(name, content);
        }
        let upstream = upstream(case.upstream);
        let start = |program: &Path, is_nginx| {
            let port = free_port();
            let text = conf(site.dir(), case, port, upstream, is_nginx);
            run(&site, program, case.name, &text, port, is_nginx)
        };
        let (theirs, ours) = (start(&nginx, true), start(&sluice(), false));
        let mut unused: BTreeSet<usize> = (0..case.accepted.len()).collect();
        for request in case.requests {
            requests += 1;
            let (expected, found) = (heard(theirs.port, request), heard(ours.port, request));
            for line in expected.symmetric_difference(&found) {
                let position = case
                    .accepted
                    .iter()
                    .position(|(asked, word, _)| asked == request && line.contains(word));
                match position {
                    Some(index) => _ = unused.remove(&index),
                    None => failures.push(format!(
                        "{}: {request:?}\n    {} {line:?}",
                        case.name,
                        if found.contains(line) {
                            "sluice"
                        } else {
                            "nginx "
                        }
                    )),
                }
            }
        }
        for index in unused {
            let (request, word, _) = case.accepted[index];
            failures.push(format!(
                "{}: {request:?}: {word} no longer differs",
                case.name
            ));
        }
    }
    println!("{requests} requests compared with {}", nginx.display());
    assert!(
        failures.is_empty(),
        "{} differences:\n{}",
        failures.len(),
        failures.join("\n")
    );
    assert!(requests >= 34, "the yardstick got shorter");
}
