//! `ngx_http_gzip_module` and its relatives: compressed answers.

use std::collections::BTreeMap;

use sluice_model::Handler;
use sluice_model::handler::{Encode, Encodings, LevelEncoder};
use sluice_model::matcher::ResponseMatcher;

use crate::lower::Lowering;
use crate::lower::level::Level;
use crate::registry::Takes::{Choice, Flag, Size, Words};
use crate::registry::Verdict::{Always, NotYet, OnlyAs, Partly};
use crate::registry::{MANY, Word};

/// The directives.
pub const WORDS: &[Word] = &[
    Word::once("gzip", Flag).but(Partly(
        "a compressed answer has another ETag, and says `Vary: Accept-Encoding` also without `gzip_vary`",
    )),
    Word::once("gzip_buffers", Words(2, 2)).but(Always("buffers are those of the program")),
    Word::once("gzip_comp_level", Words(1, 1)),
    Word::many("gzip_disable", Words(1, MANY)).but(Partly("`msie6`, of which none is left")),
    Word::once("gzip_http_version", Words(1, 1))
        .but(Partly("whoever says that he takes gzip gets it, also over HTTP/1.0")),
    Word::once("gzip_min_length", Size),
    Word::once("gzip_proxied", Words(1, MANY))
        .but(Partly("answers to requests that came through proxies are compressed in any case")),
    Word::many("gzip_types", Words(1, MANY)),
    Word::once("gzip_vary", Flag).but(Always("answers that may be compressed say so")),
];

/// Those of files compressed ahead.
pub const STATIC: &[Word] = &[
    Word::once("gzip_static", Choice(&["on", "off", "always"])).but(Partly(
        "whoever says that he takes gzip gets it; answers say `Vary: Accept-Encoding` also without `gzip_vary`",
    )),
];

/// Those of decompression.
pub const GUNZIP: &[Word] = &[
    Word::once("gunzip", Flag).but(OnlyAs(&["off"])),
    Word::once("gunzip_buffers", Words(2, 2)).but(NotYet),
];

/// Compresses what a place answers.
pub fn lower(cx: &mut Lowering<'_>, level: &Level<'_>) -> Option<Handler> {
    if !level.is_on("gzip", false) {
        return None;
    }
    for directive in level.nearest(&["gzip_disable"]) {
        if let Some(word) = directive.args.iter().find(|word| word.text != "msie6") {
            return cx.invalid(word, "gzip_disable", "`msie6`; patterns are not built yet");
        }
    }
    let compression = level
        .find("gzip_comp_level")
        .and_then(|line| line.args.first());
    let compression = match compression.map(|word| (word, word.text.parse::<i64>())) {
        None => 1,
        Some((_, Ok(level @ 1..=9))) => level,
        Some((word, _)) => return cx.invalid(word, "gzip_comp_level", "a number from 1 to 9"),
    };
    let mut types = vec!["text/html*".to_owned()];
    let mut all = false;
    for word in level
        .nearest(&["gzip_types"])
        .iter()
        .flat_map(|line| &line.args)
    {
        all |= word.text == "*";
        types.push(format!("{}*", word.text.to_ascii_lowercase()));
    }
    let headers = match all {
        true => BTreeMap::new(),
        false => BTreeMap::from([("Content-Type".to_owned(), Some(types))]),
    };
    Some(Handler::Encode(Encode {
        encodings: Encodings {
            gzip: Some(LevelEncoder { level: compression }),
            ..Encodings::default()
        },
        prefer: vec!["gzip".to_owned()],
        minimum_length: level.size("gzip_min_length").unwrap_or(20).max(1),
        r#match: Some(ResponseMatcher {
            status_code: vec![200, 403, 404],
            headers,
        }),
    }))
}
