//! Directives whose behaviour shows only in a whole server. What Caddy answers is compared in the peer test; here is
//! what must hold without it.

use crate::harness::Server;

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
        // In the output of a pattern only groups are filled in, as in Caddy.
        ("/year/2026", "y 2026 {http.request.method}|later"),
        ("/year/x", "unused|later"),
        ("/exact", "GET|$1"),
        ("/other", "none GET|nothing"),
    ] {
        assert_eq!(server.ask(path).text(), body, "{path}");
    }
}

#[test]
fn what_a_client_sends_is_never_expanded() {
    let server = Server::start(
        "{\n\tadmin off\n}\n:{port} {\n\theader X-Path {path}\n\trespond \"{query} {header.x-a} {path}\"\n}\n",
    );
    let answer = crate::client::exchange(
        server.port,
        "GET /%7Bmethod%7D?{env.HOME} HTTP/1.1\r\nHost: a\r\nX-A: {env.HOME}{file./etc/passwd}\r\n\
         Connection: close\r\n\r\n",
    );
    assert_eq!(answer.status, 200);
    assert_eq!(
        answer.text(),
        "{env.HOME} {env.HOME}{file./etc/passwd} /{method}"
    );
    assert_eq!(answer.field("X-Path"), Some("/{method}"));
}
