//! Measures response times of a group's servers for `least_time`. `sluice-policy` evaluates them.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use sluice_message::{Fields, Moment};
use sluice_net::{Body, BodyStream, Failure, clock};
use sluice_policy::group::{Method, Timed, Waiting};

use super::peers::{Member, Peers};

/// The measurement of a request, up to the response head or the end of the response.
pub struct Timing {
    peers: Arc<Peers>,
    index: usize,
    timed: Timed,
    began: Moment,
    /// Whether the request is counted as waiting.
    waits: bool,
}

impl Timing {
    /// Starts a measurement, if `method` needs it.
    pub fn begin(method: Method, member: &Member) -> Option<Timing> {
        let timed = method.timed()?;
        let waits = matches!(method, Method::LeastTime(_, Waiting::Count));
        let began = clock::now();
        if waits {
            member.peers.servers.wait(member.index, began);
        }
        Some(Timing {
            peers: member.peers.clone(),
            index: member.index,
            timed,
            began,
            waits,
        })
    }

    /// The response head has arrived; `body` follows.
    pub fn follow(mut self, body: Body) -> Body {
        match (self.timed, body) {
            (Timed::LastByte, Body::Stream(inner)) => Body::Stream(Box::new(Followed {
                inner,
                timing: Some(self),
            })),
            (_, body) => {
                self.note();
                body
            }
        }
    }

    /// Records the time elapsed.
    fn note(&mut self) {
        let time = clock::now().since(self.began);
        self.peers.servers.note_time(self.index, time);
    }
}

impl Drop for Timing {
    fn drop(&mut self) {
        if self.waits {
            self.peers.servers.end_wait(self.index, self.began);
        }
    }
}

/// A response body whose end ends the measurement. A response that fails is not recorded: it would seem fast.
struct Followed {
    inner: Box<dyn BodyStream>,
    timing: Option<Timing>,
}

impl BodyStream for Followed {
    fn len(&self) -> Option<u64> {
        self.inner.len()
    }

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<&[u8], Failure>> {
        let data = ready!(self.inner.poll_data(cx))?;
        if data.is_empty()
            && let Some(mut timing) = self.timing.take()
        {
            timing.note();
        }
        Poll::Ready(Ok(data))
    }

    fn consume(&mut self, count: usize) {
        self.inner.consume(count);
        // A body of known length may not be polled for its end.
        if self.inner.len() == Some(0)
            && let Some(mut timing) = self.timing.take()
        {
            timing.note();
        }
    }

    fn trailers(&mut self) -> Option<Fields> {
        self.inner.trailers()
    }
}
