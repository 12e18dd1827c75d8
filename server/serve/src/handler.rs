//! What every directive that acts on a request implements. Walking through them is left to `pipeline`.

use std::future::Future;
use std::pin::Pin;

use sluice_net::Body;

use crate::context::Exchange;
use crate::failure::Fault;

/// A directive at work: it answers, passes the request on, or fails.
///
/// A handler never calls the next one. What it has to do to the answer of later ones it leaves as a
/// [`Filter`] in the context; so passing on costs no nesting and no allocation.
pub trait Handler: Send + Sync {
    /// Handles the request. The head of an answer goes to `x.res`.
    fn serve<'a>(&'a self, x: &'a mut Exchange) -> Step<'a>;
}

/// What a handler decided.
pub enum Step<'a> {
    /// Not mine, or done with the request: the next route.
    Next,
    /// This is the answer.
    Done(Body),
    /// An error; `handle_errors` routes get to see it.
    Fail(Fault),
    /// The routes of the list with this number, then the next route.
    Enter(usize),
    /// Something has to be awaited.
    Later(Pin<Box<dyn Future<Output = Outcome> + 'a>>),
}

/// What an awaited step decided; as [`Step`].
pub enum Outcome {
    /// As [`Step::Next`].
    Next,
    /// As [`Step::Done`].
    Done(Body),
    /// As [`Step::Fail`].
    Fail(Fault),
    /// As [`Step::Enter`].
    Enter(usize),
}

/// Changes an answer on its way out, last added first. A filter sees answers only, not errors that are still to
/// be turned into one.
pub trait Filter: Send + Sync {
    /// Changes head (`x.res`) or body of an answer.
    fn apply(&self, x: &mut Exchange, body: Body) -> Body;
}
