//! Dictionaries.

use alloc::rc::Rc;
use alloc::vec::Vec;

use super::cast;
use super::function;
use crate::error::Fault;
use crate::function::{ANY, Call, Function};
use crate::limits::DEPTH_MAX;
use crate::room::Room;
use crate::value::{Map, Of, Text, Value};

pub(super) const FUNCTIONS: &[Function] = &[
    function("dict", 0, ANY, dict),
    function("get", 2, 2, |call| {
        let map = call.map(0)?;
        Ok(map.find(call.text(1)?).unwrap_or_else(|| Value::text("")))
    }),
    function("set", 3, 3, |call| {
        let map = call.map(0)?;
        map.set(call.text(1)?.clone(), call.value(2).clone(), call.room)?;
        Ok(Value::Map(map))
    }),
    function("unset", 2, 2, |call| {
        let map = call.map(0)?;
        map.unset(call.text(1)?);
        Ok(Value::Map(map))
    }),
    function("hasKey", 2, 2, |call| {
        Ok(Value::Bool(call.map(0)?.find(call.text(1)?).is_some()))
    }),
    function("pluck", 1, ANY, pluck),
    function("keys", 0, ANY, keys),
    function("values", 1, 1, |call| {
        let entries = call.map(0)?.entries();
        call.room.take_values(entries.len())?;
        Ok(Value::list(
            entries.into_iter().map(|(_, value)| value).collect(),
        ))
    }),
    function("pick", 1, ANY, |call| choose(call, true)),
    function("omit", 1, ANY, |call| choose(call, false)),
    function("merge", 1, ANY, |call| merge(call, Keep::Old)),
    function("mustMerge", 1, ANY, |call| merge(call, Keep::Old)),
    function("mergeOverwrite", 1, ANY, |call| merge(call, Keep::New)),
    function("mustMergeOverwrite", 1, ANY, |call| merge(call, Keep::New)),
    function("dig", 3, ANY, dig),
    function("deepCopy", 1, 1, |call| copy(call.value(0), call.room, 0)),
    function("mustDeepCopy", 1, 1, |call| {
        copy(call.value(0), call.room, 0)
    }),
];

/// Which value stays where two maps have the same name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keep {
    Old,
    New,
}

fn dict(call: &mut Call<'_>) -> Result<Value, Fault> {
    let mut entries = Vec::new();
    for pair in call.args.chunks(2) {
        let name = cast::text(&pair[0], call.room)?;
        call.room.take(name.as_bytes().len() + 64)?;
        let value = pair.get(1).cloned().unwrap_or_else(|| Value::text(""));
        entries.push((name, value));
    }
    Ok(Value::map(entries))
}

fn pluck(call: &mut Call<'_>) -> Result<Value, Fault> {
    let name = call.text(0)?;
    let mut found = Vec::new();
    for at in 1..call.args.len() {
        found.extend(call.map(at)?.find(name));
    }
    Ok(Value::list(found))
}

fn keys(call: &mut Call<'_>) -> Result<Value, Fault> {
    let mut names = Vec::new();
    for at in 0..call.args.len() {
        let map = call.map(at)?;
        call.room.take_values(map.len())?;
        names.extend(map.entries().into_iter().map(|(name, _)| Value::Text(name)));
    }
    Ok(Value::list_of(names, Of::Text))
}

fn choose(call: &mut Call<'_>, named: bool) -> Result<Value, Fault> {
    let map = call.map(0)?;
    let mut names = Vec::new();
    for at in 1..call.args.len() {
        names.push(call.text(at)?);
    }
    call.room.take_values(map.len() * 2)?;
    let entries = map.entries().into_iter();
    Ok(Value::map(
        entries.filter(|(name, _)| names.contains(&name) == named),
    ))
}

fn merge(call: &mut Call<'_>, keep: Keep) -> Result<Value, Fault> {
    let target = call.map(0)?;
    for at in 1..call.args.len() {
        let source = call.map(at)?;
        merge_into(&target, &source, keep, call.room, 0)?;
    }
    Ok(Value::Map(target))
}

fn merge_into(
    target: &Rc<Map>,
    source: &Rc<Map>,
    keep: Keep,
    room: &mut Room,
    depth: usize,
) -> Result<(), Fault> {
    if depth > DEPTH_MAX {
        return Err(Fault::Limit("values within each other"));
    }
    for (name, value) in source.entries() {
        room.step()?;
        match (target.find(&name), &value) {
            (Some(Value::Map(old)), Value::Map(new)) => {
                merge_into(&old, new, keep, room, depth + 1)?;
            }
            (Some(old), _) if keep == Keep::Old && !cast::is_empty(&old) => {}
            (Some(_), new) if keep == Keep::New && cast::is_empty(new) => {}
            (Some(_) | None, _) => target.set(name, value, room)?,
        }
    }
    Ok(())
}

/// `dig "a" "b" default map`: the value at a path of names.
fn dig(call: &mut Call<'_>) -> Result<Value, Fault> {
    let last = call.args.len() - 1;
    let mut map = call.map(last)?;
    for at in 0..last - 1 {
        let Some(found) = map.find(call.text(at)?) else {
            return Ok(call.value(last - 1).clone());
        };
        if at == last - 2 {
            return Ok(found);
        }
        match found {
            Value::Map(inner) => map = inner,
            other => return Err(crate::function::wrong("a map", &other)),
        }
    }
    Ok(Value::Map(map))
}

fn copy(value: &Value, room: &mut Room, depth: usize) -> Result<Value, Fault> {
    room.step()?;
    if depth > DEPTH_MAX {
        return Err(Fault::Limit("values within each other"));
    }
    match value {
        Value::List(list) => {
            room.take_values(list.items().len())?;
            let mut items = Vec::with_capacity(list.items().len());
            for item in list.items() {
                items.push(copy(item, room, depth + 1)?);
            }
            Ok(Value::list_of(items, list.of()))
        }
        Value::Map(map) => {
            room.take_values(map.len() * 2)?;
            let mut entries: Vec<(Text, Value)> = Vec::with_capacity(map.len());
            for (name, item) in map.entries() {
                entries.push((name, copy(&item, room, depth + 1)?));
            }
            Ok(Value::map(entries))
        }
        other => Ok(other.clone()),
    }
}
