//! `limit_conn`: limits concurrent requests per key. All locations that name a zone share its counts, whatever
//! their limits. Requests are counted, as in nginx: an HTTP/1 connection has one at a time.

use std::sync::Arc;

use sluice_message::Status;
use sluice_model::nginx::ConnectionLimits as Config;
use sluice_route::Template;

use super::connection_zone::{Zone, Zones};
use super::limit_req::{LimitLog, trial};
use super::state::Limited;
use crate::state::NginxContext;
use sluice_handlers::limits::FLIGHT_KEY_BYTES_MAX;
use sluice_pipeline::build::Builder;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::{Cause, Fault};
use sluice_pipeline::handler::{Handler, Step};
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
        let mut counted = false;
        for limit in &self.limits {
            let key = values::expanded(&limit.key, exchange);
            if key.is_empty() || key.len() > FLIGHT_KEY_BYTES_MAX {
                continue;
            }
            counted = true;
            match limit.zone.enter(key.into(), limit.max) {
                Some(held) => {
                    exchange.context.counted_mut().push(held);
                }
                None => {
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
                    return Step::Fail(fault.caused_by(Cause::Logged));
                }
            }
        }
        if counted {
            exchange.context.nginx_mut().limited_connections = Limited::Passed;
        }
        Step::Next
    }
}
