//! The error log: its lines are nginx's, so programs that look for failures find them.

use super::setup;
use crate::client::{ask, exchange};
use crate::harness::eventually;
use crate::support::client_load::gather;

#[test]
fn log_lines_name_the_client_and_the_request() {
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
    assert_eq!(
        behind("connect() failed (111: Connection refused) while connecting to upstream"),
        ", client: 127.0.0.1, server: a.test, request: \"GET /gone HTTP/1.1\", upstream: \"http://127.0.0.1:1/gone\", \
         host: \"localhost\""
    );
    assert!(
        !errors().contains("/told"),
        "an answer of the configuration is no error"
    );
}

/// How often the text of `message` occurs in a log.
#[test]
fn an_upstream_that_refuses_a_body_is_not_logged_as_a_client_with_a_large_one() {
    let conf = "
error_log {folder}/error.log debug;
events { worker_connections 100; }
http {
server { listen unix:{folder}/refusing.sock; location / { return 413; } }
server {
listen 127.0.0.1:{port};
proxy_intercept_errors on;
error_page 413 /page;
location / { proxy_pass http://unix:{folder}/refusing.sock; }
location /page { return 200 replaced; }
location /gone { proxy_pass http://127.0.0.1:1; }
}
}
";
    let server = setup(conf).start();
    let response = ask(server.port, "/a");
    assert_eq!((response.status, &*response.text()), (413, "replaced"));
    assert_eq!(ask(server.port, "/gone").status, 502);
    let errors = || server.folder.read("error.log");
    eventually("the last line", || errors().contains("/gone"), errors);
    assert!(
        !errors().contains("client intended to send"),
        "{}",
        errors()
    );
}

fn count(text: &str, message: &str) -> usize {
    text.lines().filter(|line| line.contains(message)).count()
}

const PLACES: &str = "
error_log {folder}/main.log;
events { worker_connections 100; }
http {
error_log {folder}/http.log;
server {
listen 127.0.0.1:{port};
root {folder}/www;
location /own { error_log {folder}/own.log; error_log {folder}/second.log notice; error_log {folder}/grave.log crit; rewrite_log on;
    rewrite ^/no /never; rewrite ^/own/(.*)$ /own/x-$1 break; }
location /soft { error_log {folder}/soft.log info; auth_basic here; auth_basic_user_file {folder}/users; }
location /softer { error_log {folder}/softer.log notice; auth_basic here; auth_basic_user_file {folder}/users; }
location /quiet { log_not_found off; }
location /off { error_log /dev/null; }
location /memory { error_log memory:32k debug; }
}
server {
listen 127.0.0.1:{port}; server_name other;
error_log {folder}/other.log;
root {folder}/www;
}
}
";

/// The innermost block with such directives applies, with all of them, each with its level.
#[test]
fn places_have_logs_of_their_own() {
    let setup = setup(PLACES);
    setup.folder().write("users", "a:{PLAIN}b\n");
    let server = setup.start();
    for target in [
        "/own/a",
        "/none",
        "/quiet/none",
        "/off/none",
        "/memory/none",
    ] {
        assert_eq!(ask(server.port, target).status, 404, "{target}");
    }
    for target in ["/soft", "/softer"] {
        assert_eq!(ask(server.port, target).status, 401, "{target}");
    }
    let other = "GET /none HTTP/1.1\r\nHost: other\r\nConnection: close\r\n\r\n";
    assert_eq!(exchange(server.port, other).status, 404);
    let read = |name: &str| server.folder.read(name);
    // One thread writes all logs, in order.
    let is_written = || count(&read("other.log"), "open() ") == 1;
    eventually("the last line", is_written, || read("other.log"));
    let missing = format!("open() \"{}/www", server.folder.path().display());
    for (log, lines) in [("own.log", 1), ("second.log", 4), ("grave.log", 0)] {
        assert_eq!(read(log).lines().count(), lines, "{log}: {}", read(log));
    }
    let second = read("second.log");
    for entry in [
        " [notice] ",
        ": *",
        "\"^/own/(.*)$\" matches \"/own/a\", client: 127.0.0.1, server: , request: \"GET /own/a HTTP/1.1\", host: \"localhost\"",
        "rewritten data: \"/own/x-a\", args: \"\", client: ",
        "\"^/no\" does not match \"/own/a\", client: ",
        &format!("{missing}/own/x-a\" failed (2: No such file or directory), client: "),
    ] {
        assert!(second.contains(entry), "no {entry} in {second}");
    }
    let http = read("http.log");
    assert_eq!(
        (
            http.lines().count(),
            count(&http, &format!("{missing}/none\""))
        ),
        (1, 1),
        "{http}"
    );
    eventually(
        "an entry in soft.log",
        || count(&read("soft.log"), " [info] ") == 1,
        || read("soft.log"),
    );
    assert_eq!(read("softer.log"), "");
    assert!(!read("main.log").contains("open()"), "{}", read("main.log"));
}

const LIMITS: &str = "
error_log {folder}/error.log;
events { worker_connections 100; }
http {
limit_req_zone $server_name zone=req:1m rate=1r/m;
limit_req_zone $server_name zone=late:1m rate=1r/m;
limit_conn_zone $server_name zone=conn:1m;
upstream dead { server 127.0.0.1:1; server 127.0.0.1:2; }
upstream none { server 127.0.0.1:1 down; server 127.0.0.1:2 down; }
server {
listen 127.0.0.1:{port};
server_name a.test;
root {folder}/www;
location /req { limit_req zone=req; return 200; }
location /late { error_log {folder}/late.log warn; limit_req zone=late burst=5; limit_req_dry_run on; try_files /a =404; }
location = /conn { limit_conn conn 1; limit_rate 100; }
location /auth { auth_basic here; auth_basic_user_file {folder}/users; }
location /small { client_max_body_size 10; proxy_pass http://dead; }
location /dead { proxy_pass http://dead/x/; }
location /none { proxy_pass http://none; }
location /fast { fastcgi_pass 127.0.0.1:1; }
location /circle { rewrite ^ /circle last; }
location /try { limit_req zone=req; try_files /a =404; }
}
}
";

#[test]
fn limits_logins_bodies_and_groups_are_logged_in_nginxs_wording() {
    let setup = setup(LIMITS);
    setup.folder().write("users", "a:{PLAIN}b\n");
    setup.folder().write("www/a", "a");
    setup.folder().write("www/conn", "a".repeat(10_000));
    let server = setup.start();
    let _busy = gather(server.port, 1, "/conn", None);
    let login = |login: &str| {
        let request = format!(
            "GET /auth HTTP/1.1\r\nHost: a\r\nAuthorization: Basic {login}\r\nConnection: close\r\n\r\n"
        );
        assert_eq!(exchange(server.port, request).status, 401);
    };
    login("YTp4"); // a:x
    login("eDp4"); // x:x
    let body = "POST /small HTTP/1.1\r\nHost: a\r\nContent-Length: 12\r\nConnection: close\r\n\r\n012345678901";
    assert_eq!(exchange(server.port, body).status, 413);
    for (target, status) in [
        ("/try", 200),
        ("/try", 503),
        ("/late", 200),
        ("/late", 200),
        ("/conn", 503),
        ("/dead?q", 502),
        ("/none", 502),
        ("/fast", 502),
        ("/circle", 500),
    ] {
        assert_eq!(ask(server.port, target).status, status, "{target}");
    }
    let errors = || server.folder.read("error.log");
    eventually("the last line", || errors().contains("cycle"), errors);
    let folder = server.folder.path().display();
    for entry in [
        "user \"a\": password mismatch, client: 127.0.0.1, server: a.test, request: \"GET /auth HTTP/1.1\", host: \"a\"\n".to_owned(),
        format!("user \"x\" was not found in \"{folder}/users\", client: "),
        "client intended to send too large body: 12 bytes, client: ".to_owned(),
        ".by zone \"req\", client: ".replace('.', " "),
        "limiting connections by zone \"conn\", client: ".to_owned(),
        "upstream: \"http://127.0.0.1:1/x/?q\", host: \"localhost\"\n".to_owned(),
        "upstream: \"http://127.0.0.1:2/x/?q\", host: \"localhost\"\n".to_owned(),
        "no live upstreams while connecting to upstream, client: 127.0.0.1, server: a.test, request: \"GET /none HTTP/1.1\", \
         upstream: \"http://none/none\", host: \"localhost\"\n"
            .to_owned(),
        "upstream: \"fastcgi://127.0.0.1:1\", host: \"localhost\"\n".to_owned(),
        "rewrite or internal redirection cycle while processing \"/circle\", client: ".to_owned(),
    ] {
        assert_eq!(count(&errors(), entry.trim_end()), 1, "{entry} in {}", errors());
    }
    assert_eq!(
        count(&errors(), "limiting requests, excess: "),
        1,
        "{}",
        errors()
    );
    assert_eq!(errors().lines().count(), 10, "{}", errors());
    let late = server.folder.read("late.log");
    assert!(
        late.contains("[warn]") && late.contains("delaying request, dry run, excess: "),
        "{late}"
    );
}

/// Client errors are not logged at severe levels.
#[test]
fn level_crit_logs_nothing_about_requests() {
    let conf = "
error_log {folder}/error.log crit;
events { worker_connections 100; }
http { server { listen 127.0.0.1:{port}; root {folder}/www; location /later { access_log {folder}/access.log; return 200; } } }
";
    let server = setup(conf).start();
    assert_eq!(ask(server.port, "/none").status, 404);
    assert_eq!(ask(server.port, "/later").status, 200);
    // The thread that writes both logs has written everything earlier.
    let later = || server.folder.read("access.log");
    eventually("a later line", || later().contains("/later"), later);
    assert_eq!(server.folder.read("error.log"), "");
}
