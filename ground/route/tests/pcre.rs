//! Random patterns, compared with PCRE2 10.42. Its results were recorded once, without its JIT compiler and its
//! options; cases in which neither engine finishes within its limits are omitted.

use sluice_route::pcre::{Case, Pattern};

const SUBJECTS: [&[u8]; 20] = [
    b"",
    b"a",
    b"b",
    b"ab",
    b"ba",
    b"aab",
    b"abab",
    b"bbaa",
    b"aa ab",
    b"a\nb",
    b"ab\n",
    b"bab.aab",
    b"/a.b/ab",
    b"/aa/b1\n",
    b"\n",
    b"AbaB",
    b"a_b-1",
    b"\r\nab",
    b"aaaa",
    b"abcab/ab.a\n\n",
];

/// Where the groups are, as the file writes it.
fn outcome(pattern: &Pattern, text: &[u8]) -> String {
    let mut groups = Vec::new();
    if !pattern.groups(text, &mut groups).expect("it ends") {
        return "-".to_owned();
    }
    let group = |group: &Option<(u32, u32)>| match group {
        None => "u".to_owned(),
        Some((start, end)) => format!("{start}-{end}"),
    };
    groups.iter().map(group).collect::<Vec<_>>().join(",")
}

#[test]
fn matches_equal_those_of_pcre() {
    let mut asked = 0;
    for line in include_str!("pcre/answers.txt").lines() {
        let (text, expected) = line.split_once('\t').expect("a pattern and its answers");
        let pattern = Pattern::new(text, Case::Kept);
        if expected == "refused" {
            assert!(pattern.is_err(), "{text}");
            continue;
        }
        let pattern = pattern.unwrap_or_else(|error| panic!("{text}: {error}"));
        let expected: Vec<&str> = expected.split(' ').collect();
        assert_eq!(expected.len(), SUBJECTS.len(), "{text}");
        for (subject, expected) in SUBJECTS.iter().zip(expected) {
            let shown = String::from_utf8_lossy(subject);
            assert_eq!(outcome(&pattern, subject), expected, "{text} on {shown:?}");
            asked += 1;
        }
    }
    assert!(asked > 5_000, "{asked}");
}
