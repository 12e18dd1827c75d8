//! `admin.config.load`: another configuration from an HTTP server, once at the start or again and again. A thread fetches it;
//! it takes effect like any other, and what is wrong with it leaves the running one in use.

use std::fmt;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use clap::ValueEnum;
use sluice_admin::Denied;
use sluice_observe::log::Log;
use sluice_serve::config_loader::{ConfigLoader, Fetched};
use sluice_serve::limits::{PULL_PAUSE_MAX, RETRY_PAUSE_MAX, RETRY_PAUSE_MIN};

use super::{Event, Process, Read};
use crate::load::{Adapter, Loaded, detect, parse};
use crate::messages::{Failed, MessageFormat};

/// What has loaded the configuration, in the log.
const TRIGGER: &str = "admin.config.load";

/// Where the running configuration differs from its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edits {
    /// It does not.
    None,
    /// Clients of the admin endpoint have changed or replaced it.
    ByApi,
    /// It was fetched.
    Fetched,
}

/// A thread that fetches for one configuration. It ends when this is dropped.
pub(super) struct Puller {
    number: u64,
    _stop: SyncSender<()>,
}

/// A configuration that was fetched for the configuration with this number.
pub struct Pulled {
    number: u64,
    fetched: Fetched,
}

/// What became of it.
pub enum PullOutcome {
    /// It is in effect.
    Taken,
    /// It is not valid.
    Refused,
    /// The server cannot change now.
    Deferred,
}

impl Process {
    /// Begins to fetch, if the running configuration asks for that.
    pub(super) fn pull(&mut self) {
        let number = self.puller.take().map_or(0, |puller| puller.number) + 1;
        let config = self.server.config();
        let loader = match ConfigLoader::build(config.admin.as_ref()) {
            Ok(None) => return,
            Ok(Some(loader)) => loader,
            // It was built with the configuration; a file of a certificate may be gone since.
            Err(refusal) => return self.cannot_pull(&refusal),
        };
        let (stop, stopped) = sync_channel(1);
        let pulling = Pulling {
            number,
            loader,
            stopped,
            sender: self.sender.clone(),
            log: self.log.clone(),
        };
        let started = thread::Builder::new()
            .name("config-load".into())
            .spawn(move || pulling.work());
        match started {
            Ok(_) => {
                self.puller = Some(Puller {
                    number,
                    _stop: stop,
                });
            }
            Err(error) => self.cannot_pull(&error),
        }
    }

    fn cannot_pull(&self, why: &dyn fmt::Display) {
        let entry = self.log.error("config", "configurations cannot be fetched");
        entry.shown("error", why).send();
    }

    /// Takes a configuration that was fetched, or refuses it.
    pub(super) fn take_pulled(&mut self, pulled: &Pulled, reply: &SyncSender<PullOutcome>) {
        let is_current = self
            .puller
            .as_ref()
            .is_some_and(|puller| puller.number == pulled.number);
        let outcome = match is_current {
            // The thread learns from its channel that it ends.
            false => PullOutcome::Deferred,
            true if self.is_upgrading() => PullOutcome::Deferred,
            true => self.replace_by_pulled(&pulled.fetched),
        };
        // If the thread is gone, nobody waits for it.
        let _ = reply.send(outcome);
    }

    fn replace_by_pulled(&mut self, fetched: &Fetched) -> PullOutcome {
        let loaded = match parsed(fetched) {
            Ok(loaded) if loaded.config == *self.server.config() => return PullOutcome::Taken,
            Ok(loaded) => {
                self.warn_of(&loaded);
                Ok(loaded)
            }
            Err(failed) => Err(Denied::bad(failed.text())),
        };
        self.readiness.reloading();
        let outcome = loaded.and_then(|loaded| {
            let (config, read) = Read::of(loaded);
            let read = Read {
                document: read.document,
                written: read.written,
                edits: Edits::Fetched,
                ..self.read.clone()
            };
            self.replace(config, read, false, TRIGGER)
        });
        self.log_outcome(TRIGGER, &outcome);
        match outcome {
            Ok(()) => PullOutcome::Taken,
            Err(_) => PullOutcome::Refused,
        }
    }

    /// Logs the warnings of a configuration.
    pub(super) fn warn_of(&self, loaded: &Loaded) {
        let warnings = loaded.report.short();
        if !warnings.is_empty() {
            let entry = self.log.warn("config", "the configuration has warnings");
            entry.text("warnings", warnings).send();
        }
    }
}

/// The configuration, unless it would be replaced at once by another one, and that by another one.
fn parsed(fetched: &Fetched) -> Result<Loaded, Failed> {
    let (name, text) = (fetched.name.as_str(), fetched.text.as_str());
    let named = fetched.adapter.as_deref();
    let named = named.and_then(|adapter| Adapter::from_str(adapter, true).ok());
    let adapter = named.unwrap_or_else(|| detect(Path::new(name), text));
    let loaded = parse(name, text, adapter, MessageFormat::Short)?;
    let settings = loaded.config.admin.as_ref();
    let settings = settings.and_then(|admin| admin.config.as_ref());
    let is_endless = |settings: &sluice_model::ConfigSettings| {
        settings.load.is_some() && settings.load_delay == Default::default()
    };
    match settings.is_some_and(is_endless) {
        true => Err(Failed::new(
            "a configuration that was fetched may fetch another one only with `load_delay`",
        )),
        false => Ok(loaded),
    }
}

/// The thread.
struct Pulling {
    number: u64,
    loader: ConfigLoader,
    stopped: Receiver<()>,
    sender: SyncSender<Event>,
    log: Log,
}

impl Pulling {
    fn work(self) {
        let delay = self.loader.delay();
        let mut pause = delay.unwrap_or_default();
        let mut failures = 0;
        // A text that was refused is not tried again.
        let mut refused = None;
        while let Err(RecvTimeoutError::Timeout) = self.stopped.recv_timeout(pause) {
            let fetched = match self.loader.fetch() {
                Ok(fetched) => fetched,
                Err(why) => {
                    pause = pause_after(failures, delay);
                    failures += 1;
                    self.log
                        .warn("config", "the configuration cannot be fetched")
                        .shown("url", &self.loader)
                        .text("error", why)
                        .duration("retry_in", pause)
                        .send();
                    continue;
                }
            };
            failures = 0;
            let outcome = match refused.as_ref() == Some(&fetched) {
                true => PullOutcome::Refused,
                false => match self.offer(&fetched) {
                    Some(outcome) => outcome,
                    None => return,
                },
            };
            refused = match outcome {
                PullOutcome::Deferred => {
                    pause = RETRY_PAUSE_MAX;
                    continue;
                }
                PullOutcome::Refused => Some(fetched),
                PullOutcome::Taken => None,
            };
            let Some(delay) = delay else { return };
            pause = delay;
        }
    }

    /// `None` if the server stops.
    fn offer(&self, fetched: &Fetched) -> Option<PullOutcome> {
        let (reply, outcome) = sync_channel(1);
        let pulled = Pulled {
            number: self.number,
            fetched: fetched.clone(),
        };
        let event = Event::Pulled(Box::new(pulled), reply);
        self.sender.send(event).ok()?;
        outcome.recv().ok()
    }
}

/// The pause after a request that failed: twice as long each time, and never shorter than the configured one.
fn pause_after(failures: u32, delay: Option<Duration>) -> Duration {
    let first = delay.unwrap_or(RETRY_PAUSE_MIN);
    let doubled = first.saturating_mul(1 << failures.min(16));
    doubled.min(PULL_PAUSE_MAX.max(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_limit() {
        let pauses = |delay: Option<u64>| {
            let delay = delay.map(Duration::from_secs);
            [0, 1, 2, 40].map(|failures| pause_after(failures, delay).as_millis())
        };
        assert_eq!(pauses(None), [500, 1000, 2000, 60_000]);
        assert_eq!(pauses(Some(10)), [10_000, 20_000, 40_000, 60_000]);
        assert_eq!(pauses(Some(3600)), [3_600_000; 4]);
    }

    #[test]
    fn a_chain_of_configurations_without_pauses_is_refused() {
        let fetched = |delay: &str| Fetched {
            text: format!(
                r#"{{"admin":{{"config":{{"load":{{"module":"http","url":"http://a.test"}}{delay}}}}}}}"#
            ),
            adapter: None,
            name: "config".to_owned(),
        };
        assert!(parsed(&fetched("")).is_err());
        assert!(parsed(&fetched(r#","load_delay":"1m""#)).is_ok());
    }
}
