//! Sends a request to the upstream on a cache miss. The response is cached and sent to the client, or a stale response
//! is used instead.

use std::rc::Rc;
use std::sync::Arc;

use sluice_cache::store::{Fill, Place, Store, Stored, Updating};
use sluice_message::caching::{self, Asked, Given, Lifetime, Times, Vary};
use sluice_message::{FieldId, Fields, Method, ResponseHead, Status};
use sluice_net::tasks::in_background;
use sluice_net::{Body, FailureKind, Side, clock};

use super::file_stream::FileStream;
use super::key::EntryName;
use super::peers::{self, Peers};
use super::tee::{Left, Tee};
use super::{Rule, Turns, count, is_any_set, is_of_part, now};
use sluice_pipeline::context::{CacheStatus, Exchange};
use sluice_pipeline::failure::Fault;
use sluice_pipeline::handler::Step;

/// A request to the upstream.
pub(super) struct Ask {
    pub store: Arc<Store>,
    pub name: EntryName,
    /// The cache entry for the response, if it is known.
    pub place: Option<Place>,
    /// The cached response, if it is stale.
    pub stale: Option<Rc<Stored>>,
    /// Whether the response may be cached.
    pub stores: bool,
    pub lead: Turns,
    pub updating: Option<Updating>,
    /// The cache status.
    pub status: CacheStatus,
}

impl Ask {
    pub fn new(store: &Arc<Store>, name: EntryName) -> Ask {
        Ask {
            store: store.clone(),
            name,
            place: None,
            stale: None,
            stores: true,
            lead: None,
            updating: None,
            status: CacheStatus::Miss,
        }
    }
}

/// The outcome of a request to the upstream.
struct Heard {
    /// The response head as received; `None` if there was none.
    head: Option<ResponseHead>,
    /// The headers of the client's request.
    asked: Fields,
    /// Whether the request was a validation of the stale response.
    validates: bool,
}

impl Rule {
    /// Refreshes the stale response in the background, while the client gets the stale one. Returns the request if
    /// there are too many background requests.
    pub(super) fn ask_in_background(
        self: &Arc<Self>,
        exchange: &Exchange,
        ask: Ask,
    ) -> Result<(), Box<Ask>> {
        let Some(left) = Left::enter(&exchange.worker) else {
            return Err(Box::new(ask));
        };
        let mut other = Exchange::new(exchange.conn.clone(), exchange.worker.clone());
        other.req = exchange.req.clone();
        other.req.fields.retain(|field| !is_of_part(field.id));
        other.started = clock::now();
        other.context = match self.origin.is_rest() {
            true => exchange.context.continued(),
            false => exchange.context.apart(),
        };
        if is_admitted(exchange) {
            other.context.aside.get_or_insert_default().is_vouched_for = true;
        }
        other.context.scratch.set_env(exchange.worker.clone());
        let rule = self.clone();
        in_background(async move {
            let step = rule.ask(&mut other, ask).await;
            if let Step::Done(Body::Stream(mut body)) = step {
                // Reading the body stores it.
                super::tee::read_on(&mut *body).await;
            }
            drop(left);
        });
        Ok(())
    }

    pub(super) async fn ask(&self, exchange: &mut Exchange, mut ask: Ask) -> Step {
        count(exchange, &ask.store, ask.status);
        let _lease = self.peers.as_ref().map(Peers::own_lease);
        if self.is_far_range(exchange) {
            ask.stores = false;
        }
        let before = ask.stale.is_some().then(|| exchange.res.clone());
        let (step, heard) = self.hear(exchange, &ask).await;
        let stale = ask.stale.take();
        match step {
            Step::Fail(fault) => {
                let stale = stale.zip(before);
                self.failed(exchange, ask, stale, &heard, fault)
            }
            Step::Done(body) => {
                let Some(head) = &heard.head else {
                    return Step::Done(body);
                };
                if peers::is_for_peer(exchange) {
                    peers::put_as_sent(exchange, head);
                }
                match (stale, before) {
                    (Some(stored), Some(before))
                        if heard.validates && head.status == Status::NOT_MODIFIED =>
                    {
                        exchange.res = before;
                        self.validated(exchange, &ask, &stored, head)
                    }
                    (Some(stored), Some(before))
                        if self.prefers_stale(exchange, &stored, Some(head.status), None) =>
                    {
                        exchange.res = before;
                        self.response(exchange, &ask.store, &stored, CacheStatus::Stale)
                    }
                    _ => self.take(exchange, ask, &heard.asked, head, body),
                }
            }
            step => step,
        }
    }

    /// Whether a range starts too far into the response to fetch everything before it.
    fn is_far_range(&self, exchange: &Exchange) -> bool {
        let Some(offset) = self.max_range_offset else {
            return false;
        };
        let Some(range) = exchange.req.fields.first(FieldId::Range) else {
            return false;
        };
        let Some(first) = range.strip_prefix(b"bytes=") else {
            return false;
        };
        let digits = first.iter().take_while(|byte| byte.is_ascii_digit());
        let start = digits.fold(None, |sum: Option<u64>, digit| {
            let sum = sum.unwrap_or(0).saturating_mul(10);
            Some(sum.saturating_add(u64::from(digit - b'0')))
        });
        // A suffix range is relative to the end, so it is far.
        start.is_none_or(|start| start >= offset)
    }

    /// Requests the complete response from the upstream, or validates the stale one.
    async fn hear(&self, exchange: &mut Exchange, ask: &Ask) -> (Step, Heard) {
        let asked = exchange.req.fields.clone();
        let method = exchange.req.method.clone();
        let mut validates = false;
        if ask.stores {
            if exchange.req.fields.ids().any(is_of_part) {
                exchange.req.fields.retain(|field| !is_of_part(field.id));
            }
            if method == Method::Head && !self.keeps_head {
                exchange.req.method = Method::Get;
            }
            if let Some(stored) = ask.stale.as_ref().filter(|_| self.revalidate) {
                validates = add_validators(&stored.head().fields, &mut exchange.req.fields);
            }
        }
        let (step, head) = self.origin.hear(exchange).await;
        exchange.req.method = method;
        if ask.stores {
            exchange.req.fields.clone_from(&asked);
        }
        let heard = Heard {
            head,
            asked,
            validates,
        };
        (step, heard)
    }

    /// Handles a failed request, or a response that counts as an error.
    fn failed(
        &self,
        exchange: &mut Exchange,
        ask: Ask,
        stale: Option<(Rc<Stored>, ResponseHead)>,
        heard: &Heard,
        fault: Fault,
    ) -> Step {
        let mut status = heard.head.as_ref().map(|head| head.status);
        if self.origin.is_rest() {
            // Handlers fail with a status where an upstream would respond with it.
            status = status.or(Some(fault.status));
        }
        if let Some((stored, before)) = stale
            && self.prefers_stale(exchange, &stored, status, Some(&fault))
        {
            // Without what the handlers have set before they failed.
            exchange.res = before;
            return self.response(exchange, &ask.store, &stored, CacheStatus::Stale);
        }
        if self.origin.is_rest() {
            // Routes for errors respond to each request anew, so others have nothing to wait for.
            if let Some(lead) = ask.lead {
                lead.pass();
            }
            return Step::Fail(fault);
        }
        let is_upstream = fault
            .failure
            .as_ref()
            .is_none_or(|failure| failure.side == Side::Upstream);
        if !is_upstream || !ask.stores || is_any_set(&self.no_store, exchange) {
            return Step::Fail(fault);
        }
        let at = now(exchange);
        let lifetime = match &heard.head {
            Some(head) => self.lifetime(&heard.asked, head, at),
            None => self.usual(fault.status),
        };
        if let (Some(seconds), Some(place)) = (lifetime.filter(|more| *more > 0), &ask.place) {
            let until = at + u64::from(seconds);
            ask.store
                .note_failure(place, fault.status.code(), until, at);
        }
        Step::Fail(fault)
    }

    /// How long to cache an error.
    fn lifetime(&self, asked: &Fields, head: &ResponseHead, at: u64) -> Option<u32> {
        self.judged(asked, head, at, &self.rules_for(head.status))
            .map(|lifetime| lifetime.fresh)
            .ok()
    }

    fn judged(
        &self,
        asked: &Fields,
        head: &ResponseHead,
        at: u64,
        rules: &caching::Rules,
    ) -> Result<Lifetime, caching::Refused> {
        let given = Given {
            status: head.status,
            fields: &head.fields,
            at,
        };
        caching::may_be_stored(Asked { fields: asked }, given, rules)
            .map(|lifetime| self.own.extended(lifetime))
    }

    fn rules_for(&self, status: Status) -> caching::Rules {
        caching::Rules {
            usual: self.usual(status),
            ..self.rules
        }
    }

    /// The default lifetime of responses with this status (`proxy_cache_valid`).
    fn usual(&self, status: Status) -> Option<u32> {
        let code = status.code();
        let found = self
            .valid
            .iter()
            .find(|valid| valid.codes.is_empty() || valid.codes.contains(&code));
        found.map(|valid| valid.seconds)
    }

    /// Whether to use a stale response instead of a failure, or instead of a response with this status.
    fn prefers_stale(
        &self,
        exchange: &Exchange,
        stored: &Stored,
        status: Option<Status>,
        fault: Option<&Fault>,
    ) -> bool {
        let failure = fault.and_then(|fault| fault.failure.as_ref());
        if failure.is_some_and(|failure| failure.side != Side::Upstream) {
            return false;
        }
        let kind = failure.map(|failure| failure.kind);
        let use_stale = &self.use_stale;
        let is_error = match (kind, status) {
            (Some(FailureKind::Timeout), _) => use_stale.on_timeout,
            (Some(FailureKind::Protocol | FailureKind::Limit), _) => use_stale.on_invalid_header,
            (Some(_), _) => use_stale.on_error,
            (None, Some(status)) => use_stale.statuses.contains(&status.code()),
            (None, None) => false,
        };
        // The error statuses of RFC 5861, section 4.
        let is_severe = kind.is_some()
            || status.is_some_and(|status| matches!(status.code(), 500 | 502 | 503 | 504));
        let times = stored.times();
        is_error && !times.lifetime.is_strict || is_severe && times.outlasts_errors(now(exchange))
    }

    /// Handles a 304 (Not Modified), which confirms the stale response.
    fn validated(
        &self,
        exchange: &mut Exchange,
        ask: &Ask,
        stored: &Rc<Stored>,
        newer: &ResponseHead,
    ) -> Step {
        let mut head = stored.head().clone();
        // The age is determined by the new response.
        head.fields.remove(FieldId::Age);
        head.fields.remove(FieldId::Date);
        caching::merge(&mut head.fields, &newer.fields);
        let at = now(exchange);
        let given = Given {
            status: head.status,
            fields: &head.fields,
            at,
        };
        let mut times = Times {
            since: at,
            ..Times::default()
        };
        match caching::lifetime(given, &self.rules_for(head.status)) {
            Ok(lifetime) => {
                times.lifetime = self.own.extended(lifetime);
                ask.store.renew(stored, head.clone(), times);
            }
            Err(_) => ask.store.forget(stored),
        }
        count(exchange, &ask.store, CacheStatus::Revalidated);
        self.put_on(exchange, &head, times.age(at));
        self.give(exchange, &ask.store, stored)
    }

    /// The request headers that the response varies by.
    fn varying(&self, ask: &Ask, head: &ResponseHead) -> Vec<u8> {
        let names = match (self.rules.ignores_vary, caching::vary(&head.fields)) {
            (false, Vary::Names(names)) => names,
            _ => Vec::new(),
        };
        caching::joined(names, ask.name.parts().1)
    }

    /// Whether the response is buffered; nginx does not cache unbuffered responses.
    fn is_buffered(&self, head: &ResponseHead) -> bool {
        let buffering = head.fields.find_first(b"X-Accel-Buffering");
        match buffering.filter(|_| !self.ignores_buffering) {
            Some(word) if word.eq_ignore_ascii_case(b"yes") => true,
            Some(word) if word.eq_ignore_ascii_case(b"no") => false,
            _ => self.is_buffered,
        }
    }

    /// Caches a response, if that is allowed, while sending it to the client.
    fn take(
        &self,
        exchange: &mut Exchange,
        mut ask: Ask,
        asked: &Fields,
        head: &ResponseHead,
        body: Body,
    ) -> Step {
        // A HEAD response lacks the body, so it is cached only if GET requests use another key.
        let is_head = exchange.req.method == Method::Head && self.keeps_head && !self.stores_head;
        let at = now(exchange);
        let length = body.len(exchange.inline.len());
        let may_be = ask.stores
            && !is_head
            && self.is_buffered(head)
            && self.own.may_be_long(length)
            && !(self.origin.is_rest() && is_event_stream(head));
        let rules = caching::Rules {
            takes_parts: exchange.context.dialect.is_part(&ask.name.key),
            has_credentials: self.origin.is_rest() && is_admitted(exchange),
            ..self.rules_for(head.status)
        };
        let judged = match may_be && !is_any_set(&self.no_store, exchange) {
            true => self.judged(asked, head, at, &rules).ok(),
            false => None,
        };
        let names = self.varying(&ask, head);
        let Some(lifetime) = judged else {
            if let Some(lead) = ask.lead.take() {
                lead.pass();
            }
            return match self.origin.is_rest() && ask.stores {
                // The handlers have not seen the conditions and ranges of the request.
                true => self.part_of(exchange, head, body),
                false => Step::Done(body),
            };
        };
        let times = Times {
            since: at,
            lifetime,
        };
        let mut stored = head.clone();
        stored.fields.remove(FieldId::Trailer);
        if let (true, Some(length)) = (
            exchange.req.method == Method::Head && self.keeps_head,
            length,
        ) {
            // Record the length, which the missing body cannot provide.
            let mut digits = Vec::with_capacity(20);
            sluice_message::decimal::push_integer(&mut digits, length);
            stored.fields.set(FieldId::ContentLength, &digits);
        }
        let fill = ask
            .store
            .begin(&ask.name.key, &names, asked, (&stored, times), length);
        match fill {
            None => self.part_of(exchange, head, body),
            Some(fill) => self.keep(exchange, ask, fill, head, body),
        }
    }

    /// Caches a response while sending it to the client.
    fn keep(
        &self,
        exchange: &mut Exchange,
        ask: Ask,
        mut fill: Fill,
        head: &ResponseHead,
        body: Body,
    ) -> Step {
        if let Some(max) = self.own.body_bytes_max {
            fill.limit(max);
        }
        peers::note_stored(exchange);
        let body = match body {
            Body::File(slice) if slice.len > 0 => Body::Stream(Box::new(FileStream::new(slice))),
            Body::File(_) => Body::Empty,
            body => body,
        };
        match body {
            Body::Stream(stream) => {
                let tee = Tee::new(
                    &exchange.worker,
                    stream,
                    Box::new(fill),
                    (ask.lead, ask.updating),
                );
                self.part_of(exchange, head, Body::Stream(Box::new(tee)))
            }
            Body::Empty => {
                fill.finish();
                self.part_of(exchange, head, Body::Empty)
            }
            Body::Inline => {
                fill.write(&exchange.inline);
                fill.finish();
                self.part_of(exchange, head, Body::Inline)
            }
            Body::Shared(slice) => {
                fill.write(slice.as_bytes());
                fill.finish();
                self.part_of(exchange, head, Body::Shared(slice))
            }
            body @ (Body::File(_) | Body::Tunnel(_) | Body::Abort) => Step::Done(body),
        }
    }
}

/// Whether handlers have admitted the client by something that the cache does not see.
fn is_admitted(exchange: &Exchange) -> bool {
    let aside = exchange.context.aside.as_ref();
    exchange.context.log.user.is_some() || aside.is_some_and(|aside| aside.is_vouched_for)
}

/// Whether a response goes on for as long as its client listens. Nobody else can wait for its end.
fn is_event_stream(head: &ResponseHead) -> bool {
    let kind = head.fields.first(FieldId::ContentType).unwrap_or_default();
    let kind = kind.split(|byte| *byte == b';').next().unwrap_or_default();
    kind.trim_ascii().eq_ignore_ascii_case(b"text/event-stream")
}

/// Makes the request a validation of the cached response; returns whether there is a validator.
fn add_validators(stored: &Fields, request: &mut Fields) -> bool {
    let mut has_any = false;
    for (from, to) in [
        (FieldId::Etag, FieldId::IfNoneMatch),
        (FieldId::LastModified, FieldId::IfModifiedSince),
    ] {
        if let Some(value) = stored.first(from) {
            request.push(to, value);
            has_any = true;
        }
    }
    has_any
}
