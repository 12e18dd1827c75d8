//! Notes for `sluice explain` on how a request was routed through servers and locations. For served requests the
//! cost is one check of a flag.

use sluice_model::http::RouteOrigin;

use super::state::{ExplainedLine, NginxContext, Purpose};
use sluice_pipeline::context::Exchange;

/// Starts recording: the request is explained, not served.
pub fn begin(exchange: &mut Exchange) {
    exchange.context.nginx_mut().purpose = Purpose::Explanation;
}

/// Records a line that had an effect, if the request is explained.
pub(super) fn note_effect(
    exchange: &mut Exchange,
    origin: &RouteOrigin,
    text: impl FnOnce(&Exchange) -> String,
) {
    note(exchange, origin, true, text);
}

/// Records a line that was evaluated without effect.
pub(super) fn pass(
    exchange: &mut Exchange,
    origin: &RouteOrigin,
    text: impl FnOnce(&Exchange) -> String,
) {
    note(exchange, origin, false, text);
}

/// Records the handler's own line.
pub(super) fn own(exchange: &mut Exchange, took_part: bool, text: impl FnOnce() -> String) {
    note(exchange, &RouteOrigin::default(), took_part, |_| text());
}

fn is_explained(exchange: &Exchange) -> bool {
    exchange.context.nginx().purpose == Purpose::Explanation
}

fn note(
    exchange: &mut Exchange,
    origin: &RouteOrigin,
    took_part: bool,
    text: impl FnOnce(&Exchange) -> String,
) {
    if is_explained(exchange) {
        let text = text(exchange);
        let origin = origin.route();
        exchange
            .context
            .occasional_mut()
            .explained
            .push(ExplainedLine {
                origin,
                took_part,
                text,
            });
    }
}

/// The notes recorded since the last call.
pub fn take(exchange: &mut Exchange) -> Vec<ExplainedLine> {
    match is_explained(exchange) && !exchange.context.occasional().explained.is_empty() {
        true => std::mem::take(&mut exchange.context.occasional_mut().explained),
        false => Vec::new(),
    }
}

/// `text` in backticks with control characters escaped for a terminal.
pub(super) fn quoted(text: &[u8]) -> String {
    format!("`{}`", sluice_diag::shown(&String::from_utf8_lossy(text)))
}
