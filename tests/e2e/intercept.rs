//! Responses that directives replace: `intercept`, `handle_response` and what copies responses there. The expectations
//! are the responses of Caddy 2.11 unless a comment says otherwise.

use crate::client::Response;
use crate::harness::{Server, run_to_end, text};
use crate::upstream::Upstream;

const RESPONSE: &str = "HTTP/1.1 404 Not Found\r\nContent-Type: text/up\r\nX-Up: one\r\nX-Up: two\r\nX-B: b\r\n\
                      Connection: X-Hop\r\nX-Hop: hop\r\nContent-Length: 5\r\n\r\nupper";

fn server(site: &str) -> (Server, Upstream) {
    let upstream = Upstream::responding(RESPONSE);
    let site = site.replace("UPSTREAM", &format!("127.0.0.1:{}", upstream.port));
    let text = format!("{{\n\tadmin off\n}}\n:{{port}} {{\n{site}\n}}\n");
    (Server::start(&text), upstream)
}

fn said(response: &Response) -> (u16, String) {
    (response.status, response.text())
}

#[test]
fn intercepted_responses_are_replaced_completely() {
    let (server, _upstream) = server(
        "intercept {\n@404 status 404\nhandle_response @404 {\n\
         respond \"custom {resp.status_code} {resp.header.X-Up} {resp.header.X-None}\"\n}\n}\n\
         reverse_proxy UPSTREAM",
    );
    let response = server.ask("/");
    // Caddy keeps the length of the original response and so truncates this one.
    let body = "custom 404 one,two {http.intercept.header.X-None}";
    assert_eq!(said(&response), (200, body.to_owned()));
    assert_eq!(response.field("X-B"), Some("b"), "fields stay");
}

#[test]
fn an_intercepted_response_is_sent_unless_a_handler_replaces_it() {
    let (server, _upstream) = server(
        "intercept {\nhandle_response {\nheader X-New {resp.status_code}\n}\n}\nreverse_proxy UPSTREAM",
    );
    let response = server.ask("/");
    assert_eq!(said(&response), (404, "upper".to_owned()));
    assert_eq!(response.field("X-New"), Some("404"));
}

#[test]
fn intercepted_statuses_are_replaced() {
    // Caddy parses `replace_status` here, but ignores it.
    let (server, _upstream) =
        server("intercept {\n@x status 4xx\nreplace_status @x 299\n}\nreverse_proxy UPSTREAM");
    assert_eq!(said(&server.ask("/")), (299, "upper".to_owned()));
}

#[test]
fn handle_response_routes_may_fail_and_be_intercepted() {
    let (server, _upstream) = server(
        "handle /fails {\nintercept {\nhandle_response {\nerror \"went\" 418\n}\n}\nrespond \"old\"\n}\n\
         handle /twice {\nintercept {\nhandle_response {\nroute {\nintercept {\nhandle_response {\n\
         respond \"inner {resp.status_code}\"\n}\n}\nrespond \"outer\" 202\n}\n}\n}\nrespond \"old\" 201\n}\n\
         handle /kept {\nintercept {\nhandle_response {\nroute {\nintercept {\nhandle_response {\n\
         header X-Deep yes\n}\n}\nrespond \"outer\" 202\n}\n}\n}\nrespond \"old\" 201\n}\n\
         handle /copied {\nintercept {\nhandle_response {\ncopy_response\n}\n}\nrespond \"old\"\n}\n\
         handle_errors {\nrespond \"E {err.status_code}\"\n}",
    );
    assert_eq!(said(&server.ask("/fails")), (418, "E 418".to_owned()));
    assert_eq!(said(&server.ask("/twice")), (200, "inner 202".to_owned()));
    assert_eq!(said(&server.ask("/kept")), (202, "outer".to_owned()));
    assert_eq!(said(&server.ask("/copied")), (500, "E 500".to_owned()));
}

#[test]
fn routes_that_intercept_themselves_end() {
    let server = Server::start(
        "{\n\tadmin off\n}\n&(self) {\n\tintercept {\n\t\thandle_response {\n\t\t\tinvoke self\n\t\t}\n\t}\n\
         \trespond \"again\"\n}\n:{port} {\n\tinvoke self\n}\n",
    );
    assert_eq!(server.ask("/").status, 508);
}

#[test]
fn upstream_responses_can_be_copied() {
    let (server, _upstream) = server(
        "handle /whole {\nreverse_proxy UPSTREAM {\nheader_down X-Down \"down {rp.status_code}\"\nheader_down -X-B\n\
         handle_response {\nheader X-Mine \"{rp.status_text} {rp.header.X-Up}\"\ncopy_response\n}\n}\n}\n\
         handle /status {\nreverse_proxy UPSTREAM {\nhandle_response {\ncopy_response 218\n}\n}\n}\n\
         handle /include {\nreverse_proxy UPSTREAM {\nhandle_response {\n\
         copy_response_headers {\ninclude X-Up X-None\n}\nrespond \"mine\" 201\n}\n}\n}\n\
         handle /exclude {\nreverse_proxy UPSTREAM {\nhandle_response {\n\
         copy_response_headers {\nexclude X-Up\n}\nrespond \"mine\" 201\n}\n}\n}\n\
         handle /nested {\nreverse_proxy UPSTREAM {\nhandle_response {\n@q query a=1\nhandle @q {\ncopy_response\n}\n\
         handle {\nrespond \"no q {rp.status_code}\"\n}\n}\n}\n}",
    );
    let whole = server.ask("/whole");
    assert_eq!(said(&whole), (404, "upper".to_owned()));
    assert_eq!(whole.field("X-Down"), Some("down 404"));
    assert_eq!(whole.field("X-Mine"), Some("404 Not Found one,two"));
    assert_eq!(whole.field("X-B"), None);
    assert_eq!(said(&server.ask("/status")), (218, "upper".to_owned()));
    let include = server.ask("/include");
    assert_eq!(said(&include), (201, "mine".to_owned()));
    assert_eq!(include.field("X-Up"), Some("one"));
    assert_eq!(include.field("X-B"), None);
    let exclude = server.ask("/exclude");
    assert_eq!(said(&exclude), (201, "mine".to_owned()));
    assert_eq!(exclude.field("X-Up"), None);
    assert_eq!(exclude.field("X-B"), Some("b"));
    assert_eq!(exclude.field("X-Hop"), None, "it was for the connection");
    assert_eq!(said(&server.ask("/nested")), (200, "no q 404".to_owned()));
    assert_eq!(said(&server.ask("/nested?a=1")), (404, "upper".to_owned()));
}

#[test]
fn push_goes_on_and_says_so() {
    let text_of_site = ":{port} {\n\tpush * /style.css\n\trespond \"page\"\n}\n";
    let server = Server::start(&format!("{{\n\tadmin off\n}}\n{text_of_site}"));
    assert_eq!(said(&server.ask("/")), (200, "page".to_owned()));
    server
        .folder
        .write("Pushing", text_of_site.replace("{port}", "80"));
    let args = [
        "validate",
        "--config",
        "Pushing",
        "--adapter",
        "caddyfile",
        "--message-format",
        "short",
    ];
    let output = run_to_end(&server.folder, &args);
    assert!(
        text(&output.stderr).contains("warning[no-effect]"),
        "{}",
        text(&output.stderr)
    );
}
