//! What passes between a follower and the server that takes its texts.

use std::sync::mpsc::SyncSender;

use super::revision::Revision;

/// A text that a node is to run.
#[derive(Clone, Debug)]
pub struct Offered {
    /// The text.
    pub text: String,
    /// Its revision.
    pub revision: Revision,
}

/// What became of an offered text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is in effect.
    Applied,
    /// It is not valid, for these reasons; the one before stays in effect.
    Refused(String),
    /// The server cannot change now; the text is offered again.
    Deferred,
}

/// Takes offered texts. It returns at once; the outcome follows.
pub type Offering = Box<dyn FnMut(Offered, Reply) + Send>;

/// Reports what became of an offered text. If it is dropped, the text counts as deferred.
#[derive(Debug)]
pub struct Reply {
    wakes: SyncSender<Wake>,
    revision: Revision,
    is_sent: bool,
}

impl Reply {
    pub(super) fn new(wakes: SyncSender<Wake>, revision: Revision) -> Reply {
        Reply {
            wakes,
            revision,
            is_sent: false,
        }
    }

    /// Reports it.
    pub fn send(mut self, outcome: Outcome) {
        self.pass(outcome);
    }

    fn pass(&mut self, outcome: Outcome) {
        self.is_sent = true;
        // If the follower is gone, the process is stopping. A full queue waits for a call of the store at most.
        let _ = self
            .wakes
            .send(Wake::Outcome(self.revision.clone(), outcome));
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if !self.is_sent {
            self.pass(Outcome::Deferred);
        }
    }
}

/// What wakes the follower.
#[derive(Debug)]
pub(super) enum Wake {
    /// The source may have changed.
    Look,
    /// An operator wants the text to be tried again.
    Retry,
    /// What became of the text of this revision.
    Outcome(Revision, Outcome),
    /// The process stops, or another one has replaced it.
    Leave(Leaving),
}

/// How a node leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// It stops: its report is removed.
    Stopped,
    /// A new process goes on as this node.
    Replaced,
}
