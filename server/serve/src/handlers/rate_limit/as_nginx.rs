//! How nginx limits requests (`limit_req`): a request counts once, wherever it is sent within the server; of several zones
//! none counts it if one refuses it; and what comes ahead of its time is held back until then.

use std::future::poll_fn;
use std::time::Duration;

use sluice_model::handler::RateLimit as Config;

use super::RateLimit;
use crate::build::{Builder, Refusal};
use crate::context::Exchange;
use crate::handler::Step;
use crate::handlers::nginx::Limited as Outcome;
use crate::log::{Level, Log};
use crate::values;

/// What it has beside the zones.
pub(super) struct AsNginx {
    dry_run: bool,
    told: Told,
}

/// Where limits tell what they do, and how loudly.
pub struct Told {
    log: Option<Log>,
    level: Level,
}

impl AsNginx {
    /// Reads the settings.
    pub(super) fn build(config: &Config, cx: &Builder<'_>) -> Result<AsNginx, Refusal> {
        Ok(AsNginx {
            dry_run: config.dry_run,
            told: Told::build(&config.log_level, cx)?,
        })
    }
}

impl RateLimit {
    pub(super) fn serve_as_nginx(&self, as_nginx: &AsNginx, x: &mut Exchange) -> Step {
        if x.context.nginx.limited_requests != Outcome::No {
            return Step::Next;
        }
        let keys = self
            .zones
            .iter()
            .map(|limited| (limited, limited.key_of(x)));
        let keyed: Vec<_> = keys.filter(|(_, key)| !key.is_empty()).collect();
        let Some(((last, last_key), others)) = keyed.split_last() else {
            return Step::Next;
        };
        let looked = others
            .iter()
            .find_map(|(limited, key)| Some((*limited, limited.zone.look(key)?)));
        // The last one looks and counts at once; the others count once it has let the request through.
        let taken = match looked {
            Some(refused) => Err(refused),
            None => {
                let outcome = last.zone.take(last_key);
                match outcome.refused {
                    Some(wait) => Err((*last, wait)),
                    None => Ok(last.held_for(outcome.ahead)),
                }
            }
        };
        let (limited, wait) = match taken {
            Ok(held) => {
                let held = others
                    .iter()
                    .fold((*last, held), |longest, (limited, key)| {
                        let held = limited.held_for(limited.zone.take(key).ahead);
                        if held > longest.1 {
                            (*limited, held)
                        } else {
                            longest
                        }
                    });
                return as_nginx.let_through(x, held.0.zone.name(), held.1);
            }
            Err(refused) => refused,
        };
        as_nginx.told.tell(
            x,
            "limiting requests",
            limited.zone.name(),
            as_nginx.dry_run,
        );
        if as_nginx.dry_run {
            x.context.nginx.limited_requests = Outcome::RejectedDryRun;
            return Step::Next;
        }
        x.context.nginx.limited_requests = Outcome::Rejected;
        self.refuse(x, limited, wait)
    }
}

impl super::Limited {
    /// How long a request is held back that comes so far ahead of its time.
    fn held_for(&self, ahead: Duration) -> Duration {
        self.at_once
            .map_or(Duration::ZERO, |at_once| ahead.saturating_sub(at_once))
    }
}

impl AsNginx {
    fn let_through(&self, x: &mut Exchange, zone: &str, held: Duration) -> Step {
        let (outcome, step) = match (held.is_zero(), self.dry_run) {
            (true, _) => (Outcome::Passed, Step::Next),
            (false, true) => (Outcome::DelayedDryRun, Step::Next),
            (false, false) => (Outcome::Delayed, Step::Later),
        };
        x.context.nginx.limited_requests = outcome;
        if !held.is_zero() {
            self.told
                .softly()
                .tell(x, "delaying request", zone, self.dry_run);
            x.context.occasional.held_for = held;
        }
        step
    }
}

/// Holds a request back as long as was said.
pub(super) async fn hold(x: &mut Exchange) -> Step {
    let held = std::mem::take(&mut x.context.occasional.held_for);
    let timer = x.worker.timers.timer();
    // It is counted from now, not from when the worker last looked at its clock.
    x.worker.clock.tick();
    timer.set(&x.worker.clock, held);
    poll_fn(|cx| timer.poll_expired(cx)).await;
    Step::Next
}

impl Told {
    /// Reads the level; `error` where none is named.
    pub fn build(level: &str, cx: &Builder<'_>) -> Result<Told, Refusal> {
        Ok(Told {
            log: cx.log.cloned(),
            level: match level {
                "" | "error" => Level::Error,
                "warn" => Level::Warn,
                "notice" | "info" => Level::Info,
                other => return Err(Refusal::new(format!("`{other}` is no level of a log"))),
            },
        })
    }

    /// One level below: what is held back is told more softly than what is refused.
    fn softly(&self) -> Told {
        Told {
            log: self.log.clone(),
            level: match self.level {
                Level::Error => Level::Warn,
                Level::Warn | Level::Info => Level::Info,
                other => other,
            },
        }
    }

    /// Tells what a zone does to a request.
    pub fn tell(&self, x: &Exchange, what: &str, zone: &str, dry_run: bool) {
        let Some(log) = &self.log else { return };
        let logger = "http.handlers.nginx_limits";
        let entry = match self.level {
            Level::Error => log.error(logger, what),
            Level::Warn => log.warn(logger, what),
            _ => log.info(logger, what),
        };
        let entry = entry.text("zone", zone);
        let entry = match dry_run {
            true => entry.text("dry_run", "on"),
            false => entry,
        };
        match values::client_ip(x) {
            Some(ip) => entry.shown("remote_ip", ip).send(),
            None => entry.send(),
        }
    }
}
