//! Decodes a response from FastCGI records: which bytes of the input are its head and body, what the application writes
//! to standard error, and where the response ends. `head` parses the head; the caller stores the body.

use alloc::vec::Vec;
use core::fmt;

use super::record::{HEAD_BYTES, HeadRefused, Kind, decode_head};
use crate::h1::MergedStep;
use crate::limits::STDERR_BYTES_MAX;

/// Why a response was rejected. The connection cannot be used any more, and the data received so far is not the
/// complete response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseFault {
    /// A record of another version than 1, or no record at all.
    Version(u8),
    /// A record of this type is not allowed in a response.
    Kind(u8),
    /// A record for a request with this number, which was never made.
    Id(u16),
    /// Content after the end of its stream.
    AfterEnd,
    /// The record that ends the response is not 8 bytes long.
    EndLength(u16),
    /// The application did not take the request.
    Refused(Refused),
    /// The connection ended before the response did.
    Truncated,
}

/// Why an application did not take a request (FastCGI specification, section 5.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It serves one request at a time on a connection, and says that there is another.
    CannotMultiplex,
    /// It has too much to do.
    Overloaded,
    /// The application is not a responder.
    UnknownRole,
    /// For a reason that the specification does not know.
    Other(u8),
}

impl From<HeadRefused> for ResponseFault {
    fn from(refused: HeadRefused) -> Self {
        match refused {
            HeadRefused::Version(version) => ResponseFault::Version(version),
            HeadRefused::Kind(kind) => ResponseFault::Kind(kind),
            HeadRefused::Id(id) => ResponseFault::Id(id),
        }
    }
}

impl fmt::Display for ResponseFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResponseFault::Version(version) => write!(f, "no FastCGI record (version {version})"),
            ResponseFault::Kind(kind) => write!(f, "unexpected record of type {kind}"),
            ResponseFault::Id(id) => write!(f, "record of request {id}, which was not made"),
            ResponseFault::AfterEnd => f.write_str("content after the end of its stream"),
            ResponseFault::EndLength(length) => write!(f, "end record of {length} bytes"),
            ResponseFault::Refused(Refused::CannotMultiplex) => {
                f.write_str("refused: one request at a time on a connection")
            }
            ResponseFault::Refused(Refused::Overloaded) => f.write_str("refused: overloaded"),
            ResponseFault::Refused(Refused::UnknownRole) => f.write_str("refused: no responder"),
            ResponseFault::Refused(Refused::Other(status)) => write!(f, "refused: status {status}"),
            ResponseFault::Truncated => f.write_str("response ends early"),
        }
    }
}

impl core::error::Error for ResponseFault {}

/// What an application wrote to standard error.
#[derive(Debug, Default)]
pub struct Stderr {
    /// The first [`STDERR_BYTES_MAX`] bytes.
    pub text: Vec<u8>,
    /// How many followed.
    pub dropped: u64,
}

/// Whether what the application writes to standard error is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keep {
    Stderr,
    Nothing,
}

/// Decodes one response.
#[derive(Debug)]
pub struct ResponseDecoder {
    state: State,
    stdout: Stream,
    errors: Stream,
    keep: Keep,
    stderr: Stderr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stream {
    Open,
    Ended,
}

/// Where the decoder stands: each state but the last needs at least one byte for the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// In the head of a record, of which `have` bytes are here.
    Head {
        bytes: [u8; HEAD_BYTES],
        have: u8,
    },
    Stdout {
        left: u16,
        padding: u8,
    },
    Stderr {
        left: u16,
        padding: u8,
    },
    /// In the record that ends the response.
    End {
        bytes: [u8; 8],
        have: u8,
        padding: u8,
    },
    /// In the padding of a record.
    Padding {
        left: u8,
    },
    /// In that of the last one.
    LastPadding {
        left: u8,
    },
    Done,
}

const AWAIT_HEAD: State = State::Head {
    bytes: [0; HEAD_BYTES],
    have: 0,
};

impl State {
    /// After the content of a record with `padding` bytes behind it.
    fn before_head(padding: u8) -> State {
        match padding {
            0 => AWAIT_HEAD,
            left => State::Padding { left },
        }
    }

    /// As [`State::before_head`] for the last record.
    fn before_end(padding: u8) -> State {
        match padding {
            0 => State::Done,
            left => State::LastPadding { left },
        }
    }
}

impl ResponseDecoder {
    /// A decoder at the first byte of a response, which keeps what the application writes to standard error.
    pub fn keeping_stderr() -> ResponseDecoder {
        ResponseDecoder::with(Keep::Stderr)
    }

    /// A decoder at the first byte of a response.
    pub fn new() -> ResponseDecoder {
        ResponseDecoder::with(Keep::Nothing)
    }

    fn with(keep: Keep) -> ResponseDecoder {
        ResponseDecoder {
            state: AWAIT_HEAD,
            stdout: Stream::Open,
            errors: Stream::Open,
            keep,
            stderr: Stderr::default(),
        }
    }

    /// Decodes `buf`, the bytes that follow those already consumed, and moves the content in it together: head and body
    /// of the response as the application wrote them to standard output.
    pub fn decode_merged(&mut self, buf: &mut [u8]) -> Result<MergedStep, ResponseFault> {
        let mut step = MergedStep {
            content: 0..0,
            consumed: 0,
            ended: false,
        };
        loop {
            if self.state == State::Done {
                step.ended = true;
                return Ok(step);
            }
            let here = &buf[step.consumed..];
            if here.is_empty() {
                return Ok(step);
            }
            if let State::Head { have: 0, .. } = self.state
                && let Some(head) = here.first_chunk()
            {
                // As nearly always, it is here as a whole.
                self.state = self.enter(*head)?;
                step.consumed += HEAD_BYTES;
                continue;
            }
            if let State::Stdout { left, .. } = self.state {
                let (start, length) = (step.consumed, here.len().min(usize::from(left)));
                if step.content.is_empty() {
                    step.content = start..start + length;
                } else {
                    buf.copy_within(start..start + length, step.content.end);
                    step.content.end += length;
                }
                step.consumed += length;
                self.state = self.after(length);
            } else {
                step.consumed += self.take(here)?;
            }
        }
    }

    /// Consumes bytes at the start of `here` that are not content, and returns how many.
    fn take(&mut self, here: &[u8]) -> Result<usize, ResponseFault> {
        let mut taken = 0;
        self.state = match self.state {
            State::Head { mut bytes, have } => {
                taken = fill(&mut bytes, have, here);
                match usize::from(have) + taken {
                    HEAD_BYTES => self.enter(bytes)?,
                    have => State::Head {
                        bytes,
                        have: have as u8,
                    },
                }
            }
            State::Stderr { left, .. } => {
                taken = here.len().min(usize::from(left));
                self.complain(&here[..taken]);
                self.after(taken)
            }
            State::End {
                mut bytes,
                have,
                padding,
            } => {
                taken = fill(&mut bytes, have, here);
                match usize::from(have) + taken {
                    8 => {
                        accept(bytes[4])?;
                        State::before_end(padding)
                    }
                    have => State::End {
                        bytes,
                        have: have as u8,
                        padding,
                    },
                }
            }
            State::Padding { left } => {
                taken = here.len().min(usize::from(left));
                State::before_head(left - taken as u8)
            }
            State::LastPadding { left } => {
                taken = here.len().min(usize::from(left));
                State::before_end(left - taken as u8)
            }
            state @ (State::Stdout { .. } | State::Done) => state,
        };
        Ok(taken)
    }

    /// The state after the head of a record.
    fn enter(&mut self, bytes: [u8; HEAD_BYTES]) -> Result<State, ResponseFault> {
        let (kind, left, padding) = decode_head(bytes)?;
        match kind {
            Kind::Stdout => {
                open(&mut self.stdout, left)?;
                Ok(match left {
                    0 => State::before_head(padding),
                    left => State::Stdout { left, padding },
                })
            }
            Kind::Stderr => {
                open(&mut self.errors, left)?;
                Ok(match left {
                    0 => State::before_head(padding),
                    left => State::Stderr { left, padding },
                })
            }
            // Streams that were not ended end here: PHP ends neither.
            Kind::End if left == 8 => Ok(State::End {
                bytes: [0; 8],
                have: 0,
                padding,
            }),
            Kind::End => Err(ResponseFault::EndLength(left)),
            Kind::Begin | Kind::Params | Kind::Stdin => Err(ResponseFault::Kind(bytes[1])),
        }
    }

    /// The state after `taken` more bytes of a stream.
    fn after(&self, taken: usize) -> State {
        let taken = taken as u16;
        match self.state {
            State::Stdout { left, padding } if left > taken => State::Stdout {
                left: left - taken,
                padding,
            },
            State::Stderr { left, padding } if left > taken => State::Stderr {
                left: left - taken,
                padding,
            },
            State::Stdout { padding, .. } | State::Stderr { padding, .. } => {
                State::before_head(padding)
            }
            state @ (State::Head { .. }
            | State::End { .. }
            | State::Padding { .. }
            | State::LastPadding { .. }
            | State::Done) => state,
        }
    }

    fn complain(&mut self, text: &[u8]) {
        if self.keep == Keep::Nothing {
            return;
        }
        let room = STDERR_BYTES_MAX - self.stderr.text.len();
        let kept = text.len().min(room);
        self.stderr.text.extend_from_slice(&text[..kept]);
        self.stderr.dropped += (text.len() - kept) as u64;
    }

    /// A decoder for what comes after the last byte that this one has taken, which keeps nothing.
    pub fn rest(&self) -> ResponseDecoder {
        ResponseDecoder {
            state: self.state,
            stdout: self.stdout,
            errors: self.errors,
            keep: Keep::Nothing,
            stderr: Stderr::default(),
        }
    }

    /// Whether the whole response was read.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// The connection ended here.
    pub fn finish_at_eof(&self) -> Result<(), ResponseFault> {
        if self.is_done() {
            Ok(())
        } else {
            Err(ResponseFault::Truncated)
        }
    }

    /// What the application wrote to standard error so far.
    pub fn stderr(&self) -> &Stderr {
        &self.stderr
    }
}

impl Default for ResponseDecoder {
    fn default() -> Self {
        ResponseDecoder::new()
    }
}

/// Copies the missing part of `bytes`, of which `have` bytes are present, and returns how many bytes it copied.
fn fill(bytes: &mut [u8; 8], have: u8, here: &[u8]) -> usize {
    let missing = &mut bytes[usize::from(have)..];
    let count = here.len().min(missing.len());
    missing[..count].copy_from_slice(&here[..count]);
    count
}

/// Notes a record of a stream; an empty one ends it.
fn open(stream: &mut Stream, length: u16) -> Result<(), ResponseFault> {
    match (*stream, length) {
        (Stream::Open, 0) => *stream = Stream::Ended,
        (Stream::Open, _) | (Stream::Ended, 0) => {}
        (Stream::Ended, _) => return Err(ResponseFault::AfterEnd),
    }
    Ok(())
}

/// Checks the protocol status at the end of a response. The application status (its exit code) does not matter: PHP
/// ends a well-formed 500 with 255.
fn accept(protocol_status: u8) -> Result<(), ResponseFault> {
    Err(ResponseFault::Refused(match protocol_status {
        0 => return Ok(()),
        1 => Refused::CannotMultiplex,
        2 => Refused::Overloaded,
        3 => Refused::UnknownRole,
        other => Refused::Other(other),
    }))
}
