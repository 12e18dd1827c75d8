//! What other packages report for the status page: reloads, the source of the configuration, certificates, and requests in
//! flight per concurrency limit.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use crate::fleet::FleetView;
use crate::limits::RELOAD_ERROR_BYTES_MAX;

/// The sources, which outlive configurations.
#[derive(Default)]
pub struct Sources {
    certificates: OnceLock<Arc<dyn Certificates>>,
    concurrency: Mutex<Vec<Weak<dyn ConcurrencyLimit>>>,
    reloads: Mutex<Reloads>,
    config_source: OnceLock<Arc<dyn ConfigSource>>,
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sources").finish_non_exhaustive()
    }
}

/// Reloads since the process started.
#[derive(Clone, Debug, Default)]
pub struct Reloads {
    /// Reloads that took effect.
    pub succeeded: u64,
    /// Reloads that were rejected.
    pub failed: u64,
    /// The last reload.
    pub last: Option<Reload>,
}

/// A reload.
#[derive(Clone, Debug)]
pub struct Reload {
    /// When it ended.
    pub at: SystemTime,
    /// What caused it: a signal, `admin` or `watch`.
    pub trigger: String,
    /// Why the configuration was rejected, if it was.
    pub error: Option<String>,
}

/// The certificates in use.
pub trait Certificates: Send + Sync {
    /// Their state.
    fn list(&self) -> Vec<CertificateStanding>;

    /// The names of the locks that this process holds in their storages.
    fn locks(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The state of a certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateStanding {
    /// The names and addresses it is for.
    pub names: Vec<String>,
    /// Its issuer or its file.
    pub origin: String,
    /// The start of its validity; `None` if it was not obtained yet.
    pub valid_from: Option<SystemTime>,
    /// When it expires; `None` if it was not obtained yet.
    pub expires: Option<SystemTime>,
    /// Whether sluice renews it.
    pub is_managed: bool,
    /// Failed attempts to obtain or renew it since the last success.
    pub failures: u32,
    /// The last failure, if the last attempt failed.
    pub last_failure: Option<String>,
    /// When the next attempt starts, if one is due.
    pub next_attempt: Option<SystemTime>,
}

/// The source that a node of a fleet follows for its configuration.
pub trait ConfigSource: Send + Sync {
    /// Its state.
    fn standing(&self) -> ConfigSourceStanding;

    /// The whole fleet, which is read while somebody looks at it; `None` if it was not read yet.
    fn fleet(&self) -> Option<FleetView> {
        None
    }
}

/// The state of the source of a node's configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigSourceStanding {
    /// Its URL, without secrets.
    pub place: String,
    /// The name of this node.
    pub node: String,
    /// The revision in use.
    pub running: Option<String>,
    /// The revision at the source.
    pub offered: Option<String>,
    /// Since when that has been another one; `None` while they are the same.
    pub behind_since: Option<SystemTime>,
    /// Why this node has refused the one at the source.
    pub refusal: Option<String>,
    /// Whether the source has responded to the last request.
    pub is_reachable: bool,
    /// Why it could not be read, if the last attempt failed.
    pub error: Option<String>,
    /// When it has responded last.
    pub last_contact: Option<SystemTime>,
    /// Configurations that took effect.
    pub applied: u64,
    /// Configurations that were refused.
    pub refused: u64,
    /// Failed attempts to read the source or to report to it.
    pub failures: u64,
}

impl ConfigSourceStanding {
    /// For how long the source has had another revision than the one in use.
    pub fn lag(&self) -> Option<Duration> {
        self.behind_since
            .map(|since| since.elapsed().unwrap_or_default())
    }
}

/// A limit of requests in flight.
pub trait ConcurrencyLimit: Send + Sync {
    /// Its state.
    fn standing(&self) -> ConcurrencyStanding;
}

/// The state of a limit of requests in flight.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConcurrencyStanding {
    /// The name of the zone, or the key of the directive.
    pub name: String,
    /// Requests in flight, all keys together.
    pub in_flight: u64,
    /// Requests that wait.
    pub waiting: u64,
    /// Requests refused so far.
    pub refused: u64,
    /// Keys with requests in flight.
    pub keys: u64,
    /// Requests in flight that are allowed per key; `None` if it depends on the location.
    pub max: Option<u64>,
}

impl Sources {
    /// Sets the certificates to show. Later calls have no effect.
    pub fn set_certificates(&self, certificates: Arc<dyn Certificates>) {
        let _ = self.certificates.set(certificates);
    }

    /// The state of the certificates.
    pub fn certificates(&self) -> Vec<CertificateStanding> {
        self.certificates
            .get()
            .map(|source| source.list())
            .unwrap_or_default()
    }

    /// The names of the locks that this process holds in the storages of certificates.
    pub fn locks(&self) -> Vec<String> {
        self.certificates
            .get()
            .map(|source| source.locks())
            .unwrap_or_default()
    }

    /// Shows a concurrency limit as long as it is in use.
    pub fn add_concurrency_limit(&self, limit: Weak<dyn ConcurrencyLimit>) {
        let mut known = lock(&self.concurrency);
        // Not on every call: ten thousand sites may have one each.
        if known.len().is_power_of_two() {
            known.retain(|limit| limit.strong_count() > 0);
        }
        known.push(limit);
    }

    /// The state of the concurrency limits in use.
    pub fn concurrency_limits(&self) -> Vec<ConcurrencyStanding> {
        let known = lock(&self.concurrency);
        let live: Vec<_> = known.iter().filter_map(Weak::upgrade).collect();
        drop(known);
        live.iter().map(|limit| limit.standing()).collect()
    }

    /// Sets the source of the configuration to show. Later calls have no effect.
    pub fn set_config_source(&self, source: Arc<dyn ConfigSource>) {
        let _ = self.config_source.set(source);
    }

    /// The state of the source of the configuration, if this is a node of a fleet.
    pub fn config_source(&self) -> Option<ConfigSourceStanding> {
        self.config_source.get().map(|source| source.standing())
    }

    /// The fleet of this node, if it is one of a fleet and that was read.
    pub fn fleet(&self) -> Option<FleetView> {
        self.config_source.get()?.fleet()
    }

    /// Records how a reload ended.
    pub fn note_reload(&self, trigger: &str, outcome: Result<(), &str>) {
        let mut reloads = lock(&self.reloads);
        match outcome {
            Ok(()) => reloads.succeeded += 1,
            Err(_) => reloads.failed += 1,
        }
        let error = outcome.err().map(|error| {
            let end = error.floor_char_boundary(RELOAD_ERROR_BYTES_MAX);
            error[..end].to_owned()
        });
        reloads.last = Some(Reload {
            at: SystemTime::now(),
            trigger: trigger.to_owned(),
            error,
        });
    }

    /// The reloads so far.
    pub fn reloads(&self) -> Reloads {
        lock(&self.reloads).clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
