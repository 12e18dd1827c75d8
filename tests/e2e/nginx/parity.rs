//! Behaviour that configurations written for nginx rely on. `tests/peer/nginx_parity` compares the same with nginx.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixListener;

use super::{setup, site, start};
use crate::client::{Client, exchange};
use crate::support::wait::{TIMEOUT, until};
use crate::upstream::Upstream;

#[test]
fn a_location_for_the_path_itself_precedes_a_redirect_to_its_slash() {
    let lines = "location /app/ { proxy_pass http://127.0.0.1:1; }\nlocation /app- { return 200 dash; }\n\
        location /api { return 200 api; }\nlocation /api/ { proxy_pass http://127.0.0.1:1; }\n\
        location = /exact/ { proxy_pass http://127.0.0.1:1; }\nlocation /status/ { stub_status; }\n";
    let server = start(lines, &[]);
    let mut client = Client::connect(server.port);
    assert_eq!(client.get("/app").status, 301, "beside a sibling");
    assert_eq!(client.get("/api").text(), "api");
    assert_eq!(client.get("/exact").status, 301);
    assert_eq!(client.get("/status").status, 404, "only proxied locations");
}

#[test]
fn try_files_looks_below_the_alias() {
    let lines = "location ~ ^/ca/(.+)$ { alias {folder}/files/$1; try_files \"\" =404; }\n\
        location /al/ { alias {folder}/files/; location ~ ^/al/(.*)\\.txt$ { try_files $uri =404; } \
        location /al/d/ { try_files $uri x.txt =404; } }\n";
    let setup = site(lines);
    setup.folder().write("files/a.txt", "hello");
    setup.folder().write("files/d/b", "deep");
    setup.folder().write("files/x.txt", "other");
    let server = setup.start();
    let mut client = Client::connect(server.port);
    for (path, expected) in [
        ("/ca/a.txt", "hello"),
        ("/al/a.txt", "hello"),
        ("/al/d/b", "deep"),
        ("/al/d/none", "other"),
    ] {
        assert_eq!(client.get(path).text(), expected, "{path}");
    }
    assert_eq!(client.get("/ca/none").status, 404);
    assert_eq!(client.get("/al/none.txt").status, 404);
    assert_eq!(client.get("/ca/..%2fnginx.conf").status, 404);
}

#[test]
fn an_empty_path_behind_a_socket_changes_no_path() {
    let setup = setup(
        "events {}\nhttp { server { listen 127.0.0.1:{port};\n\
         location /app/ { proxy_pass http://unix:{folder}/up.sock:; } } }\n",
    );
    let listener = UnixListener::bind(setup.folder().path().join("up.sock")).expect("it is free");
    let upstream = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("sluice connects");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("the head is whole");
            head.extend(byte);
        }
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            .expect("sluice reads");
        String::from_utf8_lossy(&head).into_owned()
    });
    let server = setup.start();
    let request = "GET /app/x%2Fy?z HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".to_owned();
    assert_eq!(exchange(server.port, request).status, 200);
    let head = upstream.join().expect("the upstream ends");
    assert!(head.starts_with("GET /app/x%2Fy?z HTTP/1.1\r\n"), "{head}");
}

#[test]
fn headers_of_an_upstream_arrive_as_with_nginx() {
    let upstream = Upstream::start(|mut wire| {
        let Some(head) = wire.head() else { return };
        let target = head[0].split(' ').nth(1).unwrap_or_default();
        let (status, fields) = match target {
            "/401" => (
                "401 Unauthorized",
                "WWW-Authenticate: Basic realm=\"x\"\r\nWWW-Authenticate: Digest realm=\"y\"\r\n",
            ),
            "/426" => (
                "426 Upgrade Required",
                "Upgrade: websocket\r\nConnection: upgrade\r\n",
            ),
            "/refresh" => ("200 OK", "Refresh: 5; url=http://up.test/x\r\n"),
            _ => (
                "200 OK",
                "Set-Cookie: a=1; domain=.up.test\r\nX-A: 1\r\nX-A: 2\r\n",
            ),
        };
        wire.send(format!(
            "HTTP/1.1 {status}\r\n{fields}Content-Length: 2\r\n\r\nup"
        ));
    });
    let lines = format!(
        "proxy_intercept_errors on; error_page 401 /denied; proxy_redirect http://up.test/ /re/;\n\
         proxy_cookie_domain up.test front.test;\n\
         location / {{ proxy_pass http://127.0.0.1:{}; add_header Seen \"[$upstream_http_x_a]\"; }}\n\
         location = /denied {{ internal; return 401 denied; }}\n",
        upstream.port
    );
    let server = start(&lines, &[]);
    let get = |path: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        exchange(server.port, request)
    };
    let denied = get("/401");
    assert_eq!(denied.text(), "denied");
    assert_eq!(denied.field("WWW-Authenticate"), Some("Basic realm=\"x\""));
    assert_eq!(get("/426").field("Upgrade"), Some("websocket"));
    assert_eq!(get("/refresh").field("Refresh"), Some("5; url=/re/x"));
    let cookie = get("/cookie");
    assert_eq!(cookie.field("Set-Cookie"), Some("a=1; domain=.front.test"));
    assert_eq!(cookie.field("Seen"), Some("[1, 2]"));
}

/// The entry of an upgraded request is written when its tunnel ends, and has what passed it.
#[test]
fn a_tunnel_is_logged_when_it_ends() {
    let upstream = Upstream::start(|mut wire| {
        let Some(_) = wire.head() else { return };
        wire.send(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nhello",
        );
        let mut byte = [0];
        let _ = wire.reader.read(&mut byte);
        wire.send("good bye");
    });
    let conf = format!(
        "events {{}}\nhttp {{ log_format l '$status $body_bytes_sent $upstream_response_time';\n\
         server {{ listen 127.0.0.1:{{port}}; access_log {{folder}}/log l;\n\
         location / {{ proxy_pass http://127.0.0.1:{}; proxy_http_version 1.1;\n\
         proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; }} }} }}\n",
        upstream.port
    );
    let setup = setup(&conf);
    let log = setup.folder().path().join("log");
    let server = setup.start();
    let mut client = TcpStream::connect(("127.0.0.1", server.port)).expect("it listens");
    client
        .write_all(
            b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        )
        .expect("it is read");
    let mut said = Vec::new();
    while !said.ends_with(b"\r\n\r\nhello") {
        let mut byte = [0];
        client.read_exact(&mut byte).expect("the tunnel is open");
        said.extend(byte);
    }
    let written = std::fs::read_to_string(&log).unwrap_or_default();
    assert_eq!(written, "", "while the tunnel is open");
    client.write_all(b"x").expect("the tunnel is open");
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).expect("the tunnel ends");
    assert_eq!(rest, b"good bye");
    drop(client);
    let find = || {
        let text = std::fs::read_to_string(&log).ok()?;
        text.ends_with('\n').then_some(text)
    };
    let line = until(TIMEOUT, "the entry", find, String::new);
    let time = line.strip_prefix("101 13 ").expect("status and bytes");
    assert!(time.trim_end().parse::<f64>().is_ok(), "{line}");
}

#[test]
fn a_response_to_http_1_0_names_http_1_1() {
    let server = start("location / { return 200 hello; }", &[]);
    let mut client = TcpStream::connect(("127.0.0.1", server.port)).expect("it listens");
    client
        .write_all(b"GET / HTTP/1.0\r\n\r\n")
        .expect("it is read");
    let mut said = String::new();
    client
        .read_to_string(&mut said)
        .expect("the connection ends");
    assert!(said.starts_with("HTTP/1.1 200 OK\r\n"), "{said}");
    assert!(said.ends_with("\r\n\r\nhello"), "{said}");
}

/// Variables of a location in texts that are used everywhere.
#[test]
fn maps_have_the_variables_of_the_location() {
    let conf = r#"
events {}
http {
map $server_name $name { default "<$server_name>"; "" none; }
map $document_root $shown { "~/(?<last>[a-z]+)$" "$last $request_filename $proxy_host"; }
server { listen 127.0.0.1:{port}; server_name one.test; root /srv/www;
location / { return 200 "$name $shown"; }
location /deep/ { root /srv/deep; return 200 "$name $shown"; }
location /tls { add_header Name "[$ssl_server_name][$ssl_alpn_protocol]"; return 200 ok; } }
server { listen 127.0.0.1:{port}; server_name two.test; return 200 "$name"; }
}
"#;
    let server = setup(conf).start();
    let get = |host: &str, path: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        exchange(server.port, request)
    };
    for (host, path, expected) in [
        ("one.test", "/a", "<one.test> www /srv/www/a "),
        ("one.test", "/deep/a", "<one.test> deep /srv/deep/deep/a "),
        ("two.test", "/", "<two.test>"),
    ] {
        assert_eq!(get(host, path).text(), expected, "{host}{path}");
    }
    assert_eq!(get("one.test", "/tls").field("Name"), Some("[][]"));
}
