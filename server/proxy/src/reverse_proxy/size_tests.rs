//! How much memory a request takes while it waits for its upstream.

use super::ReverseProxy;
use crate::limits::FORWARDING_BYTES_MAX;
use sluice_pipeline::context::Exchange;

/// The size of the future that `forward` returns.
fn bytes_of<'a, F>(_forward: impl FnOnce(&'a ReverseProxy, &'a mut Exchange) -> F) -> usize {
    size_of::<F>()
}

#[test]
fn a_forwarded_request_takes_no_more_than_its_limit() {
    let bytes = bytes_of(|proxy, exchange| proxy.run(exchange));
    assert!(bytes <= FORWARDING_BYTES_MAX, "{bytes} bytes");
}
