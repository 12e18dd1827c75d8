//! State shared by the calls on a connection: QUIC, and how far the request and the response of each are. Calls take received
//! data from QUIC themselves, which returns window to the upstream. `drive` moves packets, `streams` implements the calls.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Waker};

use bytes::Bytes;
use quinn_proto::{Connection, Dir, ReadError, ReadableError, StreamId, VarInt, WriteError};
use sluice_message::{Fields, Method, Moment};
use sluice_wire::h3::{
    Code, Conduct, HeadReader, HeadWriter, Limits, MessageReader, Verdict, qpack,
};

use super::failures::Gone;
use crate::endpoint::Endpoint;
use crate::limits::{
    HTTP3_CONTROL_FRAME_BYTES_MAX, HTTP3_GLITCH_POINTS_MAX, HTTP3_PIECE_BYTES_MAX,
    HTTP3_STREAMS_MAX,
};
use crate::streams::{Membership, Shared, Sharing, Shelf};
use sluice_net::worker::Worker;

/// A connection as its calls see it.
pub struct Mux {
    pub(super) worker: Rc<Worker>,
    pub(super) membership: Membership<Mux>,
    /// QUIC. Never borrowed across an await point.
    pub(super) quic: RefCell<Connection>,
    pub(super) limits: Limits,
    pub(super) heads: RefCell<HeadReader>,
    pub(super) writer: RefCell<HeadWriter>,
    pub(super) stage: Cell<Stage>,
    slots: RefCell<Vec<Slot>>,
    /// The stream of the next request. Only opening it shows whether the upstream allows one more, and the upstream notices
    /// nothing until something is sent on it.
    pub(super) spare: Cell<Option<StreamId>>,
    /// Whether the upstream allowed no further stream when one was needed.
    is_exhausted: Cell<bool>,
    /// Datagrams sent.
    pub(super) sent: Cell<u64>,
    conduct: RefCell<Conduct>,
}

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Established for a call that has not begun.
    New,
    /// Accepts requests.
    Open,
    /// Ends with its last stream.
    Retired,
    /// Closed.
    Over,
}

/// A stream with its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub(super) id: StreamId,
    slot: usize,
}

/// The state of the stream in a slot.
#[derive(Default)]
pub(super) struct Slot {
    /// `None` while the slot is free.
    id: Option<StreamId>,
    /// The waker of its call, while that waits.
    waker: Option<Waker>,
    /// What was asked for, as far as it decides what the response may have.
    pub(super) method: Method,
    pub(super) request: Request,
    pub(super) response: Response,
    /// Why no more of the response will arrive than QUIC has already.
    pub(super) lost: Option<Gone>,
    pub(super) reader: MessageReader,
    /// Received and not yet looked at.
    pub(super) rest: Bytes,
    pub(super) interims_seen: u32,
    /// Content that has not been taken.
    pub(super) inbound: Vec<u8>,
    pub(super) trailers: Option<Fields>,
    /// What QUIC did not take yet, in order.
    pub(super) unsent: Vec<Bytes>,
    /// The count of sent datagrams when the request began.
    begins_at: u64,
}

/// How far the request on a stream has been sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Request {
    /// More comes.
    #[default]
    Open,
    /// It is complete here; QUIC has to take it, and then the end.
    Ending,
    /// QUIC has the end.
    Ended,
    /// The upstream accepts no more of it.
    Unwanted,
}

/// How far the response on a stream has been received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Response {
    /// Its head comes.
    #[default]
    Head,
    /// Its head was read.
    Body,
    /// Received completely.
    Whole,
    /// No more will come.
    Gone(Gone),
}

/// What came of reading from QUIC.
pub(super) enum Received {
    /// Data.
    Data(Bytes),
    /// The end of the stream.
    End,
    /// Nothing for now.
    Nothing,
    /// The upstream has reset the stream.
    Reset(Code),
}

impl Shared for Mux {
    fn number(&self) -> u64 {
        self.membership.number()
    }

    fn open_streams(&self) -> usize {
        self.membership.open_streams()
    }

    fn has_room(&self) -> bool {
        !self.is_retired() && self.open_streams() < HTTP3_STREAMS_MAX && self.has_spare()
    }

    /// Never: the handshake says how many streams there may be.
    fn is_beginning(&self) -> bool {
        false
    }

    fn retire(&self) {
        if !self.is_retired() {
            self.stage.set(Stage::Retired);
            self.membership.leave(self);
        }
        self.membership.wake_driver();
    }
}

impl Mux {
    pub(super) fn new(
        worker: &Rc<Worker>,
        quic: Connection,
        endpoint: &Arc<Endpoint>,
        shelf: &Rc<Shelf<Mux>>,
        sharing: Sharing,
    ) -> Mux {
        let heads = &endpoint.options().h2;
        let limits = Limits {
            block_bytes_max: usize::try_from(heads.block_bytes_max).unwrap_or(usize::MAX),
            // Heads compressed by the fixed table alone wait for no other stream.
            table_bytes_max: 0,
            blocked_streams_max: 0,
            control_frame_bytes_max: HTTP3_CONTROL_FRAME_BYTES_MAX,
        };
        let decoder = qpack::Decoder::new(&limits);
        Mux {
            worker: worker.clone(),
            membership: Membership::new(endpoint, shelf, sharing),
            quic: RefCell::new(quic),
            heads: RefCell::new(HeadReader::new(decoder, heads.heads(), false)),
            limits,
            writer: RefCell::default(),
            stage: Cell::new(Stage::New),
            slots: RefCell::default(),
            spare: Cell::default(),
            is_exhausted: Cell::new(false),
            sent: Cell::new(0),
            conduct: RefCell::new(Conduct::new(HTTP3_GLITCH_POINTS_MAX)),
        }
    }

    /// Whether it accepts no more streams.
    pub(super) fn is_retired(&self) -> bool {
        matches!(self.stage.get(), Stage::Retired | Stage::Over)
    }

    /// Whether there is a stream for one more request.
    pub(super) fn has_spare(&self) -> bool {
        if self.spare.get().is_none() {
            let opened = self.quic.borrow_mut().streams().open(Dir::Bi);
            self.spare.set(opened);
            if opened.is_none()
                && !self.is_exhausted.replace(true)
                && let Some(shelf) = self.membership.shelf()
            {
                shelf.note_streams(self.open_streams());
            }
        }
        self.spare.get().is_some()
    }

    /// The upstream allows further streams.
    pub(super) fn note_available(&self) {
        self.is_exhausted.set(false);
        if let Some(shelf) = self.membership.shelf() {
            shelf.note_room();
        }
    }

    /// The upstream broke a rule that ends the connection.
    pub(super) fn fail(&self, code: Code) {
        self.judge(|conduct, _| conduct.fail(code));
    }

    /// Why the connection has to be closed; returned once.
    pub(super) fn take_fault(&self) -> Option<Code> {
        self.conduct.borrow_mut().take_fault()
    }

    /// Charges streams and frames that brought no response forward.
    pub(super) fn charge_glitches(&self, count: u32) {
        self.judge(|conduct, now| conduct.charge_glitches(count, now));
    }

    fn judge(&self, judge: impl FnOnce(&mut Conduct, Moment) -> Verdict) {
        let now = self.worker.clock.coarse();
        let verdict = judge(&mut self.conduct.borrow_mut(), now);
        match verdict {
            Verdict::Tolerated => {}
            Verdict::Warned => self.retire(),
            Verdict::Condemned => self.membership.wake_driver(),
        }
    }

    /// A response has ended well.
    pub(super) fn refund(&self) {
        self.conduct.borrow_mut().refund();
    }

    /// Gives a stream a slot.
    pub(super) fn begin(&self, id: StreamId, method: &Method) -> Place {
        let mut slots = self.slots.borrow_mut();
        let free = slots.iter().position(|slot| slot.id.is_none());
        let slot = free.unwrap_or(slots.len());
        let fresh = Slot {
            id: Some(id),
            method: method.clone(),
            begins_at: self.sent.get(),
            ..Slot::default()
        };
        match slots.get_mut(slot) {
            Some(known) => *known = fresh,
            None => slots.push(fresh),
        }
        self.membership.begin();
        Place { id, slot }
    }

    /// Looks at the slot of a stream, if it is still the one.
    pub(super) fn with<T>(&self, of: Place, look: impl FnOnce(&mut Slot) -> T) -> Option<T> {
        let mut slots = self.slots.borrow_mut();
        let slot = slots.get_mut(of.slot)?;
        (slot.id == Some(of.id)).then(|| look(slot))
    }

    /// Whether a datagram was sent since the request of `slot` began.
    pub(super) fn has_sent_since(&self, slot: &Slot) -> bool {
        slot.begins_at < self.sent.get()
    }

    fn find(&self, id: StreamId) -> Option<Place> {
        let slots = self.slots.borrow();
        let slot = slots.iter().position(|slot| slot.id == Some(id))?;
        Some(Place { id, slot })
    }

    /// Something has arrived on a stream.
    pub(super) fn readable(&self, id: StreamId) {
        if let Some(place) = self.find(id) {
            self.wake(place);
        }
    }

    /// QUIC can take data of a stream again.
    pub(super) fn writable(&self, id: StreamId) {
        if let Some(place) = self.find(id) {
            self.with(place, |slot| self.flush(id, slot));
            self.wake(place);
        }
    }

    /// The upstream wants no more of a request. Its response may come all the same.
    pub(super) fn stopped(&self, id: StreamId, code: VarInt) {
        let Some(place) = self.find(id) else { return };
        self.with(place, |slot| {
            slot.request = Request::Unwanted;
            slot.unsent = Vec::new();
        });
        // RFC 9000, section 3.5: the reset has the same code.
        let _ = self.quic.borrow_mut().send_stream(id).reset(code);
        self.wake(place);
    }

    /// The upstream does not process requests from stream `from` on (RFC 9114, section 5.2).
    pub(super) fn go_away(&self, from: u64) {
        self.retire();
        self.lose(Gone::Refused, |id| u64::from(id) >= from);
    }

    /// The connection is gone, and all streams with it. Calls may still read what QUIC has of their responses.
    pub(super) fn lose_all(&self, gone: Gone) {
        if !matches!(
            self.stage.replace(Stage::Over),
            Stage::Retired | Stage::Over
        ) {
            self.membership.leave(self);
        }
        self.lose(gone, |_| true);
    }

    fn lose(&self, gone: Gone, is_lost: impl Fn(StreamId) -> bool) {
        let mut wakers = Vec::new();
        for slot in self.slots.borrow_mut().iter_mut() {
            if slot.id.is_some_and(&is_lost) {
                // The first reason says more.
                slot.lost.get_or_insert(gone);
                wakers.extend(slot.waker.take());
            }
        }
        wakers.into_iter().for_each(Waker::wake);
    }

    fn wake(&self, place: Place) {
        if let Some(waker) = self.with(place, |slot| slot.waker.take()).flatten() {
            waker.wake();
        }
    }

    /// Reads the next piece of a stream.
    pub(super) fn read(&self, id: StreamId) -> Received {
        let mut quic = self.quic.borrow_mut();
        let mut stream = quic.recv_stream(id);
        let mut chunks = match stream.read(true) {
            Ok(chunks) => chunks,
            Err(ReadableError::ClosedStream | ReadableError::IllegalOrderedRead) => {
                return Received::End;
            }
        };
        let received = match chunks.next(HTTP3_PIECE_BYTES_MAX) {
            Ok(Some(chunk)) => Received::Data(chunk.bytes),
            Ok(None) => Received::End,
            Err(ReadError::Blocked) => Received::Nothing,
            Err(ReadError::Reset(code)) => Received::Reset(Code(code.into_inner())),
        };
        if chunks.finalize().should_transmit() {
            drop(quic);
            self.membership.wake_driver();
        }
        received
    }

    /// Hands what is unsent to QUIC, and the end behind it.
    pub(super) fn flush(&self, id: StreamId, slot: &mut Slot) {
        let mut quic = self.quic.borrow_mut();
        let mut stream = quic.send_stream(id);
        while !slot.unsent.is_empty() {
            match stream.write_chunks(&mut slot.unsent) {
                Ok(written) => {
                    slot.unsent.drain(..written.chunks);
                }
                Err(WriteError::Blocked) => return,
                Err(WriteError::Stopped(_) | WriteError::ClosedStream) => {
                    slot.request = Request::Unwanted;
                    slot.unsent = Vec::new();
                }
            }
        }
        if slot.request == Request::Ending {
            slot.request = match stream.finish() {
                Ok(()) => Request::Ended,
                // It was stopped.
                Err(_) => Request::Unwanted,
            };
        }
    }

    /// Ends both directions of a stream.
    pub(super) fn reset(&self, id: StreamId, code: Code) {
        let code = VarInt::from_u64(code.0).unwrap_or_default();
        let mut quic = self.quic.borrow_mut();
        // A direction that has ended stays as it is.
        let _ = quic.send_stream(id).reset(code);
        let _ = quic.recv_stream(id).stop(code);
        drop(quic);
        self.membership.wake_driver();
    }

    /// Sends STOP_SENDING on a stream that means nothing to us.
    pub(super) fn stop(&self, id: StreamId) {
        let code = VarInt::from_u64(Code::STREAM_CREATION_ERROR.0).unwrap_or_default();
        let _ = self.quic.borrow_mut().recv_stream(id).stop(code);
    }

    /// Frees memory that a quiet connection does not need.
    pub(super) fn shrink(&self) {
        *self.slots.borrow_mut() = Vec::new();
        *self.writer.borrow_mut() = HeadWriter::default();
    }
}

impl Slot {
    /// Registers the task of `cx` to be woken.
    pub(super) fn listen(&mut self, cx: &Context<'_>) {
        match &self.waker {
            Some(waker) if waker.will_wake(cx.waker()) => {}
            Some(_) | None => self.waker = Some(cx.waker().clone()),
        }
    }
}
