//! What the admin endpoint shows of the running configuration and server: how a request would be handled, local CAs, and
//! counters.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sluice_admin::limits::EJECT_SECONDS_MAX;
use sluice_admin::{ActionUse, Authority, Counts, Denied, Insight, Purge};
use sluice_diag::Written;
use sluice_model::DashboardAction;
use sluice_net::clock;
use sluice_observe::metrics;
use sluice_observe::metrics::Direction;
use sluice_observe::status::Status;
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
    let status = Status::new(server.recorder(), env!("CARGO_PKG_VERSION"));
    Arc::new(Counted(status))
}

/// Shows the outcome of a reload in the status and in the metrics.
pub(super) fn note_reload(server: &Server, trigger: &str, outcome: &Result<(), Denied>) {
    let noted = match outcome {
        Ok(()) => Ok(()),
        Err(denied) => Err(denied.why.as_str()),
    };
    let recorder = server.recorder();
    recorder.sources().note_reload(trigger, noted);
    if noted.is_err() {
        // The server itself knows nothing of a file that could not be read.
        recorder.hub().note_load(false);
    }
}

#[derive(Debug)]
struct Counted(Status);

impl Counted {
    /// Removes responses from the caches whose directory is meant; `None` if that is none of them.
    fn purge_where(&self, which: &Purge, is_meant: impl Fn(&Path) -> bool) -> Option<usize> {
        let stores = self.0.recorder().stores().all();
        let meant = stores.iter().filter(|store| is_meant(store.path()));
        let counts = meant.map(|store| match which {
            Purge::Key(key) => store.purge(key.as_bytes()),
            Purge::Beginning(prefix) => store.purge_beginning(prefix.as_bytes()),
            Purge::Tagged(list) => store.purge_tagged(list),
        });
        counts.reduce(|sum, count| sum + count)
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

    fn direct_upstream(&self, address: &str, direction: Value) -> Result<Option<Value>, String> {
        let direction: Directing =
            serde_json::from_value(direction).map_err(|error| error.to_string())?;
        let hub = self.0.recorder().hub();
        if !metrics::direct(hub, address, &direction.read()?) {
            return Ok(None);
        }
        let Value::Array(upstreams) = metrics::upstreams(hub) else {
            return Ok(None);
        };
        let mut upstreams = upstreams.into_iter();
        Ok(upstreams.find(|upstream| upstream["address"] == *address))
    }

    fn purge(&self, cache: &str, which: &Purge) -> Option<usize> {
        self.purge_where(which, |path| path.display().to_string() == cache)
    }

    fn cached_keys(&self) -> Vec<String> {
        let stores = self.0.recorder().stores().all();
        let keys = stores.iter().flat_map(|store| store.keys());
        let mut keys: Vec<String> = keys
            .map(|key| String::from_utf8_lossy(&key).into_owned())
            .collect();
        keys.sort_unstable();
        keys
    }

    fn purge_all(&self, which: &Purge) -> usize {
        self.purge_where(which, |_| true).unwrap_or(0)
    }

    fn note_action(&self, used: &ActionUse<'_>) {
        let log = self.0.recorder().log();
        let (entry, name, words) = match used.outcome {
            Ok(words) => (log.info("admin", "dashboard action"), "result", words),
            Err(why) => (log.warn("admin", "dashboard action failed"), "error", why),
        };
        entry
            .text("action", used.action.name())
            .text("object", used.object)
            .text("remote", &used.remote)
            .text(name, words)
            .send();
    }

    fn python_applications(&self) -> serde_json::Value {
        metrics::python_applications(self.0.recorder().hub())
    }

    fn count(&self, method: &str, path: &str, status: u16) {
        self.0.recorder().hub().count_admin(method, path, status);
    }

    fn sample(&self) {
        self.0.sample();
    }

    fn status(&self, actions: &[DashboardAction]) -> Vec<u8> {
        let mut snapshot = self.0.snapshot();
        let names = actions.iter().map(|action| action.name().to_owned());
        snapshot.actions = names.collect();
        json_line(&snapshot)
    }

    fn status_csv(&self) -> Vec<u8> {
        self.0.snapshot().to_csv().into_bytes()
    }

    fn history(&self) -> Vec<u8> {
        json_line(&self.0.history())
    }
}

/// What a client directs for an upstream. Members that are absent leave a setting as it is, and `null` makes it what is
/// configured.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Directing {
    state: Option<State>,
    #[serde(default, deserialize_with = "given")]
    max_requests: Option<u32>,
    #[serde(default, deserialize_with = "given")]
    weight: Option<u32>,
    /// For how many seconds it gets no requests; `null` ends that.
    #[serde(default, deserialize_with = "given")]
    eject_seconds: Option<u32>,
    /// Whether the directions survive a reload.
    keep: Option<bool>,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum State {
    Ready,
    Draining,
}

/// A member that is there; `null` counts as 0.
fn given<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    let number = Option::<u32>::deserialize(deserializer)?;
    match number {
        Some(0) => Err(serde::de::Error::custom(
            "the number is at least 1; `null` is as configured",
        )),
        Some(number) => Ok(Some(number)),
        None => Ok(Some(0)),
    }
}

impl Directing {
    fn read(self) -> Result<Direction, String> {
        if self.weight.is_some_and(|weight| weight > WEIGHT_MAX) {
            return Err(format!("a weight is at most {WEIGHT_MAX}"));
        }
        if self
            .eject_seconds
            .is_some_and(|seconds| seconds > EJECT_SECONDS_MAX)
        {
            return Err(format!(
                "an upstream is ejected for at most {EJECT_SECONDS_MAX} seconds"
            ));
        }
        Ok(Direction {
            is_draining: self.state.map(|state| state == State::Draining),
            requests_max: self.max_requests,
            weight: self.weight,
            ejected_until: self.eject_seconds.map(ejected_until),
            is_kept: self.keep,
        })
    }
}

/// When an ejection ends that begins now, in nanoseconds since the start; 0 if it is to end.
fn ejected_until(seconds: u32) -> u64 {
    let end = clock::now() + Duration::from_secs(seconds.into());
    match seconds {
        0 => 0,
        _ => u64::try_from(end.since_start().as_nanos()).unwrap_or(u64::MAX),
    }
}

/// The largest weight: sums of many stay far from what a counter holds.
const WEIGHT_MAX: u32 = 65_535;

/// A document as JSON on one line.
fn json_line(document: &impl Serialize) -> Vec<u8> {
    // Neither map keys that are not texts nor failing serializers occur in it.
    let mut text = serde_json::to_vec(document).unwrap_or_default();
    text.push(b'\n');
    text
}
