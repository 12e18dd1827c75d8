//! The stream of a request or of a response (RFC 9114, section 4.1): a head, content, trailers.

use alloc::vec::Vec;

use super::error::{Code, Fault};
use super::frame::{FrameKind, FrameSplitter, Piece};
use super::limits::Limits;

/// A part of a message.
#[derive(Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// The encoded head. Those of interim responses come before that of the final one; the owner says by
    /// [`MessageReader::expect`] which one this is.
    Head(&'a [u8]),
    /// A field section beyond the limit, which was not kept.
    HeadTooLarge,
    /// A piece of the content.
    Data(&'a [u8]),
    /// The encoded trailers. Only frames of unknown kinds may follow.
    Trailers(&'a [u8]),
}

/// How far a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// A head comes.
    Head,
    /// Content or trailers come.
    Content,
    /// Only content comes: a tunnel (RFC 9114, section 4.4).
    Tunnel,
    /// Trailers were there.
    Done,
}

/// Reads the frames of one message.
#[derive(Debug)]
pub struct MessageReader {
    splitter: FrameSplitter,
    stage: Stage,
    /// The field section of the open frame, as far as it did not come in one piece.
    block: Vec<u8>,
    /// Whether the open frame has a field section, and whether it is kept.
    section: Section,
    /// Content that has to come, if Content-Length says so.
    left: Option<u64>,
    glitches: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Section {
    /// The open frame has none.
    None,
    /// It is kept.
    Kept,
    /// It is larger than the limit.
    TooLarge,
}

impl Default for MessageReader {
    fn default() -> Self {
        MessageReader {
            splitter: FrameSplitter::new(),
            stage: Stage::Head,
            block: Vec::new(),
            section: Section::None,
            left: None,
            glitches: 0,
        }
    }
}

/// What follows a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follows {
    /// Another head: this was the one of an interim response.
    Head,
    /// As much content as the number says.
    Length(u64),
    /// Content to the end of the stream.
    Content,
    /// A tunnel: content only, and no trailers.
    Tunnel,
}

impl MessageReader {
    /// Takes bytes from the front of `input` up to the next part; `None` when all were taken.
    ///
    /// # Errors
    /// What breaks a rule of frames ends the connection, what makes a message malformed the stream.
    pub fn receive<'s, 'i: 's>(
        &'s mut self,
        input: &mut &'i [u8],
        limits: &Limits,
    ) -> Result<Option<Part<'s>>, Fault> {
        if !self.block.is_empty() && self.section == Section::None {
            // It was given out by the call before.
            self.block = Vec::new();
        }
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
            match (kind, self.section) {
                (FrameKind::DATA, _) if !bytes.is_empty() => return Ok(Some(Part::Data(bytes))),
                (FrameKind::HEADERS, Section::Kept) if !is_last => {
                    self.block.extend_from_slice(bytes);
                }
                (FrameKind::HEADERS, _) if is_last => return Ok(Some(self.end_section(bytes))),
                _ => {}
            }
        }
        Ok(None)
    }

    /// Says what follows the head that was given out last.
    pub fn expect(&mut self, follows: Follows) {
        (self.stage, self.left) = match follows {
            Follows::Head => (Stage::Head, None),
            Follows::Length(length) => (Stage::Content, Some(length)),
            Follows::Content => (Stage::Content, None),
            Follows::Tunnel => (Stage::Tunnel, None),
        };
    }

    /// The stream has ended.
    ///
    /// # Errors
    /// The message is not complete, or less content came than was declared.
    pub fn end(&self) -> Result<(), Fault> {
        if !self.splitter.is_between_frames() {
            return Err(Fault::Connection(Code::FRAME_ERROR));
        }
        if self.stage == Stage::Head {
            return Err(Fault::Stream(Code::REQUEST_INCOMPLETE));
        }
        match self.left {
            None | Some(0) => Ok(()),
            Some(_) => Err(Fault::Stream(Code::MESSAGE_ERROR)),
        }
    }

    /// Frames since the last call that advance nothing, for the budget of the connection.
    pub fn take_glitches(&mut self) -> u32 {
        core::mem::take(&mut self.glitches)
    }

    /// Memory held, in bytes.
    pub fn capacity_bytes(&self) -> usize {
        self.block.capacity()
    }

    fn begin(&mut self, kind: FrameKind, length: u64, limits: &Limits) -> Result<(), Fault> {
        let unexpected = Err(Fault::Connection(Code::FRAME_UNEXPECTED));
        self.section = Section::None;
        match (kind, self.stage) {
            (FrameKind::DATA, Stage::Content | Stage::Tunnel) => {
                if length == 0 {
                    self.glitches = self.glitches.saturating_add(1);
                }
                if let Some(left) = &mut self.left {
                    *left = left
                        .checked_sub(length)
                        .ok_or(Fault::Stream(Code::MESSAGE_ERROR))?;
                }
                Ok(())
            }
            (FrameKind::HEADERS, Stage::Head | Stage::Content) => {
                self.section = match length <= limits.block_bytes_max as u64 {
                    true => Section::Kept,
                    false => Section::TooLarge,
                };
                Ok(())
            }
            (FrameKind::DATA | FrameKind::HEADERS, _) => unexpected,
            (
                FrameKind::SETTINGS
                | FrameKind::GOAWAY
                | FrameKind::MAX_PUSH_ID
                | FrameKind::CANCEL_PUSH
                | FrameKind::PUSH_PROMISE
                | FrameKind::PRIORITY_UPDATE
                | FrameKind::PRIORITY_UPDATE_OF_PUSH,
                _,
            ) => unexpected,
            (kind, _) if kind.is_of_http2() => unexpected,
            _ => {
                self.glitches = self.glitches.saturating_add(1);
                Ok(())
            }
        }
    }

    /// The field section of a frame whose last piece is `bytes`.
    fn end_section<'s, 'i: 's>(&'s mut self, bytes: &'i [u8]) -> Part<'s> {
        let is_head = self.stage == Stage::Head;
        let section = core::mem::replace(&mut self.section, Section::None);
        if is_head {
            // Until the owner says more.
            self.stage = Stage::Content;
        } else {
            self.stage = Stage::Done;
        }
        if section == Section::TooLarge {
            return Part::HeadTooLarge;
        }
        let block = match self.block.is_empty() {
            true => bytes,
            false => {
                self.block.extend_from_slice(bytes);
                &self.block
            }
        };
        match is_head {
            true => Part::Head(block),
            false => Part::Trailers(block),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::encode_frame_head;
    use super::*;
    use alloc::format;
    use alloc::string::String;

    fn frame(kind: FrameKind, payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        encode_frame_head(kind, payload.len() as u64, &mut out);
        out.extend_from_slice(payload);
        out
    }

    fn head(text: &[u8]) -> Vec<u8> {
        frame(FrameKind::HEADERS, text)
    }

    fn data(text: &[u8]) -> Vec<u8> {
        frame(FrameKind::DATA, text)
    }

    /// Reads a stream that is cut in two at each place. After its first head comes what `follows` says; the text has
    /// the parts, with pieces of content joined, and how the stream ends.
    fn read(follows: Follows, frames: &[Vec<u8>]) -> String {
        let stream = frames.concat();
        let limits = Limits {
            block_bytes_max: 8,
            ..Limits::SERVER
        };
        let cut = |at: usize| {
            let mut reader = MessageReader::default();
            let mut text = String::new();
            let mut follows = Some(follows);
            for mut input in [&stream[..at], &stream[at..]] {
                loop {
                    let is_head = match reader.receive(&mut input, &limits) {
                        Ok(None) => break,
                        Ok(Some(part)) => note(&part, &mut text),
                        Err(fault) => return text + &format!(" {fault:?}"),
                    };
                    if is_head && let Some(follows) = follows.take() {
                        reader.expect(follows);
                    }
                }
            }
            text + &format!(" {:?}", reader.end())
        };
        let whole = cut(stream.len());
        for at in 0..stream.len() {
            assert_eq!(cut(at), whole, "cut at {at}");
        }
        whole
    }

    fn note(part: &Part<'_>, text: &mut String) -> bool {
        let (name, bytes) = match part {
            Part::Head(block) => (" head ", block),
            Part::HeadTooLarge => (" too large", &&b""[..]),
            Part::Data(bytes) => (
                if text.ends_with(|c: char| c.is_ascii_digit()) {
                    ""
                } else {
                    " "
                },
                bytes,
            ),
            Part::Trailers(block) => (" trailers ", block),
        };
        text.push_str(name);
        text.push_str(core::str::from_utf8(bytes).unwrap());
        matches!(part, Part::Head(_))
    }

    #[test]
    fn a_message_has_a_head_content_and_trailers() {
        let grease = frame(FrameKind(0x21), b"ignored");
        let frames = [
            grease.clone(),
            head(b"h"),
            data(b"12"),
            data(b""),
            grease.clone(),
            data(b"345"),
            head(b"t"),
            grease,
        ];
        for follows in [Follows::Content, Follows::Length(5)] {
            assert_eq!(read(follows, &frames), " head h 12345 trailers t Ok(())");
        }
        let interim = [head(b"a"), head(b"b"), data(b"1")];
        assert_eq!(read(Follows::Head, &interim), " head a head b 1 Ok(())");
        assert_eq!(read(Follows::Content, &[head(b"h")]), " head h Ok(())");
    }

    #[test]
    fn what_breaks_the_order_ends_the_connection() {
        let unexpected = "Connection(H3_FRAME_UNEXPECTED)";
        for (frames, parts) in [
            (&[data(b"1")][..], ""),
            (&[head(b"h"), head(b"t"), data(b"1")], " head h trailers t"),
            (&[head(b"h"), head(b"t"), head(b"u")], " head h trailers t"),
            (&[head(b"h"), frame(FrameKind::SETTINGS, b"")], " head h"),
            (&[frame(FrameKind::PUSH_PROMISE, b"x")], ""),
            (&[frame(FrameKind(0x8), b"x")], ""),
            (&[frame(FrameKind::PRIORITY_UPDATE, b"x")], ""),
        ] {
            assert_eq!(
                read(Follows::Content, frames),
                format!("{parts} {unexpected}")
            );
        }
        let tunnel = [head(b"h"), data(b"1"), head(b"t")];
        assert_eq!(
            read(Follows::Tunnel, &tunnel),
            format!(" head h 1 {unexpected}")
        );
    }

    #[test]
    fn the_content_has_the_declared_length() {
        let malformed = "Stream(H3_MESSAGE_ERROR)";
        let less = [head(b"h"), data(b"12")];
        assert_eq!(
            read(Follows::Length(3), &less),
            format!(" head h 12 Err({malformed})")
        );
        let more = [head(b"h"), data(b"12"), data(b"34")];
        assert_eq!(
            read(Follows::Length(3), &more),
            format!(" head h 12 {malformed}")
        );
        assert_eq!(read(Follows::Length(0), &[head(b"h")]), " head h Ok(())");
    }

    #[test]
    fn a_stream_that_ends_early_is_incomplete() {
        let incomplete = " Err(Stream(H3_REQUEST_INCOMPLETE))";
        assert_eq!(read(Follows::Content, &[]), incomplete);
        assert_eq!(
            read(Follows::Content, &[frame(FrameKind(0x21), b"x")]),
            incomplete
        );
        let mut cut = head(b"head");
        cut.pop();
        assert_eq!(
            read(Follows::Content, &[cut]),
            " Err(Connection(H3_FRAME_ERROR))"
        );
    }

    #[test]
    fn a_large_head_is_passed_over() {
        let frames = [head(&[b'h'; 9]), data(b"1")];
        assert_eq!(read(Follows::Content, &frames), " too large 1 Ok(())");
        let mut reader = MessageReader::default();
        let stream = head(&[b'h'; 60_000]);
        let mut input = &stream[..];
        let part = reader.receive(&mut input, &Limits::SERVER);
        assert_eq!(part, Ok(Some(Part::HeadTooLarge)));
        assert_eq!(reader.capacity_bytes(), 0);
    }

    #[test]
    fn empty_and_unknown_frames_are_counted() {
        let mut reader = MessageReader::default();
        let stream = [
            head(b"h"),
            data(b""),
            frame(FrameKind(0x21), b""),
            data(b"1"),
        ]
        .concat();
        let mut input = &stream[..];
        while reader
            .receive(&mut input, &Limits::SERVER)
            .unwrap()
            .is_some()
        {}
        assert_eq!((reader.take_glitches(), reader.take_glitches()), (2, 0));
    }
}
