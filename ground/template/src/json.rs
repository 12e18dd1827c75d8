//! Conversion of values to JSON and back, with the escapes and the number formats of Go's encoding/json.

use alloc::format;
use alloc::vec::Vec;

use crate::error::Fault;
use crate::limits::DEPTH_MAX;
use crate::room::Room;
use crate::show::write_shortest;
use crate::value::{Text, Value};

/// How JSON is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// On one line, with `<`, `>` and `&` as escapes.
    Plain,
    /// On many lines.
    Pretty,
    /// As plain, but without these escapes.
    Raw,
}

/// Appends `value`.
pub fn encode(value: &Value, form: Form, out: &mut Vec<u8>, room: &mut Room) -> Result<(), Fault> {
    encode_at(value, form, out, room, 0)
}

fn encode_at(
    value: &Value,
    form: Form,
    out: &mut Vec<u8>,
    room: &mut Room,
    depth: usize,
) -> Result<(), Fault> {
    room.step()?;
    if depth > DEPTH_MAX {
        return Err(Fault::Limit("values within each other"));
    }
    let start = out.len();
    match value {
        Value::Nil => out.extend_from_slice(b"null"),
        Value::Bool(truth) => out.extend_from_slice(if *truth { b"true" } else { b"false" }),
        Value::Int(number, _) | Value::Duration(number) => {
            out.extend_from_slice(format!("{number}").as_bytes());
        }
        Value::Float(number) => write_number(*number, out)?,
        Value::Text(text) => write_text(text.as_bytes(), form, out),
        Value::Time(time) => {
            out.push(b'"');
            crate::time::format(time, "2006-01-02T15:04:05.999999999Z07:00", out);
            out.push(b'"');
        }
        Value::Object(object) => return encode_at(&object.plain(), form, out, room, depth + 1),
        Value::List(list) => {
            out.push(b'[');
            for (at, item) in list.items().iter().enumerate() {
                separate(at, form, out, depth);
                encode_at(item, form, out, room, depth + 1)?;
            }
            end(list.items().len(), form, out, depth);
            out.push(b']');
            return room.take(2);
        }
        Value::Map(map) => {
            out.push(b'{');
            for (at, (name, item)) in map.entries().iter().enumerate() {
                separate(at, form, out, depth);
                let from = out.len();
                write_text(name.as_bytes(), form, out);
                out.push(b':');
                if form == Form::Pretty {
                    out.push(b' ');
                }
                room.take(out.len() - from)?;
                encode_at(item, form, out, room, depth + 1)?;
            }
            end(map.len(), form, out, depth);
            out.push(b'}');
            return room.take(2);
        }
    }
    room.take(out.len() - start)
}

fn separate(at: usize, form: Form, out: &mut Vec<u8>, depth: usize) {
    if at > 0 {
        out.push(b',');
    }
    if form == Form::Pretty {
        out.push(b'\n');
        out.extend(core::iter::repeat_n(b' ', 2 * (depth + 1)));
    }
}

fn end(count: usize, form: Form, out: &mut Vec<u8>, depth: usize) {
    if form == Form::Pretty && count > 0 {
        out.push(b'\n');
        out.extend(core::iter::repeat_n(b' ', 2 * depth));
    }
}

fn write_number(number: f64, out: &mut Vec<u8>) -> Result<(), Fault> {
    if !number.is_finite() {
        return Err(Fault::failed("JSON has no such number"));
    }
    if number != 0.0 && (1e-6..1e-4).contains(&number.abs()) {
        // JSON takes an exponent from 1e-7 downwards only.
        out.extend_from_slice(format!("{number}").as_bytes());
        return Ok(());
    }
    let start = out.len();
    write_shortest(number, 21, out);
    // Go writes `e-7` in JSON where it prints `e-07`.
    let tail = out[start..].len();
    if tail >= 4 && out[out.len() - 4..].starts_with(b"e-0") {
        let at = out.len() - 2;
        out.remove(at);
    }
    Ok(())
}

fn write_text(text: &[u8], form: Form, out: &mut Vec<u8>) {
    out.push(b'"');
    for letter in alloc::string::String::from_utf8_lossy(text).chars() {
        let short: &[u8] = match letter {
            '"' => b"\\\"",
            '\\' => b"\\\\",
            '\n' => b"\\n",
            '\r' => b"\\r",
            '\t' => b"\\t",
            '\x08' => b"\\b",
            '\x0c' => b"\\f",
            _ => b"",
        };
        let escaped = match letter {
            '<' | '>' | '&' => form != Form::Raw,
            '\u{2028}' | '\u{2029}' | '\0'..='\x1f' => true,
            _ => false,
        };
        if !short.is_empty() {
            out.extend_from_slice(short);
        } else if escaped {
            out.extend_from_slice(format!("\\u{:04x}", u32::from(letter)).as_bytes());
        } else {
            out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
    out.push(b'"');
}

/// The value of a JSON text, `None` if it is none. All numbers become floats, as in Go.
pub fn decode(text: &[u8], room: &mut Room) -> Result<Option<Value>, Fault> {
    // A byte of text becomes at most one value.
    room.take_values(text.len() / 2)?;
    match serde_json::from_slice::<serde_json::Value>(text) {
        Ok(json) => value(json, room).map(Some),
        Err(_) => Ok(None),
    }
}

fn value(json: serde_json::Value, room: &mut Room) -> Result<Value, Fault> {
    use serde_json::Value as Json;
    room.step()?;
    Ok(match json {
        Json::Null => Value::Nil,
        Json::Bool(truth) => Value::Bool(truth),
        Json::Number(number) => Value::Float(number.as_f64().unwrap_or(0.0)),
        Json::String(text) => Value::text(text),
        Json::Array(items) => {
            let mut list = Vec::with_capacity(items.len());
            for item in items {
                list.push(value(item, room)?);
            }
            Value::list(list)
        }
        Json::Object(entries) => {
            let mut map = Vec::with_capacity(entries.len());
            for (name, item) in entries {
                map.push((Text::new(name), value(item, room)?));
            }
            Value::map(map)
        }
    })
}
