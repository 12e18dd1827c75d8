//! The queue of waiting requests: by class, then fair between clients, then by arrival. Each operation takes logarithmic
//! time, because it happens under a lock while the server is overloaded.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};

use sluice_message::Moment;

use super::{CLASSES, Class, Ticket};

/// Requests of one client with the same class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lane {
    /// Their class.
    pub class: Class,
    /// The client.
    pub client: u64,
}

/// A waiting request.
#[derive(Debug)]
pub struct Waiter<W> {
    /// Its name; later ones have greater names.
    pub ticket: Ticket,
    /// When it arrived.
    pub since: Moment,
    /// When its time to wait is over.
    pub until: Moment,
    /// What wakes it.
    pub payload: W,
}

/// The position of a lane: class, requests of its client in flight, arrival, client.
type Rank = (Class, u32, u64, u64);

/// The waiting requests.
#[derive(Debug)]
pub struct Queue<W> {
    next: Ticket,
    newest_first: bool,
    /// The lane of each request, in order of arrival.
    arrivals: BTreeMap<Ticket, Lane>,
    lanes: BTreeMap<Lane, VecDeque<Waiter<W>>>,
    /// The lanes in the order in which they are served.
    order: BTreeSet<Rank>,
    /// Requests in flight and waiting requests of each client that waits.
    clients: BTreeMap<u64, Client>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Client {
    in_flight: u32,
    waiting: usize,
}

impl<W> Default for Queue<W> {
    fn default() -> Self {
        Queue {
            next: 0,
            newest_first: false,
            arrivals: BTreeMap::new(),
            lanes: BTreeMap::new(),
            order: BTreeSet::new(),
            clients: BTreeMap::new(),
        }
    }
}

impl<W> Queue<W> {
    /// How many requests wait.
    pub fn len(&self) -> usize {
        self.arrivals.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.arrivals.is_empty()
    }

    /// How many clients wait.
    pub fn clients(&self) -> usize {
        self.clients.len()
    }

    /// How many requests of `client` wait.
    pub fn waiting_of(&self, client: u64) -> usize {
        self.clients.get(&client).map_or(0, |client| client.waiting)
    }

    /// The class of the next request.
    pub fn best_class(&self) -> Option<Class> {
        self.order.first().map(|rank| rank.0)
    }

    /// The least important class that waits.
    pub fn worst_class(&self) -> Option<Class> {
        self.order.last().map(|rank| rank.0)
    }

    /// When the request arrived that has waited longest.
    pub fn oldest_since(&self) -> Option<Moment> {
        let (_, lane) = self.arrivals.first_key_value()?;
        self.lanes.get(lane)?.front().map(|waiter| waiter.since)
    }

    /// Adds a request of a client that has `in_flight` others; `make` gets its name.
    pub fn push(
        &mut self,
        lane: Lane,
        in_flight: u32,
        make: impl FnOnce(Ticket) -> Waiter<W>,
    ) -> Ticket {
        let ticket = self.next;
        self.next += 1;
        let client = self.clients.entry(lane.client).or_default();
        client.in_flight = in_flight;
        client.waiting += 1;
        self.arrivals.insert(ticket, lane);
        self.change(lane, |waiters| waiters.push_back(make(ticket)));
        ticket
    }

    /// Takes the next request.
    pub fn pop(&mut self) -> Option<(Lane, Waiter<W>)> {
        let &(class, _, _, client) = self.order.first()?;
        let lane = Lane { class, client };
        let newest_first = self.newest_first;
        let waiter = self.change(lane, |waiters| match newest_first {
            true => waiters.pop_back(),
            false => waiters.pop_front(),
        })?;
        self.forget(waiter.ticket, client);
        Some((lane, waiter))
    }

    /// Removes a request.
    pub fn remove(&mut self, ticket: Ticket) -> Option<(Lane, Waiter<W>)> {
        let lane = *self.arrivals.get(&ticket)?;
        let waiter = self.change(lane, |waiters| {
            let at = waiters.binary_search_by_key(&ticket, |waiter| waiter.ticket);
            at.ok().and_then(|at| waiters.remove(at))
        })?;
        self.forget(ticket, lane.client);
        Some((lane, waiter))
    }

    /// Removes the request that has waited longest.
    pub fn remove_oldest(&mut self) -> Option<(Lane, Waiter<W>)> {
        let (&ticket, _) = self.arrivals.first_key_value()?;
        self.remove(ticket)
    }

    /// Removes a request of this class: the oldest one of the client that is served last.
    pub fn remove_oldest_of(&mut self, class: Class) -> Option<(Lane, Waiter<W>)> {
        let below = CLASSES.into_iter().find(|other| *other > class);
        let last = match below {
            Some(below) => self.order.range(..(below, 0, 0, 0)).next_back(),
            None => self.order.last(),
        };
        let &(_, _, _, client) = last.filter(|rank| rank.0 == class)?;
        let ticket = self.lanes.get(&Lane { class, client })?.front()?.ticket;
        self.remove(ticket)
    }

    /// Notes how many requests of `client` are in flight.
    pub fn rank(&mut self, client: u64, in_flight: u32) {
        if !self.clients.contains_key(&client) {
            return;
        }
        let lanes = CLASSES.map(|class| Lane { class, client });
        lanes.iter().for_each(|lane| self.unrank(*lane));
        if let Some(known) = self.clients.get_mut(&client) {
            known.in_flight = in_flight;
        }
        lanes.iter().for_each(|lane| self.rank_lane(*lane));
    }

    /// Sets the order between requests of the same class whose clients have as many in flight.
    pub fn set_newest_first(&mut self, newest_first: bool) {
        if self.newest_first == newest_first {
            return;
        }
        self.newest_first = newest_first;
        self.order.clear();
        let lanes: alloc::vec::Vec<Lane> = self.lanes.keys().copied().collect();
        lanes.into_iter().for_each(|lane| self.rank_lane(lane));
    }

    /// Changes the requests of a lane and its rank.
    fn change<T>(&mut self, lane: Lane, change: impl FnOnce(&mut VecDeque<Waiter<W>>) -> T) -> T {
        self.unrank(lane);
        let waiters = self.lanes.entry(lane).or_default();
        let done = change(waiters);
        if waiters.is_empty() {
            self.lanes.remove(&lane);
        }
        self.rank_lane(lane);
        done
    }

    fn forget(&mut self, ticket: Ticket, client: u64) {
        self.arrivals.remove(&ticket);
        if let Some(known) = self.clients.get_mut(&client) {
            known.waiting -= 1;
            if known.waiting == 0 {
                self.clients.remove(&client);
            }
        }
    }

    fn rank_of(&self, lane: Lane) -> Option<Rank> {
        let waiters = self.lanes.get(&lane)?;
        let arrival = match self.newest_first {
            true => u64::MAX - waiters.back()?.ticket,
            false => waiters.front()?.ticket,
        };
        let in_flight = self.clients.get(&lane.client)?.in_flight;
        Some((lane.class, in_flight, arrival, lane.client))
    }

    fn unrank(&mut self, lane: Lane) {
        if let Some(rank) = self.rank_of(lane) {
            self.order.remove(&rank);
        }
    }

    fn rank_lane(&mut self, lane: Lane) {
        if let Some(rank) = self.rank_of(lane) {
            self.order.insert(rank);
        }
    }
}
