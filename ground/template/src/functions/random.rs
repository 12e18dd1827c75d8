//! Random values; the host provides the randomness.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use sluice_route::uuid;

use super::function;
use crate::error::Fault;
use crate::function::{Call, Function};
use crate::value::Value;

const DIGITS: &str = "0123456789";
const LETTERS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

pub(super) const FUNCTIONS: &[Function] = &[
    function("randAlphaNum", 1, 1, |call| {
        letters(call, &format!("{LETTERS}{DIGITS}"))
    }),
    function("randAlpha", 1, 1, |call| letters(call, LETTERS)),
    function("randNumeric", 1, 1, |call| letters(call, DIGITS)),
    function("randAscii", 1, 1, |call| {
        let visible: String = (' '..='~').collect();
        letters(call, &visible)
    }),
    function("randInt", 2, 2, |call| {
        let (low, high) = (call.int(0)?, call.int(1)?);
        if high <= low {
            return Err(Fault::failed("`randInt` needs a lower and a higher number"));
        }
        let span = high.abs_diff(low);
        Ok(Value::int(
            low.wrapping_add_unsigned(call.host.random() % span),
        ))
    }),
    function("randBytes", 1, 1, |call| {
        let count = count(call)?;
        let bytes: Vec<u8> = (0..count).map(|_| call.host.random() as u8).collect();
        call.made(BASE64_STANDARD.encode(bytes))
    }),
    function("shuffle", 1, 1, |call| {
        let mut letters: Vec<char> = call.str(0)?.chars().collect();
        for at in (1..letters.len()).rev() {
            let other = call.host.random() % (at as u64 + 1);
            letters.swap(at, other as usize);
        }
        call.made(letters.into_iter().collect::<String>())
    }),
    function("uuidv4", 0, 0, |call| {
        let bits = u128::from(call.host.random()) << 64 | u128::from(call.host.random());
        call.made(uuid::text(uuid::version_4(bits)))
    }),
];

fn count(call: &mut Call<'_>) -> Result<usize, Fault> {
    let number = call.int(0)?;
    let count = usize::try_from(number).map_err(|_| Fault::Index(number))?;
    call.room.take(count.saturating_mul(2))?;
    Ok(count)
}

fn letters(call: &mut Call<'_>, of: &str) -> Result<Value, Fault> {
    let count = count(call)?;
    let of = of.as_bytes();
    let letters: Vec<u8> = (0..count)
        .map(|_| of[(call.host.random() % of.len() as u64) as usize])
        .collect();
    call.made(letters)
}
