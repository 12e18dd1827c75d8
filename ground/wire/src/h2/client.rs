//! The client's end of a connection, towards upstreams.

use alloc::vec::Vec;

use sluice_message::{Fields, RequestHead, ResponseHead};

use super::error::{Closed, ErrorCode};
use super::event::{End, Side, StreamGone};
use super::fields::HeadFault;
use super::limits::Limits;
use super::settings::Settings;
use super::stream::StreamId;
use crate::h1::BodyFraming;

/// The client's end of one connection.
pub struct Client {}

/// How far `receive` came; see [`super::Received`].
#[derive(Debug)]
pub struct ClientReceived<'a> {
    /// The bytes of the input that are done with.
    pub consumed: usize,
    /// What happened.
    pub event: Option<ClientEvent<'a>>,
}

/// What a server did.
#[derive(Debug)]
pub enum ClientEvent<'a> {
    /// An interim answer; its head is in the one given to `receive`. 101 does not exist in HTTP/2.
    Interim {
        /** Its stream. */
        id: StreamId,
    },
    /// The head of the answer.
    Head {
        /** Its stream. */
        id: StreamId,
        /** Whether there is no content. */
        end: End,
        /** Length of the content: None, Length or Chunked (the stream's end tells). */
        body: BodyFraming,
    },
    /// Content of an answer.
    Data {
        /** Its stream. */
        id: StreamId,
        /** The content. */
        data: &'a [u8],
        /** Whether that was all. */
        end: End,
    },
    /// Trailers, which end the answer.
    Trailers {
        /** Its stream. */
        id: StreamId,
        /** The fields. */
        fields: Fields,
    },
    /// The stream was reset: by the server, or by us because what it sent is malformed (`fault`).
    Reset {
        /** Its stream. */
        id: StreamId,
        /** Why; REFUSED_STREAM: the request was not looked at and can be sent again. */
        code: ErrorCode,
        /** Who. */
        by: Side,
        /** What was malformed. */
        fault: Option<HeadFault>,
    },
    /// As [`super::Event::Window`].
    Window {
        /** The stream or all. */
        id: Option<StreamId>,
    },
    /// The server takes no new streams. Those with a number above `last` were not looked at; each of them is told by
    /// `Reset` with REFUSED_STREAM after this.
    GoAway {
        /** The last stream looked at. */
        last: u32,
        /** Why. */
        code: ErrorCode,
    },
    /// The server's settings came or changed: `Client::streams_free` may have.
    Settings {
        /** What holds now. */
        settings: Settings,
    },
}

/// Why no stream can be opened now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenRefused {
    /// As many are open as the server or our limit allows.
    Full,
    /// The connection takes no new streams any more.
    Closing,
}

#[allow(unused_variables)]
impl Client {
    /// An end with preface and settings in its output.
    pub fn new(limits: &Limits) -> Client {
        unimplemented!()
    }
    /// As `Server::receive`; `head` is filled by `Interim` and `Head`.
    pub fn receive<'a>(
        &mut self,
        input: &'a [u8],
        head: &mut ResponseHead,
    ) -> Result<ClientReceived<'a>, Closed> {
        unimplemented!()
    }
    /// Streams that can be opened now.
    pub fn streams_free(&self) -> usize {
        unimplemented!()
    }
    /// Opens a stream with the head of a request. `https` gives the scheme. Connection-specific fields are left out.
    pub fn open(
        &mut self,
        head: &RequestHead,
        https: bool,
        framing: BodyFraming,
        end: End,
    ) -> Result<StreamId, OpenRefused> {
        unimplemented!()
    }
    // output, is_output_full, send_data, capacity, send_data_head, send_trailers, consumed, reset, release,
    // next_to_send, ping, calm, drain, is_done, open_streams, capacity_bytes, shrink: as Server.
}
