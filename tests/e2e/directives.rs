//! Directives whose behaviour shows only in a complete server. Caddy's responses are compared in the peer test; this
//! tests what must hold without it.

use crate::harness::{Folder, Server, Setup, eventually};

#[test]
fn map_fills_groups_and_leaves_columns_to_later_rows() {
    let server = Server::start(
        "{\n\tadmin off\n}\n:{port} {\n\tmap {path} {first} {second} {\n\
         \t\t~^/year/(\\d+)$ \"y ${1} {method}\" -\n\
         \t\t~^/year \"unused\" \"later\"\n\
         \t\t/exact \"{method}\" \"$1\"\n\
         \t\tdefault \"none {method}\" \"nothing\"\n\t}\n\
         \trespond \"{first}|{second}\"\n}\n",
    );
    for (path, body) in [
        // In the output of a pattern only capture groups are replaced, as in Caddy.
        ("/year/2026", "y 2026 {http.request.method}|later"),
        ("/year/x", "unused|later"),
        ("/exact", "GET|$1"),
        ("/other", "none GET|nothing"),
    ] {
        assert_eq!(server.ask(path).text(), body, "{path}");
    }
}

#[test]
fn errors_go_to_the_first_block_for_their_status() {
    let server = Server::start(
        "{\n\tadmin off\n}\n:{port} {\n\terror /a 404\n\terror /b 503\n\terror /c 403\n\
         \thandle_errors 404 410 {\n\t\trespond \"missing\"\n\t}\n\
         \thandle_errors 5xx {\n\t\trespond \"broken\"\n\t}\n\
         \thandle_errors {\n\t\trespond \"other {err.status_code}\"\n\t}\n}\n",
    );
    for (path, status, body) in [
        ("/a", 404, "missing"),
        ("/b", 503, "broken"),
        ("/c", 403, "other 403"),
    ] {
        let response = server.ask(path);
        assert_eq!(
            (response.status, response.text().as_str()),
            (status, body),
            "{path}"
        );
    }
}

#[test]
fn log_skip_keeps_a_request_out_of_the_access_log() {
    let folder = Folder::new();
    let log = folder.path().join("access.log");
    let text = format!(
        "{{\n\tadmin off\n}}\n:{{port}} {{\n\tlog {{\n\t\toutput file {}\n\t}}\n\
         \tlog_skip /quiet\n\trespond ok\n}}\n",
        log.display()
    );
    let server = Server::start(&text);
    server.ask("/quiet");
    server.ask("/loud");
    let written = || folder.read("access.log");
    eventually("the line", || written().contains("/loud"), written);
    assert!(!written().contains("/quiet"), "{}", written());
}

#[test]
fn client_input_is_never_expanded() {
    let server = Server::start(
        "{\n\tadmin off\n}\n:{port} {\n\theader X-Path {path}\n\trespond \"{query} {header.x-a} {path}\"\n}\n",
    );
    let response = crate::client::exchange(
        server.port,
        "GET /%7Bmethod%7D?{env.HOME} HTTP/1.1\r\nHost: a\r\nX-A: {env.HOME}{file./etc/passwd}\r\n\
         Connection: close\r\n\r\n",
    );
    assert_eq!(response.status, 200);
    assert_eq!(
        response.text(),
        "{env.HOME} {env.HOME}{file./etc/passwd} /{method}"
    );
    assert_eq!(response.field("X-Path"), Some("/{method}"));
}

#[test]
fn each_default_of_a_header_block_counts_by_itself() {
    let server = Server::start(
        "{\n\tadmin off\n}\n:{port} {\n\theader {\n\t\t?A default\n\t\t?B default\n\t\t?b last\n\t}\n\
         \thandle /a {\n\t\theader A own\n\t\trespond ok\n\t}\n\thandle {\n\t\trespond ok\n\t}\n}\n",
    );
    for (path, a) in [("/a", "own"), ("/", "default")] {
        let response = server.ask(path);
        assert_eq!(
            (response.field("A"), response.field("B")),
            (Some(a), Some("last")),
            "{path}"
        );
    }
}

#[test]
fn lines_that_hide_files_add_up() {
    let setup = Setup::new(
        "{\n\tadmin off\n}\n(dots) {\n\thide .*\n}\n:{port} {\n\troot * {folder}/site\n\tfile_server {\n\t\timport dots\n\
         \t\thide *.key *.pem\n\t\thide secret\n\t}\n}\n",
    );
    for name in [".env", "a.key", "a.pem", "secret/x", "page.txt"] {
        setup.folder().write(&format!("site/{name}"), "text");
    }
    let server = setup.start();
    for name in [".env", "a.key", "a.pem", "secret/x"] {
        assert_eq!(server.ask(&format!("/{name}")).status, 404, "{name}");
    }
    assert_eq!(server.ask("/page.txt").status, 200);
}
