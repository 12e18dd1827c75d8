//! Response caches (RFC 9111): that of a Caddyfile for the handlers that follow it, and those of an nginx.conf for an
//! upstream. `sluice-message` decides whether a response may be cached and how long it is fresh, and `sluice-cache` stores it.

mod ask;
mod build;
mod cache_status;
pub mod cached_response;
mod file_stream;
mod key;
mod origin;
mod own;
mod peers;
mod renewal;
mod routes;
pub mod tee;

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use sluice_cache::store::{
    Found, Lead, Opened, Outcome, Place, PurgeError, Receipt, Store, Target, Turn, Wait,
};
use sluice_message::caching::{self, RequestDirectives, Rules};
use sluice_message::{FieldId, Method, Moment, Status};
use sluice_net::Body;
use sluice_route::{MatcherSets, Template};

pub use build::build;
pub use routes::{Defaults, build as build_of_routes};

use crate::limits::{CACHE_LOOK_PAUSE, CACHE_PURGE_TIMEOUT, CACHE_TURNS_MAX};
use ask::Ask;
use key::{EntryName, KeyMaker};
use origin::Origin;
use peers::{Hop, Peers};
use sluice_pipeline::context::{CacheStatus, Exchange};
use sluice_pipeline::failure::Fault;
use sluice_pipeline::handler::{Account, Handler, Step, Waiting};
use sluice_pipeline::values::{expanded, is_set};

/// The handler. Background requests, which outlive the client's request, share its settings.
struct Cache(Arc<Rule>);

/// The cache settings of one location.
struct Rule {
    /// `None` if the configuration is only validated.
    store: Option<Arc<Store>>,
    origin: Origin,
    key: KeyMaker,
    /// Methods to cache besides GET and HEAD.
    methods: Box<[Method]>,
    bypass: Box<[Template]>,
    no_store: Box<[Template]>,
    purge: Box<[Template]>,
    rules: Rules,
    /// Whether to cache responses without `X-Accel-Buffering` (`proxy_buffering`).
    is_buffered: bool,
    ignores_buffering: bool,
    valid: Box<[Valid]>,
    min_uses: u32,
    use_stale: UseStale,
    lock: Option<LockTimeouts>,
    revalidate: bool,
    updates_in_background: bool,
    keeps_head: bool,
    stores_head: bool,
    max_range_offset: Option<u64>,
    /// The nodes, if several are one cache.
    peers: Option<Peers>,
    /// What only the cache of a Caddyfile has.
    own: Own,
}

/// Settings that only the cache of a Caddyfile has; those of an nginx.conf have the defaults.
#[derive(Default)]
struct Own {
    /// Whether `Cache-Control` of requests counts.
    reads_requests: bool,
    /// Requests that do not use the cache.
    exclude: Option<MatcherSets>,
    /// Clients that may purge with the method PURGE.
    purge_from: Option<MatcherSets>,
    /// Seconds for which a stale response may be used if the origin fails, unless it says so itself.
    stale_seconds: u32,
    /// Responses with a longer body are not stored; `None` for no limit.
    body_bytes_max: Option<u64>,
    /// The name in `Cache-Status`, if the header is sent.
    name: Option<Box<str>>,
    /// The settings of the app `cache` that apply, for `explain`.
    inherited: Box<[String]>,
}

/// The default lifetime of responses with certain statuses.
struct Valid {
    /// Empty for all statuses.
    codes: Box<[u16]>,
    seconds: u32,
}

/// When to use a stale response.
#[derive(Clone, Default)]
struct UseStale {
    on_error: bool,
    on_timeout: bool,
    on_invalid_header: bool,
    while_updating: bool,
    statuses: Box<[u16]>,
}

/// Timeouts for waiting for another request (`proxy_cache_lock_age`, `proxy_cache_lock_timeout`).
#[derive(Clone, Copy)]
struct LockTimeouts {
    age: Duration,
    timeout: Duration,
}

impl Handler for Cache {
    fn serve(&self, exchange: &mut Exchange) -> Step {
        if self.0.is_left_out(exchange) {
            return Step::Next;
        }
        self.0.at_once(exchange).unwrap_or(Step::Later)
    }

    fn wait<'a>(&'a self, exchange: &'a mut Exchange) -> Waiting<'a> {
        Box::pin(self.0.run(exchange))
    }

    fn account(&self, exchange: &mut Exchange) -> Account {
        let key = self.0.key.key(exchange);
        let mut account = self.0.origin.account(exchange);
        if self.0.origin.is_rest() && !self.0.concerns(exchange) {
            account.says = vec!["does not use the cache for this request".to_owned()];
            return account;
        }
        let says = format!(
            "would look up the cache key `{}`; on a miss:",
            String::from_utf8_lossy(&key)
        );
        account.says.insert(0, says);
        account.says.extend_from_slice(&self.0.own.inherited);
        if let Some(peers) = &self.0.peers {
            let owner = peers.owner_name(&key, exchange.worker.clock.coarse());
            let says = format!("the node `{owner}`, which owns the key, fetches the response:");
            account.says.insert(1, says);
        }
        account
    }
}

impl Rule {
    /// Responds from the cache if it has a fresh response.
    fn at_once(&self, exchange: &mut Exchange) -> Option<Step> {
        let store = self.store.as_ref()?;
        if !self.is_meant(exchange)
            || is_any_set(&self.purge, exchange)
            || is_any_set(&self.bypass, exchange)
        {
            return None;
        }
        if self.peers.is_some() && peers::is_marked(&exchange.req.fields) {
            return None;
        }
        let name = self.key.name(exchange);
        let asked = self.directives(exchange);
        match self.find(store, exchange, name.parts()) {
            (_, Found::Stored(stored)) if stored.times().suits(now(exchange), &asked) => {
                let Some(peers) = &self.peers else {
                    self.begin_note(exchange);
                    let step = self.response(exchange, store, &stored, CacheStatus::Hit);
                    let shown = name.is_shown.then_some(&*name.key);
                    self.label(exchange, &step, shown);
                    return Some(step);
                };
                peers::note(exchange);
                let step = self.response(exchange, store, &stored, CacheStatus::Hit);
                if matches!(step, Step::Done(_)) {
                    peers.label(exchange);
                }
                Some(step)
            }
            _ => None,
        }
    }

    /// Whether such requests use the cache. Content in a GET request does not have defined semantics (RFC 9110, section
    /// 9.3.1) and is not part of the key, so such requests do not.
    fn is_meant(&self, exchange: &Exchange) -> bool {
        match &exchange.req.method {
            Method::Get | Method::Head => exchange.body.is_empty(),
            other => self.methods.contains(other),
        }
    }

    /// Looks up a key, with the headers by which its responses have to vary.
    fn find(
        &self,
        store: &Store,
        exchange: &Exchange,
        (key, headers): (&[u8], &[u8]),
    ) -> (Place, Found) {
        let opened = exchange.worker.local::<Opened>();
        let times = (now(exchange), exchange.worker.clock.coarse());
        match store.find(&opened, key, &exchange.req.fields, times) {
            // It is older than the configuration.
            (place, Found::Stored(stored)) if !caching::names_all(stored.names(), headers) => {
                (place, Found::Nothing)
            }
            found => found,
        }
    }

    async fn run(self: &Arc<Self>, exchange: &mut Exchange) -> Step {
        let Some(store) = &self.store else {
            return self.origin.wait(exchange).await;
        };
        if let Some(may_purge) = self.may_purge(exchange) {
            return match may_purge {
                Ok(()) => match own::surrogate_keys(exchange) {
                    Some(list) => own::purge_tagged(exchange, store, &list),
                    None => self.purge(exchange, store).await,
                },
                Err(fault) => Step::Fail(fault),
            };
        }
        // Of any method: most configurations purge with PURGE. Another node has not found a reason to purge.
        let is_of_node = self.peers.is_some() && peers::is_marked(&exchange.req.fields);
        if !is_of_node && is_any_set(&self.purge, exchange) {
            return self.purge(exchange, store).await;
        }
        if !self.is_meant(exchange) {
            return self.pass(exchange, store).await;
        }
        let name = self.key.name(exchange);
        match &self.peers {
            None if self.own.name.is_some() => {
                self.begin_note(exchange);
                let shown = name.is_shown.then(|| name.key.clone());
                let step = self.serve(exchange, store, name, None).await;
                self.label(exchange, &step, shown.as_deref());
                step
            }
            None => self.serve(exchange, store, name, None).await,
            Some(peers) => Box::pin(self.serve_among(peers, exchange, store, name.key)).await,
        }
    }

    /// Serves a request for a key; with `peers` its owner among them does, if it is another node.
    async fn serve(
        self: &Arc<Self>,
        exchange: &mut Exchange,
        store: &Arc<Store>,
        name: EntryName,
        peers: Option<&Peers>,
    ) -> Step {
        let mut ask = Ask::new(store, name);
        if is_any_set(&self.bypass, exchange) {
            if let Some(step) = self.by_owner(peers, exchange, &mut ask).await {
                // The owner has a newer response now.
                store.purge(&ask.name.key);
                return step;
            }
            ask.status = CacheStatus::Bypass;
            return self.ask(exchange, ask).await;
        }
        let asked = self.directives(exchange);
        ask.stores = !asked.no_store;
        let mut waited = Waited::default();
        // Each iteration either produces a response or waits for another request.
        for turn in 0..CACHE_TURNS_MAX {
            let (place, found) = self.find(store, exchange, ask.name.parts());
            if let Some(step) = self.by_cache(exchange, store, &found, &asked) {
                return step;
            }
            if turn == 0
                && let Some(step) = self.by_owner(peers, exchange, &mut ask).await
            {
                return step;
            }
            if let Found::Stored(stored) = found {
                if self.waits_for_renewal(exchange, &stored, &asked)
                    && ask.lead.is_none()
                    && turn + 1 < CACHE_TURNS_MAX
                {
                    ask.place = Some(place.clone());
                    let outcome = self.turn(exchange, store, &mut ask, &mut waited).await;
                    // Another request may have renewed it before this one took the lead.
                    if outcome == Outcome::Look || ask.lead.is_some() {
                        continue;
                    }
                }
                return self.renew(exchange, ask, (place, stored), &asked).await;
            }
            if ask.lead.is_some() {
                break;
            }
            if turn == 0 && self.min_uses > 1 {
                ask.stores &= store.count_use(&place, now(exchange)) >= self.min_uses;
            }
            ask.place = Some(place);
            match self.turn(exchange, store, &mut ask, &mut waited).await {
                Outcome::Look => {}
                Outcome::Pass => break,
            }
        }
        // Another request may have filled the entry after the look and before this one took the lead.
        if ask.lead.is_some()
            && let (_, Found::Stored(stored)) = self.find(store, exchange, ask.name.parts())
            && stored.times().suits(now(exchange), &asked)
        {
            return self.response(exchange, store, &stored, CacheStatus::Hit);
        }
        self.ask(exchange, ask).await
    }

    /// Responds with what was found in the cache, if that suits the request or has to.
    fn by_cache(
        &self,
        exchange: &mut Exchange,
        store: &Store,
        found: &Found,
        asked: &RequestDirectives,
    ) -> Option<Step> {
        match found {
            Found::Failed(status) => {
                count(exchange, store, CacheStatus::Hit);
                let status = Status::new(*status).unwrap_or(Status::BAD_GATEWAY);
                let fault = Fault::new(status, "the upstream has failed lately");
                Some(Step::Fail(fault))
            }
            Found::Stored(stored) if stored.times().suits(now(exchange), asked) => {
                Some(self.response(exchange, store, stored, CacheStatus::Hit))
            }
            Found::Stored(_) | Found::Nothing => {
                // RFC 9111, section 5.2.1.7.
                let fault = Fault::new(Status::GATEWAY_TIMEOUT, "the response is not cached");
                asked.only_if_cached.then_some(Step::Fail(fault))
            }
        }
    }

    /// Has the owner of the key respond, if that is another node; `None` if this node is to fetch the response.
    async fn by_owner(
        &self,
        peers: Option<&Peers>,
        exchange: &mut Exchange,
        ask: &mut Ask,
    ) -> Option<Step> {
        let entry = (&*ask.store, &ask.name.key[..]);
        match Box::pin(self.forward(peers?, exchange, entry)).await {
            Hop::Own => None,
            Hop::Done(step) => Some(step),
            Hop::Here { detail, is_cached } => {
                ask.stores = is_cached;
                peers::note(exchange).detail = Some(detail);
                None
            }
        }
    }

    /// Waits while another request fills the same entry; returns whether to look at the cache again.
    async fn turn(
        &self,
        exchange: &Exchange,
        store: &Arc<Store>,
        ask: &mut Ask,
        waited: &mut Waited,
    ) -> Outcome {
        let (Some(lock), Some(place)) = (self.lock.filter(|_| ask.stores), &ask.place) else {
            return Outcome::Pass;
        };
        match store.turn(place, lock.age, exchange.worker.clock.coarse()) {
            Turn::Lead(lead) => {
                ask.lead = Some(lead);
                Outcome::Pass
            }
            Turn::Full => {
                ask.stores = false;
                Outcome::Pass
            }
            Turn::Wait(wait) => {
                let now = exchange.worker.clock.coarse();
                let since = *waited.since.get_or_insert(now);
                let left = lock.timeout.saturating_sub(now.since(since));
                // The other request may exceed the lock age; then one more request may try, possibly this one.
                let turn = lock.age.saturating_sub(now.since(wait.since()));
                match wait_for(exchange, wait, left.min(turn.max(CACHE_LOOK_PAUSE))).await {
                    Some(outcome) => outcome,
                    None if left > turn => Outcome::Look,
                    None => {
                        ask.stores = false;
                        Outcome::Pass
                    }
                }
            }
        }
    }
}

impl Rule {
    /// Purges the entry of a key; a key that ends with an asterisk purges all entries with that prefix.
    async fn purge(&self, exchange: &mut Exchange, store: &Store) -> Step {
        let target = match self.key.beginning(exchange) {
            Some(beginning) => Target::Beginning(beginning),
            None => Target::Key(self.key.key(exchange)),
        };
        // As in nginx, purging by prefix always succeeds: the number of entries is unknown.
        let is_known = matches!(target, Target::Key(_));
        let count = match store.purge_everywhere(target.clone()) {
            None => store.purge_here(&target),
            Some(receipt) => match Box::pin(purged(exchange, &receipt)).await {
                // What the other nodes had is unknown.
                Ok(count) => count.max(1),
                Err(fault) => return Step::Fail(fault),
            },
        };
        if count == 0 && is_known {
            return Step::Fail(Fault::new(Status::NOT_FOUND, "nothing is stored there"));
        }
        exchange.res.status = Status::NO_CONTENT;
        Step::Done(Body::Empty)
    }
}

/// How long a request has waited for others.
#[derive(Default)]
struct Waited {
    since: Option<Moment>,
}

/// Waits for another request; `None` on timeout.
async fn wait_for(exchange: &Exchange, mut wait: Wait, timeouts: Duration) -> Option<Outcome> {
    let timer = exchange.worker.timers.timer();
    timer.set(&exchange.worker.clock, timeouts);
    poll_fn(|cx| match wait.poll(cx) {
        Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
        Poll::Pending => timer.poll_expired(cx).map(|()| None),
    })
    .await
}

/// Waits until a purge of all nodes is recorded.
async fn purged(exchange: &Exchange, receipt: &Receipt) -> Result<usize, Fault> {
    let timer = exchange.worker.timers.timer();
    timer.set(&exchange.worker.clock, CACHE_PURGE_TIMEOUT);
    let outcome = poll_fn(|cx| match receipt.poll(cx) {
        Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
        Poll::Pending => timer.poll_expired(cx).map(|()| None),
    });
    let why = match outcome.await {
        Some(Ok(count)) => return Ok(count),
        Some(Err(PurgeError::Full)) => "too many purges wait for their storage",
        Some(Err(PurgeError::Away)) => "the purge reached this node only: its storage is away",
        None => "the storage of purges does not respond in time",
    };
    Err(Fault::new(Status::SERVICE_UNAVAILABLE, why))
}

/// Whether one of the texts is neither empty nor `0`.
fn is_any_set(texts: &[Template], exchange: &Exchange) -> bool {
    texts.iter().any(|text| is_set(&expanded(text, exchange)))
}

/// Unix time in seconds.
fn now(exchange: &Exchange) -> u64 {
    exchange.worker.clock.unix_seconds()
}

fn count(exchange: &mut Exchange, store: &Store, status: CacheStatus) {
    exchange.context.upstream.cache = Some(status);
    store.counts.requests[status as usize].fetch_add(1, Ordering::Relaxed);
}

/// Whether a header makes a request conditional or restricts it to a range. The upstream gets requests without them,
/// for the complete response.
fn is_of_part(id: FieldId) -> bool {
    matches!(
        id,
        FieldId::IfMatch
            | FieldId::IfModifiedSince
            | FieldId::IfNoneMatch
            | FieldId::IfRange
            | FieldId::IfUnmodifiedSince
            | FieldId::Range
    )
}

/// The lock for filling a cache entry.
type Turns = Option<Lead>;
