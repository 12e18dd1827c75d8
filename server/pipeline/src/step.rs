//! What a handler decides about a request.

use std::future::Future;
use std::pin::Pin;

use sluice_net::Body;

use crate::failure::Fault;

/// The decision of a handler.
pub enum Step {
    /// Continue with the next handler.
    Next,
    /// The response is complete, with this body.
    Done(Body),
    /// An error; the `handle_errors` routes handle it.
    Fail(Fault),
    /// Run the list of routes with this index, then the next handler.
    Enter(usize),
    /// The handler has to await something: call [`Handler::wait`](crate::Handler::wait).
    Later,
}

/// The future of a handler that awaits something.
pub type Waiting<'a> = Pin<Box<dyn Future<Output = Step> + 'a>>;
