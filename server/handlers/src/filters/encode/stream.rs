//! A body that is compressed while it is sent. Output is flushed whenever the source has no more data for now, so that
//! events arrive when they happen.

use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use sluice_message::Fields;
use sluice_net::body::SharedSlice;
use sluice_net::{Body, BodyStream, Failure, FailureKind, FileSlice, Side, Worker};

use super::Counts;
use super::coder::Coder;
use sluice_pipeline::context::Exchange;

/// Bytes to compress before other connections of the worker run: a few milliseconds of work.
const TURN_BYTES: usize = 256 * 1024;

/// Bytes passed to the encoder at once.
const PIECE_BYTES: usize = 32 * 1024;

/// Amount of output that is sent even though more input is available.
const OUTPUT_BYTES: usize = 16 * 1024;

/// The source of the bytes to compress.
pub struct Source {
    kind: Kind,
    /// Bytes in memory that were consumed.
    taken: usize,
}

enum Kind {
    Owned(Vec<u8>),
    Shared(SharedSlice),
    File { slice: FileSlice, piece: Piece },
    Stream(Box<dyn BodyStream>),
}

/// The part of a file that was read last, in a buffer of the worker.
struct Piece {
    bytes: Vec<u8>,
    worker: Rc<Worker>,
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.worker
            .buffers
            .give_back(std::mem::take(&mut self.bytes));
    }
}

impl Source {
    /// The bytes of a body; the error returns a body without bytes, such as a tunnel.
    pub fn of(exchange: &mut Exchange, body: Body) -> Result<Source, Body> {
        let kind = match body {
            Body::Inline => Kind::Owned(std::mem::take(&mut exchange.inline)),
            Body::Shared(slice) => Kind::Shared(slice),
            Body::Stream(stream) => Kind::Stream(stream),
            Body::File(slice) => {
                let piece = Piece {
                    bytes: Vec::new(),
                    worker: exchange.worker.clone(),
                };
                Kind::File { slice, piece }
            }
            other @ (Body::Empty | Body::Tunnel(_) | Body::Abort) => return Err(other),
        };
        Ok(Source { kind, taken: 0 })
    }

    /// The trailer section after the bytes, once their end was reached.
    pub fn trailers(&mut self) -> Option<Fields> {
        match &mut self.kind {
            Kind::Stream(stream) => stream.trailers(),
            Kind::Owned(_) | Kind::Shared(_) | Kind::File { .. } => None,
        }
    }

    /// Whether all bytes are in memory.
    pub fn is_at_hand(&self) -> bool {
        matches!(self.kind, Kind::Owned(_) | Kind::Shared(_))
    }

    /// The bytes in memory.
    pub fn at_hand(&self) -> &[u8] {
        match &self.kind {
            Kind::Owned(bytes) => bytes,
            Kind::Shared(slice) => slice.as_bytes(),
            Kind::File { .. } | Kind::Stream(_) => &[],
        }
    }

    /// The original body, if nothing was consumed yet.
    pub(super) fn into_body(self, exchange: &mut Exchange) -> Body {
        debug_assert_eq!(self.taken, 0);
        match self.kind {
            Kind::Owned(bytes) => {
                exchange.inline = bytes;
                Body::Inline
            }
            Kind::Shared(slice) => Body::Shared(slice),
            Kind::File { slice, .. } => Body::File(slice),
            Kind::Stream(stream) => Body::Stream(stream),
        }
    }

    /// The next bytes; an empty slice at the end.
    pub fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<&[u8], Failure>> {
        let taken = self.taken;
        match &mut self.kind {
            Kind::Owned(bytes) => Poll::Ready(Ok(&bytes[taken..])),
            Kind::Shared(slice) => Poll::Ready(Ok(&slice.as_bytes()[taken..])),
            Kind::Stream(stream) => stream.poll_data(cx),
            Kind::File { slice, piece } => {
                let Piece { bytes, worker } = piece;
                if taken == bytes.len() && slice.len > 0 {
                    if bytes.capacity() == 0 {
                        *bytes = worker.buffers.large();
                    }
                    bytes.resize(slice.len.min(bytes.capacity() as u64) as usize, 0);
                    if let Err(error) = slice.file.read_exact_at(bytes, slice.start) {
                        return Poll::Ready(Err(internal(error)));
                    }
                    slice.start += bytes.len() as u64;
                    slice.len -= bytes.len() as u64;
                    self.taken = 0;
                }
                Poll::Ready(Ok(&bytes[self.taken..]))
            }
        }
    }

    /// Consumes `count` of the bytes returned last.
    pub fn take(&mut self, count: usize) {
        match &mut self.kind {
            Kind::Stream(stream) => stream.consume(count),
            Kind::Owned(_) | Kind::Shared(_) | Kind::File { .. } => self.taken += count,
        }
    }

    /// See [`BodyStream::poll_ahead`].
    pub fn poll_ahead(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        match &mut self.kind {
            Kind::Stream(stream) => stream.poll_ahead(cx),
            Kind::Owned(_) | Kind::Shared(_) | Kind::File { .. } => Poll::Pending,
        }
    }
}

/// A body that is compressed while it is sent.
pub(super) struct EncodeStream {
    source: Source,
    state: State,
    /// Bytes of the output that were sent.
    sent: usize,
    trailers: Option<Fields>,
    counts: Option<Arc<Counts>>,
}

enum State {
    Coding {
        coder: Box<Coder>,
        /// Whether input was written that the client cannot decode yet.
        unflushed: bool,
    },
    /// The remaining output after the end of the stream.
    Draining(Vec<u8>),
    Failed,
}

impl EncodeStream {
    pub(super) fn new(source: Source, coder: Coder, counts: Option<Arc<Counts>>) -> EncodeStream {
        let state = State::Coding {
            coder: Box::new(coder),
            unflushed: false,
        };
        EncodeStream {
            source,
            state,
            sent: 0,
            trailers: None,
            counts,
        }
    }

    /// Compresses until there is enough output, the source has no data for now, or the turn is over.
    fn poll_output(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        let mut turn = 0;
        loop {
            let State::Coding { coder, unflushed } = &mut self.state else {
                return Poll::Ready(Ok(()));
            };
            if self.sent > 0 && self.sent == coder.output().len() {
                coder.output().clear();
                self.sent = 0;
            }
            // Output that was partly sent has to be sent completely before more is appended.
            if self.sent > 0 || coder.output().len() >= OUTPUT_BYTES {
                return Poll::Ready(Ok(()));
            }
            if turn >= TURN_BYTES {
                if !coder.output().is_empty() {
                    return Poll::Ready(Ok(()));
                }
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            match self.source.poll_piece(cx) {
                Poll::Ready(Ok([])) => self.end()?,
                Poll::Ready(Ok(piece)) => {
                    let piece = &piece[..piece.len().min(PIECE_BYTES)];
                    let count = piece.len();
                    coder.write(piece).map_err(internal)?;
                    *unflushed = true;
                    turn += count;
                    if let Some(counts) = &self.counts {
                        counts.add(count, 0);
                    }
                    self.source.take(count);
                }
                Poll::Ready(Err(failure)) => {
                    self.state = State::Failed;
                    return Poll::Ready(Err(failure));
                }
                Poll::Pending => {
                    if std::mem::take(unflushed) {
                        coder.flush().map_err(internal)?;
                    }
                    let empty = coder.output().is_empty();
                    return if empty {
                        Poll::Pending
                    } else {
                        Poll::Ready(Ok(()))
                    };
                }
            }
        }
    }

    fn end(&mut self) -> Result<(), Failure> {
        self.trailers = self.source.trailers();
        if let State::Coding { coder, .. } = std::mem::replace(&mut self.state, State::Failed) {
            self.state = State::Draining(coder.finish().map_err(internal)?);
        }
        Ok(())
    }
}

fn internal(error: std::io::Error) -> Failure {
    Failure::new(Side::Internal, FailureKind::Io).because(error)
}

impl BodyStream for EncodeStream {
    fn len(&self) -> Option<u64> {
        None
    }

    fn poll_ahead(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.source.poll_ahead(cx)
    }

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<&[u8], Failure>> {
        std::task::ready!(self.poll_output(cx))?;
        Poll::Ready(match &mut self.state {
            State::Coding { coder, .. } => Ok(&coder.output()[self.sent..]),
            State::Draining(left) => Ok(&left[self.sent..]),
            State::Failed => Err(Failure::new(Side::Internal, FailureKind::Io)),
        })
    }

    fn consume(&mut self, count: usize) {
        self.sent += count;
        if let Some(counts) = &self.counts {
            counts.add(0, count);
        }
    }

    fn trailers(&mut self) -> Option<Fields> {
        self.trailers.take()
    }
}

/// The body of a HEAD response with unknown `Content-Length`.
pub struct Silence;

impl BodyStream for Silence {
    fn len(&self) -> Option<u64> {
        None
    }

    fn poll_data(&mut self, _cx: &mut Context<'_>) -> Poll<Result<&[u8], Failure>> {
        Poll::Ready(Ok(&[]))
    }

    fn consume(&mut self, _count: usize) {}
}
