//! The streams that are not requests (RFC 9114, section 6.2): the control streams of both ends, and those of QPACK, whose
//! dynamic table is not used.

use quinn_proto::{Dir, StreamId};
use sluice_wire::glitch::cost;
use sluice_wire::h3::qpack::DecoderStreamReader;
use sluice_wire::h3::{Code, ControlEvent, ControlReader, Settings, StreamKind, StreamKindReader};

use super::mux::{Mux, Received};

/// The streams of one connection that are not requests.
pub(super) struct Control {
    /// Those of the upstream; QUIC bounds their number.
    theirs: Vec<Theirs>,
    /// Our control stream, once it is open.
    own: Option<StreamId>,
    /// What QUIC did not take of it yet.
    unsent: Vec<u8>,
}

struct Theirs {
    id: StreamId,
    kind: Kind,
}

enum Kind {
    /// It has not said what it is for.
    Unsaid(StreamKindReader),
    Control(Box<ControlReader>),
    Encoder,
    Decoder(DecoderStreamReader),
}

impl Control {
    /// Streams of a connection on which nothing was sent.
    pub(super) fn new(mux: &Mux) -> Control {
        let settings = Settings {
            table_bytes_max: mux.limits.table_bytes_max.into(),
            blocked_streams_max: mux.limits.blocked_streams_max.into(),
            section_bytes_max: mux.limits.block_bytes_max as u64,
            extended_connect: false,
            datagrams: false,
        };
        let mut unsent: Vec<u8> = StreamKind::Control.number().into_iter().collect();
        settings.encode(&mut unsent);
        Control {
            theirs: Vec::new(),
            own: None,
            unsent,
        }
    }

    /// Sends what is left of our control stream, as soon as the upstream allows. Returns whether QUIC took some.
    pub(super) fn flush(&mut self, mux: &Mux) -> bool {
        if self.unsent.is_empty() {
            return false;
        }
        let mut quic = mux.quic.borrow_mut();
        let id = match self.own {
            Some(id) => id,
            None => {
                let Some(id) = quic.streams().open(Dir::Uni) else {
                    return false;
                };
                self.own = Some(id);
                id
            }
        };
        let Ok(count) = quic.send_stream(id).write(&self.unsent) else {
            return false;
        };
        self.unsent.drain(..count);
        count > 0
    }

    /// The upstream has opened a stream.
    pub(super) fn accept(&mut self, id: StreamId) {
        let kind = Kind::Unsaid(StreamKindReader::default());
        self.theirs.push(Theirs { id, kind });
    }

    /// Reads from a stream of the upstream.
    ///
    /// # Errors
    /// The connection has to be closed.
    pub(super) fn read(&mut self, mux: &Mux, id: StreamId) -> Result<(), Code> {
        while let Some(at) = self.theirs.iter().position(|stream| stream.id == id) {
            match mux.read(id) {
                Received::Nothing => return Ok(()),
                Received::Data(bytes) => self.digest(mux, at, &bytes)?,
                Received::End | Received::Reset(_) => {
                    return match self.theirs.swap_remove(at).kind {
                        Kind::Unsaid(_) => {
                            mux.charge(cost::IGNORED);
                            Ok(())
                        }
                        Kind::Control(_) | Kind::Encoder | Kind::Decoder(_) => {
                            Err(Code::CLOSED_CRITICAL_STREAM)
                        }
                    };
                }
            }
        }
        Ok(())
    }

    fn digest(&mut self, mux: &Mux, at: usize, mut input: &[u8]) -> Result<(), Code> {
        if let Kind::Unsaid(reader) = &mut self.theirs[at].kind {
            let Some(kind) = reader.receive(&mut input) else {
                return Ok(());
            };
            let Some(kind) = kind_of(kind)? else {
                // RFC 9114, section 6.2: its bytes are of no use.
                mux.charge(cost::IGNORED);
                mux.stop(self.theirs.swap_remove(at).id);
                return Ok(());
            };
            let same = std::mem::discriminant(&kind);
            let is_same = |other: &Theirs| std::mem::discriminant(&other.kind) == same;
            if self.theirs.iter().any(is_same) {
                return Err(Code::STREAM_CREATION_ERROR);
            }
            self.theirs[at].kind = kind;
        }
        match &mut self.theirs[at].kind {
            Kind::Unsaid(_) => Ok(()),
            Kind::Encoder => {
                let mut heads = mux.heads.borrow_mut();
                let received = heads.decoder.receive(input);
                received.map_err(|_| Code::ENCODER_STREAM_ERROR)
            }
            Kind::Decoder(reader) => {
                reader.receive(input)?;
                mux.charge_frames(reader.take_glitches());
                Ok(())
            }
            Kind::Control(reader) => {
                while let Some(event) = reader.receive(&mut input, &mux.limits)? {
                    match event {
                        // Requests are within any limits that may be announced, and use neither table nor datagrams.
                        ControlEvent::Settings(_) | ControlEvent::Priority { .. } => {}
                        ControlEvent::GoAway(from) => mux.go_away(from),
                    }
                }
                mux.charge_frames(reader.take_glitches());
                Ok(())
            }
        }
    }
}

/// What is read from a stream of this kind; `None` if it means nothing to us.
fn kind_of(kind: StreamKind) -> Result<Option<Kind>, Code> {
    match kind {
        StreamKind::Control => Ok(Some(Kind::Control(Box::new(ControlReader::of_server())))),
        StreamKind::Encoder => Ok(Some(Kind::Encoder)),
        StreamKind::Decoder => Ok(Some(Kind::Decoder(DecoderStreamReader::default()))),
        // RFC 9114, section 4.6: no push was allowed.
        StreamKind::Push => Err(Code::ID_ERROR),
        StreamKind::Unknown => Ok(None),
    }
}
