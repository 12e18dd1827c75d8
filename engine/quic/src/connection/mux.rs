//! A connection as its streams see it: QUIC's streams, and the state of each request.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use bytes::Bytes;
use quinn_proto::{
    Connection, ConnectionEvent, FinishError, ReadError, ReadableError, StreamId, VarInt,
    WriteError,
};
use sluice_message::{Fields, Moment};
use sluice_net::Settings;
use sluice_net::multiplexed::{Gone, Moved, Over, Readiness, SLOTS, WaitsFor};
use sluice_net::retirement::{InProgress, Outliving};
use sluice_net::worker::Worker;
use sluice_wire::glitch::cost;
use sluice_wire::h3::{
    Code, Conduct, Fault, HeadReader, HeadWriter, Limits, MessageReader, Verdict, qpack,
};
use sluice_wire::sections::Priority;

use crate::endpoint::Receiving;
use crate::limits::{GLITCH_POINTS_MAX, PIECE_BYTES_MAX, SLOTS_KEPT_MAX};

/// A connection as its streams see it.
pub(crate) struct Mux {
    pub(super) worker: Rc<Worker>,
    /// QUIC. Never borrowed across an await point.
    pub(super) quic: RefCell<Connection>,
    pub(super) limits: Limits,
    pub(super) heads: RefCell<HeadReader>,
    pub(super) writer: RefCell<HeadWriter>,
    pub(super) slots: RefCell<Vec<Slot>>,
    pub(super) ready: Readiness,
    open: Cell<usize>,
    pub(super) moved: Moved,
    pub(super) requests: InProgress,
    number: Cell<u32>,
    /// Set when QUIC may have news, or something may have to be sent that no stream sends.
    has_news: Cell<bool>,
    /// Set when a stream has something to send.
    has_output: Cell<bool>,
    /// Whether the client has asked for an order of responses.
    has_order: Cell<bool>,
    conduct: RefCell<Conduct>,
    /// Whether the client should begin no further requests, for its conduct.
    is_warned: Cell<bool>,
    /// Whether the connection has to end because its requests have outlived their configuration.
    is_outlived: Cell<bool>,
}

/// A stream with its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(super) id: StreamId,
    pub(super) slot: usize,
}

/// The state of the stream in a slot.
#[derive(Default)]
pub(super) struct Slot {
    /// `None` while the slot is free.
    pub(super) id: Option<StreamId>,
    pub(super) stage: Stage,
    pub(super) reader: MessageReader,
    /// Received and not yet looked at.
    pub(super) rest: Bytes,
    /// A field section that waits for entries of the dynamic table.
    pub(super) blocked: Option<Vec<u8>>,
    pub(super) trailers: Option<Fields>,
    /// Encoded and not yet handed to QUIC, and without an end.
    pub(super) head: Vec<u8>,
    /// What QUIC did not take yet, in order.
    pub(super) unsent: Vec<Bytes>,
    pub(super) response: Response,
    pub(super) waits_for: WaitsFor,
    pub(super) bytes_read: u64,
}

/// How far the request of a stream was received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stage {
    /// Its head comes.
    #[default]
    Head,
    /// More may come.
    Open,
    /// More may come and is of no interest.
    Unwanted,
    /// It was received completely.
    Whole,
    /// The stream was reset, or its connection is gone.
    Gone(Gone),
}

/// How far the response of a stream was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Response {
    /// More comes.
    #[default]
    Open,
    /// It is complete here; QUIC has to take it, and then the end.
    Ending,
    /// QUIC has the end.
    Ended,
}

/// What came of reading from QUIC.
pub(super) enum Received {
    /// Data, in the slot's `rest`.
    Data,
    /// The end of the stream.
    End,
    /// Nothing for now.
    Nothing,
    /// The peer has reset the stream.
    Reset,
}

impl Outliving for Mux {
    fn close_if_older(&self, generation: u32) {
        if self.requests.is_older(generation) {
            self.is_outlived.set(true);
            self.note_news();
        }
    }
}

impl Receiving for Mux {
    fn receive(&self, event: ConnectionEvent) {
        let mut quic = self.quic.borrow_mut();
        let before = quic.remote_address();
        quic.handle_event(event);
        let has_moved = quic.remote_address() != before;
        drop(quic);
        if has_moved {
            // The new address was not there at the handshake: requests keep the one that was.
            self.worker.counters.quic_migrations.up();
            self.charge(cost::MIGRATION);
        }
        self.note_news();
    }
}

impl Drop for Mux {
    fn drop(&mut self) {
        self.worker.retirement.remove(self.number.get());
    }
}

impl Mux {
    pub(super) fn new(worker: Rc<Worker>, quic: Connection, settings: &Settings) -> Rc<Mux> {
        let limits = settings.h3.codec.clone();
        let decoder = qpack::Decoder::new(&limits);
        let mux = Rc::new(Mux {
            quic: RefCell::new(quic),
            heads: RefCell::new(HeadReader::new(decoder, settings.h2.heads(), true)),
            writer: RefCell::default(),
            limits,
            slots: RefCell::default(),
            ready: Readiness::default(),
            open: Cell::new(0),
            moved: Moved::default(),
            requests: InProgress::default(),
            number: Cell::new(0),
            has_news: Cell::new(true),
            has_output: Cell::new(false),
            has_order: Cell::new(false),
            conduct: RefCell::new(Conduct::new(GLITCH_POINTS_MAX)),
            is_warned: Cell::new(false),
            is_outlived: Cell::new(false),
            worker,
        });
        let weak: Weak<Mux> = Rc::downgrade(&mux);
        mux.number.set(mux.worker.retirement.add(weak));
        mux
    }

    /// The task of the connection has something to do beside its streams.
    pub(super) fn note_news(&self) {
        self.has_news.set(true);
        self.ready.rouse();
    }

    /// Whether there was news since the last call.
    pub(super) fn take_news(&self) -> bool {
        self.has_news.replace(false)
    }

    /// Whether a stream has got something to send since the last call.
    pub(super) fn take_output(&self) -> bool {
        self.has_output.replace(false)
    }

    /// Whether the client has caused so much work for nothing that it should begin no further requests.
    pub(super) fn is_warned(&self) -> bool {
        self.is_warned.get()
    }

    /// Whether requests have outlived their configuration for too long.
    pub(super) fn is_outlived(&self) -> bool {
        self.is_outlived.get()
    }

    /// The peer broke a rule that ends the connection.
    pub(super) fn fail(&self, code: Code) {
        self.judge(|conduct, _| conduct.fail(code));
    }

    /// Why the connection has to be closed; returned once.
    pub(super) fn take_fault(&self) -> Option<Code> {
        self.conduct.borrow_mut().take_fault()
    }

    /// Charges streams and frames that brought nothing forward.
    pub(super) fn charge_glitches(&self, count: u32) {
        self.judge(|conduct, now| conduct.charge_glitches(count, now));
    }

    /// Charges points of the budget for what brings no request forward.
    pub(super) fn charge(&self, points: u32) {
        self.judge(|conduct, now| conduct.charge(points, now));
    }

    fn judge(&self, judge: impl FnOnce(&mut Conduct, Moment) -> Verdict) {
        let now = self.worker.clock.coarse();
        let verdict = judge(&mut self.conduct.borrow_mut(), now);
        match verdict {
            Verdict::Tolerated => {}
            Verdict::Warned => {
                self.is_warned.set(true);
                self.note_news();
            }
            Verdict::Condemned => self.note_news(),
        }
    }

    /// Number of open streams.
    pub(super) fn open(&self) -> usize {
        self.open.get()
    }

    /// Wakes the stream in `slot`.
    pub(super) fn wake(&self, slot: usize) {
        self.ready.mark(slot);
    }

    /// Wakes all open streams.
    pub(super) fn wake_all(&self) {
        for (number, slot) in self.slots.borrow().iter().enumerate() {
            if slot.id.is_some() {
                self.wake(number);
            }
        }
    }

    /// Gives a new stream a slot; `None` if all are in use.
    pub(super) fn begin(&self, id: StreamId) -> Option<Request> {
        let mut slots = self.slots.borrow_mut();
        let free = slots.iter().position(|slot| slot.id.is_none());
        let slot = free.unwrap_or(slots.len());
        if slot >= SLOTS {
            return None;
        }
        let fresh = Slot {
            id: Some(id),
            ..Slot::default()
        };
        match slots.get_mut(slot) {
            Some(place) => *place = fresh,
            None => slots.push(fresh),
        }
        self.open.set(self.open.get() + 1);
        Some(Request { id, slot })
    }

    /// The slot of a stream.
    pub(super) fn find(&self, id: StreamId) -> Option<Request> {
        let slots = self.slots.borrow();
        let slot = slots.iter().position(|slot| slot.id == Some(id))?;
        Some(Request { id, slot })
    }

    /// The stream in a slot.
    pub(super) fn at(&self, slot: usize) -> Option<Request> {
        let id = self.slots.borrow().get(slot)?.id?;
        Some(Request { id, slot })
    }

    /// The entries that a field section waited for have arrived.
    pub(super) fn unblock(&self, stream: u64) {
        let found = VarInt::from_u64(stream).ok();
        if let Some(request) = found.and_then(|id| self.find(id.into())) {
            self.wake(request.slot);
        }
    }

    /// Looks at the slot of a stream, if it is still the one.
    pub(super) fn with<T>(&self, of: Request, look: impl FnOnce(&mut Slot) -> T) -> Option<T> {
        let mut slots = self.slots.borrow_mut();
        let slot = slots.get_mut(of.slot)?;
        (slot.id == Some(of.id)).then(|| look(slot))
    }

    /// How far the request of a stream was received.
    pub(super) fn stage(&self, of: Request) -> Option<Stage> {
        self.with(of, |slot| slot.stage)
    }

    /// The stream is gone.
    pub(super) fn lose(&self, of: Request, gone: Gone) {
        self.with(of, |slot| slot.stage = Stage::Gone(gone));
        self.wake(of.slot);
    }

    /// The connection is gone, and all streams with it.
    pub(super) fn lose_all(&self) {
        for slot in self.slots.borrow_mut().iter_mut() {
            slot.stage = Stage::Gone(Gone::Closed);
        }
        self.wake_all();
    }

    /// Reads the next piece of a stream into `slot.rest`, which is empty.
    pub(super) fn read(&self, id: StreamId, slot: &mut Slot) -> Received {
        let mut quic = self.quic.borrow_mut();
        let mut stream = quic.recv_stream(id);
        let mut chunks = match stream.read(true) {
            Ok(chunks) => chunks,
            Err(ReadableError::ClosedStream | ReadableError::IllegalOrderedRead) => {
                return Received::End;
            }
        };
        let received = match chunks.next(PIECE_BYTES_MAX) {
            Ok(Some(chunk)) => {
                slot.rest = chunk.bytes;
                Received::Data
            }
            Ok(None) => Received::End,
            Err(ReadError::Blocked) => Received::Nothing,
            Err(ReadError::Reset(_)) => Received::Reset,
        };
        if chunks.finalize().should_transmit() {
            self.has_output.set(true);
        }
        received
    }

    /// Hands what is encoded and unsent to QUIC. Returns whether QUIC took all of it.
    pub(super) fn flush(&self, id: StreamId, slot: &mut Slot) -> Result<bool, Gone> {
        slot.queue_head();
        let mut quic = self.quic.borrow_mut();
        let mut stream = quic.send_stream(id);
        while !slot.unsent.is_empty() {
            self.has_output.set(true);
            match stream.write_chunks(&mut slot.unsent) {
                Ok(written) => {
                    slot.unsent.drain(..written.chunks);
                }
                Err(WriteError::Blocked) => return Ok(false),
                Err(WriteError::Stopped(_) | WriteError::ClosedStream) => return Err(Gone::Closed),
            }
        }
        if slot.response == Response::Ending {
            self.has_output.set(true);
            match stream.finish() {
                Ok(()) => slot.response = Response::Ended,
                Err(FinishError::Stopped(_) | FinishError::ClosedStream) => {
                    return Err(Gone::Closed);
                }
            }
        }
        Ok(true)
    }

    /// Hands the rest of what the stream in slot `number` sends to QUIC, after it was polled or can send again.
    pub(super) fn flush_slot(&self, number: usize) {
        let mut slots = self.slots.borrow_mut();
        let Some(slot) = slots.get_mut(number) else {
            return;
        };
        let Some(id) = slot.id else { return };
        if slot.head.is_empty() && slot.unsent.is_empty() && slot.response != Response::Ending {
            return;
        }
        let flushed = self.flush(id, slot);
        let is_free = match flushed {
            Ok(is_free) => is_free,
            Err(gone) => {
                slot.stage = Stage::Gone(gone);
                slot.unsent = Vec::new();
                true
            }
        };
        if is_free && slot.waits_for != WaitsFor::Nothing {
            slot.waits_for = WaitsFor::Nothing;
            self.wake(number);
        }
    }

    /// QUIC can take data of a stream again.
    pub(super) fn writable(&self, id: StreamId) {
        if let Some(found) = self.find(id) {
            self.flush_slot(found.slot);
        }
    }

    /// Sets the order of a stream: by urgency, then, where responses are not to be mixed, by age (RFC 9218, section 10).
    pub(super) fn set_priority(&self, id: StreamId, priority: Priority) {
        let by_age = match priority.incremental {
            true => 0,
            false => AGES - (id.index() % AGES as u64) as i32,
        };
        let usual = Priority::default().urgency;
        let urgency = i32::from(usual) - i32::from(priority.urgency.min(7));
        let order = urgency * (AGES + 1) + by_age;
        if order == 0 && !self.has_order.get() {
            // The order that streams have by themselves.
            return;
        }
        self.has_order.set(true);
        let mut quic = self.quic.borrow_mut();
        // A stream that is over needs no order.
        let _ = quic.send_stream(id).set_priority(order);
    }

    /// Ends both directions of a stream with `code`.
    pub(super) fn reset(&self, id: StreamId, code: Code) {
        let code = number_of(code);
        let mut quic = self.quic.borrow_mut();
        // A direction that has ended stays as it is.
        let _ = quic.send_stream(id).reset(code);
        let _ = quic.recv_stream(id).stop(code);
        drop(quic);
        self.has_news.set(true);
    }

    /// Frees the slot of a stream whose response has ended.
    pub(super) fn end(&self, number: usize, over: Over) {
        self.free(
            number,
            match over {
                Over::Complete => None,
                Over::Cancelled => Some(Code::REQUEST_CANCELLED),
                Over::Failed => Some(Code::INTERNAL_ERROR),
            },
        );
    }

    /// Frees the slot of a stream, and resets the stream with `code`. Without a code its response is complete; if the client
    /// still sends, it is asked to stop.
    pub(super) fn free(&self, number: usize, code: Option<Code>) {
        let mut slots = self.slots.borrow_mut();
        let Some(slot) = slots.get_mut(number) else {
            return;
        };
        let Some(id) = slot.id else { return };
        let slot = std::mem::take(slot);
        drop(slots);
        self.open.set(self.open.get() - 1);
        if slot.blocked.is_some() {
            self.heads.borrow_mut().decoder.cancel(id.into());
        }
        match code {
            Some(code) => self.reset(id, code),
            None => {
                self.conduct.borrow_mut().refund();
                if slot.stage != Stage::Whole {
                    self.stop(id, Code::NO_ERROR);
                }
            }
        }
    }

    /// Asks the client to stop sending on a stream (RFC 9114, section 4.1).
    pub(super) fn stop(&self, id: StreamId, code: Code) {
        let mut quic = self.quic.borrow_mut();
        let _ = quic.recv_stream(id).stop(number_of(code));
        self.has_news.set(true);
    }

    /// A fault in what the client sent on a stream.
    pub(super) fn blame(&self, id: StreamId, fault: Fault) {
        match fault {
            Fault::Connection(code) => self.fail(code),
            Fault::Stream(code) => {
                self.charge(cost::REFUSED);
                self.reset(id, code);
            }
        }
    }

    /// Frees memory that a quiet connection does not need.
    pub(super) fn shrink(&self) {
        let mut slots = self.slots.borrow_mut();
        if self.open.get() == 0 && slots.len() > SLOTS_KEPT_MAX {
            *slots = Vec::new();
            *self.writer.borrow_mut() = HeadWriter::default();
        }
    }
}

/// Streams that are ordered by age where responses are not to be mixed.
const AGES: i32 = 1 << 16;

/// A code as QUIC takes it: those of HTTP/3 fit.
pub(super) fn number_of(code: Code) -> VarInt {
    VarInt::from_u64(code.0).unwrap_or_default()
}

impl Slot {
    /// Queues what is encoded, and `piece` behind it.
    pub(super) fn queue(&mut self, piece: Bytes) {
        self.queue_head();
        self.unsent.push(piece);
    }

    fn queue_head(&mut self) {
        if !self.head.is_empty() {
            let head = std::mem::take(&mut self.head);
            self.unsent.push(Bytes::from(head));
        }
    }
}
