//! `ngx_http_charset_module`: which encoding texts are said to have.

use crate::lower::level::Level;
use crate::registry::Takes::{Flag, Words};
use crate::registry::Verdict::{NotYet, OnlyAs, Partly};
use crate::registry::{MANY, Word};

/// The directives.
pub const WORDS: &[Word] = &[
    Word::once("charset", Words(1, 1)).but(Partly(
        "a name; it is said of files and of what `return` says",
    )),
    Word::many("charset_types", Words(1, MANY)),
    Word::once("override_charset", Flag).but(OnlyAs(&["off"])),
    Word::once("source_charset", Words(1, 1)).but(NotYet),
];

const USUAL: [&str; 6] = [
    "text/html",
    "text/xml",
    "text/plain",
    "text/vnd.wap.wml",
    "application/javascript",
    "application/rss+xml",
];

/// A media type with what is said of its encoding.
pub fn with_charset(level: &Level<'_>, media_type: &str) -> String {
    let charset = match level.word("charset") {
        None | Some("off") => return media_type.to_owned(),
        Some(charset) => charset,
    };
    let written = level.nearest(&["charset_types"]);
    let mut named = written
        .iter()
        .flat_map(|line| &line.args)
        .map(|word| word.text.as_str());
    let is_named = match written.is_empty() {
        true => USUAL.contains(&media_type),
        false => media_type == "text/html" || named.any(|name| name == "*" || name == media_type),
    };
    match is_named {
        true => format!("{media_type}; charset={charset}"),
        false => media_type.to_owned(),
    }
}
