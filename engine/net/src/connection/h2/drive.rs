//! Drives one HTTP/2 connection: a single task reads for all streams, polls those that were woken, and writes their
//! output together. The streams themselves are in `streams`.

use std::future::Future;
use std::io::IoSlice;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use sluice_message::Version;
use sluice_policy::Pace;
use sluice_policy::data_rate::Verdict;
use sluice_wire::h2::{Closed, End, ErrorCode, Event, Reason, Side, StreamId};

use super::mux::Mux;
use crate::connection::{Connection, take_exchange};
use crate::limits::{
    DRAIN_TIMEOUT, HEADS_BYTES_MAX, LINGER, STEPS_MAX, TURNS_MAX, UNSENT_BYTES_MAX,
};
use crate::multiplexed::{
    self, Gone, HeadRead, Home, Over as StreamOver, Ready, SLOTS, Start, WaitsFor, Woken, Works,
};
use crate::service::{Exchange, Service, Settings};
use crate::timer::Timer;

/// The driver of one connection. `F` is the future of a stream, `M` creates it.
pub(super) struct Drive<'c, S: Service, F, M> {
    connection: &'c Connection<S>,
    home: Rc<Home<S, Mux>>,
    mux: Rc<Mux>,
    make: M,
    /// Stream work, by slot.
    works: Works<F>,
    /// The exchange that receives the next request head; `None` while the connection is quiet.
    spare: Option<Box<Exchange<S::Context>>>,
    /// The slot that is polled first.
    turn: usize,
    /// Streams that were woken and wait for room in the output.
    held: Woken,
    stage: Stage,
    waits: Waits,
    /// Whether a request has begun since the timer was looked at.
    has_begun: bool,
    /// Whether the client has accepted output since the write timeout was last set.
    is_taken: bool,
    /// The rate at which the client accepts the output.
    pace: Pace,
    /// Whether written output is still buffered in the stream (TLS).
    is_unflushed: bool,
    /// Value of the codec's count of decoded bytes at which this task yields.
    decoded_until: u64,
    /// Whether the kernel's send buffer is kept small.
    is_prompt: bool,
    /// Expires when the process shuts down.
    leave: Timer,
    settings: Times,
}

/// The state of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Open for new streams.
    Open,
    /// Ends with its last stream.
    Leaving,
    /// Over, with output still to be sent.
    Ending,
    /// The client is gone.
    Lost,
}

/// What the connection's timer runs for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    /// Nothing: streams have timers of their own.
    Nothing,
    /// The first bytes of a new connection.
    Begin,
    /// The rest of a request head.
    Head,
    /// The next request.
    Idle,
    /// The client accepting output.
    Client,
    /// Frames that the client sent before it received GOAWAY.
    Last,
    /// The client accepting the last output.
    End,
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    /// The client is gone.
    Lost,
    /// All output was sent; the client may still be sending.
    Said,
}

/// Timeouts, from the configuration with which the connection began.
#[derive(Clone, Copy)]
struct Times {
    begin: Duration,
    head: Duration,
    idle: Duration,
    /// The part of the idle timeout that is granted even under pressure.
    idle_min: Duration,
    write: Duration,
}

impl From<&Settings> for Times {
    fn from(settings: &Settings) -> Times {
        Times {
            begin: settings.first_byte_timeout,
            head: settings.head_timeout,
            idle: settings.client.keep_alive_timeout,
            idle_min: settings.client.keep_alive_min,
            write: settings.client.write_idle_timeout,
        }
    }
}

impl<'c, S, F, M> Drive<'c, S, F, M>
where
    S: Service,
    F: Future<Output = StreamOver> + 'static,
    M: Fn(Start<S, Mux>) -> F,
{
    pub(super) fn new(connection: &'c Connection<S>, home: Rc<Home<S, Mux>>, make: M) -> Self {
        let worker = &connection.link.worker;
        let leave = worker.timers.timer();
        leave.set_for_drain();
        let binding = connection.slot.binding();
        let settings = binding.service.settings_for(&connection.info);
        let (pace, times) = (
            Pace::new(settings.client.write_min_rate),
            Times::from(settings),
        );
        drop(binding);
        Drive {
            connection,
            mux: home.carrier.clone(),
            home,
            make,
            works: Works::new(worker),
            spare: None,
            turn: 0,
            held: Woken::default(),
            stage: Stage::Open,
            waits: Waits::Nothing,
            has_begun: false,
            is_taken: false,
            pace,
            is_unflushed: false,
            decoded_until: 0,
            is_prompt: false,
            leave,
            settings: times,
        }
    }

    /// Makes progress until nothing is left to do for now, or the connection is over.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Over> {
        let (ready, is_new) = self.mux.ready.for_task(cx);
        ready.rise();
        if is_new {
            self.works.forget_wakers();
            self.mux.wake_all();
        }
        let mut steps = 0;
        self.decoded_until = self.mux.server.borrow().decoded_bytes() + HEADS_BYTES_MAX;
        for _ in 0..TURNS_MAX {
            let has_received = self.receive(cx);
            let stepped = self.run(&ready);
            let has_sent = self.send(cx);
            if let Some(over) = self.over() {
                return Poll::Ready(over);
            }
            steps += stepped;
            if steps >= STEPS_MAX || self.has_decoded_enough() {
                break;
            }
            let has_moved = has_received || stepped > 0 || has_sent;
            if !has_moved && ready.sleep() {
                if self.poll_time(cx).is_pending() {
                    return Poll::Pending;
                }
                ready.rise();
            }
        }
        // Yields to other connections.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Reads once and dispatches the frames to the streams. Returns whether there was input.
    fn receive(&mut self, cx: &mut Context<'_>) -> bool {
        if matches!(self.stage, Stage::Ending | Stage::Lost) || self.is_output_full() {
            return false;
        }
        let link = &self.connection.link;
        if link.input.borrow().is_empty() {
            match link.poll_fill(cx) {
                Poll::Pending => return false,
                Poll::Ready(Ok(count)) if count > 0 => {}
                Poll::Ready(_) => self.lose(),
            }
        }
        if self.stage != Stage::Lost {
            self.digest();
        }
        true
    }

    fn is_output_full(&self) -> bool {
        self.mux.server.borrow().is_output_full()
    }

    /// Feeds the input to the codec, as long as there is room for its output.
    fn digest(&mut self) {
        let link = self.connection.link.clone();
        self.prepare_output();
        let input = link.input.borrow();
        let mut taken = 0;
        while taken < input.len() && !self.is_output_full() && !self.has_decoded_enough() {
            let (shared, info) = (&self.connection.shared, &self.connection.info);
            let exchange = self
                .spare
                .get_or_insert_with(|| take_exchange(shared, info));
            let mut server = self.mux.server.borrow_mut();
            let received = server.receive(&input[taken..], &mut exchange.req);
            drop(server);
            match received {
                Ok(received) => {
                    taken += received.consumed;
                    match received.event {
                        Some(event) => self.heed(event),
                        None if received.consumed == 0 => break,
                        None => {}
                    }
                }
                Err(closed) => {
                    self.note_closed(closed);
                    self.end();
                    taken = input.len();
                }
            }
        }
        drop(input);
        link.consume(taken);
        self.be_prompt();
        self.mux
            .server
            .borrow_mut()
            .calm(link.worker.clock.coarse());
    }

    fn has_decoded_enough(&self) -> bool {
        self.mux.server.borrow().decoded_bytes() >= self.decoded_until
    }

    /// Provides an output buffer for the codec; a quiet connection has none.
    fn prepare_output(&self) {
        let mut server = self.mux.server.borrow_mut();
        let output = server.output();
        if output.capacity() == 0 {
            *output = self.mux.link.worker.buffers.large();
        }
    }

    fn heed(&mut self, event: Event<'_>) {
        match event {
            Event::Head { id, end, facts } => self.begin(id, end, Ok(&facts)),
            Event::Refused { id, fault, end } => self.begin(id, end, Err(fault)),
            Event::Data { id, data, end } => self.mux.arrived(id, data, end),
            Event::Trailers { id, fields } => self.mux.ended(id, fields),
            Event::Reset { id, by, .. } => {
                let gone = match by {
                    Side::Peer => Gone::Closed,
                    Side::Us => Gone::Broken,
                };
                self.mux.lose(id, gone);
            }
            Event::Window { id } => self.mux.wake_waiting(WaitsFor::Window, id),
            Event::GoAway { .. } => self.leave(),
        }
    }

    /// Starts a request. Its head is in the spare exchange unless the codec refused it.
    fn begin(&mut self, id: StreamId, end: End, head: HeadRead<'_>) {
        let is_served = head.map_or_else(|fault| fault.status().is_some(), |_| true);
        let Some(exchange) = self.spare.take_if(|_| is_served) else {
            // The codec resets a stream without a response.
            return self.mux.server.borrow_mut().release(id);
        };
        self.mux.begin(id, end);
        self.has_begun = true;
        let binding = self.connection.slot.binding();
        let of_stream = (id, head, end);
        let (start, is_last) =
            multiplexed::prepare(&self.mux, binding, exchange, of_stream, Version::Http2);
        let future = (self.make)(start);
        self.works.put(id.slot(), future);
        self.mux.wake(id.slot());
        if is_last {
            self.drain();
        }
    }

    /// Polls the woken streams as long as the output has room. Returns how many were polled.
    fn run(&mut self, ready: &Arc<Ready>) -> usize {
        let mut woken = ready.take();
        woken.add(std::mem::take(&mut self.held));
        let mut count = 0;
        if woken.is_empty() {
            return count;
        }
        self.prepare_output();
        loop {
            let goes_on = matches!(self.stage, Stage::Open | Stage::Leaving);
            if goes_on && self.is_output_full() {
                // They are polled first when there is room again.
                self.held = woken;
                return count;
            }
            let Some(slot) = self.next(&mut woken) else {
                return count;
            };
            if count == 0 {
                // The slot polled first now is polled last the next time: among streams blocked by the connection
                // window, only the first one gets to send.
                self.turn = (slot + 1) % SLOTS;
            }
            self.step(slot, ready);
            count += 1;
        }
    }

    /// Selects the next stream: the one with the highest priority (RFC 9218), else round-robin. The stream polled first
    /// gets the room in the output.
    fn next(&mut self, woken: &mut Woken) -> Option<usize> {
        if let Some(slot) = self.mux.most_wanted(*woken) {
            woken.remove(slot);
            return Some(slot);
        }
        woken.take_from(self.turn)
    }

    /// Data in the kernel's send buffer cannot be overtaken: once the client sends priorities, the send buffer is kept
    /// small. Other connections keep the larger buffers, which cost less CPU.
    fn be_prompt(&mut self) {
        if !self.is_prompt && self.mux.server.borrow().has_priorities() {
            self.is_prompt = true;
            let stream = self.connection.link.stream.borrow();
            stream.limit_unsent(UNSENT_BYTES_MAX);
        }
    }

    fn step(&mut self, slot: usize, ready: &Arc<Ready>) {
        let Poll::Ready(over) = self.works.poll(slot, ready) else {
            return;
        };
        self.mux.end_slot(slot, over);
        if self.home.is_closing.get() {
            self.drain();
        }
    }

    /// Writes pending output. Returns whether the client accepted some.
    fn send(&mut self, cx: &mut Context<'_>) -> bool {
        if self.stage == Stage::Lost {
            return false;
        }
        let mut sent = 0;
        let was_unflushed = self.is_unflushed;
        let had_room = self.mux.has_room();
        let mut is_lost = false;
        {
            let mut server = self.mux.server.borrow_mut();
            let output = server.output();
            let mut stream = self.connection.link.stream.borrow_mut();
            while sent < output.len() {
                match stream.poll_write(cx, &[IoSlice::new(&output[sent..])]) {
                    Poll::Ready(Ok(count)) if count > 0 => sent += count,
                    Poll::Ready(_) => {
                        is_lost = true;
                        break;
                    }
                    Poll::Pending => break,
                }
            }
            if sent == output.len() {
                output.clear();
            } else {
                output.drain(..sent);
            }
            if output.is_empty() && (sent > 0 || self.is_unflushed) && !is_lost {
                match stream.poll_flush(cx) {
                    Poll::Ready(Ok(())) => {
                        self.is_taken |= self.is_unflushed;
                        self.is_unflushed = false;
                    }
                    Poll::Ready(Err(_)) => is_lost = true,
                    Poll::Pending => self.is_unflushed = true,
                }
            }
        }
        if is_lost {
            self.lose();
        }
        self.is_taken |= sent > 0;
        if sent > 0 || (was_unflushed && !self.is_unflushed) {
            let clock = &self.connection.link.worker.clock;
            self.pace.moved(sent as u64, clock.coarse());
        }
        if !had_room && self.mux.has_room() {
            self.mux.wake_waiting(WaitsFor::Room, None);
        }
        sent > 0 || is_lost
    }

    /// How the connection ended, once it has ended and no stream is left.
    fn over(&mut self) -> Option<Over> {
        match self.stage {
            Stage::Lost => (self.mux.open() == 0).then_some(Over::Lost),
            Stage::Ending => (self.mux.open() == 0 && !self.is_unsent()).then_some(Over::Said),
            // The codec may have sent GOAWAY itself, to a client that causes too much work.
            Stage::Open | Stage::Leaving => {
                let is_done = self.mux.open() == 0 && self.mux.server.borrow().is_done();
                (is_done && !self.is_unsent()).then_some(Over::Said)
            }
        }
    }

    fn is_unsent(&self) -> bool {
        self.is_unflushed || !self.mux.server.borrow_mut().output().is_empty()
    }

    /// Polls the timers when nothing else is left to do. Ready when one has changed the state.
    fn poll_time(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.stage == Stage::Open
            && (self.leave.poll_expired(cx).is_ready() || self.connection.slot.is_retired())
        {
            self.drain();
            return Poll::Ready(());
        }
        let link = &self.connection.link;
        let waits = self.waits_for();
        if waits == Waits::Idle && self.waits != Waits::Idle {
            self.rest();
        }
        if waits == Waits::Client && self.is_too_slow() {
            link.worker.counters.responses_too_slow.up();
            self.lose();
            return Poll::Ready(());
        }
        self.rest_output();
        let is_taken = std::mem::take(&mut self.is_taken);
        let has_begun = std::mem::take(&mut self.has_begun);
        let is_anew = match waits {
            // A request may have been served since, as soon as it was read.
            Waits::Idle | Waits::Head => has_begun,
            Waits::Client => is_taken,
            _ => false,
        };
        if waits != self.waits || is_anew {
            self.waits = waits;
            let clock = &link.worker.clock;
            match waits {
                Waits::Nothing => link.timer.clear(),
                Waits::Begin => link.timer.set_yielding(clock, self.settings.begin),
                Waits::Head => link.timer.set(clock, self.settings.head),
                Waits::Idle => {
                    let Times { idle, idle_min, .. } = self.settings;
                    link.timer.set_idle(clock, idle, idle_min);
                }
                Waits::Client => link.timer.set(clock, self.settings.write),
                Waits::Last => link.timer.set(clock, DRAIN_TIMEOUT),
                Waits::End => link.timer.set(clock, LINGER),
            }
        }
        link.timer.poll_expired(cx).map(|()| self.expire())
    }

    fn is_too_slow(&mut self) -> bool {
        let now = self.connection.link.worker.clock.coarse();
        self.pace.wait(now) == Verdict::TooSlow
    }

    /// Frees the output buffer while it is empty: streams may wait long for their clients.
    fn rest_output(&self) {
        let mut server = self.mux.server.borrow_mut();
        let output = server.output();
        if output.is_empty() && output.capacity() > 0 {
            let output = std::mem::take(output);
            self.mux.link.worker.buffers.give_back(output);
        }
    }

    fn waits_for(&self) -> Waits {
        let is_quiet = self.mux.open() == 0;
        match self.stage {
            Stage::Ending | Stage::Lost => return Waits::End,
            Stage::Open | Stage::Leaving if self.is_unsent() => return Waits::Client,
            Stage::Leaving if is_quiet => return Waits::Last,
            Stage::Open | Stage::Leaving => {}
        }
        let server = self.mux.server.borrow();
        match (server.has_begun(), server.is_in_head()) {
            (false, _) => Waits::Begin,
            (true, true) => Waits::Head,
            (true, false) if is_quiet => Waits::Idle,
            (true, false) => Waits::Nothing,
        }
    }

    /// Handles the timeout of the connection's current wait.
    fn expire(&mut self) {
        match std::mem::replace(&mut self.waits, Waits::Nothing) {
            Waits::Nothing => {}
            Waits::Begin | Waits::Idle | Waits::Last | Waits::Head => {
                self.mux.server.borrow_mut().go_away(ErrorCode::NO_ERROR);
                self.end();
            }
            Waits::Client | Waits::End => self.lose(),
        }
        self.connection.link.timer.clear();
    }

    /// Starts a graceful shutdown, because the process is draining or a response has asked to close the connection: the
    /// client must not open further streams.
    fn drain(&mut self) {
        if self.stage != Stage::Open {
            return;
        }
        let is_quiet = self.mux.open() == 0 && self.waits != Waits::Head;
        let mut server = self.mux.server.borrow_mut();
        if is_quiet {
            // As on an idle HTTP/1 connection: the client retries a request that is already on its way.
            server.go_away(ErrorCode::NO_ERROR);
            drop(server);
            return self.end();
        }
        server.drain();
        self.stage = Stage::Leaving;
    }

    /// The client has sent GOAWAY.
    fn leave(&mut self) {
        if self.stage == Stage::Open {
            self.stage = Stage::Leaving;
        }
    }

    /// Ends the connection after the pending output.
    fn end(&mut self) {
        if self.stage != Stage::Lost {
            self.stage = Stage::Ending;
            self.mux.lose_all();
        }
    }

    fn lose(&mut self) {
        self.stage = Stage::Lost;
        self.mux.lose_all();
    }

    fn note_closed(&self, closed: Closed) {
        let counters = &self.connection.link.worker.counters;
        if closed.code == ErrorCode::ENHANCE_YOUR_CALM {
            counters.http2_calmed.up();
        } else if closed.reason != Reason::Preface {
            counters.http2_faults.up();
        }
    }

    /// Frees the memory that a quiet connection does not need.
    fn rest(&mut self) {
        let link = &self.connection.link;
        self.rest_output();
        self.mux.server.borrow_mut().shrink();
        link.rest();
        if let Some(spare) = self.spare.take() {
            self.connection.shared.give_back(spare);
        }
        self.works.shrink(0);
        self.mux.shrink();
    }
}
