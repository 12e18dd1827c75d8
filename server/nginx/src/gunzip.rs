//! `nginx_gunzip`: decompresses gzip responses for clients that do not accept gzip. The body is decompressed as it
//! is sent, one piece at a time.

use std::task::{Context, Poll, ready};

use flate2::{Decompress, FlushDecompress, Status as Progress};
use sluice_message::{FieldId, Fields, Method, Status};
use sluice_model::nginx::Gunzip as Config;
use sluice_net::{Body, BodyStream, Failure, FailureKind, Side};

use super::changed;
use super::gzip::Clients;
use crate::limits::GUNZIP_PIECE_BYTES;
use sluice_handlers::filters::encode::{Silence, Source};
use sluice_pipeline::build::Builder;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::handler::{Filter, Filtering, Handler};
use sluice_pipeline::refusal::Refusal;

/// The largest window that gzip encoders may use (RFC 1951, section 2).
const WINDOW_BITS: u8 = 15;

struct Settings {
    clients: Clients,
}

/// Builds the handler.
pub fn build(config: &Config, builder: &Builder<'_>) -> Result<Box<dyn Handler>, Refusal> {
    Ok(Filtering::boxed(Settings {
        clients: Clients::build(&config.clients, builder.recorder)?,
    }))
}

impl Filter for Settings {
    fn apply(&self, exchange: &mut Exchange, body: Body) -> Body {
        // A range of a compressed body cannot be decompressed by itself, which nginx does not check. Like nginx, this
        // does not look for `no-transform`.
        let is_part = exchange.res.status == Status::PARTIAL_CONTENT;
        if !is_packed(&exchange.res.fields) || is_part {
            return body;
        }
        let is_meant = self.clients.include(exchange);
        self.clients.note_variants(&mut exchange.res.fields);
        if is_meant {
            return body;
        }
        let fields = &mut exchange.res.fields;
        fields.remove(FieldId::ContentEncoding);
        changed::note(fields);
        if exchange.req.method == Method::Head {
            // The length is only known after decompression, which HEAD does not do.
            return Body::Stream(Box::new(Silence));
        }
        match Source::of(exchange, body) {
            Ok(source) => Body::Stream(Box::new(Unpacked::new(source))),
            Err(other) => other,
        }
    }
}

/// Whether gzip is the only content coding.
fn is_packed(fields: &Fields) -> bool {
    let mut codings = fields.all(FieldId::ContentEncoding);
    let first = codings.next().unwrap_or_default();
    first.eq_ignore_ascii_case(b"gzip") && codings.next().is_none()
}

/// A body that is decompressed as it is sent.
struct Unpacked {
    source: Source,
    inflate: Decompress,
    /// The last decompressed piece.
    piece: Box<[u8]>,
    /// How many of its bytes are filled, and how many have been sent.
    filled: usize,
    sent: usize,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before the first byte of a gzip member; only here the body may end.
    Between,
    /// Within a gzip member. Members may be concatenated (RFC 1952, section 2.2).
    Within,
    Ended,
    Failed,
}

impl Unpacked {
    fn new(source: Source) -> Unpacked {
        Unpacked {
            source,
            inflate: Decompress::new_gzip(WINDOW_BITS),
            piece: vec![0; GUNZIP_PIECE_BYTES].into(),
            filled: 0,
            sent: 0,
            state: State::Between,
        }
    }

    /// Decompresses the next piece.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        let (mut began, mut ended) = (false, false);
        loop {
            let packed = ready!(self.source.poll_piece(cx))?;
            if packed.is_empty() && self.state == State::Between {
                // An empty body is accepted as empty output.
                self.state = State::Ended;
                return Poll::Ready(Ok(()));
            }
            let before = (self.inflate.total_in(), self.inflate.total_out());
            let is_end = packed.is_empty();
            let found = self
                .inflate
                .decompress(packed, &mut self.piece, FlushDecompress::None);
            let taken = (self.inflate.total_in() - before.0) as usize;
            self.filled = (self.inflate.total_out() - before.1) as usize;
            self.sent = 0;
            match found {
                Ok(Progress::StreamEnd) => {
                    self.inflate = Decompress::new_gzip(WINDOW_BITS);
                    self.state = State::Between;
                    ended = true;
                }
                Ok(Progress::Ok | Progress::BufError) if self.filled > 0 || taken > 0 => {
                    self.state = State::Within;
                    began = true;
                }
                Ok(Progress::Ok | Progress::BufError) if is_end => {
                    return Poll::Ready(Err(self.broken("it ends too early")));
                }
                Ok(Progress::Ok | Progress::BufError) => {
                    return Poll::Ready(Err(self.broken("the decompressor makes no progress")));
                }
                Err(error) => return Poll::Ready(Err(self.broken(error))),
            }
            self.source.take(taken);
            if self.filled > 0 {
                return Poll::Ready(Ok(()));
            }
            // Yield between many empty members, so that other tasks get to run.
            if ended && !began {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
    }

    fn broken(&mut self, why: impl std::fmt::Display) -> Failure {
        self.state = State::Failed;
        let failure = Failure::new(Side::Upstream, FailureKind::Protocol);
        failure.because(format!("what is to be unpacked is broken: {why}"))
    }
}

impl BodyStream for Unpacked {
    fn len(&self) -> Option<u64> {
        None
    }

    fn poll_ahead(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.source.poll_ahead(cx)
    }

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<&[u8], Failure>> {
        if self.sent == self.filled && self.state == State::Failed {
            let failure = Failure::new(Side::Upstream, FailureKind::Protocol);
            return Poll::Ready(Err(failure));
        }
        if self.sent == self.filled && self.state != State::Ended {
            (self.sent, self.filled) = (0, 0);
            ready!(self.poll_piece(cx))?;
        }
        Poll::Ready(Ok(&self.piece[self.sent..self.filled]))
    }

    fn consume(&mut self, count: usize) {
        self.sent += count;
    }

    fn trailers(&mut self) -> Option<Fields> {
        self.source.trailers()
    }
}
