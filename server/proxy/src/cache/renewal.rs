//! Stale responses: whether they are used, renewed in the background or renewed first; and requests that make responses
//! invalid.

use std::rc::Rc;
use std::sync::Arc;

use sluice_cache::store::{Place, Store, Stored};
use sluice_message::Method;
use sluice_message::caching::RequestDirectives;

use super::ask::Ask;
use super::{Rule, now, peers};
use sluice_pipeline::context::{CacheStatus, Exchange};
use sluice_pipeline::handler::Step;

impl Rule {
    /// Handles a stale cached response.
    pub(super) async fn renew(
        self: &Arc<Self>,
        exchange: &mut Exchange,
        mut ask: Ask,
        (place, stored): (Place, Rc<Stored>),
        asked: &RequestDirectives,
    ) -> Step {
        let store = ask.store.clone();
        let times = stored.times();
        let may_wait = self.use_stale.while_updating && !times.lifetime.is_strict;
        let may_be_used =
            takes_any_fresh(asked) && (may_wait || times.outlasts_updates(now(exchange)));
        if times.is_fresh(now(exchange))
            && let Some(note) = peers::noted(exchange)
        {
            note.is_by_request = true;
        }
        let updating = store.begin_update(&place);
        if updating.is_none() && may_be_used {
            return self.response(exchange, &store, &stored, CacheStatus::Updating);
        }
        let is_alone = updating.is_some();
        ask.updating = updating;
        ask.place = Some(place);
        ask.stale = Some(stored.clone());
        ask.status = CacheStatus::Expired;
        if is_alone && may_be_used && self.updates_in_background && exchange.body.is_none() {
            return match self.ask_in_background(exchange, ask) {
                Ok(()) => self.response(exchange, &store, &stored, CacheStatus::Stale),
                Err(ask) => self.ask(exchange, *ask).await,
            };
        }
        self.ask(exchange, ask).await
    }

    /// Forwards a request that does not use the cache. A successful unsafe request invalidates the cached response (RFC
    /// 9111, section 4.4).
    pub(super) async fn pass(self: &Arc<Self>, exchange: &mut Exchange, store: &Store) -> Step {
        if exchange.req.method.is_safe() {
            return self.origin.wait(exchange).await;
        }
        let method = std::mem::replace(&mut exchange.req.method, Method::Get);
        let key = self.key.key(exchange);
        exchange.req.method = method;
        let step = self.origin.wait(exchange).await;
        if matches!(step, Step::Done(_)) && matches!(exchange.res.status.code(), 200..=399) {
            store.purge(&key);
            self.drop_at_owner(exchange, key);
        }
        step
    }

    /// Whether a request for a stale response waits for another one that renews it, instead of renewing it as well.
    pub(super) fn waits_for_renewal(
        &self,
        exchange: &Exchange,
        stored: &Stored,
        asked: &RequestDirectives,
    ) -> bool {
        self.origin.is_rest()
            && takes_any_fresh(asked)
            && !stored.times().outlasts_updates(now(exchange))
    }
}

/// Whether any fresh response will do for a request, however old.
fn takes_any_fresh(asked: &RequestDirectives) -> bool {
    !asked.no_cache && asked.max_age.is_none() && asked.min_fresh.is_none()
}
