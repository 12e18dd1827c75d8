//! What the admin API shows of the running server: the status as JSON or CSV, its history, the event stream, and the
//! dashboard. All of it is read-only; `dashboard::actions` is what the buttons of the dashboard do.
//!
//! The status is at `/status`, as in Caddy's API each topic has a path of its own (`/metrics`,
//! `/reverse_proxy/upstreams`). Caddy has nothing at these paths.

use sluice_message::{FieldId, Method, RequestHead, Status};
use sluice_model::DashboardAction;
use sluice_net::{Body, Exchange};

use crate::api::Reply;
use crate::dashboard;
use crate::orders::Current;
use crate::stream::{self, Feed};

/// What a request for a page asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    /// The snapshot, as JSON or CSV.
    Status,
    /// The history of the last ten minutes.
    History,
    /// The stream of snapshots.
    Events,
    /// The dashboard.
    Dashboard,
}

impl Page {
    /// The page at the path of a request; `None` if it belongs to the rest of the API.
    pub fn of(head: &RequestHead) -> Option<Page> {
        match head.uri.path() {
            b"/status" => Some(Page::Status),
            b"/status/history" => Some(Page::History),
            b"/status/events" => Some(Page::Events),
            b"/" | b"/dashboard" | b"/dashboard/" => Some(Page::Dashboard),
            _ => None,
        }
    }

    /// Responds to a request.
    pub fn respond(self, exchange: &mut Exchange<()>, current: &Current) -> Result<Body, Reply> {
        if !matches!(exchange.req.method, Method::Get | Method::Head) {
            let refusal = Reply::error(Status::METHOD_NOT_ALLOWED, "this path takes GET");
            return Err(Reply {
                allow: "GET, HEAD",
                ..refusal
            });
        }
        // Nothing shown here is to be taken for another type, framed by pages of others, or kept by a cache.
        for (name, value) in [
            (&b"X-Content-Type-Options"[..], &b"nosniff"[..]),
            (b"Cross-Origin-Resource-Policy", b"same-origin"),
            (b"X-Frame-Options", b"DENY"),
            (b"Referrer-Policy", b"no-referrer"),
        ] {
            let fields = &mut exchange.res.fields;
            fields.push_raw(FieldId::of(name), name, value);
        }
        match self {
            Page::Dashboard => Ok(dashboard::respond(exchange)),
            Page::Status => data(exchange, current, |head, counts| {
                status_form(head, counts, &current.actions())
            }),
            Page::History => data(exchange, current, |_, counts| {
                Ok(("application/json", counts.history()))
            }),
            Page::Events => {
                let counts = current.counts().ok_or_else(nothing_counted)?;
                let is_head = exchange.req.method == Method::Head;
                let feed = exchange.worker.local::<Feed>();
                let fields = &mut exchange.res.fields;
                fields.set(FieldId::ContentType, b"text/event-stream");
                fields.set(FieldId::CacheControl, b"no-store");
                match is_head {
                    true => Ok(Body::Empty),
                    false => {
                        let snapshot = counts.status(&current.actions());
                        stream::subscribe(&feed, snapshot).map(Body::Stream)
                    }
                }
            }
        }
    }
}

/// A media type and the bytes.
type Data = (&'static str, Vec<u8>);

fn data(
    exchange: &mut Exchange<()>,
    current: &Current,
    form: impl FnOnce(&RequestHead, &dyn crate::Counts) -> Result<Data, Reply>,
) -> Result<Body, Reply> {
    let counts = current.counts().ok_or_else(nothing_counted)?;
    let (media_type, bytes) = form(&exchange.req, counts)?;
    let fields = &mut exchange.res.fields;
    fields.set(FieldId::ContentType, media_type.as_bytes());
    fields.set(FieldId::CacheControl, b"no-store");
    fields.set(FieldId::Vary, b"Accept");
    exchange.inline.extend_from_slice(&bytes);
    Ok(Body::Inline)
}

/// The snapshot in the form that `format` in the query names, else in the one that `Accept` prefers.
fn status_form(
    head: &RequestHead,
    counts: &dyn crate::Counts,
    actions: &[DashboardAction],
) -> Result<Data, Reply> {
    let query = head.uri.query().unwrap_or_default();
    let mut pairs = query.split(|byte| *byte == b'&');
    let named = pairs.find_map(|pair| pair.strip_prefix(b"format="));
    let is_csv = match named {
        Some(b"csv") => true,
        Some(b"json") => false,
        Some(other) => {
            let other = String::from_utf8_lossy(other);
            let why = format!("`{other}` is not a format; use `json` or `csv`");
            return Err(Reply::error(Status::BAD_REQUEST, why));
        }
        None => prefers_csv(head.fields.first(FieldId::Accept).unwrap_or_default()),
    };
    Ok(match is_csv {
        true => ("text/csv; charset=utf-8", counts.status_csv()),
        false => ("application/json", counts.status(actions)),
    })
}

/// Whether `Accept` gives CSV a higher weight than JSON (RFC 9110, section 12.5.1). Equal weights mean JSON, so a client
/// that accepts everything gets JSON.
fn prefers_csv(accept: &[u8]) -> bool {
    weight(accept, b"text", b"csv") > weight(accept, b"application", b"json")
}

/// The weight of a media type in thousandths, by the most specific range that it is in.
fn weight(accept: &[u8], kind: &[u8], subtype: &[u8]) -> u32 {
    let mut best = (0, 0);
    for range in accept.split(|byte| *byte == b',') {
        let mut parts = range.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        let name = parts.next().unwrap_or_default().to_ascii_lowercase();
        let specific = match name.split(|byte| *byte == b'/').collect::<Vec<_>>()[..] {
            [a, b] if a == kind && b == subtype => 3,
            [a, b"*"] if a == kind => 2,
            [b"*", b"*"] => 1,
            _ => continue,
        };
        let quality = parts.find_map(|part| part.strip_prefix(b"q="));
        let quality = quality.map_or(Some(1.0), |text| {
            std::str::from_utf8(text).ok()?.parse::<f32>().ok()
        });
        let thousandths = (quality.unwrap_or(0.0).clamp(0.0, 1.0) * 1000.0) as u32;
        best = best.max((specific, thousandths));
    }
    best.1
}

fn nothing_counted() -> Reply {
    Reply::error(Status::SERVICE_UNAVAILABLE, "nothing is counted yet")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_is_sent_to_those_who_prefer_it() {
        for (accept, csv) in [
            ("", false),
            ("*/*", false),
            ("text/csv", true),
            ("text/*", true),
            ("TEXT/CSV; q=0.5", true),
            ("application/json, text/csv", false),
            ("application/json;q=0.1, text/csv;q=0.2", true),
            ("text/csv;q=0, */*", false),
            ("text/html, */*;q=0.8", false),
            ("text/csv;q=x", false),
        ] {
            assert_eq!(prefers_csv(accept.as_bytes()), csv, "{accept}");
        }
    }
}
