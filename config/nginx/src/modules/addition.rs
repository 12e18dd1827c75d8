//! `ngx_http_addition_module`: the responses of subrequests before and after a response body.

use sluice_model::Handler;
use sluice_model::nginx::Addition;

use crate::definition::Takes::Words;
use crate::definition::{Definition, MANY, many, once};
use crate::lower::level::Level;
use crate::lower::lowering::Lowering;
use crate::modules::gzip;

/// The directives.
pub const DIRECTIVES: &[Definition] = &[
    once("add_after_body", Words(1, 1)),
    once("add_before_body", Words(1, 1)),
    many("addition_types", Words(1, MANY)),
];

/// What is added to the responses of a block. An empty path cancels what enclosing blocks set.
pub fn lower(cx: &mut Lowering<'_>, level: &Level<'_>) -> Option<Handler> {
    let mut path = |name: &str| {
        let word = level.find(name)?.args.first()?;
        match word.text.is_empty() || word.text.starts_with('/') && !word.text.contains(['?', '$'])
        {
            true => Some(word.text.clone()),
            false => cx.invalid(
                word,
                name,
                "a path without query and variables that begins with a slash, or `\"\"`",
            ),
        }
    };
    let before = path("add_before_body").unwrap_or_default();
    let after = path("add_after_body").unwrap_or_default();
    (!before.is_empty() || !after.is_empty()).then(|| {
        Handler::NginxAddition(Addition {
            before,
            after,
            types: gzip::types(level, "addition_types"),
        })
    })
}
