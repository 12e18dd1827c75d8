//! `file_server`: ranges, conditional requests, precompressed files, listings, and names that try to escape the root.

use crate::client::{Client, Response, exchange};
use crate::harness::{Server, Setup, eventually};

const SITE: &str = "{\n\tadmin off\n}\n:{port} {\n\troot * {folder}/www\n\tfile_server {\n\t\thide secret.txt\n\
    \t\tprecompressed br zstd gzip\n\t}\n}\n";

const NOTE: &str = "0123456789abcdefghijklmnopqrstuvwxyz";

fn start() -> Server {
    let setup = Setup::new(SITE);
    setup.folder().write("outside.txt", "OUTSIDE");
    setup.folder().write("www-secret/outside.txt", "OUTSIDE");
    setup.folder().write("www/note.txt", NOTE);
    setup.folder().write("www/secret.txt", "HIDDEN");
    setup.folder().write("www/sub/index.html", "<p>sub");
    setup.start()
}

fn get(server: &Server, path: &str, fields: &str) -> Response {
    exchange(
        server.port,
        format!("GET {path} HTTP/1.1\r\nHost: a\r\n{fields}Connection: close\r\n\r\n"),
    )
}

#[test]
fn parts_are_served() {
    let server = start();
    for (range, status, content_range, body) in [
        ("bytes=0-3", 206, "bytes 0-3/36", "0123"),
        ("bytes=10-10", 206, "bytes 10-10/36", "a"),
        ("bytes=-3", 206, "bytes 33-35/36", "xyz"),
        ("bytes=-99", 206, "bytes 0-35/36", NOTE),
        ("bytes=34-", 206, "bytes 34-35/36", "yz"),
        ("bytes=34-99", 206, "bytes 34-35/36", "yz"),
        ("bytes=36-", 416, "bytes */36", ""),
        ("lines=1-2", 200, "", NOTE),
    ] {
        let response = get(&server, "/note.txt", &format!("Range: {range}\r\n"));
        assert_eq!(
            (response.status, response.text().as_str()),
            (status, body),
            "{range}"
        );
        assert_eq!(
            response.field("Content-Range").unwrap_or(""),
            content_range,
            "{range}"
        );
    }
}

#[test]
fn several_parts_come_in_one_body() {
    let server = start();
    let response = get(&server, "/note.txt", "Range: bytes=0-1,-2\r\n");
    assert_eq!(response.status, 206);
    let kind = response.field("Content-Type").expect("a type");
    let boundary = kind
        .strip_prefix("multipart/byteranges; boundary=")
        .expect("parts");
    let text = response.text();
    let parts: Vec<&str> = text.split(&format!("--{boundary}")).collect();
    assert_eq!(parts.len(), 4, "{text}");
    assert!(
        parts[1].contains("Content-Range: bytes 0-1/36\r\n"),
        "{text}"
    );
    assert!(
        parts[1].ends_with("\r\n\r\n01\r\n") && parts[2].ends_with("\r\n\r\nyz\r\n"),
        "{text}"
    );
    assert_eq!(parts[3].trim_end(), "--");
}

#[test]
fn overlapping_parts_cost_no_more_than_the_file() {
    let server = start();
    let many = vec!["0-"; 1000].join(",");
    let response = get(&server, "/note.txt", &format!("Range: bytes={many}\r\n"));
    assert!(
        response.body.len() <= 2 * NOTE.len(),
        "{} bytes",
        response.body.len()
    );
}

#[test]
fn conditions_are_weighed() {
    let server = start();
    let first = get(&server, "/note.txt", "");
    let tag = first.field("ETag").expect("a tag").to_owned();
    let date = first.field("Last-Modified").expect("a date").to_owned();
    let old = "Sun, 06 Nov 1994 08:49:37 GMT";
    for (fields, status) in [
        (format!("If-None-Match: {tag}\r\n"), 304),
        (format!("If-None-Match: \"other\", W/{tag}\r\n"), 304),
        ("If-None-Match: *\r\n".to_owned(), 304),
        ("If-None-Match: \"other\"\r\n".to_owned(), 200),
        (
            format!("If-None-Match: \"other\"\r\nIf-Modified-Since: {date}\r\n"),
            200,
        ),
        (format!("If-Modified-Since: {date}\r\n"), 304),
        (format!("If-Modified-Since: {old}\r\n"), 200),
        ("If-Modified-Since: yesterday\r\n".to_owned(), 200),
        (format!("If-Match: {tag}\r\n"), 200),
        ("If-Match: \"other\"\r\n".to_owned(), 412),
        (format!("If-Unmodified-Since: {old}\r\n"), 412),
        (format!("Range: bytes=0-1\r\nIf-Range: {tag}\r\n"), 206),
        (
            "Range: bytes=0-1\r\nIf-Range: \"other\"\r\n".to_owned(),
            200,
        ),
    ] {
        let response = get(&server, "/note.txt", &fields);
        assert_eq!(response.status, status, "{fields}");
        let whole = if status == 200 {
            NOTE.len()
        } else {
            usize::from(status == 206) * 2
        };
        assert_eq!(response.body.len(), whole, "{fields}");
        if status == 304 {
            assert_eq!(response.field("ETag"), Some(tag.as_str()), "{fields}");
        }
    }
}

#[test]
fn large_files_are_cut_as_exactly_as_small_ones() {
    let server = start();
    let large: Vec<u8> = (0..3_000_000_u32)
        .map(|n| (n / 7).to_le_bytes()[0])
        .collect();
    server.folder.write("www/large.bin", &large);
    assert!(get(&server, "/large.bin", "").body == large);
    let response = get(&server, "/large.bin", "Range: bytes=1048575-2097153\r\n");
    assert_eq!(
        response.field("Content-Range"),
        Some("bytes 1048575-2097153/3000000")
    );
    assert!(response.body == large[1_048_575..=2_097_153]);
    let mut client = Client::connect(server.port);
    client.send("HEAD /large.bin HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(
        client
            .head()
            .expect("an answer")
            .contains("Content-Length: 3000000\r\n")
    );
    assert_eq!(
        client.get("/note.txt").text(),
        NOTE,
        "no body came with the head"
    );
}

/// Paths that try to escape the root, or name the hidden file in it.
const OUTSIDE: &[&str] = &[
    "/../outside.txt",
    "/../../../../../../../../../../etc/passwd",
    "/%2e%2e/outside.txt",
    "/%2E%2E/outside.txt",
    "/.%2e/outside.txt",
    "/..%2foutside.txt",
    "/..%2Foutside.txt",
    "/%2e%2e%2foutside.txt",
    "/sub/../../outside.txt",
    "/sub/%2e%2e/%2e%2e/outside.txt",
    "/sub/..%2f..%2foutside.txt",
    "/note.txt/../../outside.txt",
    "/..\\outside.txt",
    "/..%5coutside.txt",
    "/%2e%2e%5coutside.txt",
    "/..%c0%afoutside.txt",
    "/%c0%ae%c0%ae/outside.txt",
    "/%252e%252e/outside.txt",
    "/..%252foutside.txt",
    "/..;/outside.txt",
    "/./.././outside.txt",
    "//../outside.txt",
    "/../www-secret/outside.txt",
    "/%2e%2e/www-secret/outside.txt",
    "/../www/../outside.txt",
    "/note.txt%00",
    "/note.txt%00.html",
    "/%00",
    "/..%00/outside.txt",
    "/dangling",
    "http://a/../outside.txt",
    "http://a/%2e%2e/outside.txt",
    "/secret.txt",
    "/sub/../secret.txt",
    "/%73ecret.txt",
    "/sub/%2e%2e/secret.txt",
    "//secret.txt",
    "/secret.txt/",
    "/.//secret.txt",
];

#[test]
fn no_name_leads_out_of_the_root() {
    let server = start();
    std::os::unix::fs::symlink(
        "/proc/self/nothing",
        server.folder.path().join("www/dangling"),
    )
    .expect("the folder is writable");
    let mut seen = Vec::new();
    for target in OUTSIDE {
        let response = get(&server, target, "");
        let text = response.text();
        assert!(
            !text.contains("OUTSIDE") && !text.contains("root:"),
            "{target}: {text}"
        );
        assert!(!text.contains("HIDDEN"), "{target}: {text}");
        assert!(response.status < 500, "{target}: {}", response.head);
        assert!(response.status >= 300, "{target}: {}", response.head);
        if let Some(location) = response.field("Location") {
            assert!(
                location.starts_with('/') && !location.starts_with("//"),
                "{target}: {location}"
            );
        }
        seen.push(response.status);
    }
    assert!(seen.contains(&404));
    assert_eq!(
        get(&server, "/sub/../note.txt", "").text(),
        NOTE,
        "dots inside the root are fine"
    );
}

#[test]
fn links_are_followed_as_documented() {
    let server = start();
    let link = server.folder.path().join("www/link.txt");
    std::os::unix::fs::symlink(server.folder.path().join("www/note.txt"), link)
        .expect("the folder is writable");
    assert_eq!(server.ask("/link.txt").text(), NOTE);
}

#[test]
fn folders_and_files_have_their_own_addresses() {
    let server = start();
    let response = server.ask("/sub?a=b");
    assert_eq!(
        (response.status, response.field("Location")),
        (308, Some("/sub/?a=b"))
    );
    assert_eq!(server.ask("/sub/").text(), "<p>sub");
    assert_eq!(
        server.ask("/").status,
        404,
        "there is no index, and nobody asked for listings"
    );
    let response = exchange(
        server.port,
        "POST /note.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx",
    );
    assert_eq!(
        (response.status, response.field("Allow")),
        (405, Some("GET, HEAD"))
    );
}

#[test]
fn precompressed_files_are_served_to_clients_that_accept_them() {
    let server = start();
    server.folder.write("www/app.js", "plain();");
    for (kind, content) in [("br", "BROTLI"), ("zst", "ZSTD"), ("gz", "GZIP")] {
        server.folder.write(&format!("www/app.js.{kind}"), content);
    }
    let plain_tag = get(&server, "/app.js", "").field("ETag").map(str::to_owned);
    for (accepted, coding, body) in [
        ("", None, "plain();"),
        ("Accept-Encoding: gzip\r\n", Some("gzip"), "GZIP"),
        (
            "Accept-Encoding: gzip, br;q=0.9, zstd\r\n",
            Some("zstd"),
            "ZSTD",
        ),
        ("Accept-Encoding: gzip;q=0, br\r\n", Some("br"), "BROTLI"),
        ("Accept-Encoding: identity\r\n", None, "plain();"),
        ("Accept-Encoding: deflate\r\n", None, "plain();"),
    ] {
        let response = get(&server, "/app.js", accepted);
        assert_eq!(response.text(), body, "{accepted}");
        assert_eq!(response.field("Content-Encoding"), coding, "{accepted}");
        assert_eq!(
            response.field("Vary"),
            Some("Accept-Encoding"),
            "{accepted}"
        );
        assert_eq!(
            response.field("Content-Type"),
            Some("text/javascript; charset=utf-8")
        );
        if coding.is_some() {
            assert_ne!(response.field("ETag"), plain_tag.as_deref(), "{accepted}");
        }
    }
}

#[test]
fn a_changed_file_is_noticed() {
    let server = start();
    let mut client = Client::connect(server.port);
    for _ in 0..50 {
        assert_eq!(client.get("/note.txt").text(), NOTE);
    }
    let temporary = server.folder.write("www/new", "something else");
    std::fs::rename(temporary, server.folder.path().join("www/note.txt")).expect("writable");
    let is_new = || client.get("/note.txt").text() == "something else";
    eventually("the new file", is_new, String::new);
    std::fs::remove_file(server.folder.path().join("www/note.txt")).expect("writable");
    let is_gone = || client.get("/note.txt").status == 404;
    eventually("the end of the file", is_gone, String::new);
}

const BROWSE: &str = "{\n\tadmin off\n}\n:{port} {\n\troot * {folder}/www\n\tfile_server {\n\t\tbrowse\n\
    \t\thide secret.txt\n\t}\n}\n";

fn start_browse() -> Server {
    let setup = Setup::new(BROWSE);
    setup.folder().write("www/<i>a&b\".txt", "markup");
    setup.folder().write("www/sp ace#1?.txt", "odd");
    setup.folder().write("www/secret.txt", "HIDDEN");
    setup.folder().write("www/javascript:alert(1)", "colon");
    setup.folder().write("www/sub/big.bin", vec![0; 5000]);
    setup.folder().write("www/sub/a.txt", "a");
    setup.start()
}

#[test]
fn a_listing_is_a_page() {
    let server = start_browse();
    let response = server.ask("/");
    assert_eq!(response.status, 200);
    assert_eq!(
        response.field("Content-Type"),
        Some("text/html; charset=utf-8")
    );
    let page = response.text();
    assert!(
        page.contains("&lt;i&gt;a&amp;b") && !page.contains("<i>a"),
        "names are text: {page}"
    );
    assert!(page.contains("./sub/") && !page.contains("secret.txt"));
    assert!(page.contains("sp%20ace%231%3F.txt"), "links are encoded");
    assert!(!page.contains("href=\"javascript:"), "a name is no scheme");
    assert_eq!(server.ask("/sub").field("Location"), Some("/sub/"));
    assert_eq!(
        server.ask("/sp%20ace%231%3F.txt").text(),
        "odd",
        "the links lead somewhere"
    );
    assert_eq!(server.ask("/none/").status, 404);
    std::fs::create_dir(server.folder.path().join("www/empty")).expect("the folder is writable");
    assert!(
        server
            .ask("/empty/")
            .text()
            .contains("This folder is empty.")
    );
}

#[test]
fn a_listing_is_data_for_programs() {
    let server = start_browse();
    let names = |query: &str| {
        let response = get(
            &server,
            &format!("/sub/{query}"),
            "Accept: application/json\r\n",
        );
        assert_eq!(
            response.field("Content-Type"),
            Some("application/json; charset=utf-8")
        );
        let value: serde_json::Value = serde_json::from_slice(&response.body).expect("JSON");
        let entries = value.as_array().expect("a list").clone();
        let names: Vec<String> = entries
            .iter()
            .map(|entry| entry["name"].as_str().expect("a name").to_owned())
            .collect();
        (names, entries)
    };
    let (by_name, entries) = names("?sort=name&order=asc");
    assert_eq!(by_name, ["a.txt", "big.bin"]);
    assert_eq!(entries[1]["size"], 5000);
    assert_eq!(entries[1]["is_dir"], false);
    assert_eq!(names("?sort=name&order=desc").0, ["big.bin", "a.txt"]);
    assert_eq!(names("?sort=size&order=desc").0, ["big.bin", "a.txt"]);
    assert_eq!(names("?limit=1").0.len(), 1);
}
