//! A WebSocket whose messages the application sends and receives. The codec of RFC 6455 and the client's socket are the
//! handler's.

use std::task::{Context, Poll};

use sluice_message::ResponseHead;

use crate::call::{Call, Response};
use crate::failure::CallFailure;

/// A WebSocket in progress. Dropping it without [`WebSocket::close`] tells the application that the connection was lost
/// (code 1006).
pub struct WebSocket {
    call: Box<Call>,
}

/// The application's decision about a handshake.
pub enum Handshake {
    /// It accepts; the headers are for the handshake's response (a chosen subprotocol among them as
    /// `Sec-WebSocket-Protocol`).
    Accepted(ResponseHead),
    /// It refuses with this response; its body is [`Call::into_body`] of [`WebSocket::into_call`].
    Refused(Response),
}

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// UTF-8; from clients, the handler has validated it.
    Text,
    /// Bytes.
    Binary,
}

/// What the application sent.
#[derive(Debug)]
pub enum Received {
    /// A whole message.
    Message(Kind, Vec<u8>),
    /// It closes the WebSocket with this code and reason. Nothing follows.
    Close(u16, String),
}

impl WebSocket {
    /// Ready with the application's decision.
    ///
    /// # Errors
    ///
    /// As [`Call::poll_response`].
    pub fn poll_handshake(
        &mut self,
        _cx: &mut Context<'_>,
    ) -> Poll<Result<Handshake, CallFailure>> {
        Poll::Pending
    }

    /// The call, for the body of a response that refuses the handshake.
    pub fn into_call(self: Box<Self>) -> Box<Call> {
        self.call
    }

    /// The index of the worker process in its group, and its PID.
    pub fn process(&self) -> (usize, u32) {
        self.call.process()
    }

    /// Ready with true when the application takes a message of `length` bytes, with false when it takes none any more.
    /// While this is pending the handler reads nothing from the client.
    pub fn poll_send_ready(&mut self, _length: usize, _cx: &mut Context<'_>) -> Poll<bool> {
        Poll::Ready(false)
    }

    /// Sends a whole message of the client. Call it after [`WebSocket::poll_send_ready`]; otherwise the message exceeds
    /// the window, which costs memory.
    pub fn send(&mut self, _kind: Kind, _message: &[u8]) {}

    /// The client has closed the WebSocket with this code (1005 if it gave none) and reason.
    pub fn close(&mut self, _code: u16, _reason: &[u8]) {}

    /// Ready with what the application sent. A message counts against the window until the next call of this function:
    /// call it again when the client has taken the message.
    ///
    /// # Errors
    ///
    /// The process is gone, or the application failed.
    pub fn poll_receive(&mut self, _cx: &mut Context<'_>) -> Poll<Result<Received, CallFailure>> {
        Poll::Pending
    }
}
