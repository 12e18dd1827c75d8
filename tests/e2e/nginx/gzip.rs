//! Compressed responses, and those decompressed for clients that do not accept gzip.

use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use super::{setup, start};
use crate::client::{Client, Response, ask, exchange};
use crate::harness::Server;
use crate::upstream::Upstream;

const TEXT: &str = "0123456789012345678901234567890123456789012345678901234567890123456789";

fn get(server: &Server, path: &str, fields: &str) -> Response {
    exchange(
        server.port,
        format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{fields}\r\n"),
    )
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).expect("memory takes it");
    encoder.finish().expect("memory takes it")
}

fn unpacked(response: &Response) -> String {
    let mut text = String::new();
    let mut decoder = GzDecoder::new(&response.body[..]);
    decoder.read_to_string(&mut text).expect("it is gzip");
    text
}

#[test]
fn responses_are_compressed_for_clients_that_accept_it() {
    let lines = r#"
gzip on; gzip_types text/plain;
location / { }
location /vary { gzip_vary on; }
location /old { gzip_http_version 1.0; }
location /any { gzip_proxied any; }
location /not { gzip_disable "bot" msie6; }
location /long { gzip_min_length 71; }
location /kept { add_header Cache-Control no-transform; }
location /part { }
"#;
    let names = ["a.txt", "vary", "old", "any", "not", "long", "kept", "part"];
    let files = names.map(|name| (name, TEXT));
    let server = start(lines, &files);
    let is_packed = |path: &str, fields: &str| {
        let response = get(&server, path, fields);
        assert_eq!(response.status, 200, "{path}");
        let is_packed = response.field("Content-Encoding") == Some("gzip");
        let text = match is_packed {
            true => unpacked(&response),
            false => response.text(),
        };
        assert_eq!(text, TEXT, "{path} {fields}");
        is_packed
    };
    let takes = "Accept-Encoding: br, gzip\r\n";
    assert!(is_packed("/a.txt", takes) && !is_packed("/a.txt", ""));
    assert!(!is_packed("/a.txt", "Accept-Encoding: gzip;q=0\r\n"));
    assert!(!is_packed("/long", takes) && is_packed("/kept", takes));
    let through = format!("{takes}Via: 1.1 proxy\r\n");
    assert!(is_packed("/any", &through) && !is_packed("/a.txt", &through));
    let agent = |agent: &str| format!("{takes}User-Agent: {agent}\r\n");
    assert!(is_packed("/not", &agent("me")) && !is_packed("/not", &agent("some BOT")));
    assert!(!is_packed(
        "/not",
        &agent("Mozilla/4.0 (compatible; MSIE 6.0)")
    ));
    for (path, expected) in [("/old", Some("gzip")), ("/a.txt", None)] {
        let request = format!("GET {path} HTTP/1.0\r\nHost: a\r\n{takes}\r\n");
        let response = exchange(server.port, request);
        assert_eq!(response.field("Content-Encoding"), expected, "{path}");
    }
}

#[test]
fn headers_of_a_compressed_response() {
    let lines = "gzip on; gzip_types text/plain; location / { } location /vary { gzip_vary on; }";
    let server = start(lines, &[("a.txt", TEXT), ("vary", TEXT)]);
    let takes = "Accept-Encoding: gzip\r\n";
    let (plain, coded) = (get(&server, "/a.txt", ""), get(&server, "/a.txt", takes));
    let tag = plain.field("ETag").expect("files have one").to_owned();
    let weak = format!("W/{tag}");
    assert_eq!(coded.field("ETag"), Some(&*weak));
    assert_eq!((plain.field("Vary"), coded.field("Vary")), (None, None));
    assert_eq!(plain.field("Accept-Ranges"), Some("bytes"));
    assert_eq!(coded.field("Accept-Ranges"), None);
    for fields in [takes, ""] {
        let response = get(&server, "/vary", fields);
        assert_eq!(response.field("Vary"), Some("Accept-Encoding"));
    }
    let known = get(
        &server,
        "/a.txt",
        &format!("{takes}If-None-Match: {weak}\r\n"),
    );
    assert_eq!((known.status, known.field("ETag")), (304, Some(&*tag)));
    let part = get(&server, "/a.txt", &format!("{takes}Range: bytes=1-3\r\n"));
    assert_eq!(part.status, 200, "parts are of what is sent");
    assert_eq!(part.field("Content-Encoding"), Some("gzip"));
    let part = get(&server, "/a.txt", "Range: bytes=1-3\r\n");
    assert_eq!((part.status, part.text()), (206, "123".to_owned()));
    let mut client = Client::connect(server.port);
    client.send(format!("HEAD /a.txt HTTP/1.1\r\nHost: a\r\n{takes}\r\n"));
    let head = client.head().expect("a head");
    assert!(head.contains("Content-Encoding: gzip\r\n"), "{head}");
    assert!(!head.contains("Content-Length"), "nobody knows it: {head}");
}

#[test]
fn the_gzip_ratio_is_logged() {
    let server = setup(
        "events {}\nhttp { log_format ratio '$uri=$gzip_ratio.'; access_log {folder}/ratio.log ratio; gzip on; gzip_types text/plain;\
         server { listen 127.0.0.1:{port}; location /said { default_type text/plain; return 200 $arg_x$arg_x$arg_x$arg_x; } } }",
    )
    .start();
    let text = "0123456789".repeat(50);
    let response = get(
        &server,
        &format!("/said?x={text}"),
        "Accept-Encoding: gzip\r\n",
    );
    assert_eq!(unpacked(&response), text.repeat(4));
    let ratio = 2000.0 / response.body.len() as f64;
    get(&server, "/said/plain?x=1", "");
    let folder = server.folder.path().join("ratio.log");
    // Workers write log lines asynchronously.
    let log = || {
        let text = std::fs::read_to_string(&folder).unwrap_or_default();
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        lines.join("\n")
    };
    let expected = format!("/said/plain=-.\n/said={ratio:.2}.");
    crate::harness::eventually("both are logged", || log() == expected, log);
}

/// An upstream with a compressed response, whose content is `body`.
fn packing(body: Vec<u8>, fields: &str) -> Upstream {
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n{fields}\r\n",
        body.len()
    );
    let whole = [head.into_bytes(), body].concat();
    let head_only = whole.windows(4).position(|end| end == b"\r\n\r\n");
    let head_only = whole[..head_only.expect("it has a head") + 4].to_vec();
    Upstream::start(move |mut wire| {
        while let Some(head) = wire.head() {
            let bytes = match head[0].starts_with("HEAD") {
                true => &head_only,
                false => &whole,
            };
            if wire.try_send(bytes).is_err() {
                return;
            }
        }
    })
}

#[test]
fn gunzip_unpacks_responses_for_clients_without_gzip() {
    // Several gzip members, one of them empty.
    let body = [packed(b"0123456789"), packed(b""), packed(TEXT.as_bytes())].concat();
    let upstream = packing(
        body.clone(),
        "ETag: \"x\"\r\nAccept-Ranges: bytes\r\nLast-Modified: Mon, 28 Sep 1970 06:00:00 GMT\r\n",
    );
    let lines = format!(
        "gunzip on; location / {{ proxy_pass http://127.0.0.1:{0}; }} \
         location /sub {{ proxy_pass http://127.0.0.1:{0}; sub_filter_types text/plain; sub_filter_once off; sub_filter 90 '[90]'; gzip_vary on; }} \
         location /off {{ gunzip off; proxy_pass http://127.0.0.1:{0}; }}",
        upstream.port
    );
    let server = start(&lines, &[]);
    let plain = get(&server, "/", "");
    assert_eq!(plain.text(), format!("0123456789{TEXT}"));
    for (name, value) in [
        ("Content-Encoding", None),
        ("Content-Length", None),
        ("Accept-Ranges", None),
        ("ETag", Some("W/\"x\"")),
        ("Last-Modified", Some("Mon, 28 Sep 1970 06:00:00 GMT")),
        ("Vary", None),
    ] {
        assert_eq!(plain.field(name), value, "{name}");
    }
    for (path, fields) in [("/", "Accept-Encoding: gzip\r\n"), ("/off", "")] {
        let response = get(&server, path, fields);
        assert_eq!(response.body, body, "{path}");
        assert_eq!(response.field("Content-Encoding"), Some("gzip"), "{path}");
        assert_eq!(response.field("ETag"), Some("\"x\""), "{path}");
    }
    let replaced = get(&server, "/sub", "");
    let expected = format!("0123456789{TEXT}").replace("90", "[90]");
    assert_eq!(replaced.text(), expected);
    assert_eq!(replaced.field("Vary"), Some("Accept-Encoding"));
    let mut client = Client::connect(server.port);
    client.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
    let head = client.head().expect("a head");
    assert!(
        !head.contains("gzip") && !head.contains("Content-Length"),
        "{head}"
    );
    assert_eq!(client.get("/").text(), format!("0123456789{TEXT}"));
}

#[test]
fn gunzip_unpacks_files_and_cached_responses() {
    let upstream = packing(packed(TEXT.as_bytes()), "Cache-Control: max-age=100\r\n");
    let setup = setup(&format!(
        "events {{}}\nhttp {{ proxy_cache_path {{folder}}/cache keys_zone=one:1m; server {{ listen 127.0.0.1:{{port}}; root {{folder}}/www; \
         gunzip on; location /up {{ proxy_pass http://127.0.0.1:{}; proxy_cache one; }} \
         location / {{ gzip_static always; }} }} }}",
        upstream.port
    ));
    setup
        .folder()
        .write("www/a.txt.gz", packed(TEXT.as_bytes()));
    let server = setup.start();
    for fields in [
        "",
        "Accept-Encoding: gzip\r\n",
        "",
        "Accept-Encoding: gzip\r\n",
    ] {
        let response = get(&server, "/up", fields);
        let is_packed = response.field("Content-Encoding").is_some();
        assert_eq!(is_packed, !fields.is_empty());
        let text = if is_packed {
            unpacked(&response)
        } else {
            response.text()
        };
        assert_eq!(text, TEXT);
    }
    assert_eq!(upstream.connections(), 1, "it was asked once");
    assert_eq!(get(&server, "/a.txt", "").text(), TEXT);
    assert_eq!(
        unpacked(&get(&server, "/a.txt", "Accept-Encoding: gzip\r\n")),
        TEXT
    );
}

#[test]
fn what_is_packed_badly_ends_without_an_end() {
    let good = packed(TEXT.repeat(100).as_bytes());
    let mut wrong_sum = good.clone();
    let at = wrong_sum.len() - 6;
    wrong_sum[at] ^= 1;
    let cases = [
        good[..good.len() - 9].to_vec(),
        good[..12].to_vec(),
        good[..5].to_vec(),
        wrong_sum,
        [&good[..], b"trailing garbage"].concat(),
        b"no gzip at all".to_vec(),
    ];
    for (index, case) in cases.into_iter().enumerate() {
        let upstream = packing(case, "");
        let lines = format!(
            "gunzip on; location / {{ proxy_pass http://127.0.0.1:{}; }} location /said {{ return 200 x; }}",
            upstream.port
        );
        let server = start(&lines, &[]);
        let mut client = Client::connect(server.port);
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(
            client.try_response().is_err(),
            "{index}: it is not shown as whole"
        );
        assert_eq!(
            ask(server.port, "/said").status,
            200,
            "{index}: and the server goes on"
        );
    }
}

#[test]
fn a_bomb_is_unpacked_piece_by_piece() {
    const BYTES: usize = 50 * 1024 * 1024;
    let bomb = packed(&vec![0; BYTES]);
    assert!(bomb.len() < BYTES / 900, "{}", bomb.len());
    let upstream = packing(bomb, "");
    let lines = format!(
        "gunzip on; location / {{ proxy_pass http://127.0.0.1:{}; }}",
        upstream.port
    );
    let server = start(&lines, &[]);
    let before = server.peak();
    let mut client = crate::wire::Wire::connect(server.port);
    client.send("GET / HTTP/1.0\r\nHost: a\r\n\r\n");
    let head = client.head().expect("a head");
    assert!(head[0].contains("200"), "{head:?}");
    let mut count = 0;
    let mut piece = vec![0; 64 * 1024];
    loop {
        let read = client.reader.read(&mut piece).expect("it goes on");
        if read == 0 {
            break;
        }
        count += read;
    }
    assert_eq!(count, BYTES);
    let grown = server.grown(before);
    assert!(grown < 8 * 1024, "{grown} KiB");
}
