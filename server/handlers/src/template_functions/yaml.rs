//! Converts YAML to values. Scalars are resolved like Go's yaml.v3: `yes` is a string, `2020-01-02` a date.

use saphyr_parser::{Event, Parser, ScalarStyle};
use sluice_template::{Fault, Room, Text, Value};

use super::dates::read_date;

/// Maximum nesting of lists and maps.
const DEPTH_MAX: usize = 50;

/// A list or map being read.
enum Open {
    List(Vec<Value>),
    Map {
        entries: Vec<(Text, Value)>,
        /// The key of the next value.
        name: Option<Text>,
    },
}

/// Decodes the first document of a text.
pub fn decode(text: &[u8], room: &mut Room) -> Result<Value, Fault> {
    const MALFORMED: &str = "the YAML is malformed";
    room.take_values(text.len() / 2)?;
    let text = std::str::from_utf8(text).map_err(Fault::failed)?;
    let mut open: Vec<(Open, usize)> = Vec::new();
    // Values with an anchor. An alias shares the value, so repeated use is free.
    let mut anchors: Vec<(usize, Value)> = Vec::new();
    for event in Parser::new_from_str(text) {
        let (event, _) =
            event.map_err(|error| Fault::failed(format_args!("{MALFORMED}: {error}")))?;
        room.step()?;
        let (value, anchor) = match event {
            Event::Scalar(text, style, anchor, _) => (scalar(&text, style), anchor),
            Event::Alias(anchor) => {
                let found = anchors.iter().rfind(|(known, _)| *known == anchor);
                (found.map_or(Value::Nil, |(_, value)| value.clone()), 0)
            }
            Event::SequenceStart(anchor, _) => {
                open.push((Open::List(Vec::new()), anchor));
                continue;
            }
            Event::MappingStart(anchor, _) => {
                let (entries, name) = (Vec::new(), None);
                open.push((Open::Map { entries, name }, anchor));
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => match open.pop() {
                Some((Open::List(items), anchor)) => (Value::list(items), anchor),
                Some((Open::Map { entries, .. }, anchor)) => (Value::map(entries), anchor),
                None => return Err(Fault::failed(MALFORMED)),
            },
            Event::DocumentEnd | Event::StreamEnd => return Ok(Value::Nil),
            Event::Nothing | Event::StreamStart | Event::DocumentStart(_) => continue,
        };
        if open.len() > DEPTH_MAX {
            return Err(Fault::Limit("values within each other"));
        }
        if anchor > 0 {
            anchors.push((anchor, value.clone()));
        }
        match open.last_mut() {
            None => return Ok(value),
            Some((Open::List(items), _)) => items.push(value),
            Some((Open::Map { entries, name }, _)) => match name.take() {
                None => *name = Some(key(&value)),
                Some(name) => entries.push((name, value)),
            },
        }
    }
    Ok(Value::Nil)
}

/// The key of an entry; a key that is not a string is formatted as text.
fn key(value: &Value) -> Text {
    match value {
        Value::Text(text) => text.clone(),
        other => {
            let mut shown = Vec::new();
            // Keys are short; an excessively long one becomes empty.
            let mut room = Room::new(100, 10_000);
            match sluice_template::show(other, &mut shown, &mut room) {
                Ok(()) => Text::new(shown),
                Err(_) => Text::new(""),
            }
        }
    }
}

fn scalar(text: &str, style: ScalarStyle) -> Value {
    if style != ScalarStyle::Plain {
        return Value::text(text);
    }
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Nil,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        ".nan" | ".NaN" | ".NAN" => return Value::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => {
            return Value::Float(f64::INFINITY);
        }
        "-.inf" | "-.Inf" | "-.INF" => return Value::Float(f64::NEG_INFINITY),
        _ => {}
    }
    let digits = text.replace('_', "");
    let unsigned = digits.strip_prefix(['+', '-']).unwrap_or(&digits);
    if !unsigned.starts_with(|letter: char| letter.is_ascii_digit() || letter == '.') {
        return Value::text(text);
    }
    if let Some(number) = whole(&digits, unsigned) {
        return Value::int(number);
    }
    let decimal = unsigned
        .bytes()
        .all(|byte| byte.is_ascii_digit() || b".eE+-".contains(&byte));
    if decimal && let Ok(number) = digits.parse() {
        return Value::Float(number);
    }
    read_date(text).map_or_else(|| Value::text(text), Value::Time)
}

fn whole(digits: &str, unsigned: &str) -> Option<i64> {
    let (radix, rest) = match unsigned.as_bytes() {
        [b'0', b'x', ..] => (16, &unsigned[2..]),
        [b'0', b'o', ..] => (8, &unsigned[2..]),
        [b'0', b'b', ..] => (2, &unsigned[2..]),
        [b'0', b'0'..=b'9', ..] => (8, &unsigned[1..]),
        _ => (10, unsigned),
    };
    if rest.starts_with(['+', '-']) {
        return None;
    }
    let sign = if digits.starts_with('-') { "-" } else { "" };
    i64::from_str_radix(&format!("{sign}{rest}"), radix).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let mut room = Room::default();
        let value = decode(text.as_bytes(), &mut room).unwrap();
        let mut out = Vec::new();
        sluice_template::show(&value, &mut out, &mut room).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn words_are_resolved_as_in_go() {
        for (yaml, expected) in [
            (
                "a: [1, 2.5, x, 'q', true, yes, ~, 0x1f, 1e3]",
                "map[a:[1 2.5 x q true yes <nil> 31 1000]]",
            ),
            (
                "d: 2020-01-02T03:04:05Z",
                "map[d:2020-01-02 03:04:05 +0000 UTC]",
            ),
            ("s: '2020-01-02'", "map[s:2020-01-02]"),
            (
                "b:\n  c: |\n    l1\n    l2\n  e: &x 5\n  f: *x\n1: one",
                "map[1:one b:map[c:l1\nl2\n e:5 f:5]]",
            ),
            ("? k\n: v", "map[k:v]"),
            ("", "<nil>"),
            ("v: 1.2.3\nw: 12:30", "map[v:1.2.3 w:12:30]"),
        ] {
            assert_eq!(shown(yaml), expected, "{yaml}");
        }
    }

    #[test]
    fn aliases_do_not_multiply() {
        let mut yaml = String::from("a0: &a0 [x]\n");
        for level in 1..40 {
            let below = level - 1;
            yaml.push_str(&format!(
                "a{level}: &a{level} [*a{below}, *a{below}, *a{below}]\n"
            ));
        }
        assert!(decode(yaml.as_bytes(), &mut Room::default()).is_ok());
    }

    #[test]
    fn depth_and_mistakes_are_refused() {
        let deep = "[".repeat(10_000);
        assert!(decode(deep.as_bytes(), &mut Room::default()).is_err());
        assert!(decode(b"a: [1", &mut Room::default()).is_err());
        assert!(decode(b"a: b: c", &mut Room::default()).is_err());
    }
}
