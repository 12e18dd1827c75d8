//! `request_id`, a directive of sluice: gives each request an ID, in a header and on error pages.

use sluice_model::http::RequestIdHeader;

use crate::definition::Takes::Words;
use crate::definition::{Definition, Wrong, once};
use crate::lower::level::Level;
use crate::tree::Directive;

/// The directive.
pub const DIRECTIVES: &[Definition] = &[once("request_id", Words(1, 2)).checked(check)];

fn check(directive: &Directive) -> Option<Wrong> {
    match (directive.arg(0)?, directive.arg(1)) {
        ("on" | "off", None) => None,
        ("on", Some(name)) => {
            let header = name.to_owned();
            let is_wrong = RequestIdHeader { header }.name().is_none();
            is_wrong.then_some((1, "a header for IDs, such as `X-Correlation-Id`"))
        }
        ("off", Some(_)) => Some((1, "nothing behind `off`")),
        _ => Some((0, "`on`, `on HEADER` or `off`")),
    }
}

/// The setting of a server.
pub fn lower(level: &Level<'_>) -> Option<RequestIdHeader> {
    let line = level.find("request_id")?;
    (line.arg(0) == Some("on")).then(|| RequestIdHeader {
        header: line.arg(1).unwrap_or_default().to_owned(),
    })
}
