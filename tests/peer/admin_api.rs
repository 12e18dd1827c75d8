//! The admin API beside Caddy's: the same requests in the same order, whose statuses, entity tags and documents have to
//! be the same. Differences have their reasons.

use serde_json::Value;

use crate::peer::http;
use crate::peer::peers::{self, Site, free_port};
use crate::support::servers;
use crate::support::wait::{TIMEOUT, until};

/// A site, whose ports are filled in.
const TEXT: &str = "{\n\tadmin localhost:ADMIN\n\tauto_https off\n\tskip_install_trust\n}\n:PORT {\n\trespond one\n}\n";

const JSON: &str = "Content-Type: application/json\r\n";
const CADDYFILE: &str = "Content-Type: text/caddyfile\r\n";
const SERVER: &str = "/config/apps/http/servers/srv0";

/// A client's mistake, which Caddy calls an internal error.
const CLIENTS: Status = Status(
    500,
    400,
    "the mistake is the client's, so the status is 400 (RFC 9110, section 15.5)",
);

/// The statuses of Caddy and of sluice, and why they differ.
#[derive(Clone, Copy)]
struct Status(u16, u16, &'static str);

const fn same(status: u16) -> Status {
    Status(status, status, "")
}

/// Method, path, fields, body, and the statuses.
type Step = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    Status,
);

const STEPS: &[Step] = &[
    ("GET", "/config/", "", "", same(200)),
    ("GET", "/config/none", "", "", same(200)),
    ("GET", "/config/none/none", "", "", same(400)),
    ("GET", "SERVER/listen/0", "", "", same(200)),
    ("GET", "SERVER/listen/5", "", "", same(400)),
    ("GET", "SERVER/listen/x", "", "", same(400)),
    ("GET", "SERVER/listen/0/deep", "", "", same(400)),
    (
        "POST",
        "SERVER/errors",
        "",
        "{}",
        Status(400, 415, "the status for a wrong media type is 415"),
    ),
    ("POST", "SERVER/routes", JSON, "{}", same(200)),
    ("POST", "SERVER/routes", JSON, "{bad", CLIENTS),
    ("POST", "SERVER/routes/...", JSON, "[{}, {}]", same(200)),
    ("POST", "SERVER/routes/...", JSON, "{}", CLIENTS),
    (
        "POST",
        "SERVER/routes/0",
        JSON,
        "{\"terminal\": true}",
        same(200),
    ),
    ("GET", "SERVER/routes", "", "", same(200)),
    (
        "PUT",
        "SERVER/routes/0",
        JSON,
        "{\"group\": \"a\"}",
        same(200),
    ),
    ("PUT", "SERVER/routes/99", JSON, "{}", CLIENTS),
    ("PUT", "SERVER/routes/-1", JSON, "{}", CLIENTS),
    ("PUT", "SERVER/routes", JSON, "[]", same(409)),
    ("PUT", "SERVER", JSON, "{}", same(409)),
    (
        "PATCH",
        "SERVER/routes/0",
        JSON,
        "{\"group\": \"b\"}",
        same(200),
    ),
    ("PATCH", "SERVER/routes/99", JSON, "{}", CLIENTS),
    ("PATCH", "SERVER/none", JSON, "{}", same(404)),
    ("DELETE", "SERVER/routes/0", "", "", same(200)),
    ("DELETE", "SERVER/none", "", "", same(404)),
    ("DELETE", "SERVER/none/deep", "", "", CLIENTS),
    ("DELETE", "SERVER/routes/99", "", "", CLIENTS),
    ("GET", "/config/", "", "", same(200)),
    (
        "PUT",
        "/config/apps/http/servers/other/automatic_https/disable",
        JSON,
        "true",
        same(200),
    ),
    (
        "PUT",
        "/config/apps/http/servers/third/routes/...",
        JSON,
        "[{}]",
        same(200),
    ),
    (
        "POST",
        "/config/apps/http/servers/none/routes",
        JSON,
        "[]",
        CLIENTS,
    ),
    ("GET", "/config/apps/http/servers/", "", "", same(200)),
    (
        "GET",
        "/config/apps/http/servers/o%74her",
        "",
        "",
        same(200),
    ),
    ("POST", "SERVER/@id", JSON, "\"named\"", same(200)),
    ("PUT", "SERVER/routes/0/@id", JSON, "7", same(200)),
    ("GET", "/id/named", "", "", same(200)),
    ("GET", "/id/named/routes/1", "", "", same(200)),
    ("GET", "/id/7", "", "", same(200)),
    ("GET", "/id/none", "", "", same(404)),
    ("GET", "/id/", "", "", same(400)),
    ("PATCH", "/id/7", JSON, "{\"@id\": 8}", same(200)),
    ("DELETE", "/id/8", "", "", same(200)),
    ("PUT", "/config/admin/@id", JSON, "\"named\"", same(400)),
    ("PUT", "/config/admin/@id", JSON, "{}", same(400)),
    ("PUT", "/config/apps/none", JSON, "{}", CLIENTS),
    ("PUT", "SERVER/none", JSON, "{}", CLIENTS),
    ("PUT", "SERVER/idle_timeout", JSON, "\"zzz\"", CLIENTS),
    ("PUT", "SERVER/read_timeout", JSON, "null", same(200)),
    ("GET", "SERVER", "", "", same(200)),
    ("OPTIONS", "/config/", "", "", same(405)),
    (
        "POST",
        "/config/apps/http/http_port",
        "Content-Type: application/json\r\nIf-Match: \"abc\"\r\n",
        "81",
        same(400),
    ),
    (
        "POST",
        "/config/apps/http/http_port",
        "Content-Type: application/json\r\nIf-Match: abc\r\n",
        "81",
        same(400),
    ),
    (
        "POST",
        "/config/apps/http/http_port",
        "Content-Type: application/json\r\nIf-Match: \"/config/apps 00\"\r\n",
        "81",
        same(412),
    ),
    (
        "POST",
        "/config/apps/http/http_port",
        "Content-Type: application/json\r\nIf-Match: \"/config/none/deep 00\"\r\n",
        "81",
        CLIENTS,
    ),
    (
        "POST",
        "/config/apps/http/http_port",
        "Content-Type: application/json\r\nIf-Match: *\r\n",
        "81",
        Status(
            400,
            200,
            "`*` is a condition that holds (RFC 9110, section 13.1.1)",
        ),
    ),
    (
        "PATCH",
        "/config/apps/http/http_port",
        JSON,
        "81",
        Status(404, 200, "follows from the one before"),
    ),
    (
        "DELETE",
        "/config/apps/http/http_port",
        "",
        "",
        Status(404, 200, "follows from the one before"),
    ),
    ("GET", "/config/", "", "", same(200)),
    ("POST", "/load", JSON, "{bad", same(400)),
    (
        "POST",
        "/load",
        JSON,
        "{\"admin\": {\"listen\": \"localhost:ADMIN\"}, \"apps\": {\"none\": {}}}",
        same(400),
    ),
    (
        "POST",
        "/load",
        "Content-Type: text/none\r\n",
        "{}",
        Status(400, 415, "the status for a wrong media type is 415"),
    ),
    (
        "POST",
        "/load",
        CADDYFILE,
        "{\n\tadmin localhost:ADMIN\n}\n:1 {\n\trespnd\n}\n",
        same(400),
    ),
    ("GET", "/load", "", "", same(405)),
    (
        "POST",
        "/adapt",
        CADDYFILE,
        ":8111 {\n\trespond x\n}\n",
        same(200),
    ),
    ("POST", "/adapt", JSON, "{}", same(200)),
    (
        "POST",
        "/adapt",
        CADDYFILE,
        "{\n\tadmin localhost:ADMIN\n}\n:1 {\n\trespnd\n}\n",
        same(400),
    ),
    ("GET", "/adapt", "", "", same(405)),
    ("GET", "/stop", "", "", same(405)),
    ("GET", "/pki/ca/none", "", "", same(404)),
    ("GET", "/pki/ca", "", "", same(404)),
    ("GET", "/pki/ca/local/none", "", "", same(404)),
    ("POST", "/pki/ca/local", "", "", same(405)),
    ("GET", "/reverse_proxy/upstreams", "", "", same(200)),
    ("POST", "/reverse_proxy/upstreams", "", "", same(405)),
    ("GET", "/none", "", "", same(404)),
    ("POST", "/load", CADDYFILE, TEXT, same(200)),
    ("GET", "/config/", "", "", same(200)),
    ("DELETE", "/config/apps/http/servers", "", "", same(200)),
    ("GET", "/config/apps", "", "", same(200)),
];

/// Status, whether there is an entity tag, and the document (of an error only that it is one).
type Seen = (u16, bool, Value);

/// Carries out all steps with one program.
fn walk(site: &Site, program: &std::path::Path, name: &str) -> Vec<Seen> {
    let admin = free_port();
    let text = TEXT.replace("ADMIN", &admin.to_string());
    let running = site.start_text(program, "admin", &text, name);
    let (port, admin_text) = (running.port().to_string(), admin.to_string());
    let see = |&(method, path, fields, body, _): &Step| {
        let path = path.replace("SERVER", SERVER);
        let body = body.replace("PORT", &port).replace("ADMIN", &admin_text);
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost:{admin}\r\n{fields}Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        // Caddy closes its endpoint and opens it again whenever a configuration is loaded; what arrives at the closing
        // one is reset unread.
        let respond = || http::try_exchange(admin, &request);
        let response = until(TIMEOUT, "a response of the admin API", respond, || {
            format!("{name}, {method} {path}")
        });
        let said = String::from_utf8_lossy(&response.body);
        let said = said.replace(&port, "PORT").replace(&admin_text, "ADMIN");
        let mut value: Value = serde_json::from_str(&said).unwrap_or_default();
        if let Some(members) = value.as_object_mut() {
            // The texts are ours; warnings of layout are `sluice fmt`'s.
            members.remove("diagnostics");
            members.remove("warnings");
            // Of an unknown path Caddy says it in plain text.
            if path == "/none" {
                value = Value::Null;
            } else if members.contains_key("error") {
                members.insert("error".to_owned(), Value::Null);
            }
        }
        (
            code(&response.status),
            response.fields.contains_key("etag"),
            value,
        )
    };
    STEPS.iter().map(see).collect()
}

fn code(status: &str) -> u16 {
    let digits = status.split(' ').find_map(|word| word.parse().ok());
    digits.unwrap_or_default()
}

#[test]
#[ignore = "a slower kind: cargo xtask peer"]
fn the_admin_api_is_that_of_caddy() {
    let Some(caddy) = servers::caddy() else {
        return;
    };
    let site = Site::new();
    let theirs = walk(&site, &caddy, "caddy");
    let ours = walk(&site, &peers::sluice(), "sluice");
    let mut wrong = Vec::new();
    for ((step, theirs), ours) in STEPS.iter().zip(theirs).zip(ours) {
        let Status(expected, expected_of_us, reason) = step.4;
        let what = format!("{} {} {}", step.0, step.1, step.3);
        assert_eq!(expected == expected_of_us, reason.is_empty(), "{what}");
        if (theirs.0, ours.0) != (expected, expected_of_us) {
            wrong.push(format!("{what}: Caddy {}, sluice {}", theirs.0, ours.0));
        } else if expected == expected_of_us && (theirs.1, &theirs.2) != (ours.1, &ours.2) {
            wrong.push(format!("{what}:\n  Caddy  {theirs:?}\n  sluice {ours:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
