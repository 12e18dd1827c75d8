//! `limit_conn`: limits concurrent requests per key. All locations that name a zone share its counts, whatever
//! their limits. Requests are counted, as in nginx: an HTTP/1 connection has one at a time.

use std::rc::Rc;
use std::sync::Arc;

use sluice_message::Status;
use sluice_model::nginx::ConnectionLimits as Config;
use sluice_route::Template;

use super::connection_zone::{Zone, Zones};
use super::limit_req::{LimitLog, trial};
use super::state::Limited;
use crate::state::NginxContext;
use sluice_handlers::limit_store::StoreUse;
use sluice_handlers::limits::FLIGHT_KEY_BYTES_MAX;
use sluice_handlers::shared_slots::SharedSlots;
use sluice_pipeline::build::Builder;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::{Cause, Fault};
use sluice_pipeline::handler::{Account, Assumed, Handler, Step, Waiting};
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::values;

/// The handler: the limits of one location.
struct Limits {
    limits: Box<[Limit]>,
    status: Status,
    dry_run: bool,
    log: LimitLog,
}

struct Limit {
    name: Box<str>,
    key: Template,
    max: u32,
    zone: Arc<Zone>,
    /// What several nodes share, if they do.
    shared: Option<Arc<SharedSlots>>,
}

/// Builds the handler.
pub fn build(config: &Config, builder: &Builder<'_>) -> Result<Box<dyn Handler>, Refusal> {
    let limit = |limit: &sluice_model::nginx::ConnectionLimit| {
        Ok(Limit {
            name: limit.zone.as_str().into(),
            key: builder.template(&limit.key)?,
            max: limit.max,
            zone: match builder.recorder {
                Some(recorder) => recorder
                    .shared::<Zones>()
                    .zone(&limit.zone, recorder.sources()),
                None => Arc::new(Zone::new(&limit.zone)),
            },
            shared: match &limit.shared {
                None => None,
                Some(config) => {
                    let store_use = StoreUse::build(config, builder)?;
                    Some(SharedSlots::of(&limit.zone, store_use, builder.recorder))
                }
            },
        })
    };
    let limits = config.limits.iter().map(limit);
    let status = match config.status {
        0 => Status::SERVICE_UNAVAILABLE,
        code => Status::new(code).ok_or_else(|| Refusal::new(format!("status {code}")))?,
    };
    Ok(Box::new(Limits {
        limits: limits.collect::<Result<_, Refusal>>()?,
        status,
        dry_run: config.dry_run,
        log: LimitLog::build(&config.log_level, builder)?,
    }))
}

impl Handler for Limits {
    fn serve(&self, exchange: &mut Exchange) -> Step {
        if exchange.context.nginx().limited_connections != Limited::No {
            return Step::Next;
        }
        if self.limits.iter().any(|limit| limit.shared.is_some()) {
            return Step::Later;
        }
        let mut counted = false;
        for limit in &self.limits {
            let Some(key) = limit.key_of(exchange) else {
                continue;
            };
            counted = true;
            match limit.zone.enter(key.into(), limit.max) {
                Some(held) => exchange.context.counted_mut().push(held),
                None => return self.reject(exchange, limit),
            }
        }
        self.pass(exchange, counted)
    }

    fn wait<'a>(&'a self, exchange: &'a mut Exchange) -> Waiting<'a> {
        Box::pin(async move {
            let worker = Rc::clone(&exchange.worker);
            let mut counted = false;
            for limit in &self.limits {
                let Some(key) = limit.key_of(exchange) else {
                    continue;
                };
                counted = true;
                // What this node uses by itself shows first whether asking can help.
                let Some(mut held) = limit.zone.enter(key.clone().into(), limit.max) else {
                    return self.reject(exchange, limit);
                };
                if let Some(shared) = &limit.shared {
                    let Some(slot) = shared.enter(&worker, &key, (limit.max, 0)).await else {
                        limit.zone.note_refused();
                        return self.reject(exchange, limit);
                    };
                    held = held.with(slot);
                }
                exchange.context.counted_mut().push(held);
            }
            self.pass(exchange, counted)
        })
    }

    fn account(&self, _exchange: &mut Exchange) -> Account {
        let shared = self.limits.iter().filter_map(|limit| {
            let place = limit.shared.as_ref()?.place();
            let name = &limit.name;
            Some(format!(
                "counts connections of zone `{name}` in {place}, together with other servers"
            ))
        });
        let says: Vec<String> = shared.collect();
        Account {
            // An explanation asks no store.
            assumed: (!says.is_empty()).then_some(Assumed::Step(Step::Next)),
            says,
        }
    }
}

impl Limit {
    /// What the request is counted by; `None` if it is not counted.
    fn key_of(&self, exchange: &Exchange) -> Option<Vec<u8>> {
        let key = values::expanded(&self.key, exchange);
        (!key.is_empty() && key.len() <= FLIGHT_KEY_BYTES_MAX).then_some(key)
    }
}

impl Limits {
    fn pass(&self, exchange: &mut Exchange, counted: bool) -> Step {
        if counted {
            exchange.context.nginx_mut().limited_connections = Limited::Passed;
        }
        Step::Next
    }

    fn reject(&self, exchange: &mut Exchange, limit: &Limit) -> Step {
        let trial = trial(self.dry_run);
        let what = format!("limiting connections{trial} by zone \"{}\"", limit.name);
        self.log.reject(exchange, &what);
        if self.dry_run {
            exchange.context.nginx_mut().limited_connections = Limited::RejectedDryRun;
            return Step::Next;
        }
        exchange.context.nginx_mut().limited_connections = Limited::Rejected;
        // Release the slots of the zones counted before.
        exchange.context.counted_mut().clear();
        let why = format!("too many at a time for `{}`", limit.name);
        let fault = Fault::new(self.status, why);
        Step::Fail(fault.caused_by(Cause::Logged))
    }
}
