//! What a node knows of a rate limit that several nodes share, and how it asks the store where all of them count.

use core::time::Duration;

use sluice_message::Moment;

use super::{Counting, Rate};
use crate::limits::{LEASE_BATCH_PART, LEASE_LIFE_MAX, LEASE_LIFE_PART};

/// How the nodes share a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// The store counts every event.
    Exact,
    /// The store grants batches of events, which nodes then allow by themselves.
    Leased,
}

/// How a node shares one rate.
#[derive(Clone, Copy, Debug)]
pub struct Sharing {
    mode: Mode,
    batch_max: u32,
    life: Duration,
}

/// What becomes of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It is allowed, and counted.
    Allowed {
        /// How long after now it would have come at an even pace.
        ahead: Duration,
        /// What to ask the store for meanwhile, so that later events need not wait.
        refill: Option<Ask>,
    },
    /// It is not; the next is allowed after so long.
    Refused(Duration),
    /// The store decides.
    Ask(Ask),
}

/// A question to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// How many events to grant, if so many are allowed.
    pub want: u32,
    /// How many that were granted earlier are given back.
    pub back: u32,
    /// The slice of time in which those were granted, as the store numbers them.
    pub back_slice: u64,
    /// When it is asked.
    pub at: Moment,
    /// Whether it is the one question of its key that fetches a batch.
    pub(super) fetches: bool,
}

/// The store's reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    /// How many events are granted.
    pub events: u32,
    /// If none is, how long until one is allowed.
    pub wait: Duration,
    /// The slice of time in which they are counted.
    pub slice: u64,
    /// How long after now the latest of them would have come at an even pace.
    pub ahead: Duration,
}

/// What a node knows of one key.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Share {
    /// Until then the store allows none.
    pub refused_until: Moment,
    /// Events that the node may allow, until `ends`.
    pub left: u32,
    granted: u32,
    granted_at: Moment,
    pub ends: Moment,
    slice: u64,
    /// How many events to ask for next time.
    batch: u32,
    /// Events whose lease has ended, to be given back.
    back: u32,
    back_slice: u64,
    /// Whether a batch is being fetched.
    pub is_fetching: bool,
}

impl Ask {
    /// Gives back one token to a bucket, which does not know slices.
    pub fn returning() -> Ask {
        Ask {
            want: 0,
            back: 1,
            back_slice: u64::MAX >> 11,
            at: Moment::START,
            fetches: false,
        }
    }
}

impl Sharing {
    /// How nodes share `rate`. A batch is at most a hundredth of what is allowed in a window, or saved for a burst: so
    /// much each node may hold without using it. Below a hundred events every event is asked for.
    pub fn new(mode: Mode, rate: &Rate) -> Sharing {
        let whole = match rate.counting {
            Counting::Window { .. } => rate.events,
            Counting::Bucket { burst } => rate.events.min(burst),
        };
        let life = Duration::from_nanos(rate.window) / LEASE_LIFE_PART;
        Sharing {
            mode,
            batch_max: match mode {
                Mode::Exact => 1,
                Mode::Leased => (whole / LEASE_BATCH_PART).max(1),
            },
            life: life.min(LEASE_LIFE_MAX),
        }
    }

    /// The mode.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Whether batches are larger than one event.
    pub(super) fn leases(&self) -> bool {
        self.batch_max > 1
    }
}

impl Share {
    /// Ends a lease that is over. What is left of it goes back with the next question.
    pub fn end_lease(&mut self, now: Moment) {
        if self.left > 0 && self.ends <= now {
            self.batch = (self.granted - self.left).max(1);
            (self.back, self.back_slice) = (self.left, self.slice);
            self.left = 0;
        }
    }

    /// The question for the next batch, once half of this one is used.
    pub fn refill(&mut self, sharing: &Sharing, now: Moment) -> Option<Ask> {
        let is_due = self.left <= self.granted / 2 && self.granted > 1;
        (is_due && !self.is_fetching && self.refused_until <= now).then(|| self.ask(sharing, now))
    }

    pub fn ask(&mut self, sharing: &Sharing, now: Moment) -> Ask {
        let fetches = sharing.leases() && !self.is_fetching;
        let mut want = 1;
        if fetches {
            self.is_fetching = true;
            // A batch is to last about half of its life: twice as much if it was used sooner.
            let took = now.since(self.granted_at);
            let batch = self.batch.max(1);
            self.batch = match self.granted > 0 && took < sharing.life / 2 {
                true => batch.saturating_mul(2).min(sharing.batch_max),
                false => batch.min(sharing.batch_max),
            };
            want = self.batch;
        }
        let ask = Ask {
            want,
            back: self.back,
            back_slice: self.back_slice,
            at: now,
            fetches,
        };
        self.back = 0;
        ask
    }

    pub fn add(&mut self, sharing: &Sharing, (ask, grant): (&Ask, Grant), left: u32) {
        if !sharing.leases() {
            return;
        }
        self.left = self.left.saturating_add(left);
        self.granted = self.left.max(grant.events);
        self.granted_at = ask.at;
        self.ends = ask.at + sharing.life;
        self.slice = grant.slice;
    }
}
