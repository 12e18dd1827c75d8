//! Failures of starts and of calls.

use std::fmt;

use sluice_net::body::RequestBody;
use sluice_net::failure::Failure;

/// Why an application could not be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartFailure {
    /// What failed: `interpreter`, `spawn`, `import`, `lifespan`, `timeout`, `exit` or a stage of the worker.
    pub stage: String,
    /// One line that states the fact.
    pub message: String,
    /// The traceback, if Python gave one; several lines.
    pub traceback: Option<String>,
    /// The Python file and line of the failure, if they are known.
    pub place: Option<(String, u32)>,
}

impl StartFailure {
    pub(crate) fn at(stage: &str, message: String) -> StartFailure {
        StartFailure {
            stage: stage.to_owned(),
            message,
            traceback: None,
            place: None,
        }
    }
}

impl fmt::Display for StartFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for StartFailure {}

/// How a worker process ended under a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    /// It exited by itself with this code.
    Exited(i32),
    /// This signal killed it.
    Signal(i32),
    /// The kernel killed it because memory ran out.
    OutOfMemory,
    /// sluice killed it because a request took longer than `request_timeout`.
    RequestTimeout,
    /// sluice killed it because it did not end in time while draining, or was not needed any more.
    DrainTimeout,
    /// sluice killed it because it was not ready within `start_timeout`.
    StartTimeout,
    /// It violated the protocol.
    Protocol,
    /// Not known (yet).
    Unknown,
}

/// Why the application's response cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The application raised an exception before its response.
    BeforeResponse,
    /// It raised one after its response head.
    AfterHead,
    /// It broke the rules of its interface.
    Rules,
}

/// Why a request was not given to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The queue is full (`queue_size`): 503 with Retry-After.
    QueueFull,
    /// No worker became free within `queue_timeout`: 503 with Retry-After.
    QueueTimeout,
    /// The application failed to start and was given up: 503.
    Failed,
    /// The application has ended.
    Stopped,
}

/// Why a call failed.
#[derive(Debug)]
pub enum Why {
    /// It was not given to a worker.
    Refused(Refusal),
    /// The worker process is gone.
    Died {
        /// Whether the application may have begun with the request. Otherwise it can be repeated whatever its method.
        started: bool,
        /// How the process ended.
        how: Death,
    },
    /// The application took longer than `request_timeout`: 504.
    TimedOut,
    /// The application failed: 500.
    Application {
        /// When.
        stage: Stage,
        /// A traceback, or the rule that was broken. It was logged.
        text: String,
    },
    /// The application's response head is malformed: 500 (or 502); the text says what is wrong. It was logged.
    Response(String),
    /// The request body failed.
    Body(Failure),
}

/// A call that failed before the head of its response.
pub struct CallFailure {
    /// The reason.
    pub why: Why,
    /// The request body, if all of it can still be sent.
    pub body: Option<RequestBody>,
}
