//! What is told of a request's way among servers and locations when it is explained. Served requests are asked once
//! whether they are, and pay no more.

use sluice_diag::OriginId;
use sluice_model::http::RouteOrigin;

use crate::context::Exchange;

/// One line of the configuration that took part.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    /// Where it was written; the handler's own line where that is not known.
    pub(crate) origin: Option<OriginId>,
    /// Whether it did something: others were looked at only.
    pub(crate) took_part: bool,
    /// What it saw or did.
    pub(crate) text: String,
}

/// Begins to tell: the request is explained, not served.
pub(crate) fn begin(x: &mut Exchange) {
    x.context.nginx.is_explained = true;
}

/// Tells of a line that did something, if the request is explained.
pub(super) fn tell(x: &mut Exchange, origin: &RouteOrigin, text: impl FnOnce(&Exchange) -> String) {
    note(x, origin, true, text);
}

/// Tells of a line that was looked at and did nothing.
pub(super) fn pass(x: &mut Exchange, origin: &RouteOrigin, text: impl FnOnce(&Exchange) -> String) {
    note(x, origin, false, text);
}

/// Tells of the handler's own line.
pub(super) fn own(x: &mut Exchange, took_part: bool, text: impl FnOnce() -> String) {
    note(x, &RouteOrigin::default(), took_part, |_| text());
}

fn note(
    x: &mut Exchange,
    origin: &RouteOrigin,
    took_part: bool,
    text: impl FnOnce(&Exchange) -> String,
) {
    if x.context.nginx.is_explained {
        let text = text(x);
        let origin = origin.route();
        x.context.occasional.explained.push(Told {
            origin,
            took_part,
            text,
        });
    }
}

/// What was told since the last time.
pub(crate) fn take(x: &mut Exchange) -> Vec<Told> {
    match x.context.nginx.is_explained && !x.context.occasional.explained.is_empty() {
        true => std::mem::take(&mut x.context.occasional.explained),
        false => Vec::new(),
    }
}

/// `text` in backticks, fit for a terminal.
pub(super) fn quoted(text: &[u8]) -> String {
    format!("`{}`", sluice_diag::shown(&String::from_utf8_lossy(text)))
}
