//! Passes random texts, mostly nonsense, through everything that parses text: an error is fine, a panic is not. A
//! configuration may come from a tenant, a target from anyone.
#![allow(clippy::unwrap_used)]

use sluice_route::glob::Glob;
use sluice_route::matcher::IpRange;
use sluice_route::regexp::Regexp;
use sluice_route::{Matcher, QueryOps, Rewrite, Template, Unknown};

use crate::support::{Random, Request, get};

const PARTS: &[&str] = &[
    "{",
    "}",
    "\\",
    "[",
    "]",
    "(",
    ")",
    "*",
    "?",
    "%",
    "%2",
    "%2f",
    "%zz",
    "-",
    "^",
    "$",
    "$1",
    "&&",
    "|",
    "+",
    ".",
    "..",
    "/",
    "//",
    "a",
    "A",
    "0",
    "é",
    "\u{212a}",
    " ",
    "#",
    "=",
    "&",
    ";",
    ",",
    ":",
    "!",
    "<",
    "\\Q",
    "\\E",
    "\\p{L}",
    "\\x{41}",
    "[[:alpha:]]",
    "[:",
    "{2,3}",
    "{http.request.uri}",
    "{http.request.uri.path}",
    "{http.vars.v}",
    "{http.regexp.1}",
    "http.request.",
    "\u{0}",
    "\r\n",
];

fn requests(random: &mut Random) -> Request {
    let target: Vec<u8> = match random.below(3) {
        0 => (0..random.below(20))
            .map(|_| random.below(256) as u8)
            .collect(),
        _ => random.text(PARTS, 8).into_bytes(),
    };
    let host = random.text(&["a", ".", "*", "[", "]", ":", "::1", "80", "é"], 5);
    let mut request = get(&host, "/")
        .var("v", &random.text(PARTS, 4))
        .field("X-A", &random.text(PARTS, 4));
    request.head.uri.set(&target);
    request.head.target = target;
    request
}

#[test]
fn no_pattern_and_no_request_panics() {
    let mut random = Random(0x5eed_0005);
    let mut compiled = 0;
    for _ in 0..6_000 {
        let text = random.text(PARTS, 8);
        let request = requests(&mut random);
        let matchers = [
            Matcher::path(&[&text]),
            Matcher::host(&[&text]),
            Matcher::path_regexp("re", &text),
            Matcher::header([("X-A", Some(&[text.clone()][..]))]),
            Matcher::header_regexp([("X-A", "", text.as_str())]),
            Matcher::query([(text.as_str(), &[text.clone()][..])]),
            Matcher::vars([(text.as_str(), &[text.clone()][..])]),
            Matcher::vars_regexp([(text.as_str(), "", text.as_str())]),
            Matcher::method(&[&text]),
            Matcher::remote_ip(&[&text]),
            Matcher::protocol(&text),
        ];
        for matcher in matchers.into_iter().flatten() {
            compiled += 1;
            request.with(|input| matcher.matches(input)).unwrap();
        }
    }
    assert!(
        compiled > 18_000,
        "only {compiled} patterns were good: the cases test little"
    );
}

#[test]
fn no_template_panics_and_plain_texts_come_back() {
    let mut random = Random(0x5eed_0006);
    for _ in 0..10_000 {
        let text = random.text(PARTS, 8);
        let template = Template::parse(&text).unwrap();
        assert_eq!(template.source(), text);
        let request = requests(&mut random);
        for unknown in [Unknown::Empty, Unknown::Keep] {
            request.with(|input| template.expand(input.values, unknown, &mut Vec::new()));
        }
        if !text.contains(['{', '}']) {
            assert_eq!(template.literal(), Some(text.as_bytes()));
        }
    }
}

#[test]
fn no_rewrite_panics_and_every_target_can_be_sent() {
    let mut random = Random(0x5eed_0007);
    let mut applied = 0;
    for _ in 0..5_000 {
        let (a, b) = (random.text(PARTS, 6), random.text(PARTS, 6));
        let rewrites = [
            Rewrite::new().uri(&a),
            Rewrite::new().strip_prefix(&a),
            Rewrite::new().strip_suffix(&a),
            Rewrite::new().substring(&a, &b, random.below(3)),
            Rewrite::new().path_regexp(&a, &b),
            QueryOps::new()
                .set(&a, &b)
                .map(|ops| Rewrite::new().query(ops)),
            QueryOps::new()
                .replace("*", &a, &b)
                .map(|ops| Rewrite::new().query(ops)),
            QueryOps::new()
                .replace_regexp(&a, &b, &a)
                .map(|ops| Rewrite::new().query(ops)),
        ];
        // What a codec lets through: visible characters only.
        let mut request = requests(&mut random);
        let sent: Vec<u8> = request
            .head
            .target
            .iter()
            .copied()
            .filter(|b| b.is_ascii_graphic() && *b != b'#')
            .collect();
        request.head.uri.set(&[b"/", sent.as_slice()].concat());
        for rewrite in rewrites.into_iter().flatten() {
            applied += 1;
            let Ok(change) = request.with(|input| rewrite.apply(input)) else {
                continue;
            };
            let Some(uri) = change.uri else { continue };
            let target = uri.as_bytes();
            assert_eq!(target.first(), Some(&b'/'), "{a:?} {b:?}");
            assert!(
                target
                    .iter()
                    .all(|byte| byte.is_ascii_graphic() && *byte != b'#'),
                "{a:?} {b:?} {target:?}"
            );
        }
    }
    assert!(
        applied > 25_000,
        "only {applied} rewrites were good: the cases test little"
    );
}

#[test]
fn no_glob_expression_or_range_panics() {
    let mut random = Random(0x5eed_0008);
    for _ in 0..8_000 {
        let text = random.text(PARTS, 8);
        let bytes: Vec<u8> = (0..random.below(12))
            .map(|_| random.below(256) as u8)
            .collect();
        if let Ok(glob) = Glob::parse(&text) {
            glob.matches(&bytes);
        }
        if let Ok(regexp) = Regexp::new(&text) {
            regexp.replace_all(&bytes, text.as_bytes());
        }
        IpRange::parse(&text);
    }
}
