//! The FastCGI upstream of both servers: an application that lists the variables it received; and the requests to both.
//! It supports persistent connections, too.

use std::collections::BTreeMap;

use crate::peer::cases::{Case, Difference, Seen};
use crate::support::fastcgi::{read_request, said};
use crate::support::listen;
use crate::support::wire::Wire;

/// Starts it on a free port; it runs until the test process ends.
pub fn start() -> u16 {
    listen(|mut wire| while serve(&mut wire).is_some() {})
}

fn serve(wire: &mut Wire) -> Option<()> {
    let asked = read_request(wire)?;
    let text = |part: &[u8]| part.escape_ascii().to_string();
    let params = asked.params.iter();
    let params = params.map(|(name, value)| (text(name), text(value)));
    let sent = wire.try_send(said(&respond(&params.collect(), &asked.body)));
    // nginx waits for the end of a connection that it does not want to keep open.
    sent.ok().filter(|()| asked.keeps)
}

type Variables = BTreeMap<String, String>;

/// By path: response heads as applications send them. The default one lists the variables.
fn respond(params: &Variables, body: &[u8]) -> Vec<u8> {
    let path = params
        .get("REQUEST_URI")
        .map_or("", |uri| uri.split('?').next().unwrap_or(""));
    let head: &[u8] = match path {
        "/as/status" => b"Status: 404 Gone fishing\r\nContent-Type: text/plain\r\n\r\nlost",
        "/as/plain" => b"Content-Type: text/plain\r\n\r\nplain",
        "/as/lines" => b"Content-Type: text/plain\nX-A: b\n\nlines",
        "/as/length" => b"Content-Type: text/plain\r\nContent-Length: 4\r\n\r\nfour",
        "/as/away" => b"Status: 302 Found\r\nLocation: /x\r\nContent-Type: text/plain\r\n\r\ngone",
        "/as/bare-away" => b"Location: http://x.test/\r\nContent-Type: text/plain\r\n\r\ngone",
        "/as/cookies" => b"Set-Cookie: a=1\r\nSet-Cookie: b=2\r\nContent-Type: text/plain\r\n\r\nok",
        "/as/nothing" => b"Status: 204 None\r\n\r\n",
        "/as/fresh" => b"Status: 304 Same\r\nETag: \"x\"\r\n\r\n",
        "/as/garbage" => b"garbage\r\n\r\n",
        "/as/status-text" => b"Status: fine\r\nContent-Type: text/plain\r\n\r\nx",
        "/as/unended" => b"Content-Type: text/plain\r\n",
        "/as/space" => b"X : y\r\nContent-Type: text/plain\r\n\r\nx",
        "/as/folded" => b"X: a\r\n b\r\nContent-Type: text/plain\r\n\r\nx",
        "/as/twice" => b"Status: 200\r\nStatus: 404\r\nContent-Type: text/plain\r\n\r\nx",
        "/as/hop" => {
            b"Connection: X-Secret\r\nX-Secret: 1\r\nKeep-Alive: x\r\nContent-Type: text/plain\r\n\r\nhop"
        }
        _ => return echo(params, body),
    };
    head.to_vec()
}

fn echo(params: &Variables, body: &[u8]) -> Vec<u8> {
    let mut text = "variables\n".to_owned();
    for (name, value) in params {
        let value = match name.as_str() {
            "REMOTE_PORT" => "a number",
            // Each server has its own name here.
            "SERVER_SOFTWARE" => value.split('/').next().unwrap_or_default(),
            _ => value,
        };
        text.push_str(&format!("{name}:{value}\n"));
    }
    text.push_str(&body.escape_ascii().to_string());
    format!("Content-Type: text/plain\r\nX-Echo: yes\r\n\r\n{text}").into_bytes()
}

const fn always(request: &'static str, what: &'static str, reason: &'static str) -> Difference {
    Difference {
        request,
        what,
        seen: Seen::Always,
        reason,
    }
}

const COOKIES: &str =
    "cookies are joined by `; ` (RFC 9113, section 8.2.3); a comma would become part of a value";
const SEGMENT: &str = "only the end of a segment ends a script: `/a.phpx` is no `/a.php`";
const HEAD_LENGTH_DIFFERS: &str = "an answer to HEAD says of its length what one to GET says";
const NO_STATUS: &str = "Status is for the server; nobody needs it again behind the status line";
const STRICT: &str = "read as strictly as the heads of HTTP upstreams";
const NO_TYPE: &str =
    "a body that nobody gave a type has none (RFC 9110, section 8.3); Caddy calls it a form";

pub const CASES: &[Case] = &[
    Case {
        name: "fastcgi",
        caddyfile: ":PORT {\nreverse_proxy FASTCGI {\ntransport fastcgi {\nroot ROOT\nsplit .php .phtml\nenv A {method}-{path}\n\
            env HTTP_X_ROLE admin\nenv SERVER_ADMIN me@site.test\n}\n}\n}\n",
        requests: &[
            "GET /a.php",
            "GET /a.php/b/c?x=1&y=%20z",
            "GET /A.PHP/B",
            "GET /a.phtml/b.php/c",
            "GET /a.php/b.php/c",
            "GET /a.phpx/b",
            "GET /no/script",
            "GET /",
            "GET /a/../b.php",
            "GET //x//y.php//z",
            "GET /a%2fb.php%2fc",
            "GET /a.php/%2e%2e/%2e%2e/b.php",
            "GET /a%2ephp/x/./y//z",
            "GET /a%20b.php/%25",
            "GET /a.php/%0d%0ax",
            "GET /a.php?%00",
            "GET http://other.test:81/a.php?q",
            "GET /a.php | Host: SITE.test:8080",
            "GET /a.php | Host: [::1]:77",
            "GET /a.php | Cookie: a=1",
            "GET /a.php | Cookie: a=1 | Cookie: b=2",
            "GET /a.php | X-Many: 1 | X-Other: 2 | x-many: 3",
            "GET /a.php | X_Under: 1",
            "GET /a.php | X.Dot: 1",
            "GET /a.php | Proxy: http://evil.test",
            "GET /a.php | X-Role: guest",
            "GET /a.php | Authorization: Basic Ym9iOnB3",
            "GET /a.php | Proxy-Authorization: Basic Ym9iOnB3",
            "GET /a.php | TE: trailers | Accept: */*",
            "GET /a.php | X-Forwarded-For: 1.2.3.4 | X-Forwarded-Proto: https",
            "POST /a.php | Content-Type: text/x; y=z | body=hello",
            "POST /a.php",
            "PUT /a.php | body=x",
            "DELETE /a.php",
            "PATCH /a.php | Content-Type: a/b | Content-Type: c/d | body=x",
            "OPTIONS /a.php",
            "HEAD /a.php",
            "PURGE /a.php",
            "GET /as/status",
            "GET /as/plain",
            "GET /as/lines",
            "GET /as/length",
            "HEAD /as/length",
            "GET /as/away",
            "GET /as/bare-away",
            "GET /as/cookies",
            "GET /as/nothing",
            "GET /as/fresh",
            "GET /as/garbage",
            "GET /as/status-text",
            "GET /as/unended",
            "GET /as/space",
            "GET /as/folded",
            "GET /as/twice",
            "GET /as/hop",
        ],
        known: Seen::Always,
        accepted: &[
            always("POST /a.php", "> CONTENT_TYPE", NO_TYPE),
            always("PUT /a.php", "> CONTENT_TYPE", NO_TYPE),
            always("DELETE /a.php", "> CONTENT_TYPE", NO_TYPE),
            always("PURGE /a.php", "> CONTENT_TYPE", NO_TYPE),
            always("GET /a.phpx/b", "> DOCUMENT_URI", SEGMENT),
            always("GET /a.phpx/b", "> PATH_INFO", SEGMENT),
            always("GET /a.phpx/b", "> PATH_TRANSLATED", SEGMENT),
            always("GET /a.phpx/b", "> SCRIPT_FILENAME", SEGMENT),
            always("GET /a.phpx/b", "> SCRIPT_NAME", SEGMENT),
            always(
                "GET /a.php | Cookie: a=1 | Cookie: b=2",
                "> HTTP_COOKIE",
                COOKIES,
            ),
            always("HEAD /a.php", "transfer-encoding", HEAD_LENGTH_DIFFERS),
            always("GET /as/status", "status", NO_STATUS),
            always("GET /as/away", "status", NO_STATUS),
            always("GET /as/nothing", "status", NO_STATUS),
            always("GET /as/fresh", "status", NO_STATUS),
            always("GET /as/space", "status", STRICT),
            always("GET /as/space", "content-type", STRICT),
            always("GET /as/space", "server", STRICT),
            always("GET /as/space", "content-length", STRICT),
            always("GET /as/space", "body", STRICT),
            always("GET /as/folded", "status", STRICT),
            always("GET /as/folded", "content-type", STRICT),
            always("GET /as/folded", "server", STRICT),
            always("GET /as/folded", "content-length", STRICT),
            always("GET /as/folded", "x", STRICT),
            always("GET /as/folded", "body", STRICT),
            always("GET /as/twice", "status", STRICT),
            always("GET /as/twice", "content-type", STRICT),
            always("GET /as/twice", "server", STRICT),
            always("GET /as/twice", "content-length", STRICT),
            always("GET /as/twice", "body", STRICT),
        ],
    },
    Case {
        name: "php_fastcgi",
        caddyfile: ":PORT {\nroot * ROOT/php\nphp_fastcgi FASTCGI {\nenv A b\n}\nfile_server\n}\n",
        requests: &[
            "GET /",
            "GET /index.php",
            "GET /index.php/extra/x?y",
            "GET /pretty/url?x=1",
            "GET /sub",
            "GET /sub?x=1",
            "GET /sub/",
            "GET /sub/index.php/info",
            "GET /sub/none",
            "GET /style.css",
            "GET /upload/evil.jpg/x.php",
            "GET /upload/evil.jpg",
            "GET /INDEX.PHP",
            "GET /none.php",
            "GET /index.php%20",
            "GET /index.php.",
            "GET /sub/../index.php",
            "GET //sub",
            "POST /form | Content-Type: application/x-www-form-urlencoded | body=a=b",
            "HEAD /index.php",
            "GET /index.phpx",
        ],
        known: Seen::Always,
        accepted: &[always(
            "HEAD /index.php",
            "transfer-encoding",
            HEAD_LENGTH_DIFFERS,
        )],
    },
    Case {
        name: "fastcgi-rewritten",
        caddyfile: ":PORT {\nhandle_path /app/* {\nrewrite * /new{uri}\nreverse_proxy FASTCGI {\nmethod PUT\nrewrite /up{path}?k=v\n\
            header_up X-Up yes\nheader_up -User-Agent\nheader_up Host inner.test:82\nheader_down X-Down yes\n\
            transport fastcgi {\nsplit .php\nenv REMOTE_USER {header.X-In}\nenv lower_x 1\n}\n}\n}\n\
            root * ROOT\nreverse_proxy FASTCGI {\ntransport fastcgi\n}\n}\n",
        requests: &[
            "GET /app/a.php/b%20c?q=1 | X-In: in | User-Agent: u",
            "POST /app/a.php | body=abc",
            "GET /a.php/b",
            "GET /",
        ],
        known: Seen::Always,
        accepted: &[
            always("GET /app/", "> CONTENT_TYPE", NO_TYPE),
            always("POST /app/", "> CONTENT_TYPE", NO_TYPE),
        ],
    },
];
