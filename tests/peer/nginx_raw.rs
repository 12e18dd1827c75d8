//! Raw request lines and header names, compared with an installed nginx, with `ignore_invalid_headers` and
//! `underscores_in_headers` on and off.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use crate::peer::nginx::run;
use crate::peer::peers::{Site, free_port, sluice};
use crate::support::servers;

/// The settings of the servers, each on its own port: they apply before the host is known.
const SETTINGS: [&str; 4] = [
    "",
    "underscores_in_headers on;",
    "ignore_invalid_headers off;",
    "ignore_invalid_headers off; underscores_in_headers on;",
];

/// What an upstream receives of the header under test, and other responses.
const LOCATIONS: &str = "location / { return 200 \"$request_method $uri $request_uri $args $http_x_a $http_bad_name\"; }\n\
    location /up { proxy_pass http://UPSTREAM; }\nlocation /cut/ { proxy_pass http://UPSTREAM/; }\nlocation /file { root ROOT; try_files /note.txt =404; }\n\
    location /moved { return 301 /there; }\n";

/// Request heads without their end. Each is followed by a second request, which shows whether the connection stays
/// open.
const HEADS: &[&[u8]] = &[
    // Methods.
    b"GET / HTTP/1.1\r\nHost: a.test",
    b"TRACE / HTTP/1.1\r\nHost: a.test",
    b"TRACE /up HTTP/1.1\r\nHost: a.test",
    b"TRACE /file HTTP/1.1\r\nHost: a.test",
    b"TRACE /moved HTTP/1.1\r\nHost: a.test",
    b"CONNECT / HTTP/1.1\r\nHost: a.test",
    b"CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443",
    b"CONNECT http://a.test/ HTTP/1.1\r\nHost: a.test",
    b"OPTIONS * HTTP/1.1\r\nHost: a.test",
    b"OPTIONS / HTTP/1.1\r\nHost: a.test",
    b"OPTIONS /up HTTP/1.1\r\nHost: a.test",
    b"OPTIONS /file HTTP/1.1\r\nHost: a.test",
    b"GET * HTTP/1.1\r\nHost: a.test",
    b"PURGE /up HTTP/1.1\r\nHost: a.test",
    b"A-B_C /up HTTP/1.1\r\nHost: a.test",
    b"get / HTTP/1.1\r\nHost: a.test",
    b"Get /up HTTP/1.1\r\nHost: a.test",
    b"M1 / HTTP/1.1\r\nHost: a.test",
    b"M.N / HTTP/1.1\r\nHost: a.test",
    b"G@T / HTTP/1.1\r\nHost: a.test",
    b"PUT /file HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0",
    b"DELETE /file HTTP/1.1\r\nHost: a.test",
    // Targets.
    b"GET a.test HTTP/1.1\r\nHost: a.test",
    b"GET http://a.test HTTP/1.1\r\nHost: b.test",
    b"GET http://a.test?x HTTP/1.1\r\nHost: b.test",
    b"GET HTTP://a.test/x HTTP/1.1\r\nHost: b.test",
    b"GET ftp://a.test/x HTTP/1.1\r\nHost: b.test",
    b"GET /a#b HTTP/1.1\r\nHost: a.test",
    b"GET /a#b?c HTTP/1.1\r\nHost: a.test",
    b"GET /a?b#c?d HTTP/1.1\r\nHost: a.test",
    b"GET /a#/../b HTTP/1.1\r\nHost: a.test",
    b"GET /%41#%zz HTTP/1.1\r\nHost: a.test",
    b"GET http://a.test/a#b HTTP/1.1\r\nHost: a.test",
    b"GET http://a.test#a HTTP/1.1\r\nHost: a.test",
    b"GET # HTTP/1.1\r\nHost: a.test",
    b"GET /caf\xc3\xa9?\xc3\xbc HTTP/1.1\r\nHost: a.test",
    b"GET /up/caf\xc3\xa9?\xc3\xbc HTTP/1.1\r\nHost: a.test",
    b"GET /up/a#b HTTP/1.1\r\nHost: a.test",
    b"GET /up/a?b#c HTTP/1.1\r\nHost: a.test",
    b"GET /cut/caf\xc3\xa9?\xc3\xbc HTTP/1.1\r\nHost: a.test",
    b"GET /cut/%41\xc3\xa9 HTTP/1.1\r\nHost: a.test",
    b"GET /cut/a#b HTTP/1.1\r\nHost: a.test",
    b"GET /cut/a?b#c HTTP/1.1\r\nHost: a.test",
    b"GET /cut/a%23b HTTP/1.1\r\nHost: a.test",
    b"GET /cut/a\"<>^`{|}b HTTP/1.1\r\nHost: a.test",
    b"GET /a\x7fb HTTP/1.1\r\nHost: a.test",
    b"GET /%zz HTTP/1.1\r\nHost: a.test",
    b"GET /%00 HTTP/1.1\r\nHost: a.test",
    b"GET /\xff HTTP/1.1\r\nHost: a.test",
    b"GET /a\x01b HTTP/1.1\r\nHost: a.test",
    b"GET /a b HTTP/1.1\r\nHost: a.test",
    b"GET  / HTTP/1.1\r\nHost: a.test",
    b"GET /  HTTP/1.1\r\nHost: a.test",
    b"GET /\tHTTP/1.1\r\nHost: a.test",
    b" GET / HTTP/1.1\r\nHost: a.test",
    b"\r\nGET / HTTP/1.1\r\nHost: a.test",
    // Versions.
    b"GET / HTTP/1.2\r\nHost: a.test",
    b"GET / HTTP/2.0\r\nHost: a.test",
    b"GET / HTTP/1\r\nHost: a.test",
    b"GET / http/1.1\r\nHost: a.test",
    b"GET / HTTPS/1.1\r\nHost: a.test",
    b"GET / HTTP/1.1 \r\nHost: a.test",
    b"GET /\r\nHost: a.test",
    // Header names.
    b"GET /up HTTP/1.1\r\nHost: a.test\r\nX_A: 1",
    b"GET /up HTTP/1.1\r\nHost: a.test\r\nX-A: 1",
    b"GET /up HTTP/1.1\r\nHost: a.test\r\n_A: 1",
    b"GET /up HTTP/1.1\r\nHost: a.test\r\nX.A: 1",
    b"GET /up HTTP/1.1\r\nHost: a.test\r\nX~A!#$%&'*+^`|: 1",
    b"GET /up HTTP/1.1\r\nHost: a.test\r\nBad[Name: 1",
    b"GET /up HTTP/1.1\r\nHost: a.test\r\nBad\xc3\xa9Name: 1",
    b"GET /up HTTP/1.1\r\nHost: a.test\r\nBad\"Name: 1",
    b"GET /up HTTP/1.1\r\nHost: a.test\r\nBad(Name): 1",
    b"GET /up HTTP/1.1\r\nHost: a.test\r\nBad/Name: 1",
    b"GET /up HTTP/1.1\r\nHost: a.test\r\nBad Name: 1",
    b"GET /up HTTP/1.1\r\nHost: a.test\r\nBad\tName: 1",
    b"GET /up HTTP/1.1\r\nHost: a.test\r\nBad\x00Name: 1",
    b"GET /up HTTP/1.1\r\nHost: a.test\r\nBad\x01Name: 1",
    b"GET /up HTTP/1.1\r\nHost: a.test\r\nBad\x7fName: 1",
    b"GET /up HTTP/1.1\r\nHost: a.test\r\nBad : 1",
    b"GET /up HTTP/1.1\r\nHost: a.test\r\n Bad: 1",
    b"GET /up HTTP/1.1\r\nHost: a.test\r\n: 1",
    b"GET /up HTTP/1.1\r\nHost: a.test\r\nBad",
    b"GET /up HTTP/1.1\r\nHost: a.test\r\nX-A: 1\r\n folded",
    b"GET /up HTTP/1.1\r\nHost: a.test\r\nX-A:1",
    b"GET /up HTTP/1.1\r\nHost: a.test\r\nX-A:",
    b"GET /up HTTP/1.1\r\nHost: a.test\r\nX-A: \xff",
    b"GET /up HTTP/1.1\r\nHost: a.test\r\nX-A: a\x00b",
    b"GET /up HTTP/1.1\r\nHost: a.test\r\nX-A: a\x01b",
    b"GET /up HTTP/1.1\r\nHost: a.test\r\nContent_Length: 1",
    b"GET /up HTTP/1.1\r\nHost: a.test\r\nContent[Length: 1",
    b"GET /up HTTP/1.1\r\nHost: a.test\r\nContent-Length[: 1",
    b"GET /up HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding\xff: chunked",
    // Hosts.
    b"GET / HTTP/1.1",
    b"GET / HTTP/1.0",
    b"GET / HTTP/1.1\r\nHost:",
    b"GET / HTTP/1.1\r\nHost: a.test\r\nHost: b.test",
    b"GET / HTTP/1.1\r\nHost: a b",
    b"GET / HTTP/1.1\r\nHost: a/b",
    b"GET / HTTP/1.1\r\nHost: a..b",
    b"GET / HTTP/1.1\r\nHost: a[b",
    b"GET / HTTP/1.1\r\nHost: .",
    b"GET / HTTP/1.1\r\nHost: .a",
    b"GET / HTTP/1.1\r\nHost: a.",
    b"GET / HTTP/1.1\r\nHost: a..:80",
    b"GET http://a..b/ HTTP/1.1\r\nHost: a.test",
];

/// Whole requests that need a leniency, without what follows them. sluice reads them as nginx does and closes the
/// connection after them, so that nothing behind them can be read as a request; nginx goes on.
const LENIENT: &[&[u8]] = &[
    b"GET /up HTTP/1.1\nHost: a.test\n\n",
    b"GET /up HTTP/1.1\r\nHost: a.test\r\nX-A: 1\n\r\n",
    b"GET /up HTTP/1.1\r\nHost: a.test\n\r\n",
    b"GET /up HTTP/1.1\r\nHost: a.test\r\n\n",
    b"GET /up HTTP/1.1\nHost: a.test\r\nX-A: 1  \n\r\n",
    b"\nGET /up HTTP/1.1\r\nHost: a.test\r\n\r\n",
    b"POST /up HTTP/1.1\nHost: a.test\nContent-Length: 3\n\nabc",
    b"POST /up HTTP/1.1\nHost: a.test\nTransfer-Encoding: chunked\n\n3\r\nabc\r\n0\r\n\r\n",
    b"GET /up HTTP/1.1\r\nHost: a.test\r\nBad[Name: 1\n\r\n",
    b"POST /up HTTP/1.0\r\nHost: a.test\r\nConnection: keep-alive\r\n\r\n",
    b"PUT /up HTTP/1.0\r\nHost: a.test\r\nConnection: keep-alive\r\n\r\n",
    b"GET / HTTP/1.0\nConnection: keep-alive\n\n",
];

/// Whole requests that both refuse, whatever their lines end with.
const AMBIGUOUS: &[&[u8]] = &[
    b"POST /up HTTP/1.1\nHost: a.test\nContent-Length: 3\nTransfer-Encoding: chunked\n\n0\r\n\r\n",
    b"POST /up HTTP/1.1\nHost: a.test\nContent-Length: 3\nContent-Length: 3\n\nabc",
    b"POST /up HTTP/1.1\nHost: a.test\nTransfer-Encoding : chunked\n\n0\r\n\r\n",
    b"POST /up HTTP/1.1\nHost: a.test\nX-A: a\n b\n\n",
    b"GET /up HTTP/1.1\nHost: a.test\nX-A: a\rb\n\n",
    b"POST /up HTTP/1.0\nHost: a.test\nTransfer-Encoding: chunked\n\n0\r\n\r\n",
];

/// Intentional differences: a head, and why.
const ACCEPTED: &[(&[u8], &str)] = &[
    (
        b"CONNECT / HTTP/1.1\r\nHost: a.test",
        "CONNECT names a host and a port (RFC 9112, section 3.2.3), so this is malformed: 400",
    ),
    (
        b"CONNECT http://a.test/ HTTP/1.1\r\nHost: a.test",
        "see above",
    ),
    (
        b"GET http://a.test?x HTTP/1.1\r\nHost: b.test",
        "the path of such a target is `/` (RFC 9112, section 3.2.1); nginx leaves `$request_uri` without one",
    ),
    (
        b"GET ftp://a.test/x HTTP/1.1\r\nHost: b.test",
        "the server answers for http and https only (RFC 9110, section 7.4)",
    ),
    (
        b"GET /%00 HTTP/1.1\r\nHost: a.test",
        "400 from both; its end is known, so the connection stays",
    ),
    (
        b"GET  / HTTP/1.1\r\nHost: a.test",
        "one space is between the parts of a line (RFC 9112, section 3)",
    ),
    (b"GET /  HTTP/1.1\r\nHost: a.test", "see above"),
    (b"GET / HTTP/1.1 \r\nHost: a.test", "see above"),
    (
        b"GET /up HTTP/1.1\r\nHost: a.test\r\nBad[Name: 1",
        "with `ignore_invalid_headers off` a name is a token still (RFC 9110, section 5.1)",
    ),
    (
        b"GET /up HTTP/1.1\r\nHost: a.test\r\nBad\xc3\xa9Name: 1",
        "see above",
    ),
    (
        b"GET /up HTTP/1.1\r\nHost: a.test\r\nBad\"Name: 1",
        "see above",
    ),
    (
        b"GET /up HTTP/1.1\r\nHost: a.test\r\nBad(Name): 1",
        "see above",
    ),
    (
        b"GET /up HTTP/1.1\r\nHost: a.test\r\nBad/Name: 1",
        "see above",
    ),
    (
        b"GET /up HTTP/1.1\r\nHost: a.test\r\nContent[Length: 1",
        "see above",
    ),
    (
        b"GET /up HTTP/1.1\r\nHost: a.test\r\nContent-Length[: 1",
        "another reader could take it for a header that frames the message: 400",
    ),
    (
        b"GET /up HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding\xff: chunked",
        "see above",
    ),
    (
        b"GET /up HTTP/1.1\r\nHost: a.test\r\nBad",
        "a line without a colon is malformed (RFC 9112, section 5)",
    ),
    (
        b"GET /up HTTP/1.1\r\nHost: a.test\r\nX-A: a\x01b",
        "control characters are no part of values (RFC 9110, section 5.5)",
    ),
    (
        b"GET /\r\nHost: a.test",
        "HTTP/0.9 is not served: a line without a version gets 400",
    ),
    (
        b"GET / HTTP/1.1\r\nHost: a[b",
        "this is no host (RFC 3986, section 3.2.2)",
    ),
];

/// The response to a head: the status, what an upstream or the server received, and whether the next request was
/// served.
#[derive(Debug, PartialEq, Eq)]
struct Said {
    status: String,
    seen: Vec<String>,
    goes_on: bool,
}

fn ask(port: u16, head: &[u8]) -> Said {
    ask_whole(port, &[head, b"\r\n\r\n"].concat())
}

/// The response to a request that is complete.
fn ask_whole(port: u16, request: &[u8]) -> Said {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("somebody listens");
    let limit = Some(Duration::from_secs(10));
    stream.set_read_timeout(limit).expect("it can be set");
    let next = b"GET /last HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n";
    let sent = [request, next].concat();
    let _ = stream.write_all(&sent);
    let mut raw = Vec::new();
    let _ = stream.read_to_end(&mut raw);
    let text = String::from_utf8_lossy(&raw);
    let status = text.split(' ').nth(1).unwrap_or_default();
    let (first, rest) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let is_said = status == "200";
    let body = rest.split("HTTP/1.1 ").next().unwrap_or_default();
    // Of an echo only the header under test: other headers to upstreams are compared elsewhere.
    let about = |line: &&str| {
        let line = line.to_ascii_lowercase();
        !["host:", "connection:", "content-length:", "date:"]
            .iter()
            .any(|known| line.starts_with(known))
    };
    let seen = body.lines().filter(about);
    let seen = seen.map(|line| line.replace(": ", ":")).collect();
    let goes_on = first.len() < text.len() && text.contains("GET /last");
    Said {
        status: status.to_owned(),
        seen: if is_said { seen } else { Vec::new() },
        goes_on,
    }
}

fn conf(site: &Site, ports: &[u16], is_nginx: bool) -> String {
    let dir = site.dir().display().to_string();
    let (name, head) = match is_nginx {
        true => ("theirs", "user root;\nmaster_process off;\ndaemon off;\n"),
        false => ("ours", ""),
    };
    let own = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {dir}/nginx-temp;\n"));
    let own = if is_nginx {
        own.concat()
    } else {
        String::new()
    };
    let servers = SETTINGS.iter().zip(ports);
    let servers = servers.map(|(lines, port)| {
        format!("server {{ listen 127.0.0.1:{port}; {lines}\n{LOCATIONS} }}\n")
    });
    let text = format!(
        "{head}worker_processes 1;\npid {dir}/raw-{name}.pid;\nerror_log {dir}/raw-{name}.log;\n\
         events {{ worker_connections 512; }}\nhttp {{\naccess_log off;\n{own}\
         proxy_http_version 1.1; proxy_set_header Connection \"\";\n{}}}\n",
        servers.collect::<String>()
    );
    site.fill(&text)
}

fn start(site: &Site, program: &Path, is_nginx: bool) -> (crate::peer::nginx::Running, Vec<u16>) {
    let ports: Vec<u16> = SETTINGS.iter().map(|_| free_port()).collect();
    let text = conf(site, &ports, is_nginx);
    (run(site, program, "raw", &text, ports[0], is_nginx), ports)
}

#[test]
#[ignore = "a slower kind: cargo xtask peer"]
fn heads_are_read_as_nginx_reads_them() {
    let Some(nginx) = servers::nginx() else {
        return;
    };
    let site = Site::new();
    let (_theirs, their_ports) = start(&site, &nginx, true);
    let (_ours, our_ports) = start(&site, &sluice(), false);
    let (mut requests, mut failures, mut seen) = (0, Vec::new(), BTreeSet::new());
    for head in HEADS {
        for (number, settings) in SETTINGS.iter().enumerate() {
            requests += 1;
            let expected = ask(their_ports[number], head);
            let found = ask(our_ports[number], head);
            if expected == found {
                continue;
            }
            match ACCEPTED.iter().position(|(accepted, _)| accepted == head) {
                Some(index) => _ = seen.insert(index),
                None => failures.push(format!(
                    "{:?} [{settings}]\n    nginx  {expected:?}\n    sluice {found:?}",
                    head.escape_ascii().to_string()
                )),
            }
        }
    }
    let gone = ACCEPTED.iter().enumerate();
    let gone = gone.filter(|(index, _)| !seen.contains(index));
    failures.extend(gone.map(|(_, (head, _))| {
        format!("accepted difference has gone away: {}", head.escape_ascii())
    }));
    println!("{requests} requests");
    assert!(
        failures.is_empty(),
        "{} differences:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

/// A request that needs a leniency is served as nginx serves it, and nothing behind it is.
#[test]
#[ignore = "a slower kind: cargo xtask peer"]
fn lenient_heads_are_read_as_nginx_reads_them_and_end_their_connection() {
    let Some(nginx) = servers::nginx() else {
        return;
    };
    let site = Site::new();
    let (_theirs, their_ports) = start(&site, &nginx, true);
    let (_ours, our_ports) = start(&site, &sluice(), false);
    for request in LENIENT {
        let text = request.escape_ascii();
        let expected = ask_whole(their_ports[0], request);
        let found = ask_whole(our_ports[0], request);
        assert!(expected.goes_on, "{text}");
        assert_eq!(
            found,
            Said {
                goes_on: false,
                ..expected
            },
            "{text}"
        );
    }
    for request in AMBIGUOUS {
        let text = request.escape_ascii();
        let expected = ask_whole(their_ports[0], request);
        let found = ask_whole(our_ports[0], request);
        assert_eq!(
            (expected.status.as_str(), expected.goes_on),
            ("400", false),
            "{text}"
        );
        assert_eq!(found, expected, "{text}");
    }
}
