//! Sends a request to an application, and again if a worker process dies under it and that is allowed.

use std::borrow::Cow;
use std::future::poll_fn;
use std::net::SocketAddr;

use sluice_message::{FieldId, RequestHead, Scheme, Version};
use sluice_net::RequestBody;
use sluice_python::{Call, CallFailure, Facts, Request, Response, Why};

use super::root_path::RootPath;
use super::{Chosen, Python, failure};
use crate::limits::PYTHON_ATTEMPTS_MAX;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::Fault;
use sluice_pipeline::values::{client_ip, remote_ip};

impl Python {
    /// The response to a request, after as many attempts as it needs and may have.
    pub(super) async fn attempts(
        &self,
        exchange: &mut Exchange,
        chosen: &Chosen,
        mut body: RequestBody,
    ) -> Result<(Box<Call>, Response), Fault> {
        let root = RootPath::of(exchange);
        for left in (0..PYTHON_ATTEMPTS_MAX).rev() {
            let failed = match attempt(exchange, chosen, &root, body).await {
                Ok(responded) => return Ok(responded),
                Err(failed) => failed,
            };
            match failed {
                CallFailure {
                    why: Why::Died { started, .. },
                    body: Some(again),
                } if left > 0 && (!started || exchange.req.method.is_idempotent()) => {
                    body = rewound(again);
                }
                CallFailure { why, .. } => return Err(failure::fault(exchange, chosen, why)),
            }
        }
        unreachable!("the last attempt returns")
    }
}

async fn attempt(
    exchange: &Exchange,
    chosen: &Chosen,
    root: &RootPath,
    body: RequestBody,
) -> Result<(Box<Call>, Response), CallFailure> {
    let head = believed(exchange);
    let request = Request {
        facts: facts(exchange, root, body.len()),
        head: &head,
        body,
    };
    let mut call = chosen.application.call(&exchange.worker, request).await?;
    // HTTP/1.0 does not have interim responses (RFC 9110, section 15.2).
    if exchange.req.version != Version::Http10 {
        call.pass_interims();
    }
    let response = poll_fn(|cx| call.poll_response(cx)).await?;
    Ok((call, response))
}

/// A body at its beginning, as far as it can go back.
fn rewound(mut body: RequestBody) -> RequestBody {
    if let RequestBody::Stream(stream) = &mut body
        && stream.is_rewindable()
    {
        stream.rewind();
    }
    body
}

/// What the head does not say.
pub(super) fn facts<'a>(
    exchange: &'a Exchange,
    root: &'a RootPath,
    content_length: Option<u64>,
) -> Facts<'a> {
    let peer = match exchange.conn.remote {
        sluice_message::Remote::Ip(addr) => Some(addr),
        sluice_message::Remote::Unix => None,
    };
    // The port that a client has at a trusted proxy is not known.
    let client = client_ip(exchange).map(|ip| match peer {
        Some(peer) if Some(ip) == remote_ip(&exchange.conn) => peer,
        Some(_) | None => SocketAddr::new(ip, 0),
    });
    let user = exchange.context.log.user.as_deref().unwrap_or_default();
    Facts {
        client,
        server: exchange.conn.local.address(),
        scheme: scheme(exchange),
        root: root.as_bytes(),
        user: user.as_bytes(),
        content_length,
        tls: exchange.conn.tls.as_deref(),
    }
}

/// The scheme that the client used: what a trusted proxy says, or that of the connection.
fn scheme(exchange: &Exchange) -> Scheme {
    let said = exchange.req.fields.all(FieldId::XForwardedProto).last();
    match said.filter(|_| exchange.context.from_trusted_proxy) {
        Some(proto) if proto.eq_ignore_ascii_case(b"https") => Scheme::Https,
        Some(proto) if proto.eq_ignore_ascii_case(b"http") => Scheme::Http,
        Some(_) | None => exchange.conn.scheme(),
    }
}

/// The head without what only a trusted proxy may say: applications believe it.
pub(super) fn believed(exchange: &Exchange) -> Cow<'_, RequestHead> {
    let is_claim = |id| {
        matches!(
            id,
            FieldId::XForwardedFor
                | FieldId::XForwardedHost
                | FieldId::XForwardedProto
                | FieldId::Forwarded
        )
    };
    let head = &exchange.req;
    if exchange.context.from_trusted_proxy || !head.fields.ids().any(is_claim) {
        return Cow::Borrowed(head);
    }
    let mut head = head.clone();
    head.fields.retain(|field| !is_claim(field.id));
    Cow::Owned(head)
}
