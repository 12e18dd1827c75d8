//! The unused upstream connections of a worker. The last one given back is taken first, so that more than the load
//! needs grow old and are closed. Dialling is left to `dial`.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;
use std::sync::Arc;
use std::time::Duration;

use sluice_message::{Moment, ResponseHead};

use crate::upstream::endpoint::{Endpoint, Given, KeepAlive};
use crate::upstream::limits::{HEAD_KEPT_BYTES_MAX, HEADS_KEPT_MAX, IDLE_CHECK_INTERVAL, IDLE_MAX};
use crate::upstream::link::{Link, Origin};
use crate::upstream::names::Names;

/// The unused upstream connections of a worker, and what its calls share.
#[derive(Default)]
pub struct Pool {
    /// By upstream; the longest unused one in front.
    shelves: RefCell<HashMap<Arc<Endpoint>, VecDeque<Link>, BuildHasherDefault<Given>>>,
    idle: Cell<usize>,
    checked_at: Cell<Moment>,
    pub(super) names: Names,
    heads: RefCell<Vec<ResponseHead>>,
}

impl Pool {
    /// A kept connection to `endpoint` that the other end has not closed, as far as is known without asking.
    pub fn take(&self, endpoint: &Arc<Endpoint>) -> Option<Link> {
        let mut shelves = self.shelves.borrow_mut();
        let shelf = shelves.get_mut(&**endpoint)?;
        while let Some(mut link) = shelf.pop_back() {
            self.idle.set(self.idle.get() - 1);
            if link.is_quiet() {
                link.origin = Origin::Kept;
                // The settings of a newer configuration count from now on.
                if !Arc::ptr_eq(&link.endpoint, endpoint) {
                    link.endpoint = endpoint.clone();
                }
                return Some(link);
            }
        }
        None
    }

    /// Keeps `link`, whose last answer has ended cleanly, for the next request; or closes it.
    pub fn put(&self, mut link: Link, now: Moment) {
        link.permit = None;
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
        if shelf.len() >= idle_max || self.idle.get() >= IDLE_MAX {
            // The newest is the most likely to be alive. With no older one of this upstream it has to go itself.
            if shelf.pop_front().is_none() {
                return;
            }
            self.idle.set(self.idle.get() - 1);
        }
        shelf.push_back(link);
        self.idle.set(self.idle.get() + 1);
    }

    /// Closes what has been unused for too long or was closed by the other end. Called by the worker's tick.
    pub fn sweep(&self, now: Moment) {
        let check = now.since(self.checked_at.get()) >= IDLE_CHECK_INTERVAL;
        if check {
            self.checked_at.set(now);
        }
        let mut shelves = self.shelves.borrow_mut();
        for shelf in shelves.values_mut() {
            let before = shelf.len();
            while shelf.front().is_some_and(|link| is_old(link, now)) {
                shelf.pop_front();
            }
            if check {
                shelf.retain_mut(Link::is_quiet);
            }
            self.idle.set(self.idle.get() - (before - shelf.len()));
        }
        if check {
            shelves.retain(|_, shelf| !shelf.is_empty());
        }
    }

    /// Closes all unused connections: the process is ending, or files have run out.
    pub fn clear(&self) {
        self.shelves.borrow_mut().clear();
        self.idle.set(0);
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

fn is_old(link: &Link, now: Moment) -> bool {
    let idle_timeout = match link.endpoint.options().keep_alive {
        KeepAlive::Keep { idle_timeout, .. } => idle_timeout,
        KeepAlive::Briefly(_) if link.endpoint.is_crowded(now) => Duration::ZERO,
        KeepAlive::Briefly(time) => time,
        KeepAlive::Off => Duration::ZERO,
    };
    now.since(link.idle_since) >= idle_timeout
}
