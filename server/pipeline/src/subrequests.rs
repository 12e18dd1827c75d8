//! Subrequests: requests that handlers make to their own server.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use sluice_net::Body;

use crate::context::Exchange;
use crate::step::Waiting;

/// A server that handlers can make subrequests to.
pub trait Subrequests: Send + Sync {
    /// Runs a subrequest and returns the response body; the head is in `exchange.res`. Subrequests are not
    /// counted, because the request that they belong to is. Interim responses of upstreams are not sent to the client.
    fn fetch<'a>(&'a self, exchange: &'a mut Exchange) -> Pin<Box<dyn Future<Output = Body> + 'a>>;

    /// Runs the handlers that follow the current one; see [`Program::rest`](crate::program::Program::rest).
    fn rest<'a>(&'a self, exchange: &'a mut Exchange, timeout: Option<Duration>) -> Waiting<'a>;
}

/// A reference from a handler to its server, which is created after the handler.
#[derive(Clone, Default)]
pub struct ServerRef(Arc<OnceLock<Weak<dyn Subrequests>>>);

impl ServerRef {
    /// The server, if it is still running.
    pub fn get(&self) -> Option<Arc<dyn Subrequests>> {
        self.0.get()?.upgrade()
    }

    /// Makes the server available to its handlers; a reference is set once.
    pub fn set(&self, server: &Arc<impl Subrequests + 'static>) {
        let server: Arc<dyn Subrequests> = server.clone();
        let _ = self.0.set(Arc::downgrade(&server));
    }
}
