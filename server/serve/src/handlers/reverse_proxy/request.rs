//! What an upstream is asked: the client's request without what concerned the client's connection, with what the
//! upstream has to know about the client. Sending it is left to `sluice-net`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sluice_message::hop_by_hop::strip_hop_by_hop;
use sluice_message::{FieldId, Fields, Method, Status, Unfit, Version};
use sluice_net::RequestBody;
use sluice_net::upstream::Carrier;
use sluice_wire::h1::{self, BodyFraming};

use super::ReverseProxy;
use super::fastcgi::Asked;
use super::upstream::Upstream;
use crate::context::Exchange;
use crate::failure::Fault;
use crate::handlers::headers::Of;
use crate::values::At;
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
        let mut before = self.dialect.rewrite(x)?;
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
            if self.dialect.version() == Version::Http10 {
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
            host: match self.dialect.forwards_fields() {
                true => &x.req.authority,
                false => &[],
            },
            conn: &x.conn,
            values: &At(x),
            length,
        };
        fastcgi.encode(&asked, out)
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
        if self.dialect.forwards_fields() {
            out.append(fields);
            strip_hop_by_hop(out);
        }
        let switch = match self.dialect.forwards_upgrades() {
            true => switch_of(x, framing),
            false => Switch::No,
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
        self.dialect.set_fields(x, upstream, out);
        switch
    }

    /// Whether the trailer fields of a request are passed on: if the client announced them, and if no rule says
    /// which fields the upstream may see. Upstreams that take trailer fields for header fields would otherwise
    /// let a client get round such a rule.
    pub(super) fn passes_trailers(&self, x: &Exchange) -> bool {
        self.header_up.is_none() && x.req.fields.has(FieldId::Trailer)
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
