//! What a worker sends on a lane, as events.

use sluice_message::Status;

use super::frame::End;
use super::stream::StreamId;
use crate::websocket::MessagePart;

/// The kind of a WebSocket message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// UTF-8.
    Text,
    /// Bytes.
    Binary,
}

/// When an application failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorStage {
    /// It raised an exception before a response.
    BeforeResponse,
    /// It raised one after the head of its response.
    AfterHead,
    /// It broke the rules of its interface.
    Rules,
}

/// What a worker sent. With [`End::Here`] nothing follows on the stream.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// The head of a response; `block` is for [`super::decode_block`].
    Head {
        /// The stream.
        id: StreamId,
        /// The status.
        status: Status,
        /// The headers.
        block: &'a [u8],
        /// Whether the response has no body.
        end: End,
    },
    /// Bytes of a response body.
    Data {
        /// The stream.
        id: StreamId,
        /// The bytes; only the last ones may be none.
        data: &'a [u8],
        /// Whether they are the last ones.
        end: End,
    },
    /// A part of a file, as part of a response body. Its descriptor was received with the frame.
    File {
        /// The stream.
        id: StreamId,
        /// Offset of the first byte.
        offset: u64,
        /// Number of bytes.
        length: u64,
        /// Whether it is the last part of the body.
        end: End,
    },
    /// The application failed. Nothing follows.
    Error {
        /// The stream.
        id: StreamId,
        /// When.
        stage: ErrorStage,
        /// A traceback, or the rule that was broken.
        text: &'a str,
    },
    /// Early hints; `block` is for [`super::decode_block`].
    EarlyHints {
        /// The stream.
        id: StreamId,
        /// The headers.
        block: &'a [u8],
    },
    /// Trailers, and the end of the body.
    Trailers {
        /// The stream.
        id: StreamId,
        /// The trailers.
        block: &'a [u8],
    },
    /// More can be sent on the stream.
    Credit {
        /// The stream.
        id: StreamId,
        /// Bytes that were sent and that the worker has given no credit for: it holds them. Each piece of a message counts
        /// [`crate::limits::PYTHON_MESSAGE_OVERHEAD_BYTES`] more.
        held: usize,
    },
    /// The application accepts a WebSocket.
    Accept {
        /// The stream.
        id: StreamId,
        /// Headers for the response to the handshake.
        block: &'a [u8],
    },
    /// A message of the application, or a piece of it.
    Message {
        /// The stream.
        id: StreamId,
        /// Its kind; each piece of a text is UTF-8.
        kind: MessageKind,
        /// The bytes.
        data: &'a [u8],
        /// Whether the message ends with them.
        piece: MessagePart,
    },
    /// The application closes a WebSocket, or refuses it if it has not accepted it. Nothing follows.
    Close {
        /// The stream.
        id: StreamId,
        /// The code.
        code: u16,
        /// The reason.
        reason: &'a str,
    },
    /// A part of a file on a stream that was given up: its descriptor is to be closed. With [`End::Here`] the stream is
    /// free now.
    DroppedFile {
        /// The stream.
        id: StreamId,
        /// Whether the worker is done with the stream.
        end: End,
    },
    /// The worker is done with a stream that was given up, which is free now.
    Freed {
        /// The stream.
        id: StreamId,
    },
}
