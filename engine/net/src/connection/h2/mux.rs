//! State shared by the streams of a connection: the codec, and the data received for each stream. `drive` moves bytes
//! between the codec and the socket.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use sluice_message::{Fields, Moment};
use sluice_wire::h2::{End, ErrorCode, Limits, Server, StreamId};

use crate::connection::Link;
use crate::limits::{DRAIN_BYTES_MAX, READ_BUFFER_BYTES, WINDOW_LEFT_MIN};
use crate::multiplexed::{Gone, Moved, Over, Readiness, Taken, WaitsFor, Woken};

/// With less room than this in the output, a stream waits instead of sending a tiny DATA frame.
const FRAME_BYTES_MIN: usize = 256;

/// A connection as its streams see it.
pub(super) struct Mux {
    pub(super) link: Rc<Link>,
    /// The codec. Never borrowed across an await point.
    pub(super) server: RefCell<Server>,
    output_bytes_max: usize,
    pub(super) ready: Readiness,
    /// The stream in each slot; unused slots are empty.
    slots: RefCell<Vec<Slot>>,
    /// Number of open streams.
    open: Cell<usize>,
    pub(super) moved: Moved,
    /// When the connection's receive window was last almost used up by unread data.
    withheld_at: Cell<Moment>,
}

/// The state of the stream in a slot.
#[derive(Default)]
struct Slot {
    /// The stream ID; `None` while the slot is free.
    id: Option<StreamId>,
    request: Request,
    /// Received data that has not been taken, in order; no piece is empty.
    inbound: Vec<Vec<u8>>,
    trailers: Option<Fields>,
    waits_for: WaitsFor,
    /// Bytes of data that were taken.
    bytes_read: u64,
    /// Bytes of data that were discarded.
    bytes_discarded: u64,
}

/// How far the request of a stream has been received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Request {
    /// More may come.
    #[default]
    Open,
    /// Like `Open`, but further data is discarded.
    Unwanted,
    /// Received completely.
    Whole,
    /// The stream was reset, or its connection is gone.
    Gone(Gone),
}

impl Mux {
    pub(super) fn new(link: Rc<Link>, limits: &Limits) -> Mux {
        let server = Server::new(limits, true);
        Mux {
            output_bytes_max: limits.output_bytes_max,
            link,
            server: RefCell::new(server),
            ready: Readiness::default(),
            slots: RefCell::new(Vec::new()),
            open: Cell::new(0),
            moved: Moved::default(),
            withheld_at: Cell::new(Moment::START),
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
        for (slot, known) in self.slots.borrow().iter().enumerate() {
            if known.id.is_some() {
                self.wake(slot);
            }
        }
    }

    /// Registers a new stream.
    pub(super) fn begin(&self, id: StreamId, end: End) {
        let mut slots = self.slots.borrow_mut();
        while slots.len() <= id.slot() {
            slots.push(Slot::default());
        }
        let request = match end {
            End::Here => Request::Whole,
            End::Later => Request::Open,
        };
        slots[id.slot()] = Slot {
            id: Some(id),
            request,
            ..Slot::default()
        };
        self.open.set(self.open.get() + 1);
    }

    /// Content of a request has arrived.
    pub(super) fn arrived(&self, id: StreamId, data: &[u8], end: End) {
        let received = &self.moved.received;
        received.set(received.get() + data.len() as u64);
        self.note_window();
        self.with(id, |slot| {
            if slot.request == Request::Unwanted {
                self.discard(slot, id, data.len());
            } else if !data.is_empty() {
                self.append(&mut slot.inbound, data);
            }
            if end.is_here() {
                slot.request = Request::Whole;
            }
        });
        self.wake(id.slot());
    }

    fn note_window(&self) {
        if self.server.borrow().window_left() < WINDOW_LEFT_MIN {
            self.withheld_at.set(self.link.worker.clock.coarse());
        }
    }

    /// Whether the client was almost out of window at some time since `since` because streams were not read.
    pub(super) fn was_withheld(&self, since: Moment) -> bool {
        self.note_window();
        self.withheld_at.get() >= since
    }

    /// Appends data. A small piece gets a small buffer, as a full buffer for each byte would use many times the
    /// windows; more data goes to a sequence of the worker's buffers, so that none has to grow.
    fn append(&self, inbound: &mut Vec<Vec<u8>>, mut data: &[u8]) {
        while !data.is_empty() {
            match inbound.last_mut() {
                Some(last) if last.len() < READ_BUFFER_BYTES => {
                    let more = data.len().min(READ_BUFFER_BYTES - last.len());
                    last.reserve(more);
                    last.extend_from_slice(&data[..more]);
                    data = &data[more..];
                }
                None if data.len() <= READ_BUFFER_BYTES / 2 => {
                    inbound.push(data.to_vec());
                    return;
                }
                Some(_) | None => inbound.push(self.link.worker.buffers.small()),
            }
        }
    }

    /// The trailers of a request have arrived, and with them its end.
    pub(super) fn ended(&self, id: StreamId, trailers: Fields) {
        self.with(id, |slot| {
            slot.trailers = Some(trailers);
            slot.request = Request::Whole;
        });
        self.wake(id.slot());
    }

    /// The stream is gone.
    pub(super) fn lose(&self, id: StreamId, gone: Gone) {
        self.with(id, |slot| slot.request = Request::Gone(gone));
        self.wake(id.slot());
    }

    /// The connection is gone, and all streams with it.
    pub(super) fn lose_all(&self) {
        for slot in self.slots.borrow_mut().iter_mut() {
            slot.request = Request::Gone(Gone::Closed);
        }
        self.wake_all();
    }

    /// Why the stream is gone, if it is.
    pub(super) fn gone(&self, id: StreamId) -> Option<Gone> {
        let found = self.with(id, |slot| slot.request);
        match found {
            Some(Request::Gone(gone)) => Some(gone),
            Some(Request::Open | Request::Unwanted | Request::Whole) => None,
            None => Some(Gone::Closed),
        }
    }

    /// Moves received data to `buf`, which is empty.
    pub(super) fn take(&self, id: StreamId, buf: &mut Vec<u8>) -> Taken {
        let found = self.with(id, |slot| match slot.request {
            Request::Gone(gone) => Taken::Gone(gone),
            _ if !slot.inbound.is_empty() => {
                self.give_back(std::mem::replace(buf, slot.inbound.remove(0)));
                Taken::Content
            }
            Request::Whole => Taken::End(slot.trailers.take()),
            Request::Open | Request::Unwanted => Taken::Nothing,
        });
        found.unwrap_or(Taken::Gone(Gone::Closed))
    }

    /// The reader has consumed `count` bytes: returns window to the client.
    pub(super) fn consumed(&self, id: StreamId, count: usize) {
        self.with(id, |slot| slot.bytes_read += count as u64);
        self.server.borrow_mut().consumed(id, count);
    }

    /// The reader drops the body. `left` is how much it had taken and not consumed.
    pub(super) fn give_up(&self, id: StreamId, left: usize) {
        self.with(id, |slot| {
            if slot.request == Request::Open {
                slot.request = Request::Unwanted;
            }
            let unread = std::mem::take(&mut slot.inbound).into_iter();
            let unread: usize = unread.map(|piece| self.give_back(piece)).sum();
            self.discard(slot, id, unread + left);
        });
    }

    /// Discards data. Returns window to the client up to a limit; beyond that, the client waits until the response has
    /// ended and the stream is reset.
    fn discard(&self, slot: &mut Slot, id: StreamId, count: usize) {
        slot.bytes_discarded += count as u64;
        if count > 0 && slot.bytes_discarded <= DRAIN_BYTES_MAX {
            self.server.borrow_mut().consumed(id, count);
        }
    }

    fn give_back(&self, buf: Vec<u8>) -> usize {
        let len = buf.len();
        self.link.worker.buffers.give_back(buf);
        len
    }

    /// Bytes of the request body that were taken.
    pub(super) fn bytes_read(&self, id: StreamId) -> u64 {
        self.with(id, |slot| slot.bytes_read).unwrap_or_default()
    }

    /// Registers a stream that can send nothing now, to be woken when that may have changed. Returns what it waits for.
    pub(super) fn await_room(&self, id: StreamId) -> WaitsFor {
        let what = match self.has_room() {
            true => WaitsFor::Window,
            false => WaitsFor::Room,
        };
        self.with(id, |slot| slot.waits_for = what);
        what
    }

    /// Whether the output has room for a DATA frame of reasonable size.
    pub(super) fn has_room(&self) -> bool {
        let mut server = self.server.borrow_mut();
        let room = self.output_bytes_max.saturating_sub(server.output().len());
        room > FRAME_BYTES_MIN
    }

    /// The slot of the woken stream with the highest priority; `None` if the client has sent no priorities or none of
    /// the streams is open.
    pub(super) fn most_wanted(&self, woken: Woken) -> Option<usize> {
        let server = self.server.borrow();
        if !server.has_priorities() {
            return None;
        }
        let slots = self.slots.borrow();
        let ids = woken.slots().filter_map(|slot| slots.get(slot)?.id);
        server.next_to_send(ids).map(StreamId::slot)
    }

    /// Wakes the streams that wait for `what`, or only the one given.
    pub(super) fn wake_waiting(&self, what: WaitsFor, only: Option<StreamId>) {
        for (number, slot) in self.slots.borrow_mut().iter_mut().enumerate() {
            let is_meant = slot.waits_for == what && (only.is_none() || slot.id == only);
            if is_meant {
                slot.waits_for = WaitsFor::Nothing;
                self.wake(number);
            }
        }
    }

    /// Ends a stream. If the client is still sending its request, it is asked to stop (RFC 9113, section 8.1); an
    /// incomplete response is reset.
    pub(super) fn end(&self, id: StreamId, over: Over) {
        let Some(slot) = self.with(id, std::mem::take) else {
            return;
        };
        slot.inbound.into_iter().for_each(|piece| {
            self.give_back(piece);
        });
        self.open.set(self.open.get() - 1);
        let mut server = self.server.borrow_mut();
        let code = match over {
            Over::Complete => None,
            Over::Cancelled => Some(ErrorCode::CANCEL),
            // The code that Go's HTTP/2 server, and therefore Caddy, uses.
            Over::Failed => Some(ErrorCode::INTERNAL_ERROR),
        };
        if let Some(code) = code.filter(|_| !matches!(slot.request, Request::Gone(_))) {
            server.reset(id, code);
        }
        server.release(id);
    }

    /// Like [`Mux::end`], for the stream in `slot`.
    pub(super) fn end_slot(&self, slot: usize, over: Over) {
        let id = self.slots.borrow().get(slot).and_then(|known| known.id);
        if let Some(id) = id {
            self.end(id, over);
        }
    }

    /// Frees memory that a quiet connection does not need.
    pub(super) fn shrink(&self) {
        if self.open.get() == 0 {
            *self.slots.borrow_mut() = Vec::new();
        }
    }

    fn with<T>(&self, id: StreamId, look: impl FnOnce(&mut Slot) -> T) -> Option<T> {
        let mut slots = self.slots.borrow_mut();
        let slot = slots.get_mut(id.slot())?;
        (slot.id == Some(id)).then(|| look(slot))
    }
}
