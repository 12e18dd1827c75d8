//! Responses of upstreams: rate limits, ranges, and storing them as files.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::{setup, site, start};
use crate::client::{Response, exchange};
use crate::harness::{Server, eventually};
use crate::support::cgi::{read_scgi, read_uwsgi};
use crate::support::fastcgi::{STDERR, read_request, record, said};
use crate::upstream::{Upstream, close, respond};
use crate::wire::Wire;

fn ask(server: &Server, path: &str, fields: &str) -> Response {
    exchange(
        server.port,
        format!("GET {path} HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n{fields}\r\n"),
    )
}

#[test]
fn proxy_limit_rate_limits_how_fast_responses_are_read() {
    let large = "x".repeat(90_000);
    let origin = Upstream::responding(format!(
        "HTTP/1.1 200 OK\r\nContent-Length: 90000\r\n\r\n{large}"
    ));
    let lines = format!(
        "location /slow {{ proxy_limit_rate 40000; proxy_pass http://127.0.0.1:{0}; }}\n\
         location /by {{ proxy_limit_rate $arg_rate; proxy_pass http://127.0.0.1:{0}; }}\n\
         location /unbuffered {{ proxy_limit_rate 1; proxy_buffering off; proxy_pass http://127.0.0.1:{0}; }}",
        origin.port
    );
    let server = start(&lines, &[]);
    for (path, least) in [
        ("/slow", 900),
        ("/by?rate=40000", 900),
        ("/by?rate=0", 0),
        // As in nginx, there is no such limit without buffering.
        ("/unbuffered", 0),
    ] {
        let begun = Instant::now();
        assert_eq!(ask(&server, path, "").body.len(), 90_000, "{path}");
        // The bytes of the first second arrive at once.
        let took = begun.elapsed();
        assert!(took >= Duration::from_millis(least), "{path}: {took:?}");
    }
}

#[test]
fn parts_are_given_whether_or_not_the_upstream_gives_parts() {
    let origin = Upstream::start(|mut wire| {
        while let Some(head) = wire.head() {
            assert!(head[0].starts_with("GET "), "{head:?}");
            let text = "HTTP/1.1 200 OK\r\nETag: \"t\"\r\nCache-Control: max-age=9\r\nContent-Length: 10\r\n\r\n0123456789";
            if wire.try_send(text).is_err() {
                return;
            }
        }
    });
    let lines = format!(
        "location / {{ proxy_pass http://127.0.0.1:{0}; proxy_force_ranges on; }}\n\
         location /not {{ proxy_pass http://127.0.0.1:{0}; }}",
        origin.port
    );
    let server = start(&lines, &[]);
    let seen = |path: &str, fields: &str| {
        let response = ask(&server, path, fields);
        let range = response.field("Content-Range").unwrap_or("-").to_owned();
        (response.status, range, response.text())
    };
    let whole = (200, "-".to_owned(), "0123456789".to_owned());
    let part = (206, "bytes 2-4/10".to_owned(), "234".to_owned());
    assert_eq!(seen("/", "Range: bytes=2-4\r\n"), part);
    assert_eq!(seen("/", "Range: bytes=2-4\r\nIf-Range: \"t\"\r\n"), part);
    assert_eq!(seen("/", "Range: bytes=2-4\r\nIf-Range: \"u\"\r\n"), whole);
    assert_eq!(seen("/not", "Range: bytes=2-4\r\n"), whole);
    let plain = ask(&server, "/", "");
    assert_eq!(plain.field("Accept-Ranges"), Some("bytes"));
    let none = ask(&server, "/", "Range: bytes=10-\r\n");
    assert_eq!(
        (none.status, none.field("Content-Range"), none.field("ETag")),
        (416, Some("bytes */10"), None)
    );
}

/// An upstream whose responses are cacheable or not, by path, and the number of its requests.
fn keeping_origin() -> (Upstream, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let asked = count.clone();
    let origin = Upstream::start(move |mut wire| {
        while let Some(head) = wire.head() {
            asked.fetch_add(1, Ordering::SeqCst);
            let target = head[0].split(' ').nth(1).unwrap_or_default();
            let text = match target {
                "/kept/none" => {
                    "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone".to_owned()
                }
                "/kept/cut" => "HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\nshort".to_owned(),
                _ => format!(
                    "HTTP/1.1 200 OK\r\nLast-Modified: Mon, 01 Jan 2024 00:00:00 GMT\r\nContent-Length: 200000\r\n\r\n{}",
                    target.chars().cycle().take(200_000).collect::<String>()
                ),
            };
            if wire.try_send(text).is_err() || target == "/kept/cut" {
                return close(&mut wire);
            }
        }
    });
    (origin, count)
}

#[test]
fn proxy_store_saves_responses_as_files() {
    let (origin, count) = keeping_origin();
    let lines = format!(
        "location /kept/ {{ try_files $uri @fetch; }}\n\
         location @fetch {{ proxy_pass http://127.0.0.1:{0}; proxy_store on; proxy_store_access user:rw group:r all:r; }}\n\
         location /named {{ proxy_pass http://127.0.0.1:{0}; proxy_store {{folder}}/named/$arg_name; }}",
        origin.port
    );
    let setup = site(&lines);
    let folder = setup.folder().path().to_owned();
    let server = setup.start();
    let expected: String = "/kept/a/b".chars().cycle().take(200_000).collect();
    let kept = || ask(&server, "/kept/a/b", "").text() == expected;
    assert!(kept());
    let file = folder.join("www/kept/a/b");
    eventually("the file", || file.is_file(), || server.stderr());
    // A missing file is remembered for a moment.
    let asked = || count.load(Ordering::SeqCst);
    eventually(
        "the file to answer",
        || {
            let before = asked();
            kept() && asked() == before
        },
        || server.stderr(),
    );
    let before = asked();
    let facts = folder.join("www/kept/a/b").metadata().expect("it is there");
    assert_eq!(facts.permissions().mode() & 0o777, 0o644);
    assert_eq!(facts.mtime(), 1_704_067_200);
    let inner = folder.join("www/kept/a").metadata().expect("it is there");
    assert_eq!(
        inner.permissions().mode() & 0o700,
        0o700,
        "a folder is looked into"
    );
    // Errors and truncated responses are not stored, and HEAD does not store anything.
    assert_eq!(ask(&server, "/kept/none", "").status, 404);
    let mut cut = Wire::connect(server.port);
    cut.send("GET /kept/cut HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    cut.drain();
    let head = "HEAD /kept/head HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    // A client that is gone ends its request, perhaps before the upstream has it.
    let mut client = crate::client::Client::connect(server.port);
    client.send(head);
    eventually("all requests", || asked() == before + 3, || server.stderr());
    let names = || -> Vec<String> {
        let entries = std::fs::read_dir(folder.join("www/kept")).expect("it is there");
        let names = entries.flatten().map(|entry| entry.file_name());
        names
            .map(|name| name.to_string_lossy().into_owned())
            .collect()
    };
    eventually(
        "nothing but whole files",
        || names() == ["a"],
        || format!("{:?}", names()),
    );
    // A configured name; it cannot escape its folder.
    assert_eq!(ask(&server, "/named?name=x.txt", "").status, 200);
    eventually(
        "the file",
        || folder.join("named/x.txt").is_file(),
        || server.stderr(),
    );
    let usual = folder.join("named/x.txt").metadata().expect("it is there");
    assert_eq!(usual.permissions().mode() & 0o777, 0o600);
    assert_eq!(ask(&server, "/named?name=../escaped", "").status, 200);
    server.wait_for_words("cannot save a response as a file");
    assert!(!folder.join("escaped").exists());
}

#[test]
fn fastcgi_catch_stderr_makes_the_response_invalid() {
    let complaining = Upstream::start(|mut wire| {
        while read_request(&mut wire).is_some() {
            let mut bytes = record(STDERR, b"PHP Fatal error: no more memory");
            bytes.extend(said(b"Content-Type: text/plain\r\n\r\nhalf a page"));
            if wire.try_send(bytes).is_err() {
                return;
            }
        }
    });
    let good = Upstream::start(|mut wire| {
        while read_request(&mut wire).is_some() {
            if wire
                .try_send(said(b"Content-Type: text/plain\r\n\r\nwhole"))
                .is_err()
            {
                return;
            }
        }
    });
    let conf = format!(
        "events {{}} http {{ upstream two {{ server 127.0.0.1:{0} max_fails=0; server 127.0.0.1:{1} backup; }}\n\
         server {{ listen 127.0.0.1:{{port}};\n\
         location / {{ fastcgi_pass 127.0.0.1:{0}; fastcgi_catch_stderr \"PHP Parse\"; fastcgi_catch_stderr \"PHP Fatal\"; }}\n\
         location /next {{ fastcgi_pass two; fastcgi_catch_stderr \"PHP Fatal\"; fastcgi_next_upstream invalid_header; }}\n\
         location /not {{ fastcgi_pass 127.0.0.1:{0}; fastcgi_catch_stderr \"PHP Parse\"; }} }} }}",
        complaining.port, good.port
    );
    let server = setup(&conf).start();
    assert_eq!(ask(&server, "/", "").status, 502);
    assert_eq!(ask(&server, "/next", "").text(), "whole");
    assert_eq!(ask(&server, "/not", "").text(), "half a page");
}

#[test]
fn applications_are_dialled_from_an_address() {
    let plain = |ip: &str| format!("Status: 200 OK\r\nContent-Type: text/plain\r\n\r\n{ip}");
    let fastcgi = Upstream::start(|mut wire| {
        let ip = wire.stream().peer_addr().expect("it is connected").ip();
        while read_request(&mut wire).is_some() {
            let text = format!("Content-Type: text/plain\r\n\r\n{ip}");
            if wire.try_send(said(text.as_bytes())).is_err() {
                return;
            }
        }
    });
    let scgi = Upstream::start(move |mut wire| {
        let ip = wire.stream().peer_addr().expect("it is connected").ip();
        if read_scgi(&mut wire).is_some() {
            wire.send(plain(&ip.to_string()));
        }
    });
    let uwsgi = Upstream::start(move |mut wire| {
        let ip = wire.stream().peer_addr().expect("it is connected").ip();
        if read_uwsgi(&mut wire).is_some() {
            wire.send(plain(&ip.to_string()));
        }
    });
    let http = Upstream::start(|mut wire| {
        let ip = wire
            .stream()
            .peer_addr()
            .expect("it is connected")
            .ip()
            .to_string();
        let bytes = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{ip}",
            ip.len()
        );
        while respond(&mut wire, bytes.as_bytes()).is_some() {}
    });
    let place = |kind: &str, address: &str| {
        format!("location /{kind} {{ {kind}_pass {address}; {kind}_bind 127.0.0.4; }}\n")
    };
    let buffers = "fastcgi_socket_rcvbuf 64k; fastcgi_socket_sndbuf 32k; scgi_socket_rcvbuf 64k; scgi_socket_sndbuf 32k; \
                   uwsgi_socket_rcvbuf 64k; uwsgi_socket_sndbuf 32k; proxy_socket_rcvbuf 64k; proxy_socket_sndbuf 32k;\n";
    let lines = format!(
        "{buffers}{}{}{}{}",
        place("fastcgi", &format!("127.0.0.1:{}", fastcgi.port)),
        place("scgi", &format!("127.0.0.1:{}; scgi_param A b", scgi.port)),
        place(
            "uwsgi",
            &format!("127.0.0.1:{}; uwsgi_param CONTENT_LENGTH 0", uwsgi.port)
        ),
        place("proxy", &format!("http://127.0.0.1:{}", http.port)),
    );
    let server = start(&lines, &[]);
    for kind in ["fastcgi", "scgi", "uwsgi", "proxy"] {
        assert_eq!(
            ask(&server, &format!("/{kind}"), "").text(),
            "127.0.0.4",
            "{kind}"
        );
    }
}
