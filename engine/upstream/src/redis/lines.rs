//! The connections of one worker to Redis servers as calls see them: commands that wait to be sent, and replies that
//! are awaited, in order. `connection` moves the bytes.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::task::{Poll, Waker};
use std::time::Duration;

use sluice_message::Moment;
use sluice_net::clock;
use sluice_net::tasks::in_background;
use sluice_net::timeout::within_exactly;
use sluice_wire::resp::Reply;
use tokio::task::yield_now;

use super::{CallError, RedisServer};
use crate::limits::{REDIS_LATE_TIME, REDIS_PIPELINE_MAX};

/// The lines of one worker, by the address of their server in memory, which each line keeps from being reused.
#[derive(Default)]
pub(super) struct Lines(RefCell<HashMap<*const RedisServer, Rc<Line>>>);

/// The connection of one worker to one server, whether it is open or not.
pub(super) struct Line {
    pub server: Weak<RedisServer>,
    phase: Cell<Phase>,
    unsent: RefCell<VecDeque<Unsent>>,
    awaited: RefCell<VecDeque<Awaited>>,
    /// Wakes the task that drives the connection.
    driver: RefCell<Option<Waker>>,
    /// Whether a reply has missed its deadline. Until a reply arrives, no call is made.
    is_late: Cell<bool>,
    /// Since when all replies have missed their deadlines, if the last one has.
    late_since: Cell<Option<Moment>>,
    /// Whether the line counts among those that find the server away.
    is_away: Cell<bool>,
}

/// What the connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It is being established: calls wait.
    Dial,
    /// It is open.
    Open,
    /// It is lost, and the next attempt is still to come: calls fail at once.
    BackOff,
}

/// A command that was not sent yet.
struct Unsent {
    command: Vec<u8>,
    slot: Rc<Slot>,
    deadline: Duration,
}

/// A command without a reply yet.
struct Awaited {
    slot: Rc<Slot>,
    since: Moment,
    deadline: Duration,
}

/// Where the reply to a call arrives.
#[derive(Default)]
struct Slot {
    result: RefCell<Option<Result<Reply, CallError>>>,
    waker: RefCell<Option<Waker>>,
    /// Whether nobody waits any more.
    is_abandoned: Cell<bool>,
}

impl Lines {
    /// The line to `server`, made at first use: then `drive` returns what keeps it connected.
    pub fn line<F: Future<Output = ()> + 'static>(
        self: &Rc<Self>,
        server: &Arc<RedisServer>,
        drive: impl FnOnce(Rc<Line>) -> F,
    ) -> Rc<Line> {
        let key = Arc::as_ptr(server);
        if let Some(line) = self.0.borrow().get(&key) {
            return line.clone();
        }
        let line = Rc::new(Line {
            server: Arc::downgrade(server),
            phase: Cell::new(Phase::Dial),
            unsent: RefCell::default(),
            awaited: RefCell::default(),
            driver: RefCell::default(),
            is_late: Cell::new(false),
            late_since: Cell::new(None),
            is_away: Cell::new(false),
        });
        self.0.borrow_mut().insert(key, line.clone());
        let (lines, driven) = (Rc::downgrade(self), line.clone());
        let driving = drive(line.clone());
        in_background(async move {
            driving.await;
            driven.fail_all();
            if let Some(lines) = lines.upgrade() {
                lines.0.borrow_mut().remove(&key);
            }
        });
        line
    }
}

impl Line {
    /// Sends `command` and waits for its reply.
    pub async fn call(&self, command: Vec<u8>, deadline: Duration) -> Result<Reply, CallError> {
        if self.phase.get() == Phase::BackOff || self.is_late.get() {
            return Err(CallError::Away);
        }
        if self.unsent.borrow().len() + self.awaited.borrow().len() >= REDIS_PIPELINE_MAX {
            return Err(CallError::Busy);
        }
        let waiting = Waiting(self.enqueue(command, deadline));
        if let Some(reply) = within_exactly(deadline, waiting.reply()).await {
            return reply;
        }
        // If this worker was busy for longer than the deadline, the reply may be there and only has to be read.
        yield_now().await;
        if let Some(reply) = waiting.0.result.borrow_mut().take() {
            return reply;
        }
        // A reply is to come, even if it is that to another call.
        self.is_late
            .set(!(self.awaited.borrow().is_empty() && self.unsent.borrow().is_empty()));
        Err(CallError::Deadline)
    }

    fn enqueue(&self, command: Vec<u8>, deadline: Duration) -> Rc<Slot> {
        let slot = Rc::<Slot>::default();
        self.unsent.borrow_mut().push_back(Unsent {
            command,
            slot: slot.clone(),
            deadline,
        });
        self.wake();
        slot
    }

    fn wake(&self) {
        if let Some(driver) = &*self.driver.borrow() {
            driver.wake_by_ref();
        }
    }

    /// Wakes this task when there is something to do.
    pub fn wakes(&self, waker: &Waker) {
        let mut driver = self.driver.borrow_mut();
        match &*driver {
            Some(known) if known.will_wake(waker) => {}
            Some(_) | None => *driver = Some(waker.clone()),
        }
    }

    /// The connection is being established.
    pub fn dial(&self) {
        self.phase.set(Phase::Dial);
    }

    /// The connection is open.
    pub fn open(&self) {
        self.phase.set(Phase::Open);
        self.is_late.set(false);
    }

    /// The connection is lost: nobody waits any longer.
    pub fn back_off(&self) {
        self.phase.set(Phase::BackOff);
        self.fail_all();
    }

    fn fail_all(&self) {
        let unsent = std::mem::take(&mut *self.unsent.borrow_mut());
        let awaited = std::mem::take(&mut *self.awaited.borrow_mut());
        for call in unsent {
            call.slot.settle(Err(CallError::Away));
        }
        for call in awaited {
            call.slot.settle(Err(CallError::Lost));
        }
    }

    /// Moves commands that somebody waits for to `out`. They are awaited from now on.
    pub fn take_unsent(&self, out: &mut Vec<u8>) {
        let mut unsent = self.unsent.borrow_mut();
        if unsent.is_empty() {
            return;
        }
        let since = clock::now();
        for call in unsent.drain(..) {
            if !call.slot.is_abandoned.get() {
                out.extend_from_slice(&call.command);
                self.awaited.borrow_mut().push_back(Awaited {
                    slot: call.slot,
                    since,
                    deadline: call.deadline,
                });
            }
        }
        if self.awaited.borrow().is_empty() {
            // All were abandoned before they were sent.
            self.is_late.set(false);
        }
    }

    /// Delivers a reply to the oldest call. Returns false if none was awaited: the peer does not speak the protocol.
    pub fn deliver(&self, reply: Reply) -> bool {
        let Some(call) = self.awaited.borrow_mut().pop_front() else {
            return false;
        };
        // Late or not, the server replies.
        self.is_late.set(false);
        let now = clock::now();
        if now.since(call.since) > call.deadline {
            let late_since = self.late_since.get().unwrap_or(now);
            self.late_since.set(Some(late_since));
            if now.since(late_since) >= REDIS_LATE_TIME {
                self.note_trouble("replies arrive after the deadline");
            }
        } else {
            self.late_since.set(None);
            match &reply {
                Reply::Error(message) => self.note_error(message),
                Reply::Status(_)
                | Reply::Integer(_)
                | Reply::Bulk(_)
                | Reply::Nil
                | Reply::Array(_) => self.note_success(),
            }
        }
        call.slot.settle(Ok(reply));
        true
    }

    /// Since when the oldest call waits for its reply.
    pub fn awaited_since(&self) -> Option<Moment> {
        self.awaited.borrow().front().map(|call| call.since)
    }

    /// An error that is about the state of the server, rather than about one command.
    fn note_error(&self, message: &[u8]) {
        const OF_SERVER: [&[u8]; 9] = [
            b"READONLY",
            b"OOM",
            b"MISCONF",
            b"LOADING",
            b"NOAUTH",
            b"NOPERM",
            b"MASTERDOWN",
            b"CLUSTERDOWN",
            b"MOVED",
        ];
        let code = message.split(|byte| *byte == b' ').next().unwrap_or(b"");
        let message = String::from_utf8_lossy(message);
        if OF_SERVER.contains(&code) {
            self.note_trouble(&message);
        } else if code != b"NOSCRIPT"
            && let Some(server) = self.server.upgrade()
        {
            server.standing.note_odd(&message);
        }
    }

    /// The server cannot be used by this line.
    pub fn note_trouble(&self, reason: &str) {
        if !self.is_away.replace(true)
            && let Some(server) = self.server.upgrade()
        {
            server.standing.lose(reason);
        }
    }

    /// The server can be used.
    pub fn note_success(&self) {
        if self.is_away.replace(false)
            && let Some(server) = self.server.upgrade()
        {
            server.standing.find();
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if self.is_away.get()
            && let Some(server) = self.server.upgrade()
        {
            server.standing.leave();
        }
    }
}

impl Slot {
    fn settle(&self, result: Result<Reply, CallError>) {
        *self.result.borrow_mut() = Some(result);
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }
}

/// A call that waits for its reply; dropping it abandons the call.
struct Waiting(Rc<Slot>);

impl Waiting {
    async fn reply(&self) -> Result<Reply, CallError> {
        poll_fn(|cx| match self.0.result.borrow_mut().take() {
            Some(result) => Poll::Ready(result),
            None => {
                *self.0.waker.borrow_mut() = Some(cx.waker().clone());
                Poll::Pending
            }
        })
        .await
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.is_abandoned.set(true);
    }
}
