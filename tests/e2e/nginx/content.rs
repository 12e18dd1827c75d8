//! Responses that the server generates itself.

use super::start;
use crate::client::Client;

#[test]
fn stub_status_and_empty_gif_respond() {
    let lines = "location = /status { stub_status; } location = /dot.gif { empty_gif; } \
                 location /counts { return 200 \"$connections_active $connections_writing $connections_waiting $connection_requests\"; }";
    let server = start(lines, &[]);
    let mut client = Client::connect(server.port);
    let status = client.get("/status");
    assert_eq!(
        (status.status, status.field("Content-Type")),
        (200, Some("text/plain"))
    );
    let text = status.text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[1], "server accepts handled requests");
    let numbers: Vec<u64> = lines[2]
        .split_whitespace()
        .filter_map(|one| one.parse().ok())
        .collect();
    assert!(
        numbers.len() == 3 && numbers[0] >= 1 && numbers[0] == numbers[1] && numbers[2] >= 1,
        "{text}"
    );
    assert!(
        lines[0].starts_with("Active connections: ") && lines[3].contains("Writing: 1 "),
        "{text}"
    );
    let counts = client.get("/counts").text();
    assert!(
        counts.ends_with(" 2"),
        "it is the second request of its connection: {counts}"
    );
    let gif = client.get("/dot.gif");
    assert_eq!(
        (gif.body.len(), gif.field("Content-Type")),
        (43, Some("image/gif"))
    );
    client.send("GET /dot.gif HTTP/1.1\r\nHost: a\r\nIf-Modified-Since: Mon, 28 Sep 1970 06:00:00 GMT\r\n\r\n");
    assert_eq!(client.response().status, 304);
    client.send("POST /dot.gif HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(client.response().status, 405);
}

#[test]
fn folders_dates_and_ranges_are_as_the_file_says() {
    let lines = "location /any/ { random_index on; } location /none { max_ranges 0; } location /one { max_ranges 1; } \
                 location /before { if_modified_since before; } location /off { if_modified_since off; }";
    let files = [
        ("any/a", "1"),
        ("any/b", "2"),
        ("any/.c", "3"),
        ("none", "0123456789"),
        ("one", "0123456789"),
        ("before", "x"),
        ("off", "x"),
    ];
    let server = start(lines, &files);
    let mut client = Client::connect(server.port);
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..100 {
        seen.insert(client.get("/any/").text());
    }
    assert_eq!(
        seen.into_iter().collect::<String>(),
        "12",
        "hidden files are not shown"
    );
    let mut asked = |path: &str, field: &str| {
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n{field}\r\n\r\n"));
        client.response()
    };
    let none = asked("/none", "Range: bytes=1-2");
    assert_eq!((none.status, none.field("Accept-Ranges")), (200, None));
    assert_eq!(asked("/one", "Range: bytes=1-2").text(), "12");
    assert_eq!(asked("/one", "Range: bytes=1-2,4-5").status, 200);
    let future = "If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT";
    assert_eq!(asked("/before", future).status, 304);
    assert_eq!(asked("/one", future).status, 200);
    // Files may have been written in different seconds: each is requested with its own time.
    for (path, status) in [("/off", 200), ("/one", 304)] {
        let modified = asked(path, "X: y")
            .field("Last-Modified")
            .map(str::to_owned);
        let same = format!("If-Modified-Since: {}", modified.expect("a date"));
        assert_eq!(asked(path, &same).status, status, "{path}");
    }
}
