use alloc::string::String;
use alloc::vec::Vec;

use super::*;

/// Knows a few keys.
struct Some3;

impl Values for Some3 {
    fn value(&self, key: &Key, out: &mut Vec<u8>) -> Found {
        match key {
            Key::Host => out.extend_from_slice(b"example.com"),
            Key::Path => out.extend_from_slice(b"/{env.SECRET}\\{x}"),
            Key::Query => {}
            Key::Other(name) if name.as_ref() == "mapped" => out.extend_from_slice(b"m"),
            _ => return Found::Unknown,
        }
        Found::Known
    }
}

fn expand(text: &str, unknown: Unknown) -> String {
    let mut out = b"> ".to_vec();
    Template::parse(text)
        .unwrap()
        .expand(&Some3, unknown, &mut out);
    String::from_utf8(out.split_off(2)).unwrap()
}

#[test]
fn placeholders_are_replaced_and_unknown_ones_vanish_or_stay() {
    for (text, empty, keep) in [
        ("plain", "plain", "plain"),
        ("", "", ""),
        ("{http.request.host}", "example.com", "example.com"),
        ("a{http.request.host}b", "aexample.comb", "aexample.comb"),
        ("[{http.request.uri.query}]", "[]", "[]"),
        ("[{no.such}]", "[]", "[{no.such}]"),
        ("{mapped}", "m", "m"),
        ("{}", "", "{}"),
        ("{", "{", "{"),
        ("}", "}", "}"),
        (
            "{http.request.host",
            "{http.request.host",
            "{http.request.host",
        ),
        (
            r"\{http.request.host\}",
            "{http.request.host}",
            "{http.request.host}",
        ),
        (
            r"\{http.request.host}",
            "{http.request.host}",
            "{http.request.host}",
        ),
        (r"\a\\", r"\a\\", r"\a\\"),
        (r"{a\}b}", "", "{a}b}"),
        (
            r#"{"h": "{http.request.host}"}"#,
            r#""}"#,
            r#"{"h": "example.com"}"#,
        ),
        (
            r#"{"a": {"h": "{no.such}"}}"#,
            r#""}}"#,
            r#"{"a": {"h": "{no.such}"}}"#,
        ),
        ("{{http.request.host}}", "}", "{example.com}"),
        (
            "a { color: red } {http.request.host}",
            "a  example.com",
            "a { color: red } example.com",
        ),
        (r"{a \{x\} {mapped}", "", "{a {x} m"),
    ] {
        assert_eq!(expand(text, Unknown::Empty), empty, "{text}");
        assert_eq!(expand(text, Unknown::Keep), keep, "{text}");
    }
}

#[test]
fn values_are_never_read_for_placeholders() {
    assert_eq!(
        expand("{http.request.uri.path}", Unknown::Empty),
        r"/{env.SECRET}\{x}"
    );
    assert_eq!(
        expand("{http.request.uri.path}", Unknown::Keep),
        r"/{env.SECRET}\{x}"
    );
}

#[test]
fn a_text_without_placeholders_is_borrowed() {
    let template = Template::parse(r"a\{b\}c").unwrap();
    let literal = template.literal().unwrap();
    assert_eq!(literal, b"a{b}c");
    let mut buf = Vec::new();
    assert_eq!(
        template.resolve(&Some3, &mut buf).as_ptr(),
        literal.as_ptr()
    );
    let template = Template::parse("x{mapped}").unwrap();
    assert_eq!(
        (template.literal(), template.resolve(&Some3, &mut buf)),
        (None, &b"xm"[..])
    );
}

#[test]
fn edits_see_each_value_where_it_stands() {
    let template = Template::parse("a{mapped}b{no.such}{http.request.host}").unwrap();
    let mut out = b"0".to_vec();
    template.expand_each(&Some3, Unknown::Empty, &mut out, |key, out, start| {
        if *key == Key::Host {
            out.truncate(start + 2);
        } else {
            out[start..].make_ascii_uppercase();
        }
    });
    assert_eq!(out, b"0aMbex");
}

#[test]
fn a_lone_placeholder_is_distinguished() {
    assert_eq!(
        Template::parse("{http.request.host}").unwrap().single(),
        Some(&Key::Host)
    );
    assert_eq!(
        Template::parse("{http.request.host}x").unwrap().single(),
        None
    );
    assert_eq!(
        Template::from_literal("{http.request.host}").literal(),
        Some(&b"{http.request.host}"[..])
    );
}

#[test]
fn more_placeholders_than_the_limit_are_refused() {
    assert!(Template::parse(&"{x}".repeat(PLACEHOLDERS_MAX)).is_ok());
    let error = Template::parse(&"{x}".repeat(PLACEHOLDERS_MAX + 1)).unwrap_err();
    assert_eq!(error, TemplateError::TooManyPlaceholders);
    // Unclosed braces are not placeholders and cost nothing.
    assert!(
        Template::parse(&"{".repeat(1_000_000))
            .unwrap()
            .literal()
            .is_some()
    );
    assert!(Template::parse(&("{".repeat(100_000) + "}")).is_ok());
}

#[test]
fn names_become_keys() {
    let header = |name: &str| HeaderKey::new(name);
    for (name, key) in [
        ("http.request.method", Key::Method),
        ("http.request.hostport", Key::HostPort),
        ("http.request.host.labels.2", Key::HostLabel(2)),
        ("http.request.uri.path.file.base", Key::PathFileBase),
        ("http.request.uri.path.3", Key::PathSegment(3)),
        ("http.request.uri.query.a.b", Key::QueryParam("a.b".into())),
        ("http.request.header.X-A", Key::Header(header("X-A"))),
        ("http.request.cookie.sid", Key::Cookie("sid".into())),
        (
            "http.request.remote.host/24,64",
            Key::RemoteNetwork {
                v4_bits: 24,
                v6_bits: 64,
            },
        ),
        (
            "http.request.remote.host/16",
            Key::RemoteNetwork {
                v4_bits: 16,
                v6_bits: 16,
            },
        ),
        ("http.request.orig_uri.path.0", Key::OrigPathSegment(0)),
        ("http.request.tls.version", Key::Tls(TlsKey::Version)),
        (
            "http.request.tls.client.subject",
            Key::Tls(TlsKey::Client(ClientCertKey::Subject)),
        ),
        (
            "http.request.tls.client.san.ips.1",
            Key::Tls(TlsKey::ClientSan(SanKind::Ips, Some(1))),
        ),
        (
            "http.request.tls.client.san.emails",
            Key::Tls(TlsKey::ClientSan(SanKind::Emails, None)),
        ),
    ] {
        assert_eq!(Key::parse(name), key, "{name}");
    }
}

#[test]
fn names_beyond_the_request_become_keys() {
    let header = |name: &str| HeaderKey::new(name);
    for (name, key) in [
        ("http.vars.a.b", Key::Var("a.b".into())),
        (
            "http.regexp.n.1",
            Key::Capture {
                regexp: Some("n".into()),
                group: "1".into(),
            },
        ),
        (
            "http.regexp.g",
            Key::Capture {
                regexp: None,
                group: "g".into(),
            },
        ),
        ("http.error", Key::Error(ErrorKey::Whole)),
        ("http.error.status_code", Key::Error(ErrorKey::StatusCode)),
        ("http.matchers.file.relative", Key::File(FileKey::Relative)),
        (
            "http.reverse_proxy.upstream.hostport",
            Key::Proxy(ProxyKey::UpstreamHostPort),
        ),
        (
            "http.reverse_proxy.header.X-B",
            Key::Proxy(ProxyKey::Header(header("X-B"))),
        ),
        (
            "http.response.header.Etag",
            Key::ResponseHeader(header("Etag")),
        ),
        ("http.intercept.status_code", Key::InterceptStatus),
        ("http.auth.user.id", Key::User("id".into())),
        ("http.shutting_down", Key::ShuttingDown),
        ("time.now", Key::Time(TimeKey::Now)),
        ("time.now.unix_ms", Key::Time(TimeKey::UnixMs)),
        ("env.HOME", Key::Env("HOME".into())),
        ("system.hostname", Key::System(SystemKey::Hostname)),
        ("file./etc/motd", Key::FileText("/etc/motd".into())),
        (
            "http.request.nonsense",
            Key::Other("http.request.nonsense".into()),
        ),
        (
            "http.request.uri.path.x",
            Key::Other("http.request.uri.path.x".into()),
        ),
        (
            "http.error.nonsense",
            Key::Other("http.error.nonsense".into()),
        ),
        ("mapped", Key::Other("mapped".into())),
        ("", Key::Other("".into())),
    ] {
        assert_eq!(Key::parse(name), key, "{name}");
    }
}

#[test]
fn keys_are_found_wherever_they_stand() {
    let keys = |text: &str| {
        let mut keys = Vec::new();
        each_key(text, |key| keys.push(key.clone()));
        keys
    };
    for text in [
        "{http.request.body}",
        "a{http.request.body}b",
        "{\"a\": {http.request.body}}",
        "{'a': 1, 'b': {http.request.body} == ''}",
        "'{' + {http.request.body}",
        "path_regexp('a{2}') && {http.request.body} != ''",
    ] {
        assert!(keys(text).contains(&Key::Body), "{text}");
    }
    for text in [
        "http.request.body",
        r"\{http.request.body}",
        "{http.request.body",
    ] {
        assert!(!keys(text).contains(&Key::Body), "{text}");
    }
    let many = "{http.request.host}".repeat(PLACEHOLDERS_MAX + 1);
    assert_eq!(keys(&many).len(), PLACEHOLDERS_MAX + 1);
    assert_eq!(
        Template::of_placeholder("http.request.host"),
        Template::parse("{http.request.host}").unwrap()
    );
}
