//! Drives one shared connection: a task moves packets for all streams, and wakes the calls that have something to read or
//! can send.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use quinn_proto::{Dir, Event, StreamEvent, VarInt};
use sluice_wire::h3::Code;

use super::control::Control;
use super::failures::{Gone, faulty, lost};
use super::mux::{Mux, Stage};
use super::packets::Packets;
use crate::limits::QUIC_RESTS_PER_COUNT;
use crate::streams::Shared;
use sluice_net::ConnectionSlot;
use sluice_net::limits::TURNS_MAX;
use sluice_net::timer::Timer;

/// Starts the task that drives a connection until it ends.
pub(super) fn start(mux: Rc<Mux>, packets: Packets, slot: ConnectionSlot) {
    let mut drive = Drive {
        control: Control::new(&mux),
        timer: mux.worker.timers.timer(),
        mux,
        packets,
        phase: Phase::Open,
        waits: Waits::Nothing,
        lost: 0,
        rests: 0,
    };
    tokio::task::spawn_local(async move {
        poll_fn(|cx| drive.poll(cx)).await;
        drop(slot);
    });
}

/// The driver of one connection.
struct Drive {
    mux: Rc<Mux>,
    packets: Packets,
    control: Control,
    timer: Timer,
    waits: Waits,
    phase: Phase,
    /// Lost packets that were counted.
    lost: u64,
    /// How often the connection had nothing to do.
    rests: u32,
}

/// The state of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Open.
    Open,
    /// Closed by either end: QUIC responds to late packets for some time.
    Closed,
    /// The upstream cannot be reached any more.
    Lost,
}

/// What the connection's timer runs for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    /// Nothing: calls have timers of their own.
    Nothing,
    /// The next call.
    Idle,
}

impl Drive {
    /// Makes progress until nothing is left to do for now, or the connection is over.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        for _ in 0..TURNS_MAX {
            let has_moved = self.exchange(cx);
            let has_heeded = self.heed();
            let has_written = self.control.flush(&self.mux);
            let has_changed = self.obey();
            if self.is_over() {
                return Poll::Ready(());
            }
            if !(has_moved || has_heeded || has_written || has_changed) {
                self.rest();
                self.mux.membership.sleep(cx.waker());
                if self.poll_time(cx).is_pending() {
                    return Poll::Pending;
                }
            }
        }
        // Yields to other connections.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn exchange(&mut self, cx: &mut Context<'_>) -> bool {
        let mux = self.mux.clone();
        let mut quic = mux.quic.borrow_mut();
        let exchanged = self.packets.exchange(&mut quic, &mux.worker, cx);
        drop(quic);
        mux.sent.set(self.packets.sent());
        match exchanged {
            Ok(has_moved) => has_moved,
            Err(_) => {
                self.phase = Phase::Lost;
                mux.lose_all(Gone::Closed);
                true
            }
        }
    }

    /// Takes the events of QUIC. Returns whether there were any.
    fn heed(&mut self) -> bool {
        let mut has_heeded = false;
        loop {
            let event = self.mux.quic.borrow_mut().poll();
            let Some(event) = event else { break };
            has_heeded = true;
            match event {
                Event::ConnectionLost { reason } => {
                    self.phase = Phase::Closed;
                    self.mux.lose_all(lost(&reason));
                }
                Event::Stream(event) => self.heed_stream(event),
                Event::HandshakeDataReady
                | Event::Connected
                | Event::DatagramReceived
                | Event::DatagramsUnblocked => {}
            }
        }
        loop {
            let id = self.mux.quic.borrow_mut().streams().accept(Dir::Uni);
            let Some(id) = id else { break };
            has_heeded = true;
            self.control.accept(id);
            self.read_control(id);
        }
        has_heeded
    }

    fn heed_stream(&mut self, event: StreamEvent) {
        let mux = &self.mux;
        match event {
            StreamEvent::Opened { .. } | StreamEvent::Finished { .. } => {}
            StreamEvent::Available { dir: Dir::Bi } => mux.note_available(),
            // Our control stream is opened each time that something is left of it.
            StreamEvent::Available { dir: Dir::Uni } => {}
            StreamEvent::Readable { id } if id.dir() == Dir::Uni => self.read_control(id),
            StreamEvent::Readable { id } => mux.readable(id),
            StreamEvent::Writable { id } => mux.writable(id),
            StreamEvent::Stopped { id, .. } if id.dir() == Dir::Uni => {
                mux.fail(Code::CLOSED_CRITICAL_STREAM);
            }
            StreamEvent::Stopped { id, error_code } => mux.stopped(id, error_code),
        }
    }

    fn read_control(&mut self, id: quinn_proto::StreamId) {
        if let Err(code) = self.control.read(&self.mux, id) {
            self.mux.fail(code);
        }
    }

    /// Closes the connection if a fault demands it, or its last stream has ended. Returns whether it did.
    fn obey(&mut self) -> bool {
        if self.phase != Phase::Open {
            return false;
        }
        if let Some(code) = self.mux.take_fault() {
            self.close(code);
            self.mux.lose_all(faulty(code));
            return true;
        }
        let is_done = self.mux.is_retired() && self.mux.open_streams() == 0;
        if is_done {
            self.close(Code::NO_ERROR);
            self.mux.lose_all(Gone::Closed);
        }
        is_done
    }

    fn close(&mut self, code: Code) {
        let code = VarInt::from_u64(code.0).unwrap_or_default();
        let mut quic = self.mux.quic.borrow_mut();
        quic.close(Instant::now(), code, Bytes::new());
        self.phase = Phase::Closed;
    }

    fn is_over(&self) -> bool {
        match self.phase {
            Phase::Open => false,
            Phase::Closed => self.mux.quic.borrow().is_drained(),
            Phase::Lost => true,
        }
    }

    /// Polls the timer when nothing else is left to do. Ready when it has changed the state.
    fn poll_time(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let is_quiet = self.mux.open_streams() == 0 && self.mux.stage.get() == Stage::Open;
        let waits = match self.phase {
            Phase::Open if is_quiet => Waits::Idle,
            Phase::Open | Phase::Closed | Phase::Lost => Waits::Nothing,
        };
        if waits != self.waits {
            self.waits = waits;
            match waits {
                Waits::Nothing => self.timer.clear(),
                Waits::Idle => {
                    self.count();
                    self.mux.shrink();
                    let keep_alive = self.mux.membership.endpoint().options().keep_alive;
                    let clock = &self.mux.worker.clock;
                    self.timer.set(clock, keep_alive.idle_timeout());
                }
            }
        }
        self.timer.poll_expired(cx).map(|()| {
            self.timer.clear();
            self.waits = Waits::Nothing;
            self.mux.retire();
        })
    }

    /// Nothing is left to do for now.
    fn rest(&mut self) {
        self.rests = self.rests.wrapping_add(1);
        if self.rests.is_multiple_of(QUIC_RESTS_PER_COUNT) {
            self.count();
        }
    }

    /// Adds the packets that were lost since the last time to the counter of the worker.
    fn count(&mut self) {
        let lost = self.mux.quic.borrow().stats().path.lost_packets;
        let counter = &self.mux.worker.counters.quic_upstream_lost_packets;
        counter.add(lost.saturating_sub(self.lost));
        self.lost = lost;
    }
}

impl Drop for Drive {
    /// However the task ends, calls must not wait for it any more.
    fn drop(&mut self) {
        self.count();
        self.mux.lose_all(Gone::Closed);
    }
}
