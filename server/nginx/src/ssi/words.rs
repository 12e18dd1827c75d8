//! Expansion of variables in parameters, evaluation of conditions, and encoding of values. `variables` provides the
//! values.

use sluice_message::hex::push_escape;
use sluice_message::layout::LocalTime;

use crate::groups::{Case, Pattern};

/// Maximum length of a text after expansion, in bytes. Otherwise a page could double a variable with a few bytes
/// each time.
pub const TEXT_BYTES_MAX: usize = 64 * 1024;

/// A source of variable values.
pub trait Known {
    /// Appends the value of a variable; false if it has none.
    fn push(&self, name: &str, out: &mut Vec<u8>) -> bool;
}

/// Expands the variables in `text`. `\$` is a dollar sign, `\\` a backslash.
pub fn expanded(text: &[u8], known: &impl Known) -> Result<Vec<u8>, String> {
    let wrong = || {
        let text = String::from_utf8_lossy(text);
        format!("invalid variable name in \"{text}\"")
    };
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match (byte, after.first()) {
            (b'\\', Some(next @ (b'$' | b'\\'))) => {
                out.push(*next);
                rest = &after[1..];
            }
            (b'$', _) => {
                let braced = after.strip_prefix(b"{");
                let from = braced.unwrap_or(after);
                let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
                let length = from.iter().take_while(|byte| is_letter(byte)).count();
                let (name, behind) = from.split_at(length);
                let behind = match braced {
                    Some(_) => behind.strip_prefix(b"}").ok_or_else(wrong)?,
                    None => behind,
                };
                if name.is_empty() {
                    return Err(wrong());
                }
                known.push(&lower(name), &mut out);
                rest = behind;
            }
            _ => out.push(byte),
        }
        if out.len() > TEXT_BYTES_MAX {
            return Err("too long a text in SSI command".to_owned());
        }
    }
    Ok(out)
}

/// The name of a variable in lowercase.
pub fn lower(name: &[u8]) -> String {
    String::from_utf8_lossy(name).to_ascii_lowercase()
}

/// The groups of a pattern that matched.
#[derive(Debug, Default)]
pub struct Groups {
    pub text: Vec<u8>,
    pub places: Vec<Option<(u32, u32)>>,
    pub named: Vec<(String, usize)>,
}

impl Groups {
    pub fn number(&self, index: usize) -> Option<&[u8]> {
        let (start, end) = self.places.get(index).copied().flatten()?;
        Some(&self.text[start as usize..end as usize])
    }
}

/// Evaluates a condition: `text`, `text = text`, `text != text`, `text = /pattern/`. Also returns the groups of a
/// pattern that matched.
pub fn holds(condition: &[u8], known: &impl Known) -> Result<(bool, Option<Groups>), String> {
    let is_end = |byte: &u8| matches!(byte, b' ' | b'=' | b'!');
    let end = condition.iter().position(is_end).unwrap_or(condition.len());
    let left = expanded(&condition[..end], known)?;
    let rest = condition[end..].trim_ascii_start();
    let (equal, right) = match rest {
        [] => return Ok((!left.is_empty(), None)),
        [b'=', right @ ..] => (true, right),
        [b'!', b'=', right @ ..] => (false, right),
        _ => {
            let condition = String::from_utf8_lossy(condition);
            return Err(format!("invalid expression in \"{condition}\""));
        }
    };
    let right = right.trim_ascii_start();
    let Some(pattern) = right.strip_prefix(b"/") else {
        return Ok(((left == expanded(right, known)?) == equal, None));
    };
    let Some(pattern) = pattern.strip_suffix(b"/") else {
        let right = String::from_utf8_lossy(right);
        return Err(format!("invalid regular expression \"{right}\""));
    };
    let text = expanded(&unescaped(pattern), known)?;
    let text = String::from_utf8_lossy(&text);
    let pattern =
        Pattern::new("if expr", &text, Case::Kept, None).map_err(|refusal| refusal.message)?;
    let mut groups = Groups::default();
    let found = pattern
        .find(&left, &mut groups.places)
        .map_err(|fault| fault.message.into_owned())?;
    groups.named = names(&text, &pattern);
    groups.text = left;
    Ok((found == equal, found.then_some(groups)))
}

/// Removes the backslashes that escape slashes in a pattern.
fn unescaped(pattern: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(pattern.len());
    let mut bytes = pattern.iter().peekable();
    while let Some(byte) = bytes.next() {
        match (byte, bytes.peek()) {
            (b'\\', Some(b'/')) => {}
            (b'\\', Some(_)) => {
                // The backslash belongs to the pattern and must survive expansion.
                out.extend_from_slice(b"\\\\");
                let next = *bytes.next().expect("it was seen");
                match next {
                    b'\\' => out.extend_from_slice(b"\\\\"),
                    b'$' => out.extend_from_slice(b"\\$"),
                    next => out.push(next),
                }
            }
            _ => out.push(*byte),
        }
    }
    out
}

/// The named groups of a pattern.
fn names(text: &str, pattern: &Pattern) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    for (opening, closing) in [("(?<", '>'), ("(?P<", '>'), ("(?'", '\'')] {
        for (at, _) in text.match_indices(opening) {
            let name = text[at + opening.len()..].split(closing).next();
            let name = name.unwrap_or_default().to_ascii_lowercase();
            let key = sluice_route::placeholder::nginx::variable_name(&name);
            if let Some(number) = pattern.group_of(&key) {
                found.push((name, number));
            }
        }
    }
    found
}

/// The encoding of values in a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// None.
    None,
    /// Percent-encoding.
    Url,
    /// HTML entities.
    #[default]
    Entity,
}

impl Encoding {
    pub fn named(name: &[u8]) -> Option<Encoding> {
        Some(match name {
            b"none" => Encoding::None,
            b"url" => Encoding::Url,
            b"entity" => Encoding::Entity,
            _ => return None,
        })
    }

    pub fn push(self, value: &[u8], out: &mut Vec<u8>) {
        for byte in value {
            match (self, byte) {
                (Encoding::None, _) => out.push(*byte),
                (Encoding::Url, b' ' | b'"' | b'#' | b'%' | b'\'' | b'<' | b'>' | b'\\' | b'^')
                | (Encoding::Url, b'`' | b'{' | b'|' | b'}' | 0..=0x1f | 0x7f..) => {
                    push_escape(out, *byte);
                }
                (Encoding::Entity, b'&') => out.extend_from_slice(b"&amp;"),
                (Encoding::Entity, b'<') => out.extend_from_slice(b"&lt;"),
                (Encoding::Entity, b'>') => out.extend_from_slice(b"&gt;"),
                (Encoding::Entity, b'"') => out.extend_from_slice(b"&quot;"),
                (Encoding::Url | Encoding::Entity, _) => out.push(*byte),
            }
        }
    }
}

/// Appends a time formatted like the C library's `strftime` in English; unknown conversions are copied.
pub fn push_time(format: &[u8], seconds: i64, time: &LocalTime<'_>, out: &mut Vec<u8>) {
    let mut bytes = format.iter();
    while let Some(byte) = bytes.next() {
        if *byte != b'%' {
            out.push(*byte);
            continue;
        }
        let Some(letter) = bytes.next() else {
            out.push(b'%');
            return;
        };
        let calendar = &time.calendar;
        let day = |layout: &str, out: &mut Vec<u8>| time.push(layout, out);
        match letter {
            b'a' => day("Mon", out),
            b'A' => day("Monday", out),
            b'b' | b'h' => day("Jan", out),
            b'B' => day("January", out),
            b'c' => day("Mon Jan _2 15:04:05 2006", out),
            b'C' => {
                out.extend_from_slice(format!("{:02}", calendar.year.div_euclid(100)).as_bytes())
            }
            b'd' => day("02", out),
            b'D' | b'x' => day("01/02/06", out),
            b'e' => day("_2", out),
            b'F' => day("2006-01-02", out),
            b'H' => day("15", out),
            b'I' => day("03", out),
            b'j' => day("002", out),
            b'm' => day("01", out),
            b'M' => day("04", out),
            b'n' => out.push(b'\n'),
            b'p' => day("PM", out),
            b'P' => day("pm", out),
            b'r' => day("03:04:05 PM", out),
            b'R' => day("15:04", out),
            b's' => out.extend_from_slice(seconds.to_string().as_bytes()),
            b'S' => day("05", out),
            b't' => out.push(b'\t'),
            b'T' | b'X' => day("15:04:05", out),
            b'y' => day("06", out),
            b'Y' => day("2006", out),
            b'z' => day("-0700", out),
            b'Z' => day("MST", out),
            b'%' => out.push(b'%'),
            other => out.extend_from_slice(&[b'%', *other]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Two;

    impl Known for Two {
        fn push(&self, name: &str, out: &mut Vec<u8>) -> bool {
            let value = match name {
                "a" => "abc",
                "uri" => "/ssi/x",
                _ => return false,
            };
            out.extend_from_slice(value.as_bytes());
            true
        }
    }

    #[test]
    fn variables_have_their_values() {
        for (text, expected) in [
            ("$a ${A}x $none|", Ok("abc abcx |")),
            ("a\\$v\\\\ \\x", Ok("a$v\\ \\x")),
            ("$", Err("invalid variable name in \"$\"")),
            ("${a", Err("invalid variable name in \"${a\"")),
            ("$-", Err("invalid variable name in \"$-\"")),
        ] {
            let found =
                expanded(text.as_bytes(), &Two).map(|bytes| String::from_utf8(bytes).unwrap());
            assert_eq!(found.as_deref().map_err(String::as_str), expected, "{text}");
        }
    }

    #[test]
    fn conditions_compare() {
        for (text, expected) in [
            ("text", Some(true)),
            ("", Some(false)),
            ("0", Some(true)),
            ("$none", Some(false)),
            ("$a=abc", Some(true)),
            ("$a   !=  abc", Some(false)),
            ("$a == abc", Some(false)),
            ("$none = ", Some(true)),
            ("a = b = c", Some(false)),
            ("$a = /^a/", Some(true)),
            ("$a != /x/", Some(true)),
            ("$uri = /^\\/ssi/", Some(true)),
            ("$a = /^\\w+\\Z/", Some(true)),
            ("$a = /(z|$a)/", Some(true)),
            ("a b = a b", None),
            ("$a = /x", None),
            ("$a = /x$/", None),
            ("$a = /(/", None),
        ] {
            let found = holds(text.as_bytes(), &Two).ok().map(|(found, _)| found);
            assert_eq!(found, expected, "{text}");
        }
        let (_, groups) = holds(b"$a = /(.)(?P<Rest>.*)/", &Two).unwrap();
        let groups = groups.expect("it matches");
        assert_eq!(groups.number(1), Some(&b"a"[..]));
        assert_eq!(groups.named, [("rest".to_owned(), 2)]);
    }

    #[test]
    fn values_are_made_harmless() {
        let written = |encoding: Encoding, text: &str| {
            let mut out = Vec::new();
            encoding.push(text.as_bytes(), &mut out);
            String::from_utf8(out).unwrap()
        };
        let text = "<a href='x'>&\"é%|";
        assert_eq!(written(Encoding::None, text), text);
        assert_eq!(
            written(Encoding::Entity, text),
            "&lt;a href='x'&gt;&amp;&quot;é%|"
        );
        assert_eq!(
            written(Encoding::Url, text),
            "%3Ca%20href=%27x%27%3E&%22%C3%A9%25%7C"
        );
    }

    #[test]
    fn times_are_written_as_in_c() {
        let time = LocalTime::utc(1_795_365_231, 0);
        let mut out = Vec::new();
        push_time(
            b"%A, %d-%b-%Y %H:%M:%S %Z|%j %s %e %y%%%q%",
            1_795_365_231,
            &time,
            &mut out,
        );
        let expected = "Sunday, 22-Nov-2026 16:33:51 UTC|326 1795365231 22 26%%q%";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
