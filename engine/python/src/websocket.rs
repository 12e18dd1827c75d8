//! A WebSocket whose messages the application sends and receives. The codec of RFC 6455 and the client's socket are the
//! handler's.

use std::task::{Context, Poll};

use sluice_message::ResponseHead;
use sluice_wire::python::MessageKind;

use crate::call::{Call, Decision, Response};
use crate::failure::CallFailure;
use crate::lane::Message;

/// A WebSocket in progress. Dropping it without [`WebSocket::close`] informs the application that the connection was lost
/// (code 1006).
pub struct WebSocket {
    call: Box<Call>,
    /// Length of the message that was received last: it counts against the window.
    unconsumed: usize,
}

/// The application's decision about a handshake.
pub enum Handshake {
    /// It accepts; the headers are for the handshake's response (a chosen subprotocol among them as
    /// `Sec-WebSocket-Protocol`).
    Accepted(ResponseHead),
    /// It refuses with this response; its body is [`Call::into_body`] of [`WebSocket::into_call`].
    Responded(Response),
    /// It refuses without a response of its own: 403.
    Refused,
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
    pub(crate) fn new(call: Box<Call>) -> WebSocket {
        WebSocket {
            call,
            unconsumed: 0,
        }
    }

    /// Ready with the application's decision.
    ///
    /// # Errors
    ///
    /// As [`Call::poll_response`].
    pub fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<Result<Handshake, CallFailure>> {
        match self.call.poll_head(cx) {
            Poll::Ready(Ok(decision)) => Poll::Ready(Ok(match decision {
                Decision::Accepted(head) => Handshake::Accepted(head),
                Decision::Response(response) => Handshake::Responded(response),
                Decision::Refused => Handshake::Refused,
            })),
            Poll::Ready(Err(why)) => Poll::Ready(Err(self.call.fail(why))),
            Poll::Pending => Poll::Pending,
        }
    }

    /// The call, for the body of a response that refuses the handshake.
    pub fn into_call(self) -> Box<Call> {
        self.call
    }

    /// The index of the worker process in its group, and its PID.
    pub fn process(&self) -> (usize, u32) {
        self.call.process()
    }

    /// Ready with true when the application takes a message of `length` bytes, with false when it takes none any more.
    /// While this is pending the handler reads nothing from the client.
    pub fn poll_send_ready(&mut self, length: usize, cx: &mut Context<'_>) -> Poll<bool> {
        let (mux, id) = (self.call.mux(), self.call.id());
        mux.poll_message_capacity(id, length, cx)
    }

    /// Sends a whole message of the client. Call it after [`WebSocket::poll_send_ready`]; otherwise the message exceeds
    /// the window, which costs memory. Returns false if the application takes none any more, or the message is longer
    /// than 16 MiB.
    pub fn send(&mut self, kind: Kind, message: &[u8]) -> bool {
        let kind = match kind {
            Kind::Text => MessageKind::Text,
            Kind::Binary => MessageKind::Binary,
        };
        self.call.mux().send_message(self.call.id(), kind, message)
    }

    /// The client has closed the WebSocket with this code (1005 if it gave none) and reason. What the application has
    /// sent before it noticed can still be received.
    pub fn close(&mut self, code: u16, reason: &[u8]) {
        self.call.mux().send_close(self.call.id(), code, reason);
    }

    /// Ready with what the application sent. A message counts against the window until the next call of this function:
    /// call it again when the client has taken the message.
    ///
    /// # Errors
    ///
    /// The process is gone, or the application failed.
    pub fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<Received, CallFailure>> {
        let (mux, id) = (self.call.mux(), self.call.id());
        let taken = std::mem::take(&mut self.unconsumed);
        if taken > 0 {
            mux.consumed(id, taken);
        }
        match mux.take_message(id, cx) {
            Poll::Ready(Ok(Message::Data(kind, data))) => {
                self.unconsumed = data.len();
                let kind = match kind {
                    MessageKind::Text => Kind::Text,
                    MessageKind::Binary => Kind::Binary,
                };
                Poll::Ready(Ok(Received::Message(kind, data)))
            }
            Poll::Ready(Ok(Message::Close(code, reason))) => {
                Poll::Ready(Ok(Received::Close(code, reason)))
            }
            Poll::Ready(Err(gone)) => {
                let why = self.call.why(gone);
                Poll::Ready(Err(self.call.fail(why)))
            }
            Poll::Pending => Poll::Pending,
        }
    }
}
