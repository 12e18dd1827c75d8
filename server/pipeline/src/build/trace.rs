//! The server option `trace`: logs a debug entry for each handler that a request reaches.

use std::sync::Arc;

use sluice_model::Handler as Config;

use crate::context::Exchange;
use crate::handler::{Handler, Step, Waiting};
use sluice_observe::Recorder;

/// A handler that logs each call.
struct Traced {
    inner: Box<dyn Handler>,
    recorder: Arc<Recorder>,
    /// The module name of the handler.
    module: String,
    /// Its configuration as JSON.
    config: Vec<u8>,
}

impl Handler for Traced {
    fn serve(&self, exchange: &mut Exchange) -> Step {
        let entry = self.recorder.log().debug("http.log.trace", &self.module);
        entry.json("module", &self.config).send();
        self.inner.serve(exchange)
    }

    fn wait<'a>(&'a self, exchange: &'a mut Exchange) -> Waiting<'a> {
        self.inner.wait(exchange)
    }
}

/// Wraps a handler so that each call is logged.
pub fn logged(
    inner: Box<dyn Handler>,
    config: &Config,
    recorder: &Arc<Recorder>,
) -> Box<dyn Handler> {
    let mut value = serde_json::to_value(config).unwrap_or_default();
    if let Some(members) = value.as_object_mut() {
        members.remove("handler");
    }
    Box::new(Traced {
        inner,
        recorder: recorder.clone(),
        module: config.module().to_owned(),
        config: value.to_string().into_bytes(),
    })
}
