//! Requests to upstreams, and their responses to clients.

use std::sync::Arc;

use super::{setup, start};
use crate::client::{Client, Response, exchange};
use crate::h2::peer::Peer;
use crate::harness::{Server, free_port};
use crate::support::cgi::{read_scgi, read_uwsgi};
use crate::upstream::{Upstream, respond};

/// A server with these lines, with `UPSTREAM` replaced by one that echoes requests.
fn echoing(lines: &str) -> (Server, Upstream) {
    let echo = Upstream::echo();
    let lines = lines.replace("UPSTREAM", &format!("127.0.0.1:{}", echo.port));
    (start(&lines, &[]), echo)
}

fn post(server: &Server, path: &str) -> Response {
    exchange(
        server.port,
        format!(
            "POST {path} HTTP/1.1\r\nHost: a.test\r\nX-One: 1\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbody"
        ),
    )
}

#[test]
fn requests_are_changed_on_their_way() {
    let (server, _echo) = echoing(
        r#"
location /method { proxy_pass http://UPSTREAM; proxy_method GET; proxy_pass_request_body off; }
location /given { proxy_pass http://UPSTREAM; proxy_method $arg_m; }
location /body { proxy_pass http://UPSTREAM; proxy_set_body "[$request_method $arg_x]"; }
location /bare { proxy_pass http://UPSTREAM; proxy_pass_request_headers off; proxy_set_header X-Two 2; }
location /old { proxy_pass http://UPSTREAM; proxy_http_version 1.0; }
"#,
    );
    let text = post(&server, "/method").text();
    assert!(text.starts_with("GET /method HTTP/1.1\n"), "{text}");
    assert!(text.ends_with("\n\n") && !text.contains("body"), "{text}");
    let text = post(&server, "/given?m=PROPFIND").text();
    assert!(
        text.starts_with("PROPFIND /given?m=PROPFIND HTTP/1.1\n"),
        "{text}"
    );
    let text = post(&server, "/body?x=new").text();
    assert!(text.ends_with("\n\n[POST new]"), "{text}");
    let text = post(&server, "/bare").text();
    assert!(!text.contains("X-One"), "{text}");
    assert!(
        text.contains("X-Two: 2") && text.ends_with("body"),
        "{text}"
    );
    let text = post(&server, "/old").text();
    assert!(text.starts_with("POST /old HTTP/1.0\n"), "{text}");
    assert!(text.ends_with("\n\nbody"), "{text}");
    let chunked = exchange(
        server.port,
        "POST /old HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n4\r\nbody\r\n0\r\n\r\n",
    );
    let text = chunked.text();
    assert!(
        text.contains("Content-Length: 4"),
        "1.0 knows no chunks: {text}"
    );
}

#[test]
fn upstreams_are_dialled_from_an_address() {
    let recorder = Upstream::start(|mut wire| {
        let peer = wire.stream().peer_addr().expect("it is connected");
        let text = peer.ip().to_string();
        let length = text.len();
        let bytes = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{text}");
        while respond(&mut wire, bytes.as_bytes()).is_some() {}
    });
    let lines = format!(
        "location / {{ proxy_pass http://127.0.0.1:{0}; proxy_bind 127.0.0.2; }} \
         location /off {{ proxy_pass http://127.0.0.1:{0}; proxy_bind off; }}",
        recorder.port
    );
    let server = start(&lines, &[]);
    assert_eq!(server.ask("/").text(), "127.0.0.2");
    assert_eq!(server.ask("/off").text(), "127.0.0.1");
}

#[test]
fn cookies_and_redirects_are_rewritten() {
    let upstream = Upstream::responding(
        "HTTP/1.1 302 Found\r\nLocation: http://Inner.test:81/app/x?y\r\n\
         Set-Cookie: one=1; Domain=.inner.test; Path=/app/deep; Secure\r\n\
         Set-Cookie: two=2; path=/other; HttpOnly; SameSite=Lax\r\nContent-Length: 0\r\n\r\n",
    );
    let lines = r#"
location / {
    proxy_pass http://UPSTREAM;
    proxy_cookie_domain inner.test $host;
    proxy_cookie_path ~*^/APP/(.+)$ /new/$1;
    proxy_cookie_path / /rest/;
    proxy_cookie_flags one nosecure samesite=strict;
    proxy_cookie_flags ~^t nohttponly nosamesite secure;
    proxy_redirect ~*^http://inner\.test:(\d+)/app/(.*)$ /at-$1/$2;
    location /off { proxy_pass http://UPSTREAM; proxy_cookie_domain off; proxy_cookie_path off; proxy_cookie_flags off; proxy_redirect off; }
}
"#;
    let lines = lines.replace("UPSTREAM", &format!("127.0.0.1:{}", upstream.port));
    let server = start(&lines, &[]);
    let cookies = |response: &Response| -> Vec<String> {
        let lines = response.head.lines();
        let all = lines.filter_map(|line| line.strip_prefix("Set-Cookie: "));
        all.map(str::to_owned).collect()
    };
    let ask = |path: &str| {
        exchange(
            server.port,
            format!("GET {path} HTTP/1.1\r\nHost: outer.test\r\nConnection: close\r\n\r\n"),
        )
    };
    let changed = ask("/");
    assert_eq!(
        cookies(&changed),
        [
            "one=1; Domain=.outer.test; Path=/new/deep; SameSite=Strict",
            "two=2; path=/rest/other; Secure",
        ]
    );
    let location = changed.field("Location").unwrap_or_default();
    assert_eq!(
        location,
        format!("http://outer.test:{}/at-81/x?y", server.port)
    );
    let same = ask("/off");
    assert_eq!(
        cookies(&same),
        [
            "one=1; Domain=.inner.test; Path=/app/deep; Secure",
            "two=2; path=/other; HttpOnly; SameSite=Lax",
        ]
    );
    assert_eq!(same.field("Location"), Some("http://Inner.test:81/app/x?y"));
}

#[test]
fn an_upstream_has_files_of_this_server_sent() {
    let upstream = Upstream::start(|mut wire| {
        while let Some(head) = wire.head() {
            let target = head[0].split(' ').nth(1).unwrap_or("").replace("/app?", "");
            let bytes = format!(
                "HTTP/1.1 201 Created\r\nX-Accel-Redirect: {target}\r\nContent-Type: text/special\r\nX-Other: gone\r\n\
                 Set-Cookie: a=b\r\nSet-Cookie: c=d\r\nContent-Length: 4\r\n\r\nlost"
            );
            if wire.body(&head).is_none() {
                return;
            }
            if wire.try_send(bytes).is_err() {
                return;
            }
        }
    });
    let lines = r#"
location /app { proxy_pass http://UPSTREAM; }
location /ignored { proxy_pass http://UPSTREAM; proxy_ignore_headers X-Accel-Redirect; }
location /kept/ { internal; alias {folder}/kept/; }
location /int { internal; return 200 "$request_method $uri $args"; }
location @named { return 203 "$request_method named $uri $args"; }
location @passed { proxy_pass http://ECHO; }
"#;
    let echo = Upstream::echo();
    let lines = lines.replace("ECHO", &format!("127.0.0.1:{}", echo.port));
    let lines = lines.replace("UPSTREAM", &format!("127.0.0.1:{}", upstream.port));
    let setup = super::site(&lines);
    setup.folder().write("kept/file", "content of the file");
    let server = setup.start();
    let mut client = Client::connect(server.port);
    assert_eq!(client.get("/kept/file").status, 404, "it is internal");
    let sent = client.get("/app?/kept/file");
    assert_eq!(
        (sent.status, sent.text().as_str()),
        (200, "content of the file")
    );
    assert_eq!(sent.field("Content-Type"), Some("text/special"));
    for cookie in ["Set-Cookie: a=b\r\n", "Set-Cookie: c=d\r\n"] {
        assert!(sent.head.contains(cookie), "{}", sent.head);
    }
    assert_eq!(sent.field("X-Other"), None);
    assert_eq!(client.get("/app?@named").text(), "GET named /app @named");
    // The path is unescaped, the query is that of the target, and a path is requested with GET.
    assert_eq!(client.get("/app?/int/a%20b?x=y").text(), "GET /int/a b x=y");
    assert_eq!(client.get("/app?/int/a%3Fb").text(), "GET /int/a?b ");
    assert_eq!(post(&server, "/app?/int/x").text(), "GET /int/x ");
    assert_eq!(client.get("/app?/int/%2e%2e/kept/file").status, 404);
    assert_eq!(client.get("/app?int").status, 404);
    // A named location gets the request unchanged.
    assert_eq!(
        post(&server, "/app?@named").text(),
        "POST named /app @named"
    );
    let passed = post(&server, "/app?@passed").text();
    assert!(passed.starts_with("POST /app?@passed "), "{passed}");
    assert!(passed.ends_with("body"), "{passed}");
    let long = "x".repeat(100_000);
    let request = format!(
        "POST /app?@passed HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{long}",
        long.len()
    );
    let passed = crate::client::exchange(server.port, request).text();
    assert!(passed.ends_with(&long), "it waited here as a whole");
    assert_eq!(client.get("/app?/kept/none").status, 404);
    assert_eq!(client.get("/app?@nobody").status, 500);
    let ignored = client.get("/ignored?/kept/file");
    assert_eq!((ignored.status, ignored.text().as_str()), (201, "lost"));
}

#[test]
fn applications_of_scgi_and_uwsgi_are_asked() {
    let respond = |asked: crate::support::fastcgi::Asked, more: &str| {
        let param = |name: &str| asked.param(name).unwrap_or("-").to_owned();
        let body = String::from_utf8_lossy(&asked.body).into_owned();
        let text = [
            "REQUEST_METHOD",
            "PATH_INFO",
            "EMPTY",
            "HTTP_X_ONE",
            "CONTENT_LENGTH",
        ]
        .map(param);
        format!(
            "Status: 202 Fine\r\nContent-Type: text/x\r\nX-Accel-Expires: 5\r\n\r\n{} {body} {more}",
            text.join(" ")
        )
    };
    let respond = Arc::new(respond);
    let other = respond.clone();
    let scgi = Upstream::start(move |mut wire| {
        if let Some(asked) = read_scgi(&mut wire) {
            wire.send(respond(asked, "scgi"));
        }
    });
    let uwsgi = Upstream::start(move |mut wire| {
        if let Some((asked, modifiers)) = read_uwsgi(&mut wire) {
            wire.send(other(asked, &format!("{modifiers:?}")));
        }
    });
    let params = |prefix: &str| {
        format!(
            "{prefix}_param REQUEST_METHOD $request_method; {prefix}_param PATH_INFO $document_uri; \
             {prefix}_param CONTENT_LENGTH $content_length; {prefix}_param EMPTY $arg_none if_not_empty;"
        )
    };
    let conf = format!(
        "events {{}} http {{ upstream wsgi {{ server 127.0.0.1:{}; }} server {{ listen 127.0.0.1:{{port}}; \
         location /s {{ scgi_pass 127.0.0.1:{}; {} scgi_param SCGI 1; }} \
         location /u {{ uwsgi_pass uwsgi://wsgi; {} uwsgi_modifier1 5; uwsgi_modifier2 6; }} \
         location /bare {{ uwsgi_pass wsgi; {} uwsgi_pass_request_headers off; uwsgi_pass_request_body off; }} }} }}",
        uwsgi.port,
        scgi.port,
        params("scgi"),
        params("uwsgi"),
        params("uwsgi").replace("$content_length", "0"),
    );
    let server = setup(&conf).start();
    for (path, expected) in [
        ("/s/x", "POST /s/x - 1 4 body scgi"),
        ("/u/x", "POST /u/x - 1 4 body [5, 6]"),
        ("/bare", "POST /bare - - 0  [0, 0]"),
    ] {
        let response = post(&server, path);
        assert_eq!(response.status, 202, "{path}");
        assert_eq!(response.text(), expected);
        assert_eq!(response.field("X-Accel-Expires"), None);
    }
}

#[test]
fn calls_of_grpc_pass_with_their_trailers() {
    let upstream = Upstream::start(|mut wire| {
        while let Some(head) = wire.head() {
            wire.body(&head);
            let text = head.join(" ");
            let length = text.len();
            let bytes = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nTransfer-Encoding: chunked\r\nTrailer: grpc-status\r\n\r\n\
                 {length:x}\r\n{text}\r\n0\r\ngrpc-status: 7\r\n\r\n"
            );
            if wire.try_send(bytes).is_err() {
                return;
            }
        }
    });
    // The second server connects to the first over HTTP/2, as to a gRPC service.
    let inner = free_port();
    let conf = format!(
        "events {{}} http {{ http2 on; upstream calls {{ server 127.0.0.1:{inner}; }}\n\
         server {{ listen 127.0.0.1:{{port}}; location / {{ grpc_pass grpc://calls; grpc_set_header X-Set yes; }} \
         location /v2 {{ proxy_pass http://calls; proxy_http_version 2; }} }}\n\
         server {{ listen 127.0.0.1:{inner}; location / {{ set $te $http_te; proxy_pass http://127.0.0.1:{}; proxy_set_header X-Proto $server_protocol; \
         proxy_set_header X-Te $te; proxy_set_header X-Authority $http_host; }} }} }}",
        upstream.port
    );
    let server = setup(&conf).start();
    let mut peer = Peer::connect(server.port);
    let response = peer.fetch("/call");
    let text = response.text();
    assert!(text.contains("GET /call"), "{text}");
    assert!(text.contains("X-Proto: HTTP/2.0"), "{text}");
    // As in nginx, trailers are asked for if the client does so.
    assert!(!text.contains("X-Te: trailers"), "{text}");
    let request = "GET /call HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: close, TE\r\n\r\n";
    let asked = exchange(server.port, request).text();
    assert!(asked.contains("X-Te: trailers"), "{asked}");
    assert!(text.contains("X-Authority: calls"), "{text}");
    let is_set = text.to_ascii_lowercase().contains("x-set: yes");
    assert!(is_set, "{text}");
    assert_eq!(
        response.trailers,
        [("grpc-status".to_owned(), "7".to_owned())]
    );
    let text = peer.fetch("/v2").text();
    assert!(text.contains("X-Proto: HTTP/2.0"), "{text}");
}
