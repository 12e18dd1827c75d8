//! What was received for one call and not taken by it.

use std::collections::VecDeque;
use std::fs::File;
use std::rc::Rc;
use std::task::{Context, Waker};

use sluice_message::{Fields, Status};
use sluice_net::buffers::Buffers;
use sluice_net::limits::READ_BUFFER_BYTES;
use sluice_wire::python::{BlockFault, HopByHop, MessageKind, StreamId, decode_block};
use sluice_wire::websocket::MessagePart;

use crate::failure::Stage;
use crate::held::Share;
use crate::limits::BLOCK_KEPT_BYTES_MAX;

/// The state of the stream in a slot.
#[derive(Default)]
pub(super) struct Slot {
    /// The stream; `None` while the slot is free.
    pub id: Option<StreamId>,
    /// Whether a call still uses it. A stream that was given up keeps its slot until the worker confirms it.
    pub has_call: bool,
    /// The waker of the call, while it waits.
    pub waker: Option<Waker>,
    /// The header blocks of early hints.
    pub hints: VecDeque<Vec<u8>>,
    /// The status of the response, until it is taken; its header block is in `block`.
    pub head: Option<Status>,
    /// Whether the head has arrived.
    pub has_head: bool,
    /// The header block of the head, or of an accepted handshake. Its memory serves one request after the other.
    pub block: Vec<u8>,
    /// Received bytes of the body.
    pub inbound: Vec<u8>,
    /// What follows `inbound`, which has the size of a pooled buffer.
    pub rest: VecDeque<Part>,
    /// The block of the trailers.
    pub trailers: Option<Vec<u8>>,
    /// Whether the handshake of a WebSocket was accepted, with its header block in `block`.
    pub is_accepted: bool,
    /// Messages, and the end, of a WebSocket.
    pub messages: VecDeque<Message>,
    /// What the worker holds of messages that it was sent.
    pub held: Option<Share>,
    /// How far the response has come.
    pub response: Received,
    /// Whether the call waits for credit or room to send its body.
    pub waits_to_send: bool,
    /// The count of written bytes at which the request begins.
    pub begins_at: u64,
    /// Its number among the streams of the lane, in order.
    pub sequence: u64,
    /// Whether the worker is done with it.
    pub has_ended: bool,
    /// Whether it has taken longer than allowed.
    pub is_overdue: bool,
}

/// Why nothing more comes on a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Gone {
    /// The process is gone, or has violated the protocol.
    Died {
        /// Whether the application may have begun with the request.
        started: bool,
    },
    /// The request took too long.
    TimedOut,
    /// The application failed.
    Failed(Stage, String),
}

/// How far a response has been received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Received {
    /// More may come.
    #[default]
    Open,
    /// It has arrived completely.
    Whole,
    /// No more will come.
    Gone(Gone),
}

/// A part of a response body.
pub(crate) enum Part {
    Bytes(Vec<u8>),
    File(FilePart),
}

/// A part of an open file.
#[derive(Clone)]
pub(crate) struct FilePart {
    pub file: Rc<File>,
    pub offset: u64,
    pub length: u64,
}

/// What an application sent on a WebSocket.
#[derive(Debug)]
pub(crate) enum Message {
    /// A message or a piece of it.
    Data {
        kind: MessageKind,
        data: Vec<u8>,
        piece: MessagePart,
        /// What it counts, as long as it is held.
        share: Share,
    },
    Close(u16, String),
}

/// The result of looking for a head.
#[derive(Debug)]
pub(crate) enum Found {
    /// The header block of early hints.
    Hints(Vec<u8>),
    /// A head, whose headers were decoded, with its Content-Length.
    Head(Status, Result<Option<u64>, BlockFault>),
    /// The application accepts a WebSocket, with headers that were decoded.
    Accepted(Result<Option<u64>, BlockFault>),
    /// It refuses it without a response of its own.
    Refused,
    /// Nothing yet.
    Nothing,
    Gone(Gone),
}

impl Slot {
    /// Adds bytes of the body, in pieces of the size of pooled buffers: nothing grows by being copied.
    pub fn push_bytes(&mut self, mut data: &[u8], buffers: &Buffers) {
        while !data.is_empty() {
            let bytes = match self.rest.back_mut() {
                Some(Part::Bytes(bytes)) => bytes,
                Some(Part::File(_)) => {
                    self.rest.push_back(Part::Bytes(buffers.large()));
                    continue;
                }
                None => &mut self.inbound,
            };
            if bytes.capacity() == 0 {
                *bytes = match data.len() {
                    ..=READ_BUFFER_BYTES => buffers.small(),
                    _ => buffers.large(),
                };
            }
            let count = data.len().min(bytes.capacity() - bytes.len());
            bytes.extend_from_slice(&data[..count]);
            data = &data[count..];
            if !data.is_empty() {
                self.rest.push_back(Part::Bytes(buffers.large()));
            }
        }
    }

    /// The length of a body that has arrived completely and has neither files nor trailers.
    pub fn whole_bytes(&self) -> Option<usize> {
        if self.response != Received::Whole || self.trailers.is_some() {
            return None;
        }
        let mut count = self.inbound.len();
        for part in &self.rest {
            match part {
                Part::Bytes(bytes) => count += bytes.len(),
                Part::File(_) => return None,
            }
        }
        Some(count)
    }

    /// Stores the header block of the head.
    pub fn begin_block(&mut self, block: &[u8]) {
        self.has_head = true;
        self.block.clear();
        self.block.extend_from_slice(block);
    }

    /// More can be sent; the worker still holds so many bytes of messages.
    pub fn note_credit(&mut self, held: usize) {
        self.waits_to_send = false;
        if let Some(share) = &mut self.held {
            share.set(held);
        }
    }

    /// Whether the worker is busy with it.
    pub fn is_open(&self) -> bool {
        self.id.is_some() && !self.has_ended
    }

    /// Prepares the slot for a call, retaining memory.
    pub fn begin(&mut self, id: StreamId, begins_at: u64, sequence: u64) {
        self.id = Some(id);
        self.has_call = true;
        self.begins_at = begins_at;
        self.sequence = sequence;
    }

    /// The call is gone. A stream that is not free keeps what is needed until the worker confirms its end. Returns a
    /// buffer for reuse.
    pub fn leave(&mut self, is_free: bool) -> Vec<u8> {
        let mut old = std::mem::take(self);
        self.block = std::mem::take(&mut old.block);
        self.block.clear();
        if self.block.capacity() > BLOCK_KEPT_BYTES_MAX {
            self.block = Vec::new();
        }
        if !is_free {
            self.id = old.id;
            self.sequence = old.sequence;
            self.begins_at = old.begins_at;
            self.has_head = old.has_head;
            self.is_overdue = old.is_overdue;
        }
        std::mem::take(&mut old.inbound)
    }

    /// The stream is gone. A response that was complete before stays valid, and the first reason says more.
    pub fn lose(&mut self, gone: Gone) {
        if self.response == Received::Open {
            self.response = Received::Gone(gone);
        }
    }

    /// An application failed on this stream.
    pub fn fail(&mut self, stage: Stage, text: &str) {
        self.lose(Gone::Failed(stage, text.to_owned()));
    }

    /// Registers the task of `cx` to be woken.
    pub fn listen(&mut self, cx: &Context<'_>) {
        match &self.waker {
            Some(waker) if waker.will_wake(cx.waker()) => {}
            Some(_) | None => self.waker = Some(cx.waker().clone()),
        }
    }

    /// Looks for a head; its headers are decoded into `fields`, which is empty.
    pub fn find_head(
        &mut self,
        hop_by_hop: HopByHop,
        fields: &mut Fields,
        cx: &Context<'_>,
    ) -> Found {
        if let Some(hints) = self.hints.pop_front() {
            return Found::Hints(hints);
        }
        if let Some(status) = self.head.take() {
            return Found::Head(status, decode_block(&self.block, hop_by_hop, fields));
        }
        if std::mem::take(&mut self.is_accepted) {
            return Found::Accepted(decode_block(&self.block, hop_by_hop, fields));
        }
        match (&self.response, self.messages.front()) {
            (Received::Gone(gone), _) => Found::Gone(gone.clone()),
            (Received::Whole, Some(Message::Close(..))) => Found::Refused,
            (Received::Open | Received::Whole, _) => {
                self.listen(cx);
                Found::Nothing
            }
        }
    }
}
