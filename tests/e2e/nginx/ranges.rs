//! Range requests for responses that filters may change, and slices.

use super::{setup, start};
use crate::client::{Response, exchange};
use crate::harness::{Server, eventually};
use crate::upstream::Upstream;
use crate::wire::field;

const NOTE: &str = "0123456789abcdefghijklmnopqrstuvwxyz";

fn get(server: &Server, path: &str, fields: &str) -> Response {
    exchange(
        server.port,
        format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{fields}\r\n"),
    )
}

fn part(server: &Server, path: &str, range: &str) -> (u16, String) {
    let response = get(server, path, &format!("Range: bytes={range}\r\n"));
    (response.status, response.text())
}

#[test]
fn parts_are_taken_of_what_is_sent() {
    let lines = "types { text/html html; text/plain txt; } add_header X-Added x; \
         location /sub/ { alias {folder}/www/; sub_filter 3 three; } location /add/ { alias {folder}/www/; add_after_body /a.txt; } \
         location /gz/ { alias {folder}/www/; gzip on; gzip_min_length 1; } location /one/ { alias {folder}/www/; gzip on; max_ranges 1; } \
         location /zero/ { alias {folder}/www/; gzip on; max_ranges 0; }";
    let server = start(lines, &[("a.html", NOTE), ("a.txt", NOTE)]);
    // A changed response does not support ranges.
    let replaced = NOTE.replace('3', "three");
    assert_eq!(part(&server, "/sub/a.html", "2-5"), (200, replaced));
    assert_eq!(part(&server, "/add/a.html", "2-5"), (200, NOTE.repeat(2)));
    let packed = get(
        &server,
        "/gz/a.html",
        "Range: bytes=2-5\r\nAccept-Encoding: gzip\r\n",
    );
    assert_eq!(packed.status, 200);
    assert_eq!(packed.field("Content-Encoding"), Some("gzip"));
    assert_eq!(packed.field("Accept-Ranges"), None);
    // One that could have been changed but was not does.
    for path in ["/sub/a.txt", "/add/a.txt", "/gz/a.html", "/one/a.html"] {
        assert_eq!(
            part(&server, path, "2-5"),
            (206, "2345".to_owned()),
            "{path}"
        );
        let whole = get(&server, path, "");
        assert_eq!(whole.field("Accept-Ranges"), Some("bytes"), "{path}");
    }
    assert_eq!(
        part(&server, "/one/a.html", "2-5,8-9"),
        (200, NOTE.to_owned())
    );
    let none = get(&server, "/zero/a.html", "Range: bytes=2-5\r\n");
    assert_eq!((none.status, none.field("Accept-Ranges")), (200, None));
    let several = get(&server, "/gz/a.html", "Range: bytes=2-5,8-9\r\n");
    let media_type = several
        .field("Content-Type")
        .expect("it has one")
        .to_owned();
    assert!(
        media_type.starts_with("multipart/byteranges; boundary="),
        "{media_type}"
    );
    let text = several.text();
    assert!(
        text.contains("bytes 2-5/36") && text.contains("\r\n\r\n2345\r\n"),
        "{text}"
    );
    assert!(
        text.contains("bytes 8-9/36") && text.contains("\r\n\r\n89\r\n"),
        "{text}"
    );
    let beyond = get(&server, "/gz/a.html", "Range: bytes=36-\r\n");
    assert_eq!(beyond.status, 416);
    assert_eq!(beyond.field("Content-Range"), Some("bytes */36"));
    assert_eq!(
        (beyond.field("ETag"), beyond.field("X-Added")),
        (None, None),
        "it says nothing of the file"
    );
}

/// An upstream that serves ranges of `whole`, and reports the request with each.
fn pieces(
    whole: &'static str,
    tag: impl Fn(usize) -> &'static str + Send + Sync + 'static,
) -> Upstream {
    Upstream::start(move |mut wire| {
        while let Some(head) = wire.head() {
            if wire.body(&head).is_none() {
                return;
            }
            let range = field(&head, "Range").unwrap_or_default().to_owned();
            let range = range
                .strip_prefix("bytes=")
                .and_then(|text| text.split_once('-'));
            let (start, last): (usize, usize) = match range {
                Some((start, last)) => (
                    start.parse().expect("a number"),
                    last.parse().expect("a number"),
                ),
                None => panic!("no range in {head:?}"),
            };
            let end = (last + 1).min(whole.len());
            let response = match start < whole.len() {
                true => format!(
                    "HTTP/1.1 206 Partial Content\r\nETag: {}\r\nContent-Range: bytes {start}-{}/{}\r\nContent-Length: {}\r\n\r\n{}",
                    tag(start),
                    end - 1,
                    whole.len(),
                    end - start,
                    &whole[start..end]
                ),
                false => {
                    "HTTP/1.1 416 Range Not Satisfiable\r\nContent-Length: 0\r\n\r\n".to_owned()
                }
            };
            if wire.try_send(response).is_err() {
                return;
            }
        }
    })
}

#[test]
fn a_response_is_assembled_from_slices() {
    let upstream = pieces(NOTE, |_| "\"one\"");
    let lines = format!(
        "slice 10; location / {{ proxy_set_header Range $slice_range; proxy_pass http://127.0.0.1:{}; }}",
        upstream.port
    );
    let server = start(&lines, &[]);
    let whole = get(&server, "/x", "");
    assert_eq!((whole.status, whole.text()), (200, NOTE.to_owned()));
    assert_eq!(whole.field("Content-Length"), Some("36"));
    assert_eq!(whole.field("Content-Range"), None);
    for (range, expected) in [
        ("0-3", "0123"),
        ("8-21", "89abcdefghijkl"),
        ("10-19", "abcdefghij"),
        ("35-35", "z"),
        ("30-", "uvwxyz"),
        ("-12", "opqrstuvwxyz"),
    ] {
        let response = get(&server, "/x", &format!("Range: bytes={range}\r\n"));
        assert_eq!(
            (response.status, response.text()),
            (206, expected.to_owned()),
            "{range}"
        );
        let said = response
            .field("Content-Range")
            .unwrap_or_default()
            .to_owned();
        let start = NOTE.find(expected).expect("it is a part");
        assert_eq!(
            said,
            format!("bytes {start}-{}/36", start + expected.len() - 1)
        );
    }
    assert_eq!(part(&server, "/x", "0-1,20-21"), (200, NOTE.to_owned()));
    assert_eq!(part(&server, "/x", "99-").0, 416);
    let known = get(&server, "/x", "If-None-Match: \"one\"\r\n");
    assert_eq!((known.status, known.text()), (304, String::new()));
}

#[test]
fn pieces_are_stored_by_themselves() {
    let upstream = pieces(NOTE, |_| "\"one\"");
    let conf = format!(
        "events {{}}\nhttp {{ proxy_cache_path {{folder}}/kept keys_zone=kept:1m; log_format c '$upstream_cache_status';\n\
         server {{ listen 127.0.0.1:{{port}}; slice 10; add_header X-Cache $upstream_cache_status;\n\
         location / {{ proxy_set_header Range $slice_range; proxy_cache kept; proxy_cache_key $uri$slice_range; proxy_cache_valid 200 206 1h; proxy_pass http://127.0.0.1:{0}; }}\n\
         location /mixed/ {{ proxy_set_header Range $slice_range; proxy_cache kept; proxy_cache_key $uri; proxy_cache_valid 200 206 1h; proxy_pass http://127.0.0.1:{0}; }} }} }}\n",
        upstream.port
    );
    let server = setup(&conf).start();
    let said = |path: &str, range: &str| {
        let response = get(&server, path, &format!("Range: bytes={range}\r\n"));
        let cache = response.field("X-Cache").unwrap_or_default().to_owned();
        (response.text(), cache)
    };
    assert_eq!(said("/x", "12-13"), ("cd".to_owned(), "MISS".to_owned()));
    // It is cached once it is complete.
    eventually(
        "the second piece is stored",
        || said("/x", "14-15") == ("ef".to_owned(), "HIT".to_owned()),
        || format!("{:?}", said("/x", "14-15")),
    );
    assert_eq!(
        said("/x", "2-3").1,
        "MISS",
        "the first one was not asked for"
    );
    let whole = get(&server, "/x", "");
    assert_eq!((whole.status, whole.text()), (200, NOTE.to_owned()));
    eventually(
        "the last piece is stored",
        || said("/x", "34-") == ("yz".to_owned(), "HIT".to_owned()),
        || format!("{:?}", said("/x", "34-")),
    );
    // A key without the slice range would confuse slices: nothing is cached.
    for range in ["2-3", "12-13"] {
        let (text, cache) = said("/mixed/x", range);
        let start: usize = range
            .split('-')
            .next()
            .expect("a number")
            .parse()
            .expect("a number");
        assert_eq!(
            (text.as_str(), cache.as_str()),
            (&NOTE[start..start + 2], "MISS")
        );
    }
}

#[test]
fn slices_of_a_changed_file_end_the_response() {
    let upstream = pieces(NOTE, |start| if start < 20 { "\"one\"" } else { "\"two\"" });
    let lines = format!(
        "slice 10; location / {{ proxy_set_header Range $slice_range; proxy_pass http://127.0.0.1:{0}; }} \
         location /odd/ {{ proxy_set_header X $slice_range; proxy_set_header Range bytes=3-5; proxy_pass http://127.0.0.1:{0}; }}",
        upstream.port
    );
    let server = start(&lines, &[]);
    let mut client = crate::client::Client::connect(server.port);
    client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
    let head = client.head().expect("a head");
    assert!(head.contains("Content-Length: 36"), "{head}");
    let mut rest = Vec::new();
    while let Ok(byte) = client.byte() {
        rest.push(byte);
    }
    assert_eq!(String::from_utf8_lossy(&rest), &NOTE[..20]);
    assert_eq!(part(&server, "/x", "20-25"), (206, "klmnop".to_owned()));
    let odd = get(&server, "/odd/x", "");
    assert_eq!(odd.status, 502, "{}", odd.text());
}

#[test]
fn fields_for_upstreams_that_have_no_value_are_left_out() {
    let echo = Upstream::echo();
    let lines = format!(
        "location / {{ proxy_set_header X-Piece $slice_range; proxy_set_header X-Given $arg_x; proxy_set_header X-Fixed 1; proxy_pass http://127.0.0.1:{}; }}",
        echo.port
    );
    let server = start(&lines, &[]);
    let echoed = get(&server, "/?x=", "X-Given: of the client\r\n").text();
    assert!(
        !echoed.contains("X-Piece") && !echoed.contains("X-Given"),
        "{echoed}"
    );
    assert!(echoed.contains("X-Fixed: 1"), "{echoed}");
    let echoed = get(&server, "/?x=y", "").text();
    assert!(echoed.contains("X-Given: y"), "{echoed}");
}
