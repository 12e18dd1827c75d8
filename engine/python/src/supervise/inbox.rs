//! What the tasks of a supervisor report to it. All of them run on its thread.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use sluice_net::sys::spawn::Ended;

use super::launched::Launched;
use super::preload::Parent;
use crate::failure::StartFailure;
use crate::group::Group;
use crate::process::Greeting;

/// Something that has happened to a process.
pub(super) enum Event {
    /// It was forked by a preloading parent.
    Forked(Launched, Rc<Parent>),
    /// It could not be forked.
    NotForked(StartFailure),
    /// It takes requests.
    Ready(Greeting),
    /// It reports why it cannot start; it ends by itself.
    Failed(StartFailure),
    /// A signal has asked it to end.
    Leaving,
    /// It has ended, and all of its output was read. Without facts if it could not even be started.
    Ended(Option<Ended>),
}

/// The events that the supervisor has not looked at.
pub(super) struct Inbox {
    group: Arc<Group>,
    events: RefCell<VecDeque<(u64, Event)>>,
}

impl Inbox {
    pub fn new(group: &Arc<Group>) -> Inbox {
        Inbox {
            group: group.clone(),
            events: RefCell::default(),
        }
    }

    /// Reports an event of the process `number`.
    pub fn push(&self, number: u64, event: Event) {
        self.events.borrow_mut().push_back((number, event));
        self.group.bell.notify_one();
    }

    pub fn pop(&self) -> Option<(u64, Event)> {
        self.events.borrow_mut().pop_front()
    }
}
