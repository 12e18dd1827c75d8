//! What every directive that acts on a request implements. Walking through them is left to `pipeline`.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use sluice_net::Body;

use crate::context::Exchange;
use crate::failure::Fault;

/// A future of a handler at work.
pub type Waiting<'a> = Pin<Box<dyn Future<Output = Step> + 'a>>;

/// A directive at work: it answers, passes the request on, or fails.
///
/// A handler never calls the next one. What it has to do to the answer of later ones it leaves as a
/// [`Filter`] in the context; so passing on costs no nesting and no allocation.
pub trait Handler: Send + Sync {
    /// Handles the request as far as it can be done at once. The head of an answer goes to `x.res`.
    fn serve(&self, x: &mut Exchange) -> Step;

    /// What it says of itself when a request is explained. Nothing may leave the process for that and nothing be
    /// waited for; whoever does neither need not say anything.
    fn account(&self, _x: &mut Exchange) -> Account {
        Account::default()
    }

    /// Goes on where `serve` gave [`Step::Later`], and is called only then.
    fn wait<'a>(&'a self, _x: &'a mut Exchange) -> Waiting<'a> {
        unreachable!("a handler that returns Later says how to wait")
    }
}

/// What a handler says of itself when a request is explained.
#[derive(Default)]
pub struct Account {
    /// What it does or would do, a sentence each.
    pub says: Vec<String>,
    /// What is to be taken for its decision in place of calling `serve`; that is called where there is none.
    pub assumed: Option<Assumed>,
}

/// What an explanation takes for the decision of a handler that it does not call.
pub enum Assumed {
    /// The request goes on as if it had decided so.
    Step(Step),
    /// Somebody else answers, and nobody here knows how.
    Elsewhere,
}

/// What a handler decided.
pub enum Step {
    /// Not mine, or done with the request: the next handler.
    Next,
    /// This is the answer.
    Done(Body),
    /// An error; `handle_errors` routes get to see it.
    Fail(Fault),
    /// The routes of the list with this number, then the next handler.
    Enter(usize),
    /// Something has to be awaited: [`Handler::wait`] does it.
    Later,
}

/// A handler that does what it does to answers only: each gets its filter.
pub struct Filtering(Arc<dyn Filter>);

impl Filtering {
    /// The handler of a filter.
    pub fn boxed(filter: impl Filter + 'static) -> Box<dyn Handler> {
        Box::new(Filtering(Arc::new(filter)))
    }
}

impl Handler for Filtering {
    fn serve(&self, x: &mut Exchange) -> Step {
        x.context.filters.push(self.0.clone());
        Step::Next
    }
}

/// Changes an answer on its way out, last added first. A filter sees answers only, not errors that are still to
/// be turned into one.
pub trait Filter: Send + Sync {
    /// Changes head (`x.res`) or body of an answer.
    fn apply(&self, x: &mut Exchange, body: Body) -> Body;

    /// Whether it has to wait for the body or for others; then [`Filter::wait`] is called in place of `apply`.
    fn waits(&self, _x: &Exchange, _body: &Body) -> bool {
        false
    }

    /// Changes an answer that has to be waited for, or fails.
    fn wait<'a>(self: Arc<Self>, _x: &'a mut Exchange, _body: Body) -> Waiting<'a> {
        unreachable!("a filter that waits says how")
    }

    /// Undoes what its handler did to the request: the answer it was meant for does not come.
    fn give_up(&self, _x: &mut Exchange) {}

    /// The list of routes that answer in place of this answer, if any do.
    fn diverts(&self, _x: &mut Exchange) -> Option<usize> {
        None
    }
}
