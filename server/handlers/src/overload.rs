//! `overload`: sheds requests that an upstream cannot serve in time. `sluice-policy` decides, and `sluice-net` implements
//! waiting; this module determines the class and the client of a request and measures latencies.
//!
//! A request counts until its response head is there: then nearly all work of the upstream is done, and a client that
//! takes the body slowly, or an event stream, occupies no slot.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::rc::Rc;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use sluice_message::{FieldId, Status};
use sluice_model::handler::{Overload as Config, Priority};
use sluice_net::admission::{AdmissionControl, AdmissionState, Entry, Pass, Place};
use sluice_net::{Body, clock};
use sluice_observe::metrics::{CountedAdmission, Hub};
use sluice_observe::random;
use sluice_policy::overload::{
    AdaptivePolicy, Arriving, Class, LimitPolicy, Reserve, Sample, Settings, Shed,
};
use sluice_route::{MatcherSets, Template};

use crate::address_prefixes::AddressPrefixes;
use crate::limits::{
    FLIGHT_KEY_BYTES_MAX, OVERLOAD_BODY_BYTES_MAX, OVERLOAD_MAX, OVERLOAD_MIN, OVERLOAD_QUEUE,
    OVERLOAD_QUEUE_MAX, OVERLOAD_RETRY_SECONDS, OVERLOAD_TARGET, OVERLOAD_TIMEOUT,
    OVERLOAD_TIMEOUT_PART,
};
use sluice_pipeline::build::{self, Builder};
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::Fault;
use sluice_pipeline::handler::{Account, Assumed, Filter, Handler, Step, Waiting};
use sluice_pipeline::record::held_since;
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::settings::given;
use sluice_pipeline::values;

/// The handler, shared by all workers.
struct Overload {
    shared: Arc<Shared>,
    /// Identifies clients; by their address if `None`.
    key: Option<Template>,
    prefixes: AddressPrefixes,
    priority: Option<Template>,
    priorities: Vec<(Class, MatcherSets)>,
    wait_max: Duration,
    /// Notices response heads.
    responded: Arc<Responded>,
}

/// The limit of one name.
#[derive(Debug)]
struct Shared {
    control: Arc<AdmissionControl>,
    hasher: RandomState,
}

/// The limits in use, by name and settings. They outlive configurations, so that a reload does not reset what an
/// adaptive limit has learned.
#[derive(Debug, Default)]
struct Limits(Mutex<HashMap<LimitName, Weak<Shared>>>);

/// The identity of a limit.
type LimitName = (Box<str>, Settings);

/// The slot of a request, in its guards until the response head is there.
struct Held {
    pass: Option<Pass>,
    /// Whether the latency depends on the upstream alone.
    is_measured: bool,
}

/// A place in the queue, in the guards of a request until it waits.
struct Queued(Place);

/// Frees the slot when the response head is there, or the request has failed.
struct Responded;

const NEVER_POISONED: &str = "nothing panics while it holds the limits";

impl Handler for Overload {
    fn serve(&self, exchange: &mut Exchange) -> Step {
        if self.holds(exchange) {
            return Step::Next;
        }
        let class = match self.class_of(exchange) {
            Ok(class) => class,
            Err(fault) => return Step::Fail(fault),
        };
        let entry = self.shared.control.arrive(Arriving {
            class,
            client: self.client_of(exchange),
            timeout: client_timeout(exchange),
        });
        match entry {
            Entry::Pass(pass) => self.admit(exchange, pass),
            Entry::Place(place) => {
                let aside = exchange.context.aside.get_or_insert_default();
                aside.guards.push(Box::new(Queued(place)));
                Step::Later
            }
            Entry::Shed(why) => refuse(exchange, why),
        }
    }

    fn wait<'a>(&'a self, exchange: &'a mut Exchange) -> Waiting<'a> {
        Box::pin(async move {
            let aside = exchange.context.aside.as_mut();
            let last = aside.and_then(|aside| aside.guards.pop());
            let Some(queued) = last.and_then(|guard| guard.downcast::<Queued>().ok()) else {
                return refuse(exchange, Shed::Full);
            };
            let worker = Rc::clone(&exchange.worker);
            let began = clock::now();
            let admitted = queued.0.wait(&worker, self.wait_max).await;
            held_since(exchange, began);
            match admitted {
                Ok(pass) => self.admit(exchange, pass),
                Err(why) => refuse(exchange, why),
            }
        })
    }

    fn account(&self, exchange: &mut Exchange) -> Account {
        let state = self.shared.control.state();
        let class = self.class_of(exchange).unwrap_or_default().as_str();
        let says = format!(
            "admits requests of class `{class}` while fewer than {} are in flight ({} now, {} wait)",
            state.limit, state.in_flight, state.waiting
        );
        Account {
            says: vec![says],
            assumed: Some(Assumed::Step(Step::Next)),
        }
    }
}

impl Overload {
    fn admit(&self, exchange: &mut Exchange, pass: Pass) -> Step {
        let body = exchange.body.len();
        let held = Held {
            pass: Some(pass),
            is_measured: body.is_some_and(|bytes| bytes <= OVERLOAD_BODY_BYTES_MAX),
        };
        let aside = exchange.context.aside.get_or_insert_default();
        aside.guards.push(Box::new(held));
        exchange.context.filters.push(self.responded.clone());
        Step::Next
    }

    /// Whether the request already has a slot of this limit: it came here before an internal redirect, or it is a part of
    /// another one, which must not wait for itself.
    fn holds(&self, exchange: &Exchange) -> bool {
        let context = &exchange.context;
        if context.dialect.is_subrequest() || context.includes.get() > 0 {
            return true;
        }
        let aside = exchange.context.aside.as_ref();
        let mut guards = aside.into_iter().flat_map(|aside| &aside.guards);
        guards.any(|guard| {
            let held = guard.downcast_ref::<Held>();
            let pass = held.and_then(|held| held.pass.as_ref());
            pass.is_some_and(|pass| pass.is_of(&self.shared.control))
        })
    }

    /// The class of a request: as a trusted proxy says, else as the configuration says.
    fn class_of(&self, exchange: &mut Exchange) -> Result<Class, Fault> {
        if exchange.context.from_trusted_proxy
            && let Some(class) = exchange.req.fields.find_first(b"X-Priority")
            && let Some(class) = Class::parse(class.trim_ascii())
        {
            return Ok(class);
        }
        if let Some(text) = &self.priority
            && let Some(class) = Class::parse(values::expanded(text, exchange).trim_ascii())
        {
            return Ok(class);
        }
        for (class, when) in &self.priorities {
            if values::matches(when, exchange)? {
                return Ok(*class);
            }
        }
        Ok(Class::Normal)
    }

    fn client_of(&self, exchange: &Exchange) -> u64 {
        let mut key = match &self.key {
            Some(key) => values::expanded(key, exchange),
            None => match values::client_ip(exchange) {
                Some(ip) => return self.shared.hasher.hash_one(self.prefixes.of(ip)),
                None => Vec::new(),
            },
        };
        key.truncate(FLIGHT_KEY_BYTES_MAX);
        self.prefixes.shorten(&mut key);
        self.shared.hasher.hash_one(key)
    }
}

/// How long the client of a gRPC call waits for its response (`grpc-timeout`).
fn client_timeout(exchange: &Exchange) -> Option<Duration> {
    let text = exchange.req.fields.find_first(b"grpc-timeout")?;
    let (unit, digits) = text.split_last()?;
    // The protocol allows eight digits.
    let count: u64 = match digits.len() {
        1..=8 => std::str::from_utf8(digits).ok()?.parse().ok()?,
        _ => return None,
    };
    Some(match unit {
        b'H' => Duration::from_secs(count * 3600),
        b'M' => Duration::from_secs(count * 60),
        b'S' => Duration::from_secs(count),
        b'm' => Duration::from_millis(count),
        b'u' => Duration::from_micros(count),
        b'n' => Duration::from_nanos(count),
        _ => return None,
    })
}

fn refuse(exchange: &mut Exchange, why: Shed) -> Step {
    let seconds = OVERLOAD_RETRY_SECONDS;
    let count = seconds.end() - seconds.start() + 1;
    let after = (seconds.start() + random::word() % count).to_string();
    exchange
        .res
        .fields
        .set(FieldId::RetryAfter, after.as_bytes());
    let why = match why {
        Shed::Full => "overload: no slot is free",
        Shed::Late => "overload: timed out in the queue",
    };
    Step::Fail(Fault::new(Status::SERVICE_UNAVAILABLE, why))
}

impl Filter for Responded {
    fn apply(&self, exchange: &mut Exchange, body: Body) -> Body {
        free(exchange);
        body
    }

    fn give_up(&self, exchange: &mut Exchange) {
        free(exchange);
    }
}

/// Frees the slot taken last, and reports how the request went.
fn free(exchange: &mut Exchange) {
    let status = exchange.res.status;
    let aside = exchange.context.aside.as_mut();
    let mut guards = aside.into_iter().flat_map(|aside| &mut aside.guards).rev();
    let held = guards.find_map(|guard| {
        let held = guard.downcast_mut::<Held>()?;
        held.pass.take().map(|pass| (pass, held.is_measured))
    });
    let Some((pass, is_measured)) = held else {
        return;
    };
    let sample = match status {
        Status::SERVICE_UNAVAILABLE | Status::GATEWAY_TIMEOUT => Sample::Overloaded,
        status if status.code() < 500 && is_measured => Sample::Latency(pass.age()),
        _ => Sample::None,
    };
    pass.end(sample);
}

impl Limits {
    fn shared(&self, name: &str, settings: Settings, hub: &Hub) -> Arc<Shared> {
        let mut known = self.0.lock().expect(NEVER_POISONED);
        known.retain(|_, shared| shared.strong_count() > 0);
        let found = known.entry((name.into(), settings)).or_default();
        found.upgrade().unwrap_or_else(|| {
            let made = Arc::new(Shared::new(settings));
            *found = Arc::downgrade(&made);
            let shown: Weak<dyn CountedAdmission> = found.clone();
            hub.add_admission(name, shown);
            made
        })
    }
}

impl Shared {
    fn new(settings: Settings) -> Shared {
        Shared {
            control: AdmissionControl::new(settings),
            hasher: RandomState::new(),
        }
    }
}

impl CountedAdmission for Shared {
    fn state(&self) -> AdmissionState {
        self.control.state()
    }
}

/// Builds `overload`.
pub fn build(config: &Config, builder: &mut Builder<'_>) -> Result<Box<dyn Handler>, Refusal> {
    let settings = settings(config)?;
    let name = match config.name.as_str() {
        "" => builder.place(),
        name => name,
    };
    let shared = match builder.recorder {
        Some(recorder) => recorder
            .shared::<Limits>()
            .shared(name, settings, recorder.hub()),
        None => Arc::new(Shared::new(settings)),
    };
    let text = |text: &str| match text {
        "" => Ok(None),
        text => builder.template(text).map(Some),
    };
    let priorities = config.priorities.iter().map(class_and_matchers);
    Ok(Box::new(Overload {
        shared,
        key: text(&config.key)?,
        prefixes: AddressPrefixes::build(config.ipv4_prefix, config.ipv6_prefix, (32, 64))?,
        priority: text(&config.priority)?,
        priorities: priorities.collect::<Result<_, _>>()?,
        wait_max: settings.wait_max,
        responded: Arc::new(Responded),
    }))
}

fn class_and_matchers(priority: &Priority) -> Result<(Class, MatcherSets), Refusal> {
    let class = Class::parse(priority.class.as_bytes()).ok_or_else(|| {
        Refusal::new(format!("priority `{}`", priority.class))
            .with_help("write `high`, `normal` or `low`")
    })?;
    let sets = priority.r#match.iter().map(build::matcher_set);
    Ok((class, MatcherSets::new(sets.collect::<Result<_, _>>()?)))
}

/// A number in the configuration, or its default if it is zero.
fn number(number: i64, default: u32, what: &str) -> Result<u32, Refusal> {
    match u32::try_from(number) {
        Ok(0) => Ok(default),
        Ok(number) => Ok(number),
        Err(_) => Err(Refusal::new(format!("`overload` with {what} {number}"))
            .with_help("give a number of 1 or more")),
    }
}

fn settings(config: &Config) -> Result<Settings, Refusal> {
    let queue = number(config.queue, OVERLOAD_QUEUE as u32, "a queue of")?;
    let queue_max = queue as usize;
    if queue_max > OVERLOAD_QUEUE_MAX {
        let help = format!("give a number up to {OVERLOAD_QUEUE_MAX}: more are not served in time");
        let refusal = Refusal::new(format!("`overload` with a queue of {queue}"));
        return Err(refusal.with_help(help));
    }
    let fixed = || match number(config.max, 0, "a limit of")? {
        0 => Err(
            Refusal::new(format!("`overload {}` without a limit", config.mode)).with_help(
                "give the number of requests that are served at a time, or use `adaptive`",
            ),
        ),
        max => Ok(LimitPolicy::Fixed(max)),
    };
    let timeout = given(config.timeout);
    let reserve = match config.priorities.is_empty() && config.priority.is_empty() {
        true => Reserve::None,
        false => Reserve::ByClass,
    };
    match config.mode.as_str() {
        "fail_fast" => Ok(Settings {
            limit: fixed()?,
            queue_max: 0,
            wait_max: Duration::ZERO,
            wait_in_overload: Duration::ZERO,
            reserve,
        }),
        "queue" => {
            let wait_max = timeout.unwrap_or(OVERLOAD_TIMEOUT);
            Ok(Settings {
                limit: fixed()?,
                queue_max,
                wait_max,
                wait_in_overload: wait_max / OVERLOAD_TIMEOUT_PART,
                reserve,
            })
        }
        "adaptive" => {
            let target = given(config.target_latency).unwrap_or(OVERLOAD_TARGET);
            let (min, max) = (
                number(config.min, OVERLOAD_MIN, "a lowest limit of")?,
                number(config.max, OVERLOAD_MAX, "a highest limit of")?,
            );
            if min > max {
                let refusal = Refusal::new(format!("`overload` with limits from {min} to {max}"));
                return Err(refusal.with_help("give a `min` that is not above `max`"));
            }
            Ok(Settings {
                limit: LimitPolicy::Adaptive(AdaptivePolicy { target, min, max }),
                queue_max,
                wait_max: timeout.unwrap_or(target),
                wait_in_overload: target / 2,
                reserve,
            })
        }
        other => Err(Refusal::new(format!("`overload` in mode `{other}`"))
            .with_help("write `fail_fast`, `queue` or `adaptive`")),
    }
}
