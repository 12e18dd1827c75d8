//! Parses frames (RFC 9113, sections 4 and 6): checks lengths, flags and padding, and assembles header blocks. `conn`
//! applies frames to streams.

use alloc::vec::Vec;

use super::PREFACE;
use super::error::{ErrorCode, Reason};
use super::frame::{FRAME_HEAD_LEN, FrameHead, FrameKind, flags, number};
use super::limits::{FRAME_BYTES_MAX, FirstFrame, Limits};
use super::settings::Role;
use crate::sections::End;

/// What a frame holds, whole.
#[derive(Debug)]
pub(super) enum Chunk<'a> {
    /// It stands in the input.
    Given(&'a [u8]),
    /// It was put together. To be given back to [`Reader::give_back`], which fills it again.
    Kept(Vec<u8>),
}

impl Chunk<'_> {
    pub fn bytes(&self) -> &[u8] {
        match self {
            Chunk::Given(bytes) => bytes,
            Chunk::Kept(bytes) => bytes,
        }
    }
}

/// A frame whose form is right. Streams are never 0 where a stream belongs.
#[derive(Debug)]
pub(super) enum Frame<'a> {
    /// A piece of a DATA frame.
    Data {
        stream: u32,
        /// With its first piece, what the whole frame is: so nothing depends on how it was cut.
        whole: Option<Whole>,
        data: &'a [u8],
        end: End,
    },
    /// A header block with all its continuations.
    Block {
        stream: u32,
        end: End,
        block: Chunk<'a>,
    },
    Reset {
        stream: u32,
        code: ErrorCode,
    },
    Settings(Chunk<'a>),
    SettingsAck,
    Ping([u8; 8]),
    Pong([u8; 8]),
    GoAway {
        last: u32,
        code: ErrorCode,
    },
    WindowUpdate {
        stream: u32,
        increment: u32,
    },
    PriorityUpdate {
        stream: u32,
        value: Chunk<'a>,
    },
    /// PRIORITY, or a kind that nobody knows.
    Ignored,
    /// PRIORITY of a wrong length, which concerns its stream only (section 6.3).
    PriorityLength {
        stream: u32,
    },
}

/// A DATA frame as its head tells.
#[derive(Clone, Copy, Debug)]
pub(super) struct Whole {
    /// What it takes of windows.
    pub counted: u32,
    /// How many of these bytes are not content.
    pub overhead: u32,
    pub end: End,
}

/// Cuts what the peer sends into frames.
#[derive(Debug)]
pub(super) struct Reader {
    state: State,
    /// A frame's head that did not come in one piece, and how much of it is there.
    head: [u8; FRAME_HEAD_LEN],
    head_len: usize,
    /// A payload or a header block that did not come in one piece.
    kept: Vec<u8>,
    /// The header block that is put together.
    block: Option<Block>,
    first: First,
    block_bytes_max: usize,
    continuations_max: u16,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// So many bytes of the preface were right.
    Preface(usize),
    Head,
    /// A frame that is taken as a whole; what is there of it is behind the block in `kept`.
    Payload(FrameHead),
    /// The length of the padding.
    DataPadding(FrameHead),
    Data {
        stream: u32,
        left: u32,
        padding: u32,
        end: End,
        whole: Option<Whole>,
    },
    /// So many bytes of no interest.
    Skip(u32),
}

/// Whether the first frame was there, and what it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum First {
    Await(FirstFrame),
    Seen,
}

#[derive(Clone, Copy, Debug)]
struct Block {
    stream: u32,
    end: End,
    continuations: u16,
    /// Its bytes at the front of `kept`.
    len: usize,
}

impl Reader {
    /// A reader that stands before what `peer` sends first.
    pub fn new(limits: &Limits, peer: Role) -> Reader {
        Reader {
            state: match peer {
                Role::Client => State::Preface(0),
                Role::Server => State::Head,
            },
            head: [0; FRAME_HEAD_LEN],
            head_len: 0,
            kept: Vec::new(),
            block: None,
            first: First::Await(limits.first_frame),
            block_bytes_max: limits.block_bytes_max as usize,
            continuations_max: limits.continuations_max,
        }
    }

    /// Whether the preface and the first frame were there.
    pub fn has_begun(&self) -> bool {
        self.first == First::Seen
    }

    /// Whether something that is taken as a whole has begun and not ended: a frame's head, a frame other than DATA,
    /// or a header block.
    pub fn is_within(&self) -> bool {
        let waits = matches!(self.state, State::Payload(_) | State::DataPadding(_));
        waits || self.head_len > 0 || self.block.is_some()
    }

    /// Takes a chunk's memory back.
    pub fn give_back(&mut self, chunk: Chunk<'_>) {
        if let Chunk::Kept(mut bytes) = chunk {
            bytes.clear();
            self.kept = bytes;
        }
    }

    /// Memory held, in bytes.
    pub fn capacity_bytes(&self) -> usize {
        self.kept.capacity()
    }

    /// Gives back the memory that nothing stands in.
    pub fn shrink(&mut self) {
        if self.kept.is_empty() {
            self.kept = Vec::new();
        }
    }

    /// Takes bytes off the front of `input` until there is a frame; `None` when they are used up.
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Frame<'a>>, Reason> {
        loop {
            match self.state {
                State::Preface(matched) => {
                    let len = input.len().min(PREFACE.len() - matched);
                    let (bytes, rest) = input.split_at(len);
                    if bytes != &PREFACE[matched..matched + len] {
                        return Err(Reason::Preface);
                    }
                    *input = rest;
                    if matched + len < PREFACE.len() {
                        self.state = State::Preface(matched + len);
                        return Ok(None);
                    }
                    self.state = State::Head;
                }
                State::Head => {
                    let Some(head) = self.read_head(input) else {
                        return Ok(None);
                    };
                    self.check(head)?;
                    if let Some(frame) = self.enter(head)? {
                        return Ok(Some(frame));
                    }
                }
                State::Payload(head) => {
                    let Some(payload) = self.read_payload(head, input) else {
                        return Ok(None);
                    };
                    self.state = State::Head;
                    if let Some(frame) = self.take(head, payload)? {
                        return Ok(Some(frame));
                    }
                }
                State::DataPadding(head) => {
                    let Some((padding, rest)) = input.split_first() else {
                        return Ok(None);
                    };
                    *input = rest;
                    self.state = data(head, 1, u32::from(*padding))?;
                }
                State::Data { .. } => return Ok(self.read_data(input)),
                State::Skip(left) => {
                    let len = (left as usize).min(input.len());
                    *input = &input[len..];
                    let left = left - len as u32;
                    if left > 0 {
                        self.state = State::Skip(left);
                        return Ok(None);
                    }
                    self.state = State::Head;
                }
            }
        }
    }

    fn read_head(&mut self, input: &mut &[u8]) -> Option<FrameHead> {
        if self.head_len == 0
            && let Some((head, rest)) = input.split_first_chunk()
        {
            *input = rest;
            return Some(FrameHead::decode(head));
        }
        let len = input.len().min(FRAME_HEAD_LEN - self.head_len);
        let (bytes, rest) = input.split_at(len);
        self.head[self.head_len..self.head_len + len].copy_from_slice(bytes);
        *input = rest;
        self.head_len += len;
        if self.head_len < FRAME_HEAD_LEN {
            return None;
        }
        self.head_len = 0;
        Some(FrameHead::decode(&self.head))
    }

    /// Whether such a frame may stand here, as far as its head tells.
    fn check(&mut self, head: FrameHead) -> Result<(), Reason> {
        if let First::Await(wanted) = self.first {
            let is_settings = head.kind == FrameKind::SETTINGS && !head.has(flags::ACK);
            if wanted == FirstFrame::Settings && !is_settings {
                return Err(Reason::SettingsMissing);
            }
            self.first = First::Seen;
        }
        if head.len > FRAME_BYTES_MAX {
            return Err(Reason::FrameTooLong);
        }
        let continues = head.kind == FrameKind::CONTINUATION;
        match self.block {
            Some(block) if !continues || block.stream != head.stream => {
                return Err(Reason::BlockInterrupted);
            }
            Some(block) if block.continuations == self.continuations_max => {
                return Err(Reason::BlockTooLong);
            }
            Some(block) if block.len + head.len as usize > self.block_bytes_max => {
                return Err(Reason::BlockTooLong);
            }
            None if continues => return Err(Reason::BlockInterrupted),
            _ => {}
        }
        check_stream(head)?;
        check_len(head)
    }

    /// Continues after the header of a frame, or returns a frame that has no payload to wait for.
    fn enter(&mut self, head: FrameHead) -> Result<Option<Frame<'static>>, Reason> {
        match head.kind {
            FrameKind::DATA if head.has(flags::PADDED) => {
                if head.len == 0 {
                    return Err(Reason::FrameLength);
                }
                self.state = State::DataPadding(head);
            }
            FrameKind::DATA => self.state = data(head, 0, 0)?,
            FrameKind::PUSH_PROMISE => return Err(Reason::FrameUnexpected),
            FrameKind::PRIORITY if head.len != 5 => {
                self.state = State::Skip(head.len);
                let stream = head.stream;
                return Ok(Some(Frame::PriorityLength { stream }));
            }
            FrameKind::HEADERS
            | FrameKind::PRIORITY
            | FrameKind::RST_STREAM
            | FrameKind::SETTINGS
            | FrameKind::PING
            | FrameKind::GOAWAY
            | FrameKind::WINDOW_UPDATE
            | FrameKind::CONTINUATION
            | FrameKind::PRIORITY_UPDATE => self.state = State::Payload(head),
            _ => {
                self.state = State::Skip(head.len);
                return Ok(Some(Frame::Ignored));
            }
        }
        Ok(None)
    }

    /// The whole payload, which stands in the input or is put together behind a block.
    fn read_payload<'a>(&mut self, head: FrameHead, input: &mut &'a [u8]) -> Option<Chunk<'a>> {
        let len = head.len as usize;
        let before = self.block.map_or(0, |block| block.len);
        let have = self.kept.len() - before;
        if have == 0
            && before == 0
            && let Some((payload, rest)) = input.split_at_checked(len)
        {
            *input = rest;
            return Some(Chunk::Given(payload));
        }
        let (bytes, rest) = input.split_at((len - have).min(input.len()));
        self.kept.extend_from_slice(bytes);
        *input = rest;
        (self.kept.len() - before == len).then(|| Chunk::Kept(core::mem::take(&mut self.kept)))
    }

    /// The frame that a whole payload is, unless it is a part of a block.
    fn take<'a>(
        &mut self,
        head: FrameHead,
        payload: Chunk<'a>,
    ) -> Result<Option<Frame<'a>>, Reason> {
        match head.kind {
            FrameKind::HEADERS => return self.take_headers(head, payload),
            FrameKind::CONTINUATION => return Ok(self.take_continuation(head, payload)),
            FrameKind::SETTINGS if !head.has(flags::ACK) => {
                return Ok(Some(Frame::Settings(payload)));
            }
            FrameKind::PRIORITY_UPDATE => return take_priority_update(payload).map(Some),
            _ => {}
        }
        let frame = take_short(head, payload.bytes());
        self.give_back(payload);
        frame.map(Some)
    }

    /// The first part of a block, or the whole (section 6.2).
    fn take_headers<'a>(
        &mut self,
        head: FrameHead,
        payload: Chunk<'a>,
    ) -> Result<Option<Frame<'a>>, Reason> {
        let (from, to) = headers_fragment(head, payload.bytes())?;
        let stream = head.stream;
        let end = End::here_if(head.has(flags::END_STREAM));
        let block = match payload {
            Chunk::Given(bytes) => Chunk::Given(&bytes[from..to]),
            Chunk::Kept(mut bytes) => {
                bytes.truncate(to);
                bytes.drain(..from);
                Chunk::Kept(bytes)
            }
        };
        if head.has(flags::END_HEADERS) {
            return Ok(Some(Frame::Block { stream, end, block }));
        }
        match block {
            Chunk::Given(bytes) => self.kept.extend_from_slice(bytes),
            Chunk::Kept(bytes) => self.kept = bytes,
        }
        self.block = Some(Block {
            stream,
            end,
            continuations: 0,
            len: self.kept.len(),
        });
        Ok(None)
    }

    /// More of a block (section 6.10).
    fn take_continuation<'a>(&mut self, head: FrameHead, payload: Chunk<'a>) -> Option<Frame<'a>> {
        let mut block = self.block.take()?;
        // An empty block before an empty or whole payload leaves that in the input.
        let kept = match payload {
            Chunk::Kept(bytes) => bytes,
            Chunk::Given(bytes) => {
                let mut kept = core::mem::take(&mut self.kept);
                kept.extend_from_slice(bytes);
                kept
            }
        };
        if head.has(flags::END_HEADERS) {
            return Some(Frame::Block {
                stream: block.stream,
                end: block.end,
                block: Chunk::Kept(kept),
            });
        }
        block.len = kept.len();
        block.continuations += 1;
        self.kept = kept;
        self.block = Some(block);
        None
    }

    /// The next piece of a DATA frame.
    fn read_data<'a>(&mut self, input: &mut &'a [u8]) -> Option<Frame<'a>> {
        let State::Data {
            stream,
            left,
            padding,
            end,
            whole,
        } = self.state
        else {
            return None;
        };
        let (piece, rest) = input.split_at((left as usize).min(input.len()));
        if piece.is_empty() && left > 0 {
            return None;
        }
        *input = rest;
        let left = left - piece.len() as u32;
        self.state = if left == 0 {
            State::Skip(padding)
        } else {
            State::Data {
                stream,
                left,
                padding,
                end,
                whole: None,
            }
        };
        Some(Frame::Data {
            stream,
            whole,
            data: piece,
            end: End::here_if(end.is_here() && left == 0),
        })
    }
}

/// The state before the content of a DATA frame, of which `padding` and the byte before it (if `length_bytes`) are
/// none (section 6.1).
fn data(head: FrameHead, length_bytes: u32, padding: u32) -> Result<State, Reason> {
    let overhead = length_bytes + padding;
    let left = head.len.checked_sub(overhead).ok_or(Reason::Padding)?;
    let end = End::here_if(head.has(flags::END_STREAM));
    let whole = Whole {
        counted: head.len,
        overhead,
        end,
    };
    Ok(State::Data {
        stream: head.stream,
        left,
        padding,
        end,
        whole: Some(whole),
    })
}

/// Frames on a stream where they do not belong, or on none (section 6).
fn check_stream(head: FrameHead) -> Result<(), Reason> {
    let fits = match head.kind {
        FrameKind::DATA
        | FrameKind::HEADERS
        | FrameKind::PRIORITY
        | FrameKind::RST_STREAM
        | FrameKind::CONTINUATION => head.stream != 0,
        FrameKind::SETTINGS | FrameKind::PING | FrameKind::GOAWAY | FrameKind::PRIORITY_UPDATE => {
            head.stream == 0
        }
        _ => true,
    };
    if fits {
        Ok(())
    } else {
        Err(Reason::FrameStream)
    }
}

/// Frames of a length that their kind does not have (section 6).
fn check_len(head: FrameHead) -> Result<(), Reason> {
    let fits = match head.kind {
        FrameKind::RST_STREAM | FrameKind::WINDOW_UPDATE => head.len == 4,
        FrameKind::SETTINGS if head.has(flags::ACK) => head.len == 0,
        FrameKind::SETTINGS => head.len.is_multiple_of(6),
        FrameKind::PING => head.len == 8,
        FrameKind::GOAWAY => head.len >= 8,
        FrameKind::PRIORITY_UPDATE => head.len >= 4,
        _ => true,
    };
    if fits {
        Ok(())
    } else {
        Err(Reason::FrameLength)
    }
}

/// Where the part of a block stands between priority and padding (section 6.2).
fn headers_fragment(head: FrameHead, payload: &[u8]) -> Result<(usize, usize), Reason> {
    let (mut from, mut to) = (0, payload.len());
    if head.has(flags::PADDED) {
        let padding = *payload.first().ok_or(Reason::FrameLength)?;
        from = 1;
        to = payload
            .len()
            .checked_sub(usize::from(padding))
            .ok_or(Reason::Padding)?;
    }
    if head.has(flags::PRIORITY) {
        let priority = payload.get(from..).and_then(<[u8]>::first_chunk::<5>);
        let priority = priority.ok_or(Reason::FrameLength)?;
        check_dependency(head.stream, priority)?;
        from += 5;
    }
    if from > to {
        return Err(Reason::Padding);
    }
    Ok((from, to))
}

/// RFC 7540, section 5.3.1. RFC 9113 asks for no such look, but who sends this does not know what it does.
fn check_dependency(stream: u32, priority: &[u8; 5]) -> Result<(), Reason> {
    let [a, b, c, d, _] = *priority;
    if number([a, b, c, d]) == stream {
        return Err(Reason::SelfDependency);
    }
    Ok(())
}

/// The frames of a fixed length, which was checked, and GOAWAY, whose debug data nobody reads.
fn take_short(head: FrameHead, payload: &[u8]) -> Result<Frame<'static>, Reason> {
    let stream = head.stream;
    if head.kind == FrameKind::PRIORITY {
        let priority = payload.first_chunk().ok_or(Reason::FrameLength)?;
        check_dependency(stream, priority)?;
        return Ok(Frame::Ignored);
    }
    if head.kind == FrameKind::SETTINGS {
        return Ok(Frame::SettingsAck);
    }
    if head.kind == FrameKind::PING {
        let opaque = *payload.first_chunk().ok_or(Reason::FrameLength)?;
        return Ok(if head.has(flags::ACK) {
            Frame::Pong(opaque)
        } else {
            Frame::Ping(opaque)
        });
    }
    let (word, rest) = payload.split_first_chunk().ok_or(Reason::FrameLength)?;
    match head.kind {
        FrameKind::RST_STREAM => Ok(Frame::Reset {
            stream,
            code: ErrorCode(u32::from_be_bytes(*word)),
        }),
        FrameKind::WINDOW_UPDATE => Ok(Frame::WindowUpdate {
            stream,
            increment: number(*word),
        }),
        _ => {
            let code = *rest.first_chunk().ok_or(Reason::FrameLength)?;
            Ok(Frame::GoAway {
                last: number(*word),
                code: ErrorCode(u32::from_be_bytes(code)),
            })
        }
    }
}

/// The stream that another priority is for, and the priority (RFC 9218, section 7.1).
fn take_priority_update(payload: Chunk<'_>) -> Result<Frame<'_>, Reason> {
    let (word, _) = payload
        .bytes()
        .split_first_chunk()
        .ok_or(Reason::FrameLength)?;
    let stream = number(*word);
    if stream == 0 {
        return Err(Reason::FrameStream);
    }
    let value = match payload {
        Chunk::Given(bytes) => Chunk::Given(&bytes[4..]),
        Chunk::Kept(mut bytes) => {
            bytes.drain(..4);
            Chunk::Kept(bytes)
        }
    };
    Ok(Frame::PriorityUpdate { stream, value })
}
