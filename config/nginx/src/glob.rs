//! Patterns of file names with bracket expressions (POSIX, XCU section 2.14.1), for `include`. The loader knows `*` and
//! `?`; what it finds for a wider pattern is narrowed here.

/// Whether a path is a pattern, as nginx has it.
pub fn is_pattern(path: &str) -> bool {
    path.contains(['*', '?', '['])
}

/// The pattern with `?` for each bracket expression.
pub fn widened(pattern: &str) -> String {
    let letters: Vec<char> = pattern.chars().collect();
    let mut wide = String::with_capacity(pattern.len());
    let mut at = 0;
    while at < letters.len() {
        match bracket(&letters[at..]) {
            Some((_, length)) => {
                wide.push('?');
                at += length;
            }
            None => {
                wide.push(letters[at]);
                at += 1;
            }
        }
    }
    wide
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

/// Walks both once and returns to the last `*` on a mismatch: at worst the product of the lengths.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        let taken = match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
                continue;
            }
            Some('?') => Some(1),
            Some(letter) => match bracket(&pattern[p..]) {
                Some((set, length)) => set.holds(name[n]).then_some(length),
                None => (*letter == name[n]).then_some(1),
            },
            None => None,
        };
        match (taken, star) {
            (Some(length), _) => {
                p += length;
                n += 1;
            }
            (None, Some((at, skipped))) => {
                star = Some((at, skipped + 1));
                p = at + 1;
                n = skipped + 1;
            }
            (None, None) => return false,
        }
    }
    pattern[p..].iter().all(|letter| *letter == '*')
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
    fn holds(&self, letter: char) -> bool {
        let mut rest = self.letters;
        let mut is_in = false;
        loop {
            rest = match rest {
                [] => break,
                [first, '-', last, rest @ ..] => {
                    is_in |= (*first..=*last).contains(&letter);
                    rest
                }
                [one, rest @ ..] => {
                    is_in |= *one == letter;
                    rest
                }
            };
        }
        is_in != self.is_negated
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
        ] {
            assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
        }
        assert_eq!(widened("a/*[.]c[!]x]"), "a/*?c?");
        assert!(is_pattern("[.]") && !is_pattern("a.conf"));
    }
}
