//! A WebSocket whose messages the application sends and receives. The codec of RFC 6455 and the client's socket are the
//! handler's.

use std::task::{Context, Poll, ready};

use sluice_message::ResponseHead;
use sluice_net::timer::Timer;
use sluice_wire::limits::PYTHON_MESSAGE_OVERHEAD_BYTES;
use sluice_wire::python::MessageKind;
use sluice_wire::websocket::MessagePart;

use crate::call::{Call, Decision, Response};
use crate::failure::CallFailure;
use crate::held::Share;
use crate::lane::Message;

/// A WebSocket in progress. Dropping it without [`WebSocket::close`] informs the application that the connection was lost
/// (code 1006).
pub struct WebSocket {
    call: Box<Call>,
    /// What was received last: it counts against the window.
    unconsumed: Option<Share>,
    /// The wait for room below the limit on what applications hold.
    wait: Option<Wait>,
}

/// A wait for room below the limit on what applications hold.
struct Wait {
    /// Fires when it has taken too long.
    timer: Timer,
    /// Where it is registered.
    round: Option<u64>,
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
    /// A message, or the next piece of one. Each piece of a text is to be UTF-8.
    Message(Kind, Vec<u8>, MessagePart),
    /// It closes the WebSocket with this code and reason. Nothing follows.
    Close(u16, String),
}

/// What became of a message, or a piece of one, of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It was sent.
    Taken,
    /// The application takes none any more.
    Ended,
    /// The processes have held as much as they may for as long as a request waits for a process (`queue_timeout`). The
    /// WebSocket is to be closed with 1013 (try again later): with 1009 a client would not send its message again, but this
    /// one may.
    Overloaded,
}

impl WebSocket {
    pub(crate) fn new(call: Box<Call>) -> WebSocket {
        WebSocket {
            call,
            unconsumed: None,
            wait: None,
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

    /// Sends a message of the client, or the next piece of one, at most
    /// [`sluice_wire::limits::PYTHON_MESSAGE_BYTES_MAX`] long. Pending while the application has to receive earlier messages
    /// first, or all WebSockets of its group together hold too much; the handler then reads nothing from the client, and
    /// calls again with the same piece. The processes hold a message until it is complete and received.
    pub fn poll_send(
        &mut self,
        kind: Kind,
        data: &[u8],
        piece: MessagePart,
        cx: &mut Context<'_>,
    ) -> Poll<Sent> {
        let (mux, id) = (self.call.mux(), self.call.id());
        if !ready!(mux.poll_piece_capacity(id, data.len(), cx)) {
            return Poll::Ready(Sent::Ended);
        }
        let held = &mux.group.held;
        let mut round = self.wait.as_ref().and_then(|wait| wait.round);
        let bytes = data.len() + PYTHON_MESSAGE_OVERHEAD_BYTES;
        if !held.poll_room(bytes, &mut round, cx) {
            let worker = &mux.worker;
            let wait = self.wait.get_or_insert_with(|| {
                let timer = worker.timers.timer();
                timer.set(&worker.clock, mux.group.settings.queue_timeout);
                Wait { timer, round }
            });
            wait.round = round;
            ready!(wait.timer.poll_expired(cx));
            held.note_shed();
            return Poll::Ready(Sent::Overloaded);
        }
        self.wait = None;
        let kind = match kind {
            Kind::Text => MessageKind::Text,
            Kind::Binary => MessageKind::Binary,
        };
        match mux.send_piece(id, kind, data, piece) {
            true => Poll::Ready(Sent::Taken),
            false => Poll::Ready(Sent::Ended),
        }
    }

    /// The client has closed the WebSocket with this code (1005 if it gave none) and reason. What the application has
    /// sent before it noticed can still be received.
    pub fn close(&mut self, code: u16, reason: &[u8]) {
        self.call.mux().send_close(self.call.id(), code, reason);
    }

    /// Ready with what the application sent. A message counts against the window until the next call of this function:
    /// call it again when the client has taken it.
    ///
    /// # Errors
    ///
    /// The process is gone, or the application failed.
    pub fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<Received, CallFailure>> {
        let (mux, id) = (self.call.mux(), self.call.id());
        if let Some(share) = self.unconsumed.take() {
            mux.consumed(id, share.bytes());
        }
        match mux.take_message(id, cx) {
            Poll::Ready(Ok(Message::Data {
                kind,
                data,
                piece,
                share,
            })) => {
                self.unconsumed = Some(share);
                let kind = match kind {
                    MessageKind::Text => Kind::Text,
                    MessageKind::Binary => Kind::Binary,
                };
                Poll::Ready(Ok(Received::Message(kind, data, piece)))
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
