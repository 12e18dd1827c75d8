//! nginx's request limiting (`limit_req`): a request counts once, even after internal redirects; if one of several
//! zones rejects it, none counts it; requests that arrive too early are delayed.

use std::future::poll_fn;
use std::time::Duration;

use sluice_model::handler::RateLimit as Config;

use super::{Limited as Outcome, TreeRef};
use crate::shared::Shared;
use crate::state::NginxContext;
use sluice_handlers::rate_limit::{Limited, RateLimit};
use sluice_observe::log::Severity;
use sluice_pipeline::build::Builder;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::Cause;
use sluice_pipeline::handler::{Handler, Step, Waiting};
use sluice_pipeline::refusal::Refusal;

/// The directive at work.
struct LimitReq {
    limits: RateLimit,
    dry_run: bool,
    log: LimitLog,
}

/// Logs limited requests, with a configurable level.
pub struct LimitLog {
    tree: TreeRef,
    severity: Severity,
}

/// Builds `limit_req`.
pub fn build(config: &Config, builder: &mut Builder<'_>) -> Result<Box<dyn Handler>, Refusal> {
    Ok(Box::new(LimitReq {
        limits: RateLimit::build(config, builder)?,
        dry_run: config.dry_run,
        log: LimitLog::build(&config.log_level, builder)?,
    }))
}

impl Handler for LimitReq {
    fn serve(&self, exchange: &mut Exchange) -> Step {
        if exchange.context.nginx().limited_requests != Outcome::No {
            return Step::Next;
        }
        let keys = self
            .limits
            .zones
            .iter()
            .map(|limited| (limited, limited.key_of(exchange)));
        let keyed: Vec<_> = keys.filter(|(_, key)| !key.is_empty()).collect();
        let Some(((last, last_key), others)) = keyed.split_last() else {
            return Step::Next;
        };
        let looked = others
            .iter()
            .find_map(|(limited, key)| Some((*limited, limited.zone.look(key)?)));
        // The last zone checks and counts in one step; the others count after it has accepted the request.
        let taken = match looked {
            Some(refused) => Err(refused),
            None => {
                let outcome = last.zone.take(last_key);
                match outcome.refused {
                    Some(wait) => Err((*last, wait)),
                    None => Ok(held_for(last, outcome.ahead)),
                }
            }
        };
        let (limited, wait) = match taken {
            Ok(held) => {
                let held = others
                    .iter()
                    .fold((*last, held), |longest, (limited, key)| {
                        let held = held_for(limited, limited.zone.take(key).ahead);
                        if held > longest.1 {
                            (*limited, held)
                        } else {
                            longest
                        }
                    });
                return self.let_through(exchange, held.0, held.1);
            }
            Err(refused) => refused,
        };
        let excess = requests(limited.zone.rate.excess_thousandths(wait));
        let (trial, zone) = (trial(self.dry_run), &*limited.zone.name);
        let what = format!("limiting requests{trial}, excess: {excess} by zone \"{zone}\"");
        self.log.reject(exchange, &what);
        if self.dry_run {
            exchange.context.nginx_mut().limited_requests = Outcome::RejectedDryRun;
            return Step::Next;
        }
        exchange.context.nginx_mut().limited_requests = Outcome::Rejected;
        let fault = self.limits.refuse(exchange, limited, wait);
        Step::Fail(fault.caused_by(Cause::Logged))
    }

    fn wait<'a>(&'a self, exchange: &'a mut Exchange) -> Waiting<'a> {
        Box::pin(hold(exchange))
    }
}

/// How long to delay a request that arrives this early.
fn held_for(limited: &Limited, ahead: Duration) -> Duration {
    let at_once = limited.at_once;
    at_once.map_or(Duration::ZERO, |at_once| ahead.saturating_sub(at_once))
}

impl LimitReq {
    fn let_through(&self, exchange: &mut Exchange, limited: &Limited, held: Duration) -> Step {
        let (outcome, step) = match (held.is_zero(), self.dry_run) {
            (true, _) => (Outcome::Passed, Step::Next),
            (false, true) => (Outcome::DelayedDryRun, Step::Next),
            (false, false) => (Outcome::Delayed, Step::Later),
        };
        exchange.context.nginx_mut().limited_requests = outcome;
        if !held.is_zero() {
            let early = held + limited.at_once.unwrap_or_default();
            let excess = requests(limited.zone.rate.early_thousandths(early));
            let (trial, zone) = (trial(self.dry_run), &*limited.zone.name);
            let what = format!("delaying request{trial}, excess: {excess}, by zone \"{zone}\"");
            self.log.delay(exchange, &what);
            exchange.context.occasional_mut().held_for = held;
        }
        step
    }
}

/// Delays a request as determined before.
async fn hold(exchange: &mut Exchange) -> Step {
    let held = std::mem::take(&mut exchange.context.occasional_mut().held_for);
    let timer = exchange.worker.timers.timer();
    // Measure from now: the worker's cached clock may be behind.
    exchange.worker.clock.tick();
    timer.set(&exchange.worker.clock, held);
    poll_fn(|cx| timer.poll_expired(cx)).await;
    exchange.context.log.queued += held;
    Step::Next
}

impl LimitLog {
    /// Parses the level; the default is `error`.
    pub fn build(level: &str, builder: &Builder<'_>) -> Result<LimitLog, Refusal> {
        let wrong = || Refusal::new(format!("`{level}` is not a log level"));
        Ok(LimitLog {
            tree: Shared::of(builder).tree,
            severity: match level {
                "" | "error" => Severity::Error,
                "warn" => Severity::Warn,
                "notice" => Severity::Notice,
                "info" => Severity::Info,
                _ => return Err(wrong()),
            },
        })
    }

    /// Logs that a request is delayed.
    fn delay(&self, exchange: &Exchange, what: &str) {
        self.tree
            .log_error(exchange, self.severity.softer(), what, "");
    }

    /// Logs that a request is rejected, or would be.
    pub fn reject(&self, exchange: &Exchange, what: &str) {
        self.tree.log_error(exchange, self.severity, what, "");
    }
}

/// nginx's log suffix for a dry run.
pub fn trial(dry_run: bool) -> &'static str {
    match dry_run {
        true => ", dry run",
        false => "",
    }
}

/// The number of excess requests, formatted like nginx.
fn requests(thousandths: u64) -> String {
    format!("{}.{:03}", thousandths / 1000, thousandths % 1000)
}
