//! The age of a cached response, and what it may still be used for (RFC 9111, section 4.2).

use super::directives::RequestDirectives;
use crate::limits::CLOCKS_APART_MAX;

/// How long a response may be used, counted from when it was received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lifetime {
    /// Its age in seconds when it was received.
    pub age: u32,
    /// Seconds for which it is fresh.
    pub fresh: u32,
    /// Seconds after that in which it may be used if the upstream fails (its `stale-if-error`; RFC 5861, section 4).
    pub stale_if_error: u32,
    /// Seconds after that in which it may be used while the cache fetches a fresh one (its `stale-while-revalidate`;
    /// RFC 5861, section 3).
    pub stale_while_updating: u32,
    /// Whether it forbids any other use while stale (RFC 9111, section 4.2.4).
    pub is_strict: bool,
}

/// The times of a cached response, in seconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// When it was received or last validated.
    pub since: u64,
    /// The lifetime that counts from then.
    pub lifetime: Lifetime,
}

impl Times {
    /// Its age in seconds (RFC 9111, section 4.2.3).
    pub fn age(&self, now: u64) -> u64 {
        u64::from(self.lifetime.age) + now.saturating_sub(self.since)
    }

    /// Whether it is fresh. A response from far in the future is not: it was stored by a different clock.
    pub fn is_fresh(&self, now: u64) -> bool {
        self.is_of_now(now) && now.saturating_sub(self.since) < u64::from(self.lifetime.fresh)
    }

    /// The clocks of workers differ slightly, so one worker may read a response that another has stored slightly in the
    /// future.
    fn is_of_now(&self, now: u64) -> bool {
        now.saturating_add(CLOCKS_APART_MAX) >= self.since
    }

    /// Whether it may be used without asking for a request with these directives (RFC 9111, sections 4.2 and 5.2.1).
    pub fn suits(&self, now: u64, asked: &RequestDirectives) -> bool {
        if asked.no_cache
            || asked
                .max_age
                .is_some_and(|max| self.age(now) > u64::from(max))
        {
            return false;
        }
        if self.is_fresh(now) {
            let held = now.saturating_sub(self.since);
            let left = u64::from(self.lifetime.fresh) - held;
            return asked.min_fresh.is_none_or(|min| left >= u64::from(min));
        }
        // RFC 9111, section 4.2.4: what the response forbids, a request cannot allow.
        let allowed = asked.max_stale.filter(|_| !self.lifetime.is_strict);
        asked.min_fresh.is_none() && allowed.is_some_and(|more| self.is_within(now, more))
    }

    /// Whether it may still be used if the upstream fails (`stale-if-error`).
    pub fn outlasts_errors(&self, now: u64) -> bool {
        self.is_within(now, self.lifetime.stale_if_error)
    }

    /// Whether it may still be used while a fresh one is fetched (`stale-while-revalidate`).
    pub fn outlasts_updates(&self, now: u64) -> bool {
        self.is_within(now, self.lifetime.stale_while_updating)
    }

    fn is_within(&self, now: u64, more: u32) -> bool {
        let limit = u64::from(self.lifetime.fresh) + u64::from(more);
        more > 0 && self.is_of_now(now) && now.saturating_sub(self.since) < limit
    }
}
