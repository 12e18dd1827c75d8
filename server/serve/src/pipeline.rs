//! The walk of a request through the routes of its server.

/// A place in a list of routes.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// The number of the list.
    pub list: usize,
    /// The next route in it.
    pub next: usize,
}
