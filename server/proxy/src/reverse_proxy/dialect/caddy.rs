//! How Caddy proxies: the host is the client's, `Via` and `X-Forwarded-*` say who asked, retries are those of
//! `lb_retries` and `lb_try_duration`.

use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

use sluice_message::{
    FieldId, Fields, FixedField, IpText, Moment, ResponseHead, Scheme, Status, Version,
};
use sluice_model::proxy::ReverseProxy as Config;
use sluice_net::tunnel::IdleTimeouts;
use sluice_net::{Body, Failure, RequestBody};
use sluice_policy::retry::Others;
use sluice_route::matcher::IpRanges;
use sluice_route::{Input, Rewrite};
use sluice_upstream::{Call, Response, Timeouts};
use sluice_wire::h1::{Leniency, TargetBytes};

use super::{Destination, Dialect, FailedTry, Original, Reported};
use crate::reverse_proxy::addresses::Sockets;
use crate::reverse_proxy::buffering::{Ahead, Buffering, Rules};
use crate::reverse_proxy::language::{EmptyFields, Language, ShownFields};
use crate::reverse_proxy::retry::{Retries, Sharing};
use crate::reverse_proxy::tried::Tried;
use crate::reverse_proxy::upstream::Upstream;
use crate::reverse_proxy::upstream_response::merge;
use sluice_handlers::rewrite;
use sluice_pipeline::build::Builder;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::Fault;
use sluice_pipeline::handler::Step;
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::values::{At, remote_ip};

/// The settings that only Caddy has.
struct Caddy {
    /// When to try again.
    retries: Retries,
    /// Changes to method and target.
    rewrite: Option<Rewrite>,
    /// Proxies whose `X-Forwarded-*` headers are trusted, in addition to those of the server.
    trusted_proxies: IpRanges,
}

/// The Caddyfile, and the JSON configuration.
pub struct Caddyfile;

impl Language for Caddyfile {
    fn dialect(
        &self,
        config: &Config,
        _servers: u32,
        sharing: Sharing,
        _cx: &Builder<'_>,
    ) -> Result<Box<dyn Dialect>, Refusal> {
        let rewrite = config.rewrite.as_ref().map(rewrite::rewrite).transpose();
        Ok(Box::new(Caddy {
            retries: Retries::build(config, sharing)?,
            rewrite: rewrite.map_err(|error| Refusal::new(error.to_string()))?,
            trusted_proxies: IpRanges::new(&config.trusted_proxies)
                .map_err(|error| Refusal::new(format!("trusted_proxies: {error}")))?,
        }))
    }

    fn buffering(&self, config: &Config, builder: &Builder<'_>) -> Result<Buffering, Refusal> {
        Buffering::build(config, builder)
    }

    fn empty_fields(&self) -> EmptyFields {
        EmptyFields::Sent
    }

    fn drops_body(&self) -> bool {
        false
    }

    fn sockets(&self) -> Sockets {
        Sockets::Refused
    }

    fn leniency(&self) -> Leniency {
        Leniency::default()
    }

    fn shown_fields(&self) -> ShownFields {
        ShownFields::AsForwarded
    }
}

impl Dialect for Caddy {
    fn outlives_client(&self) -> bool {
        false
    }

    fn begin(&self, exchange: &Exchange, body: RequestBody, _tried: &Tried) -> RequestBody {
        self.retries.begin(exchange, body)
    }

    fn next(
        &self,
        exchange: &Exchange,
        failed: &FailedTry<'_>,
        tried: &Tried,
        others: &mut dyn FnMut() -> Others,
    ) -> Option<Moment> {
        self.retries.next(exchange, failed.call, tried, others)
    }

    fn retry_instead(
        &self,
        exchange: &mut Exchange,
        call: &mut Call,
        response: &Response,
        tried: &Tried,
    ) -> Option<RequestBody> {
        self.retries.instead(exchange, call, response, tried)
    }

    fn unavailable(&self) -> Status {
        Status::SERVICE_UNAVAILABLE
    }

    fn report_failure(
        &self,
        _x: &mut Exchange,
        _failure: &Failure,
        _of: &Destination<'_>,
    ) -> Reported {
        Reported::WithRequest
    }

    fn replaced_body(&self, _x: &Exchange) -> Option<Vec<u8>> {
        None
    }

    fn rewrite(&self, exchange: &mut Exchange) -> Result<Option<Original>, Fault> {
        let Some(rewrite) = &self.rewrite else {
            return Ok(None);
        };
        let before = (exchange.req.method.clone(), exchange.req.uri.clone());
        let input = Input {
            head: &exchange.req,
            conn: &exchange.conn,
            client_ip: exchange.context.client_ip,
            values: &At(exchange),
            scratch: &exchange.context.scratch,
        };
        let change = rewrite
            .apply(&input)
            .map_err(|refusal| Fault::new(refusal.status, refusal.reason))?;
        change.write(&mut exchange.req);
        Ok(Some(before))
    }

    fn forwards_fields(&self) -> bool {
        true
    }

    fn forwards_upgrades(&self) -> bool {
        true
    }

    fn tunnel_timeouts(&self, _exchange: &Exchange, _upstream: &Timeouts) -> IdleTimeouts {
        IdleTimeouts::default()
    }

    fn forwards_interims(&self, _x: &Exchange) -> bool {
        true
    }

    fn targets(&self) -> TargetBytes {
        TargetBytes::Ascii
    }

    fn version(&self) -> Version {
        Version::Http11
    }

    fn set_fields(&self, exchange: &Exchange, upstream: &Upstream, out: &mut Fields) {
        set_host(exchange, upstream, out);
        out.push_fixed(via(exchange.req.version));
        self.set_forwarded(exchange, out);
    }

    fn redirect_internally(
        &self,
        _x: &mut Exchange,
        _fields: &Fields,
        _call: &mut Call,
    ) -> Option<Step> {
        None
    }

    fn intercepts(&self, _status: Status) -> bool {
        false
    }

    fn take_fields(&self, exchange: &mut Exchange, head: &mut ResponseHead, _is_shown: bool) {
        // The response is the upstream's, and so is the name of its server; ours goes to Via.
        exchange.res.fields.remove(FieldId::Server);
        merge(&mut exchange.res.fields, &mut head.fields);
        exchange.res.fields.push_fixed(via(head.version));
    }

    fn add_type(&self, _x: &mut Exchange) {}

    fn forward(&self, exchange: &mut Exchange, body: Body, ahead: Option<Arc<Rules>>) -> Step {
        Step::Done(match (body, ahead) {
            (Body::Stream(body), Some(rules)) => {
                Body::Stream(Box::new(Ahead::new(&exchange.worker, &rules, body)))
            }
            (body, _) => body,
        })
    }
}

impl Caddy {
    /// Sets X-Forwarded-For, -Host and -Proto, and Forwarded if it is in use. Values sent by the client are kept only
    /// if it is a trusted proxy.
    fn set_forwarded(&self, exchange: &Exchange, out: &mut Fields) {
        let ip = remote_ip(&exchange.conn);
        let is_trusted = exchange.context.from_trusted_proxy
            || ip.is_some_and(|ip| self.trusted_proxies.contains(ip));
        let proto: &[u8] = match exchange.conn.scheme() {
            Scheme::Http => b"http",
            Scheme::Https => b"https",
        };
        if !out.ids().any(is_forwarded) {
            push_ip(out, b"", ip);
            out.push(FieldId::XForwardedHost, &exchange.req.authority);
            out.push(FieldId::XForwardedProto, proto);
            return;
        }
        let believed = |id| {
            let mut joined = Vec::new();
            for value in exchange.req.fields.all(id).filter(|_| is_trusted) {
                if !joined.is_empty() {
                    joined.extend_from_slice(b", ");
                }
                joined.extend_from_slice(value);
            }
            joined
        };
        let last = |id| {
            exchange
                .req
                .fields
                .all(id)
                .filter(|v| is_trusted && !v.is_empty())
                .last()
        };
        out.retain(|field| !is_forwarded(field.id));
        push_ip(out, &believed(FieldId::XForwardedFor), ip);
        let host = last(FieldId::XForwardedHost).unwrap_or(&exchange.req.authority);
        out.push(FieldId::XForwardedHost, host);
        out.push(
            FieldId::XForwardedProto,
            last(FieldId::XForwardedProto).unwrap_or(proto),
        );
        let before = believed(FieldId::Forwarded);
        if !before.is_empty() {
            let element = element(ip, &exchange.req.authority, proto);
            out.push(FieldId::Forwarded, &[&before[..], b", ", &element].concat());
        }
    }
}

/// Sets `Host` to the client's, or to the upstream's address if the client did not send one.
fn set_host(exchange: &Exchange, upstream: &Upstream, out: &mut Fields) {
    let authority = &exchange.req.authority[..];
    let host = if authority.is_empty() {
        upstream.authority.as_bytes()
    } else {
        authority
    };
    if out.first(FieldId::Host) != Some(host) {
        out.set(FieldId::Host, host);
    }
}

fn is_forwarded(id: FieldId) -> bool {
    matches!(
        id,
        FieldId::XForwardedFor
            | FieldId::XForwardedHost
            | FieldId::XForwardedProto
            | FieldId::Forwarded
    )
}

/// An element of Forwarded (RFC 7239, section 4). It is added only if the header is already in use.
fn element(ip: Option<IpAddr>, host: &[u8], proto: &[u8]) -> Vec<u8> {
    let client = match ip {
        None => "for=unknown".to_owned(),
        Some(IpAddr::V4(ip)) => format!("for={ip}"),
        Some(IpAddr::V6(ip)) => format!("for=\"[{ip}]\""),
    };
    let mut out = client.into_bytes();
    // The characters of a valid host need not be escaped in a quoted-string.
    if !host.is_empty() && !host.iter().any(|byte| b"\"\\".contains(byte)) {
        out.extend_from_slice(b";host=\"");
        out.extend_from_slice(host);
        out.push(b'"');
    }
    out.extend_from_slice(b";proto=");
    out.extend_from_slice(proto);
    out
}

/// Adds X-Forwarded-For: the previous value, followed by `ip`.
fn push_ip(out: &mut Fields, before: &[u8], ip: Option<IpAddr>) {
    let text = ip.map(IpText::new);
    match (before, &text) {
        (b"", None) => {}
        (b"", Some(text)) => out.push(FieldId::XForwardedFor, text.as_bytes()),
        (before, None) => out.push(FieldId::XForwardedFor, before),
        (before, Some(text)) => {
            let joined = [before, b", ", text.as_bytes()].concat();
            out.push(FieldId::XForwardedFor, &joined);
        }
    }
}

/// The Via header for a message that we received with this version (RFC 9110, section 7.6.3).
pub fn via(version: Version) -> &'static FixedField {
    static LINES: LazyLock<[FixedField; 4]> = LazyLock::new(|| {
        ["1.0 sluice", "1.1 sluice", "2.0 sluice", "3.0 sluice"]
            .map(|value| FixedField::known(FieldId::Via, value.as_bytes()))
    });
    match version {
        Version::Http10 => &LINES[0],
        Version::Http11 => &LINES[1],
        Version::Http2 => &LINES[2],
        Version::Http3 => &LINES[3],
    }
}
