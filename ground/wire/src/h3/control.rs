//! The peer's control stream (RFC 9114, section 6.2.1): its settings first, then frames about the connection.

use alloc::vec::Vec;

use super::error::Code;
use super::frame::{FrameKind, FrameSplitter, Piece};
use super::limits::Limits;
use super::settings::Settings;
use super::varint::decode_varint;
use crate::sections::Priority;

/// What a control stream tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlEvent {
    /// The settings of the peer, which come first and once.
    Settings(Settings),
    /// The peer takes no requests from this stream on, or as a client no pushes from this number on.
    GoAway(u64),
    /// The priority of the request on a stream, which may not have begun (RFC 9218, section 7.2).
    Priority {
        /// The number of the stream.
        stream: u64,
        /// The priority.
        priority: Priority,
    },
}

/// Reads the frames of the peer's control stream. After an error it is of no use any more, as the connection is.
#[derive(Debug)]
pub struct ControlReader {
    us: Us,
    splitter: FrameSplitter,
    /// The payload of the open frame, if it has to be read as a whole.
    payload: Vec<u8>,
    reads_payload: bool,
    has_settings: bool,
    goaway: u64,
    push_max: Option<u64>,
    glitches: u32,
}

/// Which end of a connection reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Us {
    Server,
    Client,
}

impl ControlReader {
    /// A reader for the control stream of a client.
    pub fn of_client() -> ControlReader {
        ControlReader::new(Us::Server)
    }

    /// A reader for the control stream of a server.
    pub fn of_server() -> ControlReader {
        ControlReader::new(Us::Client)
    }

    pub(super) fn new(us: Us) -> ControlReader {
        ControlReader {
            us,
            splitter: FrameSplitter::new(),
            payload: Vec::new(),
            reads_payload: false,
            has_settings: false,
            goaway: u64::MAX,
            push_max: None,
            glitches: 0,
        }
    }

    /// Takes bytes from the front of `input` up to the next event; `None` when all were taken.
    ///
    /// # Errors
    /// The connection has to be closed with the code.
    pub fn receive(
        &mut self,
        input: &mut &[u8],
        limits: &Limits,
    ) -> Result<Option<ControlEvent>, Code> {
        while let Some(piece) = self.splitter.next(input) {
            let (kind, bytes, is_last) = match piece {
                Piece::Head { kind, length } => {
                    self.begin(kind, length, limits)?;
                    continue;
                }
                Piece::Payload {
                    kind,
                    bytes,
                    is_last,
                } => (kind, bytes, is_last),
            };
            if !self.reads_payload {
                continue;
            }
            self.payload.extend_from_slice(bytes);
            if is_last {
                let payload = core::mem::take(&mut self.payload);
                if let Some(event) = self.frame(kind, &payload)? {
                    return Ok(Some(event));
                }
            }
        }
        Ok(None)
    }

    /// Frames since the last call that advance nothing, for the budget of the connection.
    pub fn take_glitches(&mut self) -> u32 {
        core::mem::take(&mut self.glitches)
    }

    fn begin(&mut self, kind: FrameKind, length: u64, limits: &Limits) -> Result<(), Code> {
        if !self.has_settings && kind != FrameKind::SETTINGS {
            return Err(Code::MISSING_SETTINGS);
        }
        self.reads_payload = match kind {
            FrameKind::SETTINGS if self.has_settings => return Err(Code::FRAME_UNEXPECTED),
            FrameKind::DATA | FrameKind::HEADERS | FrameKind::PUSH_PROMISE => {
                return Err(Code::FRAME_UNEXPECTED);
            }
            FrameKind::MAX_PUSH_ID
            | FrameKind::PRIORITY_UPDATE
            | FrameKind::PRIORITY_UPDATE_OF_PUSH
                if self.us == Us::Client =>
            {
                return Err(Code::FRAME_UNEXPECTED);
            }
            FrameKind::SETTINGS
            | FrameKind::GOAWAY
            | FrameKind::MAX_PUSH_ID
            | FrameKind::CANCEL_PUSH
            | FrameKind::PRIORITY_UPDATE
            | FrameKind::PRIORITY_UPDATE_OF_PUSH => true,
            kind if kind.is_of_http2() => return Err(Code::FRAME_UNEXPECTED),
            _ => {
                self.glitches = self.glitches.saturating_add(1);
                false
            }
        };
        if self.reads_payload && length > limits.control_frame_bytes_max as u64 {
            return Err(Code::EXCESSIVE_LOAD);
        }
        Ok(())
    }

    fn frame(&mut self, kind: FrameKind, payload: &[u8]) -> Result<Option<ControlEvent>, Code> {
        if kind == FrameKind::SETTINGS {
            self.has_settings = true;
            return Settings::decode(payload)
                .map(|settings| Some(ControlEvent::Settings(settings)));
        }
        self.glitches = self.glitches.saturating_add(1);
        let (number, end) = decode_varint(payload).ok_or(Code::FRAME_ERROR)?;
        let value = &payload[end..];
        if kind == FrameKind::PRIORITY_UPDATE {
            // Requests are on streams that clients open in both directions (RFC 9000, section 2.1).
            if !number.is_multiple_of(4) {
                return Err(Code::ID_ERROR);
            }
            let priority = Priority::parse(value);
            return Ok(Some(ControlEvent::Priority {
                stream: number,
                priority,
            }));
        }
        if kind == FrameKind::PRIORITY_UPDATE_OF_PUSH {
            // Nothing is ever pushed, neither by us nor to us.
            return Err(Code::ID_ERROR);
        }
        if !value.is_empty() {
            return Err(Code::FRAME_ERROR);
        }
        match kind {
            FrameKind::GOAWAY => self.take_goaway(number).map(Some),
            FrameKind::MAX_PUSH_ID => {
                if self.push_max.is_some_and(|earlier| number < earlier) {
                    return Err(Code::ID_ERROR);
                }
                self.push_max = Some(number);
                Ok(None)
            }
            _ => Err(Code::ID_ERROR),
        }
    }

    fn take_goaway(&mut self, number: u64) -> Result<ControlEvent, Code> {
        // RFC 9114, section 5.2: it names a request for clients, and does not grow.
        let is_stream = self.us == Us::Server || number.is_multiple_of(4);
        if !is_stream || number > self.goaway {
            return Err(Code::ID_ERROR);
        }
        self.goaway = number;
        Ok(ControlEvent::GoAway(number))
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::encode_frame_head;
    use super::super::varint::encode_varint;
    use super::*;

    const SETTINGS: &[u8] = &[4, 2, 6, 9];

    fn frame(kind: FrameKind, numbers: &[u64], rest: &[u8]) -> Vec<u8> {
        let mut payload = Vec::new();
        for number in numbers {
            encode_varint(*number, &mut payload);
        }
        payload.extend_from_slice(rest);
        let mut out = Vec::new();
        encode_frame_head(kind, payload.len() as u64, &mut out);
        out.extend_from_slice(&payload);
        out
    }

    /// The events of a stream that is cut in two at each place; all cuts have to give the same.
    fn read(of: fn() -> ControlReader, frames: &[&[u8]]) -> Result<Vec<ControlEvent>, Code> {
        let stream = frames.concat();
        let cut = |at: usize| {
            let mut reader = of();
            let mut events = Vec::new();
            for mut input in [&stream[..at], &stream[at..]] {
                while let Some(event) = reader.receive(&mut input, &Limits::SERVER)? {
                    events.push(event);
                }
            }
            Ok(events)
        };
        let whole = cut(stream.len());
        for at in 0..stream.len() {
            assert_eq!(cut(at), whole, "cut at {at}");
        }
        whole
    }

    #[test]
    fn events_of_a_client() {
        let frames = [
            SETTINGS,
            &frame(FrameKind(0x21), &[], b"grease"),
            &frame(FrameKind::MAX_PUSH_ID, &[3], b""),
            &frame(FrameKind::MAX_PUSH_ID, &[3], b""),
            &frame(FrameKind::PRIORITY_UPDATE, &[8], b"u=1, i"),
            &frame(FrameKind::GOAWAY, &[7], b""),
            &frame(FrameKind::GOAWAY, &[0], b""),
        ];
        let settings = Settings {
            section_bytes_max: 9,
            ..Settings::default()
        };
        let priority = ControlEvent::Priority {
            stream: 8,
            priority: Priority::parse(b"u=1, i"),
        };
        assert_eq!(
            read(ControlReader::of_client, &frames),
            Ok([
                ControlEvent::Settings(settings),
                priority,
                ControlEvent::GoAway(7),
                ControlEvent::GoAway(0)
            ]
            .to_vec())
        );
        let mut reader = ControlReader::of_client();
        let stream = frames.concat();
        let mut input = &stream[..];
        while reader
            .receive(&mut input, &Limits::SERVER)
            .unwrap()
            .is_some()
        {}
        assert_eq!((reader.take_glitches(), reader.take_glitches()), (6, 0));
    }

    #[test]
    fn what_breaks_the_rules_ends_the_connection() {
        let goaway = |number: u64| frame(FrameKind::GOAWAY, &[number], b"");
        let push = |number: u64| frame(FrameKind::MAX_PUSH_ID, &[number], b"");
        let client = ControlReader::of_client as fn() -> ControlReader;
        let server = ControlReader::of_server as fn() -> ControlReader;
        assert_eq!(read(client, &[&goaway(0)]), Err(Code::MISSING_SETTINGS));
        assert_eq!(
            read(client, &[SETTINGS, SETTINGS]),
            Err(Code::FRAME_UNEXPECTED)
        );
        for (of, frames, code) in [
            (client, [goaway(4), goaway(8)], Code::ID_ERROR),
            (server, [goaway(5), goaway(5)], Code::ID_ERROR),
            (server, [push(1), push(1)], Code::FRAME_UNEXPECTED),
            (client, [push(4), push(3)], Code::ID_ERROR),
        ] {
            let frames = [SETTINGS, &frames[0], &frames[1]];
            assert_eq!(read(of, &frames), Err(code));
        }
        for (kind, numbers, rest, code) in [
            (FrameKind::DATA, &[][..], &b"x"[..], Code::FRAME_UNEXPECTED),
            (FrameKind::HEADERS, &[], b"x", Code::FRAME_UNEXPECTED),
            (FrameKind::PUSH_PROMISE, &[], b"x", Code::FRAME_UNEXPECTED),
            (FrameKind(0x2), &[], b"x", Code::FRAME_UNEXPECTED),
            (FrameKind(0x9), &[], b"", Code::FRAME_UNEXPECTED),
            (FrameKind::CANCEL_PUSH, &[0], b"", Code::ID_ERROR),
            (FrameKind::PRIORITY_UPDATE, &[1], b"", Code::ID_ERROR),
            (
                FrameKind::PRIORITY_UPDATE_OF_PUSH,
                &[0],
                b"",
                Code::ID_ERROR,
            ),
            (FrameKind::GOAWAY, &[], b"", Code::FRAME_ERROR),
            (FrameKind::GOAWAY, &[0], b"x", Code::FRAME_ERROR),
            (FrameKind::GOAWAY, &[0], &[0; 2000], Code::EXCESSIVE_LOAD),
        ] {
            let frames = [SETTINGS, &frame(kind, numbers, rest)];
            assert_eq!(read(client, &frames), Err(code), "{kind:?}");
        }
    }
}
