//! Charset conversion.

use super::setup;
use crate::client::exchange;
use crate::harness::{Server, eventually};
use crate::upstream::Upstream;

/// `Привет` in three encodings.
const KOI: &[u8] = b"\xf0\xd2\xc9\xd7\xc5\xd4";
const WIN: &[u8] = b"\xcf\xf0\xe8\xe2\xe5\xf2";
const UTF: &str = "Привет";

const MAPS: &str = "charset_map koi8-r utf-8 { F0 D09F; D2 D180; C9 D0B8; D7 D0B2; C5 D0B5; D4 D182; }\n\
    charset_map koi8-r windows-1251 { F0 CF; D2 F0; C9 E8; D7 E2; C5 E5; D4 F2; }\n";

fn start(lines: &str) -> Server {
    let setup = setup(&format!(
        "events {{}}\nhttp {{ error_log {{folder}}/e.log;\n{MAPS}\ntypes {{ text/html html; }}\nserver {{ listen 127.0.0.1:{{port}}; root {{folder}}/www;\n{lines}\n}} }}\n"
    ));
    setup.folder().write("www/k.html", KOI);
    setup.folder().write("www/u.html", format!("{UTF} é<"));
    // More than one piece, split inside characters.
    setup.folder().write("www/long.html", UTF.repeat(50_000));
    setup.start()
}

/// Media type, length and body.
fn fetch(server: &Server, path: &str, fields: &str) -> (String, Option<String>, Vec<u8>) {
    let response = exchange(
        server.port,
        format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{fields}\r\n"),
    );
    let media_type = response
        .field("Content-Type")
        .unwrap_or_default()
        .to_owned();
    let length = response.field("Content-Length").map(str::to_owned);
    (media_type, length, response.body)
}

#[test]
fn files_are_sent_in_another_encoding() {
    let server = start(
        "location /u/ { alias {folder}/www/; source_charset koi8-r; charset utf-8; } \
         location /w/ { alias {folder}/www/; source_charset koi8-r; charset windows-1251; } \
         location /k/ { alias {folder}/www/; source_charset utf-8; charset koi8-r; } \
         location /no/ { alias {folder}/www/; set $to nope; source_charset koi8-r; charset $to; }",
    );
    let (media_type, _, body) = fetch(&server, "/u/k.html", "");
    assert_eq!(media_type, "text/html; charset=utf-8");
    assert_eq!(body, UTF.as_bytes());
    let (media_type, length, body) = fetch(&server, "/w/k.html", "");
    assert_eq!(
        (&*media_type, length.as_deref()),
        ("text/html; charset=windows-1251", Some("6"))
    );
    assert_eq!(body, WIN);
    let (_, length, body) = fetch(&server, "/w/k.html", "Range: bytes=1-2\r\n");
    assert_eq!((length.as_deref(), &body[..]), (Some("2"), &WIN[1..3]));
    // A range would start at another position if the length changes.
    let (_, _, body) = fetch(&server, "/u/k.html", "Range: bytes=1-2\r\n");
    assert_eq!(body, UTF.as_bytes());
    let (_, _, body) = fetch(&server, "/k/u.html", "");
    assert_eq!(body, [KOI, b" &#233;<"].concat());
    let (_, _, body) = fetch(&server, "/k/long.html", "");
    assert!(body == KOI.repeat(50_000), "{} bytes", body.len());
    let (media_type, _, body) = fetch(&server, "/no/k.html", "");
    assert_eq!((&*media_type, &body[..]), ("text/html", KOI));
    let log = || server.folder.read("e.log");
    let message = "no \"charset_map\" between the charsets \"koi8-r\" and \"nope\"";
    eventually("the log is told", || log().contains(message), log);
}

#[test]
fn upstream_responses_declare_their_charset() {
    let responding = |fields: &str| {
        let head = format!(
            "HTTP/1.1 200 OK\r\n{fields}Content-Length: {}\r\n\r\n",
            KOI.len()
        );
        Upstream::responding([head.as_bytes(), KOI].concat())
    };
    let plain = responding("Content-Type: text/html\r\n");
    let said = responding("Content-Type: text/html; charset=KOI8-R\r\n");
    let other = responding("Content-Type: text/html; charset=other\r\n");
    let wants = responding("Content-Type: text/html\r\nX-Accel-Charset: windows-1251\r\n");
    let odd = responding("Content-Type: text/html\r\nX-Accel-Charset: nope\r\n");
    let pass = |name: &str, upstream: &Upstream, lines: &str| {
        format!(
            "location /{name} {{ proxy_pass http://127.0.0.1:{}; {lines} }}\n",
            upstream.port
        )
    };
    let lines = [
        pass("plain", &plain, "source_charset koi8-r; charset utf-8;"),
        pass("said", &said, "charset utf-8;"),
        pass("over", &said, "charset utf-8; override_charset on;"),
        pass("other", &other, "charset utf-8; override_charset on;"),
        pass("wants", &wants, "source_charset koi8-r; charset utf-8;"),
        pass("label", &wants, ""),
        pass(
            "ignored",
            &wants,
            "charset utf-8; proxy_ignore_headers X-Accel-Charset;",
        ),
        pass("odd", &odd, "charset utf-8;"),
    ];
    let server = start(&lines.concat());
    for (path, media_type, body) in [
        ("/plain", "text/html; charset=utf-8", UTF.as_bytes()),
        ("/said", "text/html; charset=KOI8-R", KOI),
        ("/over", "text/html; charset=utf-8", UTF.as_bytes()),
        ("/other", "text/html; charset=other", KOI),
        ("/wants", "text/html; charset=windows-1251", WIN),
        ("/label", "text/html; charset=windows-1251", KOI),
        ("/ignored", "text/html; charset=utf-8", KOI),
        ("/odd", "text/html", KOI),
    ] {
        let (found, _, text) = fetch(&server, path, "");
        assert_eq!((&*found, &text[..]), (media_type, body), "{path}");
    }
}
