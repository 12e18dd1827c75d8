//! The streams that the peer opens in one direction (RFC 9114, section 6.2; RFC 9204, section 4.2): which kinds may be there,
//! once or more often, and which of them must stay open. The owner moves bytes and says how to react.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::control::{ControlEvent, ControlReader, Us};
use super::error::Code;
use super::limits::Limits;
use super::qpack::{Decoder, DecoderStreamReader};
use super::stream_kind::{StreamKind, StreamKindReader};

/// What the peer says on a stream of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerEvent {
    /// Something about the connection.
    Control(ControlEvent),
    /// Entries of the dynamic table have arrived: [`Decoder::ready`] names the requests that wait no longer.
    Entries,
    /// The stream means nothing and is known no longer: the peer is to be asked to stop, with
    /// [`Code::STREAM_CREATION_ERROR`].
    Unwanted,
}

/// Reads the streams that the peer opens in one direction. The transport bounds their number. After an error it is of no use
/// any more, as the connection is.
#[derive(Debug)]
pub struct PeerStreams {
    us: Us,
    open: Vec<Stream>,
    glitches: u32,
}

#[derive(Debug)]
struct Stream {
    id: u64,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// It has not said what it is for.
    Unsaid(StreamKindReader),
    Control(Box<ControlReader>),
    Encoder,
    Decoder(DecoderStreamReader),
}

impl PeerStreams {
    /// The streams of a client.
    pub fn of_client() -> PeerStreams {
        PeerStreams::new(Us::Server)
    }

    /// The streams of a server, which was not allowed to push.
    pub fn of_server() -> PeerStreams {
        PeerStreams::new(Us::Client)
    }

    fn new(us: Us) -> PeerStreams {
        PeerStreams {
            us,
            open: Vec::new(),
            glitches: 0,
        }
    }

    /// The peer has opened a stream.
    pub fn accept(&mut self, id: u64) {
        let kind = Kind::Unsaid(StreamKindReader::default());
        self.open.push(Stream { id, kind });
    }

    /// Whether bytes of a stream are of use.
    pub fn has(&self, id: u64) -> bool {
        self.find(id).is_some()
    }

    /// Takes bytes of a stream from the front of `input` up to the next event; `None` when all were taken. Bytes of a stream
    /// that is not known are not looked at.
    ///
    /// # Errors
    /// The connection has to be closed with the code.
    pub fn receive(
        &mut self,
        id: u64,
        input: &mut &[u8],
        decoder: &mut Decoder,
        limits: &Limits,
    ) -> Result<Option<PeerEvent>, Code> {
        let Some(at) = self.find(id) else {
            *input = &[];
            return Ok(None);
        };
        if let Kind::Unsaid(reader) = &mut self.open[at].kind {
            let Some(kind) = reader.receive(input) else {
                return Ok(None);
            };
            match self.kind_of(kind)? {
                Some(kind) => self.open[at].kind = kind,
                None => {
                    self.open.swap_remove(at);
                    self.note_glitches(1);
                    *input = &[];
                    return Ok(Some(PeerEvent::Unwanted));
                }
            }
        }
        if input.is_empty() {
            return Ok(None);
        }
        let (event, glitches) = match &mut self.open[at].kind {
            Kind::Unsaid(_) => (None, 0),
            Kind::Encoder => {
                let received = decoder.receive(core::mem::take(input));
                received.map_err(|_| Code::ENCODER_STREAM_ERROR)?;
                (Some(PeerEvent::Entries), 0)
            }
            Kind::Decoder(reader) => {
                reader.receive(core::mem::take(input))?;
                (None, reader.take_glitches())
            }
            Kind::Control(reader) => {
                let event = reader.receive(input, limits)?;
                (event.map(PeerEvent::Control), reader.take_glitches())
            }
        };
        self.note_glitches(glitches);
        Ok(event)
    }

    /// A stream has ended or was reset.
    ///
    /// # Errors
    /// The connection has to be closed with the code: the stream has to stay open as long as the connection.
    pub fn end(&mut self, id: u64) -> Result<(), Code> {
        let Some(at) = self.find(id) else {
            return Ok(());
        };
        match self.open.swap_remove(at).kind {
            Kind::Unsaid(_) => {
                self.note_glitches(1);
                Ok(())
            }
            Kind::Control(_) | Kind::Encoder | Kind::Decoder(_) => {
                Err(Code::CLOSED_CRITICAL_STREAM)
            }
        }
    }

    /// Streams and frames since the last call that advance nothing, for the budget of the connection.
    pub fn take_glitches(&mut self) -> u32 {
        core::mem::take(&mut self.glitches)
    }

    fn note_glitches(&mut self, count: u32) {
        self.glitches = self.glitches.saturating_add(count);
    }

    fn find(&self, id: u64) -> Option<usize> {
        self.open.iter().position(|stream| stream.id == id)
    }

    /// What is read from a new stream of this kind; `None` if it means nothing to us.
    fn kind_of(&self, kind: StreamKind) -> Result<Option<Kind>, Code> {
        let kind = match kind {
            StreamKind::Control => Kind::Control(Box::new(ControlReader::new(self.us))),
            StreamKind::Encoder => Kind::Encoder,
            StreamKind::Decoder => Kind::Decoder(DecoderStreamReader::default()),
            StreamKind::Push => {
                return Err(match self.us {
                    // RFC 9114, section 6.2.2: only servers push.
                    Us::Server => Code::STREAM_CREATION_ERROR,
                    // RFC 9114, section 4.6: no push was allowed.
                    Us::Client => Code::ID_ERROR,
                });
            }
            StreamKind::Unknown => return Ok(None),
        };
        let same = core::mem::discriminant(&kind);
        let is_same = |other: &Stream| core::mem::discriminant(&other.kind) == same;
        match self.open.iter().any(is_same) {
            true => Err(Code::STREAM_CREATION_ERROR),
            false => Ok(Some(kind)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::settings::Settings;
    use super::*;

    const CONTROL: &[u8] = &[0, 4, 0];
    const ENCODER: &[u8] = &[2];
    const DECODER: &[u8] = &[3];
    const UNKNOWN: &[u8] = &[0x21];

    type Streams = fn() -> PeerStreams;
    const BOTH: [Streams; 2] = [PeerStreams::of_client, PeerStreams::of_server];

    /// A stream of the peer in the order of their beginning, and what it carries; no bytes for its end.
    type Step<'a> = (u64, &'a [u8]);

    /// The events of these steps, each byte by byte, and the glitches.
    fn run(of: Streams, steps: &[Step<'_>]) -> Result<(Vec<PeerEvent>, u32), Code> {
        let (mut streams, mut known) = (of(), Vec::new());
        let mut decoder = Decoder::new(&Limits::SERVER);
        let mut events = Vec::new();
        for (id, bytes) in steps {
            if !known.contains(id) {
                known.push(*id);
                streams.accept(*id);
            }
            if bytes.is_empty() {
                streams.end(*id)?;
                assert!(!streams.has(*id));
            }
            for byte in bytes.chunks(1) {
                let mut input = byte;
                while let Some(event) =
                    streams.receive(*id, &mut input, &mut decoder, &Limits::SERVER)?
                {
                    events.push(event);
                }
                assert!(input.is_empty());
            }
        }
        Ok((events, streams.take_glitches()))
    }

    #[test]
    fn each_stream_is_read_by_its_kind() {
        for of in BOTH {
            let goaway = [7, 1, 8];
            let steps: [Step<'_>; 6] = [
                (2, CONTROL),
                (6, ENCODER),
                (10, DECODER),
                // A table of 31 bytes and less, and a stream that was cancelled.
                (6, &[0x21]),
                (10, &[0x41]),
                (2, &goaway),
            ];
            let events = [
                PeerEvent::Control(ControlEvent::Settings(Settings::default())),
                PeerEvent::Entries,
                PeerEvent::Control(ControlEvent::GoAway(8)),
            ];
            assert_eq!(run(of, &steps), Ok((events.to_vec(), 2)));
        }
    }

    #[test]
    fn a_stream_of_an_unknown_kind_is_refused_alone() {
        for of in BOTH {
            let steps: [Step<'_>; 8] = [
                (2, UNKNOWN),
                (6, CONTROL),
                // What is still on its way is not looked at, and others may follow.
                (2, b"grease"),
                (2, b""),
                (10, UNKNOWN),
                (14, UNKNOWN),
                (10, b""),
                (6, &[7, 1, 0]),
            ];
            let events = [
                PeerEvent::Unwanted,
                PeerEvent::Control(ControlEvent::Settings(Settings::default())),
                PeerEvent::Unwanted,
                PeerEvent::Unwanted,
                PeerEvent::Control(ControlEvent::GoAway(0)),
            ];
            assert_eq!(run(of, &steps), Ok((events.to_vec(), 4)));
        }
    }

    #[test]
    fn streams_that_end_before_their_kind_are_glitches() {
        for of in BOTH {
            let steps: [Step<'_>; 4] = [(2, b""), (6, &[0x40]), (6, b""), (2, b"")];
            assert_eq!(run(of, &steps), Ok((Vec::new(), 2)));
        }
    }

    #[test]
    fn what_breaks_the_rules_ends_the_connection() {
        for of in BOTH {
            for kind in [CONTROL, ENCODER, DECODER] {
                let twice: [Step<'_>; 2] = [(2, kind), (6, kind)];
                assert_eq!(run(of, &twice), Err(Code::STREAM_CREATION_ERROR));
                let ended: [Step<'_>; 2] = [(2, kind), (2, b"")];
                assert_eq!(run(of, &ended), Err(Code::CLOSED_CRITICAL_STREAM));
            }
            let missing: [Step<'_>; 1] = [(2, &[0, 7, 1, 0])];
            assert_eq!(run(of, &missing), Err(Code::MISSING_SETTINGS));
            let absent: [Step<'_>; 1] = [(2, &[2, 0x05])];
            assert_eq!(run(of, &absent), Err(Code::ENCODER_STREAM_ERROR));
            let never_sent: [Step<'_>; 1] = [(2, &[3, 0x80])];
            assert_eq!(run(of, &never_sent), Err(Code::DECODER_STREAM_ERROR));
        }
        let push: [Step<'_>; 1] = [(2, &[1])];
        let of_client = run(PeerStreams::of_client, &push);
        assert_eq!(of_client, Err(Code::STREAM_CREATION_ERROR));
        assert_eq!(run(PeerStreams::of_server, &push), Err(Code::ID_ERROR));
    }
}
