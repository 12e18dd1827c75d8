//! `ngx_http_gzip_module`, `ngx_http_gunzip_module` and `ngx_http_gzip_static_module`: compressed responses.

use sluice_model::Handler;
use sluice_model::nginx::{Gunzip, Gzip, GzipClients};

use crate::arguments::{buffers, not_in};
use crate::definition::Takes::{Choice, Flag, Size, Words};
use crate::definition::Verdict::Always;
use crate::definition::{Definition, MANY, many, once};
use crate::definition::{Keywords, Wrong};
use crate::lower::level::Level;
use crate::lower::lowering::Lowering;
use crate::tree::Directive;

/// The directives.
pub const DIRECTIVES: &[Definition] = &[
    once("gzip", Flag),
    once("gzip_buffers", Words(2, 2))
        .but(Always("sluice sizes its own buffers"))
        .checked(buffers),
    once("gzip_comp_level", Words(1, 1)).checked(check_level),
    many("gzip_disable", Words(1, MANY)),
    once("gzip_http_version", Choice(&["1.0", "1.1"])),
    once("gzip_min_length", Size),
    once("gzip_proxied", Words(1, MANY)).of(&PROXIED),
    many("gzip_types", Words(1, MANY)),
    once("gzip_vary", Flag),
];

const PROXIED: Keywords = Keywords {
    from: 0,
    words: &[
        "off",
        "expired",
        "no-cache",
        "no-store",
        "private",
        "no_last_modified",
        "no_etag",
        "auth",
        "any",
    ],
    wanted: "`off`, `expired`, `no-cache`, `no-store`, `private`, `no_last_modified`, `no_etag`, `auth` and `any`",
};

fn check_level(directive: &Directive) -> Option<Wrong> {
    not_in(directive, 1..=9, "a number from 1 to 9")
}

/// Those of files compressed ahead.
pub const STATIC: &[Definition] = &[once("gzip_static", Choice(&["on", "off", "always"]))];

/// Those of decompression.
pub const GUNZIP: &[Definition] = &[
    once("gunzip", Flag),
    once("gunzip_buffers", Words(2, 2))
        .but(Always("sluice sizes its own buffers"))
        .checked(buffers),
];

/// Compresses the responses of a block.
pub fn lower(cx: &mut Lowering<'_>, level: &Level<'_>) -> Option<Handler> {
    if !level.is_on("gzip", false) {
        return None;
    }
    let compression = level
        .find("gzip_comp_level")
        .and_then(|line| line.args.first());
    let compression = match compression.map(|word| (word, word.text.parse::<i64>())) {
        None => 1,
        Some((_, Ok(level @ 1..=9))) => level,
        Some((word, _)) => return cx.invalid(word, "gzip_comp_level", "a number from 1 to 9"),
    };
    Some(Handler::NginxGzip(Gzip {
        level: compression,
        minimum_length: level.size("gzip_min_length").unwrap_or(20),
        types: types(level, "gzip_types"),
        clients: clients(cx, level),
    }))
}

/// Decompresses the responses of a block.
pub fn lower_gunzip(cx: &mut Lowering<'_>, level: &Level<'_>) -> Option<Handler> {
    level.is_on("gunzip", false).then(|| {
        Handler::NginxGunzip(Gunzip {
            clients: clients(cx, level),
        })
    })
}

/// The media types that a directive names: HTML is always one of them.
pub fn types(level: &Level<'_>, name: &str) -> Vec<String> {
    let mut types = vec!["text/html".to_owned()];
    let lines = level.nearest(&[name]);
    for word in lines.iter().flat_map(|line| &line.args) {
        let lower = word.text.to_ascii_lowercase();
        if !types.contains(&lower) {
            types.push(lower);
        }
    }
    types
}

/// Which clients get compressed responses.
pub fn clients(cx: &mut Lowering<'_>, level: &Level<'_>) -> GzipClients {
    let mut proxied = Vec::new();
    for word in level
        .find("gzip_proxied")
        .iter()
        .flat_map(|line| &line.args)
    {
        proxied.push(word.text.clone());
    }
    // One word that forbids it forbids it.
    if proxied.iter().any(|word| word == "off") {
        proxied.clear();
    }
    let mut not_for = Vec::new();
    let lines = level.nearest(&["gzip_disable"]);
    for word in lines.iter().flat_map(|line| &line.args) {
        not_for.push(match word.text.as_str() {
            "msie6" => word.text.clone(),
            pattern => cx.pattern(pattern, word),
        });
    }
    GzipClients {
        http10: level.word("gzip_http_version") == Some("1.0"),
        proxied,
        not_for,
        vary: level.is_on("gzip_vary", false),
    }
}
