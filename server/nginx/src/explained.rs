//! Notes for `sluice explain` on how a request was routed through servers and locations. For served requests the
//! cost is one check of a flag.

use sluice_model::http::RouteOrigin;

use super::state::{NginxContext, Told};
use sluice_pipeline::context::Exchange;

/// Starts recording: the request is explained, not served.
pub fn begin(x: &mut Exchange) {
    x.context.nginx_mut().is_explained = true;
}

/// Records a line that had an effect, if the request is explained.
pub(super) fn tell(x: &mut Exchange, origin: &RouteOrigin, text: impl FnOnce(&Exchange) -> String) {
    note(x, origin, true, text);
}

/// Records a line that was evaluated without effect.
pub(super) fn pass(x: &mut Exchange, origin: &RouteOrigin, text: impl FnOnce(&Exchange) -> String) {
    note(x, origin, false, text);
}

/// Records the handler's own line.
pub(super) fn own(x: &mut Exchange, took_part: bool, text: impl FnOnce() -> String) {
    note(x, &RouteOrigin::default(), took_part, |_| text());
}

fn note(
    x: &mut Exchange,
    origin: &RouteOrigin,
    took_part: bool,
    text: impl FnOnce(&Exchange) -> String,
) {
    if x.context.nginx().is_explained {
        let text = text(x);
        let origin = origin.route();
        x.context.occasional_mut().explained.push(Told {
            origin,
            took_part,
            text,
        });
    }
}

/// The notes recorded since the last call.
pub fn take(x: &mut Exchange) -> Vec<Told> {
    match x.context.nginx().is_explained && !x.context.occasional().explained.is_empty() {
        true => std::mem::take(&mut x.context.occasional_mut().explained),
        false => Vec::new(),
    }
}

/// `text` in backticks with control characters escaped for a terminal.
pub(super) fn quoted(text: &[u8]) -> String {
    format!("`{}`", sluice_diag::shown(&String::from_utf8_lossy(text)))
}
