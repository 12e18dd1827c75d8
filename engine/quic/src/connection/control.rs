//! The streams that are not requests (RFC 9114, section 6.2): the control streams of both ends and those of QPACK.

use quinn_proto::{Dir, StreamId, VarInt};
use sluice_wire::glitch::cost;
use sluice_wire::h3::qpack::DecoderStreamReader;
use sluice_wire::h3::{
    Code, ControlEvent, ControlReader, FrameKind, Settings, StreamKind, StreamKindReader,
    encode_frame_head, encode_varint,
};

use super::mux::{Mux, Received, Slot};

/// The streams of one connection that are not requests.
#[derive(Default)]
pub(super) struct Control {
    /// Those of the client.
    theirs: Vec<Theirs>,
    /// Our control stream, once it is open.
    own: Own,
    /// Our stream of decoder instructions, once there are any.
    decoder: Own,
}

/// A stream of ours, with what QUIC did not take yet.
#[derive(Default)]
struct Own {
    id: Option<StreamId>,
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
    /// It means nothing to us.
    Ignored,
}

impl Kind {
    fn of(kind: StreamKind) -> Result<Kind, Code> {
        match kind {
            StreamKind::Control => Ok(Kind::Control(Box::new(ControlReader::of_client()))),
            StreamKind::Encoder => Ok(Kind::Encoder),
            StreamKind::Decoder => Ok(Kind::Decoder(DecoderStreamReader::default())),
            // RFC 9114, section 6.2.2: only servers push.
            StreamKind::Push => Err(Code::STREAM_CREATION_ERROR),
            StreamKind::Unknown => Ok(Kind::Ignored),
        }
    }

    fn is_critical(&self) -> bool {
        match self {
            Kind::Control(_) | Kind::Encoder | Kind::Decoder(_) => true,
            Kind::Unsaid(_) | Kind::Ignored => false,
        }
    }
}

/// What the client says beside its requests.
pub(super) enum Said {
    /// Nothing that the connection has to heed.
    Nothing,
    /// It goes away.
    GoAway,
}

impl Control {
    /// Opens our control stream with our settings, as soon as the client allows.
    pub(super) fn open(&mut self, mux: &Mux) {
        if self.own.id.is_none() && self.own.unsent.is_empty() {
            let settings = Settings {
                table_bytes_max: mux.limits.table_bytes_max.into(),
                blocked_streams_max: mux.limits.blocked_streams_max.into(),
                section_bytes_max: mux.limits.block_bytes_max as u64,
                extended_connect: true,
                datagrams: false,
            };
            settings.encode(&mut self.own.unsent);
        }
        self.own.flush(mux, StreamKind::Control);
    }

    /// Announces that requests from stream `from` on are not served.
    pub(super) fn go_away(&mut self, mux: &Mux, from: u64) {
        let mut payload = Vec::new();
        encode_varint(from, &mut payload);
        let out = &mut self.own.unsent;
        encode_frame_head(FrameKind::GOAWAY, payload.len() as u64, out);
        out.extend_from_slice(&payload);
        self.own.flush(mux, StreamKind::Control);
    }

    /// Sends what is left of our streams, and the instructions of the decoder.
    pub(super) fn flush(&mut self, mux: &Mux) {
        if !self.own.unsent.is_empty() {
            self.own.flush(mux, StreamKind::Control);
        }
        let mut heads = mux.heads.borrow_mut();
        let output = heads.decoder.output();
        if !output.is_empty() {
            self.decoder.unsent.append(output);
        }
        drop(heads);
        if !self.decoder.unsent.is_empty() {
            self.decoder.flush(mux, StreamKind::Decoder);
        }
    }

    /// The client has opened a stream.
    pub(super) fn accept(&mut self, id: StreamId) {
        let kind = Kind::Unsaid(StreamKindReader::default());
        self.theirs.push(Theirs { id, kind });
    }

    /// Reads from a stream of the client; a stream that is not known is one of a request.
    ///
    /// # Errors
    ///
    /// The connection has to be closed.
    pub(super) fn read(&mut self, mux: &Mux, id: StreamId) -> Result<Said, Code> {
        let mut said = Said::Nothing;
        let Some(at) = self.theirs.iter().position(|stream| stream.id == id) else {
            return Ok(said);
        };
        let mut slot = Slot::default();
        loop {
            match mux.read(id, &mut slot) {
                Received::Nothing => return Ok(said),
                Received::Data => {
                    let bytes = std::mem::take(&mut slot.rest);
                    if let Said::GoAway = self.digest(mux, at, &bytes)? {
                        said = Said::GoAway;
                    }
                }
                Received::End | Received::Reset => {
                    let ended = self.theirs.swap_remove(at);
                    if ended.kind.is_critical() {
                        return Err(Code::CLOSED_CRITICAL_STREAM);
                    }
                    // It was opened for nothing.
                    mux.charge(cost::IGNORED);
                    return Ok(said);
                }
            }
        }
    }

    fn digest(&mut self, mux: &Mux, at: usize, mut input: &[u8]) -> Result<Said, Code> {
        let mut said = Said::Nothing;
        if let Kind::Unsaid(reader) = &mut self.theirs[at].kind {
            let Some(kind) = reader.receive(&mut input) else {
                return Ok(said);
            };
            let kind = Kind::of(kind)?;
            let same = std::mem::discriminant(&kind);
            let is_same = |other: &Theirs| std::mem::discriminant(&other.kind) == same;
            if kind.is_critical() && self.theirs.iter().any(is_same) {
                return Err(Code::STREAM_CREATION_ERROR);
            }
            self.theirs[at].kind = kind;
        }
        let Theirs { id, kind } = &mut self.theirs[at];
        match kind {
            Kind::Unsaid(_) => {}
            Kind::Ignored => {
                // RFC 9114, section 6.2: its bytes are of no use.
                mux.charge(cost::IGNORED);
                mux.stop(*id, Code::STREAM_CREATION_ERROR);
                self.theirs.swap_remove(at);
            }
            Kind::Encoder => {
                let mut heads = mux.heads.borrow_mut();
                heads
                    .decoder
                    .receive(input)
                    .map_err(|_| Code::ENCODER_STREAM_ERROR)?;
                while let Some(stream) = heads.decoder.ready() {
                    mux.unblock(stream);
                }
            }
            Kind::Decoder(reader) => {
                reader.receive(input)?;
                mux.charge_frames(reader.take_glitches());
            }
            Kind::Control(reader) => {
                while let Some(event) = reader.receive(&mut input, &mux.limits)? {
                    match event {
                        ControlEvent::Settings(_) => {}
                        ControlEvent::GoAway(_) => said = Said::GoAway,
                        ControlEvent::Priority { stream, priority } => {
                            if let Ok(number) = VarInt::from_u64(stream)
                                && let id = StreamId::from(number)
                                && mux.find(id).is_some()
                            {
                                mux.set_priority(id, priority);
                            }
                        }
                    }
                }
                mux.charge_frames(reader.take_glitches());
            }
        }
        Ok(said)
    }
}

impl Own {
    /// Hands what is unsent to QUIC, opening the stream first if the client allows.
    fn flush(&mut self, mux: &Mux, kind: StreamKind) {
        let mut quic = mux.quic.borrow_mut();
        let id = match self.id {
            Some(id) => id,
            None => {
                let Some(id) = quic.streams().open(Dir::Uni) else {
                    return;
                };
                // Requests wait for this rather than the other way round.
                let _ = quic.send_stream(id).set_priority(i32::MAX);
                self.id = Some(id);
                self.unsent.splice(..0, kind.number());
                id
            }
        };
        let written = quic.send_stream(id).write(&self.unsent);
        drop(quic);
        if let Ok(count) = written {
            self.unsent.drain(..count);
            mux.note_news();
        }
    }
}
