//! Conversion of values of any type to numbers, texts and lists, as in Sprig.

use alloc::vec::Vec;

use crate::error::Fault;
use crate::room::Room;
use crate::show::shown;
use crate::value::{Text, Value};

/// A whole number; 0 for what is none.
pub(super) fn int(value: &Value) -> i64 {
    match value {
        Value::Int(number, _) | Value::Duration(number) => *number,
        Value::Float(number) => *number as i64,
        Value::Bool(truth) => i64::from(*truth),
        Value::Text(text) => whole(&text.lossy()).unwrap_or(0),
        Value::Nil | Value::List(_) | Value::Map(_) | Value::Time(_) | Value::Object(_) => 0,
    }
}

/// A number; 0 for what is none.
pub(super) fn float(value: &Value) -> f64 {
    match value {
        Value::Int(number, _) | Value::Duration(number) => *number as f64,
        Value::Float(number) => *number,
        Value::Bool(truth) => f64::from(u8::from(*truth)),
        Value::Text(text) => text.lossy().parse().unwrap_or(0.0),
        Value::Nil | Value::List(_) | Value::Map(_) | Value::Time(_) | Value::Object(_) => 0.0,
    }
}

/// A whole number in a text, also with a fraction of zeros and with the prefix of another base.
fn whole(text: &str) -> Option<i64> {
    let number = match text.split_once('.') {
        Some((number, zeros)) if zeros.bytes().all(|byte| byte == b'0') => number,
        Some(_) => return None,
        None => text,
    };
    crate::parse::whole_number(number)
}

/// A text: itself, or what `print` shows.
pub(super) fn text(value: &Value, room: &mut Room) -> Result<Text, Fault> {
    match value {
        Value::Text(text) => Ok(text.clone()),
        other => Ok(Text::new(shown(other, room)?)),
    }
}

/// The texts of a list, without those of nothing; another value alone.
pub(super) fn texts(value: &Value, room: &mut Room) -> Result<Vec<Text>, Fault> {
    match value.plain() {
        Value::List(list) => {
            room.take_values(list.items().len())?;
            let items = list.items().iter();
            items
                .filter(|item| !matches!(item, Value::Nil))
                .map(|item| text(item, room))
                .collect()
        }
        Value::Nil => Ok(Vec::new()),
        other => Ok(alloc::vec![text(&other, room)?]),
    }
}

/// Whether a value says nothing: Sprig's idea of it.
pub(super) fn is_empty(value: &Value) -> bool {
    !value.is_true()
}
