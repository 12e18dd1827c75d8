//! `ngx_http_sub_module`: replaces text in responses.

use sluice_model::Handler;
use sluice_model::nginx::{Substitution, Substitutions};

use crate::definition::Takes::{Flag, Words};
use crate::definition::{Definition, MANY, many, once};
use crate::lower::level::Level;
use crate::lower::lowering::Lowering;
use crate::lower::text::Facts;
use crate::modules::gzip;

/// The directives.
pub const DIRECTIVES: &[Definition] = &[
    many("sub_filter", Words(2, 2))
        .checked(|line| (line.arg(0)?.is_empty()).then_some((0, "a text to look for"))),
    once("sub_filter_last_modified", Flag),
    once("sub_filter_once", Flag),
    many("sub_filter_types", Words(1, MANY)),
];

/// Lowers what a place replaces.
pub fn lower(cx: &mut Lowering<'_>, level: &Level<'_>, facts: &Facts) -> Option<Handler> {
    let lines = level.nearest(&["sub_filter"]);
    if lines.is_empty() {
        return None;
    }
    let texts = lines.iter().map(|line| Substitution {
        text: cx.text(&line.args[0], facts),
        with: cx.text(&line.args[1], facts),
    });
    let texts = texts.collect();
    Some(Handler::NginxSub(Substitutions {
        texts,
        every: !level.is_on("sub_filter_once", true),
        types: gzip::types(level, "sub_filter_types"),
        keeps_last_modified: level.is_on("sub_filter_last_modified", false),
    }))
}
