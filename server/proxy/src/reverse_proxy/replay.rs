//! Request bodies that may be sent twice: what was shown is recorded, up to a limit, until the response arrives.
//! `retry` decides whether a request is sent again.

use std::task::{Context, Poll, ready};

use sluice_message::Fields;
use sluice_net::{BodyStream, Failure, RequestBody};

/// A body that can be rewound while it is short.
pub struct Replay {
    rest: Box<dyn BodyStream>,
    tape: Tape,
    /// Bytes of the tape that were consumed.
    at: usize,
    trailers: Option<Fields>,
}

enum Tape {
    /// Everything shown so far.
    Whole(Vec<u8>, usize),
    /// The body exceeded the limit.
    Given,
}

impl Replay {
    /// Wraps `body`; records at most `bytes_max`.
    pub fn body(body: RequestBody, bytes_max: usize) -> RequestBody {
        match body {
            RequestBody::None => RequestBody::None,
            // It is rewindable already.
            RequestBody::Stream(body) if body.is_rewindable() => RequestBody::Stream(body),
            // It is known to exceed the limit, so do not copy it.
            RequestBody::Stream(body) if body.len().is_some_and(|len| len > bytes_max as u64) => {
                RequestBody::Stream(body)
            }
            RequestBody::Stream(rest) => RequestBody::Stream(Box::new(Replay {
                rest,
                tape: Tape::Whole(Vec::new(), bytes_max),
                at: 0,
                trailers: None,
            })),
        }
    }
}

impl BodyStream for Replay {
    fn len(&self) -> Option<u64> {
        let here = match &self.tape {
            Tape::Whole(bytes, _) => bytes.len() - self.at,
            Tape::Given => 0,
        };
        self.rest.len().map(|rest| rest + here as u64)
    }

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<&[u8], Failure>> {
        if let Tape::Whole(bytes, bytes_max) = &mut self.tape
            && self.at == bytes.len()
        {
            let data = ready!(self.rest.poll_data(cx))?;
            if bytes.len() + data.len() <= *bytes_max {
                bytes.extend_from_slice(data);
                let count = data.len();
                if count > 0 {
                    self.rest.consume(count);
                }
            } else {
                self.tape = Tape::Given;
            }
        }
        match &self.tape {
            Tape::Whole(bytes, _) => Poll::Ready(Ok(&bytes[self.at..])),
            Tape::Given => self.rest.poll_data(cx),
        }
    }

    fn consume(&mut self, count: usize) {
        match &self.tape {
            Tape::Whole(..) => self.at += count,
            Tape::Given => self.rest.consume(count),
        }
    }

    fn trailers(&mut self) -> Option<Fields> {
        // The inner body returns them only once.
        if self.trailers.is_none() {
            self.trailers = self.rest.trailers();
        }
        self.trailers.clone()
    }

    fn is_rewindable(&self) -> bool {
        matches!(self.tape, Tape::Whole(..))
    }

    fn rewind(&mut self) {
        self.at = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    /// A body in pieces that returns its trailers once.
    struct Pieces(Vec<Vec<u8>>, Option<Fields>);

    impl BodyStream for Pieces {
        fn len(&self) -> Option<u64> {
            None
        }

        fn poll_data(&mut self, _cx: &mut Context<'_>) -> Poll<Result<&[u8], Failure>> {
            Poll::Ready(Ok(self.0.first().map_or(&[], Vec::as_slice)))
        }

        fn consume(&mut self, count: usize) {
            self.0[0].drain(..count);
            if self.0[0].is_empty() {
                self.0.remove(0);
            }
        }

        fn trailers(&mut self) -> Option<Fields> {
            self.1.take()
        }
    }

    fn replay(pieces: &[&str], bytes_max: usize) -> Box<dyn BodyStream> {
        let pieces = pieces
            .iter()
            .map(|piece| piece.as_bytes().to_vec())
            .collect();
        let mut trailers = Fields::new();
        trailers.push(sluice_message::FieldId::Etag, b"x");
        let body = RequestBody::Stream(Box::new(Pieces(pieces, Some(trailers))));
        match Replay::body(body, bytes_max) {
            RequestBody::Stream(body) => body,
            RequestBody::None => unreachable!(),
        }
    }

    /// Takes up to `count` bytes, at most two at a time.
    fn take(body: &mut dyn BodyStream, count: usize) -> String {
        let mut cx = Context::from_waker(Waker::noop());
        let mut out = Vec::new();
        while out.len() < count {
            let Poll::Ready(Ok(data)) = body.poll_data(&mut cx) else {
                panic!("it is all there");
            };
            let some = data.len().min(2).min(count - out.len());
            if some == 0 {
                break;
            }
            out.extend_from_slice(&data[..some]);
            body.consume(some);
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_short_body_is_shown_again_from_wherever_it_is() {
        for stop in 0..=8 {
            let mut body = replay(&["abc", "de", "fgh"], 8);
            assert_eq!(take(&mut *body, stop), "abcdefgh"[..stop]);
            assert!(body.is_rewindable());
            body.rewind();
            assert_eq!(take(&mut *body, 99), "abcdefgh");
            assert!(body.trailers().is_some());
            body.rewind();
            assert_eq!(take(&mut *body, 99), "abcdefgh");
            assert!(body.trailers().is_some());
        }
    }

    #[test]
    fn a_long_body_is_shown_once_and_whole() {
        let mut body = replay(&["abc", "de", "fgh"], 7);
        assert_eq!(take(&mut *body, 5), "abcde");
        assert!(body.is_rewindable());
        assert_eq!(take(&mut *body, 99), "fgh");
        assert!(!body.is_rewindable());
    }
}
