//! Lists. No function changes a list in place; each returns a new one.

use alloc::vec::Vec;

use super::cast::{is_empty, text, texts};
use super::function;
use crate::error::Fault;
use crate::function::{ANY, Call, Function};
use crate::room::Room;
use crate::value::{Of, Text, Value};

pub(super) const FUNCTIONS: &[Function] = &[
    function("list", 0, ANY, |call| whole(call.args, call.room)),
    function("tuple", 0, ANY, |call| whole(call.args, call.room)),
    function("first", 1, 1, first),
    function("mustFirst", 1, 1, first),
    function("last", 1, 1, last),
    function("mustLast", 1, 1, last),
    function("rest", 1, 1, |call| part(call, 1, 0)),
    function("mustRest", 1, 1, |call| part(call, 1, 0)),
    function("initial", 1, 1, |call| part(call, 0, 1)),
    function("mustInitial", 1, 1, |call| part(call, 0, 1)),
    function("append", 2, 2, append),
    function("mustAppend", 2, 2, append),
    function("push", 2, 2, append),
    function("mustPush", 2, 2, append),
    function("prepend", 2, 2, prepend),
    function("mustPrepend", 2, 2, prepend),
    function("concat", 0, ANY, concat),
    function("reverse", 1, 1, reverse),
    function("mustReverse", 1, 1, reverse),
    function("uniq", 1, 1, uniq),
    function("mustUniq", 1, 1, uniq),
    function("without", 1, ANY, without),
    function("mustWithout", 1, ANY, without),
    function("has", 2, 2, has),
    function("mustHas", 2, 2, has),
    function("compact", 1, 1, compact),
    function("mustCompact", 1, 1, compact),
    function("slice", 1, 3, slice),
    function("mustSlice", 1, 3, slice),
    function("chunk", 2, 2, chunk),
    function("mustChunk", 2, 2, chunk),
    function("join", 2, 2, join),
    function("sortAlpha", 1, 1, sort),
    function("splitList", 2, 2, split_list),
    function("split", 2, 2, |call| split_map(call, None)),
    function("splitn", 3, 3, |call| {
        let count = call.int(1)?;
        split_map(call, Some(count))
    }),
    function("toStrings", 1, 1, |call| {
        let texts = texts(call.value(0), call.room)?;
        Ok(list_of_texts(texts))
    }),
];

fn whole(items: &[Value], room: &mut Room) -> Result<Value, Fault> {
    room.take_values(items.len())?;
    Ok(Value::list(items.to_vec()))
}

fn list_of_texts(texts: impl IntoIterator<Item = Text>) -> Value {
    Value::list_of(texts.into_iter().map(Value::Text).collect(), Of::Text)
}

/// The items of the list at a place.
fn items(call: &mut Call<'_>, at: usize) -> Result<Vec<Value>, Fault> {
    let Value::List(list) = call.list(at)? else {
        return Ok(Vec::new());
    };
    call.room.take_values(list.items().len())?;
    Ok(list.items().to_vec())
}

fn first(call: &mut Call<'_>) -> Result<Value, Fault> {
    Ok(items(call, 0)?.into_iter().next().unwrap_or(Value::Nil))
}

fn last(call: &mut Call<'_>) -> Result<Value, Fault> {
    Ok(items(call, 0)?.pop().unwrap_or(Value::Nil))
}

/// The list without so many items at its beginning and end.
fn part(call: &mut Call<'_>, front: usize, back: usize) -> Result<Value, Fault> {
    let items = items(call, 0)?;
    let end = items.len().saturating_sub(back);
    Ok(Value::list(items[front.min(end)..end].to_vec()))
}

fn append(call: &mut Call<'_>) -> Result<Value, Fault> {
    let mut items = items(call, 0)?;
    items.push(call.value(1).clone());
    Ok(Value::list(items))
}

fn prepend(call: &mut Call<'_>) -> Result<Value, Fault> {
    let mut items = items(call, 0)?;
    items.insert(0, call.value(1).clone());
    Ok(Value::list(items))
}

fn concat(call: &mut Call<'_>) -> Result<Value, Fault> {
    let mut all = Vec::new();
    for at in 0..call.args.len() {
        all.extend(items(call, at)?);
    }
    Ok(Value::list(all))
}

fn reverse(call: &mut Call<'_>) -> Result<Value, Fault> {
    let mut items = items(call, 0)?;
    items.reverse();
    Ok(Value::list(items))
}

fn contains(items: &[Value], value: &Value, room: &mut Room) -> Result<bool, Fault> {
    for item in items {
        if item.equals(value, room)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn uniq(call: &mut Call<'_>) -> Result<Value, Fault> {
    let mut kept: Vec<Value> = Vec::new();
    for item in items(call, 0)? {
        if !contains(&kept, &item, call.room)? {
            kept.push(item);
        }
    }
    Ok(Value::list(kept))
}

fn without(call: &mut Call<'_>) -> Result<Value, Fault> {
    let mut kept = Vec::new();
    for item in items(call, 0)? {
        if !contains(&call.args[1..], &item, call.room)? {
            kept.push(item);
        }
    }
    Ok(Value::list(kept))
}

fn has(call: &mut Call<'_>) -> Result<Value, Fault> {
    if matches!(call.value(1), Value::Nil) {
        return Ok(Value::Bool(false));
    }
    let items = items(call, 1)?;
    contains(&items, call.value(0), call.room).map(Value::Bool)
}

fn compact(call: &mut Call<'_>) -> Result<Value, Fault> {
    let mut items = items(call, 0)?;
    items.retain(|item| !is_empty(item));
    Ok(Value::list(items))
}

fn slice(call: &mut Call<'_>) -> Result<Value, Fault> {
    let items = items(call, 0)?;
    let place = |at: usize, otherwise: usize| -> Result<usize, Fault> {
        let Some(_) = call.args.get(at) else {
            return Ok(otherwise);
        };
        let number = call.int(at)?;
        let place = usize::try_from(number).ok();
        place
            .filter(|place| *place <= items.len())
            .ok_or(Fault::Index(number))
    };
    let (start, end) = (place(1, 0)?, place(2, items.len())?);
    if start > end {
        return Err(Fault::Index(start as i64));
    }
    let Value::List(list) = call.list(0)? else {
        return Ok(Value::list(Vec::new()));
    };
    Ok(Value::list_of(items[start..end].to_vec(), list.of()))
}

fn chunk(call: &mut Call<'_>) -> Result<Value, Fault> {
    let size = usize::try_from(call.int(0)?).ok();
    let size = size
        .filter(|size| *size > 0)
        .ok_or(Fault::failed("a chunk has at least one value"))?;
    let items = items(call, 1)?;
    Ok(Value::list(
        items
            .chunks(size)
            .map(|chunk| Value::list(chunk.to_vec()))
            .collect(),
    ))
}

fn join(call: &mut Call<'_>) -> Result<Value, Fault> {
    let separator = call.text(0)?;
    let texts = texts(call.value(1), call.room)?;
    let mut out = Vec::new();
    for (at, text) in texts.iter().enumerate() {
        let before = if at == 0 { &[] } else { separator.as_bytes() };
        call.room.take(before.len() + text.as_bytes().len())?;
        out.extend_from_slice(before);
        out.extend_from_slice(text.as_bytes());
    }
    Ok(Value::text(out))
}

fn sort(call: &mut Call<'_>) -> Result<Value, Fault> {
    let mut texts = texts(call.value(0), call.room)?;
    texts.sort();
    Ok(list_of_texts(texts))
}

/// The parts of a text between a separator; an empty separator parts every character.
fn parts(call: &mut Call<'_>, count: Option<i64>, of: usize) -> Result<Vec<Text>, Fault> {
    let (separator, whole) = (call.str(0)?, text(call.value(of), call.room)?);
    let whole = whole.lossy();
    let max = match count {
        Some(count) if count < 0 => usize::MAX,
        Some(count) => usize::try_from(count).unwrap_or(0),
        None => usize::MAX,
    };
    call.room.take_values(whole.len() + 1)?;
    if max == 0 {
        return Ok(Vec::new());
    }
    if separator.is_empty() {
        let mut parts: Vec<Text> = Vec::new();
        for (at, letter) in whole.char_indices() {
            if parts.len() + 1 == max {
                parts.push(Text::new(&whole[at..]));
                break;
            }
            parts.push(Text::new(letter.encode_utf8(&mut [0; 4]).as_bytes()));
        }
        return Ok(parts);
    }
    Ok(whole.splitn(max, &*separator).map(Text::new).collect())
}

fn split_list(call: &mut Call<'_>) -> Result<Value, Fault> {
    call.text(1)?;
    Ok(list_of_texts(parts(call, None, 1)?))
}

/// The parts as a map with the names `_0`, `_1` …
fn split_map(call: &mut Call<'_>, count: Option<i64>) -> Result<Value, Fault> {
    let of = call.args.len() - 1;
    call.text(of)?;
    let parts = parts(call, count, of)?;
    let named = parts.into_iter().enumerate();
    Ok(Value::map_of(
        named.map(|(at, part)| (Text::new(alloc::format!("_{at}")), Value::Text(part))),
        Of::Text,
    ))
}
