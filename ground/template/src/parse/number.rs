//! Number literals in Go's syntax.

use alloc::string::String;

use crate::error::Fault;
use crate::value::Value;

/// The value of a number.
pub(super) fn value(text: &str) -> Result<Value, Fault> {
    const WRONG: Fault = Fault::Syntax("an invalid number");
    if text.contains("__") || text.ends_with('_') {
        return Err(WRONG);
    }
    let digits: String = text.chars().filter(|letter| *letter != '_').collect();
    if let Some(number) = whole(&digits) {
        return Ok(Value::int(number));
    }
    let unsigned = digits.trim_start_matches(['+', '-']);
    let is_decimal = unsigned
        .bytes()
        .all(|byte| byte.is_ascii_digit() || b".eE+-".contains(&byte));
    if !is_decimal || unsigned.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(WRONG);
    }
    let number: f64 = digits.parse().map_err(|_| WRONG)?;
    if number.is_finite() {
        Ok(Value::Float(number))
    } else {
        Err(WRONG)
    }
}

/// A whole number: decimal, or with the prefix of another base. A zero in front means octal.
pub(crate) fn whole(text: &str) -> Option<i64> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'-' => ("-", &text[1..]),
        b'+' => ("", &text[1..]),
        _ => ("", text),
    };
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
        [b'0', b'o' | b'O', ..] => (8, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    if digits.starts_with(['+', '-']) {
        return None;
    }
    let mut signed = String::from(sign);
    signed.push_str(digits);
    i64::from_str_radix(&signed, radix).ok()
}
