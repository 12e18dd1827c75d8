//! A limit that several nodes share: asks the store, and decides what happens without it.

use std::rc::Rc;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use sluice_model::handler::SharedLimit as Config;
use sluice_net::tasks::in_background;
use sluice_net::worker::Worker;
use sluice_pipeline::build::Builder;
use sluice_pipeline::refusal::Refusal;
use sluice_policy::limit::{Ask, Decision, Grant, Mode, Rate, Shape, Sharing};
use sluice_upstream::redis::{CallError, Script};
use sluice_wire::resp::Reply;

use super::zones::SharedZone;
use crate::limit_store::{OnError, StoreUse};
use crate::limits::{STORE_CLOSED_RETRY, STORE_LEASE_SLICES};

static WINDOW: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("window.lua")));
static BUCKET: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("bucket.lua")));

/// How a zone counts together with other nodes.
#[derive(Clone, Debug)]
pub struct Shared {
    store_use: StoreUse,
    /// What the node decides by itself.
    pub sharing: Sharing,
    script: &'static Script,
    /// The first arguments of the script: the rate.
    rate_args: Box<[String]>,
    /// What the keys of the zone begin with.
    prefix: Box<str>,
}

/// What is known of a request so far.
pub enum Verdict {
    /// It is allowed; it came so long before its time at an even pace.
    Allowed(Duration),
    /// It is over the limit; the next is allowed after so long.
    Refused(Duration),
    /// The store decides.
    Undecided(Question),
}

/// A question to the store about one key. If it gets no reply, that is noted when it is dropped.
pub struct Question {
    zone: Arc<SharedZone>,
    key: Box<[u8]>,
    ask: Option<Ask>,
}

impl Shared {
    /// Reads the settings of the zone `name`.
    ///
    /// # Errors
    /// A setting is invalid.
    pub fn build(
        config: &Config,
        (name, rate): (&str, &Rate),
        builder: &Builder<'_>,
    ) -> Result<Shared, Refusal> {
        let mode = match config.mode.as_str() {
            "" | "exact" => Mode::Exact,
            "leased" => Mode::Leased,
            other => {
                return Err(
                    Refusal::new(format!("`mode {other}`")).with_help("write `exact` or `leased`")
                );
            }
        };
        let (script, rate_args, shape) = match rate.shape() {
            Shape::Window {
                events,
                window,
                slice,
            } => {
                let window = micros(window);
                let slice = match mode {
                    Mode::Exact => micros(slice),
                    Mode::Leased => micros(slice).max(window / STORE_LEASE_SLICES),
                };
                let slice = slice.max(1);
                let args = [slice, window, u64::from(events)].map(|number| number.to_string());
                (
                    &WINDOW,
                    Box::from(args),
                    format!("{events}/{window}/{slice}"),
                )
            }
            Shape::Bucket {
                events,
                window,
                burst,
            } => {
                let window = micros(window);
                let pace = f64::from(events) / window as f64;
                let args = [format!("{pace:e}"), burst.to_string()];
                (
                    &BUCKET,
                    Box::from(args),
                    format!("{events}/{window}/b{burst}"),
                )
            }
        };
        Ok(Shared {
            store_use: StoreUse::build(config, builder)?,
            sharing: Sharing::new(mode, rate),
            script,
            rate_args,
            prefix: format!("sluice:limit:{name}:{shape}:").into(),
        })
    }

    /// What tells zones of the same name and rate apart: where they are counted, and how.
    pub fn identity(&self) -> String {
        let mode = match self.sharing.mode() {
            Mode::Exact => "exact",
            Mode::Leased => "leased",
        };
        format!("{mode} {}", self.store_use.store.server.place())
    }

    /// Where it is counted, without secrets.
    pub fn place(&self) -> &str {
        self.store_use.store.server.place()
    }

    /// What is known of a request with this key, which is counted if it is allowed.
    pub fn check(&self, worker: &Rc<Worker>, zone: &Arc<SharedZone>, key: &[u8]) -> Verdict {
        match zone.decide(&self.sharing, key) {
            Decision::Allowed { ahead, refill } => {
                if let Some(ask) = refill {
                    let (shared, worker) = (self.clone(), worker.clone());
                    let question = Question::new(zone, key, ask);
                    in_background(async move { shared.fetch(&worker, question).await });
                }
                Verdict::Allowed(ahead)
            }
            Decision::Refused(wait) => Verdict::Refused(wait),
            Decision::Ask(ask) => Verdict::Undecided(Question::new(zone, key, ask)),
        }
    }

    /// Asks the store about a request: how long before its time at an even pace it came, or how long it has to wait.
    ///
    /// # Errors
    /// The request is over the limit, or there is no reply and `on_error` refuses it.
    pub async fn ask(
        &self,
        worker: &Rc<Worker>,
        mut question: Question,
    ) -> Result<Duration, Duration> {
        let Some(ask) = question.ask else {
            return Ok(Duration::ZERO);
        };
        match self.call(worker, &question.key, &ask).await {
            Ok(grant) => {
                question.ask = None;
                let zone = &question.zone;
                let outcome = zone.settle(&self.sharing, &question.key, (&ask, grant), true);
                outcome.refused.map_or(Ok(outcome.ahead), Err)
            }
            Err(_) => {
                question.zone.note_undecided();
                match self.store_use.on_error {
                    OnError::Open => {
                        question.zone.note(None);
                        Ok(Duration::ZERO)
                    }
                    OnError::Closed => {
                        question.zone.note(Some(STORE_CLOSED_RETRY));
                        Err(STORE_CLOSED_RETRY)
                    }
                    OnError::Local => {
                        let outcome = question.zone.take(&question.key);
                        outcome.refused.map_or(Ok(outcome.ahead), Err)
                    }
                }
            }
        }
    }

    /// Gives back an event that was allowed, because another zone has refused the request.
    pub fn give_back(&self, worker: &Rc<Worker>, zone: &Arc<SharedZone>, key: &[u8]) {
        zone.give_back(key);
        let question = Question::new(zone, key, Ask::returning());
        let (shared, worker) = (self.clone(), worker.clone());
        in_background(async move { shared.fetch(&worker, question).await });
    }

    /// Asks the store while no request waits.
    async fn fetch(&self, worker: &Rc<Worker>, mut question: Question) {
        let Some(ask) = question.ask else { return };
        if let Ok(grant) = self.call(worker, &question.key, &ask).await {
            question.ask = None;
            let zone = &question.zone;
            zone.settle(&self.sharing, &question.key, (&ask, grant), false);
        }
    }

    async fn call(&self, worker: &Rc<Worker>, key: &[u8], ask: &Ask) -> Result<Grant, CallError> {
        let key = [self.prefix.as_bytes(), key].concat();
        let numbers = [u64::from(ask.want), u64::from(ask.back), ask.back_slice];
        let numbers = numbers.map(|number| number.to_string());
        let args: Vec<&[u8]> = self
            .rate_args
            .iter()
            .chain(&numbers)
            .map(String::as_bytes)
            .collect();
        let StoreUse {
            store, deadline, ..
        } = &self.store_use;
        let reply = store
            .server
            .run(worker, self.script, (&key, &args), *deadline)
            .await?;
        grant(&reply).ok_or_else(|| CallError::Refused("an unexpected reply".to_owned()))
    }
}

impl Question {
    fn new(zone: &Arc<SharedZone>, key: &[u8], ask: Ask) -> Question {
        Question {
            zone: zone.clone(),
            key: key.into(),
            ask: Some(ask),
        }
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        if let Some(ask) = &self.ask {
            self.zone.give_up(&self.key, ask);
        }
    }
}

/// The reply of the scripts: events, wait, slice and distance, with times in microseconds.
fn grant(reply: &Reply) -> Option<Grant> {
    let Reply::Array(numbers) = reply else {
        return None;
    };
    let [
        Reply::Integer(events),
        Reply::Integer(wait),
        Reply::Integer(slice),
        Reply::Integer(ahead),
    ] = &numbers[..]
    else {
        return None;
    };
    let micros = |count: i64| Some(Duration::from_micros(u64::try_from(count).ok()?));
    Some(Grant {
        events: u32::try_from(*events).ok()?,
        wait: micros(*wait)?,
        slice: u64::try_from(*slice).ok()?,
        ahead: micros(*ahead)?,
    })
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros())
        .unwrap_or(u64::MAX)
        .max(1)
}
