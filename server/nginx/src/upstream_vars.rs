//! `$upstream_addr` and related variables: one value per upstream attempt.

use sluice_message::FieldId;
use sluice_route::placeholder::nginx::UpstreamKey;

use super::shown::{join, seconds, show};
use crate::state::NginxContext;
use sluice_pipeline::context::{Exchange, ProxyTry};

/// Appends the values, separated by `, `, or by ` : ` between attempts before and after an internal redirect.
pub fn push(exchange: &Exchange, key: UpstreamKey, out: &mut Vec<u8>) {
    let upstream = &exchange.context.upstream;
    let tries = upstream
        .facts
        .as_ref()
        .map_or(&[][..], |facts| &facts.tries);
    for (index, one) in tries.iter().enumerate() {
        match (index, one.is_later) {
            (0, _) => {}
            (_, true) => out.extend_from_slice(b" : "),
            (_, false) => out.extend_from_slice(b", "),
        }
        value(one, key, out);
    }
    // A subrequest of this request has only the status.
    if let (UpstreamKey::Status, [], Some(status)) = (key, tries, upstream.status) {
        show(out, format_args!("{}", status.code()));
    }
}

/// The value of a cookie set by the last upstream, without attributes.
pub fn cookie(exchange: &Exchange, name: &[u8], out: &mut Vec<u8>) {
    let lines = exchange.context.upstream.fields.all(FieldId::SetCookie);
    let mut values = lines.filter_map(|line| {
        let pair = line.split(|byte| *byte == b';').next()?.trim_ascii();
        let (known, value) = pair.split_at(pair.iter().position(|byte| *byte == b'=')?);
        let is_meant = known.trim_ascii_end().eq_ignore_ascii_case(name);
        is_meant.then(|| value[1..].trim_ascii_start())
    });
    if let Some(value) = values.next() {
        out.extend_from_slice(value);
    }
}

/// A trailer of the last upstream's response.
pub fn trailer(exchange: &Exchange, name: &[u8], out: &mut Vec<u8>) {
    let facts = exchange.context.upstream.facts.as_ref();
    let last = facts.and_then(|facts| facts.tries.last());
    if let Some(fields) = last.and_then(|last| last.body.trailers.borrow().clone()) {
        join(&fields, name, out);
    }
}

/// A trailer of the response, from `add_trailer` or from the upstream.
pub fn sent_trailer(exchange: &Exchange, name: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    trailer(exchange, name, out);
    let mut own = Vec::new();
    join(&exchange.context.occasional().trailers, name, &mut own);
    if out.len() > start && !own.is_empty() {
        out.extend_from_slice(b", ");
    }
    out.append(&mut own);
}

fn value(one: &ProxyTry, key: UpstreamKey, out: &mut Vec<u8>) {
    let time = match key {
        UpstreamKey::Address => {
            return match (one.address.strip_prefix("unix/"), one.peer) {
                (Some(path), _) => show(out, format_args!("unix:{path}")),
                (None, Some(peer)) => show(out, format_args!("{peer}")),
                // A name whose connection failed.
                (None, None) => out.extend_from_slice(one.address.as_bytes()),
            };
        }
        UpstreamKey::Status => {
            return match one.status {
                Some(status) => show(out, format_args!("{}", status.code())),
                None => out.push(b'-'),
            };
        }
        UpstreamKey::ResponseLength => {
            return show(out, format_args!("{}", one.body.bytes.get()));
        }
        UpstreamKey::BytesSent => {
            return show(out, format_args!("{}", one.traffic.sent.get()));
        }
        UpstreamKey::BytesReceived => {
            return show(out, format_args!("{}", one.traffic.received.get()));
        }
        UpstreamKey::ConnectTime => one.connected,
        UpstreamKey::HeaderTime => one.responded,
        UpstreamKey::ResponseTime => one.body.ended.get(),
    };
    match time {
        Some(time) => seconds(time, out),
        None => out.push(b'-'),
    }
}
