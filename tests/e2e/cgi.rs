//! `transport scgi` and `transport uwsgi` with scripted applications, and with uWSGI itself if it is installed. What
//! they share with FastCGI is tested in `fastcgi`.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};

use crate::client::{Client, exchange};
use crate::harness::{Folder, Server, TIMEOUT, eventually, free_port, text};
use crate::support::abilities::{skipped, tried};
use crate::support::cgi::{read_scgi, read_uwsgi};
use crate::support::fastcgi::Asked;
use crate::support::program::Program;
use crate::support::python::Python;
use crate::upstream::{Upstream, dead};
use crate::wire::Wire;

/// The two protocols.
const BOTH: [&str; 2] = ["scgi", "uwsgi"];

fn read(protocol: &str, wire: &mut Wire) -> Option<Asked> {
    match protocol {
        "scgi" => read_scgi(wire),
        _ => read_uwsgi(wire).map(|(asked, _)| asked),
    }
}

/// An application that responds to each request with these bytes and closes the connection.
fn responding(protocol: &'static str, bytes: impl AsRef<[u8]>) -> (Upstream, Receiver<Asked>) {
    let (sender, asked) = sync_channel(100);
    let bytes = bytes.as_ref().to_vec();
    let upstream = Upstream::start(move |mut wire| {
        if let Some(request) = read(protocol, &mut wire) {
            let _ = sender.send(request);
            let _ = wire.try_send(&bytes);
        }
    });
    (upstream, asked)
}

fn site(protocol: &str, ports: &[u16], transport: &str, block: &str) -> String {
    let to: String = ports
        .iter()
        .map(|port| format!(" 127.0.0.1:{port}"))
        .collect();
    format!(
        "{{\n\tadmin off\n}}\n:{{port}} {{\n\treverse_proxy{to} {{\n\t\ttransport {protocol} {{\n\t\t\troot /srv/app\n\
         {transport}\n\t\t}}\n{block}\n\t}}\n}}\n"
    )
}

fn last(asked: &Receiver<Asked>) -> Asked {
    asked.recv_timeout(TIMEOUT).expect("it was asked")
}

const OK: &str = "Status: 200 OK\r\nContent-Type: text/plain\r\n\r\nok";

#[test]
fn applications_are_asked_as_by_fastcgi() {
    for protocol in BOTH {
        let (upstream, asked) = responding(protocol, OK);
        let transport = "split .py\nenv APP_MODE {method}\nenv SERVER_ADMIN me";
        let server = Server::start(&site(protocol, &[upstream.port], transport, ""));
        for (method, body) in [("GET", ""), ("POST", "a=b&c=d")] {
            let length = body.len();
            let response = exchange(
                server.port,
                format!(
                    "{method} /x/a.py/info?q=1 HTTP/1.1\r\nHost: site.test\r\nX-One: 1\r\nX-One: 2\r\n\
                     X_One: 3\r\nProxy: evil\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
                ),
            );
            assert_eq!((response.status, response.text().as_str()), (200, "ok"));
            let asked = last(&asked);
            for (name, value) in [
                ("CONTENT_LENGTH", length.to_string().as_str()),
                ("REQUEST_METHOD", method),
                ("SCRIPT_NAME", "/x/a.py"),
                ("SCRIPT_FILENAME", "/srv/app/x/a.py"),
                ("PATH_INFO", "/info"),
                ("QUERY_STRING", "q=1"),
                ("REQUEST_URI", "/x/a.py/info?q=1"),
                ("HTTP_HOST", "site.test"),
                ("HTTP_X_ONE", "1, 2"),
                ("APP_MODE", method),
                ("SERVER_ADMIN", "me"),
                ("SERVER_PROTOCOL", "HTTP/1.1"),
                ("REMOTE_ADDR", "127.0.0.1"),
            ] {
                assert_eq!(asked.param(name), Some(value), "{protocol} {name}");
            }
            assert_eq!(asked.param("HTTP_PROXY"), None);
            let mut names: Vec<_> = asked.params.iter().map(|(name, _)| name).collect();
            let count = names.len();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), count, "{protocol}: no name comes twice");
            assert_eq!(asked.body, body.as_bytes());
        }
    }
}

#[test]
fn without_endings_of_scripts_all_of_the_path_is_for_the_application() {
    let (sender, received) = sync_channel(1);
    let upstream = Upstream::start(move |mut wire| {
        if let Some((asked, modifiers)) = read_uwsgi(&mut wire) {
            let _ = sender.send((asked, modifiers));
            let _ = wire.try_send("HTTP/1.1 200 OK\r\n\r\n");
        }
    });
    let transport = "modifier1 14\nmodifier2 3";
    let server = Server::start(&site("uwsgi", &[upstream.port], transport, ""));
    assert_eq!(server.ask("/a%20b/c").status, 200);
    let (asked, modifiers) = received.recv_timeout(TIMEOUT).expect("it was asked");
    assert_eq!(asked.param("PATH_INFO"), Some("/a b/c"));
    assert_eq!(asked.param("SCRIPT_NAME"), Some(""));
    assert_eq!(modifiers, [14, 3]);
}

#[test]
fn responses_have_a_status_line_or_a_cgi_head() {
    for protocol in BOTH {
        for (bytes, status, body) in [
            (OK, 200, "ok"),
            ("HTTP/1.1 404 Not Found\r\nX: y\r\n\r\nlost", 404, "lost"),
            ("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, "ok"),
            ("Content-Type: text/plain\n\nplain", 200, "plain"),
            ("Location: /x\r\n\r\n", 302, ""),
            ("HTTP/1.1 204 No Content\r\n\r\n", 204, ""),
        ] {
            let (upstream, _asked) = responding(protocol, bytes);
            let server = Server::start(&site(protocol, &[upstream.port], "", ""));
            let response = server.ask("/");
            assert_eq!(
                (response.status, response.text().as_str()),
                (status, body),
                "{protocol}: {bytes}"
            );
        }
    }
}

#[test]
fn an_incomplete_response_is_not_presented_as_complete() {
    for protocol in BOTH {
        for bytes in [
            "",
            "garbage\r\n\r\n",
            "HTTP/1.1 200 OK\r\n",
            "HTTP/1.1 100 Continue\r\n\r\n",
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
            "Status: 200\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
            "Status: 200\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok",
        ] {
            let (upstream, _asked) = responding(protocol, bytes);
            let server = Server::start(&site(protocol, &[upstream.port], "", ""));
            assert_eq!(server.ask("/").status, 502, "{protocol}: {bytes}");
        }
        // The head declares a length, and fewer bytes follow.
        let (upstream, _asked) =
            responding(protocol, "Status: 200\r\nContent-Length: 9\r\n\r\nhalf");
        let server = Server::start(&site(protocol, &[upstream.port], "", ""));
        let mut client = Client::connect(server.port);
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(client.try_response().is_err(), "{protocol}: half an answer");
    }
}

#[test]
fn variables_that_do_not_fit_are_refused_and_bodies_without_length_are_measured() {
    for protocol in BOTH {
        let (upstream, asked) = responding(protocol, OK);
        let transport = "env FILLED {query.fill}";
        let server = Server::start(&site(protocol, &[upstream.port], transport, ""));
        // An application in C would see the text end there.
        assert_eq!(server.ask("/?fill=a%00b").status, 400, "{protocol}");
        let response = exchange(
            server.port,
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n\
             3\r\nabc\r\n0\r\n\r\n",
        );
        assert_eq!(response.status, 200);
        let asked = last(&asked);
        assert_eq!(asked.param("CONTENT_LENGTH"), Some("3"));
        assert_eq!(asked.body, b"abc");
    }
    let (upstream, _asked) = responding("uwsgi", OK);
    let many: String = (0..10)
        .map(|n| format!("env F{n} {{query.fill}}\n"))
        .collect();
    let server = Server::start(&site("uwsgi", &[upstream.port], &many, ""));
    let long = format!("/?fill={}", "x".repeat(7_000));
    assert_eq!(server.ask(&long).status, 431);
    assert_eq!(server.ask("/?fill=x").status, 200);
}

#[test]
fn no_connection_is_used_twice_and_others_take_over() {
    for protocol in BOTH {
        let (upstream, _asked) = responding(protocol, OK);
        let ports = [dead(), upstream.port];
        let block = "lb_policy first\nlb_retries 1\nfail_duration 30s";
        let server = Server::start(&site(protocol, &ports, "", block));
        for _ in 0..3 {
            assert_eq!(server.ask("/").text(), "ok");
        }
        assert_eq!(upstream.connections(), 3, "{protocol}");
    }
}

#[test]
fn applications_are_health_checked_and_responses_handled() {
    for protocol in BOTH {
        let checks = Arc::new(AtomicUsize::new(0));
        let counted = checks.clone();
        let upstream = Upstream::start(move |mut wire| {
            if let Some(asked) = read(protocol, &mut wire) {
                let status = match asked.param("PATH_INFO") {
                    Some("/well") => {
                        counted.fetch_add(1, Ordering::Relaxed);
                        200
                    }
                    Some("/ill") => 503,
                    Some("/gone") => 404,
                    _ => 200,
                };
                let _ = wire.try_send(format!("Status: {status}\r\n\r\napp"));
            }
        });
        let block =
            "@gone status 404\nreplace_status @gone 410\nhealth_uri /ill\nhealth_interval 50ms";
        let server = Server::start(&site(protocol, &[upstream.port], "", block));
        eventually(
            "it is found ill",
            || server.ask("/").status == 503,
            || server.stderr(),
        );
        let block =
            "@gone status 404\nreplace_status @gone 410\nhealth_uri /well\nhealth_interval 50ms";
        let server = Server::start(&site(protocol, &[upstream.port], "", block));
        assert_eq!(server.ask("/gone").status, 410);
        let is_checked = || checks.load(Ordering::Relaxed) >= 3;
        eventually("checks", is_checked, || server.stderr());
        assert_eq!(server.ask("/").status, 200);
    }
}

#[test]
fn an_upload_and_a_response_of_megabytes_pass() {
    for protocol in BOTH {
        let upstream = Upstream::start(move |mut wire| {
            if let Some(asked) = read(protocol, &mut wire) {
                let _ = wire.try_send("HTTP/1.1 200 OK\r\n\r\n");
                let _ = wire.try_send(&asked.body);
            }
        });
        let server = Server::start(&site(protocol, &[upstream.port], "", ""));
        let body: Vec<u8> = (0..3_000_000_u32).map(|n| n.to_le_bytes()[1]).collect();
        let mut request = format!(
            "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            body.len()
        )
        .into_bytes();
        request.extend_from_slice(&body);
        let response = exchange(server.port, request);
        assert_eq!(response.status, 200);
        assert!(
            response.body == body,
            "{protocol}: it comes back as it went"
        );
    }
}

/// A uWSGI that can run Python applications: the program in `SLUICE_UWSGI`, an installed one, or the Python package
/// `pyuwsgi`. With it, the arguments for Python: in Debian it is a separate plugin. If there is none, the test is
/// reported as skipped.
fn find() -> Option<(PathBuf, &'static [&'static str])> {
    if let Some(named) = std::env::var_os("SLUICE_UWSGI") {
        let found = with_python(named.into());
        if found.is_none() {
            skipped("SLUICE_UWSGI names no uWSGI that runs Python");
        }
        return found;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut installed = std::env::split_paths(&path)
        .map(|folder| folder.join("uwsgi"))
        .filter(|program| program.is_file());
    installed
        .find_map(with_python)
        .or_else(|| with_python(Python::find()?.program("pyuwsgi")))
}

/// The program and the arguments with which it runs Python applications, if it can.
fn with_python(program: PathBuf) -> Option<(PathBuf, &'static [&'static str])> {
    let ways: [&[&str]; 3] = [&[], &["--plugin", "python3"], &["--plugin", "python"]];
    let way = ways.into_iter().find(|way| {
        let output = tried(
            &program.to_string_lossy(),
            &[*way, &["--help"][..]].concat(),
        );
        let help = output.map_or_else(String::new, |output| text(&output.stdout));
        // The help lists the options of the plugins that were found, and no others.
        ["--wsgi-file", "--scgi-socket", "--uwsgi-socket"]
            .iter()
            .all(|option| help.contains(option))
    })?;
    Some((program, way))
}

const APPLICATION: &str = "\
def application(environ, start_response):
    body = environ['wsgi.input'].read(int(environ.get('CONTENT_LENGTH') or 0))
    if environ['PATH_INFO'] == '/large':
        start_response('200 OK', [('Content-Type', 'text/plain')])
        return [b'x' * 100000 for _ in range(20)]
    text = '|'.join([environ['REQUEST_METHOD'], environ['SCRIPT_NAME'], environ['PATH_INFO'],
        environ['QUERY_STRING'], environ.get('HTTP_X_ONE', ''), environ['wsgi.url_scheme'], body.decode()])
    start_response('201 Made', [('Content-Type', 'text/plain'), ('X-App', 'wsgi')])
    return [text.encode()]
";

#[test]
fn uwsgi_itself_is_understood() {
    let Some((program, way)) = find() else {
        return;
    };
    for (protocol, option) in [("scgi", "--scgi-socket"), ("uwsgi", "--uwsgi-socket")] {
        let folder = Folder::new();
        folder.write("app.py", APPLICATION);
        let port = free_port();
        let mut command = Command::new(&program);
        command
            .current_dir(folder.path())
            .args(way)
            .args(["--master", "--die-on-term", "--processes", "2"])
            .args([
                option,
                &format!("127.0.0.1:{port}"),
                "--wsgi-file",
                "app.py",
            ]);
        let _uwsgi = Program::start(&mut command, folder.path().join("log")).listening(port);
        let server = Server::start(&site(protocol, &[port], "", ""));
        let response = exchange(
            server.port,
            "POST /a%20b/c?q=1 HTTP/1.1\r\nHost: site.test\r\nX-One: 1\r\nContent-Length: 5\r\n\
             Connection: close\r\n\r\nhello",
        );
        assert_eq!(
            (response.status, response.text().as_str()),
            (201, "POST||/a b/c|q=1|1|http|hello"),
            "{protocol}: {}",
            folder.read("log")
        );
        assert_eq!(response.field("X-App"), Some("wsgi"));
        let large = server.ask("/large");
        assert_eq!((large.status, large.body.len()), (200, 2_000_000));
        println!("{protocol}: uWSGI was asked and answered");
    }
}
