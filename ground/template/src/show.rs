//! Formats values as text, as Go's `%v` does. Other formats are in `printf`.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::error::Fault;
use crate::limits::DEPTH_MAX;
use crate::room::Room;
use crate::value::Value;

/// Appends `value` as `print` shows it.
pub fn show(value: &Value, out: &mut Vec<u8>, room: &mut Room) -> Result<(), Fault> {
    show_at(value, out, room, 0)
}

/// What [`show`] appends.
pub(crate) fn shown(value: &Value, room: &mut Room) -> Result<Vec<u8>, Fault> {
    let mut out = Vec::new();
    show(value, &mut out, room)?;
    Ok(out)
}

fn show_at(value: &Value, out: &mut Vec<u8>, room: &mut Room, depth: usize) -> Result<(), Fault> {
    room.step()?;
    if depth > DEPTH_MAX {
        return Err(Fault::Limit("values within each other"));
    }
    let start = out.len();
    match value {
        Value::Nil => out.extend_from_slice(b"<nil>"),
        Value::Bool(truth) => out.extend_from_slice(if *truth { b"true" } else { b"false" }),
        Value::Int(number, _) => out.extend_from_slice(format!("{number}").as_bytes()),
        Value::Float(number) => write_float(*number, out),
        Value::Text(text) => out.extend_from_slice(text.as_bytes()),
        Value::Time(time) => time.show(out),
        Value::Duration(nanos) => sluice_message::span::push(out, *nanos),
        Value::Object(object) => return show_at(&object.plain(), out, room, depth + 1),
        Value::List(list) => {
            out.push(b'[');
            for (at, item) in list.items().iter().enumerate() {
                if at > 0 {
                    out.push(b' ');
                }
                show_at(item, out, room, depth + 1)?;
            }
            out.push(b']');
            return Ok(());
        }
        Value::Map(map) => {
            out.extend_from_slice(b"map[");
            for (at, (name, item)) in map.entries().iter().enumerate() {
                if at > 0 {
                    out.push(b' ');
                }
                room.take(name.as_bytes().len())?;
                out.extend_from_slice(name.as_bytes());
                out.push(b':');
                show_at(item, out, room, depth + 1)?;
            }
            out.push(b']');
            return Ok(());
        }
    }
    room.take(out.len() - start)
}

/// Appends a number as Go's `%v` does: with an exponent below 1e-4 and from a million on.
pub fn write_float(number: f64, out: &mut Vec<u8>) {
    write_shortest(number, 6, out);
}

/// The shortest digits that mean `number`, with an exponent below 1e-4 and from `10^exponent_min` on.
pub(crate) fn write_shortest(number: f64, exponent_min: i32, out: &mut Vec<u8>) {
    if let Some(name) = unusual(number) {
        out.extend_from_slice(name);
        return;
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = split_exponent(&scientific);
    if number != 0.0 && !(-4..exponent_min).contains(&exponent) {
        out.extend_from_slice(digits.as_bytes());
        write_exponent('e', exponent, out);
    } else {
        out.extend_from_slice(format!("{number}").as_bytes());
    }
}

/// How numbers that have no digits are shown.
pub(crate) fn unusual(number: f64) -> Option<&'static [u8]> {
    if number.is_nan() {
        Some(b"NaN")
    } else if number == f64::INFINITY {
        Some(b"+Inf")
    } else if number == f64::NEG_INFINITY {
        Some(b"-Inf")
    } else {
        None
    }
}

/// Digits and exponent of a number in the scientific form of the library.
pub(crate) fn split_exponent(scientific: &str) -> (&str, i32) {
    let (digits, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    (digits, exponent.parse().unwrap_or(0))
}

/// Appends an exponent of at least two digits with its sign, as C and Go write it.
pub(crate) fn write_exponent(letter: char, exponent: i32, out: &mut Vec<u8>) {
    let sign = if exponent < 0 { '-' } else { '+' };
    let text: String = format!("{letter}{sign}{:02}", exponent.abs());
    out.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_in_go() {
        for (number, expected) in [
            (1.0, "1"),
            (1.5e3, "1500"),
            (100_000.0, "100000"),
            (1e6, "1e+06"),
            (1e21, "1e+21"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (-2.5, "-2.5"),
            (1.234_567_890_1e10, "1.2345678901e+10"),
            (0.0, "0"),
            (f64::INFINITY, "+Inf"),
        ] {
            let mut out = Vec::new();
            write_float(number, &mut out);
            assert_eq!(String::from_utf8_lossy(&out), expected);
        }
    }
}
