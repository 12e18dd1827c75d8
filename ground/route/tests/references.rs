//! Compares the other matchers with plain references, on seeded random input: what they compare as numbers, bytes or
//! borrowed text, the references compare as formatted text. Paths, hosts and header values are in `index`.
#![allow(clippy::unwrap_used)]

use std::net::IpAddr;

use sluice_message::{Remote, TlsInfo, Version};
use sluice_route::{Matcher, MatcherSet};

use crate::support::{Random, Request, get};

/// Where the random input of every test begins; each case names itself in messages.
const SEED: u64 = 0x5eed_0100;

fn is_met(matcher: &Matcher, request: &Request) -> bool {
    request.with(|input| matcher.matches(input)).unwrap()
}

/// The bits of an address as a text of zeros and ones; an IPv4 address within IPv6 is one of IPv4.
fn bits(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => ip
            .octets()
            .iter()
            .map(|byte| format!("{byte:08b}"))
            .collect(),
        IpAddr::V6(ip) => match ip.to_ipv4_mapped() {
            Some(ip) => bits(IpAddr::V4(ip)),
            None => ip
                .octets()
                .iter()
                .map(|byte| format!("{byte:08b}"))
                .collect(),
        },
    }
}

fn naive_range(range: &str, ip: IpAddr) -> bool {
    let (network, count) = match range.split_once('/') {
        Some((network, count)) => (network, count.parse().unwrap()),
        None => (range, usize::MAX),
    };
    // A network of IPv6 stays one, even if its addresses have IPv4 within.
    let network: IpAddr = network.parse().unwrap();
    let (network, ip) = match network {
        IpAddr::V4(_) => (bits(network), bits(ip)),
        IpAddr::V6(v6) => {
            let all: String = v6
                .octets()
                .iter()
                .map(|byte| format!("{byte:08b}"))
                .collect();
            (all, bits(ip))
        }
    };
    let count = count.min(network.len());
    network.len() == ip.len() && network[..count] == ip[..count]
}

/// An address of few different bits, so that networks and addresses meet.
fn random_ip(random: &mut Random) -> IpAddr {
    let byte = |random: &mut Random| [0u8, 1, 10, 127, 128, 192, 255][random.below(7)];
    let v4 = [byte(random), byte(random), byte(random), byte(random)];
    match random.below(4) {
        0 => {
            let mut v6 = [0; 16];
            v6[0] = [0, 0xfd, 0xfe][random.below(3)];
            v6[1] = byte(random);
            v6[15] = byte(random);
            v6.into()
        }
        1 => std::net::Ipv4Addr::from(v4).to_ipv6_mapped().into(),
        _ => v4.into(),
    }
}

#[test]
fn ranges_match_as_the_leading_bits_say() {
    let mut random = Random(SEED);
    let mut met = 0;
    for case in 0..4_000 {
        let ranges: Vec<String> = (0..1 + random.below(3))
            .map(|_| {
                let ip = match random_ip(&mut random) {
                    // Networks are not written so.
                    IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some() => "::1".parse().unwrap(),
                    ip => ip,
                };
                match random.below(3) {
                    0 => ip.to_string(),
                    _ => format!("{ip}/{}", random.below(if ip.is_ipv4() { 33 } else { 129 })),
                }
            })
            .collect();
        let remote = Matcher::remote_ip(&ranges).unwrap();
        let client = Matcher::client_ip(&ranges).unwrap();
        for _ in 0..5 {
            let (peer, behind) = (random_ip(&mut random), random_ip(&mut random));
            let mut request = get("h", "/");
            request.conn.remote = Remote::Ip((peer, 1).into());
            let expected = |ip| ranges.iter().any(|range| naive_range(range, ip));
            assert_eq!(
                is_met(&remote, &request),
                expected(peer),
                "seed {SEED:x}, case {case}: {ranges:?} and {peer}"
            );
            assert_eq!(is_met(&client, &request), expected(peer));
            met += usize::from(expected(peer));
            let known = request.with(|input| {
                let mut input = *input;
                input.client_ip = Some(behind);
                client.matches(&input)
            });
            assert_eq!(
                known,
                Ok(expected(behind)),
                "seed {SEED:x}, case {case}: {ranges:?} and {behind}"
            );
        }
        let mut unix = get("h", "/");
        unix.conn.remote = Remote::Unix;
        assert!(!is_met(&remote, &unix), "a socket file has no address");
    }
    assert!(met > 1_000, "only {met} matches: the cases test little");
}

const METHODS: [&str; 12] = [
    "GET", "get", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "PURGE",
    "GETS",
];

#[test]
fn methods_match_as_their_texts_do() {
    let mut random = Random(SEED + 1);
    let mut met = 0;
    for case in 0..2_000 {
        let wanted: Vec<&str> = (0..random.below(5))
            .map(|_| random.one_of(&METHODS))
            .collect();
        let matcher = Matcher::method(&wanted).unwrap();
        let method = random.one_of(&METHODS);
        // As in Caddy, the case of the configuration does not count, and that of the request does.
        let expected = wanted.iter().any(|one| one.to_ascii_uppercase() == method);
        met += usize::from(expected);
        assert_eq!(
            is_met(&matcher, &get("h", "/").method(method)),
            expected,
            "seed {:x}, case {case}: {wanted:?} and {method}",
            SEED + 1
        );
    }
    assert!(met > 200, "only {met} matches: the cases test little");
}

/// A text of a query decoded: `None` where an escape is malformed.
fn naive_decoded(text: &str) -> Option<String> {
    let mut decoded = String::new();
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        match char {
            '+' => decoded.push(' '),
            '%' => {
                let digits: String = chars.by_ref().take(2).collect();
                let is_hex = digits.len() == 2 && digits.chars().all(|c| c.is_ascii_hexdigit());
                let code = u8::from_str_radix(&digits, 16).ok().filter(|_| is_hex)?;
                decoded.push(char::from(code));
            }
            plain => decoded.push(plain),
        }
    }
    Some(decoded)
}

/// The pairs of a query: `None` where one of them can be read in two ways, as in Go.
fn naive_pairs(query: &str) -> Option<Vec<(String, String)>> {
    let parts = query.split('&').filter(|part| !part.is_empty());
    let pairs = parts.map(|part| {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        if part.contains(';') {
            return None;
        }
        Some((naive_decoded(name)?, naive_decoded(value)?))
    });
    pairs.collect()
}

#[test]
fn queries_match_as_their_decoded_pairs_do() {
    let mut random = Random(SEED + 2);
    let mut met = 0;
    let words = ["a", "b", "a b", "", "c=d", "*"];
    for case in 0..4_000 {
        let wanted: Vec<(String, Vec<String>)> = (0..1 + random.below(2))
            .map(|_| {
                let name = random.one_of(&["a", "b", "a b"]).to_owned();
                let values = (0..1 + random.below(2)).map(|_| random.one_of(&words).to_owned());
                (name, values.collect())
            })
            .collect();
        let params = wanted
            .iter()
            .map(|(name, values)| (name.as_str(), &values[..]));
        let matcher = Matcher::query(params).unwrap();
        for _ in 0..5 {
            let pieces = [
                "a", "b", "=", "=", "&", "&", "+", "%20", "%61", "%3d", "%2", ";", "*",
            ];
            let usual = ["a=", "b=", "a+b=", "%61=", "a", "b", "&", "a%20b", "c%3Dd"];
            let query = match random.below(3) {
                0 => random.text(&pieces, 8),
                _ => random.text(&usual, 8),
            };
            let expected = naive_pairs(&query).is_some_and(|pairs| {
                wanted.iter().all(|(name, values)| {
                    let of_name = pairs.iter().filter(|(found, _)| found == name);
                    of_name
                        .into_iter()
                        .any(|(_, value)| values.iter().any(|v| v == "*" || v == value))
                })
            });
            met += usize::from(expected);
            let request = get("h", &format!("/?{query}"));
            assert_eq!(
                is_met(&matcher, &request),
                expected,
                "seed {:x}, case {case}: {wanted:?} and {query:?}",
                SEED + 2
            );
        }
    }
    assert!(met > 500, "only {met} matches: the cases test little");
}

#[test]
fn protocols_match_as_their_names_say() {
    let versions = ["1.0", "1.1", "2", "3"];
    let all = [
        Version::Http10,
        Version::Http11,
        Version::Http2,
        Version::Http3,
    ];
    for (at, version) in all.into_iter().enumerate() {
        for is_tls in [false, true] {
            for content_type in [
                "",
                "application/grpc",
                "application/grpc+proto",
                "text/html",
            ] {
                let mut request = get("h", "/");
                if !content_type.is_empty() {
                    request = request.field("Content-Type", content_type);
                }
                request.head.version = version;
                request.conn.tls = is_tls.then(|| {
                    Box::new(TlsInfo {
                        version: "tls1.3",
                        ..TlsInfo::default()
                    })
                });
                let met = |name: &str| is_met(&Matcher::protocol(name).unwrap(), &request);
                assert_eq!(met("http"), !is_tls);
                assert_eq!(met("https"), is_tls);
                assert_eq!(met("grpc"), content_type.starts_with("application/grpc"));
                assert_eq!(is_met(&Matcher::Tls(None), &request), is_tls);
                assert!(!is_met(&Matcher::Tls(Some(false)), &request));
                for (number, name) in versions.iter().enumerate() {
                    assert_eq!(met(&format!("http/{name}")), at == number, "{version:?}");
                    assert_eq!(met(&format!("http/{name}+")), at >= number, "{version:?}");
                }
            }
        }
    }
}

#[test]
fn variables_match_as_their_texts_do() {
    let mut random = Random(SEED + 3);
    let mut met = 0;
    let (names, texts) = (["a", "b", "c"], ["x", "y", "", "x y"]);
    for case in 0..3_000 {
        let wanted: Vec<(&str, Vec<String>)> = (0..random.below(3))
            .map(|_| {
                let name = random.one_of(&names);
                let values = (0..1 + random.below(2)).map(|_| random.one_of(&texts).to_owned());
                (name, values.collect())
            })
            .collect();
        let params = wanted.iter().map(|(name, values)| (*name, &values[..]));
        let matcher = Matcher::vars(params).unwrap();
        let mut request = get("h", "/");
        let mut set: Vec<(&str, &str)> = Vec::new();
        for name in names {
            if random.below(2) == 0 {
                let text = random.one_of(&texts);
                set.push((name, text));
                request = request.var(name, text);
            }
        }
        let value_of = |name: &str| set.iter().find(|(n, _)| *n == name).map_or("", |(_, v)| v);
        let expected = wanted.is_empty()
            || wanted
                .iter()
                .any(|(name, values)| values.iter().any(|v| v == value_of(name)));
        met += usize::from(expected);
        assert_eq!(
            is_met(&matcher, &request),
            expected,
            "seed {:x}, case {case}: {wanted:?} and {set:?}",
            SEED + 3
        );
    }
    assert!(met > 500, "only {met} matches: the cases test little");
}

/// A set tries its conditions in the order of their cost, `not` turns a set around: what they say is that of all of them.
#[test]
fn sets_match_as_all_their_conditions_do() {
    let mut random = Random(SEED + 4);
    let mut met = 0;
    for case in 0..3_000 {
        let conditions = |random: &mut Random| {
            let count = random.below(4);
            let made = (0..count).map(|_| match random.below(4) {
                0 => (Matcher::method(&["GET"]).unwrap(), 0),
                1 => (Matcher::host(&["h"]).unwrap(), 1),
                2 => (Matcher::path(&["/a*"]).unwrap(), 2),
                _ => (Matcher::protocol("https").unwrap(), 3),
            });
            made.collect::<Vec<_>>()
        };
        let (own, inner) = (conditions(&mut random), conditions(&mut random));
        let (method, host, path) = (
            random.one_of(&["GET", "POST"]),
            random.one_of(&["h", "i"]),
            random.one_of(&["/a", "/ab", "/b"]),
        );
        let request = get(host, path).method(method);
        let holds = [method == "GET", host == "h", path.starts_with("/a"), false];
        let all =
            |conditions: &[(Matcher, usize)]| conditions.iter().all(|(_, which)| holds[*which]);
        let set = |conditions: Vec<(Matcher, usize)>| {
            MatcherSet::new(conditions.into_iter().map(|(matcher, _)| matcher).collect())
        };
        let negated = random.below(2) == 0;
        let expected = all(&own) && (!negated || !all(&inner));
        let mut whole: Vec<Matcher> = own.iter().map(|(matcher, _)| matcher.clone()).collect();
        if negated {
            whole.push(Matcher::not(vec![set(inner.clone())]).unwrap());
        }
        met += usize::from(expected);
        let found = request.with(|input| MatcherSet::new(whole).matches(input));
        assert_eq!(
            found,
            Ok(expected),
            "seed {:x}, case {case}: {own:?}, not {inner:?} {negated} and {method} {host} {path}",
            SEED + 4
        );
    }
    assert!(met > 500, "only {met} matches: the cases test little");
}
