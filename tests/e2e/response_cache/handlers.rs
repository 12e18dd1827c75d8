//! Which handlers the cache serves, and how those around it and behind it work with it.

use super::{ask, caching, get, is_cached, reported};
use crate::client::Client;
use crate::harness::Setup;
use crate::nginx::cache::{Origin, counted};

const UUID: &str = "respond \"{http.request.uuid}\"";

#[test]
fn responses_of_every_handler_are_cached() {
    let origin = Origin::describing(&[]);
    let site = format!(
        "root * {{folder}}/www\n\tcache\n\tencode gzip\n\ttemplates /page.html\n\t\
         handle /text {{\n\t\t{UUID}\n\t}}\n\thandle_path /up/* {{\n\t\treverse_proxy 127.0.0.1:{}\n\t}}\n\t\
         handle {{\n\t\tfile_server\n\t}}",
        origin.upstream.port
    );
    let setup = caching("", &site);
    let www = setup.folder().path().join("www");
    std::fs::create_dir(&www).expect("the folder is new");
    // At once: a file that is written in its place may be read in between.
    let write = |name: &str, text: &str| {
        std::fs::write(www.join("new"), text).expect("writable");
        std::fs::rename(www.join("new"), www.join(name)).expect("writable");
    };
    let large = "0123456789".repeat(20_000);
    write("small.txt", "small");
    write("large.bin", &large);
    write("empty.txt", "");
    write("page.html", "{{.Req.URL.Path}} {{now}}");
    let server = setup.start();
    for path in [
        "/text",
        "/up/a",
        "/small.txt",
        "/large.bin",
        "/empty.txt",
        "/page.html",
    ] {
        is_cached(&server, path);
    }
    assert_eq!(origin.count("/a"), 1, "the target that the proxy sent");
    write("small.txt", "new");
    write("large.bin", "new");
    assert_eq!(get(&server, "/small.txt").text(), "small");
    assert_eq!(get(&server, "/large.bin").text(), large);
    // Another key; `file_server` may keep the old content in memory for a moment.
    let tries = std::cell::Cell::new(0);
    crate::harness::eventually(
        "the new file",
        || {
            tries.set(tries.get() + 1);
            get(&server, &format!("/small.txt?{}", tries.get())).text() == "new"
        },
        || server.stderr(),
    );
    // Each coding is a variant of its own.
    let packed = ask(
        &server,
        "GET",
        "/large.bin?packed",
        "Accept-Encoding: gzip\r\n",
    );
    assert_eq!(reported(&packed), "fwd=miss; stored", "{}", packed.head);
}

#[test]
fn parts_and_conditions_are_served_from_whole_responses() {
    let origin = Origin::describing(&[("/a", "ETag: \"1\"|Cache-Control: max-age=60")]);
    let server = super::proxying(origin.upstream.port, "");
    let part = ask(&server, "GET", "/a", "Range: bytes=1-2\r\n");
    assert_eq!(
        (part.status, part.text().as_str()),
        (206, "a "),
        "{}",
        part.head
    );
    assert_eq!(reported(&part), "fwd=miss; fwd-status=200; stored");
    let whole = get(&server, "/a");
    assert_eq!(
        (reported(&whole).as_str(), whole.text().as_str()),
        ("hit", "/a 0")
    );
    assert!(whole.field("Age").is_some(), "{}", whole.head);
    let part = ask(&server, "GET", "/a", "Range: bytes=-1\r\n");
    assert_eq!((part.status, part.text().as_str()), (206, "0"));
    let many = ask(&server, "GET", "/a", "Range: bytes=0-0,3-3\r\n");
    assert_eq!(many.status, 206);
    assert!(
        many.text().contains("Content-Range: bytes 3-3/4"),
        "{}",
        many.text()
    );
    assert_eq!(ask(&server, "GET", "/a", "Range: bytes=9-\r\n").status, 416);
    let unchanged = ask(&server, "GET", "/a", "If-None-Match: \"1\"\r\n");
    assert_eq!(
        (unchanged.status, reported(&unchanged).as_str()),
        (304, "hit")
    );
    let head = ask(&server, "HEAD", "/a", "");
    assert_eq!(head.field("Content-Length"), Some("4"), "{}", head.head);
    assert_eq!(reported(&head), "hit");
    assert_eq!(origin.count("/a"), 1);
    // A HEAD request asks for the whole response, which then serves GET.
    let head = ask(&server, "HEAD", "/b", "");
    assert_eq!(
        reported(&head),
        "fwd=miss; fwd-status=200; stored",
        "{}",
        head.head
    );
    crate::harness::eventually(
        "the response to HEAD",
        || reported(&get(&server, "/b")) == "hit",
        || server.stderr(),
    );
    assert_eq!(origin.last("/b")[0], "GET /b HTTP/1.1");
}

#[test]
fn handlers_around_the_cache_work_on_each_response() {
    let site = "header X-Around \"{http.request.uuid}\"\n\theader >X-Late late\n\t@b path /b\n\t\
                header @b Cache-Control \"max-age=60\"\n\trespond /denied 403\n\tcache\n\troute {\n\t\t\
                header X-Behind \"{http.request.uuid}\"\n\t\theader -Server\n\t\trespond * \"{http.request.uuid}\"\n\t}";
    let server = caching("mode bypass_request", site).start();
    let [first, second] = ["/a", "/a"].map(|path| get(&server, path));
    assert_eq!(
        (reported(&first).as_str(), reported(&second).as_str()),
        ("fwd=miss; stored", "hit")
    );
    assert_eq!(first.body, second.body);
    assert_eq!(first.field("X-Behind"), second.field("X-Behind"));
    assert_ne!(first.field("X-Around"), second.field("X-Around"));
    for response in [&first, &second] {
        assert_eq!(response.field("X-Late"), Some("late"));
        assert_eq!(response.field("Server"), None, "{}", response.head);
        let around = response.head.matches("X-Around").count();
        assert_eq!(around, 1, "{}", response.head);
    }
    // How long a response is fresh is also up to them.
    get(&server, "/b");
    let hit = get(&server, "/b");
    let status = hit.field("Cache-Status").unwrap_or_default();
    assert!(
        status.contains("ttl=60") || status.contains("ttl=59"),
        "{}",
        hit.head
    );
    assert_eq!(hit.head.matches("Cache-Control").count(), 1, "{}", hit.head);
}

#[test]
fn errors_are_not_cached_and_their_routes_respond() {
    let site = format!(
        "cache\n\thandle /gone {{\n\t\terror 404\n\t}}\n\thandle /replaced {{\n\t\terror 502\n\t}}\n\t\
         handle {{\n\t\t{UUID}\n\t}}\n\thandle_errors 502 {{\n\t\trewrite * /ok\n\t\tcache\n\t\t\
         respond \"{{err.status_code}} {{http.request.uuid}}\" 502\n\t}}"
    );
    let server = caching("", &site).start();
    for _ in 0..2 {
        let gone = get(&server, "/gone");
        assert_eq!(
            (gone.status, gone.field("Cache-Status")),
            (404, None),
            "{}",
            gone.head
        );
    }
    let [first, second] = ["/replaced"; 2].map(|path| get(&server, path));
    assert_eq!((first.status, first.field("Cache-Status")), (502, None));
    assert!(first.text().starts_with("502 "), "{}", first.text());
    assert_ne!(first.text(), second.text());
    is_cached(&server, "/other");
}

#[test]
fn inner_error_routes_respond_behind_the_cache() {
    let site = format!(
        "route {{\n\t\tcache\n\t\tintercept {{\n\t\t\t@status status 404\n\t\t\thandle_response @status {{\n\t\t\t\t\
         respond \"none {{http.request.uuid}}\" 404\n\t\t\t}}\n\t\t}}\n\t\trespond /none 404\n\t\t{UUID}\n\t}}"
    );
    let server = caching("", &site).start();
    is_cached(&server, "/none");
    let response = get(&server, "/none");
    assert!(response.text().starts_with("none "), "{}", response.text());
    assert_eq!(response.status, 404);
    is_cached(&server, "/some");
}

#[test]
fn other_requests_pass_the_cache() {
    let origin = Origin::describing(&[]);
    let server = super::proxying(
        origin.upstream.port,
        "regex {\n\t\t\texclude ^/admin\n\t\t}",
    );
    for _ in 0..2 {
        let response = get(&server, "/admin/a");
        assert_eq!(response.field("Cache-Status"), None, "{}", response.head);
        let response = ask(&server, "OPTIONS", "/a", "");
        assert_eq!(response.field("Cache-Status"), None, "{}", response.head);
        let mut client = Client::connect(server.port);
        client.send("GET /b HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1\r\n\r\nx");
        assert_eq!(client.response().field("Cache-Status"), None);
    }
    assert_eq!(origin.count("/admin/a"), 2);
    assert_eq!(origin.count("/a"), 2);
    assert_eq!(origin.count("/b"), 2);
}

#[test]
fn a_cache_within_another_one_does_not_wait_for_it() {
    let site = format!("cache\n\troute {{\n\t\tcache\n\t\t{UUID}\n\t}}");
    let server = caching("", &site).start();
    let first = get(&server, "/a");
    assert_eq!(first.head.matches("Sluice;").count(), 1, "{}", first.head);
    is_cached(&server, "/b");
}

#[test]
fn content_is_encoded_behind_the_cache_or_in_front_of_it() {
    let long = "hello ".repeat(500);
    for (order, stored) in [("", 2), ("\torder encode before cache\n", 1)] {
        let site = format!(
            "cache {{\n\t\tdisk {{folder}}/cache\n\t}}\n\tencode gzip\n\trespond \"{long}\""
        );
        let text =
            format!("{{\n\tadmin localhost:{{admin}}\n{order}}}\n:{{port}} {{\n\t{site}\n}}\n");
        let server = Setup::new(&text).start();
        for fields in ["Accept-Encoding: gzip\r\n", ""] {
            for _ in 0..2 {
                let response = ask(&server, "GET", "/a", fields);
                let is_packed = response.field("Content-Encoding") == Some("gzip");
                assert_eq!(is_packed, !fields.is_empty(), "{}", response.head);
                assert_eq!(is_packed, response.body.len() < long.len());
            }
            assert_eq!(reported(&ask(&server, "GET", "/a", fields)), "hit");
        }
        assert_eq!(counted(&server, "sluice_cache_stored_total"), stored);
    }
}

/// That of `pw`.
const HASH: &str = "$2a$04$ZIeeTt6DRkM.doP6dq0fueBjR8z0GfGk6k5DSrkEuZsIBQ7i4saqy";

#[test]
fn responses_to_known_users_are_not_shared() {
    let site = format!("cache\n\tbasic_auth /private/* {{\n\t\tbob {HASH}\n\t}}\n\t{UUID}");
    let server = caching("", &site).start();
    let known = "Authorization: Basic Ym9iOnB3\r\n";
    for _ in 0..2 {
        assert_eq!(get(&server, "/private/a").status, 401);
        let response = ask(&server, "GET", "/private/a", known);
        assert_eq!(
            (response.status, reported(&response).as_str()),
            (200, "fwd=miss"),
            "{}",
            response.head
        );
    }
    is_cached(&server, "/a");
}

#[test]
fn conditions_on_files_are_evaluated_on_misses_and_hits() {
    let setup = caching("", "root * {folder}/www\n\tcache\n\tfile_server");
    let www = setup.folder().path().join("www");
    std::fs::create_dir(&www).expect("the folder is new");
    for name in ["one", "two"] {
        std::fs::write(www.join(name), "0123456789").expect("writable");
    }
    let server = setup.start();
    let tag = get(&server, "/one")
        .field("ETag")
        .expect("a tag")
        .to_owned();
    for (path, expected) in [
        ("/one", "hit"),
        ("/two", "fwd=miss; stored"),
        ("/two", "hit"),
    ] {
        let fields = format!("If-None-Match: {tag}\r\n");
        let tag = match path {
            "/one" => fields,
            _ => "If-Modified-Since: Thu, 31 Dec 2099 00:00:00 GMT\r\n".to_owned(),
        };
        let response = ask(&server, "GET", path, &tag);
        assert_eq!(
            (
                response.status,
                response.body.len(),
                reported(&response).as_str()
            ),
            (304, 0, expected),
            "{path}: {}",
            response.head
        );
    }
    assert_eq!(get(&server, "/two").text(), "0123456789");
}
