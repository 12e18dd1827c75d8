//! Overload control: which requests an upstream gets when more arrive than it can serve. A concurrency limit, fixed or
//! found by [`adaptive`], admits requests; further ones wait in a short [`queue`] or are shed. The caller wakes those
//! that wait, measures latencies and sends the responses.

pub mod adaptive;
pub mod queue;

#[cfg(test)]
mod tests;

use alloc::collections::BTreeMap;
use core::time::Duration;

use sluice_message::Moment;

pub use adaptive::{AdaptiveLimit, AdaptivePolicy};
use queue::{Lane, Queue, Waiter};

/// How important a request is. Less important ones are shed first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Health checks, and requests labelled as important.
    High,
    /// All others.
    #[default]
    Normal,
    /// Requests that can be repeated later: crawlers, prefetching, batch jobs.
    Low,
}

/// All classes, the most important first.
pub const CLASSES: [Class; 3] = [Class::High, Class::Normal, Class::Low];

impl Class {
    /// The name in configurations, in `X-Priority` and in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Class::High => "high",
            Class::Normal => "normal",
            Class::Low => "low",
        }
    }

    /// The class with this name.
    pub fn parse(name: &[u8]) -> Option<Class> {
        CLASSES
            .into_iter()
            .find(|class| name.eq_ignore_ascii_case(class.as_str().as_bytes()))
    }
}

/// How many requests are admitted at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LimitPolicy {
    /// This many.
    Fixed(u32),
    /// As many as the upstream serves without its latency rising.
    Adaptive(AdaptivePolicy),
}

/// Which requests share the last slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reserve {
    /// All requests have the same class, so there is nothing to reserve.
    None,
    /// A tenth of the slots is for important requests, and a quarter is closed to unimportant ones.
    ByClass,
}

/// The settings of an [`Admission`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// The concurrency limit.
    pub limit: LimitPolicy,
    /// How many requests wait at most; zero sheds at once.
    pub queue_max: usize,
    /// How long a request waits at most, and how long the queue may hold requests before that counts as overload.
    pub wait_max: Duration,
    /// How long a request waits at most during overload.
    pub wait_in_overload: Duration,
    /// Which requests share the last slots.
    pub reserve: Reserve,
}

/// Why a request was shed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shed {
    /// No slot was free, and it could not wait: the queue is full, or there is none.
    Full,
    /// It waited for too long.
    Late,
}

/// The name of a waiting request.
pub type Ticket = u64;

/// What becomes of a request that arrives.
#[derive(Debug, PartialEq, Eq)]
pub enum Arrival<W> {
    /// It is served now. [`Admission::leave`] frees its slot.
    Admitted,
    /// It waits: `waiter` was queued and comes back with the outcome.
    Waits(Ticket),
    /// It is shed; returns the waiter.
    Shed(W),
}

/// What became of a waiting request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It has a slot now.
    Admitted,
    /// It is shed.
    Shed(Shed),
}

/// What is known of a request when it arrives.
#[derive(Clone, Copy, Debug)]
pub struct Arriving {
    /// Its class.
    pub class: Class,
    /// Its client: a hash of the address prefix or of another key.
    pub client: u64,
    /// How long its client waits, if it says so.
    pub timeout: Option<Duration>,
}

/// How an admitted request went, for the adaptive limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sample {
    /// The response took this long.
    Latency(Duration),
    /// The upstream reported overload (503) or did not respond in time (504).
    Overloaded,
    /// It says nothing about the upstream: the client left, or sent its body slowly.
    None,
}

/// Totals since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Requests admitted, by class.
    pub admitted: [u64; 3],
    /// Requests that had to wait.
    pub waited: u64,
    /// Requests shed because no slot was free, by class.
    pub full: [u64; 3],
    /// Requests shed because they waited for too long, by class.
    pub late: [u64; 3],
}

#[derive(Debug)]
enum Limit {
    Fixed(u32),
    Adaptive(AdaptiveLimit),
}

/// Admits requests up to a concurrency limit; `W` is what the caller wakes a waiting request with.
///
/// The queue is that of "Fail at Scale" (Maurer, ACM Queue 13(8), 2015), a variant of CoDel (RFC 8289): it is served in
/// order of arrival until it has not been empty for [`Settings::wait_max`]. Then the newest request is served first,
/// because its client is the most likely to be there still, and requests are shed after
/// [`Settings::wait_in_overload`]. Before arrival count class and fairness: of the waiting requests of the best class,
/// the one whose client has the fewest requests in flight is next.
#[derive(Debug)]
pub struct Admission<W> {
    settings: Settings,
    limit: Limit,
    in_flight: u32,
    /// Requests in flight of each client that has some.
    clients: BTreeMap<u64, u32>,
    queue: Queue<W>,
    /// When the queue was last empty.
    last_empty: Moment,
    totals: Totals,
}

impl<W> Admission<W> {
    /// No request in flight.
    pub fn new(settings: Settings, now: Moment) -> Admission<W> {
        let limit = match settings.limit {
            LimitPolicy::Fixed(max) => Limit::Fixed(max.max(1)),
            LimitPolicy::Adaptive(policy) => Limit::Adaptive(AdaptiveLimit::new(policy, now)),
        };
        Admission {
            settings,
            limit,
            in_flight: 0,
            clients: BTreeMap::new(),
            queue: Queue::default(),
            last_empty: now,
            totals: Totals::default(),
        }
    }

    /// The current concurrency limit.
    pub fn limit(&self) -> u32 {
        match &self.limit {
            Limit::Fixed(max) => *max,
            Limit::Adaptive(adaptive) => adaptive.limit(),
        }
    }

    /// Requests in flight.
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Requests that wait.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Totals since the start.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Whether the queue has held requests for so long that this counts as overload.
    pub fn is_overloaded(&self, now: Moment) -> bool {
        !self.queue.is_empty() && now.since(self.last_empty) > self.settings.wait_max
    }

    /// A request arrives. `woken` gets the outcome of other requests, which are shed for it or because of their time.
    pub fn arrive(
        &mut self,
        arriving: Arriving,
        waiter: W,
        now: Moment,
        woken: &mut impl FnMut(W, Outcome),
    ) -> Arrival<W> {
        self.note_queue(now);
        self.shed_late(now, woken);
        let Arriving { class, client, .. } = arriving;
        let is_first = self.queue.is_empty() || self.queue.best_class() > Some(class);
        if is_first && self.in_flight < self.room_of(class) {
            self.enter(class, client);
            return Arrival::Admitted;
        }
        if !self.makes_place(arriving, now, woken) {
            self.totals.full[class as usize] += 1;
            return Arrival::Shed(waiter);
        }
        self.totals.waited += 1;
        let lane = Lane { class, client };
        let in_flight = self.in_flight_of(client);
        let until = arriving.timeout.map_or(self.settings.wait_max, |time| {
            time.min(self.settings.wait_max)
        });
        let ticket = self.queue.push(lane, in_flight, |ticket| Waiter {
            ticket,
            since: now,
            until: now + until,
            payload: waiter,
        });
        Arrival::Waits(ticket)
    }

    /// A waiting request gives up. Returns false if it has left the queue: its outcome is on its way.
    pub fn withdraw(&mut self, ticket: Ticket, why: Withdrawal) -> bool {
        let Some((lane, _)) = self.queue.remove(ticket) else {
            return false;
        };
        if why == Withdrawal::Late {
            self.totals.late[lane.class as usize] += 1;
        }
        true
    }

    /// An admitted request of `client` has ended; its slot goes to those that wait.
    pub fn leave(
        &mut self,
        client: u64,
        sample: Sample,
        now: Moment,
        woken: &mut impl FnMut(W, Outcome),
    ) {
        let peak = self.in_flight;
        self.in_flight = self.in_flight.saturating_sub(1);
        if let Some(count) = self.clients.get_mut(&client) {
            *count -= 1;
            let left = *count;
            if left == 0 {
                self.clients.remove(&client);
            }
            self.queue.rank(client, left);
        }
        if let Limit::Adaptive(adaptive) = &mut self.limit {
            let wanted = peak + u32::try_from(self.queue.len()).unwrap_or(u32::MAX / 2);
            adaptive.note(sample, wanted, now);
        }
        self.note_queue(now);
        self.shed_late(now, woken);
        while let Some(waiter) = self.next_waiter(now, woken) {
            woken(waiter.payload, Outcome::Admitted);
        }
        self.note_queue(now);
    }

    /// The waiting request that gets a slot now, if there is one.
    fn next_waiter(
        &mut self,
        now: Moment,
        woken: &mut impl FnMut(W, Outcome),
    ) -> Option<Waiter<W>> {
        loop {
            let class = self.queue.best_class()?;
            if self.in_flight >= self.room_of(class) {
                return None;
            }
            let (lane, waiter) = self.queue.pop()?;
            if waiter.until < now {
                self.totals.late[lane.class as usize] += 1;
                woken(waiter.payload, Outcome::Shed(Shed::Late));
                continue;
            }
            self.enter(lane.class, lane.client);
            return Some(waiter);
        }
    }

    /// How many requests may be in flight before one of this class is admitted.
    fn room_of(&self, class: Class) -> u32 {
        let limit = self.limit();
        match (self.settings.reserve, class) {
            (Reserve::None, _) | (Reserve::ByClass, Class::High) => limit,
            (Reserve::ByClass, Class::Normal) => limit - limit / 10,
            (Reserve::ByClass, Class::Low) => (limit - limit / 4).max(1),
        }
    }

    fn enter(&mut self, class: Class, client: u64) {
        self.in_flight += 1;
        self.totals.admitted[class as usize] += 1;
        let count = self.clients.entry(client).or_default();
        *count += 1;
        let count = *count;
        self.queue.rank(client, count);
    }

    fn in_flight_of(&self, client: u64) -> u32 {
        self.clients.get(&client).copied().unwrap_or_default()
    }

    /// Whether a request may wait; one that is less worth waiting for is shed for it if necessary.
    fn makes_place(
        &mut self,
        arriving: Arriving,
        now: Moment,
        woken: &mut impl FnMut(W, Outcome),
    ) -> bool {
        let max = self.settings.queue_max;
        if max == 0 {
            return false;
        }
        // In a queue that is filling up, no client takes more than twice its share.
        let share = (2 * max / self.queue.clients().max(1)).max(1);
        if self.queue.len() >= max / 2 && self.queue.waiting_of(arriving.client) >= share {
            return false;
        }
        if self.queue.len() < max {
            return true;
        }
        let overloaded = self.is_overloaded(now);
        let worst = self.queue.worst_class();
        let gives_way = match worst {
            Some(worst) if worst > arriving.class => true,
            Some(worst) => overloaded && worst == arriving.class,
            None => false,
        };
        let found = worst.filter(|_| gives_way);
        if let Some((lane, waiter)) = found.and_then(|class| self.queue.remove_oldest_of(class)) {
            self.totals.full[lane.class as usize] += 1;
            woken(waiter.payload, Outcome::Shed(Shed::Full));
            return true;
        }
        false
    }

    fn note_queue(&mut self, now: Moment) {
        if self.queue.is_empty() {
            self.last_empty = now;
        }
        let newest_first = self.is_overloaded(now);
        self.queue.set_newest_first(newest_first);
    }

    /// Sheds requests that have waited for too long. During overload the newest ones stay, as many as slots may become
    /// free before others arrive: an upstream must not be idle because its next request was shed.
    fn shed_late(&mut self, now: Moment, woken: &mut impl FnMut(W, Outcome)) {
        let overloaded = self.is_overloaded(now);
        let kept = (self.limit() as usize / 8).max(1);
        while let Some(since) = self.queue.oldest_since() {
            let waited = now.since(since);
            let is_late = waited > self.settings.wait_max
                || overloaded && self.queue.len() > kept && waited > self.settings.wait_in_overload;
            let Some((lane, waiter)) = is_late.then(|| self.queue.remove_oldest()).flatten() else {
                break;
            };
            self.totals.late[lane.class as usize] += 1;
            woken(waiter.payload, Outcome::Shed(Shed::Late));
        }
    }
}

/// Why a waiting request gives up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withdrawal {
    /// Its time is over.
    Late,
    /// Its client is gone.
    Gone,
}
