//! The streams' side of a connection: bodies of requests out of QUIC, responses into it.

use std::rc::Rc;

use bytes::Bytes;
use sluice_message::{Fields, Moment, Status};
use sluice_net::FileSlice;
use sluice_net::multiplexed::{Carrier, Gone, Moved, NotSent, Taken, WaitsFor};
use sluice_net::retirement::InProgress;
use sluice_net::sys::files::append_at;
use sluice_net::worker::Worker;
use sluice_wire::glitch::cost;
use sluice_wire::h1::BodyFraming;
use sluice_wire::h3::{Code, Fault, FrameKind, Part, Read, encode_frame_head};
use sluice_wire::sections::End;

use super::mux::{Mux, Received, Request, Response, Slot, Stage};
use crate::limits::{COPY_BYTES_MAX, PIECE_BYTES_MAX};

impl Carrier for Mux {
    type Id = Request;

    fn worker(&self) -> &Rc<Worker> {
        &self.worker
    }

    fn requests(&self) -> &InProgress {
        &self.requests
    }

    fn moved(&self) -> &Moved {
        &self.moved
    }

    fn gone(&self, id: Request) -> Option<Gone> {
        match self.stage(id) {
            Some(Stage::Gone(gone)) => Some(gone),
            Some(Stage::Head | Stage::Open | Stage::Unwanted | Stage::Whole) => None,
            None => Some(Gone::Closed),
        }
    }

    /// Always: what QUIC does not take waits in the slot, and the stream with it.
    fn has_room(&self) -> bool {
        true
    }

    fn capacity(&self, id: Request) -> usize {
        let is_free = self.with(id, |slot| slot.unsent.is_empty());
        match is_free {
            Some(true) => PIECE_BYTES_MAX,
            Some(false) | None => 0,
        }
    }

    fn await_room(&self, id: Request) -> WaitsFor {
        self.with(id, |slot| slot.waits_for = WaitsFor::Window);
        WaitsFor::Window
    }

    fn send_interim(&self, id: Request, status: Status, fields: &Fields) {
        self.with(id, |slot| {
            if slot.unsent.is_empty() {
                let mut writer = self.writer.borrow_mut();
                writer.interim(status, fields, &mut slot.head);
            }
        });
    }

    fn send_head(
        &self,
        id: Request,
        (status, fields): (Status, &Fields),
        framing: BodyFraming,
        end: End,
    ) -> Result<u64, Gone> {
        let date = self.worker.clock.date();
        self.sending(id, |slot| {
            let before = slot.head.len();
            let mut writer = self.writer.borrow_mut();
            writer.response(status, fields, framing, &date, &mut slot.head);
            let bytes = (slot.head.len() - before) as u64;
            if end.is_here() {
                self.finish(id, slot)?;
            }
            Ok(bytes)
        })
    }

    fn send_data(&self, id: Request, data: &[u8], end: End) -> Result<usize, Gone> {
        self.sending(id, |slot| {
            if !slot.unsent.is_empty() {
                return Ok(0);
            }
            let count = data.len().min(PIECE_BYTES_MAX);
            let piece = &data[..count];
            if count > 0 {
                encode_frame_head(FrameKind::DATA, count as u64, &mut slot.head);
            }
            if count <= COPY_BYTES_MAX {
                slot.head.extend_from_slice(piece);
            } else {
                slot.queue(Bytes::copy_from_slice(piece));
            }
            if end.is_here() && count == data.len() {
                self.finish(id, slot)?;
            } else if count > COPY_BYTES_MAX {
                self.flush(id.id, slot)?;
            }
            Ok(count)
        })
    }

    fn send_file(
        &self,
        id: Request,
        file: &FileSlice,
        offset: u64,
        count: usize,
    ) -> Result<(), NotSent> {
        let mut piece = Vec::with_capacity(count);
        append_at(&file.file, offset, count, &mut piece).map_err(NotSent::File)?;
        let sent = self.sending(id, |slot| {
            encode_frame_head(FrameKind::DATA, count as u64, &mut slot.head);
            slot.queue(Bytes::from(piece));
            self.flush(id.id, slot).map(|_| ())
        });
        sent.map_err(NotSent::Gone)
    }

    fn send_trailers(&self, id: Request, fields: &Fields) -> Result<(), Gone> {
        self.sending(id, |slot| {
            let mut writer = self.writer.borrow_mut();
            writer.trailers(fields, &mut slot.head);
            drop(writer);
            self.finish(id, slot)
        })
    }

    fn is_flushed(&self, id: Request) -> bool {
        self.with(id, |slot| slot.unsent.is_empty() && slot.head.is_empty())
            .unwrap_or(true)
    }

    fn take(&self, id: Request, buf: &mut Vec<u8>) -> Taken {
        let taken = self.with(id, |slot| match slot.stage {
            Stage::Gone(gone) => Taken::Gone(gone),
            Stage::Head | Stage::Open | Stage::Unwanted | Stage::Whole => {
                self.take_from(id, slot, buf)
            }
        });
        taken.unwrap_or(Taken::Gone(Gone::Closed))
    }

    fn consumed(&self, id: Request, count: usize) {
        // QUIC has returned the window when the data was taken from it.
        self.with(id, |slot| slot.bytes_read += count as u64);
    }

    fn give_up(&self, id: Request, _left: usize) {
        let is_open = self.with(id, |slot| {
            slot.rest = Bytes::new();
            let is_open = slot.stage == Stage::Open;
            if is_open {
                slot.stage = Stage::Unwanted;
            }
            is_open
        });
        // RFC 9114, section 4.1: a response that does not depend on the rest need not wait for it.
        if is_open == Some(true) {
            self.stop(id.id, Code::NO_ERROR);
        }
    }

    fn bytes_read(&self, id: Request) -> u64 {
        self.with(id, |slot| slot.bytes_read).unwrap_or_default()
    }

    /// Never: each stream has its own window, which is returned as it is read.
    fn was_withheld(&self, _since: Moment) -> bool {
        false
    }
}

impl Mux {
    fn sending<T>(
        &self,
        id: Request,
        send: impl FnOnce(&mut Slot) -> Result<T, Gone>,
    ) -> Result<T, Gone> {
        let sent = self.with(id, |slot| match slot.stage {
            Stage::Gone(gone) => Err(gone),
            Stage::Head | Stage::Open | Stage::Unwanted | Stage::Whole => send(slot),
        });
        sent.unwrap_or(Err(Gone::Closed))
    }

    /// The response has ended: gives QUIC what is left of it, and the end.
    fn finish(&self, id: Request, slot: &mut Slot) -> Result<(), Gone> {
        slot.response = Response::Ending;
        self.flush(id.id, slot).map(|_| ())
    }

    /// Moves content from QUIC to `buf`, up to the size of a piece.
    fn take_from(&self, id: Request, slot: &mut Slot, buf: &mut Vec<u8>) -> Taken {
        if buf.capacity() == 0 {
            *buf = self.worker.buffers.small();
        }
        let outcome = self.fill(id, slot, buf);
        if let Err(fault) = outcome {
            slot.stage = Stage::Gone(Gone::Broken);
            self.blame(id.id, fault);
            return Taken::Gone(Gone::Broken);
        }
        let received = &self.moved.received;
        received.set(received.get() + buf.len() as u64);
        match slot.stage {
            _ if !buf.is_empty() => Taken::Content,
            Stage::Gone(gone) => Taken::Gone(gone),
            Stage::Whole => Taken::End(slot.trailers.take()),
            Stage::Head | Stage::Open | Stage::Unwanted => Taken::Nothing,
        }
    }

    fn fill(&self, id: Request, slot: &mut Slot, buf: &mut Vec<u8>) -> Result<(), Fault> {
        if let Some(section) = slot.blocked.take() {
            self.read_trailers(id, slot, section)?;
            if slot.blocked.is_some() {
                return Ok(());
            }
        }
        while slot.stage == Stage::Open && buf.len() < buf.capacity() {
            if slot.rest.is_empty() {
                match self.read(id.id, slot) {
                    Received::Data => {}
                    Received::Nothing => return Ok(()),
                    Received::Reset => {
                        self.charge(cost::RESET);
                        slot.stage = Stage::Gone(Gone::Closed);
                    }
                    Received::End => {
                        slot.reader.end()?;
                        slot.stage = Stage::Whole;
                    }
                }
                continue;
            }
            self.parse(id, slot, buf)?;
            if slot.blocked.is_some() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Takes apart what was received, up to the size of `buf`.
    fn parse(&self, id: Request, slot: &mut Slot, buf: &mut Vec<u8>) -> Result<(), Fault> {
        let rest = std::mem::take(&mut slot.rest);
        let room = (buf.capacity() - buf.len()).max(1);
        let mut input = &rest[..rest.len().min(room)];
        let offered = input.len();
        let mut section = None;
        while let Some(part) = slot.reader.receive(&mut input, &self.limits)? {
            match part {
                Part::Data(data) => buf.extend_from_slice(data),
                Part::Trailers(trailers) => {
                    section = Some(trailers.to_vec());
                    break;
                }
                // Trailers beyond the limit are not kept; the message goes on without.
                Part::HeadTooLarge => {}
                Part::Head(_) => return Err(Fault::Connection(Code::FRAME_UNEXPECTED)),
            }
        }
        let taken = offered - input.len();
        slot.rest = rest.slice(taken..);
        self.charge_glitches(slot.reader.take_glitches());
        match section {
            Some(section) => self.read_trailers(id, slot, section),
            None => Ok(()),
        }
    }

    fn read_trailers(&self, id: Request, slot: &mut Slot, section: Vec<u8>) -> Result<(), Fault> {
        let mut heads = self.heads.borrow_mut();
        let read = heads
            .trailers(id.id.into(), &section)
            .map_err(|_| Fault::Connection(Code::DECOMPRESSION_FAILED))?;
        match read {
            Read::Done(fields) => slot.trailers = Some(fields),
            Read::Blocked => slot.blocked = Some(section),
            Read::Faulty(_) => return Err(Fault::Stream(Code::MESSAGE_ERROR)),
        }
        // Acknowledgements of entries.
        self.note_news();
        Ok(())
    }
}
