//! One shared connection at work: a task reads for all of its streams and sends what they said together. What a stream
//! does is left to `call`.

use std::future::poll_fn;
use std::io::IoSlice;
use std::rc::Rc;
use std::task::{Context, Poll};

use sluice_message::ResponseHead;
use sluice_wire::h2::{ClientEvent, ErrorCode, Side};

use super::mux::{Gone, Mux, WaitsFor};
use crate::limits::{LINGER, TURNS_MAX};
use crate::places::Place;
use crate::stream::Stream;
use crate::timer::Timer;
use crate::upstream::endpoint::KeepAlive;

/// Begins to drive a connection, to its end.
pub(super) fn start(mux: Rc<Mux>, socket: Stream, place: Place) {
    let mut drive = Drive::new(mux, socket);
    tokio::task::spawn_local(async move {
        poll_fn(|cx| drive.poll(cx)).await;
        drop(place);
    });
}

/// The driver of one connection.
struct Drive {
    mux: Rc<Mux>,
    socket: Stream,
    /// What was read; holds no memory while nothing is there.
    input: Vec<u8>,
    /// The part of `input` that the codec has taken.
    taken: usize,
    /// Where the next head goes.
    head: ResponseHead,
    timer: Timer,
    waits: Waits,
    stage: Stage,
    /// Whether the socket holds back what was written.
    is_unflushed: bool,
}

/// How far the connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It goes on.
    Open,
    /// The upstream was told that no more streams come.
    Leaving,
    /// It is over, and the upstream is to be told.
    Ending,
    /// The upstream is gone.
    Lost,
}

/// What the connection's timer runs for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    /// For nothing: calls have times of their own.
    Nothing,
    /// For the upstream's settings.
    Begin,
    /// For another call.
    Idle,
    /// For the upstream to take the last of it.
    End,
}

impl Drive {
    fn new(mux: Rc<Mux>, socket: Stream) -> Drive {
        Drive {
            timer: mux.worker.timers.timer(),
            head: mux.worker.upstreams.spare_head(),
            mux,
            socket,
            input: Vec::new(),
            taken: 0,
            waits: Waits::Nothing,
            stage: Stage::Open,
            is_unflushed: false,
        }
    }

    /// Carries the connection on until nothing is left to do at the moment, or it is over.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        for _ in 0..TURNS_MAX {
            let has_received = self.receive(cx);
            self.take_leave();
            let has_sent = self.send(cx);
            if self.is_over() {
                return Poll::Ready(());
            }
            if !has_received && !has_sent {
                self.mux.sleep(cx.waker());
                if self.poll_time(cx).is_pending() {
                    return Poll::Pending;
                }
            }
        }
        // Others get their turn.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Reads once, and tells the calls what came. Tells whether there was something.
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

    /// Has the codec take what was read, as far as there is room for what it has to say.
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
                        // It is used up, or the output is full.
                        None => break,
                    }
                }
                Err(closed) => {
                    self.taken = input.len();
                    self.stage = Stage::Ending;
                    mux.lose_all(Gone::Faulty(closed));
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
                let spare = mux.worker.upstreams.spare_head();
                mux.interim(id, std::mem::replace(&mut self.head, spare));
            }
            ClientEvent::Head { id, end, body } => {
                let spare = mux.worker.upstreams.spare_head();
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

    /// Tells the upstream once that no more streams come.
    fn take_leave(&mut self) {
        if self.stage == Stage::Open {
            // The codec may have said so by itself, to an upstream that makes too much work.
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

    /// Sends what there is. Tells whether the upstream took something.
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

    /// Nothing is left to do at the moment. Ready when time has brought something.
    fn poll_time(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let waits = self.waits_for();
        if waits != self.waits {
            self.waits = waits;
            let clock = &self.mux.worker.clock;
            let options = self.mux.endpoint().options();
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

    /// The time is over that the connection had for what it waits for.
    fn expire(&mut self) {
        self.timer.clear();
        match std::mem::replace(&mut self.waits, Waits::Nothing) {
            Waits::Nothing => {}
            Waits::Idle => self.mux.retire(),
            // What does not even say what it takes is no server of HTTP/2, or hangs.
            Waits::Begin | Waits::End => self.lose(Gone::Closed),
        }
    }

    fn lose(&mut self, gone: Gone) {
        self.stage = Stage::Lost;
        self.mux.lose_all(gone);
    }
}

impl Drop for Drive {
    /// However it ends, nobody waits for it any more.
    fn drop(&mut self) {
        self.mux.lose_all(Gone::Closed);
        let buffers = &self.mux.worker.buffers;
        buffers.give_back(std::mem::take(&mut self.input));
    }
}

/// What the end of a stream means for its call.
fn gone(code: ErrorCode, by: Side, fault: Option<sluice_wire::h2::HeadFault>) -> Gone {
    match (by, code) {
        (Side::Us, _) => Gone::Broken(fault),
        (Side::Peer, ErrorCode::REFUSED_STREAM) => Gone::Refused,
        (Side::Peer, code) => Gone::Reset(code),
    }
}

impl KeepAlive {
    /// How long a shared connection is kept on which nothing is asked.
    fn idle_timeout(self) -> std::time::Duration {
        match self {
            KeepAlive::Off => std::time::Duration::ZERO,
            KeepAlive::Keep { idle_timeout, .. } => idle_timeout,
            KeepAlive::Briefly(time) => time,
        }
    }
}
