//! Access logs and the error log.

use super::setup;
use crate::client::{Client, exchange};
use crate::harness::eventually;

#[test]
fn lines_are_those_of_nginx() {
    let conf = r#"
error_log {folder}/error.log;
events {}
http {
log_format own '$request_method "$arg_a" $status $sent_http_x';
access_log {folder}/access.log combined;
server {
listen 127.0.0.1:{port};
location / { return 200 "four"; }
location /own { access_log {folder}/own.log own if=$arg_log; add_header X y; return 404 "no"; }
location /both { access_log {folder}/access.log; access_log {folder}/own.log own; return 410; }
location /files/ { access_log {folder}/own.log own; root {folder}; }
location /off { access_log off; return 200 "x"; }
location /inner { error_page 404 /own?log=1&a=inner; return 404; }
}
}
"#;
    let server = setup(conf).start();
    for target in [
        "/?q",
        "/own?log=1&a=b%22c",
        "/own",
        "/both?a=\"\\",
        "/off",
        "/inner",
        "/files/none",
    ] {
        let request = format!(
            "GET {target} HTTP/1.1\r\nHost: a\r\nUser-Agent: me \"quoted\"\r\nAuthorization: Basic dXNlcjpwYXNz\r\nConnection: close\r\n\r\n"
        );
        exchange(server.port, request);
    }
    let own = || server.folder.read("own.log");
    eventually("four lines", || own().lines().count() >= 4, own);
    eventually(
        "two lines",
        || server.folder.read("access.log").lines().count() >= 2,
        own,
    );
    // Workers do not wait for each other: the order of lines may differ from that of requests.
    let mut lines: Vec<String> = own().lines().map(str::to_owned).collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            "GET \"-\" 404 -",
            "GET \"\\x22\\x5C\" 410 -",
            "GET \"b%22c\" 404 -",
            "GET \"inner\" 404 -"
        ]
    );
    let access = server.folder.read("access.log");
    let mut lines: Vec<&str> = access.lines().collect();
    lines.sort_unstable_by_key(|line| line.contains("/both"));
    assert_eq!(lines.len(), 2, "{access}");
    assert!(lines[0].starts_with("127.0.0.1 - user ["), "{access}");
    assert!(
        lines[0].ends_with("] \"GET /?q HTTP/1.1\" 200 4 \"-\" \"me \\x22quoted\\x22\""),
        "{access}"
    );
    assert!(
        lines[1].contains("\"GET /both?a=\\x22\\x5C HTTP/1.1\" 410 "),
        "{access}"
    );
    // A configured response is not an error; a missing file is one.
    let errors = server.folder.read("error.log");
    let others: Vec<&str> = errors
        .lines()
        .filter(|line| !line.contains("\"GET /files/none HTTP/1.1\""))
        .collect();
    assert!(others.is_empty(), "{errors}");
}

/// As with nginx, the line of a request is in the log before its connection is closed: a program that reads the log then
/// has nothing to wait for. On a connection that stays it is there once the worker waits.
#[test]
fn a_request_is_in_the_log_before_its_connection_is_idle() {
    let server = super::setup(
        "events {}\nhttp {\nlog_format m '$uri';\nserver {\nlisten 127.0.0.1:{port};\naccess_log {folder}/a.log m;\n\
         location / { return 200 ok; }\n}\n}\n",
    )
    .start();
    let log = || server.folder.read("a.log");
    let mut expected = String::new();
    for number in 0..20 {
        let mut client = Client::connect(server.port);
        client.send(format!(
            "GET /{number} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        ));
        assert_eq!(client.response().status, 200);
        assert!(client.is_closed());
        expected.push_str(&format!("/{number}\n"));
        assert_eq!(log(), expected);
    }
    let mut client = Client::connect(server.port);
    for number in 0..20 {
        assert_eq!(client.get(&format!("/kept/{number}")).status, 200);
        expected.push_str(&format!("/kept/{number}\n"));
        eventually("the line", || log() == expected, log);
    }
}
