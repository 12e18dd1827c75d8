//! Functions on words: case, initials, wrapping at a width.

use alloc::string::String;
use alloc::vec::Vec;

use super::function;
use crate::error::Fault;
use crate::function::{Call, Function};
use crate::value::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    function("title", 1, 1, |call| {
        each_first(call, |letter, out| out.extend(letter.to_uppercase()))
    }),
    function("untitle", 1, 1, |call| {
        each_first(call, |letter, out| out.extend(letter.to_lowercase()))
    }),
    function("initials", 1, 1, |call| {
        let text = call.str(0)?;
        let first = |word: &str| word.chars().next();
        let letters: String = text.split_whitespace().filter_map(first).collect();
        call.made(letters)
    }),
    function("swapcase", 1, 1, swap_case),
    function("snakecase", 1, 1, |call| {
        let words = words(&call.str(0)?);
        call.made(words.join("_"))
    }),
    function("kebabcase", 1, 1, |call| {
        let words = words(&call.str(0)?);
        call.made(words.join("-"))
    }),
    function("camelcase", 1, 1, camel_case),
    function("wrap", 2, 2, |call| {
        let (width, text) = (call.int(0)?, call.str(1)?);
        wrap(call, &text, width, "\n", Long::Kept)
    }),
    function("wrapWith", 3, 3, |call| {
        let (width, newline, text) = (call.int(0)?, call.str(1)?, call.str(2)?);
        wrap(call, &text, width, &newline, Long::Cut)
    }),
];

/// What becomes of words that are longer than a line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Long {
    Kept,
    Cut,
}

/// Changes the first letter of each word.
fn each_first(call: &mut Call<'_>, change: fn(char, &mut String)) -> Result<Value, Fault> {
    let text = call.str(0)?;
    let mut out = String::with_capacity(text.len());
    let mut inside = false;
    for letter in text.chars() {
        if inside {
            out.push(letter);
        } else {
            change(letter, &mut out);
        }
        inside = letter.is_alphanumeric() || letter == '_';
    }
    call.made(out)
}

fn swap_case(call: &mut Call<'_>) -> Result<Value, Fault> {
    let text = call.str(0)?;
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_uppercase() {
            out.extend(letter.to_lowercase());
        } else {
            out.extend(letter.to_uppercase());
        }
    }
    call.made(out)
}

fn camel_case(call: &mut Call<'_>) -> Result<Value, Fault> {
    let text = call.str(0)?;
    let mut out = String::with_capacity(text.len());
    let mut raise = true;
    for letter in text.chars() {
        if matches!(letter, '_' | '-' | ' ') {
            raise = true;
        } else if core::mem::take(&mut raise) {
            out.extend(letter.to_uppercase());
        } else {
            out.push(letter);
        }
    }
    call.made(out)
}

/// The words of a name in lower case: a word begins at a capital letter and after a character that is not a letter.
fn words(text: &str) -> Vec<String> {
    let letters: Vec<char> = text.chars().collect();
    let mut words = Vec::new();
    let mut word = String::new();
    for (at, letter) in letters.iter().enumerate() {
        if matches!(letter, '_' | '-' | ' ') {
            words.push(core::mem::take(&mut word));
            continue;
        }
        let before = at.checked_sub(1).map(|at| letters[at]);
        let after = letters.get(at + 1);
        let begins = letter.is_uppercase()
            && before.is_some_and(|before| {
                !before.is_uppercase() || after.is_some_and(|after| after.is_lowercase())
            });
        if begins && !word.is_empty() {
            words.push(core::mem::take(&mut word));
        }
        word.extend(letter.to_lowercase());
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

/// Breaks lines at spaces so that they have at most `width` characters.
fn wrap(
    call: &mut Call<'_>,
    text: &str,
    width: i64,
    newline: &str,
    long: Long,
) -> Result<Value, Fault> {
    let width = usize::try_from(width).unwrap_or(1).max(1);
    let letters: Vec<char> = text.chars().collect();
    call.room
        .take(letters.len().saturating_mul(4 + newline.len()))?;
    let mut out = String::new();
    let mut at = 0;
    while letters.len() - at > width {
        if letters[at] == ' ' {
            at += 1;
            continue;
        }
        let space = (at..=at + width).rev().find(|place| letters[*place] == ' ');
        let later = || (at + width..letters.len()).find(|place| letters[*place] == ' ');
        match (space, long) {
            (Some(space), _) => {
                out.extend(&letters[at..space]);
                out.push_str(newline);
                at = space + 1;
            }
            (None, Long::Cut) => {
                out.extend(&letters[at..at + width]);
                out.push_str(newline);
                at += width;
            }
            (None, Long::Kept) => {
                let Some(space) = later() else { break };
                out.extend(&letters[at..space]);
                out.push_str(newline);
                at = space + 1;
            }
        }
    }
    out.extend(&letters[at..]);
    call.made(out)
}
