//! Patterns of file names with bracket expressions (POSIX, XCU section 2.14.1), for `include`. The loader knows `*` and
//! `?`; what it finds for a wider pattern is narrowed here.

use sluice_route::glob::Glob;

/// Whether a path is a pattern, as nginx has it.
pub fn is_pattern(path: &str) -> bool {
    path.contains(['*', '?', '['])
}

/// The pattern with `?` for each bracket expression.
pub fn widened(pattern: &str) -> String {
    rewritten(
        pattern,
        |_, out| out.push('?'),
        |letter, out| out.push(letter),
    )
}

/// Whether the components of `path` match those of `pattern`. Both have equally many where the loader found the path
/// for the wider pattern.
pub fn fits(pattern: &str, path: &str) -> bool {
    let mut pairs = pattern.split('/').zip(path.split('/'));
    pairs.all(|(pattern, name)| {
        // A dot at the beginning of a name is matched by a dot only.
        (!name.starts_with('.') || pattern.starts_with('.')) && matches(pattern, name)
    })
}

/// Whether a name matches a component.
fn matches(pattern: &str, name: &str) -> bool {
    Glob::parse(&in_words_of_go(pattern)).is_ok_and(|glob| glob.matches(name.as_bytes()))
}

/// The pattern as Go writes it, where `^` negates and a letter with a backslash stands for itself.
fn in_words_of_go(pattern: &str) -> String {
    rewritten(
        pattern,
        |set, out| set.push_to(out),
        |letter, out| {
            if matches!(letter, '[' | '\\') {
                out.push('\\');
            }
            out.push(letter);
        },
    )
}

/// The pattern with its bracket expressions and other letters written anew.
fn rewritten(
    pattern: &str,
    push_bracket: impl Fn(&Bracket<'_>, &mut String),
    push_letter: impl Fn(char, &mut String),
) -> String {
    let letters: Vec<char> = pattern.chars().collect();
    let mut out = String::with_capacity(pattern.len());
    let mut rest = &letters[..];
    while let [letter, after @ ..] = rest {
        match bracket(rest) {
            Some((set, length)) => {
                push_bracket(&set, &mut out);
                rest = &rest[length..];
            }
            None => {
                push_letter(*letter, &mut out);
                rest = after;
            }
        }
    }
    out
}

/// What stands between two brackets.
struct Bracket<'a> {
    letters: &'a [char],
    is_negated: bool,
}

/// The bracket expression at the beginning of `pattern`, and its length. A bracket that none closes is a letter.
fn bracket(pattern: &[char]) -> Option<(Bracket<'_>, usize)> {
    let inside = pattern.strip_prefix(&['['])?;
    let is_negated = matches!(inside.first(), Some('!' | '^'));
    let start = usize::from(is_negated);
    // A bracket that comes first stands for itself.
    let length = inside
        .iter()
        .skip(start + 1)
        .position(|letter| matches!(letter, ']' | '/'))?;
    let end = start + 1 + length;
    (inside[end] == ']').then_some((
        Bracket {
            letters: &inside[start..end],
            is_negated,
        },
        end + 2,
    ))
}

impl Bracket<'_> {
    fn push_to(&self, out: &mut String) {
        out.push_str(if self.is_negated { "[^" } else { "[" });
        let mut rest = self.letters;
        while let [first, more @ ..] = rest {
            out.extend(['\\', *first]);
            rest = match more {
                ['-', last, more @ ..] => {
                    out.extend(['-', '\\', *last]);
                    more
                }
                more => more,
            };
        }
        out.push(']');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_match_letters() {
        for (pattern, name, expected) in [
            ("*[.]conf", "a.conf", true),
            ("*[.]conf", "aconf", false),
            ("[a-c]?", "bx", true),
            ("[a-c]?", "dx", false),
            ("[!a-c]", "d", true),
            ("[^a-c]", "b", false),
            ("[]x]", "]", true),
            ("[!]x]", "]", false),
            ("[a-]", "-", true),
            ("[x", "[x", true),
            ("s[/]t", "s/t", false),
            ("[.]a", ".a", false),
            ("*", ".a", false),
            (".[a]", ".a", true),
            ("*/[ab]*", "s/bc", true),
            ("a\\b[]^-]", "a\\b^", true),
            ("[^-]", "^", true),
            ("é[à-é]", "éâ", true),
        ] {
            assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
        }
        assert_eq!(widened("a/*[.]c[!]x]"), "a/*?c?");
        assert!(is_pattern("[.]") && !is_pattern("a.conf"));
    }
}
