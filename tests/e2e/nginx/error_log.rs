//! The log of errors: its lines are nginx's, and programs that look for failures find them.

use super::setup;
use crate::client::{ask, exchange};
use crate::harness::eventually;

#[test]
fn lines_name_who_asked_for_what() {
    let conf = "
error_log {folder}/error.log;
events { worker_connections 100; }
http {
server {
listen 127.0.0.1:{port};
server_name a.test b.test;
location /files/ { root {folder}/www; }
location /closed/ { deny all; }
location /told { return 404; }
location /gone { proxy_pass http://127.0.0.1:1; }
}
}
";
    let setup = setup(conf);
    setup.folder().write("www/files/sub/a.txt", "a");
    let server = setup.start();
    let request = "GET /files/none?q HTTP/1.1\r\nHost: b.test\r\nReferer: http://c/\r\nConnection: close\r\n\r\n";
    assert_eq!(exchange(server.port, request).status, 404);
    for (target, status) in [
        ("/told", 404),
        ("/closed/a", 403),
        ("/files/sub/", 403),
        ("/gone", 502),
    ] {
        assert_eq!(ask(server.port, target).status, status, "{target}");
    }
    let errors = || server.folder.read("error.log");
    eventually("four lines", || errors().lines().count() >= 4, errors);
    let folder = server.folder.path().display();
    let behind = |message: &str| {
        let errors = errors();
        let line = errors.lines().find(|line| line.contains(message));
        let line = line.unwrap_or_else(|| panic!("no {message} in {errors}"));
        let (head, tail) = line.split_once(message).expect("it is in it");
        let words: Vec<&str> = head.split(' ').collect();
        assert_eq!(words[2], "[error]", "{line}");
        let (process, thread) = words[3]
            .trim_end_matches(':')
            .split_once('#')
            .expect("two numbers");
        assert_eq!(process, server.pid().to_string(), "{line}");
        assert!(thread.parse::<u32>().is_ok(), "{line}");
        tail.to_owned()
    };
    assert_eq!(
        behind(&format!(
            "open() \"{folder}/www/files/none\" failed (2: No such file or directory)"
        )),
        ", client: 127.0.0.1, server: a.test, request: \"GET /files/none?q HTTP/1.1\", host: \"b.test\", \
         referrer: \"http://c/\""
    );
    assert!(behind("access forbidden by rule").contains("request: \"GET /closed/a HTTP/1.1\""));
    behind(&format!(
        "directory index of \"{folder}/www/files/sub/\" is forbidden"
    ));
    assert!(
        !errors().contains("/told"),
        "an answer of the configuration is no error"
    );
    assert!(errors().contains("/gone"), "{}", errors());
}

/// What a client does wrong is no concern of those who ask for grave things only.
#[test]
fn crit_tells_nothing_of_requests() {
    let conf = "
error_log {folder}/error.log crit;
events { worker_connections 100; }
http { server { listen 127.0.0.1:{port}; root {folder}/www; location /later { access_log {folder}/access.log; return 200; } } }
";
    let server = setup(conf).start();
    assert_eq!(ask(server.port, "/none").status, 404);
    assert_eq!(ask(server.port, "/later").status, 200);
    // The thread that writes both logs has written what came before.
    let later = || server.folder.read("access.log");
    eventually("a later line", || later().contains("/later"), later);
    assert_eq!(server.folder.read("error.log"), "");
}
