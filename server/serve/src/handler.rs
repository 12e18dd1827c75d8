//! The interface of handlers. `pipeline` runs them in order.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use sluice_net::Body;

use crate::context::Exchange;
use crate::failure::Fault;

/// The future of a handler that awaits something.
pub type Waiting<'a> = Pin<Box<dyn Future<Output = Step> + 'a>>;

/// A handler: it produces the response, passes the request to the next handler, or fails.
///
/// A handler never calls the next one. To change the response of later handlers it adds a [`Filter`] to the context, so
/// passing a request along requires neither nesting nor allocation.
pub trait Handler: Send + Sync {
    /// Handles the request as far as possible without awaiting. The response head goes to `x.res`.
    fn serve(&self, x: &mut Exchange) -> Step;

    /// Describes what the handler does, for `explain`. Implementations must not cause side effects outside the process
    /// and must not block; handlers without either need not implement this.
    fn account(&self, _x: &mut Exchange) -> Account {
        Account::default()
    }

    /// Continues after `serve` returned [`Step::Later`]; called only then.
    fn wait<'a>(&'a self, _x: &'a mut Exchange) -> Waiting<'a> {
        unreachable!("a handler that returns Later says how to wait")
    }
}

/// A handler's description of its decision, for `explain`.
#[derive(Default)]
pub struct Account {
    /// What it does or would do, one sentence each.
    pub says: Vec<String>,
    /// The decision to assume instead of calling `serve`; `None` to call it.
    pub assumed: Option<Assumed>,
}

/// The decision that an explanation assumes for a handler it does not call.
pub enum Assumed {
    /// Continue as if the handler had returned this.
    Step(Step),
    /// The response comes from another program, so it is unknown.
    Elsewhere,
}

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
    /// The handler has to await something: call [`Handler::wait`].
    Later,
}

/// A handler that only adds a filter to responses.
pub struct Filtering(Arc<dyn Filter>);

impl Filtering {
    /// Creates the handler of a filter.
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

/// Changes a response on its way to the client; the filter added last runs first. Filters see responses only, not
/// errors that have yet to be turned into one.
pub trait Filter: Send + Sync {
    /// Changes the head (`x.res`) or the body of a response.
    fn apply(&self, x: &mut Exchange, body: Body) -> Body;

    /// Whether the filter has to await the body or something else; if so, [`Filter::wait`] is called instead of
    /// `apply`.
    fn waits(&self, _x: &Exchange, _body: &Body) -> bool {
        false
    }

    /// Changes a response asynchronously, or fails.
    fn wait<'a>(self: Arc<Self>, _x: &'a mut Exchange, _body: Body) -> Waiting<'a> {
        unreachable!("a filter that waits says how")
    }

    /// Undoes the handler's changes to the request, because the response it was meant for is not sent.
    fn give_up(&self, _x: &mut Exchange) {}

    /// The list of routes that produces a response to replace this one, if any.
    fn diverts(&self, _x: &mut Exchange) -> Option<usize> {
        None
    }
}
