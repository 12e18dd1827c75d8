//! A node's part in a rate limit that several nodes share: what it may decide by itself, and what it asks the store
//! where all of them count. Asking is up to the caller.

use core::time::Duration;

use sluice_message::Moment;

use super::share::{Ask, Decision, Grant, Sharing};
use super::zone::{Outcome, Zone};

impl Zone {
    /// Decides about an event of `key` without the store, if that is possible.
    pub fn decide(&mut self, sharing: &Sharing, key: &[u8], now: Moment) -> Decision {
        self.drop_idle(key, now);
        let at = self.ask_for(key);
        let rate = self.rate;
        let slot = &mut self.slots[at];
        let mut share = slot.share.as_deref().copied().unwrap_or_default();
        share.end_lease(now);
        if share.left > 0 {
            share.left -= 1;
            let refill = share.refill(sharing, now);
            self.set_share(at, share);
            let ahead = self.count(at, now).ahead;
            return Decision::Allowed { ahead, refill };
        }
        if share.refused_until > now {
            return Decision::Refused(share.refused_until.since(now));
        }
        // The node's own count shows when asking cannot help. A lease is granted earlier than it is used, so with leases that
        // count lags behind the store's.
        if !sharing.leases()
            && let Err(wait) = rate.wait(&mut slot.meter, now)
        {
            return Decision::Refused(wait);
        }
        let ask = share.ask(sharing, now);
        if sharing.leases() {
            self.set_share(at, share);
        }
        Decision::Ask(ask)
    }

    /// How long until an event of `key` is allowed, as far as the node knows. Nothing is counted.
    pub fn foresee(&mut self, sharing: &Sharing, key: &[u8], now: Moment) -> Option<Duration> {
        let slot = &mut self.slots[*self.places.get(key)?];
        let share = slot.share.as_deref().copied().unwrap_or_default();
        if share.left > 0 && share.ends > now {
            return None;
        }
        if share.refused_until > now {
            return Some(share.refused_until.since(now));
        }
        match sharing.leases() {
            true => None,
            false => self.rate.wait(&mut slot.meter, now).err(),
        }
    }

    /// Notes the reply to a question about `key`. If `spends`, an event waits for it: returns what becomes of that.
    pub fn settle(
        &mut self,
        sharing: &Sharing,
        key: &[u8],
        (ask, grant): (&Ask, Grant),
        spends: bool,
    ) -> Outcome {
        let at = self.ask_for(key);
        let mut share = self.slots[at].share.as_deref().copied().unwrap_or_default();
        if ask.fetches {
            share.is_fetching = false;
        }
        let spent = u32::from(spends && grant.events > 0);
        match grant.events {
            // Counted from the question: the moment of the store is not earlier.
            0 if ask.want > 0 => share.refused_until = share.refused_until.max(ask.at + grant.wait),
            0 => {}
            events => share.add(sharing, (ask, grant), events - spent),
        }
        // What is granted one by one leaves nothing to know, so most keys take no memory for it.
        if sharing.leases() || share.refused_until > ask.at {
            self.set_share(at, share);
        }
        if spent == 0 {
            return Outcome {
                refused: spends.then_some(grant.wait),
                ahead: Duration::ZERO,
                forgotten: self.forget_beyond_limit(at),
            };
        }
        let outcome = self.count(at, ask.at);
        Outcome {
            ahead: grant.ahead,
            ..outcome
        }
    }

    /// Takes back the latest event of `key`, which was allowed and is refused elsewhere.
    pub fn give_back(&mut self, key: &[u8]) {
        if let Some(at) = self.places.get(key).copied() {
            let rate = self.rate;
            let slot = &mut self.slots[at];
            let before = slot.meter.bytes();
            rate.give_back(&mut slot.meter);
            self.bytes = self.bytes - before + slot.meter.bytes();
        }
    }

    /// The question about `key` has no reply.
    pub fn give_up(&mut self, key: &[u8], ask: &Ask) {
        let Some(at) = self.places.get(key).copied() else {
            return;
        };
        if let Some(share) = &mut self.slots[at].share
            && ask.fetches
        {
            share.is_fetching = false;
        }
    }

    /// Counts an event that was allowed elsewhere; that this node alone would refuse it does not matter.
    fn count(&mut self, at: usize, now: Moment) -> Outcome {
        let rate = self.rate;
        let slot = &mut self.slots[at];
        let before = slot.meter.bytes();
        let _ = rate.take(&mut slot.meter, now);
        self.bytes = self.bytes - before + slot.meter.bytes();
        let ahead = rate.ahead(&slot.meter, now);
        Outcome {
            refused: None,
            ahead,
            forgotten: self.forget_beyond_limit(at),
        }
    }
}

#[cfg(test)]
#[path = "sharing_tests.rs"]
mod tests;
