//! The number of request headers, and header names with underscores and dots.

use crate::client::{Response, exchange};
use crate::h2::peer::{Peer, request};
use crate::harness::Server;
use crate::nginx::setup;
use crate::upstream::Upstream;

fn get(server: &Server, headers: &str) -> Response {
    exchange(
        server.port,
        format!("GET / HTTP/1.1\r\nHost: a.test\r\n{headers}Connection: close\r\n\r\n"),
    )
}

fn numbered(count: usize) -> String {
    (0..count)
        .map(|number| format!("X-{number}: 1\r\n"))
        .collect()
}

/// Over HTTP/2.
fn ask_h2(server: &Server, headers: &[(String, String)]) -> (u16, String) {
    let mut peer = Peer::connect(server.port);
    let mut fields: Vec<(&str, &str)> = request("GET", "/").to_vec();
    fields.extend(headers.iter().map(|(name, value)| (&name[..], &value[..])));
    let id = peer.ask(&fields);
    let response = peer.response(id);
    (response.status, response.text())
}

const ODD: &str = "X_A: 1\r\nX.A: 1\r\nuser_id: 7\r\nUser-Id: 8\r\nHook_One: 1\r\nHook-Two: 2\r\nT.a: 1\r\nX-B: 1\r\n";

/// The names above that the upstream received.
fn seen(text: &str) -> Vec<&str> {
    let names = text.lines().filter_map(|line| line.split_once(": "));
    let ours = [
        "x_a", "x.a", "user_id", "user-id", "hook_one", "hook-two", "t.a", "x-b",
    ];
    names
        .map(|(name, _)| name)
        .filter(|name| ours.contains(&name.to_ascii_lowercase().as_str()))
        .collect()
}

#[test]
fn headers_with_underscores_and_dots_reach_upstreams_only_where_they_are_expected() {
    let upstream = Upstream::echo();
    for (options, expected) in [
        ("", &["User-Id", "Hook-Two", "X-B"][..]),
        (
            "expected_underscore_headers User_ID hook_*",
            &["user_id", "Hook_One", "X-B"],
        ),
        (
            "expected_dot_headers t.A",
            &["User-Id", "Hook-Two", "T.a", "X-B"],
        ),
        (
            "expected_underscore_headers x_a\nexpected_dot_headers x.a",
            &["X_A", "X.A", "User-Id", "Hook-Two", "X-B"],
        ),
    ] {
        let server = Server::start(&format!(
            "{{\nadmin off\nservers {{\nprotocols h1 h2c\n{options}\n}}\n}}\n:{{port}} {{\nreverse_proxy localhost:{}\n}}\n",
            upstream.port
        ));
        assert_eq!(seen(&get(&server, ODD).text()), expected, "{options}");
        let headers: Vec<(String, String)> = ODD
            .lines()
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let (_, text) = ask_h2(&server, &headers);
        let expected: Vec<String> = expected
            .iter()
            .map(|name| name.to_ascii_lowercase())
            .collect();
        assert_eq!(seen(&text), expected, "{options} over HTTP/2");
    }
}

#[test]
fn requests_have_as_many_headers_as_an_nginx_conf_allows() {
    let conf = |line: &str| {
        setup(&format!(
            "events {{}}\nhttp {{\nserver {{\nlisten 127.0.0.1:{{port}};\nhttp2 on;\n{line}\nreturn 200 ok;\n}}\n}}\n"
        ))
        .start()
    };
    // `Host` and `Connection` count as well; in HTTP/2 so do the four pseudo-headers.
    for (line, fits, too_many) in [
        ("", 990, 1000),
        ("max_headers 20;", 14, 20),
        (
            "max_headers 3000; large_client_header_buffers 8 32k;",
            2990,
            3000,
        ),
        // The limit on bytes still applies.
        ("max_headers 30000;", 1000, 4000),
    ] {
        let server = conf(line);
        assert_eq!(get(&server, &numbered(fits)).status, 200, "{line}");
        assert_eq!(get(&server, &numbered(too_many)).status, 400, "{line}");
        let headers = |count: usize| -> Vec<(String, String)> {
            (0..count)
                .map(|number| (format!("x-{number}"), "1".into()))
                .collect()
        };
        // Each takes 32 bytes more there.
        let fits = if line == "max_headers 20;" { 14 } else { 700 };
        assert_eq!(ask_h2(&server, &headers(fits)).0, 200, "{line}");
        if line == "max_headers 20;" {
            assert_eq!(ask_h2(&server, &headers(20)).0, 400, "{line}");
        }
    }
}

/// A target has a quarter of the head, which is one of nginx's four buffers. In an nginx.conf the rest of its line has to
/// fit there as well, over HTTP/1.
#[test]
fn targets_are_as_long_as_the_size_of_heads_allows() {
    let target = |length: usize| format!("/{}", "a".repeat(length - 1));
    for (options, size, fits) in [
        ("", "", 8 * 1024),
        ("max_header_size 48KiB", "4 12k", 12 * 1024),
        ("max_header_size 128KiB", "4 32k", 32 * 1024),
        ("max_header_size 1MiB", "4 256k", 65_535),
    ] {
        let line = if size == "4 256k" {
            0
        } else {
            "GET  HTTP/1.1\r\n".len()
        };
        let large = match size {
            "" => String::new(),
            size => format!("large_client_header_buffers {size};"),
        };
        let nginx = setup(&format!(
            "events {{}}\nhttp {{\nserver {{\nlisten 127.0.0.1:{{port}};\nhttp2 on;\n{large}\nreturn 200 ok;\n}}\n}}\n"
        ))
        .start();
        let caddy = Server::start(&format!(
            "{{\nadmin off\nservers {{\nprotocols h1 h2c\n{options}\n}}\n}}\n:{{port}} {{\nrespond ok\n}}\n"
        ));
        for (server, line) in [(&nginx, line), (&caddy, 0)] {
            for (length, expected) in [(fits - line, 200), (fits - line + 1, 414)] {
                let target = target(length);
                let head = format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
                let status = exchange(server.port, head).status;
                assert_eq!(status, expected, "{options} {size} {length}");
                // The peer sends a head in one frame, which holds 16 KiB.
                if length > 16_000 || line > 0 && expected == 414 {
                    continue;
                }
                let mut peer = Peer::connect(server.port);
                let id = peer.ask(&request("GET", &target));
                let status = peer.response(id).status;
                assert_eq!(status, expected, "{options} {size} {length} over HTTP/2");
            }
        }
    }
}

/// 32 KiB and 100 headers by default; a larger head size allows proportionally more headers.
#[test]
fn larger_heads_of_a_caddyfile_have_more_headers() {
    for (options, fits, too_many) in [("", 95, 101), ("max_header_size 64KiB", 195, 201)] {
        let server = Server::start(&format!(
            "{{\nadmin off\nservers {{\n{options}\n}}\n}}\n:{{port}} {{\nrespond ok\n}}\n"
        ));
        assert_eq!(get(&server, &numbered(fits)).status, 200, "{options}");
        assert_eq!(get(&server, &numbered(too_many)).status, 431, "{options}");
    }
}
