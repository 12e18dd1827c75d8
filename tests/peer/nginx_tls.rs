//! Examples for nginx's modules ssl and v2, of our own making: virtual servers over TLS, and requests over HTTP/1.1 and
//! HTTP/2 to nginx and sluice. The module acme is newer than the nginx that runs here; `tests/e2e/acme` has its examples.

use std::path::Path;

use rcgen::{CertificateParams, KeyPair};

use crate::h2::peer::{END_STREAM, Peer};
use crate::peer::documented::options::{handshake, over_tls};
use crate::peer::documented::request;
use crate::peer::http::{self, Differs, Response, differences};
use crate::peer::nginx::{EVERYWHERE, Running, run};
use crate::peer::peers::{Site, free_port, sluice};
use crate::support::servers;
use crate::tls::Secure;

/// In `http`.
const CONF: &str = "
ssl_session_cache shared:SSL:1m;
ssl_session_timeout 10m;
ssl_session_tickets off;
server {
    listen 127.0.0.1:PORT ssl http2;
    server_name a.test;
    ssl_certificate DIR/a.test.crt;
    ssl_certificate_key DIR/a.test.key;
    ssl_protocols TLSv1.2 TLSv1.3;
    add_header Strict-Transport-Security \"max-age=63072000\" always;
    location / { return 200 \"$ssl_protocol|$ssl_server_name|$ssl_session_reused|$https|$scheme|$http2|$server_protocol|$ssl_alpn_protocol|$server_port\"; }
    location /files/ { alias ROOT/; index index.html; }
    location /echo { proxy_pass http://UPSTREAM; }
    location /cookies { return 200 \"$http_cookie|$cookie_b|$http_x_a\"; }
    location /moved { return 301 /elsewhere; }
    location /limit { client_max_body_size 4; proxy_pass http://UPSTREAM; }
    location /packed/ { alias ROOT/; gzip on; gzip_types text/html; }
}
server {
    listen 127.0.0.1:PORT ssl http2;
    server_name b.test *.w.test;
    ssl_certificate DIR/b.test.crt;
    ssl_certificate_key DIR/b.test.key;
    return 200 \"b $ssl_server_name $host\";
}
server {
    listen 127.0.0.1:SECOND ssl default_server;
    ssl_reject_handshake on;
}
server {
    listen 127.0.0.1:SECOND ssl;
    server_name c.test;
    ssl_certificate DIR/a.test.crt;
    ssl_certificate_key DIR/a.test.key;
    return 200 \"c $ssl_server_name\";
}
server {
    listen 127.0.0.1:PORT ssl http2;
    server_name e.test;
    ssl_certificate DIR/b.test.crt;
    ssl_certificate_key DIR/b.test.key;
    ssl_verify_client optional;
    ssl_client_certificate DIR/a.test.crt;
    return 200 \"e $ssl_client_verify\";
}
server {
    listen 127.0.0.1:THIRD ssl;
    server_name d.test;
    ssl_certificate DIR/b.test.crt;
    ssl_certificate_key DIR/b.test.key;
    ssl_protocols TLSv1.2;
    ssl_ciphers ECDHE-ECDSA-AES128-GCM-SHA256;
    ssl_prefer_server_ciphers on;
    error_page 497 =301 https://$host/over$request_uri;
    return 200 \"$ssl_protocol $ssl_cipher $ssl_curve\";
}
";

/// Requests over HTTP/1.1: the port, the name in the handshake (`-`: no TLS) and the request.
const SSL: &[&str] = &[
    "PORT a.test GET a.test/",
    "PORT b.test GET b.test/",
    "PORT x.w.test GET x.w.test/",
    "PORT none.test GET a.test/",
    "PORT none.test GET none.test/",
    "PORT 127.0.0.1 GET b.test/",
    "PORT a.test GET b.test/",
    "PORT a.test GET a.test/files/note.txt",
    "PORT a.test GET a.test/moved",
    "PORT a.test GET a.test/files/sub",
    "PORT a.test GET a.test/files/none",
    "PORT - GET a.test/",
    "PORT - GET b.test/x",
    "PORT - POST a.test/x | body=hello",
    "PORT e.test GET e.test/",
    "PORT e.test GET E.test/",
    "PORT e.test GET a.test/",
    "PORT a.test GET e.test/",
    "PORT none.test GET e.test/",
    "PORT 127.0.0.1 GET e.test/",
    "SECOND c.test GET c.test/",
    "SECOND a.test GET a.test/",
    "SECOND 127.0.0.1 GET c.test/",
    "SECOND c.test GET other.test/",
    "SECOND - GET c.test/",
    "THIRD d.test GET d.test/",
    "THIRD other.test GET other.test/",
    "THIRD - GET d.test/x?y",
];

/// Requests over HTTP/2 to `a.test`.
const V2: &[&str] = &[
    "GET /",
    "HEAD /",
    "GET /files/",
    "GET /files/note.txt",
    "GET /files/note.txt | range: bytes=2-4",
    "GET /files/note.txt | if-none-match: *",
    "GET /files/none",
    "GET /files/sub",
    "GET /moved",
    "POST /echo | body=hello",
    "PUT /echo/a?b | body=x | content-type: text/plain",
    "GET /echo | te: trailers",
    "GET /cookies | cookie: a=1 | cookie: b=2",
    "GET /cookies | x-a: 1 | x-a: 2",
    "POST /limit | body=12345",
    "GET /packed/page.html | accept-encoding: gzip",
    "OPTIONS /",
    "DELETE /files/note.txt",
    "GET / | :authority=b.test",
    "GET / | :authority=a.test:443",
];

/// Accepted differences: a prefix of the request, what differs, and why.
const ACCEPTED: &[(&str, &str, &str)] = &[
    (
        "PORT a.test GET e.test/",
        "strict-transport-security",
        "a 421 has no headers of the server that the handshake chose, which does not serve the host",
    ),
    ("v2 GET /cookies | x-a", "body", JOINED),
    ("v2 GET /cookies | x-a", "content-length", JOINED),
];

const JOINED: &str = "`$http_` variables join several headers since nginx 1.23";

struct Started {
    running: Running,
    ports: [u16; 3],
}

fn start(site: &Site, program: &Path, is_nginx: bool) -> Started {
    let ports = [free_port(), free_port(), free_port()];
    let (main, own) = match is_nginx {
        true => (
            "user root;\ndaemon off;\nmaster_process off;\n",
            "server_tokens off;\nclient_body_temp_path DIR/nginx-temp; proxy_temp_path DIR/nginx-temp; fastcgi_temp_path DIR/nginx-temp; \
             uwsgi_temp_path DIR/nginx-temp; scgi_temp_path DIR/nginx-temp;\nproxy_http_version 1.1;\nproxy_set_header Connection \"\";\n",
        ),
        false => ("", "server_tokens \"nginx\";\n"),
    };
    let which = if is_nginx { "theirs" } else { "ours" };
    let text = format!(
        "{main}worker_processes 1;\npid DIR/{which}.pid;\nerror_log DIR/{which}-error.log;\nevents {{ worker_connections 512; }}\n\
         http {{\n{own}access_log off;\ntypes {{ text/html html; text/plain txt; }}\n{CONF}\n}}\n"
    );
    let mut text = text.replace("DIR", &site.dir().display().to_string());
    for (name, port) in PORTS.iter().zip(ports) {
        text = text.replace(&format!(":{name} "), &format!(":{port} "));
    }
    Started {
        running: run(site, program, "tls", &site.fill(&text), ports[0], is_nginx),
        ports,
    }
}

const PORTS: [&str; 3] = ["PORT", "SECOND", "THIRD"];

impl Started {
    fn ssl(&self, line: &str) -> Response {
        let (port, rest) = line.split_once(' ').expect("a port");
        let (name, line) = rest.split_once(' ').expect("a name");
        let port = self.ports[PORTS
            .iter()
            .position(|known| *known == port)
            .expect("known")];
        let response = match name {
            "-" => http::ask(port, &request(line)),
            _ => over_tls(port, name, line),
        };
        self.masked(response)
    }

    fn v2(&self, peer: &mut Peer<Secure>, line: &str) -> Response {
        let mut parts = line.split(" | ");
        let (method, path) = parts
            .next()
            .and_then(|first| first.split_once(' '))
            .expect("two words");
        let (mut authority, mut body, mut fields) = ("a.test", None, Vec::new());
        for part in parts {
            match (part.strip_prefix("body="), part.strip_prefix(":authority=")) {
                (Some(text), _) => body = Some(text),
                (_, Some(name)) => authority = name,
                _ => fields.push(part.split_once(": ").expect("a header")),
            }
        }
        let mut head = vec![
            (":method", method),
            (":scheme", "https"),
            (":authority", authority),
            (":path", path),
        ];
        head.extend(fields);
        let id = match body {
            None => peer.ask(&head),
            Some(body) => {
                let id = peer.begin_request(&head);
                peer.send(crate::h2::peer::DATA, END_STREAM, id, body.as_bytes());
                id
            }
        };
        let found = peer.response(id);
        let mut response = Response {
            status: found.status.to_string(),
            body: found.body,
            ..Response::default()
        };
        for (name, value) in found.fields {
            response.fields.entry(name).or_default().push(value);
        }
        self.masked(response)
    }

    /// The response without its ports.
    fn masked(&self, mut response: Response) -> Response {
        for (name, port) in PORTS.iter().zip(self.ports) {
            let port = port.to_string();
            for value in response.fields.values_mut().flatten() {
                *value = value.replace(&port, name);
            }
            if let Ok(text) = std::str::from_utf8(&response.body) {
                response.body = text.replace(&port, name).into_bytes();
            }
        }
        response
    }
}

/// Certificates for these names, with their keys.
fn write_certificates(site: &Site) {
    for name in ["a.test", "b.test"] {
        let params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        let key = KeyPair::generate().expect("a key");
        let cert = params.self_signed(&key).expect("a certificate");
        let file = |ending: &str| site.dir().join(format!("{name}.{ending}"));
        std::fs::write(file("crt"), cert.pem()).expect("the folder is writable");
        std::fs::write(file("key"), key.serialize_pem()).expect("the folder is writable");
    }
}

/// Counts of what was compared.
#[derive(Default)]
struct Counts {
    equal: usize,
    with_reason: usize,
    failures: Vec<String>,
}

impl Counts {
    fn add(&mut self, line: &str, found: Vec<Differs>, seen: &mut [bool]) {
        let everywhere = |difference: &Differs| {
            EVERYWHERE
                .iter()
                .any(|(what, theirs)| difference.what == *what && difference.theirs == *theirs)
        };
        let found: Vec<Differs> = found.into_iter().filter(|one| !everywhere(one)).collect();
        let mut unknown = 0;
        for difference in &found {
            let known = ACCEPTED
                .iter()
                .position(|(start, what, _)| line.starts_with(start) && difference.what == *what);
            match known {
                Some(at) => seen[at] = true,
                None => {
                    unknown += 1;
                    self.failures.push(format!("{line}\n    {difference}"));
                }
            }
        }
        self.equal += usize::from(found.is_empty());
        self.with_reason += usize::from(!found.is_empty() && unknown == 0);
    }
}

#[test]
#[ignore = "a slower kind: cargo xtask peer"]
fn examples_over_tls_respond_as_in_nginx() {
    let Some(nginx) = servers::nginx() else {
        return;
    };
    let site = Site::new();
    write_certificates(&site);
    let (theirs, ours) = (start(&site, &nginx, true), start(&site, &sluice(), false));
    let mut seen = vec![false; ACCEPTED.len()];
    let (mut ssl, mut v2) = (Counts::default(), Counts::default());
    for line in SSL {
        ssl.add(
            line,
            differences(&theirs.ssl(line), &ours.ssl(line)),
            &mut seen,
        );
    }
    let mut peers = [&theirs, &ours].map(|one| {
        let wire = handshake(one.ports[0], "a.test", &[b"h2"]).expect("a handshake");
        Peer::begin(wire.reader.into_inner(), &[])
    });
    for line in V2 {
        let [one, two] = &mut peers;
        let found = differences(&theirs.v2(one, line), &ours.v2(two, line));
        v2.add(&format!("v2 {line}"), found, &mut seen);
    }
    drop((theirs.running, ours.running));
    for (known, seen) in ACCEPTED.iter().zip(seen) {
        if !seen {
            ssl.failures
                .push(format!("{} {} has gone away", known.0, known.1));
        }
    }
    for (module, counts) in [("ssl", &ssl), ("v2", &v2)] {
        println!(
            "{module}: {} equal, {} different with a reason, {} without",
            counts.equal,
            counts.with_reason,
            counts.failures.len()
        );
    }
    let failures = [ssl.failures, v2.failures].concat();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
