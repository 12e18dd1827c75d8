//! TLS of the running server: which certificates there are, and who renews them. What automatic HTTPS changes in
//! a configuration is left to `auto`, certificates themselves to `sluice-certs`.

mod auto;

use std::path::Path;
use std::sync::Arc;

use sluice_model::Config;
use sluice_net::tls::Acceptor;

use crate::build::Refusal;
use crate::log::Log;

/// The certificates of a process.
pub(crate) struct Https {}

/// Certificates and policies for one configuration, which serve nobody yet.
pub(crate) struct Prepared {}

impl Https {
    /// No certificates yet; they are kept below `data_dir`.
    pub(crate) fn new(_data_dir: &Path, _log: Log) -> Https {
        Https {}
    }

    pub(crate) fn prepare(&mut self, config: &Config, _refusals: &mut Vec<Refusal>) -> (Config, Prepared) {
        (auto::expand(config, &Default::default()).config, Prepared {})
    }

    pub(crate) fn commit(&mut self, _prepared: Prepared) {}

    pub(crate) fn maintain(&mut self) {}
}

impl Prepared {
    pub(crate) fn acceptor(&self, _server: &str) -> Option<Arc<dyn Acceptor>> {
        None
    }
}
