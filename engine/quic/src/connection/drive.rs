//! Drives one connection: a single task takes what QUIC tells, polls the requests that were woken, and sends packets.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use quinn_proto::{ConnectionHandle, Dir, Event, StreamEvent, StreamId, Transmit};
use sluice_message::{ConnInfo, Early, TlsInfo, Version};
use sluice_net::multiplexed::host::Open;
use sluice_net::multiplexed::{
    Gone, HeadRead, Home, Over, Ready, SLOTS, Start, Woken, Works, prepare,
};
use sluice_net::{Count, Exchange, Service, Settings, Timer};
use sluice_wire::glitch::cost;
use sluice_wire::h3::Code;
use sluice_wire::sections::End;
use tokio::time::Sleep;

use super::control::{Control, Said};
use super::heads::Headed;
use super::mux::{Mux, Request, Stage, number_of};
use crate::endpoint::{Endpoint, Receiving};
use crate::limits::{
    LEAVE_TIMEOUT, PING_INTERVAL, RESTS_PER_COUNT, SENT_PER_TURN_MAX, SLOTS_KEPT_MAX, STEPS_MAX,
    TURNS_MAX, UNACKNOWLEDGED_BYTES_MIN, UNACKNOWLEDGED_WINDOWS,
};
use crate::socket::is_full;

/// The driver of one connection. `F` is the future of a request, `M` creates it.
pub(super) struct Drive<'e, S: Service, F, M> {
    endpoint: &'e Endpoint<S>,
    handle: ConnectionHandle,
    home: Rc<Home<S, Mux>>,
    mux: Rc<Mux>,
    make: M,
    works: Works<F>,
    control: Control,
    /// Facts of the connection, complete once the handshake has said enough.
    info: Rc<ConnInfo>,
    /// Cleared at the end of the handshake, where requests came before it.
    early: Option<Early>,
    /// The exchange that receives the next request head.
    spare: Option<Box<Exchange<S::Context>>>,
    turn: usize,
    phase: Phase,
    waits: Waits,
    /// Whether a request has begun since the timer was looked at.
    has_begun: bool,
    /// Whether memory that is not needed was given back after the last request.
    is_rested: bool,
    timer: Timer,
    /// Expires when the process shuts down.
    leave: Timer,
    /// Keeps a connection alive whose requests are silent for long.
    ping: Timer,
    /// QUIC's timer, made when it is first needed.
    sleep: Option<Pin<Box<Sleep>>>,
    /// When packets were last sent, until the time is looked at.
    sent_at: Option<Instant>,
    /// Packets that the kernel had no room for.
    unsent: Option<(Transmit, Vec<u8>)>,
    /// The first stream that was not accepted.
    next_stream: u64,
    times: Times,
    /// How many bytes of responses may be in QUIC without being acknowledged, now and at most.
    unacknowledged: u64,
    unacknowledged_max: u64,
    counted: Counted,
    /// How often the connection was quiet.
    rests: u32,
    open: Option<Open>,
}

/// What was added to the counters of the worker.
#[derive(Default)]
struct Counted {
    lost: u64,
    sent: u64,
    received: u64,
}

/// The state of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The handshake goes on.
    Handshake,
    /// Open for requests.
    Open,
    /// Ends with its last request.
    Leaving,
    /// Closed by us or lost: QUIC responds to late packets for some time.
    Closed,
}

/// What the connection's timer runs for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    Nothing,
    Handshake,
    Idle,
    Last,
}

/// Timeouts, from the configuration with which the connection began.
struct Times {
    handshake: Duration,
    idle: Duration,
    idle_min: Duration,
}

impl From<&Settings> for Times {
    fn from(settings: &Settings) -> Times {
        Times {
            handshake: settings.handshake_timeout,
            idle: settings.client.keep_alive_timeout,
            idle_min: settings.client.keep_alive_min,
        }
    }
}

impl<'e, S, F, M> Drive<'e, S, F, M>
where
    S: Service,
    F: Future<Output = Over> + 'static,
    M: Fn(Start<S, Mux>) -> F,
{
    pub(super) fn new(
        endpoint: &'e Endpoint<S>,
        handle: ConnectionHandle,
        (home, make): (Rc<Home<S, Mux>>, M),
        (info, open): (ConnInfo, Open),
        settings: &Settings,
    ) -> Self {
        let mux = home.carrier.clone();
        let worker = endpoint.host.worker();
        let leave = worker.timers.timer();
        leave.set_for_drain();
        let unacknowledged_max = u64::from(settings.h3.unacknowledged_bytes_max);
        Drive {
            endpoint,
            handle,
            mux,
            home,
            make,
            works: Works::new(worker),
            control: Control::default(),
            info: Rc::new(info),
            early: None,
            spare: None,
            turn: 0,
            phase: Phase::Handshake,
            waits: Waits::Nothing,
            has_begun: false,
            is_rested: false,
            timer: worker.timers.timer(),
            leave,
            ping: worker.timers.timer(),
            sleep: None,
            sent_at: None,
            unsent: None,
            next_stream: 0,
            times: Times::from(settings),
            unacknowledged: UNACKNOWLEDGED_BYTES_MIN,
            unacknowledged_max: unacknowledged_max.max(UNACKNOWLEDGED_BYTES_MIN),
            counted: Counted::default(),
            rests: 0,
            open: Some(open),
        }
    }

    /// Makes progress until nothing is left to do for now, or the connection is over.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let (ready, is_new) = self.mux.ready.for_task(cx);
        ready.rise();
        if is_new {
            self.works.forget_wakers();
            self.mux.wake_all();
        }
        let mut steps = 0;
        for _ in 0..TURNS_MAX {
            let has_news = self.mux.take_news();
            if has_news {
                self.heed();
                self.widen();
            }
            let stepped = self.run(&ready);
            self.control.flush(&self.mux);
            self.obey();
            let has_output = self.mux.take_output();
            let must_send = has_news || stepped > 0 || has_output || self.unsent.is_some();
            let has_sent = must_send && self.send(cx);
            if has_news || stepped > 0 {
                self.inform();
            }
            if self.mux.quic.borrow().is_drained() && self.mux.open() == 0 {
                self.inform();
                return Poll::Ready(());
            }
            steps += stepped;
            if steps >= STEPS_MAX {
                break;
            }
            let has_moved = has_news || stepped > 0 || has_sent;
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

    /// Takes the events of QUIC.
    fn heed(&mut self) {
        loop {
            let event = self.mux.quic.borrow_mut().poll();
            let Some(event) = event else { break };
            match event {
                Event::HandshakeDataReady => self.note_handshake(),
                Event::Connected => self.connect(),
                Event::ConnectionLost { .. } => self.lose(),
                Event::Stream(event) => self.heed_stream(event),
                Event::DatagramReceived | Event::DatagramsUnblocked => {}
            }
        }
        self.accept();
    }

    /// The configuration is chosen, and requests may follow at once.
    fn note_handshake(&mut self) {
        self.control.open(&self.mux);
        let early = Early::begun();
        self.learn(Some(early.clone()));
        self.early = Some(early);
    }

    /// The handshake has ended.
    fn connect(&mut self) {
        if let Some(early) = self.early.take() {
            early.end();
        }
        // Client certificates are known now. Requests that came before share what was known then.
        self.learn(None);
        if self.phase == Phase::Handshake {
            self.phase = Phase::Open;
        }
        self.control.open(&self.mux);
        if self.next_stream > 0 {
            self.endpoint.host.worker().counters.quic_early.up();
        }
    }

    fn learn(&mut self, early: Option<Early>) {
        let data = self.mux.quic.borrow().crypto_session().handshake_data();
        let tls = data.and_then(|data| data.downcast::<TlsInfo>().ok());
        if let Some(mut tls) = tls {
            tls.early = early;
            Rc::make_mut(&mut self.info).tls = Some(tls);
        }
    }

    fn heed_stream(&mut self, event: StreamEvent) {
        match event {
            StreamEvent::Opened { .. } | StreamEvent::Finished { .. } => {}
            StreamEvent::Available { dir } => {
                if dir == Dir::Uni {
                    self.control.open(&self.mux);
                }
            }
            StreamEvent::Readable { id } if id.dir() == Dir::Uni => self.read_control(id),
            StreamEvent::Readable { id } => self.read_request(id),
            StreamEvent::Writable { id } => self.mux.writable(id),
            StreamEvent::Stopped { id, .. } => match self.mux.find(id) {
                Some(request) => {
                    self.mux.charge(cost::RESET);
                    self.mux.lose(request, Gone::Closed);
                }
                None if id.dir() == Dir::Uni => self.mux.fail(Code::CLOSED_CRITICAL_STREAM),
                None => {}
            },
        }
    }

    fn read_control(&mut self, id: StreamId) {
        match self.control.read(&self.mux, id) {
            Ok(Said::Nothing) => {}
            Ok(Said::GoAway) if self.phase == Phase::Open => self.phase = Phase::Leaving,
            Ok(Said::GoAway) => {}
            Err(code) => self.mux.fail(code),
        }
    }

    /// Accepts the streams that the client has opened.
    fn accept(&mut self) {
        loop {
            let id = self.mux.quic.borrow_mut().streams().accept(Dir::Uni);
            let Some(id) = id else { break };
            self.control.accept(id);
            self.read_control(id);
        }
        loop {
            let id = self.mux.quic.borrow_mut().streams().accept(Dir::Bi);
            let Some(id) = id else { break };
            let is_open = matches!(self.phase, Phase::Open | Phase::Handshake);
            let request = match is_open {
                true => self.mux.begin(id),
                false => None,
            };
            let Some(request) = request else {
                // As over HTTP/2, requests that were on their way cost little.
                self.mux.charge(cost::LATE);
                // RFC 9114, section 5.2: the client may send it again elsewhere.
                self.mux.reset(id, Code::REQUEST_REJECTED);
                continue;
            };
            self.next_stream = u64::from(id) + 4;
            self.begin(request);
        }
    }

    /// Data of a request has arrived.
    fn read_request(&mut self, id: StreamId) {
        let Some(request) = self.mux.find(id) else {
            return;
        };
        match self.mux.stage(request) {
            Some(Stage::Head) => self.begin(request),
            Some(Stage::Open | Stage::Whole | Stage::Gone(_)) => self.mux.wake(request.slot),
            Some(Stage::Unwanted) | None => {}
        }
    }

    /// Reads the head of a request, and starts the request if it is complete.
    fn begin(&mut self, request: Request) {
        let (host, info) = (&self.endpoint.host, &self.info);
        let spare = self.spare.take();
        let mut exchange = spare.unwrap_or_else(|| host.take_exchange(info));
        if !Rc::ptr_eq(&exchange.conn, info) {
            exchange.conn = info.clone();
        }
        match self.mux.read_head(request, &mut exchange.req) {
            Headed::Later => self.spare = Some(exchange),
            Headed::Over => {
                self.spare = Some(exchange);
                self.mux.end(request.slot, Over::Cancelled);
            }
            Headed::Read(facts, end) => {
                self.mux.set_priority(request.id, facts.priority);
                self.start(exchange, (request, Ok(&facts), end));
            }
            Headed::Refused(fault, end) => {
                self.mux.charge(cost::REFUSED);
                if fault.status().is_some() {
                    self.start(exchange, (request, Err(fault), end));
                } else {
                    self.spare = Some(exchange);
                    self.mux.free(request.slot, Some(Code::MESSAGE_ERROR));
                }
            }
        }
    }

    fn start(
        &mut self,
        exchange: Box<Exchange<S::Context>>,
        of_stream: (Request, HeadRead<'_>, End),
    ) {
        let slot = of_stream.0.slot;
        (self.has_begun, self.is_rested) = (true, false);
        let binding = self.endpoint.host.binding();
        let (start, is_last) = prepare(&self.mux, binding, exchange, of_stream, Version::Http3);
        self.works.put(slot, (self.make)(start));
        self.mux.wake(slot);
        if is_last {
            self.drain();
        }
    }

    /// Polls the requests that were woken. Returns how many.
    fn run(&mut self, ready: &Arc<Ready>) -> usize {
        let mut woken: Woken = ready.take();
        let mut count = 0;
        while let Some(slot) = woken.take_from(self.turn) {
            if count == 0 {
                self.turn = (slot + 1) % SLOTS;
            }
            self.step(slot, ready);
            count += 1;
        }
        count
    }

    fn step(&mut self, slot: usize, ready: &Arc<Ready>) {
        if !self.works.has(slot) {
            return self.step_head(slot);
        }
        let Poll::Ready(over) = self.works.poll(slot, ready) else {
            return self.mux.flush_slot(slot);
        };
        self.mux.end(slot, over);
        if self.home.is_closing.get() {
            self.drain();
        }
    }

    /// A head that waited for entries of the dynamic table, or a stream that is gone before its head.
    fn step_head(&mut self, slot: usize) {
        let Some(request) = self.mux.at(slot) else {
            return;
        };
        match self.mux.stage(request) {
            Some(Stage::Head) => self.begin(request),
            Some(Stage::Gone(_)) => self.mux.end(slot, Over::Cancelled),
            Some(Stage::Open | Stage::Unwanted | Stage::Whole) | None => {}
        }
    }

    /// Closes or drains the connection if a fault, the age of its requests or its budget demands it.
    fn obey(&mut self) {
        if self.phase == Phase::Closed {
            return;
        }
        if let Some(code) = self.mux.take_fault() {
            let counters = &self.endpoint.host.worker().counters;
            match code {
                Code::EXCESSIVE_LOAD => counters.http3_calmed.up(),
                _ => counters.http3_faults.up(),
            }
            return self.close(code);
        }
        if self.mux.is_outlived() {
            return self.close(Code::NO_ERROR);
        }
        if self.mux.is_warned() {
            self.drain();
        }
    }

    /// Lets responses give more to QUIC as the client takes more, and less after losses.
    fn widen(&mut self) {
        let mut quic = self.mux.quic.borrow_mut();
        let taken = quic.congestion_state().window();
        let wanted = taken
            .saturating_mul(UNACKNOWLEDGED_WINDOWS)
            .clamp(UNACKNOWLEDGED_BYTES_MIN, self.unacknowledged_max);
        // Small changes are not worth a call.
        if wanted.abs_diff(self.unacknowledged) > self.unacknowledged / 8 {
            self.unacknowledged = wanted;
            quic.set_send_window(wanted);
        }
    }

    /// Sends packets as long as there are any, up to a limit. Returns whether some were sent.
    fn send(&mut self, cx: &mut Context<'_>) -> bool {
        let socket = &self.endpoint.socket;
        let waiting = (self.handle.0, cx.waker());
        if let Some((transmit, bytes)) = &self.unsent {
            if socket
                .post(transmit, bytes, waiting)
                .is_err_and(|error| is_full(&error))
            {
                return false;
            }
            self.unsent = None;
        }
        let now = Instant::now();
        self.sent_at = Some(now);
        let segments_max = socket.segments_max();
        let mut sent = 0;
        let mut out = self.endpoint.out.borrow_mut();
        while sent < SENT_PER_TURN_MAX {
            out.clear();
            let mut quic = self.mux.quic.borrow_mut();
            let Some(transmit) = quic.poll_transmit(now, segments_max, &mut out) else {
                return sent > 0;
            };
            drop(quic);
            sent += transmit.size;
            // Any other error is like a lost packet.
            if socket
                .post(&transmit, &out, waiting)
                .is_err_and(|error| is_full(&error))
            {
                self.unsent = Some((transmit, std::mem::take(&mut *out)));
                return true;
            }
        }
        drop(out);
        self.mux.note_news();
        true
    }

    /// Gives the endpoint the events of the connection, and takes its replies.
    fn inform(&mut self) {
        loop {
            let event = self.mux.quic.borrow_mut().poll_endpoint_events();
            let Some(event) = event else { return };
            if let Some(reply) = self.endpoint.notify(self.handle, event) {
                self.mux.receive(reply);
            }
        }
    }

    /// Polls the timers when nothing else is left to do. Ready when one has changed the state.
    fn poll_time(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.poll_quic_timer(cx).is_ready() {
            return Poll::Ready(());
        }
        let is_retired = self.endpoint.host.is_retired();
        if self.phase == Phase::Open && (self.leave.poll_expired(cx).is_ready() || is_retired) {
            self.drain();
            return Poll::Ready(());
        }
        if self.poll_ping(cx).is_ready() {
            return Poll::Ready(());
        }
        let waits = self.waits_for();
        let has_begun = std::mem::take(&mut self.has_begun);
        // Not after each of many requests: an acknowledgement follows the last.
        if waits == Waits::Idle && !has_begun && !self.is_rested {
            self.rest();
            self.is_rested = true;
        }
        // A request may have been served since, as soon as it was read.
        if waits != self.waits || (waits == Waits::Idle && has_begun) {
            self.waits = waits;
            if waits == Waits::Idle {
                self.count_now_and_then();
            }
            let clock = &self.endpoint.host.worker().clock;
            let Times { idle, idle_min, .. } = self.times;
            match waits {
                Waits::Nothing => self.timer.clear(),
                Waits::Handshake => self.timer.set_yielding(clock, self.times.handshake),
                Waits::Idle => self.timer.set_idle(clock, idle, idle_min),
                Waits::Last => self.timer.set(clock, LEAVE_TIMEOUT),
            }
        }
        self.timer.poll_expired(cx).map(|()| self.expire())
    }

    fn waits_for(&self) -> Waits {
        match self.phase {
            Phase::Handshake => Waits::Handshake,
            Phase::Open if self.mux.open() == 0 => Waits::Idle,
            Phase::Leaving if self.mux.open() == 0 => Waits::Last,
            Phase::Open | Phase::Leaving | Phase::Closed => Waits::Nothing,
        }
    }

    fn expire(&mut self) {
        self.waits = Waits::Nothing;
        self.timer.clear();
        match self.phase {
            Phase::Closed => {}
            Phase::Handshake => {
                self.endpoint.host.worker().counters.handshakes_failed.up();
                self.close(Code::NO_ERROR);
            }
            Phase::Open | Phase::Leaving => self.close(Code::NO_ERROR),
        }
    }

    /// While requests are silent, packets of ours keep the client's idle timeout, and the one of the network, at bay.
    fn poll_ping(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.mux.open() == 0 || self.phase == Phase::Closed {
            self.ping.clear();
            return Poll::Pending;
        }
        if !self.ping.is_set() {
            let clock = &self.endpoint.host.worker().clock;
            let pause = match self.times.idle.is_zero() {
                true => PING_INTERVAL,
                false => self.times.idle / 2,
            };
            self.ping.set(clock, pause);
        }
        self.ping.poll_expired(cx).map(|()| {
            self.ping.clear();
            self.mux.quic.borrow_mut().ping();
            self.mux.note_news();
        })
    }

    fn poll_quic_timer(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let due = self.mux.quic.borrow_mut().poll_timeout();
        let Some(due) = due else {
            return Poll::Pending;
        };
        // Just before, if packets were sent: reading the clock twice for each of them is not worth it.
        let now = self.sent_at.take().unwrap_or_else(Instant::now);
        if due <= now {
            self.mux.quic.borrow_mut().handle_timeout(now);
            self.mux.note_news();
            return Poll::Ready(());
        }
        let due = tokio::time::Instant::from_std(due);
        let sleep = self
            .sleep
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due)));
        // A timer that fires too early only looks again. Most are put off again and again.
        if sleep.deadline() > due || sleep.is_elapsed() {
            sleep.as_mut().reset(due);
        }
        if sleep.as_mut().poll(cx).is_ready() {
            self.mux.note_news();
            return Poll::Ready(());
        }
        Poll::Pending
    }

    /// Starts to end gracefully: the client must not begin further requests.
    fn drain(&mut self) {
        if self.phase != Phase::Open {
            return;
        }
        self.phase = Phase::Leaving;
        self.control.go_away(&self.mux, self.next_stream);
        self.mux.note_news();
    }

    fn close(&mut self, code: Code) {
        let (now, code) = (Instant::now(), number_of(code));
        self.mux.quic.borrow_mut().close(now, code, Bytes::new());
        self.end();
    }

    /// QUIC has closed the connection, or the client has.
    fn lose(&mut self) {
        let counters = &self.endpoint.host.worker().counters;
        if self.phase == Phase::Handshake {
            counters.handshakes_failed.up();
        }
        self.end();
    }

    fn end(&mut self) {
        self.phase = Phase::Closed;
        self.mux.lose_all();
        self.mux.note_news();
        // What is left costs no more than the connection's state.
        self.open = None;
        self.count();
        self.rest();
    }

    /// Adds what was sent, received and lost since the last time to the counters of the worker.
    fn count(&mut self) {
        let stats = self.mux.quic.borrow().stats();
        let counters = &self.endpoint.host.worker().counters;
        let add = |count: &Count, now: u64, before: &mut u64| {
            count.add(now.saturating_sub(*before));
            *before = now;
        };
        let Counted {
            lost,
            sent,
            received,
        } = &mut self.counted;
        add(&counters.quic_lost_packets, stats.path.lost_packets, lost);
        add(&counters.quic_sent_bytes, stats.udp_tx.bytes, sent);
        add(&counters.quic_received_bytes, stats.udp_rx.bytes, received);
    }

    /// Counts after a number of requests: copying the statistics is not worth it for each.
    fn count_now_and_then(&mut self) {
        self.rests = self.rests.wrapping_add(1);
        if self.rests.is_multiple_of(RESTS_PER_COUNT) {
            self.count();
        }
    }

    /// Frees the memory that a quiet connection does not need.
    fn rest(&mut self) {
        if let Some(spare) = self.spare.take() {
            self.endpoint.host.give_back(spare);
        }
        if self.mux.open() == 0 {
            self.works.shrink(SLOTS_KEPT_MAX);
        }
        self.mux.shrink();
    }
}
