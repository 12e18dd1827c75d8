//! Regular expressions in Go's syntax.

use alloc::vec::Vec;

use sluice_route::regexp::Regexp;

use super::function;
use crate::error::Fault;
use crate::function::{Call, Function};
use crate::lex::first_letter;
use crate::value::{Of, Value};

pub(super) const FUNCTIONS: &[Function] = &[
    function("regexMatch", 2, 2, |call| {
        // Sprig takes a malformed expression for one that matches nothing.
        Ok(Value::Bool(pattern(call).is_ok_and(|pattern| {
            call.text(1)
                .is_ok_and(|text| pattern.find_at(text.as_bytes(), 0).is_some())
        })))
    }),
    function("mustRegexMatch", 2, 2, |call| {
        let found = pattern(call)?.find_at(call.text(1)?.as_bytes(), 0);
        Ok(Value::Bool(found.is_some()))
    }),
    function("regexFind", 2, 2, find),
    function("mustRegexFind", 2, 2, find),
    function("regexFindAll", 3, 3, find_all),
    function("mustRegexFindAll", 3, 3, find_all),
    function("regexReplaceAll", 3, 3, replace),
    function("mustRegexReplaceAll", 3, 3, replace),
    function("regexReplaceAllLiteral", 3, 3, replace_literal),
    function("mustRegexReplaceAllLiteral", 3, 3, replace_literal),
    function("regexSplit", 3, 3, split),
    function("mustRegexSplit", 3, 3, split),
    function("regexQuoteMeta", 1, 1, quote),
];

fn pattern(call: &mut Call<'_>) -> Result<Regexp, Fault> {
    // Compiling costs far more than a step does.
    call.room.take(16 * 1024)?;
    Regexp::of_characters(&call.str(0)?).map_err(Fault::failed)
}

/// All places of a text that match, at most `count` where that is not negative.
fn places(
    call: &mut Call<'_>,
    pattern: &Regexp,
    text: &[u8],
    count: i64,
) -> Result<Vec<(usize, usize)>, Fault> {
    let max = usize::try_from(count).unwrap_or(usize::MAX);
    let mut places: Vec<(usize, usize)> = Vec::new();
    let mut at = 0;
    while places.len() < max
        && let Some((from, to)) = pattern.find_at(text, at)
    {
        call.room.step()?;
        call.room.take_values(1)?;
        // Nothing right behind a match is none of its own.
        if to > from || places.last().is_none_or(|(_, end)| *end != from) {
            places.push((from, to));
        }
        at = if to > from {
            to
        } else {
            to + first_letter(&text[to..]).map_or(1, char::len_utf8)
        };
        if at > text.len() {
            break;
        }
    }
    Ok(places)
}

fn find(call: &mut Call<'_>) -> Result<Value, Fault> {
    let pattern = pattern(call)?;
    let text = call.text(1)?.as_bytes();
    let (from, to) = pattern.find_at(text, 0).unwrap_or((0, 0));
    call.made(&text[from..to])
}

fn find_all(call: &mut Call<'_>) -> Result<Value, Fault> {
    let pattern = pattern(call)?;
    let (text, count) = (call.text(1)?.as_bytes(), call.int(2)?);
    let places = places(call, &pattern, text, count)?;
    let found = places
        .into_iter()
        .map(|(from, to)| Value::text(&text[from..to]));
    Ok(Value::list_of(found.collect(), Of::Text))
}

fn replace(call: &mut Call<'_>) -> Result<Value, Fault> {
    let pattern = pattern(call)?;
    let (text, with) = (call.text(1)?, call.text(2)?);
    let found = places(call, &pattern, text.as_bytes(), -1)?.len();
    // Each `$` stands for a part of a match, and all matches together are no longer than the text.
    let groups = memchr::memchr_iter(b'$', with.as_bytes()).count();
    call.room
        .take(found.saturating_mul(with.as_bytes().len()))?;
    call.room
        .take(groups.saturating_mul(text.as_bytes().len()))?;
    let replaced = pattern.replace_all(text.as_bytes(), with.as_bytes());
    call.made(replaced)
}

fn replace_literal(call: &mut Call<'_>) -> Result<Value, Fault> {
    let pattern = pattern(call)?;
    let (text, with) = (call.text(1)?.as_bytes(), call.text(2)?);
    let mut out = Vec::new();
    let mut at = 0;
    for (from, to) in places(call, &pattern, text, -1)? {
        call.room.take(with.as_bytes().len())?;
        out.extend_from_slice(&text[at..from]);
        out.extend_from_slice(with.as_bytes());
        at = to;
    }
    out.extend_from_slice(&text[at..]);
    call.made(out)
}

fn split(call: &mut Call<'_>) -> Result<Value, Fault> {
    let pattern = pattern(call)?;
    let (text, count) = (call.text(1)?.as_bytes(), call.int(2)?);
    if count == 0 {
        return Ok(Value::list_of(Vec::new(), Of::Text));
    }
    let mut parts = Vec::new();
    let mut at = 0;
    for (from, to) in places(call, &pattern, text, -1)? {
        if count > 0 && parts.len() as i64 == count - 1 {
            break;
        }
        // Nothing at the very beginning parts nothing from the rest.
        if to == 0 || (from == to && from == text.len()) {
            continue;
        }
        parts.push(Value::text(&text[at..from]));
        at = to;
    }
    parts.push(Value::text(&text[at..]));
    Ok(Value::list_of(parts, Of::Text))
}

fn quote(call: &mut Call<'_>) -> Result<Value, Fault> {
    let mut out = Vec::new();
    for byte in call.text(0)?.as_bytes() {
        if b"\\.+*?()|[]{}^$".contains(byte) {
            out.push(b'\\');
        }
        out.push(*byte);
    }
    call.made(out)
}
