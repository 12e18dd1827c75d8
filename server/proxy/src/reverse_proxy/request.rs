//! Creates the request for an upstream: the client's request without hop-by-hop headers, with information about the
//! client. `sluice-net` sends it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sluice_message::hop_by_hop::strip_hop_by_hop;
use sluice_message::{FieldId, Fields, Method, Status, Unfit, Version};
use sluice_net::RequestBody;
use sluice_upstream::{Carrier, Pool};
use sluice_wire::h1::{self, BodyFraming};

use super::ReverseProxy;
use super::fastcgi::Asked;
use super::upstream::Upstream;
use sluice_handlers::headers::Of;
use sluice_observe::random;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::{Cause, Fault};
use sluice_pipeline::values::At;

/// A request ready to be sent.
pub struct Prepared {
    /// The encoded head, in one of the worker's buffers; empty if it was sent on an HTTP/2 stream.
    pub head: Vec<u8>,
    /// The method.
    pub method: Method,
    /// The framing of the body.
    pub framing: BodyFraming,
    /// The requested upgrade.
    pub switch: Switch,
}

/// The protocol upgrade that a request asks for (RFC 9110, section 7.8).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Switch {
    /// None: a response that switches protocols is refused.
    #[default]
    No,
    /// To this protocol.
    To(Vec<u8>),
}

impl ReverseProxy {
    /// Encodes the request for `upstream`, or starts it on `carrier` if that is an HTTP/2 connection. The exchange
    /// remains unchanged.
    pub(super) fn prepare(
        &self,
        exchange: &mut Exchange,
        upstream: &Upstream,
        body: &RequestBody,
        mut carrier: Option<&mut Carrier>,
    ) -> Result<Prepared, Fault> {
        let mut before = self.dialect.rewrite(exchange)?;
        let method = exchange.req.method.clone();
        if method == Method::Connect {
            // Its target is not this upstream; an upstream that is itself a proxy would connect wherever the client
            // wants (RFC 9110, section 9.3.6).
            if let Some((method, target)) = before {
                (exchange.req.method, exchange.req.uri) = (method, target);
            }
            let why = "CONNECT is not proxied to upstreams";
            return Err(Fault::new(Status::METHOD_NOT_ALLOWED, why));
        }
        let framing = framing(&method, body);
        let mut spare = Pool::of(&exchange.worker).spare_head();
        spare.fields.clear();
        let switch = self.put_together(exchange, upstream, framing, &mut spare.fields);
        let mut head = Vec::new();
        std::mem::swap(&mut exchange.req.fields, &mut spare.fields);
        let encoded;
        match &self.header_up {
            None => encoded = self.encode(exchange, framing, carrier.take(), &mut head),
            Some(ops) => {
                let authority = exchange.req.authority.clone();
                // Placeholders in `header_up` refer to the request as the proxy received it: an authentication service
                // needs the original `{uri}`, not the one it is requested with.
                swap_target(exchange, &mut before);
                ops.apply(exchange, Of::Request);
                swap_target(exchange, &mut before);
                if !exchange.req.fields.has(FieldId::Host) {
                    exchange
                        .req
                        .fields
                        .push(FieldId::Host, upstream.authority.as_bytes());
                }
                encoded = self.encode(exchange, framing, carrier.take(), &mut head);
                exchange.req.set_authority(&authority);
            }
        }
        std::mem::swap(&mut exchange.req.fields, &mut spare.fields);
        Pool::of(&exchange.worker).give_back(spare);
        if let Some((method, target)) = before {
            exchange.req.method = method;
            exchange.req.uri = target;
        }
        encoded?;
        Ok(Prepared {
            head,
            method,
            framing,
            switch,
        })
    }

    /// Encodes the request as it is in `exchange`.
    fn encode(
        &self,
        exchange: &Exchange,
        framing: BodyFraming,
        carrier: Option<&mut Carrier>,
        out: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        exchange.req.fields.fit().map_err(unfit)?;
        if carrier.is_some_and(|carrier| carrier.open(&exchange.req, framing)) {
            return Ok(());
        }
        *out = exchange.worker.buffers.small();
        if let Some(memcached) = &self.memcached {
            return memcached.encode(exchange, out);
        }
        let Some(fastcgi) = &self.fastcgi else {
            let targets = self.dialect.targets();
            h1::encode_with_target(&exchange.req, targets, framing, out).map_err(unfit)?;
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
            head: &exchange.req,
            host: match self.dialect.forwards_fields() {
                true => &exchange.req.authority,
                false => &[],
            },
            conn: &exchange.conn,
            values: &At(exchange),
            length,
        };
        fastcgi.encode(&asked, out)
    }

    /// Writes the request headers for the upstream to `out`, which is empty.
    fn put_together(
        &self,
        exchange: &Exchange,
        upstream: &Upstream,
        framing: BodyFraming,
        out: &mut Fields,
    ) -> Switch {
        let fields = &exchange.req.fields;
        if self.dialect.forwards_fields() {
            out.append(fields);
            strip_hop_by_hop(out);
        }
        let switch = match self.dialect.forwards_upgrades() {
            true => switch_of(exchange, framing),
            false => Switch::No,
        };
        if let Switch::To(protocol) = &switch {
            out.push(FieldId::Upgrade, protocol);
            if exchange.req.version >= Version::Http2 {
                out.set_raw(FieldId::Other, WEBSOCKET_KEY, websocket_key().as_bytes());
            }
        }
        if framing == BodyFraming::Chunked
            && self.passes_trailers(exchange)
            && let Some(names) = fields.first(FieldId::Trailer)
        {
            out.push(FieldId::Trailer, names);
        }
        if framing == BodyFraming::None || self.buffering.spools() {
            out.remove(FieldId::Expect);
        }
        self.dialect.set_fields(exchange, upstream, out);
        switch
    }

    /// Whether to forward request trailers: if the client announced them, and if no rule restricts the request headers.
    /// Otherwise a client could bypass such a rule at upstreams that treat trailers as headers.
    pub(super) fn passes_trailers(&self, exchange: &Exchange) -> bool {
        self.header_up.is_none() && exchange.req.fields.has(FieldId::Trailer)
    }
}

/// Clients can cause this if a configured header contains decoded text, such as a path.
fn unfit(unfit: Unfit) -> Fault {
    let message = match unfit {
        Unfit::Name => "a header name for the upstream is not a token",
        Unfit::Value => "a header value for the upstream has a control character",
    };
    Fault::new(Status::BAD_REQUEST, message).caused_by(Cause::Client)
}

/// Swaps method and target with the previous ones, if there are any.
fn swap_target(exchange: &mut Exchange, kept: &mut Option<(Method, sluice_message::Uri)>) {
    if let Some((method, target)) = kept {
        std::mem::swap(&mut exchange.req.method, method);
        std::mem::swap(&mut exchange.req.uri, target);
    }
}

/// Changes the request line of an encoded head to HTTP/1.0.
fn say_http10(head: &mut [u8]) {
    if let Some(end) = memchr::memchr(b'\r', head)
        && let Some(digit) = end.checked_sub(1).and_then(|at| head.get_mut(at))
    {
        *digit = b'0';
    }
}

/// The framing of a request body. Methods that usually have a body declare an empty one (RFC 9110, section 8.6).
fn framing(method: &Method, body: &RequestBody) -> BodyFraming {
    match body {
        RequestBody::None => match method {
            Method::Post | Method::Put | Method::Patch => BodyFraming::Length(0),
            _ => BodyFraming::None,
        },
        RequestBody::Stream(body) => body.len().map_or(BodyFraming::Chunked, BodyFraming::Length),
    }
}

/// Required for WebSocket over HTTP/1.1 (RFC 6455, section 4.1), but not present over HTTP/2.
const WEBSOCKET_KEY: &[u8] = b"Sec-WebSocket-Key";

fn websocket_key() -> String {
    STANDARD.encode(random::bits().to_be_bytes())
}

/// The upgrade requested by the client. A request with a body is not upgraded: two servers could disagree where the
/// body ends and the new protocol begins.
fn switch_of(exchange: &Exchange, framing: BodyFraming) -> Switch {
    let fields = &exchange.req.fields;
    let has_content = !matches!(framing, BodyFraming::None | BodyFraming::Length(0));
    // In HTTP/2 only our connection can create these headers, for an extended CONNECT (RFC 8441).
    let may_switch = exchange.req.version >= Version::Http11;
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

/// Whether HTTP/2 is among the protocols. RFC 9113, section 3.1 removed the upgrade to it; an upstream that still
/// accepts it would get further requests that bypass the rules of this server.
fn names_http2(protocols: &[u8]) -> bool {
    let mut names = protocols
        .split(|byte| *byte == b',')
        .map(<[u8]>::trim_ascii);
    names.any(|name| {
        name.get(..3)
            .is_some_and(|start| start.eq_ignore_ascii_case(b"h2c"))
    })
}
