//! Nodes that are one cache together. Each key has one owner among the nodes that are there, by rendezvous hashing with
//! bounded load (Mirrokni, Thorup and Zadimoghaddam 2016). Another node forwards the client's request to it, once: a
//! request of a node is never forwarded again. If the owner is away, a node fetches the response itself.

mod build;
mod dialect;
mod mark;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use sluice_cache::store::Store;
use sluice_message::{FieldId, Method, Moment, ResponseHead, Status};
use sluice_net::load::{Lease, Load};
use sluice_net::tasks::in_background;
use sluice_net::{Body, FailureKind, Side, clock};
use sluice_observe::log::Log;
use sluice_pipeline::context::{CacheNote, Exchange};
use sluice_pipeline::failure::{Cause, Fault};
use sluice_pipeline::handler::{Handler, Step};
use sluice_policy::balance::Hint;
use sluice_policy::presence::{Change, Missed, Presence};
use sluice_policy::{Policy, Turn, Upstreams};

pub(super) use mark::is_marked;

use super::tee::Left;
use super::{Rule, cache_status, is_of_part};
use crate::limits::{CACHE_PEER_LOAD_FREE, CACHE_PEER_REQUESTS_MAX};
use crate::reverse_proxy::ReverseProxy;
use mark::{Errand, HEADER, Mark, Reply, Seal};

/// The nodes, as this one sees them.
pub(super) struct Peers {
    /// The number of this node.
    own: usize,
    nodes: Box<[Node]>,
    seal: Seal,
    policy: Policy,
    turn: Turn,
    log: Option<Log>,
    /// The name of this node in `Cache-Status`.
    label: Box<str>,
}

/// A node.
struct Node {
    name: Box<str>,
    /// `None` for this node.
    proxy: Option<ReverseProxy>,
    state: Arc<NodeState>,
}

/// What all locations know of a node.
#[derive(Debug, Default)]
struct NodeState {
    presence: Presence,
    /// Requests that this node has sent to it, or that it works on itself.
    load: Arc<Load>,
}

/// The outcomes of requests between nodes, by their places in `Counts::PEER_OUTCOMES`.
#[derive(Clone, Copy)]
enum Outcome {
    Forwarded,
    Missed,
    Refused,
    Served,
    Stranger,
}

fn count(store: &Store, outcome: Outcome) {
    store.counts.peers[outcome as usize].fetch_add(1, Ordering::Relaxed);
}

/// What became of a request that another node may have to serve.
pub(super) enum Hop {
    /// This node is the owner.
    Own,
    /// The owner has responded, or has failed.
    Done(Step),
    /// This node fetches the response itself.
    Here {
        /// Why, for `Cache-Status`.
        detail: String,
        /// Whether it caches the response.
        is_cached: bool,
    },
}

/// The nodes at one moment.
struct View<'a> {
    peers: &'a Peers,
    now: Moment,
    /// Nodes that turned out to be away, one bit for each.
    excluded: u64,
}

impl Upstreams for View<'_> {
    fn count(&self) -> usize {
        self.peers.nodes.len()
    }

    fn is_available(&self, index: usize) -> bool {
        let state = &self.peers.nodes[index].state;
        index == self.peers.own
            || self.excluded & (1 << index) == 0
                && state.presence.may_be_there(self.now)
                && state.load.in_flight() < CACHE_PEER_REQUESTS_MAX
    }

    fn in_flight(&self, index: usize) -> u32 {
        let busy = self.peers.nodes[index].state.load.in_flight();
        u32::try_from(busy.saturating_sub(CACHE_PEER_LOAD_FREE)).unwrap_or(u32::MAX)
    }

    fn address(&self, index: usize) -> &str {
        &self.peers.nodes[index].name
    }
}

impl Peers {
    /// The node that owns a key, without those that are excluded.
    fn choose(&self, key: &[u8], now: Moment, excluded: u64) -> usize {
        let view = View {
            peers: self,
            now,
            excluded,
        };
        let hint = Hint {
            key: Some(key),
            named: None,
        };
        let chosen = self.policy.choose(&view, hint, &self.turn, 0);
        chosen.map_or(self.own, |choice| choice.index)
    }

    /// The node to send a request for this key to. A node that was away gets one request in a while.
    fn owner(&self, key: &[u8], now: Moment) -> usize {
        let mut excluded = 0;
        for _ in 0..self.nodes.len() {
            let index = self.choose(key, now, excluded);
            if index == self.own || self.nodes[index].state.presence.claim(now) {
                return index;
            }
            excluded |= 1 << index;
        }
        self.own
    }

    /// The name of the node that owns a key, for explanations.
    pub fn owner_name(&self, key: &[u8], now: Moment) -> &str {
        &self.nodes[self.choose(key, now, 0)].name
    }

    /// Counts a request that this node works on itself.
    pub fn own_lease(&self) -> Lease {
        Lease::new(&self.nodes[self.own].state.load)
    }

    fn check(&self, exchange: &Exchange, key: &[u8]) -> Mark {
        let is_node = |name: &str| {
            let found = self.nodes.iter().position(|node| *node.name == *name);
            found.is_some_and(|index| index != self.own)
        };
        self.seal.check(&exchange.req.fields, key, is_node)
    }

    fn mark(&self, errand: Errand, key: &[u8]) -> String {
        self.seal.mark(&self.nodes[self.own].name, errand, key)
    }

    /// Notes a response of a node.
    fn note_response(&self, node: &Node) {
        if node.state.presence.note_response() == Change::Returned
            && let Some(log) = &self.log
        {
            log.info("http.cache", "a node of the cache is back")
                .text("node", &*node.name)
                .send();
        }
    }

    /// Notes a request that a node did not respond to.
    fn note_failure(&self, node: &Node, fault: &Fault, now: Moment) {
        let failure = fault.failure.as_ref();
        let missed = match failure.map(|failure| (failure.side, failure.kind)) {
            Some((Side::Upstream, FailureKind::Timeout)) => Missed::Silent,
            // The limit of connections is ours.
            Some((Side::Upstream, FailureKind::Unavailable)) => return,
            Some((Side::Upstream, _)) => Missed::Unreachable,
            Some(_) | None => return,
        };
        if node.state.presence.note_failure(missed, now) == Change::Left
            && let Some(log) = &self.log
        {
            let entry = log.warn("http.cache", "a node of the cache is away");
            entry
                .text("node", &*node.name)
                .text("error", &*fault.message)
                .send();
        }
    }

    /// Adds this node to `Cache-Status` (RFC 9211).
    pub fn label(&self, exchange: &mut Exchange) {
        let known = &exchange.context.upstream;
        let aside = exchange.context.aside.as_ref();
        let usual = CacheNote::default();
        let note = aside.and_then(|aside| aside.cache.as_deref());
        let note = note.unwrap_or(&usual);
        let member = cache_status::member(&self.label, known.cache, known.status, note);
        let (id, name) = (FieldId::of(cache_status::NAME), cache_status::NAME);
        exchange.res.fields.push_raw(id, name, member.as_bytes());
    }
}

/// The note about this request.
pub(super) fn note(exchange: &mut Exchange) -> &mut CacheNote {
    let aside = exchange.context.aside.get_or_insert_default();
    aside.cache.get_or_insert_default()
}

/// The note about this request, if its cache has several nodes.
pub(super) fn noted(exchange: &mut Exchange) -> Option<&mut CacheNote> {
    exchange.context.aside.as_mut()?.cache.as_deref_mut()
}

/// Notes that the response is being cached.
pub(super) fn note_stored(exchange: &mut Exchange) {
    if let Some(note) = noted(exchange) {
        note.is_stored = true;
    }
}

/// Whether another node of the cache has sent the request.
pub(super) fn is_for_peer(exchange: &Exchange) -> bool {
    let aside = exchange.context.aside.as_ref();
    aside
        .and_then(|aside| aside.cache.as_ref())
        .is_some_and(|note| note.is_for_peer)
}

/// Makes the upstream's head the response head as it is. Another node changes it for its client.
pub(super) fn put_as_sent(exchange: &mut Exchange, head: &ResponseHead) {
    exchange.res.status = head.status;
    exchange.reasons = Status::reason;
    exchange.res.fields.clear();
    exchange.res.fields.append(&head.fields);
}

impl Rule {
    /// Serves a request of a client or another node.
    pub(super) async fn serve_among(
        self: &Arc<Self>,
        peers: &Peers,
        exchange: &mut Exchange,
        store: &Arc<Store>,
        key: Vec<u8>,
    ) -> Step {
        let mark = peers.check(exchange, &key);
        exchange.req.fields.remove_name(HEADER);
        let step = match mark {
            Mark::Peer(Errand::Get) => {
                count(store, Outcome::Served);
                return self.serve_peer(peers, exchange, store, key).await;
            }
            Mark::Peer(Errand::Drop) => {
                store.purge(&key);
                return reply(exchange, Status::NO_CONTENT, Reply::Dropped);
            }
            Mark::OtherKey => {
                return reply(exchange, Status::MISDIRECTED_REQUEST, Reply::OtherKey);
            }
            Mark::Stranger => {
                // A node with another secret would forward the request in a circle.
                count(store, Outcome::Stranger);
                note(exchange);
                self.serve(exchange, store, key.into(), None).await
            }
            Mark::None => {
                note(exchange);
                let peers = may_be_forwarded(exchange, &key).then_some(peers);
                self.serve(exchange, store, key.into(), peers).await
            }
        };
        let is_labelled = noted(exchange).is_some_and(|note| note.is_forwarded);
        if matches!(step, Step::Done(_)) && !is_labelled {
            peers.label(exchange);
        }
        step
    }

    /// Serves a request of another node, which gets what the upstream has sent.
    async fn serve_peer(
        self: &Arc<Self>,
        peers: &Peers,
        exchange: &mut Exchange,
        store: &Arc<Store>,
        key: Vec<u8>,
    ) -> Step {
        give_up_filters(exchange);
        note(exchange).is_for_peer = true;
        exchange.res.fields.clear();
        let step = self.serve(exchange, store, key.into(), None).await;
        // Headers of the upstream may have added some.
        give_up_filters(exchange);
        match step {
            Step::Done(body) => {
                peers.label(exchange);
                let status = exchange.context.upstream.cache;
                put_reply(exchange, Reply::Response(status));
                Step::Done(body)
            }
            Step::Fail(fault) => {
                exchange.inline.clear();
                exchange.res.fields.retain(|field| {
                    matches!(field.id, FieldId::ContentRange | FieldId::WwwAuthenticate)
                });
                reply(exchange, fault.status, Reply::Fault)
            }
            // It goes on within this server, which the other node does not expect.
            step => step,
        }
    }

    /// Forwards a request to the owner of its key, if that is another node.
    pub(super) async fn forward(
        &self,
        peers: &Peers,
        exchange: &mut Exchange,
        (store, key): (&Store, &[u8]),
    ) -> Hop {
        let now = exchange.worker.clock.coarse();
        let node = &peers.nodes[peers.owner(key, now)];
        let Some(proxy) = &node.proxy else {
            return Hop::Own;
        };
        let lease = Lease::new(&node.state.load);
        let before = exchange.res.clone();
        let (step, head) = sent(exchange, proxy, &peers.mark(Errand::Get, key)).await;
        let reply = head.as_ref().and_then(|head| Reply::of(&head.fields));
        if reply.is_some() {
            peers.note_response(node);
        }
        match (step, head, reply) {
            (Step::Done(body), Some(head), Some(Reply::Response(status))) => {
                count(store, Outcome::Forwarded);
                exchange.res = before;
                exchange.context.upstream.cache = status;
                self.relay(peers, exchange, node, head);
                let aside = exchange.context.aside.get_or_insert_default();
                aside.guards.push(Box::new(lease));
                Hop::Done(Step::Done(body))
            }
            (Step::Done(_), Some(head), Some(Reply::Fault)) => {
                count(store, Outcome::Forwarded);
                restore(exchange, before);
                for field in head.fields.iter() {
                    if matches!(field.id, FieldId::ContentRange | FieldId::WwwAuthenticate) {
                        let fields = &mut exchange.res.fields;
                        fields.push_raw(field.id, field.name, field.value);
                    }
                }
                let fault = Fault::new(head.status, "the owner of the key in the cache failed");
                Hop::Done(Step::Fail(fault.caused_by(Cause::UpstreamResponse)))
            }
            (Step::Fail(fault), ..) => {
                count(store, Outcome::Missed);
                restore(exchange, before);
                let now = exchange.worker.clock.coarse();
                peers.note_failure(node, &fault, now);
                Hop::Here {
                    detail: format!("{} is away", node.name),
                    // Another node may be the owner now.
                    is_cached: peers.choose(key, now, 0) == peers.own,
                }
            }
            _ => {
                count(store, Outcome::Refused);
                restore(exchange, before);
                Hop::Here {
                    detail: format!("{} refuses", node.name),
                    is_cached: true,
                }
            }
        }
    }

    /// Makes the head that the owner has sent the response head, with the changes of this location.
    fn relay(&self, peers: &Peers, exchange: &mut Exchange, node: &Node, mut head: ResponseHead) {
        head.fields.remove_name(HEADER);
        exchange.context.upstream.status = Some(head.status);
        self.origin.put_on(exchange, head);
        let note = note(exchange);
        note.detail = Some(node.name.to_string());
        note.is_forwarded = true;
        peers.label(exchange);
    }

    /// Has the owner of a key drop the cached response, in the background, after an unsafe request was successful.
    pub(super) fn drop_at_owner(self: &Arc<Self>, exchange: &Exchange, key: Vec<u8>) {
        let now = exchange.worker.clock.coarse();
        let index = match &self.peers {
            Some(peers) if may_be_sent(exchange, &key) => peers.owner(&key, now),
            Some(_) | None => return,
        };
        let Some(left) = Left::enter(&exchange.worker) else {
            return;
        };
        let mut other = Exchange::new(exchange.conn.clone(), exchange.worker.clone());
        other.req = exchange.req.clone();
        other.req.method = Method::Get;
        other.req.fields.retain(|field| {
            !is_of_part(field.id) && !matches!(field.id, FieldId::ContentLength | FieldId::Expect)
        });
        other.started = clock::now();
        other.context = exchange.context.apart();
        other.context.scratch.set_env(exchange.worker.clone());
        let rule = self.clone();
        in_background(async move {
            let node = rule
                .peers
                .as_ref()
                .map(|peers| (peers, &peers.nodes[index]));
            if let Some((peers, node)) = node
                && let Some(proxy) = &node.proxy
            {
                let mark = peers.mark(Errand::Drop, &key);
                let (step, head) = sent(&mut other, proxy, &mark).await;
                match (step, head.and_then(|head| Reply::of(&head.fields))) {
                    (Step::Fail(fault), _) => {
                        let now = other.worker.clock.coarse();
                        peers.note_failure(node, &fault, now);
                    }
                    (_, Some(_)) => peers.note_response(node),
                    _ => {}
                }
            }
            drop(left);
        });
    }
}

/// Sends a request to another node. Also returns the head of the response as it came.
async fn sent(
    exchange: &mut Exchange,
    proxy: &ReverseProxy,
    mark: &str,
) -> (Step, Option<ResponseHead>) {
    let id = FieldId::of(HEADER);
    exchange.req.fields.set_raw(id, HEADER, mark.as_bytes());
    let aside = exchange.context.aside.get_or_insert_default();
    aside.shared_head = Some(ResponseHead {
        status: Status::CONTINUE,
        ..ResponseHead::default()
    });
    let step = proxy.wait(exchange).await;
    exchange.req.fields.remove_name(HEADER);
    let aside = exchange.context.aside.as_mut();
    let head = aside.and_then(|aside| aside.shared_head.take());
    (step, head.filter(|head| head.status != Status::CONTINUE))
}

/// Drops a response that is not used.
fn restore(exchange: &mut Exchange, before: ResponseHead) {
    exchange.res = before;
    exchange.inline.clear();
    exchange.context.upstream.status = None;
}

fn put_reply(exchange: &mut Exchange, reply: Reply) {
    let id = FieldId::of(HEADER);
    let fields = &mut exchange.res.fields;
    fields.set_raw(id, HEADER, reply.as_str().as_bytes());
}

/// The filters are for the client, so the node that has it applies them.
fn give_up_filters(exchange: &mut Exchange) {
    while let Some(filter) = exchange.context.filters.pop() {
        filter.give_up(exchange);
    }
}

/// A response without a body for another node.
fn reply(exchange: &mut Exchange, status: Status, reply: Reply) -> Step {
    give_up_filters(exchange);
    exchange.res.status = status;
    exchange.reasons = Status::reason;
    put_reply(exchange, reply);
    Step::Done(Body::Empty)
}

/// Whether another node can serve the request as this one would.
fn may_be_forwarded(exchange: &Exchange, key: &[u8]) -> bool {
    matches!(exchange.req.method, Method::Get | Method::Head)
        && !exchange.req.fields.has(FieldId::Upgrade)
        && may_be_sent(exchange, key)
}

/// Whether the request takes the same way on another node: not if this server has made it itself.
fn may_be_sent(exchange: &Exchange, key: &[u8]) -> bool {
    let dialect = &exchange.context.dialect;
    exchange.req.target.starts_with(b"/") && !dialect.is_subrequest() && !dialect.is_part(key)
}

#[cfg(test)]
mod tests;
