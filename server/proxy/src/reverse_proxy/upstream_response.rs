//! Handles an upstream's response: its head becomes the response head, its body or tunnel is forwarded. The client's
//! connection sends it.

use std::task::{Context, Poll};

use sluice_message::hop_by_hop::strip_hop_by_hop;
use sluice_message::{FieldId, Fields, Method, ResponseHead, Status};
use sluice_net::tunnel::Term;
use sluice_net::{Body, BodyStream, Failure, FailureKind, Side};
use sluice_upstream::{Call, Pool, Response};
use sluice_wire::h1::{BodyFraming, ResponseKind};

use super::request::Switch;
use super::{Facts, ReverseProxy, upstream_values};
use sluice_handlers::headers::Of;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::handler::Step;

impl ReverseProxy {
    /// Makes the upstream's response the response of the exchange.
    pub(super) fn pass_back(
        &self,
        exchange: &mut Exchange,
        call: Call,
        response: Response,
        switch: &Switch,
    ) -> Step {
        let Response { mut head, framing } = response;
        let status = head.status;
        if framing.kind == ResponseKind::Switched {
            return self.join(exchange, call, Response { head, framing }, switch);
        }
        exchange.res.status = status;
        exchange.context.upstream.status = Some(status);
        if let Some(incremental) = &self.incremental {
            let buffering = &self.buffering;
            let admitted = incremental.admit_response(exchange, &head.fields, &framing, buffering);
            if let Err(fault) = admitted {
                return Step::Fail(fault);
            }
        }
        let trailer = head.fields.first(FieldId::Trailer).map(<[u8]>::to_vec);
        let offers = match self.dialect.keeps_upgrade_offers(exchange) {
            true => head.fields.first(FieldId::Upgrade).map(<[u8]>::to_vec),
            false => None,
        };
        strip_hop_by_hop(&mut head.fields);
        if let Some(offers) = offers {
            head.fields.push(FieldId::Upgrade, &offers);
        }
        let described = described(exchange, &head);
        head.fields.remove(FieldId::ContentLength);
        if let (Some(names), BodyFraming::Chunked) = (trailer, framing.body) {
            head.fields.push(FieldId::Trailer, &names);
        }
        if let Some(aside) = &mut exchange.context.aside
            && let Some(shared) = &mut aside.shared_head
        {
            // Each request that shares this response applies the changes to a copy of its own.
            shared.clone_from(&head);
        }
        self.put_on(exchange, head);
        if self.memcached.is_some() {
            // Values in memcached do not have a media type.
            self.dialect.add_type(exchange);
        }
        exchange.inline.clear();
        match call.into_body(&exchange.worker, framing, &mut exchange.inline) {
            Ok(body) => {
                let body = match self.facts {
                    Facts::Shown => upstream_values::follow(exchange, body),
                    Facts::Unused => body,
                };
                let body = described.map_or(body, |content| Body::Stream(Box::new(content)));
                Step::Done(match &self.verbose {
                    None => body,
                    Some(verbose) => verbose.follow(exchange, body),
                })
            }
            Err(failure) => Step::Fail(failure.into()),
        }
    }

    /// Makes a head from the upstream, or from the cache, the response head, with the configured changes.
    pub fn put_on(&self, exchange: &mut Exchange, mut head: ResponseHead) {
        exchange.res.status = head.status;
        exchange.reasons = Status::reason;
        self.change_down(exchange, &mut head);
        self.dialect
            .take_fields(exchange, &mut head, self.keeps_fields);
        Pool::of(&exchange.worker).give_back(head);
    }

    /// Turns the connection into a tunnel, if the client asked for that protocol. Otherwise the client's next request
    /// would reach the upstream unprocessed.
    fn join(
        &self,
        exchange: &mut Exchange,
        call: Call,
        response: Response,
        switch: &Switch,
    ) -> Step {
        let Response { mut head, .. } = response;
        let protocol = head
            .fields
            .first(FieldId::Upgrade)
            .map(<[u8]>::to_vec)
            .unwrap_or_default();
        let asked = match switch {
            Switch::No => false,
            Switch::To(asked) => is_one_of(&protocol, asked),
        };
        if !asked || head.status.code() != 101 {
            let failure = Failure::new(Side::Upstream, FailureKind::Protocol);
            let failure = failure.because("it switches protocols without having been asked to");
            return Step::Fail(failure.into());
        }
        exchange.res.status = head.status;
        exchange.reasons = Status::reason;
        exchange.context.upstream.status = Some(head.status);
        strip_hop_by_hop(&mut head.fields);
        head.fields.remove(FieldId::ContentLength);
        head.fields.push(FieldId::Upgrade, &protocol);
        self.change_down(exchange, &mut head);
        merge(&mut exchange.res.fields, &mut head.fields);
        let mut tunnel = match call.into_tunnel(&exchange.worker, self.streams.lifetime) {
            Ok(tunnel) => tunnel,
            Err(failure) => return Step::Fail(failure.into()),
        };
        tunnel.buffer_bytes = self.streams.buffer_bytes;
        tunnel.idle = self
            .dialect
            .tunnel_timeouts(exchange, &self.streams.upstream);
        if self.facts == Facts::Shown {
            tunnel = upstream_values::follow_tunnel(exchange, tunnel);
        }
        tunnel.notice = self.streams.term.as_ref().map(Term::notice);
        Pool::of(&exchange.worker).give_back(head);
        Step::Done(Body::Tunnel(Box::new(tunnel)))
    }

    /// Applies `header_down` to the upstream's headers only.
    pub(super) fn change_down(&self, exchange: &mut Exchange, head: &mut ResponseHead) {
        let Some(down) = &self.header_down else {
            return;
        };
        if down
            .require
            .as_ref()
            .is_some_and(|require| !require.matches(head, &exchange.context.scratch))
        {
            return;
        }
        std::mem::swap(&mut exchange.res.fields, &mut head.fields);
        down.ops.apply(exchange, Of::Response);
        std::mem::swap(&mut exchange.res.fields, &mut head.fields);
    }
}

/// The body that a response to HEAD describes but does not contain.
pub struct Described {
    length: Option<u64>,
}

/// The body described by a response to HEAD; `None` for other methods.
pub fn described(exchange: &Exchange, head: &ResponseHead) -> Option<Described> {
    if exchange.req.method != Method::Head || head.status.is_bodiless() {
        return None;
    }
    let digits = head.fields.first(FieldId::ContentLength);
    let length = digits.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
    Some(Described { length })
}

impl BodyStream for Described {
    fn len(&self) -> Option<u64> {
        self.length
    }

    fn poll_data(&mut self, _cx: &mut Context<'_>) -> Poll<Result<&[u8], Failure>> {
        Poll::Ready(Ok(&[]))
    }

    fn consume(&mut self, _count: usize) {}
}

/// Appends the upstream's headers to those set by earlier directives. Usually there are none, and nothing is copied.
pub fn merge(ours: &mut Fields, theirs: &mut Fields) {
    if ours.is_empty() {
        std::mem::swap(ours, theirs);
    } else {
        ours.append(theirs);
    }
}

/// Whether the chosen protocol is in the list that was offered. Names are case-insensitive; a version is part of the
/// name (RFC 9110, section 7.8).
fn is_one_of(chosen: &[u8], offered: &[u8]) -> bool {
    let mut offered = offered.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    !chosen.is_empty() && offered.any(|one| one.eq_ignore_ascii_case(chosen))
}
