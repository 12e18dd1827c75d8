//! Bodies on their way through a worker: what a service answers with, and what it reads from a client. Framing
//! is left to the connection that sends them.

use std::fs::File;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use sluice_message::Fields;
use sluice_policy::MinDataRate;

use crate::failure::Failure;
use crate::places::Place;
use crate::stream::Stream;
use crate::tunnel::Notice;
use crate::upstream::Lease;

/// The body of an answer.
pub enum Body {
    /// No content; `Content-Length: 0` where the status allows content.
    Empty,
    /// The bytes in `Exchange::inline`.
    Inline,
    /// Bytes that others hold too, such as a cached file.
    Shared(SharedSlice),
    /// A part of an open file, sent without passing through this process where the connection allows it.
    File(FileSlice),
    /// Bytes that arrive over time.
    Stream(Box<dyn BodyStream>),
    /// The connection becomes a tunnel after the head was sent (status 101, or 2xx to CONNECT).
    Tunnel(Box<Tunnel>),
    /// No answer: the connection is closed at once.
    Abort,
}

impl Body {
    /// The exact number of bytes, where it is known. `inline` is the length of `Exchange::inline`.
    pub fn len(&self, inline: usize) -> Option<u64> {
        match self {
            Body::Empty | Body::Abort | Body::Tunnel(_) => Some(0),
            Body::Inline => Some(inline as u64),
            Body::Shared(slice) => Some(slice.as_bytes().len() as u64),
            Body::File(slice) => Some(slice.len),
            Body::Stream(stream) => stream.len(),
        }
    }
}

/// Bytes held by an [`Rc`], or a part of them.
#[derive(Clone)]
pub struct SharedSlice {
    bytes: Rc<[u8]>,
    start: usize,
    end: usize,
}

impl SharedSlice {
    /// All of `bytes`.
    pub fn new(bytes: Rc<[u8]>) -> Self {
        let end = bytes.len();
        SharedSlice {
            bytes,
            start: 0,
            end,
        }
    }

    /// The part from `start` to `end`, which must lie within.
    pub fn part(bytes: Rc<[u8]>, start: usize, end: usize) -> Self {
        assert!(
            start <= end && end <= bytes.len(),
            "a slice lies within its bytes"
        );
        SharedSlice { bytes, start, end }
    }

    /// The part of it from `start` to `end`, which must lie within.
    pub fn within(&self, start: usize, end: usize) -> Self {
        assert!(
            start <= end && end <= self.end - self.start,
            "a part lies within its slice"
        );
        SharedSlice {
            bytes: self.bytes.clone(),
            start: self.start + start,
            end: self.start + end,
        }
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }
}

/// A part of an open file.
pub struct FileSlice {
    /// The file; reading uses explicit offsets, so any number of slices share it.
    pub file: Rc<File>,
    /// Offset of the first byte.
    pub start: u64,
    /// Number of bytes. If the file turns out shorter the connection is closed early.
    pub len: u64,
}

/// What an upgraded connection is joined to.
pub struct Tunnel {
    /// The other connection.
    pub stream: Stream,
    /// Its place among the connections of the worker, where it has one.
    pub place: Option<Place>,
    /// What was already received from it after its head.
    pub received: Vec<u8>,
    /// The longest it may last, if there is a limit.
    pub lifetime: Option<Duration>,
    /// Counts it as a request in progress as long as it lasts.
    pub lease: Option<Lease>,
    /// What ends it some time after its configuration, where that is wanted.
    pub notice: Option<Notice>,
    /// Bytes that it takes at a time in each direction; those of the worker's buffers where nothing is said.
    pub buffer_bytes: Option<usize>,
}

/// Bytes that arrive over time, read without copying: `poll_data` shows what is there, `consume` takes it.
///
/// A stream is polled only from the task of its connection. Dropping it before its end gives up the rest.
pub trait BodyStream {
    /// The exact number of bytes still to come, where it is known.
    fn len(&self) -> Option<u64>;

    /// Whether the stream is known to be at its end.
    fn is_empty(&self) -> bool {
        self.len() == Some(0)
    }

    /// The bytes at hand, at least one; an empty slice is the end. An error means that the message is
    /// incomplete and must not be presented as whole.
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<&[u8], Failure>>;

    /// Takes the first `count` of the bytes that `poll_data` showed.
    fn consume(&mut self, count: usize);

    /// The receiver takes nothing at the moment: a stream that buffers reads on. What `poll_data` showed stays the
    /// beginning of what it shows next. Whoever passes on another stream passes this on, too. An error is one that the
    /// receiver must not wait for, as where the client breaks off its request.
    fn poll_ahead(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        // Behind it may be an upload that the client wants to end before it reads.
        self.poll_data(cx).map_ok(|_| ())
    }

    /// Trailer fields, once the end was reached.
    fn trailers(&mut self) -> Option<Fields> {
        None
    }

    /// How long a client may be silent from now on, where it comes from one.
    fn set_idle_timeout(&mut self, _timeout: Duration) {}

    /// The lowest rate at which it may come from now on, where it comes from a client.
    fn set_min_rate(&mut self, _rate: Option<MinDataRate>) {}

    /// Whether it can be shown once more from its beginning.
    fn is_rewindable(&self) -> bool {
        false
    }

    /// Goes back to the beginning, where [`BodyStream::is_rewindable`] says that it can.
    fn rewind(&mut self) {}
}

/// Reads the rest of `body`, at most `bytes_max` bytes; `None` if there are more. Nobody waits for a body that says
/// beforehand that it is larger.
///
/// # Errors
///
/// What the body says where it is incomplete.
pub async fn read_whole(
    body: &mut dyn BodyStream,
    bytes_max: usize,
) -> Result<Option<Vec<u8>>, Failure> {
    if body.len().is_some_and(|length| length > bytes_max as u64) {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    loop {
        let taken = poll_fn(|cx| {
            body.poll_data(cx).map_ok(|data| {
                bytes.extend_from_slice(data);
                data.len()
            })
        })
        .await?;
        if taken == 0 {
            return Ok(Some(bytes));
        }
        if bytes.len() > bytes_max {
            return Ok(None);
        }
        body.consume(taken);
    }
}

/// The body of a request. A handler takes it out of the exchange to read it; what it leaves unread the
/// connection drains or gives up.
#[derive(Default)]
pub enum RequestBody {
    /// There is none.
    #[default]
    None,
    /// It arrives over time.
    Stream(Box<dyn BodyStream>),
}

impl RequestBody {
    /// The exact number of bytes, where it is known.
    pub fn len(&self) -> Option<u64> {
        match self {
            RequestBody::None => Some(0),
            RequestBody::Stream(stream) => stream.len(),
        }
    }

    /// Whether there is none.
    pub fn is_none(&self) -> bool {
        matches!(self, RequestBody::None)
    }

    /// Whether it is known to hold nothing more.
    pub fn is_empty(&self) -> bool {
        self.len() == Some(0)
    }

    /// Takes it out, leaving none.
    pub fn take(&mut self) -> RequestBody {
        std::mem::take(self)
    }
}
