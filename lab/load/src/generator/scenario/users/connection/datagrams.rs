//! QUIC connections of a scenario's clients: their handshakes, datagrams and timers.

use std::net::Ipv4Addr;

use rustix::event::epoll::EventFlags;

use super::State;
use crate::generator::clock::Ns;
use crate::generator::link::{Fault, Link};
use crate::generator::quic_link;
use crate::generator::scenario::users::Users;
use crate::generator::talk::{Desk, H3, Keep, Lost, Talk};
use crate::generator::udp::Passed;

impl Users<'_> {
    /// Starts a QUIC connection of a client.
    pub(super) fn dial_quic(&mut self, at: usize, source: Option<Ipv4Addr>, now: Ns) {
        match self.begin_quic(at, source, now) {
            Err(fault) => self.dial_failed(at, fault, now),
            Ok((link, talk)) => {
                self.users[at].connection.state = State::QuicHandshake {
                    link,
                    talk: Box::new(talk),
                    since: now,
                };
                self.flush_quic(at, now);
            }
        }
    }

    fn begin_quic(
        &mut self,
        at: usize,
        source: Option<Ipv4Addr>,
        now: Ns,
    ) -> Result<(Link, H3), Fault> {
        let to = (&self.plan.target, self.plan.tls.as_ref());
        let (link, talk) = quic_link::connect(to, self.clock, source, now)?;
        self.register(at, &link, EventFlags::IN)?;
        Ok((link, talk))
    }

    /// Handles an epoll event of a QUIC connection.
    pub(super) fn quic_event(&mut self, at: usize, flags: EventFlags) {
        let now = self.clock.now();
        if flags.intersects(!EventFlags::OUT) {
            let Some(pair) = self.users[at].connection.state.quic() else {
                return;
            };
            if let Err(fault) = quic_link::receive(pair, now, &mut self.buf, &mut self.record)
                && let State::QuicHandshake { .. } = &self.users[at].connection.state
            {
                self.dial_failed(at, fault, now);
            }
        }
        self.advance_quic(at);
    }

    /// Acts on what datagrams and timers have brought.
    fn advance_quic(&mut self, at: usize) {
        let now = self.clock.now();
        let wants_cookies = self.wants_cookies(at);
        let user = &mut self.users[at];
        let Some((_, talk)) = user.connection.state.quic() else {
            return;
        };
        self.last.cookies = wants_cookies.then(Vec::new);
        let mut desk = Desk {
            requests: &user.request,
            last: &mut self.last,
            done: &mut self.done,
        };
        let keep = talk.advance(now, &mut desk);
        let (failed, is_open) = (
            talk.ended()
                .map(|ended| Fault::from(ended.handshake.clone())),
            talk.is_open(),
        );
        let is_new = matches!(user.connection.state, State::QuicHandshake { .. });
        self.store_cookies(at);
        match (failed, keep) {
            (Some(fault), _) if is_new => self.dial_failed(at, fault, now),
            (Some(_), _) => {
                self.record.connections.closed_by_server += 1;
                self.settle(at, Keep::Closes, now);
            }
            (None, Err(fault)) if is_new => self.dial_failed(at, fault, now),
            (None, Err(fault)) => self.break_off(at, &Lost::from(fault), now),
            (None, Ok(_)) if is_new && is_open => self.quic_established(at, now),
            (None, Ok(keep)) => {
                self.settle(at, keep, now);
                self.flush_quic(at, now);
            }
        }
    }

    fn quic_established(&mut self, at: usize, now: Ns) {
        let state = std::mem::take(&mut self.users[at].connection.state);
        let State::QuicHandshake { link, talk, since } = state else {
            return;
        };
        self.record.connected(now - since, now);
        self.plan.agreed_on_quic(&mut self.record.connections);
        self.opened(at, link, Talk::H3(talk), now);
    }

    /// Sends packets as far as the socket accepts them, and sets the timer.
    pub(super) fn flush_quic(&mut self, at: usize, now: Ns) {
        let Some(pair) = self.users[at].connection.state.quic() else {
            return;
        };
        let (packets, record, timers) = (&mut self.packets, &mut self.record, &mut self.timers);
        let passed = quic_link::flush(at, pair, now, packets, record, timers);
        self.watch(at, passed == Passed::Full);
    }

    /// Lets QUIC's timers expire.
    pub(in crate::generator::scenario::users) fn run_timers(&mut self, now: Ns) {
        while let Some(at) = self.timers.pop(now) {
            if let Some((_, talk)) = self.users[at].connection.state.quic() {
                talk.expire_timers(now);
                self.advance_quic(at);
            }
        }
    }
}
