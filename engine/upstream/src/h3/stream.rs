//! A connection as its calls use it: requests into QUIC's streams, responses out of them.

use std::task::{Context, Poll};

use bytes::Bytes;
use sluice_message::{Fields, RequestHead, ResponseHead};
use sluice_wire::h1::BodyFraming;
use sluice_wire::h3::{Code, Fault, Follows, FrameKind, Part, Read, encode_frame_head};
use sluice_wire::sections::{End, HeadFault};

use super::failures::{Ended, Gone, faulty};
use super::mux::{Mux, Place, Received, Request, Response, Slot, Stage};
use crate::limits::{HTTP3_PIECE_BYTES_MAX, INTERIM_MAX};
use crate::streams::{Found, Membership, Shared, Streams, Taken};

/// The head of a DATA frame: its kind, and a length of up to 4 bytes.
const FRAME_HEAD_BYTES: usize = 5;

impl Streams for Mux {
    type Id = Place;
    type Ending = Ended;

    fn membership(&self) -> &Membership<Mux> {
        &self.membership
    }

    fn note_idle(&self) {
        if self.stage.get() == Stage::New {
            self.stage.set(Stage::Open);
        }
        self.membership.rest(self);
    }

    fn open(&self, head: &RequestHead, framing: BodyFraming, end: End) -> Option<Place> {
        if !self.has_room() {
            return None;
        }
        let place = self.begin(self.spare.take()?, &head.method);
        if self.stage.get() == Stage::New {
            self.stage.set(Stage::Open);
        }
        let mut bytes = Vec::new();
        self.writer.borrow_mut().request(head, framing, &mut bytes);
        self.with(place, |slot| {
            slot.unsent.push(Bytes::from(bytes));
            if end.is_here() {
                slot.request = Request::Ending;
            }
            self.flush(place.id, slot);
        });
        self.membership.wake_driver();
        Some(place)
    }

    fn release(&self, place: Place) {
        let released = self.with(place, |slot| {
            // Who knows the length of a body need not have read its end.
            self.fill(place, slot);
            std::mem::take(slot)
        });
        let Some(slot) = released else { return };
        self.worker.buffers.give_back(slot.inbound);
        let is_sent = matches!(slot.request, Request::Ended | Request::Unwanted);
        match slot.response {
            Response::Whole if is_sent => self.refund(),
            // RFC 9114, section 4.1.1: neither end needs the rest.
            Response::Head | Response::Body | Response::Whole | Response::Gone(_) => {
                self.reset(place.id, Code::REQUEST_CANCELLED);
            }
        }
        self.membership.end(self);
    }

    fn was_sent(&self, place: Place) -> bool {
        self.with(place, |slot| self.has_sent_since(slot))
            .unwrap_or(true)
    }

    fn find_head(
        &self,
        place: Place,
        spare: impl FnOnce() -> ResponseHead,
        cx: &Context<'_>,
    ) -> Found<Gone> {
        let found = self.with(place, |slot| {
            let found = self.read_head(place, slot, spare);
            if matches!(found, Found::Nothing) {
                slot.listen(cx);
            }
            found
        });
        found.unwrap_or(Found::Gone(Gone::Closed))
    }

    fn take(&self, place: Place, buf: &mut Vec<u8>, cx: &Context<'_>) -> Taken<Gone> {
        let taken = self.with(place, |slot| {
            if slot.inbound.is_empty() {
                self.fill(place, slot);
            }
            if !slot.inbound.is_empty() {
                std::mem::swap(&mut slot.inbound, buf);
                return Taken::Content;
            }
            match slot.response {
                Response::Whole => Taken::End(slot.trailers.take()),
                Response::Gone(gone) => Taken::Gone(gone),
                Response::Head | Response::Body => {
                    slot.listen(cx);
                    Taken::Nothing
                }
            }
        });
        taken.unwrap_or(Taken::Gone(Gone::Closed))
    }

    fn whole(&self, place: Place) -> Option<usize> {
        let found = self.with(place, |slot| {
            self.fill(place, slot);
            let is_whole = slot.response == Response::Whole && slot.trailers.is_none();
            is_whole.then_some(slot.inbound.len())
        });
        found.flatten()
    }

    fn copy_whole(&self, place: Place, out: &mut Vec<u8>) {
        self.with(place, |slot| out.extend_from_slice(&slot.inbound));
    }

    /// QUIC has returned the window when the data was taken from it.
    fn consumed(&self, _place: Place, _count: usize) {}

    fn poll_capacity(&self, place: Place, cx: &Context<'_>) -> Poll<bool> {
        let capacity = self.with(place, |slot| {
            let is_gone = slot.lost.is_some() || matches!(slot.response, Response::Gone(_));
            if slot.request != Request::Open || is_gone {
                return Poll::Ready(false);
            }
            if slot.unsent.is_empty() {
                return Poll::Ready(true);
            }
            slot.listen(cx);
            Poll::Pending
        });
        capacity.unwrap_or(Poll::Ready(false))
    }

    fn send_data(&self, place: Place, data: &[u8], end: End) -> Option<usize> {
        let sent = self.with(place, |slot| {
            if slot.request != Request::Open {
                return None;
            }
            let count = data.len().min(HTTP3_PIECE_BYTES_MAX);
            if count > 0 {
                let mut frame = Vec::with_capacity(FRAME_HEAD_BYTES + count);
                encode_frame_head(FrameKind::DATA, count as u64, &mut frame);
                frame.extend_from_slice(&data[..count]);
                slot.unsent.push(Bytes::from(frame));
            }
            if end.is_here() && count == data.len() {
                slot.request = Request::Ending;
            }
            self.flush(place.id, slot);
            Some(count)
        });
        self.membership.wake_driver();
        sent.flatten()
    }

    fn send_trailers(&self, place: Place, fields: &Fields) {
        self.with(place, |slot| {
            if slot.request == Request::Open {
                let mut bytes = Vec::new();
                self.writer.borrow_mut().trailers(fields, &mut bytes);
                slot.unsent.push(Bytes::from(bytes));
                slot.request = Request::Ending;
                self.flush(place.id, slot);
            }
        });
        self.membership.wake_driver();
    }
}

impl Mux {
    /// Reads the head of a response, as far as it has arrived.
    fn read_head(
        &self,
        place: Place,
        slot: &mut Slot,
        spare: impl FnOnce() -> ResponseHead,
    ) -> Found<Gone> {
        loop {
            match slot.response {
                Response::Gone(gone) => return Found::Gone(gone),
                // Its head was returned before.
                Response::Body | Response::Whole => return Found::Nothing,
                Response::Head => {}
            }
            if slot.rest.is_empty() && !self.receive(place, slot) {
                match slot.response {
                    Response::Gone(_) => continue,
                    Response::Head | Response::Body | Response::Whole => return Found::Nothing,
                }
            }
            match self.next_section(slot) {
                Ok(None) => {}
                Ok(Some(section)) => {
                    return self
                        .decode_head(place, slot, &section, spare())
                        .unwrap_or_else(|gone| {
                            slot.response = Response::Gone(gone);
                            Found::Gone(gone)
                        });
                }
                Err(gone) => {
                    self.give_up(place, gone);
                    slot.response = Response::Gone(gone);
                }
            }
        }
    }

    /// The field section of the next head in what was received.
    fn next_section(&self, slot: &mut Slot) -> Result<Option<Vec<u8>>, Gone> {
        let rest = std::mem::take(&mut slot.rest);
        let mut input = &rest[..];
        let section = match slot.reader.receive(&mut input, &self.limits) {
            Ok(Some(Part::Head(section))) => Some(section.to_vec()),
            Ok(Some(Part::HeadTooLarge)) => return Err(Gone::Broken(Some(HeadFault::TooLarge))),
            Ok(Some(Part::Data(_) | Part::Trailers(_))) => {
                return Err(faulty(Code::FRAME_UNEXPECTED));
            }
            Ok(None) => None,
            Err(fault) => return Err(gone_by(fault)),
        };
        let taken = rest.len() - input.len();
        slot.rest = rest.slice(taken..);
        self.charge_glitches(slot.reader.take_glitches());
        Ok(section)
    }

    fn decode_head(
        &self,
        place: Place,
        slot: &mut Slot,
        section: &[u8],
        mut head: ResponseHead,
    ) -> Result<Found<Gone>, Gone> {
        // Whether the stream ends with the head decides what its body may be.
        let end = End::here_if(slot.rest.is_empty() && self.is_at_end(place, slot));
        let mut heads = self.heads.borrow_mut();
        let read = heads.response(place.id.into(), section, end, &slot.method, &mut head);
        drop(heads);
        let framing = match read {
            Ok(Read::Done(framing)) => framing,
            Ok(Read::Faulty(fault)) => {
                let gone = Gone::Broken(Some(fault));
                self.give_up(place, gone);
                return Err(gone);
            }
            // The table that it would wait for was not offered.
            Ok(Read::Blocked) | Err(_) => {
                let gone = faulty(Code::DECOMPRESSION_FAILED);
                self.give_up(place, gone);
                return Err(gone);
            }
        };
        if head.status.is_informational() {
            slot.interims_seen += 1;
            if slot.interims_seen > INTERIM_MAX {
                self.give_up(place, Gone::Babbled);
                return Err(Gone::Babbled);
            }
            slot.reader.expect(Follows::Head);
            return Ok(Found::Interim(head));
        }
        slot.reader.expect(match framing {
            BodyFraming::None => Follows::Length(0),
            BodyFraming::Length(length) => Follows::Length(length),
            BodyFraming::Chunked | BodyFraming::UntilClose => Follows::Content,
        });
        slot.response = match (end.is_here(), slot.response) {
            (true, _) => Response::Whole,
            // It may have been reset meanwhile.
            (false, Response::Gone(gone)) => Response::Gone(gone),
            (false, _) => Response::Body,
        };
        Ok(Found::Final(head, framing))
    }

    /// Whether the stream ends here; otherwise what comes next is received.
    fn is_at_end(&self, place: Place, slot: &mut Slot) -> bool {
        match self.read(place.id) {
            Received::Data(bytes) => slot.rest = bytes,
            Received::Nothing => {}
            Received::Reset(code) => slot.response = Response::Gone(gone_with(code)),
            Received::End => return true,
        }
        false
    }

    /// Receives the next piece of a response. Returns whether there is one.
    fn receive(&self, place: Place, slot: &mut Slot) -> bool {
        match self.read(place.id) {
            Received::Data(bytes) => {
                slot.rest = bytes;
                return true;
            }
            Received::Nothing => {
                if let Some(gone) = slot.lost {
                    slot.response = Response::Gone(gone);
                }
            }
            Received::Reset(code) => slot.response = Response::Gone(gone_with(code)),
            Received::End => {
                slot.response = match slot.reader.end() {
                    Ok(()) => Response::Whole,
                    Err(fault) => {
                        let gone = gone_by(fault);
                        self.give_up(place, gone);
                        Response::Gone(gone)
                    }
                }
            }
        }
        false
    }

    /// Moves content from QUIC to the slot, up to the size of a buffer.
    fn fill(&self, place: Place, slot: &mut Slot) {
        while slot.response == Response::Body {
            if slot.rest.is_empty() && !self.receive(place, slot) {
                return;
            }
            if slot.inbound.capacity() == 0 {
                slot.inbound = self.worker.buffers.small();
            }
            if slot.inbound.len() == slot.inbound.capacity() {
                return;
            }
            if let Err(gone) = self.parse(place, slot) {
                self.give_up(place, gone);
                slot.response = Response::Gone(gone);
            }
        }
    }

    /// Takes apart what was received, up to the room for content.
    fn parse(&self, place: Place, slot: &mut Slot) -> Result<(), Gone> {
        let rest = std::mem::take(&mut slot.rest);
        let room = slot.inbound.capacity() - slot.inbound.len();
        let mut input = &rest[..rest.len().min(room)];
        let offered = input.len();
        loop {
            let part = slot.reader.receive(&mut input, &self.limits);
            match part.map_err(gone_by)? {
                None => break,
                Some(Part::Data(data)) => slot.inbound.extend_from_slice(data),
                Some(Part::Trailers(section)) => {
                    let mut heads = self.heads.borrow_mut();
                    slot.trailers = match heads.trailers(place.id.into(), section) {
                        Ok(Read::Done(fields)) => Some(fields),
                        Ok(Read::Faulty(fault)) => return Err(Gone::Broken(Some(fault))),
                        Ok(Read::Blocked) | Err(_) => {
                            return Err(faulty(Code::DECOMPRESSION_FAILED));
                        }
                    };
                }
                // Trailers beyond the limit are not kept; the response goes on without.
                Some(Part::HeadTooLarge) => {}
                Some(Part::Head(_)) => return Err(faulty(Code::FRAME_UNEXPECTED)),
            }
        }
        let taken = offered - input.len();
        slot.rest = rest.slice(taken..);
        self.charge_glitches(slot.reader.take_glitches());
        Ok(())
    }

    /// A response has broken a rule: ends its stream, or the connection.
    fn give_up(&self, place: Place, gone: Gone) {
        match gone {
            Gone::Ended(Ended::Faulty(code)) => self.fail(code),
            Gone::Babbled => self.reset(place.id, Code::EXCESSIVE_LOAD),
            Gone::Refused
            | Gone::Reset(_)
            | Gone::Broken(_)
            | Gone::Closed
            | Gone::Ended(Ended::Left(_) | Ended::Broke(_) | Ended::Silent) => {
                self.reset(place.id, Code::MESSAGE_ERROR)
            }
        }
    }
}

/// Why a response is gone whose stream the upstream has reset.
fn gone_with(code: Code) -> Gone {
    match code {
        Code::REQUEST_REJECTED => Gone::Refused,
        code => Gone::Reset(code),
    }
}

/// Why a response with such a fault is gone.
fn gone_by(fault: Fault) -> Gone {
    match fault {
        Fault::Stream(_) => Gone::Broken(None),
        Fault::Connection(code) => faulty(code),
    }
}
