//! `request_id`: the ID of a request in headers, logs and error pages, in both languages.

use serde_json::Value;

use crate::client::{Response, exchange};
use crate::harness::{Server, Setup, eventually, run_to_end, text};
use crate::upstream::{Upstream, dead};

/// An upstream that responds with the ID that it received, and with one of its own in the header.
fn upstream() -> Upstream {
    Upstream::start(|mut wire| {
        while let Some(head) = wire.head() {
            let ids: Vec<&str> = head
                .iter()
                .filter(|line| line.to_ascii_lowercase().starts_with("x-request-id:"))
                .map(|line| line[13..].trim())
                .collect();
            let text = ids.join(" ");
            let head = format!(
                "HTTP/1.1 200 OK\r\nX-Request-Id: theirs\r\nContent-Length: {}\r\n\r\n",
                text.len()
            );
            wire.send(head + &text);
        }
    })
}

fn request(server: &Server, path: &str, headers: &str) -> Response {
    exchange(
        server.port,
        format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}Connection: close\r\n\r\n"),
    )
}

/// The ID of a response; it has exactly one.
fn id(response: &Response) -> String {
    let ids = response.head.to_ascii_lowercase();
    assert_eq!(ids.matches("x-request-id:").count(), 1, "{ids}");
    response.field("x-request-id").expect("an ID").to_owned()
}

fn caddyfile(port: u16, dead: u16, option: &str) -> String {
    format!(
        "{{\n\tadmin localhost:{{admin}}\n\tservers {{\n\t\t{option}\n\t}}\n}}\n:{{port}} {{\n\tlog {{\n\
         \t\toutput file {{folder}}/access.log\n\t}}\n\
         \thandle /up {{\n\t\treverse_proxy localhost:{port}\n\t}}\n\
         \thandle /down {{\n\t\treverse_proxy localhost:{dead}\n\t}}\n\
         \thandle /fine {{\n\t\trespond {{uuid}}\n\t}}\n\
         \thandle /empty {{\n\t\trespond 404\n\t}}\n\
         \thandle {{\n\t\terror 404\n\t}}\n\
         \thandle_errors 404 {{\n\t\trespond \"sorry: {{uuid}}\"\n\t}}\n}}\n"
    )
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36 && text.split('-').count() == 5
}

#[test]
fn error_pages_show_the_id_that_the_log_has() {
    let upstream = upstream();
    let server = Server::start(&caddyfile(upstream.port, dead(), "request_id"));
    let down = request(&server, "/down", "X-Request-Id: mine\r\n");
    let id_of_down = id(&down);
    assert_eq!(down.status, 502);
    assert!(
        is_uuid(&id_of_down),
        "a client cannot choose it: {id_of_down}"
    );
    assert_eq!(
        down.text(),
        format!("502 Bad Gateway\nRequest ID: {id_of_down}\n")
    );
    assert_eq!(
        down.field("content-type"),
        Some("text/plain; charset=utf-8")
    );
    // A page of the configuration has it as a placeholder.
    let missing = request(&server, "/none", "");
    assert_eq!(missing.text(), format!("sorry: {}", id(&missing)));
    // What is not an error of sluice's own is not touched.
    let empty = request(&server, "/empty", "");
    assert_eq!((empty.status, empty.text().as_str()), (404, ""));
    // An upstream sees one ID, and the client gets no other.
    let up = request(&server, "/up", "X-Request-Id: a\r\nx_request_id: b\r\n");
    assert_eq!(up.text(), id(&up));
    let fine = request(&server, "/fine", "");
    assert_eq!(fine.text(), id(&fine));
    assert_ne!(id(&fine), id(&up));
    // Malformed requests never reach a site.
    let malformed = exchange(server.port, "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n");
    let page = format!("400 Bad Request\nRequest ID: {}\n", id(&malformed));
    assert_eq!((malformed.status, malformed.text()), (400, page));
    let connect = exchange(server.port, "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n");
    let page = format!("405 Method Not Allowed\nRequest ID: {}\n", id(&connect));
    assert_eq!(connect.text(), page);

    let log = || server.folder.read("access.log");
    eventually("all lines", || log().lines().count() >= 7, log);
    let logged = |text: &str, wanted: &str| {
        text.lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .any(|line| line["request_id"] == wanted)
    };
    assert!(logged(&log(), &id_of_down), "{}", log());
    assert!(logged(&log(), &id(&malformed)), "{}", log());
    let is_there = || {
        let errors = server.stderr();
        let mut failed = errors
            .lines()
            .filter(|line| line.contains("request failed"));
        failed.any(|line| logged(line, &id_of_down))
    };
    eventually("the entry of the failure", is_there, || server.stderr());
    let status = run_to_end(
        &server.folder,
        &[
            "status",
            "--json",
            "--address",
            &format!("localhost:{}", server.admin),
        ],
    );
    let status = text(&status.stdout);
    assert!(status.contains(&id_of_down), "{status}");
}

#[test]
fn only_a_well_formed_id_of_a_trusted_proxy_is_kept() {
    let upstream = upstream();
    let options = "request_id\n\t\ttrusted_proxies static 127.0.0.1";
    let server = Server::start(&caddyfile(upstream.port, dead(), options));
    let aws = "Root=1-67891233-abcdef012345678912345678;Self=1-67";
    for given in ["abc-1", aws] {
        let header = format!("x-request-ID: {given}\r\n");
        let down = request(&server, "/down", &header);
        assert_eq!(id(&down), given);
        assert_eq!(
            down.text(),
            format!("502 Bad Gateway\nRequest ID: {given}\n")
        );
        assert_eq!(request(&server, "/up", &header).text(), given);
    }
    let long = "a".repeat(129);
    for odd in ["<script>", "a\"b", "../x", "a b", "", "\u{e9}", &long] {
        let down = request(&server, "/down", &format!("X-Request-Id: {odd}\r\n"));
        assert!(is_uuid(&id(&down)), "{odd}: {}", id(&down));
        assert!(odd.is_empty() || !down.text().contains(odd), "{odd}");
    }
    let two = request(&server, "/up", "X-Request-Id: a\r\nX-Request-Id: b\r\n");
    assert!(is_uuid(&two.text()), "{}", two.text());
}

#[test]
fn without_the_option_error_responses_stay_empty() {
    let upstream = upstream();
    let server = Server::start(&caddyfile(upstream.port, dead(), "log_timings"));
    let down = request(&server, "/down", "");
    assert_eq!((down.status, down.text().as_str()), (502, ""));
    assert_eq!(down.field("x-request-id"), None);
    let up = request(&server, "/up", "X-Request-Id: mine\r\n");
    assert_eq!(up.text(), "mine");
}

#[test]
fn each_request_of_a_connection_has_its_own() {
    let upstream = upstream();
    let server = Server::start(&caddyfile(
        upstream.port,
        dead(),
        "request_id X-Correlation-Id",
    ));
    let mut client = crate::client::Client::connect(server.port);
    let ids: Vec<String> = (0..3)
        .map(|_| {
            let response = client.get("/fine");
            let id = response.field("x-correlation-id").map(str::to_owned);
            assert_eq!(id, Some(response.text()));
            response.text()
        })
        .collect();
    assert!(ids[0] != ids[1] && ids[1] != ids[2], "{ids:?}");
}

fn nginx(port: u16, dead: u16, option: &str) -> Server {
    let setup = Setup::bare();
    let text = setup.fill(&format!(
        "error_log {{folder}}/error.log;\nevents {{}}\nhttp {{\n\
         log_format ids '$uri $request_id';\naccess_log {{folder}}/ids.log ids;\n{option}\n\
         server {{ listen 127.0.0.1:{{port}};\nerror_page 403 /sorry;\n\
         location /up {{ proxy_pass http://127.0.0.1:{port}; }}\n\
         location /down {{ proxy_pass http://127.0.0.1:{dead}; }}\n\
         location /closed {{ deny all; }}\n\
         location /moved {{ return 301 /up; }}\n\
         location = /sorry {{ return 403 \"sorry: $request_id\"; }}\n}}\n}}\n"
    ));
    setup.folder().write("nginx.conf", text);
    setup.args(&["--config", "nginx.conf"]).start()
}

#[test]
fn built_in_pages_of_an_nginx_conf_show_it_on_request() {
    let upstream = upstream();
    let server = nginx(upstream.port, dead(), "request_id on;");
    let down = request(&server, "/down", "X-Request-Id: mine\r\n");
    let id_of_down = id(&down);
    assert_eq!(id_of_down.len(), 32, "{id_of_down}");
    let page = format!(
        "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<center><h1>502 Bad Gateway</h1></center>\r\n\
         <center>Request ID: {id_of_down}</center>\r\n<hr><center>sluice</center>\r\n</body>\r\n</html>\r\n"
    );
    assert_eq!(down.text(), page);
    let closed = request(&server, "/closed", "");
    assert_eq!(closed.text(), format!("sorry: {}", id(&closed)));
    let moved = request(&server, "/moved", "");
    assert!(!moved.text().contains("Request ID"), "{}", moved.text());
    let up = request(&server, "/up", "X-Request-Id: a\r\n");
    assert_eq!(up.text(), id(&up));
    let malformed = exchange(server.port, "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n");
    let shown = format!("<center>Request ID: {}</center>", id(&malformed));
    assert!(malformed.text().contains(&shown), "{}", malformed.text());
    let log = || server.folder.read("ids.log");
    let wanted = format!("/down {id_of_down}");
    eventually("the line", || log().contains(&wanted), log);
    let errors = || server.folder.read("error.log");
    let wanted = format!(", request_id: \"{id_of_down}\"");
    eventually("the error", || errors().contains(&wanted), errors);
}

#[test]
fn an_nginx_conf_keeps_the_id_of_proxies_that_it_trusts() {
    let upstream = upstream();
    let trust = "request_id on; set_real_ip_from 127.0.0.1;";
    let server = nginx(upstream.port, dead(), trust);
    let down = request(&server, "/down", "X-Request-Id: abc-1\r\n");
    assert_eq!(id(&down), "abc-1");
    assert!(down.text().contains("<center>Request ID: abc-1</center>"));
    assert_eq!(
        request(&server, "/up", "X-Request-Id: abc-2\r\n").text(),
        "abc-2"
    );
    let odd = request(&server, "/down", "X-Request-Id: <b>\r\n");
    assert_eq!(id(&odd).len(), 32);
    // Without the directive the pages are nginx's.
    let plain = nginx(upstream.port, dead(), "set_real_ip_from 127.0.0.1;");
    let down = request(&plain, "/down", "X-Request-Id: abc-1\r\n");
    assert_eq!(
        down.text(),
        "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<center><h1>502 Bad Gateway</h1></center>\r\n\
         <hr><center>sluice</center>\r\n</body>\r\n</html>\r\n"
    );
    assert_eq!(down.field("x-request-id"), None);
}
