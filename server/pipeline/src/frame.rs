//! Positions of a request in the routes of its server.

/// A position in a list of routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    pub(crate) list: usize,
    /// The route whose handlers run, or the first route that was not tried.
    pub(crate) route: usize,
    /// The next handler of that route; `None` while a route has yet to be chosen.
    pub(crate) handler: Option<usize>,
}

impl Frame {
    /// The start of a list.
    pub(crate) fn at(list: usize) -> Self {
        Frame {
            list,
            route: 0,
            handler: None,
        }
    }
}

/// A list with error routes that the request has entered, and where to continue after them.
#[derive(Debug)]
pub struct Scope {
    pub(crate) errors: usize,
    pub(crate) outer: Vec<Frame>,
}
