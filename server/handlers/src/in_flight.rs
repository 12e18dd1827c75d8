//! `in_flight`: limits the number of concurrent requests. A few more wait; others are rejected at once. `sluice-net`
//! implements waiting.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sluice_message::{FieldId, Status};
use sluice_model::handler::InFlight as Config;
use sluice_net::clock;
use sluice_net::gate::{Gate, Pass, Shut};
use sluice_route::Template;

use crate::limits::{FLIGHT_KEY_BYTES_MAX, FLIGHT_TIMEOUT};
use sluice_observe::sources::{ConcurrencyLimit, ConcurrencyStanding};
use sluice_pipeline::build::Builder;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::Fault;
use sluice_pipeline::handler::{Handler, Step, Waiting};
use sluice_pipeline::record::held_since;
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::settings::given;
use sluice_pipeline::values;

/// The handler, shared by all workers.
struct InFlight {
    key: Template,
    max: usize,
    queue_max: usize,
    timeout: Duration,
    gates: Arc<Gates>,
}

/// The gates in use, by key. There are never more of them than requests.
struct Gates {
    by_key: Mutex<HashMap<Box<[u8]>, Arc<Gate>>>,
    /// The key in the configuration.
    name: String,
    max: usize,
    refused: AtomicU64,
}

/// A request's reference to its gate, and its slot, until the response has ended.
pub struct Held {
    gates: Arc<Gates>,
    key: Box<[u8]>,
    gate: Option<Arc<Gate>>,
    pass: Option<Pass>,
}

const NEVER_POISONED: &str = "nothing panics while it holds the gates";

impl Handler for InFlight {
    fn serve(&self, exchange: &mut Exchange) -> Step {
        let mut held = self.hold(exchange);
        let Some(pass) = held.gate.as_ref().and_then(|gate| gate.try_enter()) else {
            return Step::Later;
        };
        held.pass = Some(pass);
        keep(exchange, held);
        Step::Next
    }

    fn wait<'a>(&'a self, exchange: &'a mut Exchange) -> Waiting<'a> {
        Box::pin(async move {
            let mut held = self.hold(exchange);
            let Some(gate) = held.gate.clone() else {
                return self.refuse(exchange, Shut::QueueFull);
            };
            let worker = Rc::clone(&exchange.worker);
            let began = clock::now();
            let entered = gate.enter(&worker, self.timeout).await;
            held_since(exchange, began);
            match entered {
                Ok(pass) => {
                    held.pass = Some(pass);
                    keep(exchange, held);
                    Step::Next
                }
                Err(shut) => self.refuse(exchange, shut),
            }
        })
    }
}

impl InFlight {
    /// The gate for the request's key, which exists as long as a request refers to it.
    fn hold(&self, exchange: &Exchange) -> Held {
        let mut key = values::expanded(&self.key, exchange);
        key.truncate(FLIGHT_KEY_BYTES_MAX);
        let key: Box<[u8]> = key.into();
        let mut gates = self.gates.by_key.lock().expect(NEVER_POISONED);
        let gate = gates
            .entry(key.clone())
            .or_insert_with(|| Arc::new(Gate::new(self.max, self.queue_max)))
            .clone();
        Held {
            gates: self.gates.clone(),
            key,
            gate: Some(gate),
            pass: None,
        }
    }

    fn refuse(&self, exchange: &mut Exchange, shut: Shut) -> Step {
        self.gates.refused.fetch_add(1, Ordering::Relaxed);
        let seconds = self.timeout.as_secs().max(1).to_string();
        exchange
            .res
            .fields
            .set(FieldId::RetryAfter, seconds.as_bytes());
        Step::Fail(Fault::new(Status::SERVICE_UNAVAILABLE, shut.as_str()))
    }
}

impl ConcurrencyLimit for Gates {
    fn standing(&self) -> ConcurrencyStanding {
        let by_key = self.by_key.lock().expect(NEVER_POISONED);
        let sum = |count: fn(&Gate) -> usize| by_key.values().map(|gate| count(gate) as u64).sum();
        ConcurrencyStanding {
            name: self.name.clone(),
            in_flight: sum(Gate::in_flight),
            waiting: sum(Gate::waiting),
            refused: self.refused.load(Ordering::Relaxed),
            keys: by_key.len() as u64,
            max: Some(self.max as u64),
        }
    }
}

/// Keeps the slot until the response has ended.
fn keep(exchange: &mut Exchange, held: Held) {
    let aside = exchange.context.aside.get_or_insert_default();
    aside.guards.push(Box::new(held));
}

impl Drop for Held {
    fn drop(&mut self) {
        // Release the slot first: a request that waits for it refers to the gate as well.
        self.pass = None;
        let mut gates = self.gates.by_key.lock().expect(NEVER_POISONED);
        self.gate = None;
        if gates
            .get(&self.key)
            .is_some_and(|gate| Arc::strong_count(gate) == 1)
        {
            gates.remove(&self.key);
        }
    }
}

/// Builds `in_flight`.
pub fn build(config: &Config, builder: &mut Builder<'_>) -> Result<Box<dyn Handler>, Refusal> {
    let max = usize::try_from(config.max).ok().filter(|max| *max > 0);
    let max = max.ok_or_else(|| {
        Refusal::new(format!("`in_flight` with {} requests", config.max))
            .with_help("give a number of 1 or more; `respond 503` refuses all")
    })?;
    let queue_max = usize::try_from(config.queue)
        .map_err(|_| Refusal::new(format!("`in_flight` with a queue of {}", config.queue)))?;
    let gates = Arc::new(Gates {
        by_key: Mutex::default(),
        name: match config.key.as_str() {
            "" => "in_flight".to_owned(),
            key => format!("in_flight {key}"),
        },
        max,
        refused: AtomicU64::new(0),
    });
    if let Some(recorder) = builder.recorder {
        let limit: Arc<dyn ConcurrencyLimit> = gates.clone();
        recorder
            .sources()
            .add_concurrency_limit(Arc::downgrade(&limit));
    }
    Ok(Box::new(InFlight {
        key: builder.template(&config.key)?,
        max,
        queue_max,
        timeout: given(config.timeout).unwrap_or(FLIGHT_TIMEOUT),
        gates,
    }))
}
