//! nginx's request limiting (`limit_req`): a request counts once, even after internal redirects; if one of several
//! zones rejects it, none counts it; requests that arrive too early are delayed.

use std::future::poll_fn;
use std::rc::Rc;
use std::time::Duration;

use sluice_model::handler::RateLimit as Config;

use super::{Limited as Outcome, TreeRef};
use crate::shared::Shared;
use crate::state::NginxContext;
use sluice_handlers::rate_limit::{Limited, RateLimit, Verdict};
use sluice_net::worker::Worker;
use sluice_observe::log::Severity;
use sluice_pipeline::build::Builder;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::Cause;
use sluice_pipeline::handler::{Handler, Step, Waiting};
use sluice_pipeline::refusal::Refusal;

/// The directive at work.
struct LimitReq {
    limits: RateLimit,
    /// Whether several nodes share one of its zones.
    is_shared: bool,
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
    let limits = RateLimit::build(config, builder)?;
    Ok(Box::new(LimitReq {
        is_shared: limits.zones.iter().any(|limited| limited.shared.is_some()),
        limits,
        dry_run: config.dry_run,
        log: LimitLog::build(&config.log_level, builder)?,
    }))
}

impl Handler for LimitReq {
    fn serve(&self, exchange: &mut Exchange) -> Step {
        if exchange.context.nginx().limited_requests != Outcome::No {
            return Step::Next;
        }
        let keyed = self.keyed(exchange);
        if keyed.is_empty() {
            return Step::Next;
        }
        if self.is_shared {
            // Boxed once, in `wait`; what the node knows is looked at there.
            return Step::Later;
        }
        let judged = judge(&keyed);
        self.conclude(exchange, judged)
    }

    fn wait<'a>(&'a self, exchange: &'a mut Exchange) -> Waiting<'a> {
        if !self.is_shared {
            return Box::pin(hold(exchange));
        }
        Box::pin(async move {
            let judged = judge_shared(&exchange.worker, &self.keyed(exchange)).await;
            match self.conclude(exchange, judged) {
                Step::Later => hold(exchange).await,
                step => step,
            }
        })
    }
}

/// A zone that a request counts in, and its key there.
type Keyed<'z> = (&'z Limited, Vec<u8>);

/// What becomes of a request: the zone that delays it longest and for how long, or the zone that refuses it and how long
/// the request would have to wait.
type Judged<'z> = Result<(&'z Limited, Duration), (&'z Limited, Duration)>;

/// Counts a request in all zones, or in none if one refuses it.
fn judge<'z>(keyed: &[Keyed<'z>]) -> Judged<'z> {
    let Some(((last, last_key), others)) = keyed.split_last() else {
        unreachable!("the caller has found a zone");
    };
    for (limited, key) in others {
        if let Some(wait) = limited.look(key) {
            return Err((limited, wait));
        }
    }
    // The last zone checks and counts in one step; the others count after it has accepted the request.
    let outcome = last.zone.take(last_key);
    if let Some(wait) = outcome.refused {
        return Err((last, wait));
    }
    let mut longest = (*last, held_for(last, outcome.ahead));
    for (limited, key) in others {
        delay_by(&mut longest, limited, limited.zone.take(key).ahead);
    }
    Ok(longest)
}

/// As [`judge`], if some of the zones are shared by several nodes. Those are asked one after the other; what they have
/// counted is given back if a later one refuses the request.
async fn judge_shared<'z>(worker: &Rc<Worker>, keyed: &[Keyed<'z>]) -> Judged<'z> {
    for (limited, key) in keyed {
        if let Some(wait) = limited.look(key) {
            return Err((limited, wait));
        }
    }
    let first = keyed.first().expect("the caller has found a zone").0;
    let mut longest = (first, Duration::ZERO);
    let (shared, own): (Vec<_>, Vec<_>) = keyed
        .iter()
        .partition(|(limited, _)| limited.shared.is_some());
    for (at, (limited, key)) in shared.iter().chain(&own).enumerate() {
        let taken = match limited.check(worker, key) {
            Verdict::Allowed(ahead) => Ok(ahead),
            Verdict::Refused(wait) => Err(wait),
            Verdict::Undecided(question) => match &limited.shared {
                Some(shared) => shared.ask(worker, question).await,
                None => unreachable!("only shared zones ask"),
            },
        };
        match taken {
            Ok(ahead) => delay_by(&mut longest, limited, ahead),
            Err(wait) => {
                for (counted, key) in shared.iter().take(at) {
                    if let Some(shared) = &counted.shared {
                        shared.give_back(worker, &counted.zone, key);
                    }
                }
                return Err((limited, wait));
            }
        }
    }
    Ok(longest)
}

fn delay_by<'z>(longest: &mut (&'z Limited, Duration), limited: &'z Limited, ahead: Duration) {
    let held = held_for(limited, ahead);
    if held > longest.1 {
        *longest = (limited, held);
    }
}

/// How long to delay a request that arrives this early.
fn held_for(limited: &Limited, ahead: Duration) -> Duration {
    let at_once = limited.at_once;
    at_once.map_or(Duration::ZERO, |at_once| ahead.saturating_sub(at_once))
}

impl LimitReq {
    /// The zones that the request counts in.
    fn keyed(&self, exchange: &Exchange) -> Vec<Keyed<'_>> {
        let zones = self.limits.zones.iter();
        let keys = zones.map(|limited| (limited, limited.key_of(exchange)));
        keys.filter(|(_, key)| !key.is_empty()).collect()
    }

    /// Lets a request through, delays or rejects it.
    fn conclude(&self, exchange: &mut Exchange, judged: Judged<'_>) -> Step {
        let (limited, wait) = match judged {
            Ok((limited, held)) => return self.let_through(exchange, limited, held),
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
