//! Begins a connection: HTTP/2 with prior knowledge, or what was negotiated with the upstream.

use std::rc::Rc;
use std::sync::Arc;

use super::drive;
use super::mux::Mux;
use crate::dial::dial;
use crate::endpoint::{Endpoint, Protocol};
use crate::link::Link;
use crate::streams::{Dialled, Dials, Sharing, Shelf};
use sluice_net::failure::Failure;
use sluice_net::stream::Stream;
use sluice_net::worker::Worker;

impl Dials for Mux {
    async fn dial(
        worker: &Rc<Worker>,
        endpoint: &Arc<Endpoint>,
        preface: &[u8],
        shelf: &Rc<Shelf<Mux>>,
        sharing: Sharing,
    ) -> Result<Dialled<Mux>, Failure> {
        let (stream, slot) = dial(worker, endpoint, preface).await?;
        let is_http2 = match (endpoint.options().protocol, &stream) {
            (Protocol::Http2, _) => true,
            (_, Stream::Tls(tls)) => tls.alpn() == b"h2",
            (_, Stream::Tcp(_) | Stream::Unix(_)) => false,
        };
        shelf.note_http1(!is_http2);
        if !is_http2 {
            return Ok(Dialled::Single(Link::new(stream, endpoint.clone(), slot)));
        }
        let mux = Rc::new(Mux::new(worker, endpoint, shelf, sharing));
        if sharing == Sharing::All {
            shelf.add(mux.clone());
        }
        drive::start(mux.clone(), stream, slot);
        Ok(Dialled::Shared(mux))
    }
}
