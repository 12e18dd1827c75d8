//! `ngx_http_charset_module`: which encoding texts are said to have.

use sluice_model::Handler;
use sluice_model::nginx::Charset;

use crate::lower::Lowering;
use crate::lower::level::Level;
use crate::lower::text::{Facts, has_variables};
use crate::registry::Takes::{Block, Flag, Words};
use crate::registry::Verdict::{NotYet, OnlyAs, Partly};
use crate::registry::{MANY, Word};

/// The directives.
pub const WORDS: &[Word] = &[
    Word::once("charset", Words(1, 1)).but(Partly(
        "texts are said to have it, but not changed into it: `charset_map` and `source_charset` are not built",
    )),
    Word::many("charset_map", Block(2, 2)).but(NotYet),
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
        Some(charset) if has_variables(charset) => return media_type.to_owned(),
        Some(charset) => charset,
    };
    let mut types = types(level).into_iter();
    match types.any(|name| name == "*" || name == media_type) {
        true => format!("{media_type}; charset={charset}"),
        false => media_type.to_owned(),
    }
}

/// The media types of texts that are said to have an encoding.
fn types(level: &Level<'_>) -> Vec<String> {
    let written = level.nearest(&["charset_types"]);
    if written.is_empty() {
        return USUAL.map(str::to_owned).to_vec();
    }
    let words = written.iter().flat_map(|line| &line.args);
    let named = words.map(|word| word.text.clone());
    ["text/html".to_owned()].into_iter().chain(named).collect()
}

/// Says of what upstreams answer which encoding it has; `is_passed` where such a one answers. Files and what `return` says
/// have it in their media types already, unless variables say it.
pub fn lower(
    cx: &mut Lowering<'_>,
    level: &Level<'_>,
    facts: &Facts,
    is_passed: bool,
) -> Option<Handler> {
    let word = level.find("charset")?.args.first()?;
    if word.text == "off" || !is_passed && !has_variables(&word.text) {
        return None;
    }
    Some(Handler::NginxCharset(Charset {
        name: cx.text(word, facts),
        types: types(level),
    }))
}
