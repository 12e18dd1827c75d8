//! `*_limit_rate`, `*_force_ranges` and `*_store`: processing of upstream responses. Each module with upstreams has
//! these directives under its own prefix.

use sluice_diag::Diagnostic;
use sluice_model::nginx::KeepFile;
use sluice_model::proxy::ReverseProxy;

use crate::definition::Takes::{Flag, Words};
use crate::definition::{Definition, once};
use crate::lower::level::Level;
use crate::lower::lowering::Lowering;
use crate::lower::text::{Facts, has_variables};
use crate::lower::values;
use crate::tree::Word;

/// The directives.
pub const DIRECTIVES: &[Definition] = &[
    once("force_ranges", Flag),
    once("limit_rate", Words(1, 1)),
    once("store", Words(1, 1)),
    once("store_access", Words(1, 3)),
];

/// Applies these directives to `origin`.
pub fn shape(
    cx: &mut Lowering<'_>,
    level: &Level<'_>,
    module: &str,
    facts: &Facts,
    origin: &mut ReverseProxy,
) -> Option<()> {
    let Some(proxying) = &mut origin.dialect else {
        return Some(());
    };
    let cache = format!("{module}_cache");
    let is_cached = level.word(&cache).is_some_and(|zone| zone != "off");
    proxying.limit_rate = limit_rate(cx, level, module, facts)?;
    proxying.keep = kept(cx, level, module, facts)?;
    // From what is stored parts are given in any case.
    proxying.force_ranges = !is_cached && level.is_on(&format!("{module}_force_ranges"), false);
    let store = format!("{module}_store");
    let line = level
        .find(&store)
        .filter(|_| is_cached && proxying.keep.is_some());
    let Some(line) = line else {
        return Some(());
    };
    cx.report.push(
        Diagnostic::error("invalid-value", format!("`{store}` beside `{cache}`"))
            .at(line.span(), "a response is stored in one of two ways")
            .imported(line.name.import)
            .help(format!(
                "remove one of them; `{cache} off;` ends the other here"
            )),
    );
    None
}

/// The rate at which responses are read; `None` for no limit. As in nginx, this requires buffered responses.
fn limit_rate(
    cx: &mut Lowering<'_>,
    level: &Level<'_>,
    module: &str,
    facts: &Facts,
) -> Option<String> {
    let name = format!("{module}_limit_rate");
    let line = level.find(&name).and_then(|line| line.args.first());
    let Some(word) = line.filter(|_| level.is_on(&format!("{module}_buffering"), true)) else {
        return Some(String::new());
    };
    if !has_variables(&word.text) && values::size(&word.text).is_none() {
        return cx.invalid(word, &name, "bytes each second, as in `100k`, or `0`");
    }
    Some(cx.text(word, facts))
}

/// The files in which responses are stored.
fn kept(
    cx: &mut Lowering<'_>,
    level: &Level<'_>,
    module: &str,
    facts: &Facts,
) -> Option<Option<KeepFile>> {
    let name = format!("{module}_store");
    let Some(word) = level.find(&name).and_then(|line| line.args.first()) else {
        return Some(None);
    };
    let path = match word.text.as_str() {
        "off" => return Some(None),
        "on" => facts.file.clone().unwrap_or_default(),
        text => {
            let path = cx.prefixed(text);
            cx.text(
                &Word {
                    text: path,
                    ..word.clone()
                },
                facts,
            )
        }
    };
    let mode = access(cx, level, module)?;
    Some(Some(KeepFile { path, mode }))
}

/// The permission bits of stored files: read and write for their owner by default.
fn access(cx: &mut Lowering<'_>, level: &Level<'_>, module: &str) -> Option<u32> {
    let name = format!("{module}_store_access");
    let Some(line) = level.find(&name) else {
        return Some(0o600);
    };
    let mut mode = 0;
    let mut has_user = false;
    for word in &line.args {
        let (who, may) = word.text.split_once(':').unwrap_or((&word.text, ""));
        let bits = match may {
            "r" => 0o4,
            "rw" => 0o6,
            _ => 0,
        };
        match who {
            "user" if bits > 0 => {
                mode |= bits << 6;
                has_user = true;
            }
            "group" if bits > 0 => mode |= bits << 3,
            "all" if bits > 0 => mode |= bits,
            _ => {
                let wanted = "`user`, `group` or `all`, each with `:r` or `:rw` behind it";
                return cx.invalid(word, &name, wanted);
            }
        }
    }
    Some(if has_user { mode } else { mode | 0o600 })
}
