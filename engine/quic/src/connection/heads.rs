//! The head of a request: reading it from a new stream, also where it waits for header compression.

use sluice_message::RequestHead;
use sluice_net::multiplexed::Gone;
use sluice_wire::glitch::cost;
use sluice_wire::h1::BodyFraming;
use sluice_wire::h3::{Code, Fault, Follows, Part, Read};
use sluice_wire::sections::{Connect, End, HeadFault, RequestFacts};

use super::mux::{Mux, Received, Request, Slot, Stage};

/// What came of reading a head.
pub(super) enum Headed {
    /// It was read, and this is whether the request ends with it.
    Read(RequestFacts, End),
    /// The request is refused, with a response if the fault has a status.
    Refused(HeadFault, End),
    /// More has to arrive.
    Later,
    /// The stream is over.
    Over,
}

impl Mux {
    /// Reads the head of the request on a stream into `head`.
    pub(super) fn read_head(&self, of: Request, head: &mut RequestHead) -> Headed {
        let read = self.with(of, |slot| self.try_head(of, slot, head));
        let Some(read) = read else {
            return Headed::Over;
        };
        match read {
            Ok(headed) => headed,
            Err(fault) => {
                self.with(of, |slot| slot.stage = Stage::Gone(Gone::Broken));
                self.blame(of.id, fault);
                Headed::Over
            }
        }
    }

    fn try_head(
        &self,
        of: Request,
        slot: &mut Slot,
        head: &mut RequestHead,
    ) -> Result<Headed, Fault> {
        if let Some(section) = slot.blocked.take() {
            return self.decode(of, slot, head, section);
        }
        loop {
            if slot.rest.is_empty() {
                match self.read(of.id, slot) {
                    Received::Data => {}
                    Received::Nothing => return Ok(Headed::Later),
                    Received::Reset => {
                        self.charge(cost::RESET);
                        return Ok(Headed::Over);
                    }
                    Received::End => {
                        slot.reader.end()?;
                        return Err(Fault::Stream(Code::REQUEST_INCOMPLETE));
                    }
                }
            }
            let rest = std::mem::take(&mut slot.rest);
            let mut input = &rest[..];
            let found = match slot.reader.receive(&mut input, &self.limits)? {
                Some(Part::Head(section)) => Some(Some(section.to_vec())),
                Some(Part::HeadTooLarge) => Some(None),
                Some(Part::Data(_) | Part::Trailers(_)) => {
                    return Err(Fault::Connection(Code::FRAME_UNEXPECTED));
                }
                None => None,
            };
            let taken = rest.len() - input.len();
            slot.rest = rest.slice(taken..);
            self.charge_glitches(slot.reader.take_glitches());
            match found {
                None => {}
                Some(Some(section)) => return self.decode(of, slot, head, section),
                Some(None) => {
                    let end = self.end_of(of, slot)?;
                    return Ok(Headed::Refused(HeadFault::TooLarge, end));
                }
            }
        }
    }

    /// Whether the stream ends here.
    fn end_of(&self, of: Request, slot: &mut Slot) -> Result<End, Fault> {
        slot.stage = Stage::Open;
        if !slot.rest.is_empty() {
            return Ok(End::Later);
        }
        match self.read(of.id, slot) {
            Received::Data | Received::Nothing => Ok(End::Later),
            Received::Reset => {
                slot.stage = Stage::Gone(Gone::Closed);
                Ok(End::Later)
            }
            Received::End => {
                slot.reader.end()?;
                slot.stage = Stage::Whole;
                Ok(End::Here)
            }
        }
    }

    fn decode(
        &self,
        of: Request,
        slot: &mut Slot,
        head: &mut RequestHead,
        section: Vec<u8>,
    ) -> Result<Headed, Fault> {
        // The end may become known while the section waits for entries.
        let end = self.end_of(of, slot)?;
        let mut heads = self.heads.borrow_mut();
        let read = heads
            .request(of.id.into(), &section, end, head)
            .map_err(|_| Fault::Connection(Code::DECOMPRESSION_FAILED))?;
        let has_output = !heads.decoder.output().is_empty();
        drop(heads);
        if has_output {
            self.note_news();
        }
        match read {
            Read::Blocked => {
                slot.stage = Stage::Head;
                slot.blocked = Some(section);
                Ok(Headed::Later)
            }
            Read::Faulty(fault) => Ok(Headed::Refused(fault, end)),
            Read::Done(facts) => {
                slot.reader.expect(match (facts.connect, facts.body) {
                    (Connect::Authority | Connect::WebSocket, _) => Follows::Tunnel,
                    (Connect::No, BodyFraming::Length(length)) => Follows::Length(length),
                    (Connect::No, _) => Follows::Content,
                });
                Ok(Headed::Read(facts, end))
            }
        }
    }
}
