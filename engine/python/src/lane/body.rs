//! The response body on a stream, read at the pace of the client. Received data waits in the lane, bounded by the
//! window; consuming it here gives credit to the worker.

use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::task::{Context, Poll};

use sluice_message::Fields;
use sluice_net::body::BodyStream;
use sluice_net::body_piece::BodyPiece;
use sluice_net::failure::{Failure, FailureKind, Side};
use sluice_net::worker::Worker;
use sluice_wire::python::{HopByHop, decode_block};

use super::mux::Taken;
use super::slot::FilePart;
use crate::call::Call;
use crate::limits::FILE_READ_BYTES;

/// The response body on a stream. Dropping it before its end cancels the request.
pub(crate) struct ResponseBody {
    worker: Rc<Worker>,
    /// The call, until the body has ended.
    call: Option<Box<Call>>,
    /// Bytes taken from the lane, or read from a file.
    piece: BodyPiece,
    /// Whether consuming it gives credit: bytes of files do not count.
    source: Source,
    trailers: Option<Fields>,
}

enum Source {
    Lane,
    /// A file, whose rest is still to be read.
    File(FilePart),
}

impl ResponseBody {
    /// The body of a response with this Content-Length, if it has one.
    pub fn new(call: Box<Call>, length: Option<u64>) -> ResponseBody {
        ResponseBody {
            worker: call.worker().clone(),
            call: Some(call),
            piece: BodyPiece::new(length),
            source: Source::Lane,
            trailers: None,
        }
    }

    /// Takes what has arrived. Ready when there is something, or the body has ended.
    fn poll_take(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.piece.give_back(&self.worker.buffers);
        loop {
            if let Source::File(part) = &mut self.source {
                let part = part.clone();
                if part.length > 0 {
                    return Poll::Ready(self.read_file(part));
                }
                self.source = Source::Lane;
            }
            let Some(call) = &self.call else {
                return Poll::Ready(Ok(()));
            };
            let buf = self.piece.refill();
            match call.mux().take(call.id(), buf, cx) {
                Taken::Bytes => {
                    let count = buf.len() as u64;
                    return Poll::Ready(self.check(count));
                }
                Taken::File(part) => {
                    self.check(part.length)?;
                    self.source = Source::File(part);
                }
                Taken::End(trailers) => {
                    let ended = self.end(trailers);
                    return Poll::Ready(ended);
                }
                Taken::Gone(gone) => return Poll::Ready(Err(call.failure(gone))),
                Taken::Nothing => {
                    self.piece.give_back(&self.worker.buffers);
                    return Poll::Pending;
                }
            }
        }
    }

    /// Fails if `count` more bytes exceed the declared length.
    fn check(&self, count: u64) -> Result<(), Failure> {
        match (self.piece.left(), &self.call) {
            (Some(left), Some(call)) if count > left => Err(call.length_fault("longer")),
            _ => Ok(()),
        }
    }

    fn end(&mut self, trailers: Option<Vec<u8>>) -> Result<(), Failure> {
        if let (Some(1..), Some(call)) = (self.piece.left(), &self.call) {
            return Err(call.length_fault("shorter"));
        }
        if let (Some(block), Some(call)) = (trailers, &self.call) {
            let mut fields = Fields::new();
            match decode_block(&block, HopByHop::Drop, &mut fields) {
                Ok(_) => self.trailers = Some(fields),
                Err(fault) => call.report_head(&fault.to_string()),
            }
        }
        self.call = None;
        self.piece.end(&self.worker.buffers);
        Ok(())
    }

    /// Reads the next bytes of a file.
    fn read_file(&mut self, part: FilePart) -> Result<(), Failure> {
        let buf = self.piece.refill();
        if buf.capacity() == 0 {
            *buf = self.worker.buffers.large();
        }
        let count = part.length.min(FILE_READ_BYTES as u64) as usize;
        buf.resize(count, 0);
        let read = part.file.read_at(buf, part.offset);
        let read = read.map_err(|error| Failure::from_io(Side::Upstream, error))?;
        buf.truncate(read);
        if read == 0 {
            let failure = Failure::new(Side::Upstream, FailureKind::Closed);
            return Err(failure.because("a file is shorter than the part of it to be sent"));
        }
        self.source = Source::File(FilePart {
            file: part.file,
            offset: part.offset + read as u64,
            length: part.length - read as u64,
        });
        Ok(())
    }
}

impl BodyStream for ResponseBody {
    fn len(&self) -> Option<u64> {
        match &self.trailers {
            // A body with a declared length cannot have trailers.
            Some(_) => None,
            None => self.piece.left(),
        }
    }

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<&[u8], Failure>> {
        if let Some(call) = &mut self.call
            && let Poll::Ready(Err(failure)) = call.poll_upload(cx)
        {
            return Poll::Ready(Err(failure));
        }
        if self.piece.rest().is_empty() && self.call.is_some() {
            match self.poll_take(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(failure)) => return Poll::Ready(Err(failure)),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(self.piece.rest()))
    }

    fn consume(&mut self, count: usize) {
        self.piece.consume(count);
        if let (Some(call), Source::Lane) = (&self.call, &self.source) {
            call.mux().consumed(call.id(), count);
        }
    }

    fn trailers(&mut self) -> Option<Fields> {
        self.trailers.take()
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        self.piece.give_back(&self.worker.buffers);
    }
}
