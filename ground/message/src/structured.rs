//! Structured field values (RFC 9651), as far as fields that we act on use them: single items, and lists of items.

/// What an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bare {
    /// `?1` or `?0`
    Boolean(bool),
    /// `"text"`
    String,
    /// `name`
    Token,
    /// A number, a date or a sequence of bytes.
    Other,
}

/// The kind of the item that `text` is (RFC 9651, section 4.2.3); `None` if it is malformed, or more than an item.
pub fn item(text: &[u8]) -> Option<Bare> {
    let (kind, rest) = read_item(trim(text))?;
    rest.is_empty().then_some(kind)
}

/// The items of a list (RFC 9651, section 4.2.1) with their text, parameters included; `None` if it is malformed or
/// has an inner list.
pub fn list(text: &[u8]) -> Option<alloc::vec::Vec<(Bare, &[u8])>> {
    let mut items = alloc::vec::Vec::new();
    let mut rest = trim(text);
    while !rest.is_empty() {
        let (kind, after) = read_item(rest)?;
        items.push((kind, &rest[..rest.len() - after.len()]));
        let Some(next) = trim_start(after).strip_prefix(b",") else {
            return trim_start(after).is_empty().then_some(items);
        };
        rest = trim_start(next);
        if rest.is_empty() {
            return None;
        }
    }
    Some(items)
}

/// Whether `text` can be a token (RFC 9651, section 3.3.4).
pub fn is_token(text: &[u8]) -> bool {
    matches!(read_bare(text), Some((Bare::Token, b"")))
}

/// Whether `text` can be a string (RFC 9651, section 3.3.3): printable ASCII.
pub fn is_string(text: &[u8]) -> bool {
    text.iter().all(|byte| matches!(byte, b' '..=b'~'))
}

fn trim(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|byte| *byte != b' ');
    trim_start(&text[..end.map_or(0, |at| at + 1)])
}

fn trim_start(text: &[u8]) -> &[u8] {
    let start = text.iter().position(|byte| !matches!(byte, b' ' | b'\t'));
    &text[start.unwrap_or(text.len())..]
}

/// An item with its parameters, and what follows them.
fn read_item(text: &[u8]) -> Option<(Bare, &[u8])> {
    let (kind, mut rest) = read_bare(text)?;
    while let Some(parameter) = rest.strip_prefix(b";") {
        let key = trim_start(parameter);
        if !matches!(key.first()?, b'a'..=b'z' | b'*') {
            return None;
        }
        rest = after(
            key,
            |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'.' | b'*'),
        );
        if let Some(value) = rest.strip_prefix(b"=") {
            rest = read_bare(value)?.1;
        }
    }
    Some((kind, rest))
}

fn read_bare(text: &[u8]) -> Option<(Bare, &[u8])> {
    match text {
        [b'?', b'0', rest @ ..] => Some((Bare::Boolean(false), rest)),
        [b'?', b'1', rest @ ..] => Some((Bare::Boolean(true), rest)),
        [b'"', rest @ ..] => read_string(rest).map(|rest| (Bare::String, rest)),
        [b'a'..=b'z' | b'A'..=b'Z' | b'*', ..] => Some((Bare::Token, after(text, is_of_token))),
        [b':', rest @ ..] => {
            let rest = after(rest, |byte| {
                byte.is_ascii_alphanumeric() || b"+/=".contains(&byte)
            });
            Some((Bare::Other, rest.strip_prefix(b":")?))
        }
        [b'@', number @ ..] | number => {
            let digits = number.strip_prefix(b"-").unwrap_or(number);
            let rest = after(digits, |byte| byte.is_ascii_digit());
            if rest.len() == digits.len() {
                return None;
            }
            match rest.strip_prefix(b".") {
                None => Some((Bare::Other, rest)),
                Some(fraction) => {
                    let rest = after(fraction, |byte| byte.is_ascii_digit());
                    (rest.len() < fraction.len()).then_some((Bare::Other, rest))
                }
            }
        }
    }
}

/// What follows the end of a string whose opening quote was read.
fn read_string(mut text: &[u8]) -> Option<&[u8]> {
    loop {
        text = match text {
            [b'"', rest @ ..] => return Some(rest),
            [b'\\', b'"' | b'\\', rest @ ..] => rest,
            [b'\\', ..] => return None,
            [b' '..=b'~', rest @ ..] => rest,
            _ => return None,
        };
    }
}

fn is_of_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&byte)
}

fn after(text: &[u8], is_part: impl Fn(u8) -> bool) -> &[u8] {
    let end = text.iter().position(|byte| !is_part(*byte));
    &text[end.unwrap_or(text.len())..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_read_with_their_parameters() {
        for (text, kind) in [
            ("?1", Some(Bare::Boolean(true))),
            (" ?0 ", Some(Bare::Boolean(false))),
            (
                "?1;a;b=1.5;c=\"x;\\\"y\";d=t/o:k;e=:YQ==:;f=@-5",
                Some(Bare::Boolean(true)),
            ),
            ("?1; a=?0", Some(Bare::Boolean(true))),
            ("\"a, b\"", Some(Bare::String)),
            ("edge.example", Some(Bare::Token)),
            ("-12.5", Some(Bare::Other)),
            ("?2", None),
            ("?1, ?1", None),
            ("?1;A", None),
            ("?1;a=", None),
            ("?1 ;a", None),
            ("\"a", None),
            ("\"a\\b\"", None),
            ("1.", None),
            ("(a b)", None),
            ("", None),
        ] {
            assert_eq!(item(text.as_bytes()), kind, "{text}");
        }
    }

    #[test]
    fn lists_keep_the_texts_of_their_items() {
        let texts = |text: &'static str| -> Option<alloc::vec::Vec<&'static [u8]>> {
            Some(
                list(text.as_bytes())?
                    .into_iter()
                    .map(|(_, text)| text)
                    .collect(),
            )
        };
        let expected: [&[u8]; 2] = [b"a;error=x", b"\"b, c\""];
        assert_eq!(texts(" a;error=x ,\t\"b, c\" ").unwrap(), expected);
        assert_eq!(texts("").unwrap().len(), 0);
        for malformed in ["a,", "a b", "(a), b", ", a", "a;=1"] {
            assert!(texts(malformed).is_none(), "{malformed}");
        }
    }

    #[test]
    fn names_are_tokens_where_they_can_be() {
        for (text, expected) in [
            ("edge", true),
            ("a.b:81", true),
            ("", false),
            ("a b", false),
            ("1a", false),
        ] {
            assert_eq!(is_token(text.as_bytes()), expected, "{text}");
        }
        assert!(is_string(b"a \"b\""));
        assert!(!is_string("\u{e9}".as_bytes()) && !is_string(b"a\n"));
    }
}
