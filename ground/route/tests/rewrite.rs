//! Rewrites, compared with those of Caddy 2.11.4: each row was recorded from its response with `{uri}|{path}|{query}`.

#![allow(clippy::unwrap_used)]

use sluice_message::Status;
use sluice_route::{Matcher, QueryOps, Rewrite};

use crate::support::{Request, get};

/// Directive, target, field X-To, and what Caddy makes of it.
type Row = (&'static str, &'static str, &'static str, &'static str);

const AS_CADDY: &[Row] = &[
    ("rewrite * /new", "/a%20b?x=1", "", "/new?x=1|/new|x=1"),
    ("rewrite * /new?", "/a?x=1", "", "/new|/new|"),
    ("rewrite * /new?y=2", "/a?x=1", "", "/new?y=2|/new|y=2"),
    ("rewrite * ?y=2", "/a%2Fb?x=1", "", "/a%2Fb?y=2|/a/b|y=2"),
    (
        "rewrite * ?y=2&{query}",
        "/a?x=1&z=%20",
        "",
        "/a?y=2&x=1&z=%20|/a|y=2&x=1&z=%20",
    ),
    ("rewrite * ?{query}&y=2", "/a", "", "/a?y=2|/a|y=2"),
    ("rewrite * ?y=2&{query}", "/a", "", "/a?y=2|/a|y=2"),
    (
        "rewrite * /pre{uri}",
        "/a%2Fb%20c?x=1",
        "",
        "/pre/a/b%20c?x=1|/pre/a/b c|x=1",
    ),
    (
        "rewrite * /pre{uri}?",
        "/a?x=1&b",
        "",
        "/pre/a?x=1&b|/pre/a|x=1&b",
    ),
    (
        "rewrite * /pre{path}",
        "/a%2Fb%20c%3Fd%25e?x=1",
        "",
        "/pre/a/b%20c%3Fd%25e?x=1|/pre/a/b c?d%e|x=1",
    ),
    (
        "rewrite * /pre{path}?{query}",
        "/a%20b?x=%31",
        "",
        "/pre/a%20b?x=%31|/pre/a b|x=%31",
    ),
    (
        "rewrite * {http.request.header.X-To}",
        "/a?x=1",
        "/b%20c?y=2",
        "/b%20c?x=1|/b c|x=1",
    ),
    (
        "rewrite * {http.request.header.X-To}?",
        "/a?x=1",
        "/b?y=2&z={env.HOME}",
        "/b?y=2&z=%7Benv.HOME%7D|/b|y=2&z=%7Benv.HOME%7D",
    ),
    (
        "rewrite * {http.request.header.X-To}",
        "/a?x=1",
        "/b{env.HOME}",
        "/b%7Benv.HOME%7D?x=1|/b{env.HOME}|x=1",
    ),
    (
        "rewrite * /r?u={path}&v={query}",
        "/a%20b+c?x=1&y=2",
        "",
        "/r?u=%2Fa+b%2Bc&v=x%3D1%26y%3D2|/r|u=%2Fa+b%2Bc&v=x%3D1%26y%3D2",
    ),
    (
        "rewrite * /r?{query.k}={query.v}",
        "/a?k=a%26b&v=c%3Dd",
        "",
        "/r?a%26b=c%3Dd|/r|a%26b=c%3Dd",
    ),
    (
        "rewrite * /a(b)[c]'!*",
        "/x",
        "",
        "/a%28b%29%5Bc%5D%27%21%2A|/a(b)[c]'!*|",
    ),
    ("rewrite * /%zz", "/x", "", "/%25zz|/%zz|"),
    ("rewrite * /f#frag?x", "/x?q", "", "/f?q|/f|q"),
    (
        "rewrite * /f?a=b=c&&d=&=e",
        "/x?q",
        "",
        "/f?a=b=c&d==e|/f|a=b=c&d==e",
    ),
    (
        "rewrite * /index.php?{query}&p={path}",
        "/a/b?x=1",
        "",
        "/index.php?x=1&p=%2Fa%2Fb|/index.php|x=1&p=%2Fa%2Fb",
    ),
    ("uri strip_prefix /api", "/api/x?y", "", "/x?y|/x|y"),
    ("uri strip_prefix /api", "/API/x", "", "/x|/x|"),
    ("uri strip_prefix api", "/api/x", "", "/x|/x|"),
    ("uri strip_prefix /api", "//api//x", "", "/x|/x|"),
    ("uri strip_prefix /api", "/%61pi/x%2Fy", "", "/x%2Fy|/x/y|"),
    ("uri strip_prefix /a%2Fb", "/a%2fb/c", "", "/c|/c|"),
    ("uri strip_prefix /a%2Fb", "/a/b/c", "", "/a/b/c|/a/b/c|"),
    ("uri strip_prefix /a/b", "/a%2fb/c", "", "/c|/c|"),
    ("uri strip_prefix /a//b", "/a//b/c", "", "/c|/c|"),
    ("uri strip_prefix /a//b", "/a/b/c", "", "/a/b/c|/a/b/c|"),
    ("uri strip_prefix /other", "/a/./b/../c", "", "/a/c|/a/c|"),
    ("uri strip_suffix .html", "/a.html?x", "", "/a?x|/a|x"),
    ("uri strip_suffix .HTML", "/a.html", "", "/a|/a|"),
    ("uri strip_suffix /b", "/a/b/", "", "/a/b/|/a/b/|"),
    ("uri strip_suffix /b/", "/a/b/", "", "/a|/a|"),
    ("uri replace a b", "/a/aa?a=a", "", "/b/bb?b=b|/b/bb|b=b"),
    ("uri replace a b 1", "/a/aa?a=a", "", "/b/aa?b=a|/b/aa|b=a"),
    ("uri replace // /x/", "/a//b", "", "/a/x/b|/a/x/b|"),
    (
        "uri replace /a {http.request.header.X-To}",
        "/a/c",
        "/x?y z{env.HOME}",
        "/x%3Fy%20z%7Benv.HOME%7D/c|/x?y z{env.HOME}/c|",
    ),
    ("uri replace %20 _", "/a%20b?c=%20", "", "/a_b?c=_|/a_b|c=_"),
    ("uri replace a ?", "/a/c", "", "/%3F/c|/?/c|"),
    ("uri replace b %", "/a/b", "", "/a/%25|/a/%|"),
    ("uri path_regexp /+ /", "/a//b///c", "", "/a/b/c|/a/b/c|"),
    (
        r#"uri path_regexp ^/(\w+)/(\w+)$ /$2/${1}x"#,
        "/a/b?q",
        "",
        "/b/?q|/b/|q",
    ),
    ("uri path_regexp %20 +", "/a%20b", "", "/a+b|/a+b|"),
    (
        "uri query +a 2",
        "/x?b=1&a=1",
        "",
        "/x?a=1&a=2&b=1|/x|a=1&a=2&b=1",
    ),
    (
        "uri query a 2",
        "/x?b=1&a=1&a=3",
        "",
        "/x?a=2&b=1|/x|a=2&b=1",
    ),
    ("uri query -a", "/x?b=1&a=1", "", "/x?b=1|/x|b=1"),
    ("uri query -a", "/x?a=1", "", "/x|/x|"),
    (
        "uri query a>c",
        "/x?b=1&a=1&c=9",
        "",
        "/x?b=1&c=1|/x|b=1&c=1",
    ),
    ("uri query * 1 z", "/x?b=1&a=1", "", "/x?a=z&b=z|/x|a=z&b=z"),
    (
        "uri query +q {path}",
        "/a%20b?z=;&y",
        "",
        "/a%20b?q=%2Fa+b&y=|/a b|q=%2Fa+b&y=",
    ),
    (
        "rewrite * /a?{http.request.uri.prefixed_query}",
        "/x?y=1",
        "",
        "/a?%3Fy%3D1|/a|%3Fy%3D1",
    ),
    (
        "rewrite * /x?a={header.X-To}",
        "/y",
        "1&b=2 #",
        "/x?a=1%26b%3D2+%23|/x|a=1%26b%3D2+%23",
    ),
];

/// Where we differ on purpose: a target always begins with a slash; a suffix matches an escape as a
/// prefix does; a replacement stays with the parameter it names; what was decoded once is not
/// decoded again; a value names no groups.
const ON_PURPOSE: &[Row] = &[
    (
        "uri path_regexp b {http.request.header.X-To}",
        "/a/b",
        "$0$0",
        "/a/$0$0|/a/$0$0|",
    ),
    ("rewrite * foo", "/x?q", "", "/foo?q|/foo|q"),
    ("uri strip_prefix /api", "/apix", "", "/x|/x|"),
    ("uri strip_prefix /api", "/api", "", "/|/|"),
    ("uri strip_suffix l", "/a%6C", "", "/a|/a|"),
    (
        "uri query b ^1 z",
        "/x?b=11&a=1&b=21",
        "",
        "/x?a=1&b=z1&b=21|/x|a=1&b=z1&b=21",
    ),
    (
        "rewrite * /{http.request.uri.path.file}",
        "/d/f%3Fq=1%25",
        "",
        "/f%3Fq=1%25|/f?q=1%|",
    ),
    (
        "rewrite * {http.request.orig_uri.path}/x",
        "/d%3Fe",
        "",
        "/d%3Fe/x|/d?e/x|",
    ),
];

/// The rewrite that a line of a Caddyfile stands for, with the short placeholders of the rows
/// above.
fn rewrite(line: &str) -> Rewrite {
    let long = line
        .replace("{uri}", "{http.request.uri}")
        .replace("{path}", "{http.request.uri.path}")
        .replace("{query}", "{http.request.uri.query}")
        .replace("{query.", "{http.request.uri.query.")
        .replace("{header.", "{http.request.header.");
    let words: Vec<&str> = long.split(' ').collect();
    let (new, ops) = (Rewrite::new(), QueryOps::new());
    match words.as_slice() {
        ["rewrite", "*", to] => new.uri(to).unwrap(),
        ["uri", "strip_prefix", prefix] => new.strip_prefix(prefix).unwrap(),
        ["uri", "strip_suffix", suffix] => new.strip_suffix(suffix).unwrap(),
        ["uri", "replace", find, replace] => new.substring(find, replace, 0).unwrap(),
        ["uri", "replace", find, replace, limit] => new
            .substring(find, replace, limit.parse().unwrap())
            .unwrap(),
        ["uri", "path_regexp", find, replace] => new.path_regexp(find, replace).unwrap(),
        ["uri", "query", name] if name.starts_with('-') => {
            new.query(ops.delete(&name[1..]).unwrap())
        }
        ["uri", "query", names, ..] if names.contains('>') => {
            let (from, to) = names.split_once('>').unwrap();
            new.query(ops.rename(from, to).unwrap())
        }
        ["uri", "query", name, value] => new.query(match name.strip_prefix('+') {
            Some(name) => ops.add(name, value).unwrap(),
            None => ops.set(name, value).unwrap(),
        }),
        ["uri", "query", name, search, replace] => {
            new.query(ops.replace_regexp(name, search, replace).unwrap())
        }
        _ => panic!("no such directive: {line}"),
    }
}

fn outcome(rewrite: &Rewrite, mut request: Request) -> String {
    let change = request.with(|input| rewrite.apply(input)).unwrap();
    change.write(&mut request.head);
    let uri = &request.head.uri;
    let text = |bytes: &[u8]| String::from_utf8(bytes.into()).unwrap();
    format!(
        "{}|{}|{}",
        text(uri.as_bytes()),
        text(uri.path()),
        text(uri.query().unwrap_or_default())
    )
}

fn check(rows: &[Row]) {
    for (line, target, to, expected) in rows {
        let request = get("example.com", target);
        let request = if to.is_empty() {
            request
        } else {
            request.field("X-To", to)
        };
        assert_eq!(
            outcome(&rewrite(line), request),
            *expected,
            "{line} on {target}"
        );
    }
}

#[test]
fn rewrites_are_those_of_caddy() {
    check(AS_CADDY);
}

#[test]
fn rewrites_differ_where_they_should() {
    check(ON_PURPOSE);
}

#[test]
fn groups_of_a_decoded_path_are_not_decoded_again() {
    let matcher = Matcher::path_regexp("re", "^/re/(.*)$").unwrap();
    let rewrite = Rewrite::new().uri("/out/{http.regexp.re.1}").unwrap();
    // Caddy has `/out/a` twice: it reads `?b=1` as a query and undoes `%61`.
    for (target, expected) in [
        ("/re/a%3Fb=1", "/out/a%3Fb=1|/out/a?b=1|"),
        ("/re/%2561", "/out/%2561|/out/%61|"),
    ] {
        let request = get("example.com", target);
        assert!(request.with(|input| matcher.matches(input)).unwrap());
        assert_eq!(outcome(&rewrite, request), expected);
    }
}

#[test]
fn groups_of_a_field_may_bring_a_query() {
    let matcher = Matcher::header_regexp([("X-To", "re", "^go:(.*)$")]).unwrap();
    let rewrite = Rewrite::new().uri("{http.regexp.re.1}?").unwrap();
    let request = get("example.com", "/a?x").field("X-To", "go:/b%20c?y=1");
    assert!(request.with(|input| matcher.matches(input)).unwrap());
    assert_eq!(outcome(&rewrite, request), "/b%20c?y=1|/b c|y=1");
}

#[test]
fn no_value_ends_the_request_line() {
    for line in [
        "rewrite * /x{http.request.uri.path.file}?",
        "rewrite * {http.vars.v}?",
        "rewrite * /a?{http.vars.v}",
        "rewrite * /a?{http.vars.v}=1",
        "uri strip_prefix {http.vars.v}",
        "uri replace b {http.vars.v}",
        "uri path_regexp b {http.vars.v}",
        "uri query +q {http.vars.v}",
        "uri query {http.vars.v} x",
    ] {
        let request = get("example.com", "/b%0d%0aEvil:%201?b=1");
        let outcome = request.var("v", "/\u{1}?a b\r\nEvil: 1\u{7f}é#x");
        let mut head = outcome;
        let change = head.with(|input| rewrite(line).apply(input)).unwrap();
        change.write(&mut head.head);
        let sent = head.head.uri.as_bytes();
        assert!(sent.starts_with(b"/"), "{line}");
        assert!(
            sent.iter()
                .all(|&byte| byte > b' ' && byte < 0x7f && byte != b'#'),
            "{line}"
        );
    }
}

#[test]
fn operations_run_in_their_order_and_leave_the_rest_alone() {
    let rewrite = Rewrite::new()
        .query(QueryOps::new().add("z", "1").unwrap().delete("x").unwrap())
        .path_regexp("a+", "b")
        .unwrap()
        .strip_prefix("/api")
        .unwrap()
        .method("put")
        .unwrap();
    let mut request = get("example.com", "/api/aaa?x=1");
    let change = request.with(|input| rewrite.apply(input)).unwrap();
    let before = change.write(&mut request.head);
    assert_eq!(before.unwrap().as_str(), "GET");
    assert_eq!(request.head.method.as_str(), "PUT");
    assert_eq!(request.head.uri.as_bytes(), b"/b?z=1");

    let request = get("example.com", "/a?x=1").method("GET");
    let rewrite = Rewrite::new()
        .method("get")
        .unwrap()
        .strip_prefix("/other")
        .unwrap();
    let change = request.with(|input| rewrite.apply(input)).unwrap();
    assert!(change.method.is_none() && change.uri.is_none());
}

#[test]
fn a_target_that_is_not_a_path_stays() {
    for line in [
        "uri strip_prefix /a",
        "uri strip_suffix /a",
        "uri replace /a /b",
    ] {
        for target in ["*", ""] {
            let request = get("h", target).method("OPTIONS");
            let change = request.with(|input| rewrite(line).apply(input)).unwrap();
            assert!(change.uri.is_none(), "{line} on {target:?}");
        }
    }
}

#[test]
fn a_method_that_is_not_a_token_is_refused() {
    let rewrite = Rewrite::new().method("{http.request.header.X-To}").unwrap();
    let request = get("example.com", "/").field("X-To", "a b");
    let refusal = request.with(|input| rewrite.apply(input)).unwrap_err();
    assert_eq!(refusal.status, Status::BAD_REQUEST);
}

#[test]
fn replacements_that_multiply_are_refused() {
    let rewrite = Rewrite::new().substring("a", &"a".repeat(1000), 0).unwrap();
    let request = get("example.com", &format!("/{}", "a".repeat(8000)));
    let refusal = request.with(|input| rewrite.apply(input)).unwrap_err();
    assert_eq!(refusal.status, Status::URI_TOO_LONG);
}

#[test]
fn parameters_are_renamed_set_and_replaced() {
    let ops = QueryOps::new()
        .rename("a", "b")
        .unwrap()
        .set("c", "{http.request.uri.query.a}&")
        .unwrap()
        .replace("*", "x", "y{no.such}")
        .unwrap()
        .delete("d")
        .unwrap();
    let request = get("example.com", "/?b=0&a=x&a=2&d=1");
    let expected = "/?b=y%7Bno.such%7D&b=2&c=y%7Bno.such%7D%2C2%26|/|b=y%7Bno.such%7D&b=2&c=y%7Bno.such%7D%2C2%26";
    assert_eq!(outcome(&Rewrite::new().query(ops), request), expected);
}
