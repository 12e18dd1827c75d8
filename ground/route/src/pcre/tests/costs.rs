//! The number of attempts on long texts; counts, not times.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::super::program::Program;
use super::super::{Exhausted, parse, run};
use crate::limits::PATTERN_TRIES_BEFORE_MEMO;

/// What is found, and how many ways were tried, beside the number of steps.
fn cost(pattern: &str, text: &[u8]) -> (Result<bool, Exhausted>, u32, usize) {
    let parsed = parse::parse(pattern.as_bytes(), false).unwrap();
    let program = Program::new(&parsed.node, parsed.groups, &parsed.names).unwrap();
    let (mut groups, mut tries) = (Vec::new(), 0);
    let after = PATTERN_TRIES_BEFORE_MEMO;
    let found = run::find_counting(&program, text, Some(&mut groups), after, &mut tries);
    (found, tries, program.steps.len())
}

/// Texts of this length that are made of a part over and over, with an end that decides.
fn long(part: &str, end: &str, length: usize) -> String {
    let mut text = part.repeat(length / part.len());
    text.push_str(end);
    text
}

#[test]
fn what_refers_to_no_group_costs_a_few_tries_for_each_byte() {
    for (pattern, part, end) in [
        // The one that honest addresses failed on.
        (r"/pg/.*(?<!\.min)\.js", "/pg/", ""),
        (r"/pg/.*(?<!\.min)\.js", "/pg/", "x.min.js"),
        (r"/pg/.*(?<!\.min)\.js", "/pg/a.min.js", ""),
        (r"/pg/.*(?<!\.min)[.,][jq]s", "/pg/", ".min.js"),
        (r"/.*/.*/.*/.*(?<!x)[0-9]", "/a", ""),
        (r"(?!y)[a-z]*[a-z]*[a-z]*[a-z]*[0-9]", "a", ""),
        (r"(?!y)[a-z]*?[a-z]*?[a-z]*?[0-9]", "a", ""),
        (r"(?!y)[a-z]{9}[a-z]*[a-z]{3,}[0-9]", "a", ""),
        (r"^(?=x|a)(a+)+$", "a", "b"),
        (r"^(?=x|a)(?:a|aa)+$", "a", "b"),
        (r"^(?!x)(?:[^/]+/)*[^/]+[.,]php$", "a/", "x"),
        (r"(?!x)(?:\w+\s?)*[.,]$", "ab ", "?"),
        (r"^(?!.*\.\.)(?:/\w+)+[.,]$", "/ab", "?"),
        (r"(?:(?!/x)/.*)+[.,]", "/a", ""),
        (r"(?>/.*)?(?<!b)/[cq]", "/a", ""),
        (r"(?!x)(?:(?:a|b)(?:a|b))+[cq]", "ab", "d"),
        (r"(?:(?=.*[0-9])a)+", "a", ""),
        (r"/\.(?!well-known).*", "/.well-known", ""),
        (r"(?<!y)(?i:a.*b.*c.*[dq])", "aBc", ""),
    ] {
        for length in [2 << 10, 8 << 10, 32 << 10] {
            let text = long(part, end, length);
            let (found, tries, steps) = cost(pattern, text.as_bytes());
            let most = 2 * steps * (text.len() + 1);
            assert_eq!(
                found,
                Ok(false),
                "{pattern} on {length} bytes: {tries} tries"
            );
            assert!(
                tries as usize <= most,
                "{pattern} on {length} bytes: {tries} tries of {most}"
            );
        }
    }
}

#[test]
fn absent_literals_are_detected_without_matching() {
    for (pattern, text) in [
        (r"/pg/.*(?<!\.min)\.js", "/pg/".repeat(2_000)),
        (r"(?!x)\.php(?:/|$)", "/a".repeat(4_000)),
        (r"(?i)admin.*\.(?!x)PHP", String::from(".php/admin")),
    ] {
        assert_eq!(cost(pattern, text.as_bytes()).0, Ok(false), "{pattern}");
        assert_eq!(cost(pattern, text.as_bytes()).1, 0, "{pattern}");
    }
}

#[test]
fn bytes_of_a_smallest_number_are_counted() {
    // With a reference nothing is remembered, so that the limit is all there is.
    let text = "a".repeat(32 << 10);
    let (found, tries, _) = cost(r"([b]?)(?:a{20000}\1)+[0-9]", text.as_bytes());
    assert_eq!(found, Ok(false));
    assert!(tries >= 12_000, "{tries}");
    let pattern = format!("([ab]?){}[0-9]", r"a{4000,}\1".repeat(6));
    assert_eq!(cost(&pattern, text.as_bytes()).0, Err(Exhausted));
}
