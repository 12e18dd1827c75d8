//! `eq`, `ne`, `lt`, `le`, `gt`, `ge`: values of the same kind are comparable, others are an error of the template.

use core::cmp::Ordering;

use super::function;
use crate::error::Fault;
use crate::function::{ANY, Call, Function, wrong};
use crate::value::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    function("eq", 2, ANY, |call| {
        for at in 1..call.args.len() {
            if equal(call, call.value(0), call.value(at))? {
                return Ok(Value::Bool(true));
            }
        }
        Ok(Value::Bool(false))
    }),
    function("ne", 2, 2, |call| {
        equal(call, call.value(0), call.value(1)).map(|same| Value::Bool(!same))
    }),
    function("lt", 2, 2, |call| order(call, Ordering::is_lt)),
    function("le", 2, 2, |call| order(call, Ordering::is_le)),
    function("gt", 2, 2, |call| order(call, Ordering::is_gt)),
    function("ge", 2, 2, |call| order(call, Ordering::is_ge)),
];

fn equal(call: &Call<'_>, one: &Value, other: &Value) -> Result<bool, Fault> {
    match (one, other) {
        (Value::Nil, Value::Nil) => Ok(true),
        (Value::Nil, _) | (_, Value::Nil) => Ok(false),
        (Value::Bool(a), Value::Bool(b)) => Ok(a == b),
        (Value::Time(a), Value::Time(b)) => Ok(a == b),
        (Value::List(_) | Value::Map(_), _) => Err(wrong("what can be compared", one)),
        (_, Value::List(_) | Value::Map(_)) => Err(wrong("what can be compared", other)),
        (Value::Object(_), Value::Object(_)) => one.equals(other, &mut call.room.clone()),
        _ => compare(one, other).map(Ordering::is_eq),
    }
}

fn order(call: &Call<'_>, holds: fn(Ordering) -> bool) -> Result<Value, Fault> {
    compare(call.value(0), call.value(1)).map(|order| Value::Bool(holds(order)))
}

fn compare(one: &Value, other: &Value) -> Result<Ordering, Fault> {
    match (one, other) {
        (Value::Int(a, _) | Value::Duration(a), Value::Int(b, _) | Value::Duration(b)) => {
            Ok(a.cmp(b))
        }
        // NaN is not equal to anything and sorts last.
        (Value::Float(a), Value::Float(b)) => Ok(a.partial_cmp(b).unwrap_or(Ordering::Greater)),
        (Value::Text(a), Value::Text(b)) => Ok(a.cmp(b)),
        _ => Err(wrong("a value of the same kind", other)),
    }
}
