//! The interface of handlers. `pipeline` runs them in order.

use std::sync::Arc;

use crate::context::Exchange;
pub use crate::context::Filter;
pub use crate::step::{Step, Waiting};

/// A handler: it produces the response, passes the request to the next handler, or fails.
///
/// A handler never calls the next one. To change the response of later handlers it adds a [`Filter`] to the context, so
/// passing a request along requires neither nesting nor allocation.
pub trait Handler: Send + Sync {
    /// Handles the request as far as possible without awaiting. The response head goes to `exchange.res`.
    fn serve(&self, exchange: &mut Exchange) -> Step;

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

/// A handler that only adds a filter to responses.
pub struct Filtering(Arc<dyn Filter>);

impl Filtering {
    /// Creates the handler of a filter.
    pub fn boxed(filter: impl Filter + 'static) -> Box<dyn Handler> {
        Box::new(Filtering(Arc::new(filter)))
    }
}

impl Handler for Filtering {
    fn serve(&self, exchange: &mut Exchange) -> Step {
        exchange.context.filters.push(self.0.clone());
        Step::Next
    }
}
