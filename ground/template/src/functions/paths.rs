//! Paths, as in Go's package path.

use alloc::vec::Vec;

use super::function;
use crate::error::Fault;
use crate::function::{Call, Function};
use crate::value::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    function("base", 1, 1, base),
    function("osBase", 1, 1, base),
    function("dir", 1, 1, dir),
    function("osDir", 1, 1, dir),
    function("ext", 1, 1, ext),
    function("osExt", 1, 1, ext),
    function("clean", 1, 1, clean),
    function("osClean", 1, 1, clean),
    function("isAbs", 1, 1, is_absolute),
    function("osIsAbs", 1, 1, is_absolute),
];

fn base(call: &mut Call<'_>) -> Result<Value, Fault> {
    let path = call.text(0)?.as_bytes();
    let end = path.len() - path.iter().rev().take_while(|byte| **byte == b'/').count();
    let base = match (path, &path[..end]) {
        ([], _) => b".",
        (_, []) => b"/",
        (_, trimmed) => trimmed
            .rsplit(|byte| *byte == b'/')
            .next()
            .unwrap_or(trimmed),
    };
    call.made(base)
}

fn dir(call: &mut Call<'_>) -> Result<Value, Fault> {
    let path = call.text(0)?.as_bytes();
    let end = path
        .iter()
        .rposition(|byte| *byte == b'/')
        .map_or(0, |at| at + 1);
    let dir = cleaned(&path[..end]);
    call.made(dir)
}

fn ext(call: &mut Call<'_>) -> Result<Value, Fault> {
    let path = call.text(0)?.as_bytes();
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    let dot = name
        .iter()
        .rposition(|byte| *byte == b'.')
        .unwrap_or(name.len());
    call.made(&name[dot..])
}

fn clean(call: &mut Call<'_>) -> Result<Value, Fault> {
    let path = cleaned(call.text(0)?.as_bytes());
    call.made(path)
}

fn is_absolute(call: &mut Call<'_>) -> Result<Value, Fault> {
    Ok(Value::Bool(call.text(0)?.as_bytes().starts_with(b"/")))
}

/// The shortest path that means the same.
fn cleaned(path: &[u8]) -> Vec<u8> {
    let rooted = path.starts_with(b"/");
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in path.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." if parts.last().is_some_and(|last| *last != b"..") => _ = parts.pop(),
            b".." if rooted => {}
            part => parts.push(part),
        }
    }
    let joined = parts.join(&b'/');
    match (rooted, joined.is_empty()) {
        (true, _) => [b"/", joined.as_slice()].concat(),
        (false, true) => b".".to_vec(),
        (false, false) => joined,
    }
}
