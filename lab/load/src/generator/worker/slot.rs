//! The connections of a thread: opening, filling, draining and closing them.

use std::io::IoSlice;
use std::net::Ipv4Addr;
use std::sync::atomic::Ordering;

use rustix::event::epoll::{self, EventData, EventFlags};

use super::Worker;
use crate::generator::clock::{Ns, span};
use crate::generator::limits::{DIALS_MAX, PIECES_MAX, READS_IN_A_ROW, WAITING_MAX};
use crate::generator::link::{Dial, Fault, Input, Link};
use crate::generator::quic_link::late_handshake;
use crate::generator::talk::{Desk, Done, Ending, Flight, H1, H2, H3, Keep, Lost, Talk, What};
use crate::result::FailureClass;

/// Pause before connecting again to a unix socket whose queue was full.
const BUSY_PAUSE_NS: Ns = 1_000_000;

/// A slot for one connection.
#[derive(Debug)]
pub struct Slot {
    pub(super) state: State,
    /// Incremented with each connection, so that events of the previous one are recognized.
    generation: u32,
    pub(super) source: Option<Ipv4Addr>,
    /// Whether its first connect has ended.
    tried: bool,
    /// Whether it had a connection before the window ended.
    connected: bool,
    /// Open loop: whether it is in the list of idle slots.
    listed: bool,
    /// Whether the socket is polled for writing.
    watches_out: bool,
}

#[derive(Debug)]
pub(super) enum State {
    /// Not connected. For a unix socket that was busy: the request that waits, and since when.
    Closed { wants: Option<Ns> },
    /// Connecting; a request may wait for it.
    Dialling {
        link: Link,
        since: Ns,
        wants: Option<Ns>,
    },
    /// TLS handshake.
    Handshake {
        link: Link,
        since: Ns,
        wants: Option<Ns>,
    },
    /// QUIC's handshake, which includes the one of TLS.
    QuicHandshake {
        link: Link,
        talk: Box<H3>,
        since: Ns,
        wants: Option<Ns>,
    },
    /// Ready for requests.
    Open { link: Link, talk: Talk, begun: u64 },
}

impl Slot {
    /// A slot without a connection.
    pub fn new(source: Option<Ipv4Addr>) -> Self {
        Slot {
            state: State::Closed { wants: None },
            generation: 0,
            source,
            tried: false,
            connected: false,
            listed: false,
            watches_out: false,
        }
    }

    fn room(&self, depth: usize, begun_max: u64) -> bool {
        match &self.state {
            State::Open { talk, begun, .. } => {
                talk.in_flight() < depth && *begun < begun_max && !talk.is_leaving()
            }
            State::Closed { .. }
            | State::Dialling { .. }
            | State::Handshake { .. }
            | State::QuicHandshake { .. } => false,
        }
    }
}

impl Worker<'_> {
    /// Connects slots for the first time, a few at a time.
    pub(super) fn ramp(&mut self, now: Ns) {
        while self.ramp_open < DIALS_MAX && self.ramp_next < self.slots.len() {
            let at = self.ramp_next;
            self.ramp_next += 1;
            self.ramp_open += 1;
            let wants = self.want(now);
            if wants.is_none() && !self.is_open_loop() {
                self.tried(at);
                continue;
            }
            self.dial(at, wants, now);
        }
    }

    /// The first connect of a slot has succeeded or failed.
    fn tried(&mut self, at: usize) {
        if self.slots[at].tried {
            return;
        }
        self.slots[at].tried = true;
        self.ramp_open -= 1;
        self.ramp_left -= 1;
        if self.ramp_left == 0 {
            self.signals.ramped.fetch_add(1, Ordering::Release);
        }
    }

    /// Starts to connect a closed slot, for a request wanted since `wants`.
    fn dial(&mut self, at: usize, wants: Option<Ns>, now: Ns) {
        if self.plan.target.protocol.is_h3() {
            return self.dial_quic(at, wants, now);
        }
        match Link::dial(&self.plan.target.address, self.slots[at].source) {
            Dial::Begun(link) => {
                let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP;
                if let Err(fault) = self.register(at, &link, flags) {
                    self.dial_failed(at, fault, wants, now);
                    return;
                }
                self.slots[at].state = State::Dialling {
                    link,
                    since: now,
                    wants,
                };
            }
            Dial::Busy => {
                self.slots[at].state = State::Closed { wants };
                self.redial.push_front((now + BUSY_PAUSE_NS, at));
                let limit = span(self.plan.timeout);
                if wants.is_some_and(|since| now.saturating_sub(since) >= limit) {
                    self.redial.pop_front();
                    let text = "the socket's send queue stayed full".to_string();
                    let class = FailureClass::ConnectTimeout;
                    self.dial_failed(at, Fault { class, text }, wants, now);
                }
            }
            Dial::Failed(fault) => self.dial_failed(at, fault, wants, now),
        }
    }

    /// Polls a new connection of a slot.
    pub(super) fn register(
        &mut self,
        at: usize,
        link: &Link,
        flags: EventFlags,
    ) -> Result<(), Fault> {
        let slot = &mut self.slots[at];
        slot.generation = slot.generation.wrapping_add(1);
        slot.watches_out = flags.contains(EventFlags::OUT);
        let data = EventData::new_u64(u64::from(slot.generation) << 32 | at as u64);
        epoll::add(&self.epoll, link, data, flags).map_err(|errno| Fault {
            class: FailureClass::NoLocalResource,
            text: std::io::Error::from(errno).to_string(),
        })
    }

    /// Handles a failed connect or handshake.
    pub(super) fn dial_failed(&mut self, at: usize, fault: Fault, wants: Option<Ns>, now: Ns) {
        self.record.connections.failed += 1;
        if let Some(due) = wants {
            let outcome = Err(Lost::from(fault));
            let done = Done {
                due,
                sent: 0,
                first: 0,
                request: None,
                outcome,
                what: What::Flight,
            };
            self.record.done(&done, now);
        }
        self.close(at, now + span(self.plan.failure_pause));
        self.tried(at);
    }

    /// Closes a connection; the slot is connected again at `again`.
    fn close(&mut self, at: usize, again: Ns) {
        self.hang_up(at);
        let slot = &mut self.slots[at];
        slot.state = State::Closed { wants: None };
        slot.generation = slot.generation.wrapping_add(1);
        slot.listed = false;
        self.redial.push_back((again, at));
    }

    /// Connects the slots whose pause is over.
    pub(super) fn redial_due(&mut self, now: Ns) {
        // A connect that fails at once is queued again: each round handles only those queued at its start.
        for _ in 0..self.redial.len() {
            match self.redial.front() {
                Some((again, _)) if *again <= now && self.is_loading() => {}
                _ => return,
            }
            let Some((_, at)) = self.redial.pop_front() else {
                return;
            };
            let State::Closed { wants } = self.slots[at].state else {
                continue;
            };
            let open_loop = self.is_open_loop();
            let wants = match wants {
                None if !open_loop => match self.want(now) {
                    None => continue,
                    wanted => wanted,
                },
                wants => wants,
            };
            // A client that uses a connection per request opens it when there is a request.
            if open_loop && wants.is_none() && self.plan.begun_max() == 1 {
                self.redial.push_back((now + self.plan.tick_ns(), at));
                continue;
            }
            self.dial(at, wants, now);
        }
    }

    /// Open loop: a request is due. It is sent on an idle connection, else on a new one, else it waits.
    pub(super) fn place(&mut self, due: Ns, now: Ns) {
        if let Some(at) = self.idle_slot() {
            if self.record.window.has(due) {
                self.record.send_lag.record(now - due);
            }
            self.begin(at, due, now);
            self.flush(at, now);
            self.list(at);
            return;
        }
        if let Some(at) = self.closed_slot() {
            self.dial(at, Some(due), now);
            return;
        }
        if self.waiting.len() < WAITING_MAX {
            self.waiting.push_back(due);
            return;
        }
        self.drop_due(due, now, "too many requests wait for a connection");
    }

    /// Open loop: the connection with room that was idle for longest.
    fn idle_slot(&mut self) -> Option<usize> {
        let (depth, begun_max) = (self.plan.depth, self.plan.begun_max());
        while let Some(at) = self.idle.pop_front() {
            self.slots[at].listed = false;
            if self.slots[at].room(depth, begun_max) {
                return Some(at);
            }
        }
        None
    }

    /// A slot without a connection that no request waits for.
    fn closed_slot(&mut self) -> Option<usize> {
        let closed =
            |(_, at): &(Ns, usize)| matches!(self.slots[*at].state, State::Closed { wants: None });
        let place = self.redial.iter().position(closed)?;
        self.redial.remove(place).map(|(_, at)| at)
    }

    /// Open loop: sends requests that a server returned unprocessed, before all that wait.
    pub(super) fn send_again(&mut self) {
        while let Some(due) = self.again.pop_back() {
            let now = self.clock.now();
            if let Some(at) = self.idle_slot() {
                self.begin(at, due, now);
                self.flush(at, now);
                self.list(at);
            } else if let Some(at) = self.closed_slot() {
                // After the window nothing else would connect it.
                self.dial(at, Some(due), now);
            } else {
                self.waiting.push_front(due);
            }
        }
    }

    fn drop_due(&mut self, due: Ns, now: Ns, text: &str) {
        let outcome = Err(Lost::new(FailureClass::Dropped, text));
        let done = Done {
            due,
            sent: 0,
            first: 0,
            request: None,
            outcome,
            what: What::Flight,
        };
        self.record.done(&done, now);
    }

    /// Open loop: puts a slot with room into the list of idle ones.
    fn list(&mut self, at: usize) {
        let (depth, begun_max) = (self.plan.depth, self.plan.begun_max());
        let slot = &mut self.slots[at];
        if !slot.listed && slot.room(depth, begun_max) {
            slot.listed = true;
            self.idle.push_back(at);
        }
    }

    /// Starts a request on an open connection with room.
    fn begin(&mut self, at: usize, due: Ns, now: Ns) {
        let request = self.pick();
        if let State::Open { talk, begun, .. } = &mut self.slots[at].state {
            let flight = Flight {
                request,
                due,
                sent: now,
                first: 0,
            };
            talk.begin(flight, &self.plan.requests);
            *begun += 1;
            self.in_flight += 1;
        }
    }

    /// Sends pending output as far as the socket accepts it.
    fn flush(&mut self, at: usize, now: Ns) {
        let slot = &mut self.slots[at];
        let State::Open { link, talk, .. } = &mut slot.state else {
            return;
        };
        if let Talk::H3(_) = talk {
            return self.flush_quic(at, now);
        }
        let requests = &self.plan.requests;
        let mut stuck = false;
        let fault = loop {
            let mut pieces = [IoSlice::new(&[]); PIECES_MAX];
            let count = talk.pieces(requests, &mut pieces);
            if count == 0 {
                break None;
            }
            let wanted: usize = pieces[..count].iter().map(|piece| piece.len()).sum();
            match link.write(&pieces[..count]) {
                Ok(taken) => {
                    self.record.sent(taken, now);
                    talk.sent(taken, requests);
                    if taken < wanted {
                        stuck = true;
                        break None;
                    }
                }
                Err(fault) => break Some(fault),
            }
        };
        if let Some(fault) = fault {
            self.break_off(at, &Lost::from(fault), now);
            return;
        }
        let wants_out = stuck || link.wants_write();
        self.watch(at, wants_out);
    }

    /// Fails everything in flight on a connection, and closes it.
    fn break_off(&mut self, at: usize, lost: &Lost, now: Ns) {
        if let State::Open { talk, .. } = &mut self.slots[at].state {
            talk.lose(lost, &mut self.done);
        }
        self.settle(now);
        self.close(at, now + span(self.plan.failure_pause));
    }

    /// Records requests that have ended. Returns how many there were.
    fn settle(&mut self, now: Ns) -> usize {
        let ends = |done: &&Done| matches!(done.what, What::Flight | What::Unprocessed);
        let count = self.done.iter().filter(ends).count();
        let limit = span(self.plan.timeout);
        for done in self.done.drain(..) {
            match done.what {
                // A server that refuses for too long has failed.
                What::Unprocessed if now.saturating_sub(done.due) < limit => {
                    self.again.push_back(done.due);
                }
                What::Unprocessed | What::Flight | What::Beside | What::Opening => {
                    self.record.done(&done, now);
                }
            }
        }
        self.in_flight -= count;
        count
    }

    /// Handles an epoll event.
    pub(super) fn event(&mut self, data: u64, flags: EventFlags) {
        let at = (data & 0xFFFF_FFFF) as usize;
        if self.slots[at].generation != (data >> 32) as u32 {
            return;
        }
        match self.slots[at].state {
            State::Closed { .. } => {}
            State::Dialling { .. } => self.dialled(at),
            State::Handshake { .. } => self.shake(at),
            State::QuicHandshake { .. }
            | State::Open {
                talk: Talk::H3(_), ..
            } => self.quic_event(at, flags),
            State::Open { .. } => {
                if flags.contains(EventFlags::OUT) {
                    self.writable(at);
                }
                if flags.intersects(!EventFlags::OUT) {
                    self.readable(at);
                }
            }
        }
    }

    /// A connect has succeeded or failed.
    fn dialled(&mut self, at: usize) {
        let now = self.clock.now();
        let closed = State::Closed { wants: None };
        let state = std::mem::replace(&mut self.slots[at].state, closed);
        let State::Dialling {
            mut link,
            since,
            wants,
        } = state
        else {
            return;
        };
        if let Err(fault) = link.finish_dial() {
            self.dial_failed(at, fault, wants, now);
            return;
        }
        self.record.connected(now - since, now);
        match &self.plan.tls {
            None => self.opened(at, link, self.talk(now), wants, now),
            Some(tls) => {
                if let Err(fault) = link.begin_tls(tls) {
                    self.dial_failed(at, fault, wants, now);
                    return;
                }
                self.slots[at].state = State::Handshake {
                    link,
                    since: now,
                    wants,
                };
                self.shake(at);
            }
        }
    }

    /// Continues a handshake.
    fn shake(&mut self, at: usize) {
        let closed = State::Closed { wants: None };
        let state = std::mem::replace(&mut self.slots[at].state, closed);
        let State::Handshake {
            mut link,
            since,
            wants,
        } = state
        else {
            return;
        };
        match link.handshake() {
            Ok(false) => {
                let wants_out = link.wants_write();
                self.slots[at].state = State::Handshake { link, since, wants };
                self.watch(at, wants_out);
            }
            Ok(true) => {
                let now = self.clock.now();
                self.record.secured(now - since, now);
                if let Some(session) = link.session()
                    && let Err(fault) = self.plan.agreed(session, &mut self.record.connections)
                {
                    self.dial_failed(at, fault, wants, now);
                    return;
                }
                self.opened(at, link, self.talk(now), wants, now);
            }
            Err(fault) => {
                let now = self.clock.now();
                self.dial_failed(at, fault, wants, now);
            }
        }
    }

    /// Polls the socket for writing only while there is something to write.
    pub(super) fn watch(&mut self, at: usize, wants_out: bool) {
        let slot = &mut self.slots[at];
        let link = match &slot.state {
            State::Closed { .. } => return,
            State::Dialling { link, .. }
            | State::Handshake { link, .. }
            | State::QuicHandshake { link, .. }
            | State::Open { link, .. } => link,
        };
        if wants_out != slot.watches_out {
            slot.watches_out = wants_out;
            let data = EventData::new_u64(u64::from(slot.generation) << 32 | at as u64);
            let mut flags = EventFlags::IN | EventFlags::RDHUP;
            flags.set(EventFlags::OUT, wants_out);
            // The socket is registered, so this cannot fail; if it did, the timeout would show it.
            let _ = epoll::modify(&self.epoll, link, data, flags);
        }
    }

    /// The protocol of a connection over TCP that is open since now.
    fn talk(&self, now: Ns) -> Talk {
        let protocol = self.plan.target.protocol;
        if let Some(talk) = self.plan.kind.talk(now) {
            talk
        } else if protocol.is_h2() {
            Talk::H2(Box::new(H2::new(self.plan.depth, protocol.is_tls())))
        } else {
            Talk::H1(H1::default())
        }
    }

    /// A connection is ready for requests.
    pub(super) fn opened(&mut self, at: usize, link: Link, talk: Talk, wants: Option<Ns>, now: Ns) {
        self.slots[at].state = State::Open {
            link,
            talk,
            begun: 0,
        };
        if !self.slots[at].connected && self.is_loading() {
            self.slots[at].connected = true;
            *self.record.connections.clients.get_or_insert(0) += 1;
        }
        let open_loop = self.is_open_loop();
        if self.is_loading() || (open_loop && wants.is_some()) {
            if let Some(due) = wants {
                self.begin(at, due, now);
            }
            self.fill(at, now);
        }
        self.flush(at, now);
        self.tried(at);
    }

    /// Starts as many requests as a connection has room for: in a closed loop all at once, in an open one those that
    /// wait.
    fn fill(&mut self, at: usize, now: Ns) {
        let (depth, begun_max) = (self.plan.depth, self.plan.begun_max());
        if self.is_open_loop() {
            while self.slots[at].room(depth, begun_max) {
                match self.waiting.pop_front() {
                    Some(due) => self.begin(at, due, now),
                    None => break,
                }
            }
            self.list(at);
            return;
        }
        while self.slots[at].room(depth, begun_max) {
            match self.want(now) {
                Some(due) => self.begin(at, due, now),
                None => break,
            }
        }
    }

    fn writable(&mut self, at: usize) {
        let now = self.clock.now();
        if let State::Open { link, .. } = &mut self.slots[at].state
            && let Err(fault) = link.push_tls()
        {
            self.break_off(at, &Lost::from(fault), now);
            return;
        }
        self.flush(at, now);
    }

    /// Reads available bytes, and starts new requests for complete responses.
    fn readable(&mut self, at: usize) {
        let is_tls = self.plan.tls.is_some();
        let mut reads = 0;
        loop {
            let State::Open { link, talk, .. } = &mut self.slots[at].state else {
                return;
            };
            let input = link.read(&mut self.buf);
            let now = self.clock.now();
            let mut desk = Desk {
                requests: &self.plan.requests,
                last: &mut self.last,
                done: &mut self.done,
            };
            match input {
                Ok(Input::Bytes(got)) => {
                    let keep = talk.receive(&self.buf[..got], now, &mut desk);
                    self.record.received(got, now);
                    self.finish_response(at, keep, now);
                    reads += 1;
                    // TLS may buffer more than the socket reports, so it is read until nothing is left.
                    if !is_tls && (got < self.buf.len() || reads == READS_IN_A_ROW) {
                        return;
                    }
                }
                Ok(Input::Nothing) => return,
                Ok(Input::End) => {
                    talk.end(Ending::Closed, &mut desk);
                    self.ended(at, now);
                    return;
                }
                Ok(Input::Reset) => {
                    talk.end(Ending::Reset, &mut desk);
                    self.ended(at, now);
                    return;
                }
                Err(fault) => {
                    self.break_off(at, &Lost::from(fault), now);
                    return;
                }
            }
        }
    }

    /// After bytes were consumed: records what is complete and starts what there is room for.
    pub(super) fn finish_response(&mut self, at: usize, keep: Result<Keep, Fault>, now: Ns) {
        match keep {
            Err(fault) => {
                self.break_off(at, &Lost::from(fault), now);
                return;
            }
            Ok(Keep::Closes) => {
                let mut again = now;
                if let State::Open { talk, .. } = &mut self.slots[at].state {
                    // A conversation should go on, so its end is a failure, followed by a pause.
                    if talk.is_conversation() {
                        again += span(self.plan.failure_pause);
                    }
                    let text = "the server closed the connection after the previous response";
                    talk.lose(&Lost::new(FailureClass::Stale, text), &mut self.done);
                }
                self.settle(now);
                self.record.connections.closed_by_server += 1;
                match again == now {
                    true => self.close_in_order(at, now),
                    false => self.close(at, again),
                }
                return;
            }
            Ok(Keep::Open) => {}
        }
        let ended = self.settle(now);
        let State::Open { talk, begun, .. } = &self.slots[at].state else {
            return;
        };
        if *begun >= self.plan.begun_max() && talk.in_flight() == 0 {
            self.close_in_order(at, now);
            return;
        }
        if ended > 0 {
            self.fill(at, now);
        }
        self.flush(at, now);
    }

    /// Closes a connection that has carried all its requests; a new one is opened at once.
    fn close_in_order(&mut self, at: usize, now: Ns) {
        self.close(at, now);
        if self.is_open_loop() {
            if let Some(due) = self.waiting.pop_front() {
                self.redial.pop_back();
                self.dial(at, Some(due), now);
            }
        } else if let Some(due) = self.want(now) {
            self.redial.pop_back();
            self.dial(at, Some(due), now);
        }
    }

    /// The server closed the connection.
    pub(super) fn ended(&mut self, at: usize, now: Ns) {
        self.record.connections.closed_by_server += 1;
        let lost = self.done.iter().any(|done| done.outcome.is_err());
        self.settle(now);
        if lost {
            self.close(at, now + span(self.plan.failure_pause));
        } else {
            self.close_in_order(at, now);
        }
    }

    /// Fails what has timed out.
    pub(super) fn expire(&mut self, now: Ns) {
        let limit = span(self.plan.timeout);
        let Some(before) = now.checked_sub(limit) else {
            return;
        };
        while let Some(due) = self.waiting.front().copied().filter(|due| *due <= before) {
            self.waiting.pop_front();
            self.drop_due(due, now, "no connection became free in time");
        }
        for at in 0..self.slots.len() {
            let late = match &mut self.slots[at].state {
                State::Closed { .. } => continue,
                State::Dialling { since, wants, .. } if *since <= before => (
                    FailureClass::ConnectTimeout,
                    "connecting took too long",
                    *wants,
                ),
                State::Handshake { since, wants, .. } if *since <= before => (
                    FailureClass::TlsHandshake,
                    "the handshake took too long",
                    *wants,
                ),
                State::QuicHandshake {
                    since, wants, talk, ..
                } if *since <= before => {
                    let (class, text) = late_handshake(talk);
                    (class, text, *wants)
                }
                State::Dialling { .. } | State::Handshake { .. } | State::QuicHandshake { .. } => {
                    continue;
                }
                State::Open { talk, .. } => {
                    let over = talk.expire(before, &mut self.done);
                    if self.done.is_empty() {
                        continue;
                    }
                    self.settle(now);
                    match over {
                        Keep::Closes => self.close(at, now + span(self.plan.failure_pause)),
                        Keep::Open => {
                            self.fill(at, now);
                            self.flush(at, now);
                        }
                    }
                    continue;
                }
            };
            let (class, text, wants) = late;
            let text = text.to_string();
            self.dial_failed(at, Fault { class, text }, wants, now);
        }
    }

    /// Age of the oldest request in flight.
    pub(super) fn oldest_age(&self, now: Ns) -> Ns {
        let flights = self.slots.iter().filter_map(|slot| match &slot.state {
            State::Open { talk, .. } => talk.oldest().map(|flight| flight.due),
            State::Dialling { wants, .. }
            | State::Handshake { wants, .. }
            | State::QuicHandshake { wants, .. } => *wants,
            State::Closed { .. } => None,
        });
        let oldest = flights.chain(self.waiting.front().copied()).min();
        oldest.map_or(0, |due| now.saturating_sub(due))
    }

    /// Whether a request waits for a connection being established.
    pub(super) fn is_dialling(&self) -> bool {
        let waits = |slot: &Slot| match &slot.state {
            State::Dialling { wants, .. }
            | State::Handshake { wants, .. }
            | State::QuicHandshake { wants, .. }
            | State::Closed { wants } => wants.is_some(),
            State::Open { .. } => false,
        };
        self.slots.iter().any(waits)
    }
}
