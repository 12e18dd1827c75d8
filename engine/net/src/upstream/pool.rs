//! The unused upstream connections of a worker. The last one given back is taken first, so that more than the load
//! needs grow old and are closed. Dialling is left to `dial`.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use sluice_message::{Moment, ResponseHead};

use crate::upstream::endpoint::{Endpoint, Given, KeepAlive};
use crate::upstream::h2;
use crate::upstream::learned::Learned;
use crate::upstream::limits::{
    HEAD_KEPT_BYTES_MAX, HEADS_KEPT_MAX, IDLE_CHECK_INTERVAL, IDLE_MAX, SHELVES_KEPT_MAX,
    UNDONE_LOOKS_MAX,
};
use crate::upstream::link::{Link, Origin, Usable};
use crate::upstream::names::Names;

/// The unused upstream connections of a worker, and what its calls share.
#[derive(Default)]
pub struct Pool {
    shelves: RefCell<HashMap<Arc<Endpoint>, Shelf, BuildHasherDefault<Given>>>,
    /// Connections of HTTP/2, in use or not.
    shared: RefCell<HashMap<Arc<Endpoint>, Rc<h2::Shelf>, BuildHasherDefault<Given>>>,
    idle: Cell<usize>,
    checked_at: Cell<Moment>,
    pub(super) names: Names,
    heads: RefCell<Vec<ResponseHead>>,
}

/// The unused connections to one upstream.
#[derive(Default)]
struct Shelf {
    /// The longest unused one in front.
    links: VecDeque<Link>,
    /// How long the upstream keeps them.
    learned: Learned,
    looked_at: Moment,
}

impl Pool {
    /// A kept connection to `endpoint` that the other end has not closed, as far as is known without asking, and will
    /// not just close, as far as it was seen to.
    pub fn take(&self, endpoint: &Arc<Endpoint>, now: Moment) -> Option<Link> {
        let mut shelves = self.shelves.borrow_mut();
        let shelf = shelves.get_mut(&**endpoint)?;
        let before = shelf.links.len();
        let found = shelf.take(now);
        self.idle
            .set(self.idle.get() - (before - shelf.links.len()));
        let mut link = found?;
        link.origin = Origin::Kept;
        // The settings of a newer configuration count from now on.
        if !Arc::ptr_eq(&link.endpoint, endpoint) {
            link.endpoint = endpoint.clone();
        }
        Some(link)
    }

    /// Keeps `link`, whose last answer has ended cleanly, for the next request; or closes it.
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
        // The count of an Arc is shared by all workers: it is left alone on the way of a request.
        let shelf = match shelves.get_mut(&*link.endpoint) {
            Some(shelf) => shelf,
            None => shelves.entry(link.endpoint.clone()).or_default(),
        };
        if shelf.links.len() >= idle_max || self.idle.get() >= IDLE_MAX {
            // The newest is the most likely to be alive. With no older one of this upstream it has to go itself.
            if shelf.links.pop_front().is_none() {
                return;
            }
            self.idle.set(self.idle.get() - 1);
        }
        shelf.links.push_back(link);
        self.idle.set(self.idle.get() + 1);
    }

    /// Notes that the upstream says how long it keeps unused connections.
    pub(super) fn note_told(&self, endpoint: &Arc<Endpoint>, timeout: Duration) {
        let mut shelves = self.shelves.borrow_mut();
        shelves
            .entry(endpoint.clone())
            .or_default()
            .learned
            .told(timeout);
    }

    /// Closes what has been unused for too long or was closed by the other end. Called by the worker's tick.
    pub fn sweep(&self, now: Moment) {
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
            self.shared
                .borrow_mut()
                .retain(|_, shelf| !shelf.is_unused());
        }
    }

    /// Closes the connection that is unused longest, to make room; tells whether there was one.
    pub(crate) fn close_oldest(&self) -> bool {
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

    /// Closes all unused connections: the process is ending, or files have run out.
    pub fn clear(&self) {
        self.shelves.borrow_mut().clear();
        self.idle.set(0);
        for shelf in self.shared.borrow().values() {
            shelf.retire();
        }
    }

    /// The shared connections to `endpoint`, if there are any.
    pub(super) fn shelf(&self, endpoint: &Arc<Endpoint>) -> Option<Rc<h2::Shelf>> {
        self.shared.borrow().get(&**endpoint).cloned()
    }

    /// As [`Pool::shelf`], with none yet if need be.
    pub(super) fn shelf_of(&self, endpoint: &Arc<Endpoint>) -> Rc<h2::Shelf> {
        let mut shared = self.shared.borrow_mut();
        shared.entry(endpoint.clone()).or_default().clone()
    }

    /// Shared connections now, all upstreams together.
    pub fn shared(&self) -> usize {
        self.shared.borrow().values().map(|shelf| shelf.len()).sum()
    }

    /// Unused connections kept now.
    pub fn idle(&self) -> usize {
        self.idle.get()
    }

    /// A spare head to read an answer into; its fields also serve as a place to put those of a request together.
    pub fn spare_head(&self) -> ResponseHead {
        self.heads.borrow_mut().pop().unwrap_or_default()
    }

    /// Takes back the head of an answer that was passed on.
    pub fn give_back(&self, head: ResponseHead) {
        let mut heads = self.heads.borrow_mut();
        if heads.len() < HEADS_KEPT_MAX && head.fields.capacity_bytes() <= HEAD_KEPT_BYTES_MAX {
            heads.push(head);
        }
    }
}

impl Shelf {
    /// The newest connection that can be used.
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
                // All others are older still. It stays, to show how old it gets.
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

    /// Closes what the other end has closed, learning from it, and what is too old to be used again, but for the
    /// oldest, which shows how old one gets.
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

/// Notes that the other end has closed `link`. Where connections are kept briefly that says nothing of others: a
/// process of PHP ends after so many requests, not after so long.
fn note_closed(learned: &Learned, link: &Link, age: Duration) {
    match link.endpoint.options().keep_alive {
        KeepAlive::Keep { .. } | KeepAlive::Off => learned.closed(age),
        KeepAlive::Briefly(_) => {}
    }
}

/// Counts an answer, and tells whether its connection is to carry no more of them.
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
        KeepAlive::Briefly(_) if link.endpoint.is_crowded(now) => Duration::ZERO,
        KeepAlive::Briefly(time) => time,
        KeepAlive::Off => Duration::ZERO,
    };
    now.since(link.idle_since) >= idle_timeout
}
