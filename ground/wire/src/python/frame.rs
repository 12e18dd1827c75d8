//! The frame header (decision 0023, "Frames"). The payloads are up to the other modules.

use core::fmt;

use crate::limits::{
    PYTHON_CONTROL_BYTES_MAX, PYTHON_ERROR_BYTES_MAX, PYTHON_HEADERS_BYTES_MAX,
    PYTHON_MESSAGE_BYTES_MAX, PYTHON_PAYLOAD_BYTES_MAX, PYTHON_REASON_BYTES_MAX,
};

/// Length of a frame header.
pub(super) const HEADER_BYTES: usize = 16;

/// Flag: the last frame of this direction of the stream.
pub(super) const FLAG_END: u8 = 1;

/// Flag of REQUEST: WebSocket. Flag of WS_MESSAGE: text.
pub(super) const FLAG_SECOND: u8 = 2;

/// Flag of WS_MESSAGE: the message goes on in the next WS_MESSAGE of the stream.
pub(super) const FLAG_MORE: u8 = 4;

/// Whether a frame is the last of its direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It is.
    Here,
    /// More will follow.
    Later,
}

impl End {
    /// [`End::Here`] if `is_here`.
    pub fn here_if(is_here: bool) -> End {
        match is_here {
            true => End::Here,
            false => End::Later,
        }
    }

    /// Whether it is the last one.
    pub fn is_here(self) -> bool {
        self == End::Here
    }

    pub(super) fn flag(self) -> u8 {
        match self {
            End::Here => FLAG_END,
            End::Later => 0,
        }
    }
}

/// The type of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A request: its dictionary.
    Request = 0x01,
    /// Bytes of a request body.
    RequestBody = 0x02,
    /// The request is given up.
    Cancel = 0x03,
    /// More of the response may be sent.
    ResponseCredit = 0x04,
    /// A client's WebSocket message, or a piece of it.
    ClientMessage = 0x05,
    /// The client's end of a WebSocket.
    ClientClose = 0x06,
    /// The head of a response, and the beginning of its body.
    Response = 0x11,
    /// Bytes of a response body.
    ResponseBody = 0x12,
    /// A part of a file, as part of a response body.
    File = 0x13,
    /// The application failed.
    Error = 0x14,
    /// More of the request body may be sent.
    RequestCredit = 0x15,
    /// The application accepts a WebSocket.
    Accept = 0x16,
    /// The application's WebSocket message, or a piece of it.
    Message = 0x17,
    /// The application's end of a WebSocket.
    Close = 0x18,
    /// Headers of a 103 response.
    EarlyHints = 0x19,
    /// Trailers.
    Trailers = 0x1a,
    /// The settings of the process.
    Config = 0x40,
    /// Lanes of a further seat.
    Seat = 0x41,
    /// Finish what runs, then exit.
    Drain = 0x42,
    /// Write the stacks of all threads to standard error.
    Dump = 0x43,
    /// Fork a worker process.
    Fork = 0x44,
    /// A dictionary in marshal, to be compared.
    Sample = 0x45,
    /// The process takes requests.
    Ready = 0x50,
    /// The process could not start.
    Failed = 0x51,
    /// Counters.
    Stats = 0x52,
    /// A message for the log.
    Log = 0x53,
    /// A process was forked.
    Forked = 0x54,
    /// A forked process has exited.
    Exited = 0x55,
    /// A signal has asked the process to end.
    Draining = 0x56,
}

impl Kind {
    fn of(byte: u8) -> Option<Kind> {
        Some(match byte {
            0x01 => Kind::Request,
            0x02 => Kind::RequestBody,
            0x03 => Kind::Cancel,
            0x04 => Kind::ResponseCredit,
            0x05 => Kind::ClientMessage,
            0x06 => Kind::ClientClose,
            0x11 => Kind::Response,
            0x12 => Kind::ResponseBody,
            0x13 => Kind::File,
            0x14 => Kind::Error,
            0x15 => Kind::RequestCredit,
            0x16 => Kind::Accept,
            0x17 => Kind::Message,
            0x18 => Kind::Close,
            0x19 => Kind::EarlyHints,
            0x1a => Kind::Trailers,
            0x40 => Kind::Config,
            0x41 => Kind::Seat,
            0x42 => Kind::Drain,
            0x43 => Kind::Dump,
            0x44 => Kind::Fork,
            0x45 => Kind::Sample,
            0x50 => Kind::Ready,
            0x51 => Kind::Failed,
            0x52 => Kind::Stats,
            0x53 => Kind::Log,
            0x54 => Kind::Forked,
            0x55 => Kind::Exited,
            0x56 => Kind::Draining,
            _ => return None,
        })
    }

    /// Whether a worker sends such frames on a lane.
    pub(super) fn is_of_lane(self) -> bool {
        (0x11..=0x1a).contains(&(self as u8))
    }

    /// Whether a worker sends such frames on the control channel.
    pub(super) fn is_of_control(self) -> bool {
        self as u8 >= 0x50
    }

    /// The largest payload; of a response, the largest header block.
    pub(super) fn payload_max(self) -> u32 {
        match self {
            Kind::Response | Kind::Accept | Kind::EarlyHints | Kind::Trailers => {
                PYTHON_HEADERS_BYTES_MAX
            }
            Kind::File => 16,
            Kind::Error => PYTHON_ERROR_BYTES_MAX,
            Kind::Cancel | Kind::ResponseCredit | Kind::RequestCredit => 0,
            Kind::Close | Kind::ClientClose => PYTHON_REASON_BYTES_MAX,
            Kind::Request | Kind::RequestBody | Kind::ResponseBody => PYTHON_PAYLOAD_BYTES_MAX,
            Kind::ClientMessage | Kind::Message => PYTHON_MESSAGE_BYTES_MAX,
            Kind::Config
            | Kind::Seat
            | Kind::Drain
            | Kind::Dump
            | Kind::Fork
            | Kind::Sample
            | Kind::Ready
            | Kind::Failed
            | Kind::Stats
            | Kind::Log
            | Kind::Forked
            | Kind::Exited
            | Kind::Draining => PYTHON_CONTROL_BYTES_MAX,
        }
    }
}

/// A frame header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Length of the payload.
    pub length: u32,
    /// The stream; 0 on the control channel.
    pub stream: u32,
    /// The type.
    pub kind: Kind,
    /// Flags.
    pub flags: u8,
    /// A number whose meaning depends on the type.
    pub small: u16,
    /// A number whose meaning depends on the type.
    pub large: u32,
}

impl Header {
    /// A header without flags and numbers.
    pub fn new(kind: Kind, stream: u32, length: usize) -> Header {
        Header {
            length: u32::try_from(length).unwrap_or(u32::MAX),
            stream,
            kind,
            flags: 0,
            small: 0,
            large: 0,
        }
    }

    /// Whether the frame is the last of its direction.
    pub fn end(&self) -> End {
        End::here_if(self.flags & FLAG_END != 0)
    }

    /// The bytes.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&self.length.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.stream.to_le_bytes());
        bytes[8] = self.kind as u8;
        bytes[9] = self.flags;
        bytes[10..12].copy_from_slice(&self.small.to_le_bytes());
        bytes[12..].copy_from_slice(&self.large.to_le_bytes());
        bytes
    }

    /// The header in `bytes`.
    ///
    /// # Errors
    ///
    /// [`Fault::Kind`].
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Header, Fault> {
        let long = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        Ok(Header {
            length: long(0),
            stream: long(4),
            kind: Kind::of(bytes[8]).ok_or(Fault::Kind(bytes[8]))?,
            flags: bytes[9],
            small: u16::from_le_bytes([bytes[10], bytes[11]]),
            large: long(12),
        })
    }
}

/// How a worker violated the protocol. Nothing more can be read from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A frame of a type that does not exist, or does not come from a worker on this channel.
    Kind(u8),
    /// A payload is longer than its type allows.
    Length {
        /// The type.
        kind: Kind,
        /// The length.
        length: u32,
    },
    /// The header block of a response is longer than its payload.
    Block,
    /// A frame for a stream that is not open.
    Stream(u32),
    /// A frame of this type is not allowed in the state of its stream.
    Order(Kind),
    /// More bytes than the window allows.
    Window,
    /// Credit that exceeds any window.
    Credit,
    /// A status that is not one of a final response.
    Status(u16),
    /// A text, or a piece of one, that is not UTF-8.
    Text(Kind),
    /// A file without its descriptor, or a part of a file that exceeds 2^63.
    File,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Kind(byte) => write!(f, "frame type 0x{byte:02x} is not allowed here"),
            Fault::Length { kind, length } => {
                write!(f, "a payload of {length} bytes is too long for {kind:?}")
            }
            Fault::Block => f.write_str("a header block is longer than its frame"),
            Fault::Stream(stream) => write!(f, "stream {stream} is not open"),
            Fault::Order(kind) => write!(f, "{kind:?} is not allowed in this state of the stream"),
            Fault::Window => f.write_str("more bytes than the window allows"),
            Fault::Credit => f.write_str("more credit than any window"),
            Fault::Status(status) => write!(f, "{status} is not a final status"),
            Fault::Text(kind) => write!(f, "the text of {kind:?} is not UTF-8"),
            Fault::File => f.write_str("a file without a descriptor or beyond the largest size"),
        }
    }
}

impl core::error::Error for Fault {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_little_endian_and_come_back() {
        let header = Header {
            length: 0x0102_0304,
            stream: 0x0506_0708,
            kind: Kind::Response,
            flags: 1,
            small: 0x0a0b,
            large: 0x0c0d_0e0f,
        };
        let bytes = header.encode();
        assert_eq!(
            bytes,
            [
                4, 3, 2, 1, 8, 7, 6, 5, 0x11, 1, 0x0b, 0x0a, 0x0f, 0x0e, 0x0d, 0x0c
            ]
        );
        assert_eq!(Header::decode(&bytes), Ok(header));
    }

    #[test]
    fn every_known_type_comes_back_and_others_are_refused() {
        let mut known = 0;
        for byte in 0..=u8::MAX {
            match Kind::of(byte) {
                Some(kind) => {
                    known += 1;
                    assert_eq!(kind as u8, byte);
                }
                None => {
                    let mut bytes = [0; HEADER_BYTES];
                    bytes[8] = byte;
                    assert_eq!(Header::decode(&bytes), Err(Fault::Kind(byte)));
                }
            }
        }
        assert_eq!(known, 29);
    }
}
