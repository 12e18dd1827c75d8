//! What only the cache of a Caddyfile does: it leaves some requests to the handlers that follow, reads `Cache-Control` of
//! requests, reports in `Cache-Status`, and purges with the method PURGE.

use sluice_cache::store::Store;
use sluice_message::caching::{Lifetime, RequestDirectives};
use sluice_message::{FieldId, Method, Status};
use sluice_net::Body;
use sluice_pipeline::context::{CacheNote, Exchange};
use sluice_pipeline::failure::Fault;
use sluice_pipeline::handler::Step;
use sluice_pipeline::values::matches;

use super::{Own, Rule, cache_status, peers};

/// The header with names of groups of responses.
const SURROGATE_KEY: &[u8] = b"Surrogate-Key";

/// The groups of responses that a purge names instead of a target.
pub(super) fn surrogate_keys(exchange: &Exchange) -> Option<Vec<u8>> {
    let lists: Vec<&[u8]> = exchange.req.fields.find(SURROGATE_KEY).collect();
    (!lists.is_empty()).then(|| lists.join(&b' '))
}

/// Removes the responses of some groups.
pub(super) fn purge_tagged(exchange: &mut Exchange, store: &Store, list: &[u8]) -> Step {
    if store.purge_tagged(list) == 0 {
        let fault = Fault::new(Status::NOT_FOUND, "nothing is stored with these keys");
        return Step::Fail(fault);
    }
    exchange.res.status = Status::NO_CONTENT;
    Step::Done(Body::Empty)
}

/// The method that removes a response.
const PURGE: &str = "PURGE";

impl Own {
    /// A lifetime with the time for which a stale response may be used if the origin fails. What a response says of
    /// itself counts.
    pub(super) fn extended(&self, lifetime: Lifetime) -> Lifetime {
        match lifetime.is_strict || lifetime.stale_if_error > 0 {
            true => lifetime,
            false => Lifetime {
                stale_if_error: self.stale_seconds,
                ..lifetime
            },
        }
    }

    /// Whether a body of this length may be stored; an unknown one is followed while it is stored.
    pub(super) fn may_be_long(&self, length: Option<u64>) -> bool {
        match (self.body_bytes_max, length) {
            (Some(max), Some(length)) => length <= max,
            (None, _) | (_, None) => true,
        }
    }
}

impl Rule {
    /// Whether a request is none of the cache's business, so that the next handler has it. The cache of an nginx.conf has
    /// its upstream within itself.
    pub(super) fn is_left_out(&self, exchange: &Exchange) -> bool {
        self.origin.is_rest() && (self.store.is_none() || !self.concerns(exchange))
    }

    /// Whether the cache of a Caddyfile has to do with a request.
    pub(super) fn concerns(&self, exchange: &Exchange) -> bool {
        let aside = exchange.context.aside.as_ref();
        // Responses to errors are those of other requests than their targets say.
        if exchange.context.error.is_some() || aside.is_some_and(|aside| aside.is_being_cached) {
            return false;
        }
        let is_method = match &exchange.req.method {
            Method::Get | Method::Head => {
                exchange.body.is_empty() && !exchange.req.fields.has(FieldId::Upgrade)
            }
            // It makes the cached response invalid.
            other => !other.is_safe() && *other != Method::Connect,
        };
        let exclude = self.own.exclude.as_ref();
        is_method && !exclude.is_some_and(|exclude| matches(exclude, exchange).unwrap_or(true))
    }

    /// The directives of a request, as far as they count.
    pub(super) fn directives(&self, exchange: &Exchange) -> RequestDirectives {
        match self.own.reads_requests {
            true => RequestDirectives::read(&exchange.req.fields),
            false => RequestDirectives::default(),
        }
    }

    /// Whether a request may purge; `None` if it does not want to.
    pub(super) fn may_purge(&self, exchange: &Exchange) -> Option<Result<(), Fault>> {
        let from = self.own.purge_from.as_ref()?;
        if exchange.req.method.as_str() != PURGE {
            return None;
        }
        Some(match matches(from, exchange) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Fault::new(Status::FORBIDDEN, "the client may not purge")),
            Err(fault) => Err(fault),
        })
    }

    /// Starts the record of what the cache does, if `Cache-Status` is sent.
    pub(super) fn begin_note(&self, exchange: &mut Exchange) {
        if self.own.name.is_some() {
            *peers::note(exchange) = CacheNote::default();
        }
    }

    /// Adds the cache to `Cache-Status` (RFC 9211) of a response, with the key if that is to be shown.
    pub(super) fn label(&self, exchange: &mut Exchange, step: &Step, key: Option<&[u8]>) {
        let (Some(name), Step::Done(_)) = (&self.own.name, step) else {
            return;
        };
        let note = std::mem::take(peers::note(exchange));
        let known = &exchange.context.upstream;
        let mut member = cache_status::member(name, known.cache, known.status, &note);
        if let Some(key) = key {
            cache_status::push_key(&mut member, key);
        }
        let (id, name) = (FieldId::of(cache_status::NAME), cache_status::NAME);
        exchange.res.fields.push_raw(id, name, member.as_bytes());
    }
}
