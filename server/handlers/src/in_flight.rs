//! `in_flight`: limits the number of concurrent requests. A few more wait; others are rejected at once. `sluice-net`
//! implements waiting, `shared_slots` a limit that several nodes share.

mod shared;

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sluice_message::{FieldId, Status};
use sluice_model::handler::InFlight as Config;
use sluice_net::clock;
use sluice_net::gate::{Gate, Pass, Shut};
use sluice_net::worker::Worker;
use sluice_route::Template;

use crate::limits::{FLIGHT_KEY_BYTES_MAX, FLIGHT_TIMEOUT};
use sluice_observe::sources::{ConcurrencyLimit, ConcurrencyStanding};
use sluice_pipeline::build::Builder;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::Fault;
use sluice_pipeline::handler::{Account, Assumed, Handler, Step, Waiting};
use sluice_pipeline::record::held_since;
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::settings::given;
use sluice_pipeline::values;

use self::shared::{Line, Shared};
use crate::shared_slots::SlotHeld;

/// The handler, shared by all workers.
struct InFlight {
    key: Template,
    max: usize,
    queue_max: usize,
    timeout: Duration,
    gates: Arc<Gates>,
    /// What several nodes share, if they do.
    shared: Option<Shared>,
}

/// The gates in use, by key. There are never more of them than requests.
struct Gates {
    by_key: Mutex<HashMap<Box<[u8]>, Arc<Lane>>>,
    /// The key in the configuration, or the name of the shared limit.
    name: String,
    max: usize,
    refused: AtomicU64,
}

/// Where the requests of one key are counted, and wait.
struct Lane {
    /// The requests of this node. If several nodes share the limit, those that wait stand in the line.
    gate: Gate,
    line: Option<Line>,
}

/// A request's reference to its lane, and its slot, until the response has ended.
pub struct Held {
    gates: Arc<Gates>,
    key: Box<[u8]>,
    lane: Option<Arc<Lane>>,
    pass: Option<Pass>,
    /// Its slot among those of all nodes.
    slot: Option<SlotHeld>,
}

const NEVER_POISONED: &str = "nothing panics while it holds the gates";

impl Handler for InFlight {
    fn serve(&self, exchange: &mut Exchange) -> Step {
        let mut held = self.hold(exchange);
        if !self.try_enter(&mut held) {
            return Step::Later;
        }
        keep(exchange, held);
        Step::Next
    }

    fn wait<'a>(&'a self, exchange: &'a mut Exchange) -> Waiting<'a> {
        Box::pin(async move {
            let mut held = self.hold(exchange);
            let worker = Rc::clone(&exchange.worker);
            let began = clock::now();
            let entered = self.enter(&worker, &mut held).await;
            held_since(exchange, began);
            match entered {
                Ok(()) => {
                    keep(exchange, held);
                    Step::Next
                }
                Err(shut) => self.refuse(exchange, shut),
            }
        })
    }

    fn account(&self, _exchange: &mut Exchange) -> Account {
        let Some(shared) = &self.shared else {
            return Account::default();
        };
        let (name, place) = (&self.gates.name, shared.place());
        Account {
            says: vec![format!(
                "counts requests of `{name}` in {place}, together with other servers"
            )],
            // An explanation asks no store.
            assumed: Some(Assumed::Step(Step::Next)),
        }
    }
}

impl InFlight {
    /// The lane for the request's key, which exists as long as a request refers to it.
    fn hold(&self, exchange: &Exchange) -> Held {
        let mut key = values::expanded(&self.key, exchange);
        key.truncate(FLIGHT_KEY_BYTES_MAX);
        let key: Box<[u8]> = key.into();
        let mut gates = self.gates.by_key.lock().expect(NEVER_POISONED);
        let lane = gates
            .entry(key.clone())
            .or_insert_with(|| Arc::new(self.lane()))
            .clone();
        Held {
            gates: self.gates.clone(),
            key,
            lane: Some(lane),
            pass: None,
            slot: None,
        }
    }

    fn lane(&self) -> Lane {
        match &self.shared {
            None => Lane {
                gate: Gate::new(self.max, self.queue_max),
                line: None,
            },
            Some(_) => Lane {
                gate: Gate::new(self.max, 0),
                line: Some(Line::new(self.queue_max)),
            },
        }
    }

    /// Takes a slot without waiting and without asking a store.
    fn try_enter(&self, held: &mut Held) -> bool {
        let Some(lane) = &held.lane else {
            return false;
        };
        if lane.line.as_ref().is_some_and(|line| line.len() > 0) {
            return false;
        }
        let Some(pass) = lane.gate.try_enter() else {
            return false;
        };
        if let Some(shared) = &self.shared {
            held.slot = shared.take_unused(&held.key);
            if held.slot.is_none() {
                return false;
            }
        }
        held.pass = Some(pass);
        true
    }

    /// Takes a slot, for which it may wait.
    async fn enter(&self, worker: &Rc<Worker>, held: &mut Held) -> Result<(), Shut> {
        let lane = held.lane.clone().ok_or(Shut::QueueFull)?;
        if let (Some(shared), Some(line)) = (&self.shared, &lane.line) {
            let lane = (&lane.gate, line);
            let (pass, slot) = shared.enter(worker, &held.key, lane, self.timeout).await?;
            (held.pass, held.slot) = (Some(pass), Some(slot));
        } else {
            held.pass = Some(lane.gate.enter(worker, self.timeout).await?);
        }
        Ok(())
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
        let sum = |count: fn(&Lane) -> usize| by_key.values().map(|lane| count(lane) as u64).sum();
        ConcurrencyStanding {
            name: self.name.clone(),
            in_flight: sum(|lane| lane.gate.in_flight()),
            waiting: sum(Lane::waiting),
            refused: self.refused.load(Ordering::Relaxed),
            keys: by_key.len() as u64,
            max: Some(self.max as u64),
        }
    }
}

impl Lane {
    /// Requests that wait for a slot.
    fn waiting(&self) -> usize {
        self.gate.waiting() + self.line.as_ref().map_or(0, Line::len)
    }
}

/// Keeps the slot until the response has ended.
fn keep(exchange: &mut Exchange, held: Held) {
    let aside = exchange.context.aside.get_or_insert_default();
    aside.guards.push(Box::new(held));
}

impl Drop for Held {
    fn drop(&mut self) {
        // Release the slot first: a request that waits for it refers to the lane as well.
        let had_slot = self.slot.take().is_some();
        self.pass = None;
        if had_slot && let Some(line) = self.lane.as_ref().and_then(|lane| lane.line.as_ref()) {
            line.move_up();
        }
        let mut gates = self.gates.by_key.lock().expect(NEVER_POISONED);
        self.lane = None;
        if gates
            .get(&self.key)
            .is_some_and(|lane| Arc::strong_count(lane) == 1)
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
    let shared = config.distributed.as_ref();
    let gates = Arc::new(Gates {
        by_key: Mutex::default(),
        name: match (shared, config.key.as_str()) {
            (Some(shared), _) => format!("in_flight {}", shared.name),
            (None, "") => "in_flight".to_owned(),
            (None, key) => format!("in_flight {key}"),
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
        shared: shared
            .map(|shared| Shared::build(shared, max, builder))
            .transpose()?,
    }))
}
