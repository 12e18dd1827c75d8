//! How old a stored answer is, and what it may still be used for (RFC 9111, section 4.2).

use crate::limits::CLOCKS_APART_MAX;

/// How long an answer may be used, counted from when it came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lifetime {
    /// How many seconds old it was when it came.
    pub age: u32,
    /// For how many seconds it is fresh.
    pub fresh: u32,
    /// For how many seconds after that it may be used where asking fails; it says so itself.
    pub stale_if_error: u32,
    /// For how many seconds after that it may be used while a fresh one is fetched; it says so itself.
    pub stale_while_updating: u32,
    /// Whether it forbids other uses when it is stale (RFC 9111, section 4.2.4).
    pub is_strict: bool,
}

/// The times of a stored answer, in seconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// When it came, or was found to be still valid.
    pub since: u64,
    /// What holds from then on.
    pub lifetime: Lifetime,
}

impl Times {
    /// How old it is (RFC 9111, section 4.2.3).
    pub fn age(&self, now: u64) -> u64 {
        u64::from(self.lifetime.age) + now.saturating_sub(self.since)
    }

    /// Whether it is fresh. One from far in the future is not: its clock was another one.
    pub fn is_fresh(&self, now: u64) -> bool {
        self.is_of_now(now) && now.saturating_sub(self.since) < u64::from(self.lifetime.fresh)
    }

    /// Clocks of workers tick apart from each other, so that one may store what comes from the future for another.
    fn is_of_now(&self, now: u64) -> bool {
        now.saturating_add(CLOCKS_APART_MAX) >= self.since
    }

    /// Whether it says that it may be used where asking fails.
    pub fn outlasts_errors(&self, now: u64) -> bool {
        self.is_within(now, self.lifetime.stale_if_error)
    }

    /// Whether it says that it may be used while a fresh one is fetched.
    pub fn outlasts_updates(&self, now: u64) -> bool {
        self.is_within(now, self.lifetime.stale_while_updating)
    }

    fn is_within(&self, now: u64, more: u32) -> bool {
        let limit = u64::from(self.lifetime.fresh) + u64::from(more);
        more > 0 && self.is_of_now(now) && now.saturating_sub(self.since) < limit
    }
}
