//! Default values, conditionals, and JSON.

use super::cast::is_empty;
use super::function;
use crate::error::Fault;
use crate::function::{ANY, Call, Function, wrong};
use crate::json;
use crate::value::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    function("default", 1, ANY, |call| {
        let given = call.args.get(1).filter(|value| !is_empty(value));
        Ok(given.unwrap_or(call.value(0)).clone())
    }),
    function("empty", 1, 1, |call| {
        Ok(Value::Bool(is_empty(call.value(0))))
    }),
    function("coalesce", 0, ANY, |call| {
        let first = call.args.iter().find(|value| !is_empty(value));
        Ok(first.cloned().unwrap_or(Value::Nil))
    }),
    function("all", 0, ANY, |call| {
        Ok(Value::Bool(!call.args.iter().any(is_empty)))
    }),
    function("any", 0, ANY, |call| {
        Ok(Value::Bool(call.args.iter().any(|value| !is_empty(value))))
    }),
    function("ternary", 3, 3, ternary),
    function("fail", 1, 1, |call| Err(Fault::failed(call.str(0)?))),
    function("toJson", 1, 1, |call| encode(call, json::Form::Plain)),
    function("mustToJson", 1, 1, |call| encode(call, json::Form::Plain)),
    function("toPrettyJson", 1, 1, |call| {
        encode(call, json::Form::Pretty)
    }),
    function("mustToPrettyJson", 1, 1, |call| {
        encode(call, json::Form::Pretty)
    }),
    function("toRawJson", 1, 1, |call| encode(call, json::Form::Raw)),
    function("mustToRawJson", 1, 1, |call| encode(call, json::Form::Raw)),
    function("fromJson", 1, 1, |call| {
        Ok(decode(call)?.unwrap_or(Value::Nil))
    }),
    function("mustFromJson", 1, 1, |call| {
        decode(call)?.ok_or(Fault::failed("the text is not JSON"))
    }),
];

fn ternary(call: &mut Call<'_>) -> Result<Value, Fault> {
    match call.value(2) {
        Value::Bool(true) => Ok(call.value(0).clone()),
        Value::Bool(false) => Ok(call.value(1).clone()),
        other => Err(wrong("true or false", other)),
    }
}

fn encode(call: &mut Call<'_>, form: json::Form) -> Result<Value, Fault> {
    let mut out = alloc::vec::Vec::new();
    json::encode(call.value(0), form, &mut out, call.room)?;
    Ok(Value::text(out))
}

fn decode(call: &mut Call<'_>) -> Result<Option<Value>, Fault> {
    let text = call.text(0)?;
    json::decode(text.as_bytes(), call.room)
}
