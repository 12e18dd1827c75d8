//! The connections of a scenario's clients: dialling, sending, receiving, closing. What is sent, and what follows a
//! response, is decided in `Users`.

mod datagrams;

use std::io::IoSlice;

use rustix::event::epoll::{self, EventData, EventFlags};

use super::{Doing, Users};
use crate::generator::clock::{Ns, span};
use crate::generator::limits::{PIECES_MAX, READS_IN_A_ROW};
use crate::generator::link::{Dial, Fault, Input, Link};
use crate::generator::quic_link;
use crate::generator::talk::{Desk, Done, Ending, Flight, H1, H2, H3, Keep, Lost, Talk, What};
use crate::generator::target::HttpVersion;
use crate::result::FailureClass;

/// Pause before connecting again to a unix socket whose queue was full.
const BUSY_PAUSE_NS: Ns = 1_000_000;

/// The connection of a client.
#[derive(Debug, Default)]
pub struct Connection {
    state: State,
    /// Incremented with each connection, so that events of the previous one are recognized.
    generation: u32,
    /// Whether the socket is polled for writing.
    watches_out: bool,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Closed,
    Dialling {
        link: Link,
        since: Ns,
    },
    Handshake {
        link: Link,
        since: Ns,
    },
    /// QUIC's handshake, which includes the one of TLS.
    QuicHandshake {
        link: Link,
        talk: Box<H3>,
        since: Ns,
    },
    Open {
        link: Link,
        talk: Talk,
    },
}

impl State {
    /// A QUIC connection with its link.
    fn quic(&mut self) -> Option<(&mut Link, &mut H3)> {
        match self {
            State::QuicHandshake { link, talk, .. } => Some((link, talk)),
            State::Open {
                link,
                talk: Talk::H3(talk),
            } => Some((link, talk)),
            State::Open { .. }
            | State::Closed
            | State::Dialling { .. }
            | State::Handshake { .. } => None,
        }
    }
}

impl Connection {
    /// Whether a request can be sent at once.
    pub fn is_open(&self) -> bool {
        matches!(&self.state, State::Open { talk, .. } if !talk.is_leaving())
    }

    /// Whether there is none, not even one being established.
    pub fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed)
    }

    /// Closes it, over QUIC with a packet that says so.
    pub fn close(&mut self, now: Ns) {
        if let Some((link, talk)) = self.state.quic() {
            talk.close(now);
            quic_link::send(talk, link, now, &mut Vec::new());
        }
        self.state = State::Closed;
        self.generation = self.generation.wrapping_add(1);
    }
}

impl Users<'_> {
    /// Starts to connect a client.
    pub(super) fn dial(&mut self, at: usize, now: Ns) {
        let source = self
            .plan
            .source(at * self.share.threads + self.share.thread);
        if self.plan.target.protocol.is_h3() {
            return self.dial_quic(at, source, now);
        }
        match Link::dial(&self.plan.target.address, source) {
            Dial::Begun(link) => {
                let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP;
                match self.register(at, &link, flags) {
                    Err(fault) => self.dial_failed(at, fault, now),
                    Ok(()) => {
                        let state = State::Dialling { link, since: now };
                        self.users[at].connection.state = state;
                    }
                }
            }
            Dial::Busy => {
                let limit = span(self.plan.timeout);
                match self.users[at].doing {
                    Doing::Connects { due } if now.saturating_sub(due) >= limit => {
                        let text = "the socket's send queue stayed full".to_string();
                        let class = FailureClass::ConnectTimeout;
                        self.dial_failed(at, Fault { class, text }, now);
                    }
                    _ => self.wake(at, now + BUSY_PAUSE_NS),
                }
            }
            Dial::Failed(fault) => self.dial_failed(at, fault, now),
        }
    }

    /// Polls a new connection of a client.
    fn register(&mut self, at: usize, link: &Link, flags: EventFlags) -> Result<(), Fault> {
        let connection = &mut self.users[at].connection;
        connection.generation = connection.generation.wrapping_add(1);
        connection.watches_out = flags.contains(EventFlags::OUT);
        let data = EventData::new_u64(u64::from(connection.generation) << 32 | at as u64);
        epoll::add(&self.epoll, link, data, flags).map_err(|errno| Fault {
            class: FailureClass::NoLocalResource,
            text: std::io::Error::from(errno).to_string(),
        })
    }

    /// A connect or handshake failed, and with it the step that waits for it.
    fn dial_failed(&mut self, at: usize, fault: Fault, now: Ns) {
        self.record.connections.failed += 1;
        self.users[at].connection.close(now);
        if let Doing::Connects { due } = self.users[at].doing {
            let done = Done {
                due,
                sent: 0,
                first: 0,
                request: None,
                outcome: Err(Lost::from(fault)),
                what: What::Flight,
            };
            self.finished(at, done, now);
        }
    }

    /// Sends the prepared request of a client on its open connection.
    pub(super) fn begin(&mut self, at: usize, due: Ns, now: Ns) {
        let user = &mut self.users[at];
        let State::Open { talk, .. } = &mut user.connection.state else {
            return;
        };
        let flight = Flight {
            request: 0,
            due,
            sent: now,
            first: 0,
        };
        talk.begin(flight, &user.request);
        user.doing = Doing::Waits { due };
        self.in_flight += 1;
        self.flush(at, now);
    }

    /// Handles an epoll event.
    pub(super) fn event(&mut self, data: u64, flags: EventFlags) {
        let at = (data & 0xFFFF_FFFF) as usize;
        let connection = &self.users[at].connection;
        if connection.generation != (data >> 32) as u32 {
            return;
        }
        match connection.state {
            State::Closed => {}
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
        let state = std::mem::take(&mut self.users[at].connection.state);
        let State::Dialling { mut link, since } = state else {
            return;
        };
        if let Err(fault) = link.finish_dial() {
            return self.dial_failed(at, fault, now);
        }
        self.record.connected(now - since, now);
        match &self.plan.tls {
            None => self.opened(at, link, self.talk(), now),
            Some(tls) => {
                if let Err(fault) = link.begin_tls(tls) {
                    return self.dial_failed(at, fault, now);
                }
                self.users[at].connection.state = State::Handshake { link, since: now };
                self.shake(at);
            }
        }
    }

    /// Continues a handshake.
    fn shake(&mut self, at: usize) {
        let state = std::mem::take(&mut self.users[at].connection.state);
        let State::Handshake { mut link, since } = state else {
            return;
        };
        match link.handshake() {
            Ok(false) => {
                let wants_out = link.wants_write();
                self.users[at].connection.state = State::Handshake { link, since };
                self.watch(at, wants_out);
            }
            Ok(true) => {
                let now = self.clock.now();
                self.record.secured(now - since, now);
                if let Some(session) = link.session()
                    && let Err(fault) = self.plan.agreed(session, &mut self.record.connections)
                {
                    return self.dial_failed(at, fault, now);
                }
                self.opened(at, link, self.talk(), now);
            }
            Err(fault) => {
                let now = self.clock.now();
                self.dial_failed(at, fault, now);
            }
        }
    }

    /// Polls the socket for writing only while there is something to write.
    fn watch(&mut self, at: usize, wants_out: bool) {
        let connection = &mut self.users[at].connection;
        let link = match &connection.state {
            State::Closed => return,
            State::Dialling { link, .. }
            | State::Handshake { link, .. }
            | State::QuicHandshake { link, .. }
            | State::Open { link, .. } => link,
        };
        if wants_out != connection.watches_out {
            connection.watches_out = wants_out;
            let data = EventData::new_u64(u64::from(connection.generation) << 32 | at as u64);
            let mut flags = EventFlags::IN | EventFlags::RDHUP;
            flags.set(EventFlags::OUT, wants_out);
            // The socket is registered, so this cannot fail; if it did, the timeout would show it.
            let _ = epoll::modify(&self.epoll, link, data, flags);
        }
    }

    /// The protocol of a new connection over TCP.
    fn talk(&self) -> Talk {
        let protocol = self.plan.target.protocol;
        match protocol.is_h2() {
            true => Talk::H2(Box::new(H2::new(1, protocol.is_tls()))),
            false => Talk::H1(H1::default()),
        }
    }

    /// A connection is ready for the request that waits for it.
    fn opened(&mut self, at: usize, link: Link, talk: Talk, now: Ns) {
        let user = &mut self.users[at];
        user.connection.state = State::Open { link, talk };
        if !user.connected {
            user.connected = true;
            *self.record.connections.clients.get_or_insert(0) += 1;
        }
        match self.users[at].doing {
            Doing::Connects { due } => self.begin(at, due, now),
            Doing::Away | Doing::Pause { .. } | Doing::Waits { .. } => self.flush(at, now),
        }
    }

    /// Sends pending output as far as the socket accepts it.
    fn flush(&mut self, at: usize, now: Ns) {
        let user = &mut self.users[at];
        let State::Open { link, talk } = &mut user.connection.state else {
            return;
        };
        if let Talk::H3(_) = talk {
            return self.flush_quic(at, now);
        }
        let mut stuck = false;
        let fault = loop {
            let mut pieces = [IoSlice::new(&[]); PIECES_MAX];
            let count = talk.pieces(&user.request, &mut pieces);
            if count == 0 {
                break None;
            }
            let wanted: usize = pieces[..count].iter().map(|piece| piece.len()).sum();
            match link.write(&pieces[..count]) {
                Ok(taken) => {
                    self.record.sent(taken, now);
                    talk.sent(taken, &user.request);
                    if taken < wanted {
                        stuck = true;
                        break None;
                    }
                }
                Err(fault) => break Some(fault),
            }
        };
        match fault {
            Some(fault) => self.break_off(at, &Lost::from(fault), now),
            None => {
                let wants_out = stuck || link.wants_write();
                self.watch(at, wants_out);
            }
        }
    }

    /// Fails the request in flight, and closes the connection.
    fn break_off(&mut self, at: usize, lost: &Lost, now: Ns) {
        if let State::Open { talk, .. } = &mut self.users[at].connection.state {
            talk.lose(lost, &mut self.done);
        }
        self.settle(at, Keep::Closes, now);
    }

    fn writable(&mut self, at: usize) {
        let now = self.clock.now();
        if let State::Open { link, .. } = &mut self.users[at].connection.state
            && let Err(fault) = link.push_tls()
        {
            self.break_off(at, &Lost::from(fault), now);
            return;
        }
        self.flush(at, now);
    }

    /// Reads available bytes.
    fn readable(&mut self, at: usize) {
        let is_tls = self.plan.tls.is_some();
        for reads in 1.. {
            let wants_cookies = self.wants_cookies(at);
            let user = &mut self.users[at];
            let State::Open { link, talk } = &mut user.connection.state else {
                return;
            };
            let input = link.read(&mut self.buf);
            let now = self.clock.now();
            self.last.cookies = wants_cookies.then(Vec::new);
            let mut desk = Desk {
                requests: &user.request,
                last: &mut self.last,
                done: &mut self.done,
            };
            match input {
                Ok(Input::Bytes(got)) => {
                    let keep = talk.receive(&self.buf[..got], now, &mut desk);
                    self.record.received(got, now);
                    self.store_cookies(at);
                    match keep {
                        Ok(keep) => self.settle(at, keep, now),
                        Err(fault) => self.break_off(at, &Lost::from(fault), now),
                    }
                    self.flush(at, now);
                    // TLS may buffer more than the socket reports, so it is read until nothing is left.
                    if !is_tls && (got < self.buf.len() || reads == READS_IN_A_ROW) {
                        return;
                    }
                }
                Ok(Input::Nothing) => return,
                Ok(Input::End | Input::Reset) => {
                    let reset = matches!(input, Ok(Input::Reset));
                    talk.end(
                        if reset { Ending::Reset } else { Ending::Closed },
                        &mut desk,
                    );
                    self.record.connections.closed_by_server += 1;
                    self.settle(at, Keep::Closes, now);
                    return;
                }
                Err(fault) => {
                    self.break_off(at, &Lost::from(fault), now);
                    return;
                }
            }
        }
    }

    /// Records what has ended on a connection, and continues its session.
    fn settle(&mut self, at: usize, keep: Keep, now: Ns) {
        let user = &mut self.users[at];
        let mut closes = keep == Keep::Closes;
        if let State::Open { talk, .. } = &mut user.connection.state
            && !self.done.is_empty()
        {
            // A response before the request was sent in full: the rest of it cannot be followed by another one.
            let mut pieces = [IoSlice::new(&[]); PIECES_MAX];
            let is_h1 = self.plan.target.protocol.version() == HttpVersion::Http1;
            closes |= is_h1 && talk.pieces(&user.request, &mut pieces) > 0;
        }
        if closes {
            user.connection.close(now);
        }
        let mut ended = None;
        for done in self.done.drain(..) {
            match done.what {
                What::Flight | What::Unprocessed => ended = Some(done),
                What::Beside | What::Opening => self.record.done(&done, now),
            }
        }
        let Some(done) = ended else {
            return;
        };
        self.in_flight -= 1;
        let limit = span(self.plan.timeout);
        match done.what {
            // Sent again on another connection (RFC 9113, section 6.8), unless the server has refused it for too long.
            What::Unprocessed if now.saturating_sub(done.due) < limit => {
                self.users[at].connection.close(now);
                self.users[at].doing = Doing::Connects { due: done.due };
                self.dial(at, now);
            }
            What::Unprocessed | What::Flight | What::Beside | What::Opening => {
                self.finished(at, done, now);
            }
        }
    }

    /// Fails what has timed out on the connection of a client.
    pub(super) fn expire_connection(&mut self, at: usize, before: Ns, now: Ns) {
        let (class, text) = match &mut self.users[at].connection.state {
            State::Closed => return,
            State::Dialling { since, .. } if *since <= before => {
                (FailureClass::ConnectTimeout, "connecting took too long")
            }
            State::Handshake { since, .. } if *since <= before => {
                (FailureClass::TlsHandshake, "the handshake took too long")
            }
            State::QuicHandshake { since, talk, .. } if *since <= before => {
                quic_link::late_handshake(talk)
            }
            State::Dialling { .. } | State::Handshake { .. } | State::QuicHandshake { .. } => {
                return;
            }
            State::Open { talk, .. } => {
                let over = talk.expire(before, &mut self.done);
                if !self.done.is_empty() {
                    self.settle(at, over, now);
                    self.flush(at, now);
                }
                return;
            }
        };
        let text = text.to_string();
        self.dial_failed(at, Fault { class, text }, now);
    }
}
