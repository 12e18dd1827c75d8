//! What the admin endpoint shows of the running configuration and server: how a request would be handled, local CAs, and
//! counters.

use std::sync::Arc;

use serde_json::Value;
use sluice_admin::{Authority, Counts, Insight};
use sluice_diag::Written;
use sluice_observe::{Recorder, metrics};
use sluice_serve::explain::{Explainer, Question};
use sluice_serve::process::Server;
use sluice_tls::AuthorityView;

/// What is known of the configuration that `server` runs, which was read from `files`.
pub(super) fn of(
    server: &Server,
    files: &[String],
    written: Option<&Arc<Written>>,
) -> Arc<dyn Insight> {
    Arc::new(Known {
        explainer: server.explainer(files, written.cloned()),
        authorities: server.authorities(),
    })
}

struct Known {
    explainer: Explainer,
    authorities: AuthorityView,
}

impl Insight for Known {
    fn explain(&self, question: &[u8]) -> Result<Value, String> {
        let question: Question =
            serde_json::from_slice(question).map_err(|error| error.to_string())?;
        let explanation = self
            .explainer
            .explain(&question)
            .map_err(|e| e.to_string())?;
        serde_json::to_value(&explanation).map_err(|error| error.to_string())
    }

    fn authority(&self, id: &str) -> Result<Option<Authority>, String> {
        let found = self.authorities.find(id)?;
        Ok(found.map(|found| Authority {
            id: found.id,
            name: found.name,
            common_names: (found.root_common_name, found.intermediate_common_name),
            certificates: (found.root, found.intermediate),
        }))
    }
}

/// The server's counters.
pub(super) fn counts(server: &Server) -> Arc<dyn Counts> {
    Arc::new(Counted(server.recorder()))
}

#[derive(Debug)]
struct Counted(Arc<Recorder>);

impl Counts for Counted {
    fn page(&self, accept: &[u8]) -> (&'static str, Vec<u8>) {
        let format = metrics::Format::accepted(accept);
        (
            format.media_type(),
            metrics::page(&self.0, format).into_bytes(),
        )
    }

    fn upstreams(&self) -> serde_json::Value {
        metrics::upstreams(self.0.hub())
    }

    fn python_applications(&self) -> serde_json::Value {
        metrics::python_applications(self.0.hub())
    }

    fn count(&self, method: &str, path: &str, status: u16) {
        self.0.hub().count_admin(method, path, status);
    }
}
