//! What the admin endpoint shows of the running server: metrics, the state of upstreams and applications, the status.

use std::sync::Arc;

use sluice_admin::Counts;
use sluice_observe::Recorder;
use sluice_observe::metrics;
use sluice_observe::status::Status;

/// The server's counters, for the admin endpoint.
#[derive(Debug)]
pub struct Counted(Status);

impl Counted {
    /// The counters of `recorder`.
    pub fn new(recorder: Arc<Recorder>) -> Counted {
        Counted(Status::new(recorder, env!("CARGO_PKG_VERSION")))
    }
}

impl Counts for Counted {
    fn page(&self, accept: &[u8]) -> (&'static str, Vec<u8>) {
        let format = metrics::Format::accepted(accept);
        (
            format.media_type(),
            metrics::page(self.0.recorder(), format).into_bytes(),
        )
    }

    fn upstreams(&self) -> serde_json::Value {
        metrics::upstreams(self.0.recorder().hub())
    }

    fn python_applications(&self) -> serde_json::Value {
        metrics::python_applications(self.0.recorder().hub())
    }

    fn count(&self, method: &str, path: &str, status: u16) {
        let hub = self.0.recorder().hub();
        hub.count_admin(method, path, status);
    }

    fn sample(&self) {
        self.0.sample();
    }

    fn status(&self) -> Vec<u8> {
        json_line(&self.0.snapshot())
    }

    fn status_csv(&self) -> Vec<u8> {
        self.0.snapshot().to_csv().into_bytes()
    }

    fn history(&self) -> Vec<u8> {
        json_line(&self.0.history())
    }
}

/// A document as JSON on one line.
fn json_line(document: &impl serde::Serialize) -> Vec<u8> {
    // Neither map keys that are not texts nor failing serializers occur in it.
    let mut text = serde_json::to_vec(document).unwrap_or_default();
    text.push(b'\n');
    text
}
