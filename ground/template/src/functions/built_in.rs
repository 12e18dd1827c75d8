//! The functions of Go's text/template: printing, escaping, length and indexing. Comparisons are in `compare`; `and`
//! and `or` are part of the language.

use alloc::format;
use alloc::vec::Vec;

use super::function;
use crate::error::Fault;
use crate::function::{ANY, Call, Function, wrong};
use crate::printf::printf;
use crate::show::show;
use crate::value::{IntKind, Value};

pub(super) const FUNCTIONS: &[Function] = &[
    function("call", 1, ANY, |call| {
        Err(wrong("a function", call.value(0)))
    }),
    function("html", 0, ANY, html),
    function("index", 1, ANY, index),
    function("js", 0, ANY, js),
    function("len", 1, 1, len),
    function("not", 1, 1, |call| {
        Ok(Value::Bool(!call.value(0).is_true()))
    }),
    function("print", 0, ANY, |call| {
        let text = print(call)?;
        Ok(Value::text(text))
    }),
    function("printf", 1, ANY, |call| {
        let format = call.str(0)?;
        printf(&format, &call.args[1..], call.room).map(Value::text)
    }),
    function("println", 0, ANY, println),
    function("urlquery", 0, ANY, urlquery),
];

/// Concatenates all values, with a space between two values that are both not texts.
fn print(call: &mut Call<'_>) -> Result<Vec<u8>, Fault> {
    let mut out = Vec::new();
    for (at, value) in call.args.iter().enumerate() {
        let both = |at: usize| !matches!(call.args[at], Value::Text(_));
        if at > 0 && both(at) && both(at - 1) {
            out.push(b' ');
        }
        show(value, &mut out, call.room)?;
    }
    Ok(out)
}

fn println(call: &mut Call<'_>) -> Result<Value, Fault> {
    let mut out = Vec::new();
    for (at, value) in call.args.iter().enumerate() {
        if at > 0 {
            out.push(b' ');
        }
        show(value, &mut out, call.room)?;
    }
    out.push(b'\n');
    Ok(Value::text(out))
}

fn html(call: &mut Call<'_>) -> Result<Value, Fault> {
    let text = print(call)?;
    let mut out = Vec::with_capacity(text.len());
    for byte in text {
        match byte {
            b'&' => out.extend_from_slice(b"&amp;"),
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            b'"' => out.extend_from_slice(b"&#34;"),
            b'\'' => out.extend_from_slice(b"&#39;"),
            0 => out.extend_from_slice("\u{fffd}".as_bytes()),
            other => out.push(other),
        }
    }
    call.made(out)
}

fn js(call: &mut Call<'_>) -> Result<Value, Fault> {
    let text = print(call)?;
    let mut out = Vec::with_capacity(text.len());
    for chunk in text.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '\\' | '\'' | '"' => {
                    out.push(b'\\');
                    out.push(letter as u8);
                }
                '<' | '>' | '&' | '=' => {
                    out.extend_from_slice(format!("\\u{:04X}", u32::from(letter)).as_bytes());
                }
                letter if letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}') => {
                    out.extend_from_slice(format!("\\u{:04X}", u32::from(letter)).as_bytes());
                }
                letter => out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        out.extend_from_slice(chunk.invalid());
    }
    call.made(out)
}

fn urlquery(call: &mut Call<'_>) -> Result<Value, Fault> {
    let text = print(call)?;
    let mut out = Vec::new();
    sluice_message::uri::encode_query(&text, &mut out);
    call.made(out)
}

fn len(call: &mut Call<'_>) -> Result<Value, Fault> {
    let length = match call.value(0).plain() {
        Value::Text(text) => text.as_bytes().len(),
        Value::List(list) => list.items().len(),
        Value::Map(map) => map.len(),
        other => return Err(wrong("a text, list or map", &other)),
    };
    Ok(Value::int(length as i64))
}

fn index(call: &mut Call<'_>) -> Result<Value, Fault> {
    let mut value = call.value(0).clone();
    for (at, place) in call.args.iter().enumerate().skip(1) {
        value = match value.plain() {
            Value::Map(map) => {
                let name = call.text(at)?;
                map.find(name).unwrap_or_else(|| map.missing())
            }
            Value::List(list) => {
                let number = call.int(at)?;
                let found = usize::try_from(number).ok();
                let found = found.and_then(|at| list.items().get(at));
                found.cloned().ok_or(Fault::Index(number))?
            }
            Value::Text(text) => {
                let number = call.int(at)?;
                let found = usize::try_from(number).ok();
                let byte = found.and_then(|at| text.as_bytes().get(at));
                let byte = byte.ok_or(Fault::Index(number))?;
                Value::Int(i64::from(*byte), IntKind::Uint8)
            }
            _ => return Err(wrong("a list, map or text", place)),
        };
    }
    if call.args.len() == 1 && matches!(value, Value::Nil) {
        return Err(wrong("a list, map or text", &value));
    }
    Ok(value)
}
