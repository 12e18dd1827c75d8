//! `$upstream_addr` and its kin: a value of each upstream that was asked, one behind the other.

use sluice_route::placeholder::nginx::UpstreamKey;

use super::variables::{seconds, show};
use crate::context::{Exchange, ProxyTry};

/// Appends the values: `, ` stands between upstreams, ` : ` where the server redirected the request to other ones.
pub fn push(x: &Exchange, key: UpstreamKey, out: &mut Vec<u8>) {
    let upstream = &x.context.upstream;
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
    // Of a request within this one that much is known.
    if let (UpstreamKey::Status, [], Some(status)) = (key, tries, upstream.status) {
        show(out, format_args!("{}", status.code()));
    }
}

fn value(one: &ProxyTry, key: UpstreamKey, out: &mut Vec<u8>) {
    let time = match key {
        UpstreamKey::Address => {
            return match one.address.strip_prefix("unix/") {
                Some(path) => show(out, format_args!("unix:{path}")),
                None => out.extend_from_slice(one.address.as_bytes()),
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
        UpstreamKey::ConnectTime => one.connected,
        UpstreamKey::HeaderTime => one.answered,
        UpstreamKey::ResponseTime => one.body.ended.get(),
    };
    match time {
        Some(time) => seconds(time, out),
        None => out.push(b'-'),
    }
}
