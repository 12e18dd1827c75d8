//! The kind and type of a value.

use super::function;
use crate::function::Function;
use crate::value::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    function("typeOf", 1, 1, |call| {
        let name = call.value(0).type_name();
        call.made(&*name)
    }),
    function("kindOf", 1, 1, |call| {
        let name = call.value(0).kind_name();
        call.made(name)
    }),
    function("typeIs", 2, 2, |call| {
        let name = call.value(1).type_name();
        Ok(Value::Bool(call.text(0)?.as_bytes() == name.as_bytes()))
    }),
    function("typeIsLike", 2, 2, |call| {
        let name = call.value(1).type_name();
        let wanted = call.text(0)?.as_bytes();
        let pointed = name.strip_prefix('*').unwrap_or(&name);
        Ok(Value::Bool(
            wanted == name.as_bytes() || wanted == pointed.as_bytes(),
        ))
    }),
    function("kindIs", 2, 2, |call| {
        let name = call.value(1).kind_name();
        Ok(Value::Bool(call.text(0)?.as_bytes() == name.as_bytes()))
    }),
    function("deepEqual", 2, 2, |call| {
        call.value(0)
            .equals(call.value(1), call.room)
            .map(Value::Bool)
    }),
];
