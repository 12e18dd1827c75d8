mod costs;
mod reference;

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use std::time::Instant;

use super::*;

extern crate std;

fn groups(pattern: &str, text: &[u8]) -> Option<Vec<Option<String>>> {
    let pattern =
        Pattern::new(pattern, Case::Kept).unwrap_or_else(|error| panic!("{pattern}: {error}"));
    let mut found = Vec::new();
    let matches = pattern.groups(text, &mut found).expect("it ends");
    assert_eq!(pattern.is_match(text), Ok(matches));
    let group = |group: &Option<(u32, u32)>| {
        let (start, end) = (*group)?;
        Some(String::from_utf8_lossy(&text[start as usize..end as usize]).into_owned())
    };
    matches.then(|| found.iter().map(group).collect())
}

#[test]
fn lookarounds_and_backreferences_match() {
    for (pattern, text, expected) in [
        (r"/\.(?!well-known).*", "/.git/x", Some("/.git/x")),
        (r"/\.(?!well-known).*", "/.well-known/x", None),
        (r"(?<!\.min)\.js$", "/a.js", Some(".js")),
        (r"(?<!\.min)\.js$", "/a.min.js", None),
        (r"(?<=a|bc)d", "bcd", Some("d")),
        (r"(\w)\1", "abccd", Some("cc")),
        (r"(?<q>['\x22])x\k<q>", "'x\"'x'", Some("'x'")),
        (r"(?>a+)ab", "aaab", None),
        (r"a++b", "aab", Some("aab")),
        (r"a*+a", "aaa", None),
        (r"(?:ab?)++b", "abab", None),
        (r"(?|(a)|(b))\1", "xbb", Some("bb")),
        (r"foo\Kbar", "foobar", Some("bar")),
        (r"^(?!.*\.\.)/x", "/x/../y", None),
        (r"(?i)(?!ADMIN)a\w+", "admin adam", Some("adam")),
        (r"(?=(a+))a*b\1", "baaabac", Some("aba")),
    ] {
        let found = groups(pattern, text.as_bytes());
        let found = found.map(|groups| groups[0].clone().expect("the whole"));
        assert_eq!(found.as_deref(), expected, "{pattern} on {text}");
    }
}

#[test]
fn bytes_are_read_not_characters() {
    assert!(groups("^...$", "aé".as_bytes()).is_some());
    assert!(groups(r"^[^a]$", b"\xff").is_some());
    assert!(groups(r"(?!x)^\W\xa9$", "é".as_bytes()).is_some());
    assert!(groups("^é+$", "é\u{a9}".as_bytes()).is_none());
    // Letters beyond ASCII have no other case, and each byte of a set counts.
    assert!(groups("(?i)^é$", "É".as_bytes()).is_none());
    assert!(groups("^[é]$", b"\xa9").is_some());
}

#[test]
fn a_dollar_holds_before_a_last_line_feed_only() {
    for (pattern, text, expected) in [
        (r"\.php$", "/a.php", true),
        (r"\.php$", "/a.php\n", true),
        (r"\.php$", "/a.php\n\n", false),
        (r"\.php\z", "/a.php\n", false),
        (r"\.php\Z", "/a.php\n", true),
        (r"^.+$", "a\n", true),
        (r"^.$", "\n", false),
        (r"(?m)^b$", "a\nb\nc", true),
        (r"(?m)a\n^", "a\n", false),
        (r"a$b", "a\nb", false),
        (r"(?!c)\.php$", "/a.php\n", true),
    ] {
        assert_eq!(
            groups(pattern, text.as_bytes()).is_some(),
            expected,
            "{pattern} on {text:?}"
        );
    }
}

#[test]
fn mistakes_are_found_where_they_are() {
    for (pattern, at, expected) in [
        ("a(b", 1, "this group is not closed"),
        ("a)", 1, "this parenthesis closes nothing"),
        ("a[b", 1, "this set is not closed"),
        ("a{3,2}", 1, "the smaller number comes first"),
        ("x**", 2, "there is nothing to repeat"),
        ("^*", 1, "there is nothing to repeat"),
        ("a{70000}", 1, "at most 65535"),
        (r"a\", 1, "ends with a backslash"),
        (r"a\y", 1, "no escape has this letter"),
        ("[b-a]", 1, "ends before it begins"),
        ("[[:foo:]]", 1, "no set has this name"),
        (r"(a)\2", 3, "a group that is not there"),
        (r"\k<x>", 0, "a group that is not there"),
        ("(?<n>a)(?<n>b)", 7, "two groups have this name"),
        ("(?<1>a)", 3, "begins with no digit"),
        ("(?y)", 2, "no kind of group"),
        ("x(?<=a+)", 1, "a fixed number of bytes"),
        (r"x\x{100}", 1, "patterns read bytes"),
        ("a(?R)?", 1, "a recursion is not supported"),
        ("(a)(?1)", 3, "a recursion is not supported"),
        ("(?P>n)", 0, "a recursion is not supported"),
        (r"(a)\g<1>", 3, "a recursion is not supported"),
        (
            "(a)?(?(1)b|c)",
            4,
            "a condition inside of a pattern is not supported",
        ),
        ("a(?C1)", 1, "a callout is not supported"),
        (
            "(*UTF8)é",
            0,
            "`(*UTF8)` (patterns read bytes, not characters) is not supported",
        ),
        ("(*ANYCRLF)a", 0, "the verb `(*ANYCRLF)` is not supported"),
        (r"x\p{Nonsense}", 1, "this property of characters"),
        (r"x\p{L", 1, "takes a letter, or a name in braces"),
        (r"x\p", 1, "takes a letter, or a name in braces"),
    ] {
        let error = Pattern::new(pattern, Case::Kept).expect_err(pattern);
        assert_eq!(error.at, at, "{pattern}: {error}");
        assert!(error.to_string().contains(expected), "{pattern}: {error}");
    }
}

#[test]
fn plain_patterns_match_in_linear_time() {
    for pattern in [
        r"\.php$",
        "^/a/(.+?)(/.*)?$",
        r"(?i)\.(jpe?g|png)\z",
        r"[\w.-]+",
        "(?<n>a|b)*",
    ] {
        assert!(
            Pattern::new(pattern, Case::Kept).unwrap().is_linear(),
            "{pattern}"
        );
    }
    for pattern in ["a(?=b)", "a++", r"(a)\1", "(?m)^a", r"a\Kb", "(?>a)"] {
        assert!(
            !Pattern::new(pattern, Case::Kept).unwrap().is_linear(),
            "{pattern}"
        );
    }
    // What is too large for the one is taken by the other.
    assert!(
        !Pattern::new("^(?:.{1,60000}/)+$", Case::Kept)
            .unwrap()
            .is_linear()
    );
}

#[test]
fn a_match_that_takes_too_long_is_given_up() {
    let text = "a".repeat(40) + "b";
    for pattern in [
        r"^(?=x|a)(a+)+\1$",
        r"^(\w+\s?)*+(?<!b)$|^(?:a|aa)+(?!b)$",
        r"(.*)*\1[c](?!d)",
    ] {
        let pattern = Pattern::new(pattern, Case::Kept).expect(pattern);
        let start = Instant::now();
        let result = pattern.is_match(text.as_bytes());
        assert!(
            start.elapsed().as_secs() < 5,
            "it took {:?}",
            start.elapsed()
        );
        assert!(matches!(result, Err(Exhausted) | Ok(false)));
    }
    let greedy = Pattern::new(r"^(?=x|a)(a+)+\1$", Case::Kept).unwrap();
    assert_eq!(greedy.is_match(text.as_bytes()), Err(Exhausted));
    // What refers to no group remembers what was tried in vain.
    let honest = Pattern::new("^(?=x|a)(a+)+$", Case::Kept).unwrap();
    assert_eq!(honest.is_match(text.as_bytes()), Ok(false));
    // So is one that would take too much memory.
    let deep = Pattern::new("^(?!x)(?:a|b)*$", Case::Kept).unwrap();
    assert_eq!(deep.is_match(&b"a".repeat(8 << 10)), Ok(true));
    assert_eq!(deep.is_match(&b"a".repeat(300 << 10)), Err(Exhausted));
    // Long runs count as well, though each is one step.
    let runs = Pattern::new(r"([a-z]*)[a-z]*[a-z]*\1[0-9]", Case::Kept).unwrap();
    assert_eq!(runs.is_match(&b"a".repeat(8 << 10)), Err(Exhausted));
}

#[test]
fn patterns_that_are_too_large_are_refused() {
    for pattern in [
        "(".repeat(PATTERN_DEPTH + 1) + &")".repeat(PATTERN_DEPTH + 1),
        "a".repeat(40_000),
        "()".repeat(300),
        "(?:(?:(?:ab){100}){100}){100}(?!a)".to_string(),
    ] {
        assert!(Pattern::new(&pattern, Case::Kept).is_err());
    }
    let deep = "(?:".repeat(PATTERN_DEPTH) + "a" + &")".repeat(PATTERN_DEPTH);
    assert_eq!(
        Pattern::new(&deep, Case::Kept).unwrap().is_match(b"a"),
        Ok(true)
    );
    let looks = "(?=".repeat(PATTERN_DEPTH) + "a" + &")".repeat(PATTERN_DEPTH);
    assert_eq!(
        Pattern::new(&looks, Case::Kept).unwrap().is_match(b"a"),
        Ok(true)
    );
}

const PATTERN_DEPTH: usize = crate::limits::PATTERN_DEPTH_MAX;

/// Patterns that both ways take, made of a seed.
struct Made(u64);

impl Made {
    fn next(&mut self, below: u64) -> u64 {
        // Marsaglia's xorshift.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }

    fn pattern(&mut self, depth: u32, out: &mut String) {
        for _ in 0..=self.next(3) {
            let kind = if depth == 0 {
                self.next(7)
            } else {
                self.next(11)
            };
            let before = out.len();
            match kind {
                0 | 1 => out.push('a'),
                2 => out.push('b'),
                3 => out.push('.'),
                4 => out.push_str("[^b]"),
                5 => return out.push('$'),
                6 => out.push_str(r"\b"),
                7 => {
                    out.push('(');
                    self.pattern(depth - 1, out);
                    out.push(')');
                }
                8 => {
                    out.push_str("(?:");
                    self.pattern(depth - 1, out);
                    out.push('|');
                    self.pattern(depth - 1, out);
                    out.push(')');
                }
                _ => {
                    out.push('(');
                    self.pattern(depth - 1, out);
                    out.push('|');
                    self.pattern(depth - 1, out);
                    out.push(')');
                }
            }
            if kind != 6 && out.len() > before {
                let often = ["", "", "", "*", "+?", "?", "{1,2}", "*?", "{2,}"];
                out.push_str(often[self.next(often.len() as u64) as usize]);
            }
        }
    }
}

#[test]
fn both_ways_of_matching_agree() {
    let mut made = Made(0x5eed_0006);
    let mut compared = 0;
    for _ in 0..4_000 {
        let mut text = String::new();
        made.pattern(3, &mut text);
        let parsed = parse::parse(text.as_bytes(), false).unwrap_or_else(|e| panic!("{text}: {e}"));
        if parsed.node.has_circles() {
            continue;
        }
        let regex = plain::write(&parsed.node).and_then(|plain| build(&plain));
        let regex = regex.unwrap_or_else(|| panic!("{text} is plain"));
        let Ok(program) = Program::new(&parsed.node, parsed.groups, &parsed.names) else {
            continue;
        };
        for subject in [
            "", "a", "b", "ab", "ba", "aab", "abab", "bbaa", "aa ab", "a\nb", "bab.aab",
        ] {
            let mut found = Vec::new();
            // With a memory from the start, so that it is used on short texts, too.
            let (own, mut tries) = (Some(&mut found), 0);
            let Ok(matches) = run::find_counting(&program, subject.as_bytes(), own, 0, &mut tries)
            else {
                continue;
            };
            let captures = regex.captures(subject.as_bytes());
            let whole = captures.as_ref().map(|captures| captures[0].to_vec());
            let own = matches.then(|| found[0].expect("the whole"));
            let own =
                own.map(|(start, end)| subject.as_bytes()[start as usize..end as usize].to_vec());
            assert_eq!(own, whole, "{text} on {subject:?}");
            compared += 1;
        }
    }
    assert!(compared > 25_000, "{compared}");
}

/// Checked with PCRE2 10.42.
#[test]
fn properties_of_bytes_match_as_in_pcre() {
    for case in [Case::Kept, Case::Folded] {
        for (pattern, matching) in [
            (r"^\p{Lu}$", "B"),
            (r"^[\p{Lu}]$", "B"),
            (r"^[x\p{Lu}]$", "Bx"),
            (r"^[^\p{Lu}]$", "ax1"),
            (r"^\P{Lu}$", "ax1"),
            (r"^\p{^Lu}$", "ax1"),
            (r"^\pL$", "aBx"),
            (r"^\PL$", "1"),
            (r"^\p{LC}$", "aBx"),
            (r"^\p{Greek}$", ""),
        ] {
            let compiled = Pattern::new(pattern, case).expect(pattern);
            let found: String = ["a", "B", "x", "1"]
                .into_iter()
                .filter(|text| compiled.is_match(text.as_bytes()) == Ok(true))
                .collect();
            assert_eq!(found, matching, "{pattern}");
        }
    }
}
