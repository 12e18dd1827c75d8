//! Arithmetic. Integers are `int64`, as in Sprig; other numbers are added exactly in decimal digits.

use alloc::string::String;
use alloc::vec::Vec;

use super::cast::{float, int};
use super::decimal::Decimal;
use super::function;
use crate::error::Fault;
use crate::function::{ANY, Call, Function};
use crate::value::{Of, Value};

pub(super) const FUNCTIONS: &[Function] = &[
    function("add", 0, ANY, |call| Ok(fold(call, 0, i64::wrapping_add))),
    function("add1", 1, 1, |call| {
        Ok(Value::int64(int(call.value(0)).wrapping_add(1)))
    }),
    function("sub", 2, 2, |call| {
        Ok(Value::int64(
            int(call.value(0)).wrapping_sub(int(call.value(1))),
        ))
    }),
    function("mul", 1, ANY, |call| Ok(fold(call, 1, i64::wrapping_mul))),
    function("div", 2, 2, |call| divide(call, i64::wrapping_div)),
    function("mod", 2, 2, |call| divide(call, i64::wrapping_rem)),
    function("max", 1, ANY, |call| {
        Ok(fold(call, int(call.value(0)), Ord::max))
    }),
    function("biggest", 1, ANY, |call| {
        Ok(fold(call, int(call.value(0)), Ord::max))
    }),
    function("min", 1, ANY, |call| {
        Ok(fold(call, int(call.value(0)), Ord::min))
    }),
    function("maxf", 1, ANY, |call| Ok(extreme(call, f64::max))),
    function("minf", 1, ANY, |call| Ok(extreme(call, f64::min))),
    function("addf", 0, ANY, |call| {
        Ok(decimals(call, Decimal::plus, |a, b| a + b, 0.0))
    }),
    function("add1f", 1, 1, |call| {
        Ok(pair(float(call.value(0)), 1.0, Decimal::plus, |a, b| a + b))
    }),
    function("subf", 1, ANY, |call| {
        Ok(decimals_from_first(call, Decimal::minus, |a, b| a - b))
    }),
    function("mulf", 1, ANY, |call| {
        Ok(decimals_from_first(call, Decimal::times, |a, b| a * b))
    }),
    function("divf", 1, ANY, |call| {
        if call.args[1..].iter().any(|value| float(value) == 0.0) {
            return Err(Fault::DivisionByZero);
        }
        Ok(decimals_from_first(call, |_, _| None, |a, b| a / b))
    }),
    function("ceil", 1, 1, |call| {
        Ok(Value::Float(ceil(float(call.value(0)))))
    }),
    function("floor", 1, 1, |call| {
        Ok(Value::Float(floor(float(call.value(0)))))
    }),
    function("round", 2, 3, round),
    function("int", 1, 1, |call| Ok(Value::int(int(call.value(0))))),
    function("int64", 1, 1, |call| Ok(Value::int64(int(call.value(0))))),
    function("float64", 1, 1, |call| {
        Ok(Value::Float(float(call.value(0))))
    }),
    function("atoi", 1, 1, |call| {
        let text = call.str(0)?;
        Ok(Value::int(text.parse().unwrap_or(0)))
    }),
    function("toDecimal", 1, 1, |call| {
        let text = super::cast::text(call.value(0), call.room)?;
        Ok(Value::int64(
            i64::from_str_radix(&text.lossy(), 8).unwrap_or(0),
        ))
    }),
    function("until", 1, 1, |call| {
        let count = call.int(0)?;
        numbers(call, 0, count, if count < 0 { -1 } else { 1 }).map(list)
    }),
    function("untilStep", 3, 3, |call| {
        let (start, stop, step) = (call.int(0)?, call.int(1)?, call.int(2)?);
        numbers(call, start, stop, step).map(list)
    }),
    function("seq", 0, ANY, seq),
];

fn fold(call: &Call<'_>, start: i64, step: fn(i64, i64) -> i64) -> Value {
    Value::int64(call.args.iter().map(int).fold(start, step))
}

fn divide(call: &Call<'_>, by: fn(i64, i64) -> i64) -> Result<Value, Fault> {
    let (number, divisor) = (int(call.value(0)), int(call.value(1)));
    if divisor == 0 {
        return Err(Fault::DivisionByZero);
    }
    Ok(Value::int64(by(number, divisor)))
}

fn extreme(call: &Call<'_>, step: fn(f64, f64) -> f64) -> Value {
    let first = float(call.value(0));
    Value::Float(call.args.iter().map(float).fold(first, step))
}

type Exact = fn(Decimal, Decimal) -> Option<Decimal>;

/// Computes exactly where the digits suffice, else with what the processor has.
fn pair(a: f64, b: f64, exact: Exact, plain: fn(f64, f64) -> f64) -> Value {
    let decimals = Decimal::of(a).zip(Decimal::of(b));
    let sum = decimals.and_then(|(a, b)| exact(a, b)?.to_float());
    Value::Float(sum.unwrap_or_else(|| plain(a, b)))
}

fn decimals(call: &Call<'_>, exact: Exact, plain: fn(f64, f64) -> f64, start: f64) -> Value {
    call.args.iter().fold(Value::Float(start), |sum, value| {
        pair(float(&sum), float(value), exact, plain)
    })
}

fn decimals_from_first(call: &Call<'_>, exact: Exact, plain: fn(f64, f64) -> f64) -> Value {
    let first = Value::Float(float(call.value(0)));
    call.args[1..].iter().fold(first, |sum, value| {
        pair(float(&sum), float(value), exact, plain)
    })
}

/// The largest whole number that is not above. From 2^52 on every number is whole.
fn floor(number: f64) -> f64 {
    if !(-4.5e15..4.5e15).contains(&number) {
        return number;
    }
    let whole = number as i64 as f64;
    if whole > number { whole - 1.0 } else { whole }
}

fn ceil(number: f64) -> f64 {
    -floor(-number)
}

fn round(call: &mut Call<'_>) -> Result<Value, Fault> {
    let number = float(call.value(0));
    let places = call.int(1)?.clamp(0, 15);
    let from = call.args.get(2).map_or(0.5, float);
    let power = 10_i64.pow(places as u32) as f64;
    let shifted = number * power;
    let whole = shifted as i64 as f64;
    let rounded = if shifted - whole >= from {
        ceil(shifted)
    } else {
        floor(shifted)
    };
    Ok(Value::Float(rounded / power))
}

/// The numbers from `start` up or down to `stop`, which is not among them.
fn numbers(call: &mut Call<'_>, start: i64, stop: i64, step: i64) -> Result<Vec<i64>, Fault> {
    let mut numbers = Vec::new();
    let mut next = start;
    while (step > 0 && next < stop) || (step < 0 && next > stop) {
        call.room.step()?;
        call.room.take_values(1)?;
        numbers.push(next);
        let Some(after) = next.checked_add(step) else {
            break;
        };
        next = after;
    }
    Ok(numbers)
}

fn list(numbers: Vec<i64>) -> Value {
    Value::list_of(numbers.into_iter().map(Value::int).collect(), Of::Int)
}

/// Numbers with spaces between them, both ends included.
fn seq(call: &mut Call<'_>) -> Result<Value, Fault> {
    let (start, step, end) = match call.args.len() {
        1 => (1, None, call.int(0)?),
        2 => (call.int(0)?, None, call.int(1)?),
        3 => (call.int(0)?, Some(call.int(1)?), call.int(2)?),
        _ => return Ok(Value::text("")),
    };
    let towards = if end < start { -1 } else { 1 };
    let step = step.unwrap_or(towards);
    let numbers = numbers(call, start, end.saturating_add(towards), step)?;
    let texts: Vec<String> = numbers
        .iter()
        .map(|number| alloc::format!("{number}"))
        .collect();
    call.made(texts.join(" "))
}
