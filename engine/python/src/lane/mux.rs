//! State shared by the calls on a lane: the codec, and the data received for each. `drive` moves bytes between the codec
//! and the socket, `heed` sorts what arrives.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use sluice_message::{Fields, Moment};
use sluice_net::worker::Worker;
use sluice_wire::python::{End, Form, HopByHop, Lane, MessageKind, StreamId};
use sluice_wire::websocket::MessagePart;

use super::slot::{FilePart, Found, Gone, Message, Part, Received, Slot};
use crate::group::Group;
use crate::held::{Direction, Share};
use crate::limits::{OUTPUT_BYTES_MAX, SLOTS_KEPT_MAX};
use crate::process::{Counted, Greeting, Process};

/// A lane as its calls see it.
pub(crate) struct Mux {
    pub worker: Rc<Worker>,
    pub group: Arc<Group>,
    pub process: Arc<Process>,
    seat: usize,
    /// The codec. Never borrowed across an await point.
    pub(super) lane: RefCell<Lane>,
    pub(super) slots: RefCell<Vec<Slot>>,
    is_over: Cell<bool>,
    /// Bytes written to the socket.
    written: Cell<u64>,
    /// Number of streams opened.
    opened: Cell<u64>,
    /// Deadlines of requests, in order, if there is a `request_timeout`.
    deadlines: RefCell<VecDeque<(Moment, StreamId)>>,
    /// Requests that have ended in this turn of the driver: their places are given back together.
    pub(super) ended: Cell<usize>,
    /// The driver task, while it sleeps.
    driver: Cell<Option<Waker>>,
}

/// The result of reading a response body.
pub(crate) enum Taken {
    /// Bytes were moved to the reader's buffer.
    Bytes,
    /// A part of a file follows.
    File(FilePart),
    /// The end, after everything was taken; with the block of trailers.
    End(Option<Vec<u8>>),
    /// Nothing yet.
    Nothing,
    Gone(Gone),
}

/// A body that has arrived completely, without trailers.
pub(crate) enum Whole {
    /// So many bytes.
    Bytes(usize),
    /// Nothing but a part of a file.
    File(FilePart),
}

impl Mux {
    pub fn new(
        worker: &Rc<Worker>,
        group: &Arc<Group>,
        process: &Arc<Process>,
        seat: usize,
    ) -> Mux {
        Mux {
            worker: worker.clone(),
            group: group.clone(),
            process: process.clone(),
            seat,
            lane: RefCell::new(Lane::new(process.lane.window)),
            slots: RefCell::default(),
            is_over: Cell::new(false),
            written: Cell::new(0),
            opened: Cell::new(0),
            deadlines: RefCell::default(),
            ended: Cell::new(0),
            driver: Cell::default(),
        }
    }

    /// Whether the lane is closed.
    pub fn is_over(&self) -> bool {
        self.is_over.get()
    }

    /// Opens a stream for a request, for which a place was reserved; `write` appends its dictionary. `None` if the lane
    /// is closed, or has too many streams.
    pub fn open(&self, form: Form, end: End, write: impl FnOnce(&mut Vec<u8>)) -> Option<StreamId> {
        if self.is_over() {
            return None;
        }
        self.prepare_output();
        let id = {
            let lane = &mut *self.lane.borrow_mut();
            let begins_at = self.written.get() + lane.output().len() as u64;
            let id = lane.open(form, end, write)?;
            self.opened.set(self.opened.get() + 1);
            let mut slots = self.slots.borrow_mut();
            while slots.len() <= id.slot() {
                slots.push(Slot::default());
            }
            slots[id.slot()].begin(id, begins_at, self.opened.get());
            id
        };
        if let (Some(limit), Form::Http) = (self.process.lane.request_timeout, form) {
            let due = self.worker.clock.coarse() + limit;
            self.deadlines.borrow_mut().push_back((due, id));
        }
        self.wake_driver();
        Some(id)
    }

    /// Provides an output buffer for the codec, as a quiet lane has none.
    fn prepare_output(&self) {
        let mut lane = self.lane.borrow_mut();
        let output = lane.output();
        if output.capacity() == 0 {
            *output = self.worker.buffers.large();
        }
    }

    /// The call is done with its stream.
    pub fn release(&self, id: StreamId) {
        let is_free = self.is_over() || self.lane.borrow_mut().release(id);
        if let Some(buffer) = self.with(id, |slot| slot.leave(is_free)) {
            self.worker.buffers.give_back(buffer);
        }
        self.wake_driver();
    }

    /// Gives back the places of the requests that have ended.
    pub fn settle(&self) {
        let ended = self.ended.take();
        if ended > 0 {
            self.group
                .release(&self.process, self.seat, ended, Counted::Yes);
        }
    }

    /// Wakes the driver to send pending output.
    pub fn wake_driver(&self) {
        if let Some(driver) = self.driver.take() {
            driver.wake();
        }
    }

    /// Stores the waker of the driver, which is about to sleep.
    pub(super) fn sleep(&self, driver: &Waker) {
        self.driver.set(Some(driver.clone()));
    }

    /// Counts bytes written to the socket.
    pub(super) fn note_written(&self, count: usize) {
        self.written.set(self.written.get() + count as u64);
    }

    fn has_threads(&self) -> bool {
        self.process.greeting().is_some_and(Greeting::has_threads)
    }

    /// The worker has closed the lane: it is ending, or has to.
    pub fn lose_worker(&self) {
        self.process.note_lost();
        self.group.bell.notify_one();
        self.lose_all();
    }

    /// The lane is closed, and all streams are gone.
    pub fn lose_all(&self) {
        if self.is_over.replace(true) {
            return;
        }
        self.settle();
        let has_threads = self.has_threads();
        let (mut wakers, mut open) = (Vec::new(), 0);
        {
            let mut slots = self.slots.borrow_mut();
            let running = slots.iter().filter(|slot| slot.is_open());
            let first = running.map(|slot| slot.sequence).min();
            let written = self.written.get();
            for slot in slots.iter_mut().filter(|slot| slot.is_open()) {
                open += 1;
                let is_behind = has_threads && Some(slot.sequence) != first;
                let started = slot.begins_at < written && !is_behind;
                slot.lose(Gone::Died { started });
                wakers.extend(slot.waker.take());
            }
        }
        let (process, seat) = (&self.process, self.seat);
        self.group.release(process, seat, open, Counted::No);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Looks for a head; its headers are decoded into `fields`, which is empty. If there is none, the task of `cx` is
    /// woken when there is.
    pub fn find_head(
        &self,
        id: StreamId,
        hop_by_hop: HopByHop,
        fields: &mut Fields,
        cx: &Context<'_>,
    ) -> Found {
        let found = self.with(id, |slot| slot.find_head(hop_by_hop, fields, cx));
        found.unwrap_or(Found::Gone(Gone::Died { started: true }))
    }

    /// Moves received bytes to `buf`, which is empty; if there are none, the task of `cx` is woken when there are.
    pub fn take(&self, id: StreamId, buf: &mut Vec<u8>, cx: &Context<'_>) -> Taken {
        let found = self.with(id, |slot| {
            if !slot.inbound.is_empty() {
                std::mem::swap(&mut slot.inbound, buf);
                return Taken::Bytes;
            }
            match slot.rest.pop_front() {
                Some(Part::Bytes(bytes)) => {
                    *buf = bytes;
                    return Taken::Bytes;
                }
                Some(Part::File(file)) => return Taken::File(file),
                None => {}
            }
            match &slot.response {
                Received::Whole => Taken::End(slot.trailers.take()),
                Received::Gone(gone) => Taken::Gone(gone.clone()),
                Received::Open => {
                    slot.listen(cx);
                    Taken::Nothing
                }
            }
        });
        found.unwrap_or(Taken::Gone(Gone::Died { started: true }))
    }

    /// The body, if it has arrived completely and has no trailers.
    pub fn whole(&self, id: StreamId) -> Option<Whole> {
        let found = self.with(id, |slot| {
            if let Some(count) = slot.whole_bytes() {
                return Some(Whole::Bytes(count));
            }
            let is_plain = slot.response == Received::Whole && slot.trailers.is_none();
            match (slot.inbound.len(), slot.rest.front()) {
                (0, Some(Part::File(file))) if is_plain && slot.rest.len() == 1 => {
                    Some(Whole::File(file.clone()))
                }
                (_, _) => None,
            }
        });
        found.flatten()
    }

    /// Copies the bytes counted by [`Mux::whole`] to `out`.
    pub fn copy_whole(&self, id: StreamId, out: &mut Vec<u8>) {
        self.with(id, |slot| {
            out.extend_from_slice(&slot.inbound);
            for part in &slot.rest {
                if let Part::Bytes(bytes) = part {
                    out.extend_from_slice(bytes);
                }
            }
        });
    }

    /// The reader has consumed `count` bytes: gives credit to the worker.
    pub fn consumed(&self, id: StreamId, count: usize) {
        let has_output = {
            let mut lane = self.lane.borrow_mut();
            lane.consumed(id, count);
            !lane.output().is_empty()
        };
        if has_output {
            self.wake_driver();
        }
    }

    /// Ready with true when bytes of the request body may be sent, with false when no more are accepted.
    pub fn poll_capacity(&self, id: StreamId, cx: &Context<'_>) -> Poll<bool> {
        if self.is_over() {
            return Poll::Ready(false);
        }
        let has_room = self.has_room();
        let capacity = self.lane.borrow().capacity(id);
        match (capacity, has_room) {
            (None, _) => Poll::Ready(false),
            (Some(1..), true) => Poll::Ready(true),
            (Some(_), _) => self.wait_to_send(id, cx),
        }
    }

    /// Ready with true when the next piece of a message, of this length, may be sent, with false when no more are accepted.
    pub fn poll_piece_capacity(&self, id: StreamId, length: usize, cx: &Context<'_>) -> Poll<bool> {
        if self.is_over() {
            return Poll::Ready(false);
        }
        let has_room = self.has_room();
        let may_send = self.lane.borrow().may_send_piece(id, length);
        match (may_send, has_room) {
            (None, _) => Poll::Ready(false),
            (Some(true), true) => Poll::Ready(true),
            (Some(_), _) => self.wait_to_send(id, cx),
        }
    }

    fn wait_to_send(&self, id: StreamId, cx: &Context<'_>) -> Poll<bool> {
        let waits = self.with(id, |slot| {
            slot.listen(cx);
            slot.waits_to_send = true;
        });
        match waits {
            Some(()) => Poll::Pending,
            None => Poll::Ready(false),
        }
    }

    /// Sends bytes of a request body; returns how many were taken.
    pub fn send_body(&self, id: StreamId, data: &[u8], end: End) -> usize {
        self.prepare_output();
        let count = self.lane.borrow_mut().send_body(id, data, end);
        self.wake_driver();
        count
    }

    /// Sends a message of a WebSocket, or a piece of it; returns whether it was taken.
    pub fn send_piece(
        &self,
        id: StreamId,
        kind: MessageKind,
        data: &[u8],
        piece: MessagePart,
    ) -> bool {
        self.prepare_output();
        let sent = self.lane.borrow_mut().send_piece(id, kind, data, piece);
        self.wake_driver();
        let Some(held) = sent else {
            return false;
        };
        self.with(id, |slot| match &mut slot.held {
            Some(share) => share.set(held),
            None => slot.held = Some(Share::new(&self.group.held, Direction::Inbound, held)),
        });
        true
    }

    /// Closes a WebSocket.
    pub fn send_close(&self, id: StreamId, code: u16, reason: &[u8]) {
        self.prepare_output();
        self.lane.borrow_mut().send_close(id, code, reason);
        self.wake_driver();
    }

    /// Takes the next message of a WebSocket, or piece of one; if there is none, the task of `cx` is woken when there is.
    pub fn take_message(&self, id: StreamId, cx: &Context<'_>) -> Poll<Result<Message, Gone>> {
        let found = self.with(id, |slot| {
            if let Some(message) = slot.messages.pop_front() {
                return Poll::Ready(Ok(message));
            }
            match &slot.response {
                Received::Gone(gone) => Poll::Ready(Err(gone.clone())),
                // Nothing follows the end, which was taken.
                Received::Whole => Poll::Ready(Err(Gone::Died { started: true })),
                Received::Open => {
                    slot.listen(cx);
                    Poll::Pending
                }
            }
        });
        found.unwrap_or(Poll::Ready(Err(Gone::Died { started: true })))
    }

    /// Whether the output has room for bodies.
    pub(super) fn has_room(&self) -> bool {
        self.lane.borrow_mut().output().len() < OUTPUT_BYTES_MAX
    }

    /// Wakes the calls that wait for room in the output.
    pub(super) fn note_room(&self) {
        let mut wakers = Vec::new();
        for slot in self.slots.borrow_mut().iter_mut() {
            if std::mem::take(&mut slot.waits_to_send) {
                wakers.extend(slot.waker.take());
            }
        }
        wakers.into_iter().for_each(Waker::wake);
    }

    /// The earliest deadline of a request.
    pub(super) fn deadline(&self) -> Option<Moment> {
        let has_threads = self.has_threads();
        let mut deadlines = self.deadlines.borrow_mut();
        while let Some((due, id)) = deadlines.front() {
            // A thread is busy until the end of the response; an event loop is not while a client reads.
            let is_awaited = |slot: &mut Slot| slot.is_open() && (has_threads || !slot.has_head);
            if self.with(*id, is_awaited) == Some(true) {
                return Some(*due);
            }
            deadlines.pop_front();
        }
        None
    }

    /// Ends the calls whose requests have taken too long.
    pub(super) fn expire(&self, now: Moment) {
        while let Some(due) = self.deadline() {
            if due > now {
                return;
            }
            let Some((_, id)) = self.deadlines.borrow_mut().pop_front() else {
                return;
            };
            let waker = self.with(id, |slot| {
                slot.is_overdue = true;
                slot.lose(Gone::TimedOut);
                slot.waker.take()
            });
            self.process.note_overdue();
            self.group.bell.notify_one();
            self.lane.borrow_mut().stop(id);
            if let Some(waker) = waker.flatten() {
                waker.wake();
            }
        }
    }

    /// Frees memory that a quiet lane does not need.
    pub(super) fn shrink(&self) {
        let mut lane = self.lane.borrow_mut();
        if lane.open_streams() == 0 && lane.output().is_empty() {
            let output = std::mem::take(lane.output());
            self.worker.buffers.give_back(output);
            let mut slots = self.slots.borrow_mut();
            if slots.len() > SLOTS_KEPT_MAX {
                lane.shrink();
                *slots = Vec::new();
            }
        }
    }

    pub(super) fn with<T>(&self, id: StreamId, look: impl FnOnce(&mut Slot) -> T) -> Option<T> {
        let mut slots = self.slots.borrow_mut();
        let slot = slots.get_mut(id.slot())?;
        (slot.id == Some(id)).then(|| look(slot))
    }
}

#[cfg(test)]
#[path = "mux_tests.rs"]
mod tests;
