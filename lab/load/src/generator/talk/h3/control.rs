//! The streams that are not requests (RFC 9114, section 6.2): the control streams of both ends and those of QPACK.

use quinn_proto::{Connection, Dir, StreamId};
use sluice_wire::h3::qpack::{Decoder, DecoderStreamReader};
use sluice_wire::h3::{
    Code, ControlEvent, ControlReader, Limits, Settings, StreamKind, StreamKindReader,
};

use super::{Received, receive};

/// The streams of a connection that are not requests.
#[derive(Debug, Default)]
pub struct Control {
    /// Those of the server. QUIC bounds how many may be open.
    theirs: Vec<(StreamId, Kind)>,
    /// Our control stream.
    own: Own,
    /// Our stream of decoder instructions, once there are any.
    decoder: Own,
}

/// A stream of ours, with what QUIC has not taken yet.
#[derive(Debug, Default)]
struct Own {
    id: Option<StreamId>,
    unsent: Vec<u8>,
}

#[derive(Debug)]
enum Kind {
    /// Its kind has not arrived.
    Unknown(StreamKindReader),
    Control(Box<ControlReader>),
    Encoder,
    Decoder(DecoderStreamReader),
    /// A kind that has no meaning here.
    Ignored,
}

impl Kind {
    fn is_critical(&self) -> bool {
        match self {
            Kind::Control(_) | Kind::Encoder | Kind::Decoder(_) => true,
            Kind::Unknown(_) | Kind::Ignored => false,
        }
    }
}

/// What happened on these streams.
#[derive(Debug, Default)]
pub struct Heard {
    /// The server takes no requests from this stream on.
    pub goaway: Option<u64>,
    /// Requests whose field sections wait no longer.
    pub unblocked: Vec<StreamId>,
}

impl Control {
    /// Announces our settings, as soon as the server allows a stream.
    pub fn open(&mut self, quic: &mut Connection, limits: &Limits) {
        let settings = Settings {
            table_bytes_max: limits.table_bytes_max.into(),
            blocked_streams_max: limits.blocked_streams_max.into(),
            section_bytes_max: limits.block_bytes_max as u64,
            ..Settings::default()
        };
        settings.encode(&mut self.own.unsent);
        self.own.flush(quic, StreamKind::Control);
    }

    /// Sends what is left of our streams, and the instructions of the decoder.
    pub fn flush(&mut self, quic: &mut Connection, decoder: &mut Decoder) {
        if !self.own.unsent.is_empty() {
            self.own.flush(quic, StreamKind::Control);
        }
        self.decoder.unsent.append(decoder.output());
        if !self.decoder.unsent.is_empty() {
            self.decoder.flush(quic, StreamKind::Decoder);
        }
    }

    /// The server has opened a stream.
    pub fn accept(&mut self, id: StreamId) {
        let kind = Kind::Unknown(StreamKindReader::default());
        self.theirs.push((id, kind));
    }

    /// Reads a stream of the server.
    ///
    /// # Errors
    /// The connection has to be closed.
    pub fn read(
        &mut self,
        quic: &mut Connection,
        id: StreamId,
        limits: &Limits,
        decoder: &mut Decoder,
        heard: &mut Heard,
    ) -> Result<(), Code> {
        loop {
            let Some(at) = self.theirs.iter().position(|(other, _)| *other == id) else {
                return Ok(());
            };
            match receive(quic, id) {
                Received::Nothing => return Ok(()),
                Received::Data(bytes) => {
                    self.take(at, &bytes, limits, decoder, heard)?;
                    if let Kind::Ignored = self.theirs[at].1 {
                        self.theirs.swap_remove(at);
                        let code = super::number(Code::STREAM_CREATION_ERROR);
                        let _ = quic.recv_stream(id).stop(code);
                    }
                }
                Received::End | Received::Reset(_) => {
                    let (_, kind) = self.theirs.swap_remove(at);
                    return match kind.is_critical() {
                        true => Err(Code::CLOSED_CRITICAL_STREAM),
                        false => Ok(()),
                    };
                }
            }
        }
    }

    fn take(
        &mut self,
        at: usize,
        mut input: &[u8],
        limits: &Limits,
        decoder: &mut Decoder,
        heard: &mut Heard,
    ) -> Result<(), Code> {
        if let Kind::Unknown(reader) = &mut self.theirs[at].1 {
            let Some(kind) = reader.receive(&mut input) else {
                return Ok(());
            };
            let kind = match kind {
                StreamKind::Control => Kind::Control(Box::new(ControlReader::of_server())),
                StreamKind::Encoder => Kind::Encoder,
                StreamKind::Decoder => Kind::Decoder(DecoderStreamReader::default()),
                // We have allowed no push.
                StreamKind::Push => return Err(Code::ID_ERROR),
                StreamKind::Unknown => Kind::Ignored,
            };
            let same = std::mem::discriminant(&kind);
            let is_same = |(_, other): &(_, Kind)| std::mem::discriminant(other) == same;
            if kind.is_critical() && self.theirs.iter().any(is_same) {
                return Err(Code::STREAM_CREATION_ERROR);
            }
            self.theirs[at].1 = kind;
        }
        match &mut self.theirs[at].1 {
            Kind::Unknown(_) | Kind::Ignored => Ok(()),
            Kind::Decoder(reader) => reader.receive(input),
            Kind::Encoder => {
                let taken = decoder.receive(input);
                taken.map_err(|_| Code::ENCODER_STREAM_ERROR)?;
                while let Some(stream) = decoder.ready() {
                    heard.unblocked.extend(super::stream(stream));
                }
                Ok(())
            }
            Kind::Control(reader) => {
                while let Some(event) = reader.receive(&mut input, limits)? {
                    match event {
                        ControlEvent::GoAway(from) => heard.goaway = Some(from),
                        ControlEvent::Settings(_) | ControlEvent::Priority { .. } => {}
                    }
                }
                Ok(())
            }
        }
    }
}

impl Own {
    /// Hands what is unsent to QUIC, and opens the stream first if the server allows one.
    fn flush(&mut self, quic: &mut Connection, kind: StreamKind) {
        if self.id.is_none() {
            self.id = quic.streams().open(Dir::Uni);
            self.unsent.splice(..0, self.id.and(kind.number()));
        }
        let Some(id) = self.id else {
            return;
        };
        if let Ok(count) = quic.send_stream(id).write(&self.unsent) {
            self.unsent.drain(..count);
        }
    }
}
