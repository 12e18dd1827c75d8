//! `nginx_unchunked`: `chunked_transfer_encoding off`. A response of unknown length ends with its connection.

use sluice_message::UnknownLength;
use sluice_net::Body;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::handler::{Filter, Filtering, Handler};

struct Unchunked;

/// Builds the handler.
pub fn build() -> Box<dyn Handler> {
    Filtering::boxed(Unchunked)
}

impl Filter for Unchunked {
    fn apply(&self, exchange: &mut Exchange, body: Body) -> Body {
        exchange.res.unknown_length = UnknownLength::UntilClose;
        body
    }
}
