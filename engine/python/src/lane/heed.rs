//! Sorts what a worker sent into the slots of the calls.

use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use sluice_wire::limits::PYTHON_MESSAGE_OVERHEAD_BYTES;
use sluice_wire::python::{End, ErrorStage, Event, Fault, MessageKind, StreamId};
use sluice_wire::websocket::MessagePart;

use super::mux::Mux;
use super::slot::{FilePart, Message, Part, Received, Slot};
use crate::failure::Stage;
use crate::held::{Direction, Share};
use crate::limits::HINTS_MAX;

impl Mux {
    /// Stores what an event brings, and wakes its call. `descriptors` are those that were received, in order.
    ///
    /// # Errors
    ///
    /// A file came without its descriptor.
    pub(super) fn heed(
        &self,
        event: Event<'_>,
        descriptors: &mut VecDeque<OwnedFd>,
    ) -> Result<(), Fault> {
        match event {
            Event::Head {
                id,
                status,
                block,
                end,
            } => self.fill(id, end, |slot| {
                slot.head = Some(status);
                slot.begin_block(block);
            }),
            Event::Data { id, data, end } => self.fill(id, end, |slot| {
                slot.push_bytes(data, &self.worker.buffers);
            }),
            Event::File {
                id,
                offset,
                length,
                end,
            } => {
                let descriptor = descriptors.pop_front().ok_or(Fault::File)?;
                let file = Rc::new(File::from(descriptor));
                let part = FilePart {
                    file,
                    offset,
                    length,
                };
                self.fill(id, end, |slot| slot.rest.push_back(Part::File(part)));
            }
            Event::DroppedFile { id, end } => {
                drop(descriptors.pop_front().ok_or(Fault::File)?);
                if end.is_here() {
                    self.free(id);
                }
            }
            Event::Error { id, stage, text } => self.fill(id, End::Here, |slot| {
                slot.fail(stage_of(stage), text);
            }),
            Event::EarlyHints { id, block } => self.fill(id, End::Later, |slot| {
                if slot.hints.len() < HINTS_MAX {
                    slot.hints.push_back(block.to_vec());
                }
            }),
            Event::Trailers { id, block } => self.fill(id, End::Here, |slot| {
                slot.trailers = Some(block.to_vec());
            }),
            Event::Credit { id, held } => self.fill(id, End::Later, |slot| slot.note_credit(held)),
            Event::Accept { id, block } => self.fill(id, End::Later, |slot| {
                slot.is_accepted = true;
                slot.begin_block(block);
            }),
            Event::Message {
                id,
                kind,
                data,
                piece,
            } => self.fill(id, End::Later, |slot| {
                let message = self.message(kind, data, piece);
                slot.messages.push_back(message);
            }),
            Event::Close { id, code, reason } => self.fill(id, End::Here, |slot| {
                let close = Message::Close(code, reason.to_owned());
                slot.messages.push_back(close);
            }),
            Event::Freed { id } => self.free(id),
        }
        Ok(())
    }

    /// A message of an application, which counts as held for its client from now on.
    fn message(&self, kind: MessageKind, data: &[u8], piece: MessagePart) -> Message {
        let bytes = data.len() + PYTHON_MESSAGE_OVERHEAD_BYTES;
        Message::Data {
            kind,
            data: data.to_vec(),
            piece,
            share: Share::new(&self.group.held, Direction::Outbound, bytes),
        }
    }

    /// Stores something in the slot of a stream, and wakes its call.
    fn fill(&self, id: StreamId, end: End, store: impl FnOnce(&mut Slot)) {
        let waker = self.with(id, |slot| {
            store(slot);
            if end.is_here() {
                self.end(slot);
                if slot.response == Received::Open {
                    slot.response = Received::Whole;
                }
            }
            slot.waker.take()
        });
        if let Some(waker) = waker.flatten() {
            waker.wake();
        }
    }

    /// A stream that was given up has ended: its slot is free.
    fn free(&self, id: StreamId) {
        self.with(id, |slot| {
            self.end(slot);
            slot.leave(true);
        });
    }

    /// The worker is done with a stream.
    fn end(&self, slot: &mut Slot) {
        slot.has_ended = true;
        self.ended.set(self.ended.get() + 1);
        if slot.is_overdue {
            self.process.note_late_end();
        }
    }
}

fn stage_of(stage: ErrorStage) -> Stage {
    match stage {
        ErrorStage::BeforeResponse => Stage::BeforeResponse,
        ErrorStage::AfterHead => Stage::AfterHead,
        ErrorStage::Rules => Stage::Rules,
    }
}
