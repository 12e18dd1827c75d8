//! What the streams of a connection share: the codec, and what has arrived for each of them. Moving bytes between the
//! codec and the socket is left to `drive`.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Waker};

use sluice_message::{Fields, Moment};
use sluice_wire::h2::{End, ErrorCode, Limits, Server, StreamId};

use super::ready::{Ready, Woken};
use crate::connection::Link;
use crate::failure::{Failure, FailureKind, Side};
use crate::limits::{DRAIN_BYTES_MAX, READ_BUFFER_BYTES, WINDOW_LEFT_MIN};

/// Room in the output below which a stream waits rather than send a frame that is mostly head.
const FRAME_BYTES_MIN: usize = 256;

/// One connection, as its streams see it.
pub(super) struct Mux {
    pub(super) link: Rc<Link>,
    /// The codec. Nobody holds it over a wait.
    pub(super) server: RefCell<Server>,
    output_bytes_max: usize,
    ready: RefCell<Arc<Ready>>,
    /// What each slot holds; one that is not in use is empty.
    slots: RefCell<Vec<Slot>>,
    /// Streams at work.
    open: Cell<usize>,
    /// Content that came, and content that went, of all streams: one line carries them all, and a stream is not too slow
    /// because another goes before it.
    pub(super) received: Cell<u64>,
    pub(super) sent: Cell<u64>,
    /// When the window of the connection was last all but used up by content that nobody has read.
    withheld_at: Cell<Moment>,
}

/// What is known of the stream in a slot.
#[derive(Default)]
struct Slot {
    /// Its number; `None` while the slot is free.
    id: Option<StreamId>,
    request: Request,
    /// Content that arrived and that nobody has taken, in order; none of the pieces is empty.
    inbound: Vec<Vec<u8>>,
    trailers: Option<Fields>,
    waits_for: WaitsFor,
    /// Content that was taken.
    bytes_read: u64,
    /// Content that nobody wanted.
    bytes_discarded: u64,
}

/// How far the request of a stream has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Request {
    /// More of it may come.
    #[default]
    Open,
    /// As `Open`, and nobody wants it.
    Unwanted,
    /// It has come as a whole.
    Whole,
    /// The stream was reset, or its connection is gone.
    Gone(Gone),
}

/// Why a stream is gone before its answer was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gone {
    /// The client went away or does not want it any more.
    Closed,
    /// The client broke the rules of the stream.
    Broken,
}

impl Gone {
    /// The failure of an exchange whose stream is gone.
    pub(super) fn failure(self) -> Failure {
        let kind = match self {
            Gone::Closed => FailureKind::Closed,
            Gone::Broken => FailureKind::Protocol,
        };
        Failure::new(Side::Client, kind)
    }
}

/// What a stream waits for that the connection has to notice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum WaitsFor {
    #[default]
    Nothing,
    /// Leave of the client to send more.
    Window,
    /// Room in the output.
    Room,
}

/// What was found for the reader of a request.
pub(super) enum Taken {
    /// Content; the reader's buffer has it.
    Content,
    /// The end, after all content was taken.
    End(Option<Fields>),
    /// Nothing yet.
    Nothing,
    /// Nothing will come.
    Gone(Gone),
}

impl Mux {
    pub(super) fn new(link: Rc<Link>, limits: &Limits) -> Mux {
        let server = Server::new(limits, true);
        Mux {
            output_bytes_max: limits.output_bytes_max,
            link,
            server: RefCell::new(server),
            ready: RefCell::new(Ready::new(Waker::noop().clone())),
            slots: RefCell::new(Vec::new()),
            open: Cell::new(0),
            received: Cell::new(0),
            sent: Cell::new(0),
            withheld_at: Cell::new(Moment::START),
        }
    }

    /// The streams to be woken for the task of `cx`. Tells whether all of them have to be polled, because they know
    /// another one.
    pub(super) fn ready_for(&self, cx: &Context<'_>) -> (Arc<Ready>, bool) {
        let known = self.ready.borrow().clone();
        if known.is_for(cx.waker()) {
            return (known, false);
        }
        let fresh = Ready::new(cx.waker().clone());
        *self.ready.borrow_mut() = fresh.clone();
        (fresh, true)
    }

    /// Streams at work.
    pub(super) fn open(&self) -> usize {
        self.open.get()
    }

    /// Has the stream in `slot` polled.
    pub(super) fn wake(&self, slot: usize) {
        self.ready.borrow().mark(slot);
    }

    /// Has all streams at work polled.
    pub(super) fn wake_all(&self) {
        for (slot, known) in self.slots.borrow().iter().enumerate() {
            if known.id.is_some() {
                self.wake(slot);
            }
        }
    }

    /// Begins a stream.
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
        self.received.set(self.received.get() + data.len() as u64);
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

    /// Whether the client could send next to nothing at some time since `since`, because streams were not read.
    pub(super) fn was_withheld(&self, since: Moment) -> bool {
        self.note_window();
        self.withheld_at.get() >= since
    }

    /// Puts content behind what is there. Little content takes little memory, as a whole buffer for each byte would be many
    /// times the windows; much of it takes buffers of the worker, one after the other, so that none has to grow.
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

    /// The trailer fields of a request have arrived, and with them its end.
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

    /// All streams are gone: the connection is.
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

    /// Moves what has arrived to `buf`, which is empty.
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

    /// The reader is done with `count` bytes, for which the client may send others.
    pub(super) fn consumed(&self, id: StreamId, count: usize) {
        self.with(id, |slot| slot.bytes_read += count as u64);
        self.server.borrow_mut().consumed(id, count);
    }

    /// Nobody reads on. `left` is what the reader had taken and not used.
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

    /// Throws content away. The client may send as much again, up to a limit: then it waits until the answer has ended,
    /// by which it is told to stop.
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

    /// Content of the request that was taken.
    pub(super) fn bytes_read(&self, id: StreamId) -> u64 {
        self.with(id, |slot| slot.bytes_read).unwrap_or_default()
    }

    /// The stream can send nothing at the moment: it is woken when that may have changed. Tells what it waits for.
    pub(super) fn await_room(&self, id: StreamId) -> WaitsFor {
        let what = match self.has_room() {
            true => WaitsFor::Window,
            false => WaitsFor::Room,
        };
        self.with(id, |slot| slot.waits_for = what);
        what
    }

    /// Whether the output has room for content that is worth a frame.
    pub(super) fn has_room(&self) -> bool {
        let mut server = self.server.borrow_mut();
        let room = self.output_bytes_max.saturating_sub(server.output().len());
        room > FRAME_BYTES_MIN
    }

    /// Of the streams that were woken, the slot of the one that the client wants first; `None` where it has said
    /// nothing of that, or none of them is at work.
    pub(super) fn most_wanted(&self, woken: Woken) -> Option<usize> {
        let server = self.server.borrow();
        if !server.has_priorities() {
            return None;
        }
        let slots = self.slots.borrow();
        let ids = woken.slots().filter_map(|slot| slots.get(slot)?.id);
        server.next_to_send(ids).map(StreamId::slot)
    }

    /// Wakes the streams that wait for `what`, one or all.
    pub(super) fn wake_waiting(&self, what: WaitsFor, only: Option<StreamId>) {
        for (number, slot) in self.slots.borrow_mut().iter_mut().enumerate() {
            let is_meant = slot.waits_for == what && (only.is_none() || slot.id == only);
            if is_meant {
                slot.waits_for = WaitsFor::Nothing;
                self.wake(number);
            }
        }
    }

    /// Ends the work on a stream. A client that is still sending its request is told to stop (RFC 9113, section 8.1);
    /// one whose answer has not ended is told so by `code`.
    pub(super) fn end(&self, id: StreamId, code: ErrorCode) {
        let Some(slot) = self.with(id, std::mem::take) else {
            return;
        };
        slot.inbound.into_iter().for_each(|piece| {
            self.give_back(piece);
        });
        self.open.set(self.open.get() - 1);
        let mut server = self.server.borrow_mut();
        if code != ErrorCode::NO_ERROR && !matches!(slot.request, Request::Gone(_)) {
            server.reset(id, code);
        }
        server.release(id);
    }

    /// As [`Mux::end`], for the stream in `slot`.
    pub(super) fn end_slot(&self, slot: usize, code: ErrorCode) {
        let id = self.slots.borrow().get(slot).and_then(|known| known.id);
        if let Some(id) = id {
            self.end(id, code);
        }
    }

    /// Gives back memory that a quiet connection does not need.
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
