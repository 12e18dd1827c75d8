//! Front matter of a document: YAML between lines of `---`, TOML between lines of `+++`, JSON between lines with its
//! braces.

use sluice_template::{Fault, Room, Text, Value, json};

use super::dates::read_date;
use super::yaml;

/// A document with its front matter.
pub struct Document<'a> {
    /// The front matter; an empty map if there is none.
    pub meta: Value,
    /// The rest of the document.
    pub body: &'a [u8],
}

/// Separates the front matter from `text`.
pub fn split<'a>(text: &'a [u8], room: &mut Room) -> Result<Document<'a>, Fault> {
    let none = Document {
        meta: Value::map([]),
        body: text,
    };
    let start = text.len() - text.trim_ascii_start().len();
    let (first, mut at) = line(text, start);
    let close: &[u8] = match first.trim_ascii() {
        b"---" => b"---",
        b"+++" => b"+++",
        b"{" => b"}",
        _ => return Ok(none),
    };
    let data_start = at;
    loop {
        if at >= text.len() {
            return Err(Fault::failed("the front matter has no end"));
        }
        let (this, next) = line(text, at);
        if this.trim_ascii_end() == close {
            let data = &text[data_start..at];
            let meta = match close {
                b"---" => yaml::decode(data, room)?,
                b"+++" => toml(data, room)?,
                _ => {
                    let whole = [b"{", data, b"}"].concat();
                    json::decode(&whole, room)?.ok_or(Fault::failed("the JSON is malformed"))?
                }
            };
            let meta = match meta {
                Value::Nil => Value::map([]),
                map @ Value::Map(_) => map,
                _ => return Err(Fault::failed("front matter is a map")),
            };
            // The end of the closing line is part of the body.
            return Ok(Document {
                meta,
                body: &text[at + close.len()..],
            });
        }
        at = next;
    }
}

/// The line at `at`, and the offset of the next one.
fn line(text: &[u8], at: usize) -> (&[u8], usize) {
    match memchr::memchr(b'\n', &text[at..]) {
        Some(length) => (&text[at..at + length], at + length + 1),
        None => (&text[at..], text.len()),
    }
}

fn toml(data: &[u8], room: &mut Room) -> Result<Value, Fault> {
    room.take_values(data.len() / 2)?;
    let text = std::str::from_utf8(data).map_err(Fault::failed)?;
    let table: toml::Table = text
        .parse()
        .map_err(|_| Fault::failed("the TOML is malformed"))?;
    Ok(from_toml(toml::Value::Table(table)))
}

fn from_toml(value: toml::Value) -> Value {
    match value {
        toml::Value::String(text) => Value::text(text),
        toml::Value::Integer(number) => Value::int64(number),
        toml::Value::Float(number) => Value::Float(number),
        toml::Value::Boolean(truth) => Value::Bool(truth),
        toml::Value::Datetime(date) => from_date(&date.to_string()),
        toml::Value::Array(items) => Value::list(items.into_iter().map(from_toml).collect()),
        toml::Value::Table(table) => Value::map(
            table
                .into_iter()
                .map(|(name, value)| (Text::new(name), from_toml(value))),
        ),
    }
}

/// Converts a date, with or without a time; any other text remains a string.
pub(super) fn from_date(text: &str) -> Value {
    read_date(text).map_or_else(|| Value::text(text), Value::Time)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> (String, String) {
        let mut room = Room::default();
        let document = split(text.as_bytes(), &mut room).unwrap();
        let mut out = Vec::new();
        sluice_template::show(&document.meta, &mut out, &mut room).unwrap();
        let body = String::from_utf8_lossy(document.body).into_owned();
        (String::from_utf8(out).unwrap(), body)
    }

    #[test]
    fn data_is_taken_off_the_front() {
        for (text, meta, body) in [
            ("---\na: 1\n---\nbody\n---\nx", "map[a:1]", "\nbody\n---\nx"),
            ("\n--- \na: x\n---\r\nbody", "map[a:x]", "\r\nbody"),
            (
                "+++\na = 1\nd = 2020-01-02\n+++\nb",
                "map[a:1 d:2020-01-02 00:00:00 +0000 UTC]",
                "\nb",
            ),
            ("{\n\"a\": 1\n}\nb", "map[a:1]", "\nb"),
            ("{\"a\": 1}\nb", "map[]", "{\"a\": 1}\nb"),
            ("plain", "map[]", "plain"),
            ("", "map[]", ""),
            ("---\n---\n", "map[]", "\n"),
        ] {
            assert_eq!(shown(text), (meta.to_owned(), body.to_owned()), "{text:?}");
        }
    }

    #[test]
    fn data_without_an_end_is_refused() {
        for text in [
            "---\na: 1\n",
            "---",
            "+++\na = 1",
            "---\n- 1\n---\n",
            "+++\nx\n+++\n",
        ] {
            assert!(
                split(text.as_bytes(), &mut Room::default()).is_err(),
                "{text:?}"
            );
        }
    }
}
