//! QUIC connections of a thread: their handshakes, datagrams and timers. What follows a response is as for the other
//! protocols, in `slot`.

use rustix::event::epoll::EventFlags;

use super::Worker;
use super::slot::State;
use crate::generator::clock::Ns;
use crate::generator::link::{Fault, Link};
use crate::generator::quic_link;
use crate::generator::talk::{Desk, H3, Talk};
use crate::generator::udp::Passed;

impl State {
    /// A QUIC connection with its link.
    fn quic(&mut self) -> Option<(&mut Link, &mut H3)> {
        match self {
            State::QuicHandshake { link, talk, .. } => Some((link, talk)),
            State::Open {
                link,
                talk: Talk::H3(talk),
                ..
            } => Some((link, talk)),
            State::Open { .. }
            | State::Closed { .. }
            | State::Dialling { .. }
            | State::Handshake { .. } => None,
        }
    }
}

impl Worker<'_> {
    /// Starts a QUIC connection for a closed slot.
    pub(super) fn dial_quic(&mut self, at: usize, wants: Option<Ns>, now: Ns) {
        let begun = self.begin_quic(at, now);
        match begun {
            Err(fault) => self.dial_failed(at, fault, wants, now),
            Ok((link, talk)) => {
                let talk = Box::new(talk);
                self.slots[at].state = State::QuicHandshake {
                    link,
                    talk,
                    since: now,
                    wants,
                };
                self.flush_quic(at, now);
            }
        }
    }

    fn begin_quic(&mut self, at: usize, now: Ns) -> Result<(Link, H3), Fault> {
        let source = self.slots[at].source;
        let to = (&self.plan.target, self.plan.tls.as_ref());
        let (link, talk) = quic_link::connect(to, self.clock, source, now)?;
        self.register(at, &link, EventFlags::IN)?;
        Ok((link, talk))
    }

    /// Handles an epoll event of a QUIC connection.
    pub(super) fn quic_event(&mut self, at: usize, flags: EventFlags) {
        let now = self.clock.now();
        if flags.intersects(!EventFlags::OUT) {
            let Some(pair) = self.slots[at].state.quic() else {
                return;
            };
            if let Err(fault) = quic_link::receive(pair, now, &mut self.buf, &mut self.record)
                && let State::QuicHandshake { wants, .. } = &self.slots[at].state
            {
                let wants = *wants;
                self.dial_failed(at, fault, wants, now);
            }
        }
        self.advance_quic(at);
    }

    /// Acts on what datagrams and timers have brought.
    fn advance_quic(&mut self, at: usize) {
        let now = self.clock.now();
        let Some((_, talk)) = self.slots[at].state.quic() else {
            return;
        };
        let mut desk = Desk {
            requests: &self.plan.requests,
            last: &mut self.last,
            done: &mut self.done,
        };
        let keep = talk.advance(now, &mut desk);
        let failed = talk
            .ended()
            .map(|ended| Fault::from(ended.handshake.clone()));
        if let State::QuicHandshake { wants, talk, .. } = &self.slots[at].state {
            let (wants, is_open) = (*wants, talk.is_open());
            match (failed, keep) {
                (Some(fault), _) | (None, Err(fault)) => self.dial_failed(at, fault, wants, now),
                (None, Ok(_)) if is_open => self.quic_established(at, now),
                (None, Ok(_)) => self.flush_quic(at, now),
            }
        } else if failed.is_some() {
            self.ended(at, now);
        } else {
            self.finish_response(at, keep, now);
        }
    }

    fn quic_established(&mut self, at: usize, now: Ns) {
        let closed = State::Closed { wants: None };
        let state = std::mem::replace(&mut self.slots[at].state, closed);
        let State::QuicHandshake {
            link,
            talk,
            since,
            wants,
        } = state
        else {
            return;
        };
        self.record.connected(now - since, now);
        self.plan.agreed_on_quic(&mut self.record.connections);
        self.opened(at, link, Talk::H3(talk), wants, now);
    }

    /// Sends packets as far as the socket accepts them, and sets the timer.
    pub(super) fn flush_quic(&mut self, at: usize, now: Ns) {
        let Some(pair) = self.slots[at].state.quic() else {
            return;
        };
        let (packets, record, timers) = (&mut self.packets, &mut self.record, &mut self.timers);
        let passed = quic_link::flush(at, pair, now, packets, record, timers);
        self.watch(at, passed == Passed::Full);
    }

    /// Lets QUIC's timers expire.
    pub(super) fn run_timers(&mut self, now: Ns) {
        while let Some(at) = self.timers.pop(now) {
            if let Some((_, talk)) = self.slots[at].state.quic() {
                talk.expire_timers(now);
                self.advance_quic(at);
            }
        }
    }

    /// Closes a QUIC connection in order. The packet that says so may be lost; the server's idle timeout does the same.
    pub(super) fn hang_up(&mut self, at: usize) {
        let now = self.clock.now();
        if let Some((link, talk)) = self.slots[at].state.quic() {
            talk.close(now);
            quic_link::send(talk, link, now, &mut self.packets);
        }
        self.timers.clear(at);
    }
}
