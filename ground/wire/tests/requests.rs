//! A table of raw requests and the expected result for each, however its bytes are split. The groups are framing
//! attacks seen in other servers; sections are those of RFC 9112 unless another RFC is named.

use sluice_wire::h1::{Limits, OddNames};

use crate::feed;
use crate::feed::request;

/// A request line for the root of host `a`.
const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n";
/// The same for a request with content.
const POST: &str = "POST / HTTP/1.1\r\nHost: a\r\n";

/// Asserts that `raw` is refused with that status and fault.
fn refused(raw: &[u8], status: u16, fault: &str) {
    let outcome = request(raw, &Limits::DEFAULT);
    let expected = format!("{status} ");
    assert!(
        outcome.starts_with(&expected),
        "{} gave {outcome}",
        feed::text(raw)
    );
    assert!(
        outcome.contains(fault),
        "{} gave {outcome}",
        feed::text(raw)
    );
}

/// Asserts that `raw` is a whole request whose description holds all of `parts`.
fn accepted(raw: &[u8], parts: &[&str]) {
    let outcome = request(raw, &Limits::DEFAULT);
    let parts = parts.iter().chain([&"RequestFraming"]);
    for part in parts {
        assert!(
            outcome.contains(part),
            "{} gave {outcome}, not {part}",
            feed::text(raw)
        );
    }
}

/// A request made of a start and one raw piece before the empty line.
fn with(start: &str, lines: &[u8]) -> Vec<u8> {
    [start.as_bytes(), lines, b"\r\n"].concat()
}

#[test]
fn lengths_that_readers_could_disagree_about_are_refused() {
    // Section 6.3, item 5, and RFC 9110, section 8.6.
    for value in [
        "",
        " ",
        "+5",
        "-5",
        "-0",
        "5 5",
        "5,5",
        "5, 5",
        "5,",
        ",5",
        "0x5",
        "5h",
        "5.0",
        "5e1",
        "1_000",
        "five",
        "\"5\"",
        "5;",
        "٥",
        "00000000000000000005",
        "9223372036854775808",
        "18446744073709551616",
        "99999999999999999999",
        "184467440737095516165",
        "5\t5",
        "chunked",
    ] {
        let raw = with(POST, format!("Content-Length: {value}\r\n").as_bytes());
        refused(&raw, 400, "LengthInvalid");
    }
    for (first, second) in [("5", "5"), ("5", "6"), ("0", "5"), ("5", "0"), ("5", "")] {
        let lines = format!("Content-Length: {first}\r\nX: y\r\ncontent-LENGTH: {second}\r\n");
        refused(&with(POST, lines.as_bytes()), 400, "LengthRepeated");
    }
    for (value, length) in [
        ("5", 5u64),
        ("0", 0),
        ("007", 7),
        (" \t 5 \t", 5),
        ("9223372036854775807", i64::MAX as u64),
    ] {
        let raw = with(POST, format!("Content-Length:{value}\r\n").as_bytes());
        accepted(&raw, &[&format!("Length({length})")]);
    }
}

#[test]
fn codings_that_readers_could_disagree_about_are_refused() {
    // Sections 6.1 and 7.
    for value in [
        "",
        "identity",
        "gzip",
        "chunked, gzip",
        "chunked, identity",
        "chunked, chunked",
        "chunked,chunked",
        "gzip, chunked, chunked",
        ",chunked",
        "chunked,",
        "chunked, ,",
        " , chunked",
        "xchunked",
        "chunkedx",
        "chunke",
        "chunked;q=1",
        "chunked; x",
        "\"chunked\"",
        "'chunked'",
        "chunked chunked",
        "chunked gzip",
        "c hunked",
        "chunked\u{e9}",
        "chunk\u{212a}ed",
        "0",
        "chunked\tx",
        "chunked=1",
        "chunked:",
    ] {
        let raw = with(POST, format!("Transfer-Encoding: {value}\r\n").as_bytes());
        refused(&raw, 400, "CodingInvalid");
    }
    for value in [
        "gzip, chunked",
        "identity, chunked",
        "x, chunked",
        "gzip,deflate,chunked",
    ] {
        let raw = with(POST, format!("Transfer-Encoding: {value}\r\n").as_bytes());
        refused(&raw, 501, "CodingUnknown");
    }
    for (first, second, status, fault) in [
        ("chunked", "chunked", 400, "CodingInvalid"),
        ("chunked", "gzip", 400, "CodingInvalid"),
        ("chunked", "identity", 400, "CodingInvalid"),
        ("chunked", "", 400, "CodingInvalid"),
        ("", "chunked", 400, "CodingInvalid"),
        ("gzip", "chunked", 501, "CodingUnknown"),
    ] {
        let lines = format!("Transfer-Encoding: {first}\r\nTransfer-encoding: {second}\r\n");
        refused(&with(POST, lines.as_bytes()), status, fault);
    }
    for value in ["chunked", "Chunked", "CHUNKED", "\t chunked \t"] {
        let raw = with(POST, format!("Transfer-Encoding:{value}\r\n").as_bytes());
        accepted(&raw, &["body: Chunked"]);
    }
}

#[test]
fn length_beside_coding_is_refused() {
    // Section 6.1: ought to be handled as an error.
    for lines in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\nContent-Length: 5\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length:\r\n",
        "Transfer-Encoding: x\r\nContent-Length: 5\r\n",
        "Transfer-Encoding:\r\nContent-Length: 5\r\n",
        "transfer-encoding: chunked\r\ncontent-length: 5\r\n",
    ] {
        refused(&with(POST, lines.as_bytes()), 400, "LengthAndCoding");
        refused(&with(GET, lines.as_bytes()), 400, "LengthAndCoding");
    }
}

#[test]
fn coding_in_http_1_0_is_refused() {
    let start = "POST / HTTP/1.0\r\nHost: a\r\n";
    refused(
        &with(start, b"Transfer-Encoding: chunked\r\n"),
        400,
        "CodingInHttp10",
    );
    refused(
        &with(start, b"Transfer-Encoding: identity\r\n"),
        400,
        "CodingInHttp10",
    );
    refused(
        &with(
            start,
            b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        ),
        400,
        "LengthAndCoding",
    );
}

#[test]
fn content_until_close_is_refused_in_http_1_0() {
    let hidden = b"GET /admin HTTP/1.1\r\nHost: a\r\n\r\n";
    for method in ["POST", "PUT", "PATCH"] {
        let start = format!("{method} / HTTP/1.0\r\nHost: a\r\n\r\n");
        refused(&[start.as_bytes(), hidden].concat(), 411, "LengthMissing");
    }
    accepted(
        b"POST / HTTP/1.0\r\nContent-Length: 0\r\n\r\n",
        &["Length(0)", "Close"],
    );
    accepted(
        b"GET / HTTP/1.0\r\n\r\n",
        &["body: None", "keep_alive: Close"],
    );
}

#[test]
fn malformed_field_names_are_refused() {
    // Section 5.1 and RFC 9110, section 5.1.
    for (line, fault) in [
        (&b": x\r\n"[..], "EmptyName"),
        (b":\r\n", "EmptyName"),
        (b" x: y\r\n", "Folded"),
        (b"\tx: y\r\n", "Folded"),
        (b" \r\n", "Folded"),
        (b"x : y\r\n", "SpaceBeforeColon"),
        (b"x\t: y\r\n", "SpaceBeforeColon"),
        (b"x \t : y\r\n", "SpaceBeforeColon"),
        (b"Content-Length : 5\r\n", "SpaceBeforeColon"),
        (b"Transfer-Encoding : chunked\r\n", "SpaceBeforeColon"),
        (b"a b: c\r\n", "NameByte(32)"),
        (b"x\0: y\r\n", "NameByte(0)"),
        (b"\0: y\r\n", "NameByte(0)"),
        (b"x\x0b: y\r\n", "NameByte(11)"),
        (b"x\xa0: y\r\n", "NameByte(160)"),
        (b"x(y): z\r\n", "NameByte(40)"),
        (b"\"x\": y\r\n", "NameByte(34)"),
        (b"x/y: z\r\n", "NameByte(47)"),
        (b"x@y: z\r\n", "NameByte(64)"),
        (b"x[0]: z\r\n", "NameByte(91)"),
        (b"x=1\r\n", "NameByte(61)"),
        (b"x\r\n", "NoColon"),
        (b"GET\r\n", "NoColon"),
        (b"GET / HTTP/1.1\r\n", "NameByte(32)"),
        (b"x\ry: z\r\n", "LineEnd"),
        (b"\rx: z\r\n", "LineEnd"),
        (b"x\n: y\r\n", "LineEnd"),
        (b"x\n", "LineEnd"),
    ] {
        refused(&with(GET, line), 400, fault);
        // The same as the first and as the last of several lines, and as the very first line.
        refused(&with(GET, &[line, b"Accept: */*\r\n"].concat()), 400, fault);
        refused(&with(GET, &[b"Accept: */*\r\n", line].concat()), 400, fault);
        refused(
            &[b"GET / HTTP/1.1\r\n", line, b"Host: a\r\n\r\n"].concat(),
            400,
            fault,
        );
    }
}

#[test]
fn malformed_field_values_and_line_ends_are_refused() {
    // Sections 2.2 and 5.2, RFC 9110, section 5.5.
    for (line, fault) in [
        (&b"x: a\0b\r\n"[..], "ValueByte(0)"),
        (b"x: \x01\r\n", "ValueByte(1)"),
        (b"x: a\x08\r\n", "ValueByte(8)"),
        (b"x: a\x0bb\r\n", "ValueByte(11)"),
        (b"x: a\x0cb\r\n", "ValueByte(12)"),
        (b"x: a\x1b[31m\r\n", "ValueByte(27)"),
        (b"x: a\x7f\r\n", "ValueByte(127)"),
        (b"x: a\rb\r\n", "LineEnd"),
        (b"x: a\r\r\n", "LineEnd"),
        (b"x: \r\r\n", "LineEnd"),
        (b"x: a\n", "LineEnd"),
        (b"x:\n", "LineEnd"),
        (b"x: a\nContent-Length: 5\r\n", "LineEnd"),
        (b"x: a\rContent-Length: 5\r\n", "LineEnd"),
        (b"x: a\r\n b\r\n", "Folded"),
        (b"x: a\r\n\tb\r\n", "Folded"),
        (b"x:\r\n b\r\n", "Folded"),
        (b"x: a\r\n \r\n", "Folded"),
        (b"Transfer-Encoding:\r\n chunked\r\n", "Folded"),
        (b"Content-Length:\r\n 5\r\n", "Folded"),
        (b"Transfer-Encoding: \x0bchunked\r\n", "ValueByte(11)"),
        (b"Transfer-Encoding: chunked\0\r\n", "ValueByte(0)"),
        (b"Content-Length: 5\0\r\n", "ValueByte(0)"),
        (b"Content-Length: 5\r5\r\n", "LineEnd"),
    ] {
        refused(&with(GET, line), 400, fault);
        refused(&with(GET, &[b"Accept: */*\r\n", line].concat()), 400, fault);
    }
    refused(b"GET / HTTP/1.1\r\nHost: a\r\n\n", 400, "LineEnd");
    refused(b"GET / HTTP/1.1\r\nHost: a\r\n\r\r\n\n", 400, "LineEnd");
    refused(b"GET / HTTP/1.1\r\nHost: a\n\n", 400, "LineEnd");
    for line in [
        &b"x:\r\n"[..],
        b"x: \t \r\n",
        b"x:a\r\n",
        b"x:  a  \r\n",
        b"x: \xe9\xff\r\n",
        b"x: a:b\r\n",
    ] {
        accepted(&with(GET, line), &["body: None", "\nx: "]);
    }
    accepted(&with(GET, b"x:\t a\t b \t\r\n"), &["x: a\\t b\n"]);
}

#[test]
fn request_lines_are_taken_strictly() {
    // Section 3.
    for (line, status, fault) in [
        (&b"GET  / HTTP/1.1\r\n"[..], 400, "Target"),
        (b"GET /  HTTP/1.1\r\n", 400, "Version"),
        (b"GET / HTTP/1.1 \r\n", 400, "Version"),
        (b" GET / HTTP/1.1\r\n", 400, "NotHttp(32)"),
        (b"\tGET / HTTP/1.1\r\n", 400, "NotHttp(9)"),
        (b"GET\t/ HTTP/1.1\r\n", 400, "Method"),
        (b"GET /\tHTTP/1.1\r\n", 400, "Target"),
        (b"GET /a b HTTP/1.1\r\n", 400, "Version"),
        (b"GET /\r\n", 400, "VersionMissing"),
        (b"GET / \r\n", 400, "Version"),
        (b"GET\r\n", 400, "Method"),
        (b"GET \r\n", 400, "Target"),
        (b"GET HTTP/1.1\r\n", 400, "VersionMissing"),
        (b"/ HTTP/1.1\r\n", 400, "NotHttp(47)"),
        (b"G\0T / HTTP/1.1\r\n", 400, "Method"),
        (b"G(T / HTTP/1.1\r\n", 400, "Method"),
        (b"G\xc9T / HTTP/1.1\r\n", 400, "Method"),
        (b"GET: / HTTP/1.1\r\n", 400, "Method"),
        (b"GET / http/1.1\r\n", 400, "Version"),
        (b"GET / Http/1.1\r\n", 400, "Version"),
        (b"GET / HTTP/1\r\n", 400, "Version"),
        (b"GET / HTTP/1.\r\n", 400, "Version"),
        (b"GET / HTTP/11\r\n", 400, "Version"),
        (b"GET / HTTP/1.10\r\n", 400, "Version"),
        (b"GET / HTTP/01.1\r\n", 400, "Version"),
        (b"GET / HTTP/1,1\r\n", 400, "Version"),
        (b"GET / HTTP /1.1\r\n", 400, "Version"),
        (b"GET / HTTPS/1.1\r\n", 400, "Version"),
        (b"GET / ICE/1.0\r\n", 400, "Version"),
        (b"GET / \x00HTTP/1.1\r\n", 400, "Version"),
        (b"GET / HTTP/1.1\0\r\n", 400, "Version"),
        (b"GET / HTTP/0.9\r\n", 505, "VersionUnsupported"),
        (b"GET / HTTP/2.0\r\n", 505, "VersionUnsupported"),
        (b"GET / HTTP/3.0\r\n", 505, "VersionUnsupported"),
        (b"GET / HTTP/9.9\r\n", 505, "VersionUnsupported"),
        (b"PRI * HTTP/2.0\r\n", 505, "Http2Preface"),
        (b"GET / HTTP/1.1\n", 400, "LineEnd"),
        (b"GET / HTTP/1.1\r\r\n", 400, "LineEnd"),
        (b"GET / HTTP/1.1\rHost: a\r\n", 400, "LineEnd"),
        (b"GET /\rx HTTP/1.1\r\n", 400, "LineEnd"),
        (b"\rGET / HTTP/1.1\r\n", 400, "LineEnd"),
        (b"\nGET / HTTP/1.1\r\n", 400, "LineEnd"),
        (b"\r\n\r\n\r\nGET / HTTP/1.1\r\n", 400, "EmptyLines"),
        (b"\r\n\nGET / HTTP/1.1\r\n", 400, "LineEnd"),
        (b"\r\n GET / HTTP/1.1\r\n", 400, "NotHttp(32)"),
        (
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n",
            400,
            "NotHttp(22)",
        ),
        (b"\x80\x2e\x01\x00\x02\r\n", 400, "NotHttp(128)"),
        (b"\x00\r\n", 400, "NotHttp(0)"),
    ] {
        refused(&[line, b"Host: a\r\n\r\n"].concat(), status, fault);
    }
    for (line, parts) in [
        (&b"GET / HTTP/1.2\r\n"[..], &["Http11", "Reuse"][..]),
        (b"GET / HTTP/1.9\r\n", &["Http11"]),
        (b"\r\nGET / HTTP/1.1\r\n", &["GET /"]),
        (b"\r\n\r\nGET / HTTP/1.1\r\n", &["GET /"]),
        (b"get / HTTP/1.1\r\n", &["get /"]),
        (b"M-SEARCH / HTTP/1.1\r\n", &["M-SEARCH /"]),
        (b"!#$%&'*+-.^_`|~ / HTTP/1.1\r\n", &["!#$%&"]),
    ] {
        accepted(&[line, b"Host: a\r\n\r\n"].concat(), parts);
    }
}

#[test]
fn targets_have_a_form_and_it_fits_the_method() {
    // Section 3.2.
    for line in [
        "GET a",
        "GET a/b",
        "GET ?x",
        "GET *",
        "GET a:80",
        "GET http:/a",
        "GET http:a",
        "GET http://",
        "GET http:///x",
        "GET http://u@a/",
        "GET http://a:99999/",
        "GET ftp://a/",
        "GET file:///etc/passwd",
        "GET javascript:alert(1)",
        "GET //\u{e9}",
        "GET /\u{e9}",
        "GET /#x",
        "GET /a#",
        "GET http://a/#x",
        "GET /\x7f",
        "GET /\x01",
        "GET /a%",
        "GET /a%2",
        "GET /%zz",
        "GET /%u0041",
        "GET http://a/%g1",
        "POST *",
        "OPTIONS a",
        "OPTIONS **",
        "CONNECT /",
        "CONNECT *",
        "CONNECT a",
        "CONNECT a:",
        "CONNECT a:x",
        "CONNECT http://a:80/",
        "CONNECT u@a:80",
        "CONNECT a:80/x",
        "CONNECT [::1]",
        "CONNECT :80",
        "CONNECT a:65536",
        "GET \\",
        "GET \\\\a\\b",
        "GET http://[::1",
        "GET http://a\\b/",
    ] {
        refused(
            format!("{line} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes(),
            400,
            "Target",
        );
    }
}

#[test]
fn each_form_of_target_is_taken_apart() {
    for (line, parts) in [
        ("GET /", "uri=/ authority=a host=a port=None"),
        ("GET /a?b=c&d", "uri=/a?b=c&d authority=a"),
        ("GET //a", "uri=//a authority=a"),
        ("GET /../a/./b", "uri=/../a/./b "),
        ("GET /a%2Fb%00?%", "uri=/a%2Fb%00?% "),
        ("GET /\"<>\\^`{|}", "uri=/\\\"<>\\\\^`{|} "),
        ("GET /http://b/", "uri=/http://b/ authority=a"),
        ("OPTIONS *", "uri=* authority=a"),
        ("OPTIONS /x", "uri=/x authority=a"),
        ("OPTIONS http://b:8080", "uri=* authority=b:8080"),
        (
            "GET http://B.c:8080/x?y",
            "uri=/x?y authority=B.c:8080 host=b.c port=Some(8080)",
        ),
        ("GET HTTPS://b", "uri=/ authority=b"),
        ("GET http://b?x=/", "uri=/?x=/ authority=b"),
        (
            "GET http://[::1]:80/",
            "uri=/ authority=[::1]:80 host=::1 port=Some(80)",
        ),
        (
            "CONNECT b:443",
            "uri= authority=b:443 host=b port=Some(443)",
        ),
    ] {
        accepted(
            format!("{line} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes(),
            &[parts],
        );
    }
}

#[test]
fn the_host_is_one_and_valid() {
    // Section 3.2, last paragraphs.
    refused(b"GET / HTTP/1.1\r\n\r\n", 400, "HostMissing");
    refused(b"GET / HTTP/1.1\r\nHosts: a\r\n\r\n", 400, "HostMissing");
    refused(b"GET http://a/ HTTP/1.1\r\n\r\n", 400, "HostMissing");
    refused(b"CONNECT a:80 HTTP/1.1\r\n\r\n", 400, "HostMissing");
    refused(
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
        400,
        "HostRepeated",
    );
    refused(
        b"GET / HTTP/1.1\r\nHost: a\r\nX: y\r\nhost: b\r\n\r\n",
        400,
        "HostRepeated",
    );
    refused(
        b"GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n",
        400,
        "HostRepeated",
    );
}

#[test]
fn malformed_hosts_are_refused() {
    for host in [
        "",
        " ",
        "a b",
        "a, b",
        "a/b",
        "a/",
        "http://a",
        "u@a",
        "u:p@a",
        "a:80:80",
        "a:x",
        "a:-1",
        "a:65536",
        "a:+80",
        "a: 80",
        "[::1",
        "::1",
        "[::1]a",
        "[::g]",
        "[fe80::1%eth0]",
        "a?b",
        "a#b",
        "a\\b",
        "\"a\"",
        "<a>",
        "a%",
        "a%z1",
        ":80",
        "\u{e9}",
        "a\tb",
        "{a}",
        "a|b",
        "a^b",
        "a`b",
    ] {
        let raw = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
        refused(raw.as_bytes(), 400, "HostInvalid");
        refused(raw.replace("1.1", "1.0").as_bytes(), 400, "HostInvalid");
    }
}

#[test]
fn valid_hosts_are_kept_and_replaced_by_that_of_the_target() {
    for host in [
        "a",
        "A.example.COM",
        "a:80",
        "a:",
        "127.0.0.1:1",
        "[::1]",
        "[2001:DB8::1]:443",
        "a_b-c~d",
        "x.",
        "%41",
    ] {
        let raw = format!("GET / HTTP/1.1\r\nHost:  {host} \r\n\r\n");
        accepted(raw.as_bytes(), &[&format!("authority={host} ")]);
    }
    accepted(b"GET / HTTP/1.0\r\n\r\n", &["authority= host= port=None"]);
    // Section 3.2.2: the host in the target wins, and `Host` is corrected for the next hop.
    accepted(
        b"GET http://b:1/ HTTP/1.1\r\nX: 1\r\nHost: a\r\n\r\n",
        &["authority=b:1", "X: 1\nHost: b:1\n"],
    );
    accepted(
        b"GET http://b/ HTTP/1.0\r\n\r\n",
        &["authority=b ", "\nHost: b\n"],
    );
    refused(
        b"GET http://b/ HTTP/1.1\r\nHost: a/\r\n\r\n",
        400,
        "HostInvalid",
    );
}

#[test]
fn connections_last_as_the_options_say() {
    // Section 9.3.
    for (version, line, keep_alive) in [
        ("1.1", "", "Reuse"),
        ("1.1", "Connection: close", "Close"),
        ("1.1", "Connection: Close", "Close"),
        ("1.1", "connection: x, close ,y", "Close"),
        ("1.1", "Connection: x\r\nConnection: close", "Close"),
        ("1.1", "Connection: close, keep-alive", "Close"),
        ("1.1", "Connection: keep-alive, close", "Close"),
        ("1.1", "Connection: closed", "Reuse"),
        ("1.1", "Connection: \"close\"", "Reuse"),
        ("1.1", "Connection:", "Reuse"),
        ("1.1", "Proxy-Connection: close", "Reuse"),
        ("1.0", "", "Close"),
        ("1.0", "Connection: keep-alive", "Reuse"),
        ("1.0", "Connection: Keep-Alive", "Reuse"),
        ("1.0", "Connection: x,keep-alive", "Reuse"),
        ("1.0", "Connection: keep-alive, close", "Close"),
        ("1.0", "Proxy-Connection: keep-alive", "Close"),
    ] {
        let line = if line.is_empty() {
            String::new()
        } else {
            format!("{line}\r\n")
        };
        let raw = format!("GET / HTTP/{version}\r\nHost: a\r\n{line}\r\n");
        accepted(raw.as_bytes(), &[&format!("keep_alive: {keep_alive}")]);
    }
}

#[test]
fn upgrades_need_both_fields() {
    // RFC 9110, section 7.8.
    for (version, lines, wish) in [
        (
            "1.1",
            "Connection: Upgrade\r\nUpgrade: websocket\r\n",
            "Asked",
        ),
        (
            "1.1",
            "Connection: keep-alive, UPGRADE\r\nUpgrade: h2c\r\n",
            "Asked",
        ),
        ("1.1", "Connection: upgrade\r\n", "None"),
        ("1.1", "Upgrade: websocket\r\n", "None"),
        ("1.1", "Connection: close\r\nUpgrade: websocket\r\n", "None"),
        (
            "1.0",
            "Connection: upgrade\r\nUpgrade: websocket\r\n",
            "None",
        ),
    ] {
        let raw = format!("GET / HTTP/{version}\r\nHost: a\r\n{lines}\r\n");
        accepted(raw.as_bytes(), &[&format!("upgrade: {wish}")]);
    }
}

#[test]
fn expectations_are_met_or_refused() {
    // RFC 9110, section 10.1.1.
    for (lines, expectation) in [
        ("Expect: 100-continue\r\nContent-Length: 5\r\n", "Continue"),
        (
            "Expect: 100-Continue\r\nTransfer-Encoding: chunked\r\n",
            "Continue",
        ),
        (
            "Expect: 100-continue, 100-continue\r\nContent-Length: 5\r\n",
            "Continue",
        ),
        ("Expect: 100-continue\r\nContent-Length: 0\r\n", "None"),
        ("Expect: 100-continue\r\n", "None"),
        ("", "None"),
    ] {
        accepted(
            &with(POST, lines.as_bytes()),
            &[&format!("expectation: {expectation}")],
        );
    }
    for value in [
        "",
        "200-ok",
        "100-continue, x",
        "100",
        "x=y",
        "100-continue;q=1",
    ] {
        let lines = format!("Expect: {value}\r\nContent-Length: 5\r\n");
        refused(&with(POST, lines.as_bytes()), 417, "Expectation");
    }
    let old = b"POST / HTTP/1.0\r\nExpect: x\r\nContent-Length: 5\r\n\r\n";
    accepted(old, &["expectation: None"]);
}

#[test]
fn limits_count_bytes_and_items() {
    let limits = Limits::DEFAULT;
    let target = |length: usize| {
        format!(
            "GET /{} HTTP/1.1\r\nHost: a\r\n\r\n",
            "a".repeat(length - 1)
        )
    };
    accepted(target(limits.target_bytes_max).as_bytes(), &["body: None"]);
    refused(
        target(limits.target_bytes_max + 1).as_bytes(),
        414,
        "TargetTooLong",
    );
    refused(target(20_000).as_bytes(), 414, "TargetTooLong");
    refused(
        format!("GET /{}", "a".repeat(9000)).as_bytes(),
        414,
        "TargetTooLong",
    );
    refused(
        format!("GET / {}", "a".repeat(9000)).as_bytes(),
        414,
        "TargetTooLong",
    );
    let method = |length: usize| format!("{} / HTTP/1.1\r\nHost: a\r\n\r\n", "M".repeat(length));
    accepted(method(limits.method_bytes_max).as_bytes(), &["body: None"]);
    refused(
        method(limits.method_bytes_max + 1).as_bytes(),
        501,
        "MethodTooLong",
    );
    refused("M".repeat(9000).as_bytes(), 414, "LineTooLong");
    let name = |length: usize| with(GET, format!("{}: x\r\n", "n".repeat(length)).as_bytes());
    accepted(&name(limits.name_bytes_max), &["body: None"]);
    refused(&name(limits.name_bytes_max + 1), 431, "NameTooLong");
    refused(&name(30_000), 431, "NameTooLong");
    let fields = |count: usize| with(GET, "x: y\r\n".repeat(count - 1).as_bytes());
    accepted(&fields(limits.fields_max), &["body: None"]);
    refused(&fields(limits.fields_max + 1), 431, "TooMany");
    refused(&fields(5000), 431, "TooMany");
    let room = limits.head_bytes_max - GET.len() - "x: \r\n\r\n".len();
    let value = |length: usize| with(GET, format!("x: {}\r\n", "v".repeat(length)).as_bytes());
    accepted(&value(room), &["body: None"]);
    refused(&value(room + 1), 431, "HeadTooLarge");
    refused(&value(100_000), 431, "HeadTooLarge");
    refused(&"GET ".repeat(40_000).into_bytes(), 414, "TargetTooLong");
}

#[test]
fn every_name_count_keeps_all_fields() {
    for count in (1..Limits::DEFAULT.fields_max).step_by(7) {
        let lines: String = (0..count - 1).map(|n| format!("x-{n}: {n}\r\n")).collect();
        let outcome = request(&with(GET, lines.as_bytes()), &Limits::DEFAULT);
        assert_eq!(outcome.lines().count(), count + 1, "{outcome}");
    }
}

#[test]
fn bytes_after_a_head_are_left_alone() {
    let head = b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\n";
    let outcome = request(
        &[&head[..], b"\0\x01 not HTTP at all \n\n"].concat(),
        &Limits::DEFAULT,
    );
    assert!(
        outcome.starts_with(&format!("{} GET /1", head.len())),
        "{outcome}"
    );
    for end in 0..head.len() {
        assert_eq!(request(&head[..end], &Limits::DEFAULT), "incomplete");
    }
}

/// Which bytes may stand where, by the grammars of the RFCs and not by our tables.
#[test]
fn each_byte_is_taken_only_where_it_may_stand() {
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    let accepts = |raw: &[u8]| request(raw, &Limits::DEFAULT).contains("RequestFraming");
    for byte in 0..=255u8 {
        let b = [byte];
        let around = |start: &[u8], end: &[u8]| [start, &b, end].concat();
        let rest = b" / HTTP/1.1\r\nHost: a\r\n\r\n";
        assert_eq!(
            accepts(&around(b"GE", &[b"T", &rest[..]].concat())),
            token(byte),
            "method {byte}"
        );
        let target = (0x21..0x7f).contains(&byte) && byte != b'#' && byte != b'%';
        assert_eq!(
            accepts(&around(b"GET /a", b"b HTTP/1.1\r\nHost: a\r\n\r\n")),
            target,
            "target {byte}"
        );
        let name = token(byte) || byte == b':';
        let start = b"GET / HTTP/1.1\r\nHost: a\r\nx-n";
        assert_eq!(
            accepts(&around(start, b"m: v\r\n\r\n")),
            name,
            "name {byte}"
        );
        let value = byte == b'\t' || byte >= 0x20 && byte != 0x7f;
        let start = b"GET / HTTP/1.1\r\nHost: a\r\nx: some value";
        assert_eq!(
            accepts(&around(start, b"and more of it\r\n\r\n")),
            value,
            "value {byte}"
        );
        let host = byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(&byte);
        let start = b"GET / HTTP/1.1\r\nHost: a";
        assert_eq!(accepts(&around(start, b"b\r\n\r\n")), host, "host {byte}");
    }
}

/// Section 5.1 of RFC 9110: where asked for a field whose name is none is left out, but for those that readers could take
/// for one that frames the message. The outcome does not depend on how the bytes are cut.
#[test]
fn fields_with_odd_names_are_left_out_where_asked() {
    let limits = Limits {
        odd_names: OddNames::PassOver,
        fields_max: 3,
        ..Limits::DEFAULT
    };
    for odd in [&b"X[1]: a"[..], b"X\xc3\xa4: a", b"{:", b"(a)b: c:d"] {
        let lines = [b"A: 1\r\n", odd, b"\r\nB: 2\r\n"].concat();
        let outcome = request(&with(GET, &lines), &limits);
        assert!(outcome.ends_with("Host: a\nA: 1\nB: 2\n"), "{outcome}");
        refused(&with(GET, &lines), 400, "Field");
    }
    for odd in [
        &b"X y: a"[..],
        b"X : a",
        b"X\x01[: a",
        b": a",
        b"[",
        b"X[: a\x00",
        b"Content-Length\xa0: 3",
        b"[transfer-Encoding: chunked",
        b"Ho(st: b",
    ] {
        let outcome = request(&with(GET, &[odd, b"\r\n"].concat()), &limits);
        assert!(
            outcome.starts_with("400 "),
            "{} gave {outcome}",
            feed::text(odd)
        );
    }
}
