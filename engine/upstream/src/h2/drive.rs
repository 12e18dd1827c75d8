//! Drives one shared connection: a task reads for all streams and writes their output together. `call` implements the
//! streams.

use std::future::poll_fn;
use std::io::IoSlice;
use std::rc::Rc;
use std::task::{Context, Poll};

use sluice_message::ResponseHead;
use sluice_wire::h2::{ClientEvent, ErrorCode, Side};

use super::mux::{Gone, Mux, WaitsFor};
use crate::pool::Pool;
use crate::streams::Shared;
use sluice_net::ConnectionSlot;
use sluice_net::limits::{LINGER, TURNS_MAX};
use sluice_net::stream::Stream;
use sluice_net::timer::Timer;

/// Starts the task that drives a connection until it ends.
pub(super) fn start(mux: Rc<Mux>, socket: Stream, slot: ConnectionSlot) {
    let mut drive = Drive::new(mux, socket);
    tokio::task::spawn_local(async move {
        poll_fn(|cx| drive.poll(cx)).await;
        drop(slot);
    });
}

/// The driver of one connection.
struct Drive {
    mux: Rc<Mux>,
    socket: Stream,
    /// Received data; holds no memory while empty.
    input: Vec<u8>,
    /// How much of `input` the codec has consumed.
    taken: usize,
    /// Receives the next response head.
    head: ResponseHead,
    timer: Timer,
    waits: Waits,
    stage: Stage,
    /// Whether written output is still buffered in the stream (TLS).
    is_unflushed: bool,
}

/// The state of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Open.
    Open,
    /// GOAWAY was sent: no more streams will be opened.
    Leaving,
    /// Over, with output still to be sent.
    Ending,
    /// The upstream is gone.
    Lost,
}

/// What the connection's timer runs for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    /// Nothing: calls have timers of their own.
    Nothing,
    /// The upstream's SETTINGS.
    Begin,
    /// The next call.
    Idle,
    /// The upstream accepting the last output.
    End,
}

impl Drive {
    fn new(mux: Rc<Mux>, socket: Stream) -> Drive {
        Drive {
            timer: mux.worker.timers.timer(),
            head: Pool::of(&mux.worker).spare_head(),
            mux,
            socket,
            input: Vec::new(),
            taken: 0,
            waits: Waits::Nothing,
            stage: Stage::Open,
            is_unflushed: false,
        }
    }

    /// Makes progress until nothing is left to do for now, or the connection is over.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        for _ in 0..TURNS_MAX {
            let has_received = self.receive(cx);
            self.take_leave();
            let has_sent = self.send(cx);
            if self.is_over() {
                return Poll::Ready(());
            }
            if !has_received && !has_sent {
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

    /// Reads once and dispatches the frames to the calls. Returns whether there was input.
    fn receive(&mut self, cx: &mut Context<'_>) -> bool {
        if matches!(self.stage, Stage::Ending | Stage::Lost)
            || self.mux.client.borrow().is_output_full()
        {
            return false;
        }
        if self.taken == self.input.len() {
            let buffers = &self.mux.worker.buffers;
            self.taken = 0;
            self.input.clear();
            if self.input.capacity() == 0 {
                self.input = buffers.large();
            }
            match self.socket.poll_read(cx, &mut self.input) {
                Poll::Pending => {
                    buffers.give_back(std::mem::take(&mut self.input));
                    return false;
                }
                Poll::Ready(Ok(count)) if count > 0 => {}
                Poll::Ready(_) => {
                    self.lose(Gone::Closed);
                    return true;
                }
            }
        }
        self.digest();
        true
    }

    /// Feeds the input to the codec, as long as there is room for its output.
    fn digest(&mut self) {
        let mux = self.mux.clone();
        mux.prepare_output();
        let input = std::mem::take(&mut self.input);
        loop {
            let rest = &input[self.taken..];
            let received = mux.client.borrow_mut().receive(rest, &mut self.head);
            match received {
                Ok(received) => {
                    self.taken += received.consumed;
                    match received.event {
                        Some(event) => self.heed(event),
                        // The input is used up, or the output is full.
                        None => break,
                    }
                }
                Err(closed) => {
                    self.taken = input.len();
                    self.stage = Stage::Ending;
                    mux.lose_all(Gone::Ended(closed));
                    break;
                }
            }
        }
        self.input = input;
        let now = mux.worker.clock.coarse();
        mux.client.borrow_mut().calm(now);
    }

    fn heed(&mut self, event: ClientEvent<'_>) {
        let mux = &self.mux;
        match event {
            ClientEvent::Interim { id } => {
                let spare = Pool::of(&mux.worker).spare_head();
                mux.interim(id, std::mem::replace(&mut self.head, spare));
            }
            ClientEvent::Head { id, end, body } => {
                let spare = Pool::of(&mux.worker).spare_head();
                let head = std::mem::replace(&mut self.head, spare);
                mux.head(id, head, body, end);
            }
            ClientEvent::Data { id, data, end } => mux.arrived(id, data, end),
            ClientEvent::Trailers { id, fields } => mux.ended(id, fields),
            ClientEvent::Reset {
                id,
                code,
                by,
                fault,
            } => mux.lose(id, gone(code, by, fault)),
            ClientEvent::Window { id } => mux.wake_waiting(WaitsFor::Window, id),
            ClientEvent::GoAway { .. } => mux.retire(),
            ClientEvent::Settings => {
                mux.note_settings();
                mux.wake_waiting(WaitsFor::Window, None);
            }
        }
    }

    /// Sends GOAWAY, once.
    fn take_leave(&mut self) {
        if self.stage == Stage::Open {
            // The codec may have sent GOAWAY itself, to an upstream that causes too much work.
            let is_closing = self.mux.client.borrow().is_closing();
            if is_closing {
                self.mux.retire();
            }
            if self.mux.is_retired() {
                self.mux.prepare_output();
                self.mux.client.borrow_mut().drain();
                self.stage = Stage::Leaving;
            }
        }
    }

    /// Writes pending output. Returns whether the upstream accepted some.
    fn send(&mut self, cx: &mut Context<'_>) -> bool {
        if self.stage == Stage::Lost {
            return false;
        }
        let mux = self.mux.clone();
        let had_room = mux.has_output_room();
        let (mut sent, mut is_lost) = (0, false);
        {
            let mut client = mux.client.borrow_mut();
            let output = client.output();
            while sent < output.len() && !is_lost {
                match self.socket.poll_write(cx, &[IoSlice::new(&output[sent..])]) {
                    Poll::Ready(Ok(count)) if count > 0 => sent += count,
                    Poll::Ready(_) => is_lost = true,
                    Poll::Pending => break,
                }
            }
            if sent == output.len() {
                output.clear();
            } else {
                output.drain(..sent);
            }
            if output.is_empty() && (sent > 0 || self.is_unflushed) && !is_lost {
                match self.socket.poll_flush(cx) {
                    Poll::Ready(flushed) => {
                        (self.is_unflushed, is_lost) = (false, flushed.is_err())
                    }
                    Poll::Pending => self.is_unflushed = true,
                }
            }
        }
        mux.note_written(sent);
        if is_lost {
            self.lose(Gone::Closed);
        }
        if !had_room && mux.has_output_room() {
            mux.wake_waiting(WaitsFor::Room, None);
        }
        sent > 0 || is_lost
    }

    fn is_over(&self) -> bool {
        match self.stage {
            Stage::Lost => true,
            Stage::Ending => !self.is_unsent(),
            Stage::Open | Stage::Leaving => self.mux.client.borrow().is_done() && !self.is_unsent(),
        }
    }

    fn is_unsent(&self) -> bool {
        self.is_unflushed || !self.mux.client.borrow_mut().output().is_empty()
    }

    /// Polls the timer when nothing else is left to do. Ready when it has changed the state.
    fn poll_time(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let waits = self.waits_for();
        if waits != self.waits {
            self.waits = waits;
            let clock = &self.mux.worker.clock;
            let options = self.mux.membership.endpoint().options();
            match waits {
                Waits::Nothing => self.timer.clear(),
                Waits::Begin => self.timer.set(clock, options.timeouts.dial),
                Waits::Idle => {
                    if !self.is_unsent() {
                        self.mux.shrink();
                    }
                    self.timer.set(clock, options.keep_alive.idle_timeout());
                }
                Waits::End => self.timer.set(clock, LINGER),
            }
        }
        self.timer.poll_expired(cx).map(|()| self.expire())
    }

    fn waits_for(&self) -> Waits {
        let is_quiet = self.mux.open_streams() == 0;
        match self.stage {
            Stage::Ending | Stage::Lost => Waits::End,
            Stage::Leaving if is_quiet => Waits::End,
            Stage::Open if self.mux.is_beginning() => Waits::Begin,
            Stage::Open if is_quiet => Waits::Idle,
            Stage::Open | Stage::Leaving => Waits::Nothing,
        }
    }

    /// Handles the timeout of the connection's current wait.
    fn expire(&mut self) {
        self.timer.clear();
        match std::mem::replace(&mut self.waits, Waits::Nothing) {
            Waits::Nothing => {}
            Waits::Idle => self.mux.retire(),
            // A peer that does not even send SETTINGS does not speak HTTP/2, or hangs.
            Waits::Begin | Waits::End => self.lose(Gone::Closed),
        }
    }

    fn lose(&mut self, gone: Gone) {
        self.stage = Stage::Lost;
        self.mux.lose_all(gone);
    }
}

impl Drop for Drive {
    /// However the task ends, calls must not wait for it any more.
    fn drop(&mut self) {
        self.mux.lose_all(Gone::Closed);
        let buffers = &self.mux.worker.buffers;
        buffers.give_back(std::mem::take(&mut self.input));
    }
}

/// Maps the end of a stream to a reason for its call.
fn gone(code: ErrorCode, by: Side, fault: Option<sluice_wire::h2::HeadFault>) -> Gone {
    match (by, code) {
        (Side::Us, _) => Gone::Broken(fault),
        (Side::Peer, ErrorCode::REFUSED_STREAM) => Gone::Refused,
        (Side::Peer, code) => Gone::Reset(code),
    }
}
