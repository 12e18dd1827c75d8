//! Compares optimised matchers and the route index with naive ones, on seeded random input.
#![allow(clippy::unwrap_used)]

use sluice_route::{Matcher, MatcherSet, MatcherSets, RouteIndex};

use crate::support::{Random, Request, get};

/// A path in lower case, its segments resolved one by one on a stack.
fn naive_normal(path: &str, keep_empty: bool) -> String {
    let lower = path.to_lowercase();
    let Some(body) = lower.strip_prefix('/') else {
        return lower;
    };
    let segments: Vec<&str> = body.split('/').collect();
    let mut stack: Vec<&str> = Vec::new();
    for (index, segment) in segments.iter().enumerate() {
        let last = index + 1 == segments.len();
        if *segment == ".." {
            stack.pop();
        } else if *segment == "." || segment.is_empty() && (last || !keep_empty) {
            continue;
        } else {
            stack.push(segment);
        }
    }
    let as_folder = matches!(*segments.last().unwrap(), "" | "." | "..");
    let joined: String = stack.iter().map(|segment| format!("/{segment}")).collect();
    if as_folder { joined + "/" } else { joined }
}

/// The characters of an encoded path in normal form: each as text, in lower case, and as it was sent.
fn naive_units(path: &str) -> Vec<(char, String)> {
    let path = naive_normal(path, false);
    let mut units = Vec::new();
    let mut rest = path.as_str();
    while let Some(first) = rest.chars().next() {
        let code = rest
            .get(1..3)
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let width = if first == '%' && code.is_some() {
            3
        } else {
            first.len_utf8()
        };
        let text = code
            .filter(|_| width == 3)
            .map_or(first, char::from)
            .to_ascii_lowercase();
        units.push((text, String::from(&rest[..width])));
        rest = &rest[width..];
    }
    units
}

/// Whether a pattern with `%` matches, by trying everything.
fn naive_escaped(pattern: &str, units: &[(char, String)]) -> bool {
    let Some(first) = pattern.chars().next() else {
        return units.is_empty();
    };
    let rest = &pattern[first.len_utf8()..];
    let run = |rest: &str, stays: &dyn Fn(&(char, String)) -> bool| {
        let run = units.iter().take_while(|unit| stays(unit)).count();
        (0..=run).any(|width| naive_escaped(rest, &units[width..]))
    };
    match first {
        '%' if rest.starts_with('*') => run(&rest[1..], &|(_, sent)| sent != "/"),
        '%' if rest.len() > 1 && rest.as_bytes()[..2].iter().all(u8::is_ascii_hexdigit) => {
            let same = units.first().is_some_and(|(_, sent)| *sent == pattern[..3]);
            same && naive_escaped(&rest[2..], &units[1..])
        }
        '*' => run(rest, &|(text, _)| *text != '/'),
        '?' => {
            units.first().is_some_and(|(text, _)| *text != '/') && naive_escaped(rest, &units[1..])
        }
        _ => {
            units.first().is_some_and(|(text, _)| *text == first)
                && naive_escaped(rest, &units[1..])
        }
    }
}

/// Whether a glob matches, by trying everything.
fn naive_glob(pattern: &[char], text: &[char]) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        Some(('*', rest)) => {
            let run = text.iter().take_while(|&&letter| letter != '/').count();
            (0..=run).any(|width| naive_glob(rest, &text[width..]))
        }
        Some(('?', rest)) => !text.is_empty() && text[0] != '/' && naive_glob(rest, &text[1..]),
        Some((letter, rest)) => text.first() == Some(letter) && naive_glob(rest, &text[1..]),
    }
}

/// The documented rules of the `path` matcher, one after the other.
fn naive_path(pattern: &str, path: &str) -> bool {
    let pattern = pattern.to_lowercase();
    let path = naive_normal(path, pattern.contains("//"));
    let stars = pattern.matches('*').count();
    if pattern == "*" {
        true
    } else if stars == 2 && pattern.starts_with('*') && pattern.ends_with('*') {
        path.contains(&pattern[1..pattern.len() - 1])
    } else if stars == 1 && pattern.starts_with('*') {
        path.ends_with(&pattern[1..])
    } else if stars == 1 && pattern.ends_with('*') {
        path.starts_with(&pattern[..pattern.len() - 1])
    } else {
        naive_glob(
            &pattern.chars().collect::<Vec<_>>(),
            &path.chars().collect::<Vec<_>>(),
        )
    }
}

fn naive_host(pattern: &str, host: &str) -> bool {
    let (pattern, host) = (pattern.to_lowercase(), host.to_lowercase());
    let (wanted, given): (Vec<&str>, Vec<&str>) =
        (pattern.split('.').collect(), host.split('.').collect());
    wanted.len() == given.len() && wanted.iter().zip(&given).all(|(w, g)| *w == "*" || w == g)
}

fn naive_value(allowed: &str, value: &str) -> bool {
    let stars = (allowed.starts_with('*'), allowed.ends_with('*'));
    match stars {
        _ if allowed == "*" => true,
        (true, true) => value.contains(&allowed[1..allowed.len() - 1]),
        (true, false) => value.ends_with(&allowed[1..]),
        (false, true) => value.starts_with(&allowed[..allowed.len() - 1]),
        (false, false) => value == allowed,
    }
}

fn is_met(matcher: &Matcher, request: &Request) -> bool {
    request.with(|input| matcher.matches(input)).unwrap()
}

const PATH_PARTS: &[&str] = &[
    "/", "/", "//", "a", "b", "A", ".", "..", "/.", "/..", "é", "É", "ab",
];

#[test]
fn paths_match_as_the_naive_rules_say() {
    let mut random = Random(0x5eed_0001);
    let pattern_parts: Vec<&str> = PATH_PARTS.iter().chain(&["*", "*", "?"]).copied().collect();
    let mut met = 0;
    for case in 0..6_000 {
        let start = random.one_of(&["", "/", "/", "*"]);
        let pattern = format!("{start}{}", random.text(&pattern_parts, 4));
        let matcher = Matcher::path(&[&pattern]).unwrap();
        for _ in 0..10 {
            let path = format!("/{}", random.text(PATH_PARTS, 4));
            let expected = naive_path(&pattern, &path);
            met += usize::from(expected);
            assert_eq!(
                is_met(&matcher, &get("h", &path)),
                expected,
                "case {case}: {pattern} on {path}"
            );
        }
    }
    assert!(met > 5_000, "only {met} matches: the cases test little");
}

#[test]
fn patterns_with_escapes_match_as_the_naive_rules_say() {
    let mut random = Random(0x5eed_0009);
    let parts = &[
        "/", "/", "a", "b", "A", ".", "..", "%2f", "%2F", "%61", "%41", "%2e", "%25",
    ];
    let pattern_parts: Vec<&str> = parts.iter().chain(&["*", "%*", "?"]).copied().collect();
    let mut met = 0;
    for case in 0..3_000 {
        let escape = random.one_of(&["%2f", "%61", "%*", "%*"]);
        let (before, after) = (
            random.text(&pattern_parts, 2),
            random.text(&pattern_parts, 3),
        );
        let pattern = format!("/{before}{escape}{after}");
        if pattern.contains("//") {
            continue;
        }
        let matcher = Matcher::path(&[&pattern]).unwrap();
        for _ in 0..10 {
            let path = format!("/{}", random.text(parts, 5));
            let expected = naive_escaped(&pattern.to_lowercase(), &naive_units(&path));
            met += usize::from(expected);
            assert_eq!(
                is_met(&matcher, &get("h", &path)),
                expected,
                "case {case}: {pattern} on {path}"
            );
        }
    }
    assert!(met > 1_000, "only {met} matches: the cases test little");
}

#[test]
fn hosts_match_as_the_naive_rules_say() {
    let mut random = Random(0x5eed_0002);
    let mut met = 0;
    for case in 0..2_000 {
        // Now and then a long list, which is looked up instead of compared.
        let count = if case % 10 == 0 { 200 } else { 3 };
        let mut patterns: Vec<String> = Vec::new();
        for _ in 0..count {
            let labels: Vec<&str> = (0..=random.below(3))
                .map(|_| random.one_of(&["a", "B", "b", "c", "*", "xy"]))
                .collect();
            let pattern = labels.join(".");
            if !patterns
                .iter()
                .any(|known| known.eq_ignore_ascii_case(&pattern))
            {
                patterns.push(pattern);
            }
        }
        let matcher = Matcher::host(&patterns).unwrap();
        for _ in 0..20 {
            let labels: Vec<&str> = (0..=random.below(4))
                .map(|_| random.one_of(&["a", "A", "b", "c", "xy", ""]))
                .collect();
            let host = labels.join(".");
            let expected = patterns.iter().any(|pattern| naive_host(pattern, &host));
            met += usize::from(expected);
            assert_eq!(
                is_met(&matcher, &get(&host, "/")),
                expected,
                "case {case}: {patterns:?} on {host}"
            );
        }
    }
    assert!(met > 5_000, "only {met} matches: the cases test little");
}

#[test]
fn header_values_match_as_the_naive_rules_say() {
    let mut random = Random(0x5eed_0003);
    let mut met = 0;
    for case in 0..3_000 {
        let allowed: Vec<String> = (0..1 + random.below(3))
            .map(|_| random.text(&["a", "b", "A", "*", " "], 5))
            .collect();
        let matcher = Matcher::header([("X-A", Some(&allowed[..]))]).unwrap();
        for _ in 0..10 {
            let values: Vec<String> = (0..random.below(3))
                .map(|_| random.text(&["a", "b", "A", "*"], 5))
                .collect();
            let request = values
                .iter()
                .fold(get("h", "/"), |request, value| request.field("x-A", value));
            let expected = values
                .iter()
                .any(|value| allowed.iter().any(|a| naive_value(a, value)));
            met += usize::from(expected);
            assert_eq!(
                is_met(&matcher, &request),
                expected,
                "case {case}: {allowed:?} on {values:?}"
            );
        }
    }
    assert!(met > 3_000, "only {met} matches: the cases test little");
}

const HOSTS: &[&str] = &[
    "a",
    "b.a",
    "c.a",
    "*.a",
    "*",
    "*.b.a",
    "x.*",
    "{http.vars.v}",
    "b.*.a",
];
const PATHS: &[&str] = &[
    "/", "/*", "/a", "/a*", "/a/*", "/a/b*", "/a/b/c", "*.c", "/A/B", "/a//b", "/%61*", "*",
    "/a/*/c", "/b*", "/a/b/*",
];

/// Random matchers of one route.
fn random_sets(random: &mut Random) -> MatcherSets {
    let set = |random: &mut Random| {
        let mut matchers = Vec::new();
        if random.below(3) > 0 {
            let mut hosts: Vec<&str> = (0..1 + random.below(2))
                .map(|_| random.one_of(HOSTS))
                .collect();
            hosts.dedup();
            matchers.push(Matcher::host(&hosts).unwrap());
        }
        if random.below(3) > 0 {
            let paths: Vec<&str> = (0..1 + random.below(2))
                .map(|_| random.one_of(PATHS))
                .collect();
            matchers.push(Matcher::path(&paths).unwrap());
        }
        MatcherSet::new(matchers)
    };
    let sets = if random.below(12) == 0 {
        0
    } else {
        1 + random.below(2)
    };
    MatcherSets::new((0..sets).map(|_| set(random)).collect())
}

/// The routes of a list that match, first to last.
fn all_matching(routes: &[MatcherSets], request: &Request) -> Vec<usize> {
    let met = |sets: &MatcherSets| request.with(|input| sets.matches(input)).unwrap();
    (0..routes.len())
        .filter(|&route| met(&routes[route]))
        .collect()
}

#[test]
fn the_index_leaves_out_only_routes_that_do_not_match() {
    let mut random = Random(0x5eed_0004);
    let (mut asked, mut candidates) = (0, 0);
    for case in 0..600 {
        let routes: Vec<MatcherSets> = (0..random.below(40))
            .map(|_| random_sets(&mut random))
            .collect();
        let keys: Vec<_> = routes.iter().map(MatcherSets::key).collect();
        let index = RouteIndex::build(&keys);
        for _ in 0..30 {
            let host = random.one_of(&["a", "b.a", "c.a", "z.a", "d.b.a", "x.y", "q", ""]);
            let path = random.text(&["/", "//", "a", "b", "A", ".", "..", "c", "/a/b", ".c"], 5);
            let request = get(host, &format!("/{path}")).var("v", "b.a");
            let mut lookup = index.lookup(&request.head.host, request.head.uri.path());
            let (mut found, mut from) = (Vec::new(), 0);
            while let Some(route) = lookup.next_from(from) {
                assert!(route >= from && route < routes.len());
                candidates += 1;
                if request.with(|input| routes[route].matches(input)).unwrap() {
                    found.push(route);
                }
                from = route + 1;
            }
            asked += routes.len();
            assert_eq!(
                found,
                all_matching(&routes, &request),
                "case {case}: {host} {path}"
            );
            let second = random.below(45);
            let (host, path) = (&request.head.host, request.head.uri.path());
            let next = index.candidate(host, path, second);
            assert_eq!(next, index.lookup(host, path).next_from(second));
            assert!(next.is_none_or(|route| route >= second));
        }
    }
    assert!(
        candidates * 10 < asked * 9,
        "{candidates} of {asked}: the index leaves out too little"
    );
}

#[test]
fn what_the_index_decides_matches() {
    let mut random = Random(0x5eed_0005);
    let hosts = [
        "a",
        "b.a",
        "*.a",
        "*.b.a",
        "x.y",
        "*.y",
        "*",
        "a.*",
        "{http.vars.v}",
    ];
    let mut decided = 0;
    for case in 0..300 {
        let routes: Vec<MatcherSets> = (0..4 + random.below(20))
            .map(|_| {
                let set = |random: &mut Random| {
                    let mut matchers = vec![Matcher::host(&[random.one_of(&hosts)]).unwrap()];
                    if random.below(5) == 0 {
                        matchers.push(Matcher::path(&["/p*"]).unwrap());
                    }
                    MatcherSet::new(matchers)
                };
                MatcherSets::new((0..1 + random.below(2)).map(|_| set(&mut random)).collect())
            })
            .collect();
        let keys: Vec<_> = routes.iter().map(MatcherSets::key).collect();
        let index = RouteIndex::build(&keys);
        for host in [
            "a", "b.a", "c.a", "d.b.a", "x.y", "q", ".a", "a.", "", "{v}", "*.a",
        ] {
            let request = get(host, "/").var("v", "b.a");
            let mut from = 0;
            while let Some(route) = index.candidate(&request.head.host, b"/", from) {
                if index.decides(route) {
                    decided += 1;
                    let matches = request.with(|input| routes[route].matches(input)).unwrap();
                    assert!(matches, "case {case}: {host}, route {route}");
                }
                from = route + 1;
            }
        }
    }
    assert!(decided > 1_000, "{decided} were decided");
}

#[test]
fn among_many_sites_one_candidate_is_left() {
    let keys: Vec<_> = (0..10_000)
        .map(|site| {
            let host = Matcher::host(&[format!("site-{site}.example.com")]).unwrap();
            MatcherSets::new(vec![MatcherSet::new(vec![host])]).key()
        })
        .collect();
    let index = RouteIndex::build(&keys);
    for site in [0, 1, 4_999, 9_999] {
        let host = format!("site-{site}.example.com");
        let mut lookup = index.lookup(host.as_bytes(), b"/");
        assert_eq!(lookup.next_from(0), Some(site));
        assert_eq!(lookup.next_from(site + 1), None);
    }
    assert_eq!(index.candidate(b"unknown.example.com", b"/", 0), None);
}

#[test]
fn deep_nests_of_prefixes_stay_small_and_right() {
    // 2,000 prefixes, each within the one before: lists of all their routes would hold two million
    // numbers.
    let routes: Vec<MatcherSets> = (0..2_000)
        .map(|depth| {
            let path = Matcher::path(&[format!("/{}*", "a".repeat(depth))]).unwrap();
            MatcherSets::new(vec![MatcherSet::new(vec![path])])
        })
        .collect();
    let keys: Vec<_> = routes.iter().map(MatcherSets::key).collect();
    let index = RouteIndex::build(&keys);
    let path = format!("/{}", "a".repeat(300));
    let mut lookup = index.lookup(b"h", path.as_bytes());
    for route in 0..=300 {
        assert_eq!(lookup.next_from(route), Some(route));
    }
}
