//! State shared by the calls on a connection: the codec, and the data received for each. `drive` moves bytes between
//! the codec and the socket.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use sluice_message::{Fields, RequestHead, ResponseHead};
use sluice_wire::h1::BodyFraming;
use sluice_wire::h2::{Client, Closed, End, ErrorCode, StreamId};

use crate::endpoint::Endpoint;
use crate::failures::garbage;
use crate::limits::INTERIM_MAX;
use crate::streams::{Ending, Found, Membership, Shared, Sharing, Shelf, Streams, Taken};
use sluice_net::failure::Failure;
use sluice_net::worker::Worker;

/// With less room than this in the output, a stream waits instead of sending a tiny DATA frame.
const FRAME_BYTES_MIN: usize = 256;

/// A connection as its calls see it.
pub struct Mux {
    pub(super) worker: Rc<Worker>,
    pub(super) membership: Membership<Mux>,
    /// The codec. Never borrowed across an await point.
    pub(super) client: RefCell<Client>,
    stage: Cell<Stage>,
    /// The stream in each slot; unused slots are empty.
    slots: RefCell<Vec<Slot>>,
    /// Bytes written to the socket.
    written: Cell<u64>,
    /// The slot that is woken first when there is room.
    turn: Cell<usize>,
}

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Established, and no request was sent yet.
    New,
    /// The first request was sent; the upstream's limit on concurrent streams is not known yet.
    Begun,
    /// Accepts requests.
    Open,
    /// Ends with its last stream.
    Retired,
    /// Closed.
    Over,
}

/// The state of the stream in a slot.
#[derive(Default)]
struct Slot {
    /// The stream ID; `None` while the slot is free.
    id: Option<StreamId>,
    /// The waker of its call, while that waits.
    waker: Option<Waker>,
    response: Response,
    interims: Vec<ResponseHead>,
    interims_seen: u32,
    head: Option<(ResponseHead, BodyFraming)>,
    /// Received data that has not been taken.
    inbound: Vec<u8>,
    trailers: Option<Fields>,
    waits_for: WaitsFor,
    /// The count of written bytes at which its head begins.
    begins_at: u64,
}

/// How far the response on a stream has been received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Response {
    /// More may come.
    #[default]
    Open,
    /// Received completely.
    Whole,
    /// No more will come.
    Gone(Gone),
}

/// Why a response is missing or incomplete.
pub type Gone = crate::streams::Gone<Closed>;

/// What a stream waits for that the connection has to notice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum WaitsFor {
    #[default]
    Nothing,
    /// A WINDOW_UPDATE from the upstream.
    Window,
    /// Room in the output.
    Room,
}

impl Ending for Closed {
    type Code = ErrorCode;

    const PROTOCOL: &'static str = "HTTP/2";

    const REFUSED_BY: &'static str = "REFUSED_STREAM";

    fn failure(self) -> Failure {
        garbage(self)
    }
}

impl Shared for Mux {
    fn number(&self) -> u64 {
        self.membership.number()
    }

    fn open_streams(&self) -> usize {
        self.membership.open_streams()
    }

    /// Before the upstream's limit on concurrent streams is known, it gets only one request: others might be refused.
    fn has_room(&self) -> bool {
        match self.stage.get() {
            Stage::New => true,
            Stage::Begun | Stage::Retired | Stage::Over => false,
            Stage::Open => {
                let client = self.client.borrow();
                client.streams_free() > 0 && !client.is_output_full()
            }
        }
    }

    fn is_beginning(&self) -> bool {
        matches!(self.stage.get(), Stage::New | Stage::Begun)
    }

    fn retire(&self) {
        if !self.is_retired() {
            self.stage.set(Stage::Retired);
            self.membership.leave(self);
        }
        self.membership.wake_driver();
    }
}

impl Streams for Mux {
    type Id = StreamId;
    type Ending = Closed;

    fn membership(&self) -> &Membership<Mux> {
        &self.membership
    }

    fn open(&self, head: &RequestHead, framing: BodyFraming, end: End) -> Option<StreamId> {
        let begins_at = self.written.get() + self.prepare_output() as u64;
        let is_https = self.membership.endpoint().options().tls.is_some();
        let opened = self.client.borrow_mut().open(head, is_https, framing, end);
        let id = opened.ok()?;
        if self.stage.get() == Stage::New {
            self.stage.set(Stage::Begun);
        }
        let mut slots = self.slots.borrow_mut();
        while slots.len() <= id.slot() {
            slots.push(Slot::default());
        }
        slots[id.slot()] = Slot {
            id: Some(id),
            begins_at,
            ..Slot::default()
        };
        self.membership.begin();
        self.membership.wake_driver();
        Some(id)
    }

    fn release(&self, id: StreamId) {
        let Some(slot) = self.with(id, std::mem::take) else {
            return;
        };
        self.worker.buffers.give_back(slot.inbound);
        self.client.borrow_mut().release(id);
        self.membership.end(self);
    }

    fn was_sent(&self, id: StreamId) -> bool {
        let written = self.written.get();
        self.with(id, |slot| slot.begins_at < written)
            .unwrap_or(true)
    }

    fn find_head(
        &self,
        id: StreamId,
        _spare: impl FnOnce() -> ResponseHead,
        cx: &Context<'_>,
    ) -> Found<Gone> {
        let found = self.with(id, |slot| {
            if !slot.interims.is_empty() {
                return Found::Interim(slot.interims.remove(0));
            }
            match (slot.head.take(), slot.response) {
                (Some((head, framing)), _) => Found::Final(head, framing),
                (None, Response::Gone(gone)) => Found::Gone(gone),
                (None, Response::Open | Response::Whole) => {
                    slot.listen(cx);
                    Found::Nothing
                }
            }
        });
        found.unwrap_or(Found::Gone(Gone::Closed))
    }

    fn take(&self, id: StreamId, buf: &mut Vec<u8>, cx: &Context<'_>) -> Taken<Gone> {
        let found = self.with(id, |slot| {
            if !slot.inbound.is_empty() {
                std::mem::swap(&mut slot.inbound, buf);
                return Taken::Content;
            }
            match slot.response {
                Response::Whole => Taken::End(slot.trailers.take()),
                Response::Gone(gone) => Taken::Gone(gone),
                Response::Open => {
                    slot.listen(cx);
                    Taken::Nothing
                }
            }
        });
        found.unwrap_or(Taken::Gone(Gone::Closed))
    }

    fn whole(&self, id: StreamId) -> Option<usize> {
        let found = self.with(id, |slot| {
            let is_whole = slot.response == Response::Whole && slot.trailers.is_none();
            is_whole.then_some(slot.inbound.len())
        });
        found.flatten()
    }

    fn copy_whole(&self, id: StreamId, out: &mut Vec<u8>) {
        self.with(id, |slot| out.extend_from_slice(&slot.inbound));
    }

    fn consumed(&self, id: StreamId, count: usize) {
        let mut client = self.client.borrow_mut();
        client.consumed(id, count);
        if !client.output().is_empty() {
            drop(client);
            self.membership.wake_driver();
        }
    }

    fn poll_capacity(&self, id: StreamId, cx: &Context<'_>) -> Poll<bool> {
        if self.stage.get() == Stage::Over {
            return Poll::Ready(false);
        }
        self.prepare_output();
        let has_room = self.has_output_room();
        if has_room && self.client.borrow_mut().capacity(id) > 0 {
            return Poll::Ready(true);
        }
        let waits = self.with(id, |slot| {
            slot.listen(cx);
            slot.waits_for = match has_room {
                true => WaitsFor::Window,
                false => WaitsFor::Room,
            };
            matches!(slot.response, Response::Open)
        });
        match waits {
            Some(true) => Poll::Pending,
            // The stream is over, or the upstream may reset it now that it has responded: the codec knows.
            Some(false) | None => self.poll_sendable(id),
        }
    }

    fn send_data(&self, id: StreamId, data: &[u8], end: End) -> Option<usize> {
        let sent = self.client.borrow_mut().send_data(id, data, end);
        self.membership.wake_driver();
        sent.ok()
    }

    fn send_trailers(&self, id: StreamId, fields: &Fields) {
        // If the stream is gone, the reader of the response notices.
        let _ = self.client.borrow_mut().send_trailers(id, fields);
        self.membership.wake_driver();
    }
}

impl Mux {
    pub(super) fn new(
        worker: &Rc<Worker>,
        endpoint: &Arc<Endpoint>,
        shelf: &Rc<Shelf<Mux>>,
        sharing: Sharing,
    ) -> Mux {
        Mux {
            worker: worker.clone(),
            client: RefCell::new(Client::new(&endpoint.options().h2)),
            membership: Membership::new(endpoint, shelf, sharing),
            stage: Cell::new(Stage::New),
            slots: RefCell::default(),
            written: Cell::new(0),
            turn: Cell::new(0),
        }
    }

    /// Whether it accepts no more streams.
    pub(super) fn is_retired(&self) -> bool {
        matches!(self.stage.get(), Stage::Retired | Stage::Over)
    }

    /// The upstream has sent its SETTINGS.
    pub(super) fn note_settings(&self) {
        if self.is_beginning() {
            self.stage.set(Stage::Open);
        }
        let free = self.client.borrow().streams_free() + self.open_streams();
        if let Some(shelf) = self.membership.shelf() {
            shelf.note_streams(free);
        }
    }

    /// Provides an output buffer for the codec, as a quiet connection has none; returns how much output is pending.
    pub(super) fn prepare_output(&self) -> usize {
        let mut client = self.client.borrow_mut();
        let output = client.output();
        if output.capacity() == 0 {
            *output = self.worker.buffers.large();
        }
        output.len()
    }

    /// Counts bytes written to the socket.
    pub(super) fn note_written(&self, count: usize) {
        self.written.set(self.written.get() + count as u64);
    }

    /// An interim response has arrived. A stream with too many of them is lost, and further ones are dropped.
    pub(super) fn interim(&self, id: StreamId, head: ResponseHead) {
        let is_kept = self.with(id, |slot| {
            slot.interims_seen += 1;
            let is_kept = slot.interims_seen <= INTERIM_MAX;
            if is_kept {
                slot.interims.push(head);
            }
            is_kept
        });
        if is_kept == Some(false) {
            let code = ErrorCode::ENHANCE_YOUR_CALM;
            self.client.borrow_mut().reset(id, code);
            self.lose(id, Gone::Babbled);
        } else {
            self.wake(id.slot());
        }
    }

    /// The head of a response has arrived.
    pub(super) fn head(&self, id: StreamId, head: ResponseHead, framing: BodyFraming, end: End) {
        self.with(id, |slot| {
            slot.head = Some((head, framing));
            if end.is_here() {
                slot.response = Response::Whole;
            }
        });
        self.wake(id.slot());
    }

    /// Content of a response has arrived.
    pub(super) fn arrived(&self, id: StreamId, data: &[u8], end: End) {
        self.with(id, |slot| {
            if !data.is_empty() {
                if slot.inbound.capacity() == 0 {
                    slot.inbound = self.worker.buffers.small();
                }
                slot.inbound.extend_from_slice(data);
            }
            if end.is_here() {
                slot.response = Response::Whole;
            }
        });
        self.wake(id.slot());
    }

    /// The trailers of a response have arrived, and with them its end.
    pub(super) fn ended(&self, id: StreamId, trailers: Fields) {
        self.with(id, |slot| {
            slot.trailers = Some(trailers);
            slot.response = Response::Whole;
        });
        self.wake(id.slot());
    }

    /// The stream is gone. A response that was already complete stays valid.
    pub(super) fn lose(&self, id: StreamId, gone: Gone) {
        self.with(id, |slot| slot.lose(gone));
        self.wake(id.slot());
    }

    /// The connection is gone, and all streams with it.
    pub(super) fn lose_all(&self, gone: Gone) {
        if self.stage.replace(Stage::Over) != Stage::Over {
            self.membership.leave(self);
        }
        let count = {
            let mut slots = self.slots.borrow_mut();
            slots.iter_mut().for_each(|slot| slot.lose(gone));
            slots.len()
        };
        (0..count).for_each(|slot| self.wake(slot));
    }

    /// Pending while the stream is blocked but can still be sent on.
    fn poll_sendable(&self, id: StreamId) -> Poll<bool> {
        let sent = self.client.borrow_mut().send_data(id, &[], End::Later);
        match sent {
            Ok(_) => Poll::Pending,
            Err(_) => Poll::Ready(false),
        }
    }

    /// Whether the output has room for a DATA frame of reasonable size.
    pub(super) fn has_output_room(&self) -> bool {
        let room_max = self.membership.endpoint().options().h2.output_bytes_max;
        let room = room_max.saturating_sub(self.client.borrow_mut().output().len());
        room > FRAME_BYTES_MIN
    }

    /// Wakes the streams that wait for `what`, or only the one given; round-robin if there are several.
    pub(super) fn wake_waiting(&self, what: WaitsFor, only: Option<StreamId>) {
        let count = self.slots.borrow().len();
        let first = self.turn.get();
        for slot in (first..count).chain(0..first.min(count)) {
            let is_meant = {
                let slots = &mut *self.slots.borrow_mut();
                let known = &mut slots[slot];
                let is_meant = known.waits_for == what && (only.is_none() || known.id == only);
                if is_meant {
                    known.waits_for = WaitsFor::Nothing;
                }
                is_meant
            };
            if is_meant {
                self.wake(slot);
            }
        }
        if only.is_none() && count > 0 {
            self.turn.set((first + 1) % count);
        }
    }

    /// Frees memory that a quiet connection does not need.
    pub(super) fn shrink(&self) {
        let mut client = self.client.borrow_mut();
        let output = std::mem::take(client.output());
        self.worker.buffers.give_back(output);
        client.shrink();
        *self.slots.borrow_mut() = Vec::new();
    }

    fn wake(&self, slot: usize) {
        let waker = {
            let mut slots = self.slots.borrow_mut();
            slots.get_mut(slot).and_then(|known| known.waker.take())
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn with<T>(&self, id: StreamId, look: impl FnOnce(&mut Slot) -> T) -> Option<T> {
        let mut slots = self.slots.borrow_mut();
        let slot = slots.get_mut(id.slot())?;
        (slot.id == Some(id)).then(|| look(slot))
    }
}

impl Slot {
    fn lose(&mut self, gone: Gone) {
        match self.response {
            Response::Open => self.response = Response::Gone(gone),
            // A complete response stays valid, and the first reason says more.
            Response::Whole | Response::Gone(_) => {}
        }
    }

    /// Registers the task of `cx` to be woken.
    fn listen(&mut self, cx: &Context<'_>) {
        match &self.waker {
            Some(waker) if waker.will_wake(cx.waker()) => {}
            Some(_) | None => self.waker = Some(cx.waker().clone()),
        }
    }
}
