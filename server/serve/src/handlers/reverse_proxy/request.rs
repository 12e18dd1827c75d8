//! What an upstream is asked: the client's request without what concerned the client's connection, with what the
//! upstream has to know about the client. Sending it is left to `sluice-net`.

use std::net::IpAddr;
use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sluice_message::hop_by_hop::strip_hop_by_hop;
use sluice_message::{FieldId, Fields, FixedField, IpText, Method, Scheme, Status, Unfit, Version};
use sluice_net::RequestBody;
use sluice_net::upstream::Carrier;
use sluice_route::Input;
use sluice_wire::h1::{self, BodyFraming};

use super::ReverseProxy;
use super::as_nginx::AsNginx;
use super::fastcgi::Asked;
use super::upstream::Upstream;
use crate::context::Exchange;
use crate::failure::Fault;
use crate::handlers::headers::Of;
use crate::values::{At, remote_ip};
use sluice_observe::random;

/// A request ready to be sent.
pub struct Prepared {
    /// Its head, encoded, in one of the worker's buffers; empty where it went by a stream.
    pub head: Vec<u8>,
    /// Its method.
    pub method: Method,
    /// How its body is framed.
    pub framing: BodyFraming,
    /// The protocol it wants to switch to.
    pub switch: Switch,
}

/// Whether a request asks for another protocol, and which (RFC 9110, section 7.8).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Switch {
    /// It does not: an answer that switches is refused.
    #[default]
    No,
    /// To this.
    To(Vec<u8>),
}

impl ReverseProxy {
    /// Encodes the request for `upstream`, or opens it on `carrier` where that takes no text. The exchange is left as it
    /// was.
    pub(super) fn prepare(
        &self,
        x: &mut Exchange,
        upstream: &Upstream,
        body: &RequestBody,
        mut carrier: Option<&mut Carrier>,
    ) -> Result<Prepared, Fault> {
        let mut before = self.rewrite(x)?;
        let method = x.req.method.clone();
        if method == Method::Connect {
            // It names another server than the one that it is sent to; an upstream that is a proxy itself would do what
            // a stranger asks for (RFC 9110, section 9.3.6).
            if let Some((method, target)) = before {
                (x.req.method, x.req.uri) = (method, target);
            }
            let why = "CONNECT is not proxied to upstreams";
            return Err(Fault::new(Status::METHOD_NOT_ALLOWED, why));
        }
        let framing = framing(&method, body);
        let mut spare = x.worker.upstreams.spare_head();
        spare.fields.clear();
        let switch = self.put_together(x, upstream, framing, &mut spare.fields);
        let mut head = Vec::new();
        std::mem::swap(&mut x.req.fields, &mut spare.fields);
        let encoded;
        match &self.header_up {
            None => encoded = self.encode(x, framing, carrier.take(), &mut head),
            Some(ops) => {
                let authority = x.req.authority.clone();
                // Placeholders in them tell of the request as it came to the proxy: an authentication
                // service asks for `{uri}`, which is not the one it is asked itself.
                swap_target(x, &mut before);
                ops.apply(x, Of::Request);
                swap_target(x, &mut before);
                if !x.req.fields.has(FieldId::Host) {
                    x.req
                        .fields
                        .push(FieldId::Host, upstream.authority.as_bytes());
                }
                encoded = self.encode(x, framing, carrier.take(), &mut head);
                x.req.set_authority(&authority);
            }
        }
        std::mem::swap(&mut x.req.fields, &mut spare.fields);
        x.worker.upstreams.give_back(spare);
        if let Some((method, target)) = before {
            x.req.method = method;
            x.req.uri = target;
        }
        encoded?;
        Ok(Prepared {
            head,
            method,
            framing,
            switch,
        })
    }

    /// Encodes the request as it now stands in `x`.
    fn encode(
        &self,
        x: &Exchange,
        framing: BodyFraming,
        carrier: Option<&mut Carrier>,
        out: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        x.req.fields.fit().map_err(unfit)?;
        if carrier.is_some_and(|carrier| carrier.open(&x.req, framing)) {
            return Ok(());
        }
        *out = x.worker.buffers.small();
        if let Some(memcached) = &self.memcached {
            return memcached.encode(x, out);
        }
        let Some(fastcgi) = &self.fastcgi else {
            h1::encode_request_head(&x.req, framing, out).map_err(unfit)?;
            if self
                .as_nginx
                .as_ref()
                .is_some_and(|nginx| nginx.is_http10())
            {
                say_http10(out);
            }
            return Ok(());
        };
        let length = match framing {
            BodyFraming::Length(length) => length,
            BodyFraming::None | BodyFraming::Chunked | BodyFraming::UntilClose => 0,
        };
        let asked = Asked {
            head: &x.req,
            host: match self.as_nginx.as_deref().is_some_and(AsNginx::drops_fields) {
                true => &[],
                false => &x.req.authority,
            },
            conn: &x.conn,
            values: &At(x),
            length,
        };
        fastcgi.encode(&asked, out)
    }

    /// Rewrites method and target for the upstream; gives what they were, if anything may have changed.
    fn rewrite(&self, x: &mut Exchange) -> Result<Option<(Method, sluice_message::Uri)>, Fault> {
        if let Some(as_nginx) = &self.as_nginx {
            return as_nginx.rewrite(x);
        }
        let Some(rewrite) = &self.rewrite else {
            return Ok(None);
        };
        let before = (x.req.method.clone(), x.req.uri.clone());
        let input = Input {
            head: &x.req,
            conn: &x.conn,
            client_ip: x.context.client_ip,
            values: &At(x),
            scratch: &x.context.scratch,
        };
        let change = rewrite
            .apply(&input)
            .map_err(|refusal| Fault::new(refusal.status, refusal.reason))?;
        change.write(&mut x.req);
        Ok(Some(before))
    }

    /// Writes the fields of the upstream's request to `out`, which is empty.
    fn put_together(
        &self,
        x: &Exchange,
        upstream: &Upstream,
        framing: BodyFraming,
        out: &mut Fields,
    ) -> Switch {
        let fields = &x.req.fields;
        let as_nginx = self.as_nginx.as_deref();
        if !as_nginx.is_some_and(AsNginx::drops_fields) {
            out.append(fields);
            strip_hop_by_hop(out);
        }
        let switch = match &self.as_nginx {
            Some(as_nginx) if !as_nginx.passes_upgrades() => Switch::No,
            Some(_) | None => switch_of(x, framing),
        };
        if let Switch::To(protocol) = &switch {
            out.push(FieldId::Upgrade, protocol);
            if x.req.version == Version::Http2 {
                out.set_raw(FieldId::Other, WEBSOCKET_KEY, websocket_key().as_bytes());
            }
        }
        if framing == BodyFraming::Chunked
            && self.passes_trailers(x)
            && let Some(names) = fields.first(FieldId::Trailer)
        {
            out.push(FieldId::Trailer, names);
        }
        if framing == BodyFraming::None || self.buffering.spools() {
            out.remove(FieldId::Expect);
        }
        if let Some(as_nginx) = &self.as_nginx {
            as_nginx.set_te(out);
            as_nginx.set_host(x, out);
            return switch;
        }
        self.set_host(x, upstream, out);
        out.push_fixed(via(x.req.version));
        self.set_forwarded(x, out);
        switch
    }

    /// Whether the trailer fields of a request are passed on: if the client announced them, and if no rule says
    /// which fields the upstream may see. Upstreams that take trailer fields for header fields would otherwise
    /// let a client get round such a rule.
    pub(super) fn passes_trailers(&self, x: &Exchange) -> bool {
        self.header_up.is_none() && x.req.fields.has(FieldId::Trailer)
    }

    /// The host is the client's; where it named none the upstream's address has to do.
    fn set_host(&self, x: &Exchange, upstream: &Upstream, out: &mut Fields) {
        let authority = &x.req.authority[..];
        let host = if authority.is_empty() {
            upstream.authority.as_bytes()
        } else {
            authority
        };
        if out.first(FieldId::Host) != Some(host) {
            out.set(FieldId::Host, host);
        }
    }

    /// X-Forwarded-For, -Host and -Proto, and Forwarded where it is used. What the client sent of them counts only if it is a trusted proxy.
    fn set_forwarded(&self, x: &Exchange, out: &mut Fields) {
        let ip = remote_ip(&x.conn);
        let is_trusted =
            x.context.from_trusted_proxy || ip.is_some_and(|ip| self.trusted_proxies.contains(ip));
        let proto: &[u8] = match x.conn.scheme() {
            Scheme::Http => b"http",
            Scheme::Https => b"https",
        };
        if !out.iter().any(|field| is_forwarded(field.id)) {
            push_ip(out, b"", ip);
            out.push(FieldId::XForwardedHost, &x.req.authority);
            out.push(FieldId::XForwardedProto, proto);
            return;
        }
        let believed = |id| {
            let mut joined = Vec::new();
            for value in x.req.fields.all(id).filter(|_| is_trusted) {
                if !joined.is_empty() {
                    joined.extend_from_slice(b", ");
                }
                joined.extend_from_slice(value);
            }
            joined
        };
        let last = |id| {
            x.req
                .fields
                .all(id)
                .filter(|v| is_trusted && !v.is_empty())
                .last()
        };
        out.retain(|field| !is_forwarded(field.id));
        push_ip(out, &believed(FieldId::XForwardedFor), ip);
        let host = last(FieldId::XForwardedHost).unwrap_or(&x.req.authority);
        out.push(FieldId::XForwardedHost, host);
        out.push(
            FieldId::XForwardedProto,
            last(FieldId::XForwardedProto).unwrap_or(proto),
        );
        let before = believed(FieldId::Forwarded);
        if !before.is_empty() {
            let element = element(ip, &x.req.authority, proto);
            out.push(FieldId::Forwarded, &[&before[..], b", ", &element].concat());
        }
    }
}

/// Clients bring such bytes where a configuration makes a header of decoded text, such as a path.
fn unfit(unfit: Unfit) -> Fault {
    let message = match unfit {
        Unfit::Name => "a header name for the upstream is not a token",
        Unfit::Value => "a header value for the upstream has a control character",
    };
    Fault::new(Status::BAD_REQUEST, message)
}

/// Exchanges method and target with those that were kept, if any were.
fn swap_target(x: &mut Exchange, kept: &mut Option<(Method, sluice_message::Uri)>) {
    if let Some((method, target)) = kept {
        std::mem::swap(&mut x.req.method, method);
        std::mem::swap(&mut x.req.uri, target);
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

/// An element of Forwarded (RFC 7239, section 4). It is added for those who use the field, and only for them.
fn element(ip: Option<IpAddr>, host: &[u8], proto: &[u8]) -> Vec<u8> {
    let client = match ip {
        None => "for=unknown".to_owned(),
        Some(IpAddr::V4(ip)) => format!("for={ip}"),
        Some(IpAddr::V6(ip)) => format!("for=\"[{ip}]\""),
    };
    let mut out = client.into_bytes();
    // No character of an authority needs to be escaped within the quotes.
    if !host.is_empty() && !host.iter().any(|byte| b"\"\\".contains(byte)) {
        out.extend_from_slice(b";host=\"");
        out.extend_from_slice(host);
        out.push(b'"');
    }
    out.extend_from_slice(b";proto=");
    out.extend_from_slice(proto);
    out
}

/// Adds X-Forwarded-For: those before, then `ip`.
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

/// The Via line by which a message tells in which version it reached us (RFC 9110, section 7.6.3).
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

/// Makes the first line of an encoded head that of HTTP/1.0.
fn say_http10(head: &mut [u8]) {
    if let Some(end) = memchr::memchr(b'\r', head)
        && let Some(digit) = end.checked_sub(1).and_then(|at| head.get_mut(at))
    {
        *digit = b'0';
    }
}

/// How a body is sent on. Methods that usually have a body say so where there is none (RFC 9110, section 8.6).
fn framing(method: &Method, body: &RequestBody) -> BodyFraming {
    match body {
        RequestBody::None => match method {
            Method::Post | Method::Put | Method::Patch => BodyFraming::Length(0),
            _ => BodyFraming::None,
        },
        RequestBody::Stream(body) => body.len().map_or(BodyFraming::Chunked, BodyFraming::Length),
    }
}

/// What WebSockets of HTTP/1.1 are asked for with and those of HTTP/2 are not (RFC 6455, section 4.1).
const WEBSOCKET_KEY: &[u8] = b"Sec-WebSocket-Key";

fn websocket_key() -> String {
    STANDARD.encode(random::bits().to_be_bytes())
}

/// The switch that the client wants. One with a body is not passed on: where the body ends and the new protocol
/// begins two servers can understand differently.
fn switch_of(x: &Exchange, framing: BodyFraming) -> Switch {
    let fields = &x.req.fields;
    let has_content = !matches!(framing, BodyFraming::None | BodyFraming::Length(0));
    // In HTTP/2 nobody can write these fields but the connection, for a client that asks for a WebSocket (RFC 8441).
    let may_switch = matches!(x.req.version, Version::Http11 | Version::Http2);
    if !fields.has(FieldId::Upgrade) || has_content || !may_switch {
        return Switch::No;
    }
    let is_meant = fields
        .all(FieldId::Connection)
        .flat_map(|value| value.split(|byte| *byte == b','))
        .any(|option| option.trim_ascii().eq_ignore_ascii_case(b"upgrade"));
    let mut protocols = fields.all(FieldId::Upgrade);
    match (is_meant, protocols.next(), protocols.next()) {
        (true, Some(protocol), None) if !protocol.is_empty() && !names_http2(protocol) => {
            Switch::To(protocol.to_vec())
        }
        _ => Switch::No,
    }
}

/// Whether HTTP/2 is among the protocols. RFC 9113, section 3.1 has dropped the upgrade to it; an upstream that still
/// takes it would be asked for anything behind it, past the rules of this server.
fn names_http2(protocols: &[u8]) -> bool {
    let mut names = protocols
        .split(|byte| *byte == b',')
        .map(<[u8]>::trim_ascii);
    names.any(|name| {
        name.get(..3)
            .is_some_and(|start| start.eq_ignore_ascii_case(b"h2c"))
    })
}
