//! `push`: accepted without effect. Browsers no longer support HTTP/2 server push, and HTTP/1.1 never had it.

use sluice_pipeline::context::Exchange;
use sluice_pipeline::handler::{Handler, Step};

/// Passes every request to the next handler.
pub struct Push;

impl Handler for Push {
    fn serve(&self, _x: &mut Exchange) -> Step {
        Step::Next
    }
}
