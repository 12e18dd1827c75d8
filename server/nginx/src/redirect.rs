//! Redirects sent to clients, and how they refer to this server.

use std::io::Write;

use sluice_message::{FieldId, Status};
use sluice_model::nginx::Redirects as Config;

use super::uri;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::{Cause, Fault};
use sluice_pipeline::handler::Step;
use sluice_pipeline::location;
use sluice_pipeline::text::clean_value;

/// How this server refers to itself in `Location` headers (`absolute_redirect`, `port_in_redirect`,
/// `server_name_in_redirect`).
#[derive(Clone, Debug)]
pub struct Naming {
    relative: bool,
    without_port: bool,
    /// The server name; empty for the host of the request.
    name: Box<str>,
}

impl Naming {
    /// Parses the directives.
    pub fn build(config: &Config) -> Naming {
        Naming {
            relative: config.relative,
            without_port: config.without_port,
            name: config.name.as_str().into(),
        }
    }

    /// Keeps a relative redirect on this server: a path may begin with two slashes, which clients read as a host,
    /// because of `merge_slashes off` or a variable.
    pub fn keep_here(&self, target: &mut Vec<u8>) {
        if self.relative {
            location::keep_here(target);
        }
    }

    /// The absolute URL of a path on this server; other targets are returned unchanged.
    pub fn absolute(&self, exchange: &Exchange, target: Vec<u8>) -> Vec<u8> {
        if self.relative || !target.starts_with(b"/") {
            return target;
        }
        let mut out = Vec::with_capacity(target.len() + 32);
        let is_tls = exchange.conn.tls.is_some();
        out.extend_from_slice(if is_tls { b"https://" } else { b"http://" });
        let local = exchange.conn.local.address();
        match (self.name.is_empty(), exchange.req.host.is_empty()) {
            (false, _) => out.extend_from_slice(self.name.as_bytes()),
            (true, false) if exchange.req.host.contains(&b':') => {
                out.push(b'[');
                out.extend_from_slice(&exchange.req.host);
                out.push(b']');
            }
            (true, false) => out.extend_from_slice(&exchange.req.host),
            (true, true) => {
                let ip = local.map_or_else(String::new, |local| local.ip().to_string());
                out.extend_from_slice(ip.as_bytes());
            }
        }
        let usual = if is_tls { 443 } else { 80 };
        if let Some(local) = local.filter(|local| !self.without_port && local.port() != usual) {
            write!(out, ":{}", local.port()).expect("writing to memory does not fail");
        }
        out.extend_from_slice(&target);
        out
    }
}

/// Whether this status is a redirect with a `Location`.
pub fn is_redirect(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

/// A redirect to `target`. It is a `Fault`, so that `error_page` applies to redirects as well.
pub fn to(naming: &Naming, exchange: &mut Exchange, status: Status, target: Vec<u8>) -> Fault {
    let location = as_value(naming.absolute(exchange, target));
    exchange.res.fields.set(FieldId::Location, &location);
    Fault::new(status, "redirected by the configuration").caused_by(Cause::Configured)
}

/// A redirect to the same path with a trailing slash.
pub fn add_slash(naming: &Naming, exchange: &mut Exchange) -> Step {
    let mut target = Vec::new();
    uri::escape(exchange.req.uri.path(), &mut target);
    target.push(b'/');
    naming.keep_here(&mut target);
    if let Some(query) = exchange.req.uri.query().filter(|query| !query.is_empty()) {
        target.push(b'?');
        target.extend_from_slice(query);
    }
    Step::Fail(to(naming, exchange, Status::MOVED_PERMANENTLY, target))
}

/// Makes a text safe for a header value: client input cannot start a new line.
pub fn as_value(mut text: Vec<u8>) -> Vec<u8> {
    clean_value(&mut text);
    text
}
