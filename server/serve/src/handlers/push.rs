//! `push`: read, and without effect. No browser takes pushed answers any more, and over HTTP/1.1 nothing could be
//! pushed; the request goes on.

use crate::context::Exchange;
use crate::handler::{Handler, Step};

/// Does nothing.
pub struct Push;

impl Handler for Push {
    fn serve(&self, _x: &mut Exchange) -> Step {
        Step::Next
    }
}
