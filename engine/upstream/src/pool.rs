//! The idle upstream connections of a worker. The most recently used one is reused first, so that surplus connections
//! time out. `dial` establishes new ones.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use sluice_message::{Moment, ResponseHead};

use crate::early_look::EarlyLooks;
use crate::endpoint::{Endpoint, Given, KeepAlive};
use crate::learned_keep_alive::Learned;
use crate::limits::{
    HEAD_KEPT_BYTES_MAX, HEADS_KEPT_MAX, IDLE_CHECK_INTERVAL, IDLE_MAX, SHELVES_KEPT_MAX,
    UNDONE_LOOKS_MAX,
};
use crate::link::{Link, Origin, Usable};
use crate::name_cache::Names;
use crate::streams;
use crate::streams::Streams;
use crate::{h2, h3};
use sluice_net::upstream_pool::UpstreamPool;
use sluice_net::worker::Worker;

/// The idle upstream connections of a worker, and resources that its calls share.
#[derive(Default)]
pub struct Pool {
    shelves: RefCell<HashMap<Arc<Endpoint>, Shelf, BuildHasherDefault<Given>>>,
    /// HTTP/2 connections, in use or idle.
    http2: Shelves<h2::Mux>,
    /// HTTP/3 connections, in use or idle.
    http3: Shelves<h3::Mux>,
    idle: Cell<usize>,
    checked_at: Cell<Moment>,
    pub(crate) names: Names,
    pub(crate) early_looks: EarlyLooks,
    heads: RefCell<Vec<ResponseHead>>,
    /// Where datagrams are received.
    pub(crate) datagrams: RefCell<Vec<u8>>,
}

/// The shared connections to all upstreams.
type Shelves<C> = RefCell<HashMap<Arc<Endpoint>, Rc<streams::Shelf<C>>, BuildHasherDefault<Given>>>;

/// Connections that a pool keeps.
pub(crate) trait Shelved: Streams {
    /// Those of this kind.
    fn shelves(pool: &Pool) -> &Shelves<Self>;
}

impl Shelved for h2::Mux {
    fn shelves(pool: &Pool) -> &Shelves<h2::Mux> {
        &pool.http2
    }
}

impl Shelved for h3::Mux {
    fn shelves(pool: &Pool) -> &Shelves<h3::Mux> {
        &pool.http3
    }
}

/// The idle connections to one upstream.
#[derive(Default)]
struct Shelf {
    /// Ordered by idle time, the longest first.
    links: VecDeque<Link>,
    /// How long the upstream keeps idle connections open.
    learned: Learned,
    looked_at: Moment,
}

impl Pool {
    /// The pool of `worker`.
    pub fn of(worker: &Worker) -> &Pool {
        worker.upstream_pool()
    }

    /// Takes an idle connection to `endpoint` that, as far as is known, the upstream has not closed and is not about to
    /// close.
    pub fn take(&self, endpoint: &Arc<Endpoint>, now: Moment) -> Option<Link> {
        let mut shelves = self.shelves.borrow_mut();
        let shelf = shelves.get_mut(&**endpoint)?;
        let before = shelf.links.len();
        let found = shelf.take(now);
        self.idle
            .set(self.idle.get() - (before - shelf.links.len()));
        let mut link = found?;
        link.origin = Origin::Kept;
        // The options of the current configuration apply from now on.
        if !Arc::ptr_eq(&link.endpoint, endpoint) {
            link.endpoint = endpoint.clone();
        }
        Some(link)
    }

    /// Returns `link`, whose last response has ended cleanly, to the pool, or closes it.
    pub fn put(&self, mut link: Link, now: Moment) {
        link.permit = None;
        if has_served(&mut link, now) {
            return;
        }
        let idle_max = match link.endpoint.options().keep_alive {
            KeepAlive::Off => return,
            KeepAlive::Keep { idle_max, .. } => {
                link.idle_since = now;
                idle_max
            }
            KeepAlive::Briefly(_) => {
                if link.origin == Origin::Fresh {
                    link.idle_since = now;
                }
                if is_old(&link, now) {
                    return;
                }
                IDLE_MAX
            }
        };
        let mut shelves = self.shelves.borrow_mut();
        // Cloning the Arc would write to a counter that all workers share; avoid that for each request.
        let shelf = match shelves.get_mut(&*link.endpoint) {
            Some(shelf) => shelf,
            None => shelves.entry(link.endpoint.clone()).or_default(),
        };
        if shelf.links.len() >= idle_max || self.idle.get() >= IDLE_MAX {
            // The newest is the most likely to be alive. If this upstream has no older one, the new one is closed.
            if shelf.links.pop_front().is_none() {
                return;
            }
            self.idle.set(self.idle.get() - 1);
        }
        shelf.links.push_back(link);
        self.idle.set(self.idle.get() + 1);
    }

    /// Records how long the upstream keeps idle connections according to its `Keep-Alive` header.
    pub(crate) fn note_announced(&self, endpoint: &Arc<Endpoint>, timeout: Duration) {
        let mut shelves = self.shelves.borrow_mut();
        shelves
            .entry(endpoint.clone())
            .or_default()
            .learned
            .announce(timeout);
    }

    /// The shared connections to `endpoint`, if there are any.
    pub(crate) fn shelf<C: Shelved>(
        &self,
        endpoint: &Arc<Endpoint>,
    ) -> Option<Rc<streams::Shelf<C>>> {
        C::shelves(self).borrow().get(&**endpoint).cloned()
    }

    /// Like [`Pool::shelf`], creating an empty set if necessary.
    pub(crate) fn shelf_of<C: Shelved>(&self, endpoint: &Arc<Endpoint>) -> Rc<streams::Shelf<C>> {
        let mut shared = C::shelves(self).borrow_mut();
        shared.entry(endpoint.clone()).or_default().clone()
    }

    /// Number of shared connections to all upstreams.
    pub fn shared(&self) -> usize {
        let http2 = self.http2.borrow();
        let http3 = self.http3.borrow();
        let http3 = http3.values().map(|shelf| shelf.len());
        http2.values().map(|shelf| shelf.len()).chain(http3).sum()
    }

    /// Number of idle connections.
    pub fn idle(&self) -> usize {
        self.idle.get()
    }

    /// A pooled head to read a response into; its headers are also used as scratch space to build a request.
    pub fn spare_head(&self) -> ResponseHead {
        self.heads.borrow_mut().pop().unwrap_or_default()
    }

    /// Returns the head of a response that was forwarded.
    pub fn give_back(&self, head: ResponseHead) {
        let mut heads = self.heads.borrow_mut();
        if heads.len() < HEADS_KEPT_MAX && head.fields.capacity_bytes() <= HEAD_KEPT_BYTES_MAX {
            heads.push(head);
        }
    }
}

impl UpstreamPool for Pool {
    fn sweep(&self, now: Moment) {
        let check = now.since(self.checked_at.get()) >= IDLE_CHECK_INTERVAL;
        if check {
            self.checked_at.set(now);
        }
        let mut shelves = self.shelves.borrow_mut();
        for shelf in shelves.values_mut() {
            let before = shelf.links.len();
            while shelf.links.front().is_some_and(|link| is_old(link, now)) {
                shelf.links.pop_front();
            }
            if now.since(shelf.looked_at) >= shelf.learned.look_interval() {
                shelf.looked_at = now;
                shelf.look(now);
            }
            self.idle
                .set(self.idle.get() - (before - shelf.links.len()));
        }
        if check {
            let mut spare = SHELVES_KEPT_MAX;
            shelves.retain(|_, shelf| {
                let is_remembered = shelf.learned.is_known() && spare > 0;
                spare -= usize::from(is_remembered);
                is_remembered || !shelf.links.is_empty()
            });
            let (http2, http3) = (&self.http2, &self.http3);
            http2.borrow_mut().retain(|_, shelf| !shelf.is_unused());
            http3.borrow_mut().retain(|_, shelf| !shelf.is_unused());
        }
    }

    fn close_oldest(&self) -> bool {
        let mut shelves = self.shelves.borrow_mut();
        let oldest = shelves
            .values_mut()
            .filter_map(|shelf| Some((shelf.links.front()?.idle_since, shelf)))
            .min_by_key(|(since, _)| *since);
        let Some((_, shelf)) = oldest else {
            return false;
        };
        shelf.links.pop_front();
        self.idle.set(self.idle.get() - 1);
        true
    }

    fn clear(&self) {
        self.shelves.borrow_mut().clear();
        self.idle.set(0);
        self.http2
            .borrow()
            .values()
            .for_each(|shelf| shelf.retire());
        self.http3
            .borrow()
            .values()
            .for_each(|shelf| shelf.retire());
    }
}

impl Shelf {
    /// Takes the most recent usable connection.
    fn take(&mut self, now: Moment) -> Option<Link> {
        let mut undone = 0;
        for at in (0..self.links.len()).rev() {
            let link = self.links.get_mut(at)?;
            let age = now.since(link.idle_since);
            if self
                .learned
                .usable_for()
                .is_some_and(|usable| age >= usable)
            {
                // All others are older still. It stays, to observe how old it gets.
                return None;
            }
            match link.usable() {
                Usable::Yes => return self.links.remove(at),
                Usable::NotYet if undone == UNDONE_LOOKS_MAX => return None,
                Usable::NotYet => undone += 1,
                Usable::No => {
                    note_closed(&self.learned, link, age);
                    self.links.remove(at);
                }
            }
        }
        None
    }

    /// Closes connections that the upstream has closed, learning from their age, and those too old to be used again,
    /// except for the oldest one, which shows how old a connection can get.
    fn look(&mut self, now: Moment) {
        let learned = &self.learned;
        self.links.retain_mut(|link| {
            let age = now.since(link.idle_since);
            let is_open = link.usable() != Usable::No;
            if is_open {
                learned.open(age);
            } else {
                note_closed(learned, link, age);
            }
            is_open
        });
        if let Some(usable) = learned.usable_for() {
            let is_usable = |link: &Link| now.since(link.idle_since) < usable;
            let old = self.links.partition_point(|link| !is_usable(link));
            self.links.drain(1.min(old)..old);
        }
    }
}

/// Records that the upstream has closed `link`. With brief keep-alive that is not informative: a PHP process ends after
/// a number of requests, not after a time.
fn note_closed(learned: &Learned, link: &Link, age: Duration) {
    match link.endpoint.options().keep_alive {
        KeepAlive::Keep { .. } | KeepAlive::Off => learned.closed(age),
        KeepAlive::Briefly(_) => {}
    }
}

/// Counts a response; returns whether its connection must not be used again.
fn has_served(link: &mut Link, now: Moment) -> bool {
    if link.served == 0 {
        link.first_idle_at = now;
    }
    link.served = link.served.saturating_add(1);
    let wear = &link.endpoint.options().wear;
    wear.requests_max.is_some_and(|max| link.served >= max)
        || wear
            .age_max
            .is_some_and(|max| now.since(link.first_idle_at) >= max)
}

fn is_old(link: &Link, now: Moment) -> bool {
    let idle_timeout = match link.endpoint.options().keep_alive {
        KeepAlive::Keep { idle_timeout, .. } => idle_timeout,
        KeepAlive::Briefly(_) if link.endpoint.is_at_capacity(now) => Duration::ZERO,
        KeepAlive::Briefly(time) => time,
        KeepAlive::Off => Duration::ZERO,
    };
    now.since(link.idle_since) >= idle_timeout
}
