//! A span: the trace data of one request.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use sluice_message::{Method, Remote};
use sluice_net::Exchange;

use super::export::Exporter;
use super::parent::Parent;
use super::protobuf::{
    push_bytes, push_fixed, push_number, push_number_attribute, push_text_attribute,
};
use crate::random;

/// What a span reports of the end of its request besides the exchange.
#[derive(Clone, Copy, Debug)]
pub struct Ended<'a> {
    /// The method that the client sent.
    pub method: &'a Method,
    /// The address of the client as trusted proxies name it.
    pub client_ip: Option<IpAddr>,
    /// The status of the response; 0 if there was none.
    pub status: u16,
    /// Bytes of the body that were sent.
    pub body_bytes_sent: u64,
}

/// A span in progress.
#[derive(Debug)]
pub struct Span {
    exporter: Arc<Exporter>,
    trace_id: u128,
    span_id: u64,
    /// The parent span; 0 if it is the root of its trace.
    parent_id: u64,
    sampled: bool,
    state: Vec<u8>,
    name: Vec<u8>,
    attributes: Vec<(Arc<str>, Vec<u8>)>,
    began: SystemTime,
    /// The span of an enclosing `tracing` handler.
    outer: Option<Box<Span>>,
}

impl Span {
    /// Starts a span as a child of `outer`, otherwise of the client's span, otherwise as the root of a new trace.
    pub fn begin(
        exporter: &Arc<Exporter>,
        outer: Option<Box<Span>>,
        parent: Option<Parent>,
        state: Vec<u8>,
    ) -> Span {
        let parent = match &outer {
            Some(outer) => Some(Parent {
                trace_id: outer.trace_id,
                span_id: outer.span_id,
                sampled: outer.sampled,
            }),
            None => parent,
        };
        let trace_id = parent.map_or_else(|| random::bits().max(1), |parent| parent.trace_id);
        let sampler = exporter.settings().sampler;
        Span {
            exporter: exporter.clone(),
            trace_id,
            span_id: random::word().max(1),
            parent_id: parent.map_or(0, |parent| parent.span_id),
            sampled: sampler.takes(trace_id, parent.map(|parent| parent.sampled)),
            state,
            name: Vec::new(),
            attributes: Vec::new(),
            began: SystemTime::now(),
            outer,
        }
    }

    /// Sets the name.
    pub fn set_name(&mut self, name: Vec<u8>) {
        self.name = name;
    }

    /// Adds an attribute.
    pub fn add(&mut self, key: &Arc<str>, value: Vec<u8>) {
        self.attributes.push((key.clone(), value));
    }

    /// The trace ID, for logs and placeholders.
    pub fn trace_id(&self) -> String {
        format!("{:032x}", self.trace_id)
    }

    /// The span ID, for logs and placeholders.
    pub fn span_id(&self) -> String {
        format!("{:016x}", self.span_id)
    }

    /// Whether it is recorded.
    pub fn is_sampled(&self) -> bool {
        self.sampled
    }

    /// The value of `traceparent` for upstreams.
    pub fn traceparent(&self) -> String {
        let flags = u8::from(self.sampled);
        format!(
            "00-{:032x}-{:016x}-{flags:02x}",
            self.trace_id, self.span_id
        )
    }

    /// Ends it, and those around it.
    pub fn end<C>(self, exchange: &Exchange<C>, ended: Ended<'_>) {
        if self.sampled {
            self.exporter.push(self.encode(exchange, ended));
        }
        if let Some(outer) = self.outer {
            outer.end(exchange, ended);
        }
    }

    /// Encodes `Span` of opentelemetry/proto/trace/v1, with the attributes of the semantic conventions for HTTP
    /// servers.
    fn encode<C>(&self, exchange: &Exchange<C>, ended: Ended<'_>) -> Vec<u8> {
        let status = ended.status;
        const ATTRIBUTE: u32 = 9;
        const SERVER: u64 = 2;
        let mut out = Vec::with_capacity(512);
        push_bytes(&mut out, 1, &self.trace_id.to_be_bytes());
        push_bytes(&mut out, 2, &self.span_id.to_be_bytes());
        if !self.state.is_empty() {
            push_bytes(&mut out, 3, String::from_utf8_lossy(&self.state).as_bytes());
        }
        if self.parent_id != 0 {
            push_bytes(&mut out, 4, &self.parent_id.to_be_bytes());
        }
        push_bytes(&mut out, 5, String::from_utf8_lossy(&self.name).as_bytes());
        push_number(&mut out, 6, SERVER);
        push_fixed(&mut out, 7, nanos(self.began));
        push_fixed(&mut out, 8, nanos(SystemTime::now()));
        let mut text = |key: &str, value: &[u8]| {
            push_text_attribute(&mut out, ATTRIBUTE, key, value);
        };
        text("http.request.method", ended.method.as_str().as_bytes());
        text(
            "url.scheme",
            if exchange.conn.tls.is_some() {
                b"https"
            } else {
                b"http"
            },
        );
        let (path, query) = split_query(&exchange.req.target);
        text("url.path", path);
        if let Some(query) = query {
            text("url.query", query);
        }
        text("server.address", &exchange.req.host);
        let version = exchange.req.version.as_str();
        let version = version.strip_prefix("HTTP/").unwrap_or(version);
        text("network.protocol.version", version.as_bytes());
        if let Remote::Ip(address) = exchange.conn.remote {
            let peer = address.ip().to_string();
            text("network.peer.address", peer.as_bytes());
            let client = ended.client_ip.map_or(peer, |ip| ip.to_string());
            text("client.address", client.as_bytes());
        }
        for (key, value) in &self.attributes {
            text(key, value);
        }
        if status > 0 {
            push_number_attribute(
                &mut out,
                ATTRIBUTE,
                "http.response.status_code",
                status.into(),
            );
        }
        push_number_attribute(
            &mut out,
            ATTRIBUTE,
            "http.response.body.size",
            ended.body_bytes_sent,
        );
        push_outcome(&mut out, status);
        out
    }
}

/// Appends the error status, if the request failed.
fn push_outcome(out: &mut Vec<u8>, status: u16) {
    const ERROR: u64 = 2;
    if status >= 500 || status == 0 {
        let mut outcome = Vec::new();
        push_number(&mut outcome, 3, ERROR);
        push_bytes(out, 15, &outcome);
    }
}

fn nanos(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

fn split_query(target: &[u8]) -> (&[u8], Option<&[u8]>) {
    match memchr::memchr(b'?', target) {
        Some(at) => (&target[..at], Some(&target[at + 1..])),
        None => (target, None),
    }
}
