//! Request and response bodies on their way through a worker. Framing is left to the connection that sends them.

use std::fs::File;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use sluice_message::Fields;
use sluice_policy::MinDataRate;

use crate::failure::Failure;
use crate::tunnel::Tunnel;

/// A response body.
pub enum Body {
    /// No content; `Content-Length: 0` where the status allows content.
    Empty,
    /// The bytes in `Exchange::inline`.
    Inline,
    /// Bytes shared with others, such as a cached file.
    Shared(SharedSlice),
    /// A part of an open file, sent with `sendfile` where the connection allows it.
    File(FileSlice),
    /// Bytes that arrive over time.
    Stream(Box<dyn BodyStream>),
    /// The connection becomes a tunnel after the head was sent (status 101, or 2xx to CONNECT).
    Tunnel(Box<Tunnel>),
    /// No response: the connection is closed immediately.
    Abort,
}

impl Body {
    /// The exact length in bytes, if known. `inline` is the length of `Exchange::inline`.
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

/// Bytes held by an [`Rc`], or a range of them.
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

    /// The range from `start` to `end` of `bytes`.
    ///
    /// # Panics
    ///
    /// If the range is out of bounds.
    pub fn part(bytes: Rc<[u8]>, start: usize, end: usize) -> Self {
        assert!(
            start <= end && end <= bytes.len(),
            "a slice lies within its bytes"
        );
        SharedSlice { bytes, start, end }
    }

    /// The range from `start` to `end` of this slice.
    ///
    /// # Panics
    ///
    /// If the range is out of bounds.
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
    /// Length in bytes. If the file turns out shorter, the connection is closed early.
    pub len: u64,
}

/// Bytes that arrive over time, read without copying: `poll_data` returns the available bytes, `consume` removes them.
///
/// A stream is polled only from the task of its connection. Dropping it early discards the rest.
pub trait BodyStream {
    /// The exact number of bytes still to come, if known.
    fn len(&self) -> Option<u64>;

    /// Whether the stream is known to be at its end.
    fn is_empty(&self) -> bool {
        self.len() == Some(0)
    }

    /// The available bytes, at least one; an empty slice is the end. An error means that the message is incomplete and
    /// must not be presented as complete.
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<&[u8], Failure>>;

    /// Removes the first `count` of the bytes that `poll_data` returned.
    fn consume(&mut self, count: usize);

    /// Called while the receiver accepts nothing: a buffering stream reads ahead. Bytes already returned by `poll_data`
    /// remain the beginning of what it returns next. Wrappers must forward this call to the stream they wrap. An error
    /// is one that must not wait for the receiver, such as a client aborting its request.
    fn poll_ahead(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        // The stream may depend on an upload that the client wants to finish before it reads.
        self.poll_data(cx).map_ok(|_| ())
    }

    /// The trailers, after the end was reached.
    fn trailers(&mut self) -> Option<Fields> {
        None
    }

    /// Sets how long a client may be silent from now on, if the stream comes from one.
    fn set_idle_timeout(&mut self, _timeout: Duration) {}

    /// Sets the minimum data rate from now on, if the stream comes from a client.
    fn set_min_rate(&mut self, _rate: Option<MinDataRate>) {}

    /// Whether the stream can be read again from its beginning.
    fn is_rewindable(&self) -> bool {
        false
    }

    /// Goes back to the beginning, if [`BodyStream::is_rewindable`] returns true.
    fn rewind(&mut self) {}
}

/// Reads the rest of `body`, at most `bytes_max` bytes; `None` if there are more. A body that declares a larger length
/// is not read at all.
///
/// # Errors
///
/// The failure of the body if it is incomplete.
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

/// A request body. A handler takes it out of the exchange to read it; the connection drains or abandons what is left
/// unread.
#[derive(Default)]
pub enum RequestBody {
    /// No body.
    #[default]
    None,
    /// A body that arrives over time.
    Stream(Box<dyn BodyStream>),
}

impl RequestBody {
    /// The exact length in bytes, if known.
    pub fn len(&self) -> Option<u64> {
        match self {
            RequestBody::None => Some(0),
            RequestBody::Stream(stream) => stream.len(),
        }
    }

    /// Whether there is no body.
    pub fn is_none(&self) -> bool {
        matches!(self, RequestBody::None)
    }

    /// Whether nothing is left to read, as far as is known.
    pub fn is_empty(&self) -> bool {
        self.len() == Some(0)
    }

    /// Takes the body, leaving [`RequestBody::None`].
    pub fn take(&mut self) -> RequestBody {
        std::mem::take(self)
    }
}
