//! Strings: trimming, slicing, case, quoting. Functions that work on words are in `words`.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::cast;
use super::function;
use crate::error::Fault;
use crate::function::{ANY, Call, Function};
use crate::quote::{Letters, quote};
use crate::show::show;
use crate::value::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    function("trim", 1, 1, |call| {
        let text = call.str(0)?;
        call.made(text.trim())
    }),
    function("trimAll", 2, 2, trim_all),
    function("trimall", 2, 2, trim_all),
    function("trimSuffix", 2, 2, |call| {
        let (end, text) = (call.text(0)?, call.text(1)?.as_bytes());
        call.made(text.strip_suffix(end.as_bytes()).unwrap_or(text))
    }),
    function("trimPrefix", 2, 2, |call| {
        let (start, text) = (call.text(0)?, call.text(1)?.as_bytes());
        call.made(text.strip_prefix(start.as_bytes()).unwrap_or(text))
    }),
    function("upper", 1, 1, |call| {
        let text = call.str(0)?;
        call.made(text.to_uppercase())
    }),
    function("lower", 1, 1, |call| {
        let text = call.str(0)?;
        call.made(text.to_lowercase())
    }),
    function("repeat", 2, 2, repeat),
    function("substr", 3, 3, substr),
    function("trunc", 2, 2, trunc),
    function("contains", 2, 2, |call| {
        let (part, text) = (call.text(0)?, call.text(1)?);
        let found = memchr::memmem::find(text.as_bytes(), part.as_bytes());
        Ok(Value::Bool(found.is_some()))
    }),
    function("hasPrefix", 2, 2, |call| {
        let (start, text) = (call.text(0)?, call.text(1)?);
        Ok(Value::Bool(text.as_bytes().starts_with(start.as_bytes())))
    }),
    function("hasSuffix", 2, 2, |call| {
        let (end, text) = (call.text(0)?, call.text(1)?);
        Ok(Value::Bool(text.as_bytes().ends_with(end.as_bytes())))
    }),
    function("quote", 0, ANY, |call| {
        quoted(call, |text, out| quote(text, Letters::All, out))
    }),
    function("squote", 0, ANY, |call| {
        quoted(call, |text, out| {
            out.push(b'\'');
            out.extend_from_slice(text);
            out.push(b'\'');
        })
    }),
    function("cat", 0, ANY, |call| {
        quoted(call, |text, out| out.extend_from_slice(text))
    }),
    function("indent", 2, 2, |call| indent(call, "")),
    function("nindent", 2, 2, |call| indent(call, "\n")),
    function("replace", 3, 3, replace),
    function("plural", 3, 3, |call| {
        let at = usize::from(call.int(2)? != 1);
        Ok(Value::Text(call.text(at)?.clone()))
    }),
    function("toString", 1, 1, |call| {
        cast::text(call.value(0), call.room).map(Value::Text)
    }),
    function("nospace", 1, 1, |call| {
        let text: String = call.str(0)?.split_whitespace().collect();
        call.made(text)
    }),
    function("abbrev", 2, 2, |call| {
        let (width, text) = (call.int(0)?, call.text(1)?);
        abbreviate(call, text.as_bytes(), 0, width)
    }),
    function("abbrevboth", 3, 3, |call| {
        let (left, right, text) = (call.int(0)?, call.int(1)?, call.text(2)?);
        if right < 4 || left > 0 && right < 7 {
            return Ok(Value::Text(text.clone()));
        }
        abbreviate(call, text.as_bytes(), left, right)
    }),
];

fn trim_all(call: &mut Call<'_>) -> Result<Value, Fault> {
    let (letters, text) = (call.str(0)?, call.str(1)?);
    call.made(text.trim_matches(|letter| letters.contains(letter)))
}

fn repeat(call: &mut Call<'_>) -> Result<Value, Fault> {
    let (count, text) = (call.int(0)?, call.text(1)?.as_bytes());
    let count = usize::try_from(count).map_err(|_| Fault::Index(count))?;
    // Taken before it is made: the count may come from a client.
    call.room.take(count.saturating_mul(text.len()))?;
    Ok(Value::text(text.repeat(count)))
}

/// `substr start end text`, in bytes; a negative place means the beginning or the end.
fn substr(call: &mut Call<'_>) -> Result<Value, Fault> {
    let (start, end, text) = (call.int(0)?, call.int(1)?, call.text(2)?.as_bytes());
    let from = usize::try_from(start).unwrap_or(0);
    let to = usize::try_from(end).map_or(text.len(), |end| end.min(text.len()));
    let part = text.get(from..to).ok_or(Fault::Index(start))?;
    call.made(part)
}

/// `trunc count text`: so many bytes of the beginning, or of the end where it is negative.
fn trunc(call: &mut Call<'_>) -> Result<Value, Fault> {
    let (count, text) = (call.int(0)?, call.text(1)?.as_bytes());
    let length = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    let part = if length >= text.len() {
        text
    } else if count < 0 {
        &text[text.len() - length..]
    } else {
        &text[..length]
    };
    call.made(part)
}

/// All values but those of nothing, with spaces between them.
fn quoted(call: &mut Call<'_>, write: fn(&[u8], &mut Vec<u8>)) -> Result<Value, Fault> {
    let mut out = Vec::new();
    for value in call.args.iter().filter(|v| !matches!(v, Value::Nil)) {
        let mut text = Vec::new();
        show(value, &mut text, call.room)?;
        if !out.is_empty() {
            out.push(b' ');
        }
        write(&text, &mut out);
    }
    call.made(out)
}

fn indent(call: &mut Call<'_>, before: &str) -> Result<Value, Fault> {
    let (count, text) = (call.int(0)?, call.str(1)?);
    let count = usize::try_from(count).map_err(|_| Fault::Index(count))?;
    let lines = 1 + text.matches('\n').count();
    call.room.take(count.saturating_mul(lines))?;
    let pad = " ".repeat(count);
    let padded = text.replace('\n', &format!("\n{pad}"));
    call.made(format!("{before}{pad}{padded}"))
}

fn replace(call: &mut Call<'_>) -> Result<Value, Fault> {
    let (old, new, text) = (call.str(0)?, call.str(1)?, call.str(2)?);
    let found = text.matches(&*old).count();
    call.room.take(found.saturating_mul(new.len()))?;
    call.made(text.replace(&*old, &new))
}

/// At most `width` bytes from `offset` on, with dots where something is left out.
fn abbreviate(call: &mut Call<'_>, text: &[u8], offset: i64, width: i64) -> Result<Value, Fault> {
    let length = text.len() as i64;
    if width < 4 || length <= width {
        return call.made(text);
    }
    let mut offset = offset.clamp(0, length);
    if length - offset <= width - 3 {
        offset = length - (width - 3);
    }
    let part = |from: i64, to: i64| &text[from as usize..to as usize];
    let out = if offset <= 4 {
        [part(0, width - 3), b"..."].concat()
    } else if offset + width - 3 < length {
        let rest = part(offset, length);
        let inner = width - 3;
        let kept = if rest.len() as i64 <= inner || inner < 4 {
            rest.to_vec()
        } else {
            [&rest[..(inner - 3) as usize], b"..."].concat()
        };
        [b"...", kept.as_slice()].concat()
    } else {
        [b"...", part(length - (width - 3), length)].concat()
    };
    call.made(out)
}
