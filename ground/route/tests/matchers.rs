//! Matchers as compiled from a configuration, compared with the results of Caddy 2.11.4 where it can be queried.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use sluice_message::{FieldId, Remote, ResponseHead, Status, TlsInfo, Version};
use sluice_route::matcher::{Hook, ResponseMatcher};
use sluice_route::{
    Found, Input, Matcher, MatcherError, MatcherSet, MatcherSets, Refusal, Template, Unknown,
};

use crate::support::{Request, get};

fn is_met(matcher: &Matcher, request: &Request) -> bool {
    request.with(|input| matcher.matches(input)).unwrap()
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| String::from(*text)).collect()
}

#[test]
fn path_patterns_match_what_they_match_in_caddy() {
    let text = include_str!("paths.txt");
    let (patterns, targets) = text.split_once("---\n").unwrap();
    let patterns: Vec<&str> = patterns
        .lines()
        .filter(|line| !line.starts_with('#'))
        .collect();
    let mut checked = 0;
    for line in targets.lines() {
        let mut words = line.split(' ');
        let target = words.next().unwrap();
        let matched: Vec<usize> = words.map(|number| number.parse().unwrap()).collect();
        let request = get("example.com", target).field("X-P", "foo");
        for (number, pattern) in patterns.iter().enumerate() {
            let matcher = Matcher::path(&[pattern]).unwrap();
            let mut expected = matched.contains(&number);
            if target == "/foo/." {
                // Here we differ on purpose: the path is `/foo/`, as it is for the file server.
                let as_folder = get("example.com", "/foo/").field("X-P", "foo");
                expected = is_met(&matcher, &as_folder);
            }
            assert_eq!(
                is_met(&matcher, &request),
                expected,
                "{pattern} on {target}"
            );
            checked += 1;
        }
    }
    assert!(checked > 1_500, "{checked}");
}

#[test]
fn values_never_widen_a_pattern() {
    for (pattern, value, target, expected) in [
        ("/{http.vars.v}/x", "*", "/a/x", false),
        ("/{http.vars.v}/x", "*", "/*/x", true),
        ("/{http.vars.v}/*", "*", "/a/x", false),
        ("/{http.vars.v}/*/z", "[a-z]", "/a/y/z", false),
        ("/{http.vars.v}/*/z", "a", "/a/y/z", true),
        ("/{http.vars.v}/%2f", "*", "/a/%2f", false),
        ("/{http.vars.v}/%2f", "A", "/a/%2f", true),
        ("/{http.vars.v}", "{env.X}", "/secret", false),
        ("/{env.X}", "", "/Secret", true),
    ] {
        let request = get("example.com", target).var("v", value);
        assert_eq!(
            is_met(&Matcher::path(&[pattern]).unwrap(), &request),
            expected,
            "{pattern} {value} {target}"
        );
    }
    let host = Matcher::host(&["{http.vars.v}.example.com"]).unwrap();
    for (value, expected) in [("*", false), ("a", true), ("A", true), ("{env.X}", false)] {
        assert_eq!(
            is_met(&host, &get("a.example.com", "/").var("v", value)),
            expected,
            "{value}"
        );
    }
    let header = Matcher::header([("X-A", Some(&strings(&["{http.vars.v}"])[..]))]).unwrap();
    assert!(!is_met(
        &header,
        &get("a", "/").field("X-A", "x").var("v", "*")
    ));
    assert!(is_met(
        &header,
        &get("a", "/").field("X-A", "*").var("v", "*")
    ));
}

#[test]
fn hosts_match_exactly_or_by_label() {
    let matcher = Matcher::host(&[
        "a.com", "*.b.com", "*.*.c", "Ü.de", "[::1]", "10.*.0.1", "*",
    ])
    .unwrap();
    for (host, expected) in [
        ("a.com", true),
        ("A.COM:8080", true),
        ("x.a.com", false),
        ("x.b.com", true),
        ("b.com", false),
        ("x.y.b.com", false),
        ("x.y.c", true),
        ("y.c", false),
        ("xn--tda.de", true),
        ("[::1]:80", true),
        ("10.9.0.1", true),
        ("localhost", true),
        ("a.com.", false),
        ("", true),
    ] {
        assert_eq!(is_met(&matcher, &get(host, "/")), expected, "{host}");
    }
    assert!(!is_met(
        &Matcher::host::<&str>(&[]).unwrap(),
        &get("a", "/")
    ));
    assert_eq!(
        Matcher::host(&["a", "A"]).unwrap_err(),
        MatcherError::HostRepeated("A".into())
    );
}

#[test]
fn methods_are_compared_with_their_case() {
    let matcher = Matcher::method(&["GET", "PURGE"]).unwrap();
    assert!(is_met(&matcher, &get("a", "/")));
    assert!(is_met(&matcher, &get("a", "/").method("PURGE")));
    assert!(!is_met(&matcher, &get("a", "/").method("get")));
    assert_eq!(
        Matcher::method(&["A B"]).unwrap_err(),
        MatcherError::Method("A B".into())
    );
}

#[test]
fn queries_match_by_decoded_values() {
    let (one, any, none) = (strings(&["1", "a b"]), strings(&["*"]), Vec::new());
    let both = Matcher::query([("a", &one[..]), ("b", &any[..])]).unwrap();
    for (target, expected) in [
        ("/?a=1&b=", true),
        ("/?a=a+b&b", true),
        ("/?a=%31&b=x", true),
        ("/?a=2&a=1&b=x", true),
        ("/?a=1", false),
        ("/?A=1&b=x", false),
        ("/?a=1&b=x&c=%zz", false),
        ("/?a=1;x&b=x&a=1", false),
        ("/", false),
    ] {
        assert_eq!(is_met(&both, &get("h", target)), expected, "{target}");
    }
    let empty = Matcher::query([]).unwrap();
    assert!(is_met(&empty, &get("h", "/")) && is_met(&empty, &get("h", "/?")));
    assert!(!is_met(&empty, &get("h", "/?x")));
    assert!(!is_met(
        &Matcher::query([("a", &none[..])]).unwrap(),
        &get("h", "/?a=1")
    ));
    let placeholder = strings(&["{http.request.header.X-A}"]);
    let matcher = Matcher::query([("{http.vars.v}", &placeholder[..])]).unwrap();
    assert!(is_met(
        &matcher,
        &get("h", "/?k=w").field("X-A", "w").var("v", "k")
    ));
}

#[test]
fn header_values_match_with_stars_at_their_ends() {
    let list = strings(&["exact", "pre*", "*fix", "*mid*"]);
    let matcher = Matcher::header([("X-A", Some(&list[..]))]).unwrap();
    for (value, expected) in [
        ("exact", true),
        ("Exact", false),
        ("prefer", true),
        ("suffix", true),
        ("amidst", true),
        ("other", false),
        ("", false),
    ] {
        assert_eq!(
            is_met(&matcher, &get("h", "/").field("x-a", value)),
            expected,
            "{value}"
        );
    }
    assert!(is_met(
        &matcher,
        &get("h", "/").field("X-A", "other").field("X-A", "exact")
    ));
    assert!(!is_met(&matcher, &get("h", "/")));
    let (absent, present) = (
        Matcher::header([("X-A", None)]).unwrap(),
        Matcher::header([("X-A", Some(&[][..]))]),
    );
    let present = present.unwrap();
    assert!(is_met(&absent, &get("h", "/")) && !is_met(&present, &get("h", "/")));
    let request = get("h", "/").field("X-A", "");
    assert!(!is_met(&absent, &request) && is_met(&present, &request));
    let all = Matcher::header([("X-A", Some(&strings(&["*"])[..])), ("X-B", None)]).unwrap();
    assert!(is_met(&all, &get("h", "/").field("X-A", "")));
    assert!(!is_met(
        &all,
        &get("h", "/").field("X-A", "").field("X-B", "")
    ));
    let host = Matcher::header([("Host", Some(&strings(&["h:80"])[..]))]).unwrap();
    assert!(
        is_met(&host, &get("h:80", "/").field("Host", "other")),
        "the host is the authority"
    );
}

#[test]
fn groups_of_expressions_become_placeholders() {
    let path = Matcher::path_regexp("re", r"^/re/(\w+)\.(?P<ext>\w+)(z)?$").unwrap();
    let header = Matcher::header_regexp([("X-A", "", "^(.)"), ("X-B", "b", "(?i)B")]).unwrap();
    let request = get("h", "/re/./ab.CD")
        .field("X-A", "")
        .field("X-A", "q")
        .field("X-B", "ab");
    assert!(is_met(&path, &request) && is_met(&header, &request));
    let template = "[{http.regexp.re.1}|{http.regexp.re.ext}|{http.regexp.re.0}|{http.regexp.re.3}|{http.regexp.b.0}|{http.regexp.1}|{http.regexp.re.9}|{http.regexp.no.1}]";
    let mut out = Vec::new();
    request.with(|input| {
        Template::parse(template)
            .unwrap()
            .expand(input.values, Unknown::Keep, &mut out)
    });
    let expected = "[ab|CD|/re/ab.CD||b|q|{http.regexp.re.9}|{http.regexp.no.1}]";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
    assert!(
        !is_met(&path, &get("h", "/RE/ab.cd")),
        "expressions have a case"
    );
    assert!(
        !is_met(&header, &get("h", "/").field("X-A", "x")),
        "every field has to match"
    );
}

#[test]
fn a_cleared_memory_knows_no_groups() {
    let matcher = Matcher::path_regexp("re", "^/(.*)$").unwrap();
    let mut request = get("h", "/one");
    assert!(is_met(&matcher, &request));
    request.scratch.clear();
    let mut out = Vec::new();
    assert_eq!(
        request.scratch.captured(None, "1", &mut out),
        Found::Unknown
    );
    assert!(is_met(&matcher, &request));
    assert_eq!(
        (request.scratch.captured(Some("re"), "1", &mut out), out),
        (Found::Known, b"one".to_vec())
    );
}

#[test]
fn variables_match_by_name_or_placeholder() {
    let (values, empty) = (strings(&["x", "{http.request.uri.path}"]), strings(&[""]));
    let matcher = Matcher::vars([
        ("v", &values[..]),
        ("{http.request.method}", &strings(&["PUT"])[..]),
    ])
    .unwrap();
    assert!(is_met(&matcher, &get("h", "/").var("v", "x")));
    assert!(is_met(&matcher, &get("h", "/p").var("v", "/p")));
    assert!(
        is_met(&matcher, &get("h", "/").method("PUT")),
        "one of the variables is enough"
    );
    assert!(!is_met(
        &matcher,
        &get("h", "/").var("v", "{http.request.uri.path}")
    ));
    assert!(is_met(
        &Matcher::vars([("none", &empty[..])]).unwrap(),
        &get("h", "/")
    ));
    assert!(is_met(&Matcher::vars([]).unwrap(), &get("h", "/")));
    let regexp =
        Matcher::vars_regexp([("v", "n", "^a(.)"), ("{http.request.uri}", "u", r"\?(.*)")])
            .unwrap();
    assert!(is_met(&regexp, &get("h", "/?q").var("v", "zz")));
    assert!(!is_met(&regexp, &get("h", "/").var("v", "zz")));
    assert!(!is_met(&Matcher::vars_regexp([]).unwrap(), &get("h", "/")));
}

#[test]
fn protocols_and_tls_come_from_the_connection() {
    let protocol = |name: &str| Matcher::protocol(name).unwrap();
    let mut request = get("h", "/").field("Content-Type", "application/grpc+proto");
    for (name, expected) in [
        ("http", true),
        ("https", false),
        ("grpc", true),
        ("http/1.0", false),
        ("http/1.0+", true),
        ("http/1.1", true),
        ("http/1.1+", true),
        ("http/2", false),
        ("http/2+", false),
    ] {
        assert_eq!(is_met(&protocol(name), &request), expected, "{name}");
    }
    assert!(!is_met(&Matcher::Tls(None), &request));
    request.conn.tls = Some(Box::new(TlsInfo::default()));
    request.head.version = Version::Http3;
    assert!(is_met(&protocol("https"), &request) && is_met(&protocol("http/2+"), &request));
    assert!(!is_met(&protocol("http"), &request) && !is_met(&protocol("http/2"), &request));
    assert!(is_met(&Matcher::Tls(None), &request) && is_met(&Matcher::Tls(Some(true)), &request));
    assert!(!is_met(&Matcher::Tls(Some(false)), &request));
    assert_eq!(
        Matcher::protocol("spdy").unwrap_err(),
        MatcherError::Protocol("spdy".into())
    );
}

#[test]
fn addresses_match_the_peer_or_the_client_behind_it() {
    let remote = Matcher::remote_ip(&["192.0.2.0/24"]).unwrap();
    let client = Matcher::client_ip(&["198.51.100.1"]).unwrap();
    let mut request = get("h", "/");
    assert!(is_met(&remote, &request) && !is_met(&client, &request));
    let met = request.with(|input| {
        let input = Input {
            client_ip: Some("198.51.100.1".parse().unwrap()),
            ..*input
        };
        (remote.matches(&input), client.matches(&input))
    });
    assert_eq!(met, (Ok(true), Ok(true)));
    request.conn.remote = Remote::Unix;
    assert!(!is_met(
        &Matcher::remote_ip(&["0.0.0.0/0", "::/0"]).unwrap(),
        &request
    ));
}

/// A hook with a fixed result.
#[derive(Debug)]
struct Fixed(Result<bool, Refusal>);

impl Hook for Fixed {
    fn matches(&self, _input: &Input<'_>) -> Result<bool, Refusal> {
        self.0.clone()
    }
}

#[test]
fn sets_join_conditions_and_lists_separate_them() {
    let path = |text: &str| Matcher::path(&[text]).unwrap();
    let refusal = Refusal::asked_for(Status::NOT_FOUND);
    let hook = |outcome| Matcher::Hook(Arc::new(Fixed(outcome)));
    let set = |matchers| MatcherSet::new(matchers);
    let met =
        |sets: Vec<MatcherSet>| get("h", "/a").with(|input| MatcherSets::new(sets).matches(input));
    assert_eq!(met(vec![]), Ok(true));
    assert_eq!(met(vec![set(vec![])]), Ok(true));
    assert_eq!(met(vec![set(vec![path("/a"), path("/b")])]), Ok(false));
    assert_eq!(
        met(vec![set(vec![path("/b")]), set(vec![path("/a")])]),
        Ok(true)
    );
    // The cheap conditions come first, so a hook is asked only when it decides.
    assert_eq!(
        met(vec![set(vec![hook(Err(refusal.clone())), path("/b")])]),
        Ok(false)
    );
    assert_eq!(
        met(vec![set(vec![hook(Err(refusal.clone())), path("/a")])]),
        Err(refusal.clone())
    );
    let not = |sets| Matcher::not(sets).unwrap();
    assert_eq!(
        met(vec![set(vec![not(vec![set(vec![path("/a")])])])]),
        Ok(false)
    );
    assert_eq!(
        met(vec![set(vec![not(vec![
            set(vec![path("/b")]),
            set(vec![path("/c")])
        ])])]),
        Ok(true)
    );
    assert_eq!(met(vec![set(vec![not(vec![])])]), Ok(true));
    assert_eq!(met(vec![set(vec![not(vec![set(vec![])])])]), Ok(false));
    assert_eq!(
        met(vec![set(vec![not(vec![set(vec![hook(Err(
            refusal.clone()
        ))])])])]),
        Err(refusal.clone())
    );
}

#[test]
fn deep_nests_of_not_are_refused() {
    let mut matcher = Matcher::path(&["/"]).unwrap();
    for _ in 0..32 {
        matcher = Matcher::not(vec![MatcherSet::new(vec![matcher])]).unwrap();
    }
    let error = Matcher::not(vec![MatcherSet::new(vec![matcher])]).unwrap_err();
    assert_eq!(error, MatcherError::TooDeep);
}

#[test]
fn uncompilable_patterns_are_refused_with_their_text() {
    assert!(matches!(Matcher::path(&["/["]), Err(MatcherError::Glob(text, _)) if text == "/["));
    assert!(
        matches!(Matcher::path_regexp("", "("), Err(MatcherError::Regexp(text, _)) if text == "(")
    );
    assert!(matches!(
        Matcher::path_regexp("a-b", "x"),
        Err(MatcherError::Regexp(..))
    ));
    assert!(matches!(
        Matcher::remote_ip(&["10.0.0.0/33"]),
        Err(MatcherError::Range(_))
    ));
    assert!(matches!(
        Matcher::path(&["{x}".repeat(10_001)]),
        Err(MatcherError::Template(..))
    ));
}

#[test]
fn responses_match_by_status_and_fields() {
    let mut head = ResponseHead {
        status: Status::NOT_FOUND,
        ..ResponseHead::default()
    };
    head.fields.push_raw(FieldId::Other, b"X-A", b"yes");
    let scratch = sluice_route::Scratch::new();
    let yes = strings(&["y*"]);
    for (statuses, fields, expected) in [
        (&[][..], None, true),
        (&[404], None, true),
        (&[4], None, true),
        (&[5, 200], None, false),
        (&[4], Some(("X-A", Some(&yes[..]))), true),
        (&[5], Some(("X-A", Some(&yes[..]))), false),
        (&[], Some(("X-B", None)), true),
        (&[], Some(("X-A", None)), false),
    ] {
        let matcher = ResponseMatcher::new(statuses, fields).unwrap();
        assert_eq!(
            matcher.matches(&head, &scratch),
            expected,
            "{statuses:?} {fields:?}"
        );
    }
}
