//! How long the servers of a group take, where the choice among them goes by that (`least_time`). What follows from it is
//! left to `sluice-policy`.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use sluice_message::{Fields, Moment};
use sluice_net::{Body, BodyStream, Failure, clock};
use sluice_policy::group::{Method, Timed, Unanswered};

use super::peers::{Member, Peers};

/// A request to a server, timed until its answer or the end of that.
pub struct Timing {
    peers: Arc<Peers>,
    index: usize,
    timed: Timed,
    began: Moment,
    /// Whether it counts among those that wait.
    waits: bool,
}

impl Timing {
    /// Begins, where `method` wants to be told.
    pub fn begin(method: Method, member: &Member) -> Option<Timing> {
        let timed = method.timed()?;
        let waits = matches!(method, Method::LeastTime(_, Unanswered::Count));
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

    /// The head of the answer is here, and `body` is what follows.
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

    /// Notes the time until now.
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

/// An answer that is timed until its end. One that breaks off is not: it would count as fast.
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
        // Nobody asks a body of told length for its end.
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
