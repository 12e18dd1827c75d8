//! Events of the server and their handlers, as Caddy's `events` app has them. Emitting one never
//! waits; a thread runs the handlers, at most [`EVENT_RUNS_MAX`] at once.

mod handler;
mod placeholders;

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};
use sluice_model::EventsApp;

use crate::limits::{EVENT_RUNS_MAX, EVENTS_QUEUED_MAX};
use crate::log::Log;
use crate::random;
use handler::Handler;

const LOGGER: &str = "events";

/// Something that has happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Its name.
    pub name: &'static str,
    /// The module that it comes from; empty for the server itself.
    pub module: &'static str,
    /// What is known about it.
    pub data: Vec<(&'static str, Value)>,
}

impl Event {
    /// An event of the server itself.
    pub fn of_server(name: &'static str) -> Event {
        Event {
            name,
            module: "",
            data: Vec::new(),
        }
    }
}

/// An event with its number and time, as handlers see it.
#[derive(Clone, Debug)]
struct Emitted {
    event: Event,
    id: String,
    /// Since the Unix epoch.
    at: Duration,
}

impl Emitted {
    fn now(event: Event) -> Emitted {
        let (high, low) = (random::word(), random::word());
        // A random UUID (RFC 9562, section 5.4).
        let id = format!(
            "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
            high >> 32,
            high >> 16 & 0xffff,
            high & 0xfff,
            low >> 48 & 0x3fff | 0x8000,
            low & 0xffff_ffff_ffff
        );
        let at = SystemTime::now().duration_since(UNIX_EPOCH);
        Emitted {
            event,
            id,
            at: at.unwrap_or_default(),
        }
    }

    fn data(&self) -> Value {
        let pairs = self.event.data.iter();
        let data: Map<String, Value> = pairs
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect();
        data.into()
    }

    /// As a webhook sends it.
    fn to_json(&self) -> Value {
        json!({
            "id": self.id,
            "name": self.event.name,
            "module": self.event.module,
            "time": placeholders::time_text(self.at),
            "data": self.data(),
        })
    }
}

/// The handlers of a configuration.
#[derive(Debug, Default)]
pub struct Subscriptions(Vec<Subscription>);

#[derive(Debug)]
struct Subscription {
    events: Vec<String>,
    modules: Vec<String>,
    handlers: Vec<Arc<Handler>>,
}

/// Why the handlers of a configuration cannot be built.
#[derive(Debug, PartialEq, Eq)]
pub struct EventsError {
    /// The place in `apps.events`, such as `subscriptions[0].handlers[1]`.
    pub place: String,
    /// What is wrong.
    pub problem: String,
    /// What to do.
    pub help: &'static str,
}

impl Subscriptions {
    /// Builds the handlers.
    ///
    /// # Errors
    /// All mistakes.
    pub fn build(app: Option<&EventsApp>) -> Result<Subscriptions, Vec<EventsError>> {
        let (mut built, mut errors) = (Vec::new(), Vec::new());
        for (at, subscription) in app.iter().flat_map(|app| &app.subscriptions).enumerate() {
            let place = format!("subscriptions[{at}]");
            if subscription.handlers.is_empty() {
                errors.push(EventsError {
                    place: place.clone(),
                    problem: "there is no handler".to_owned(),
                    help: "add one, such as {\"handler\": \"exec\", \"command\": \"…\"}",
                });
            }
            let mut handlers = Vec::new();
            for (at, config) in subscription.handlers.iter().enumerate() {
                match Handler::build(config) {
                    Ok(handler) => handlers.push(Arc::new(handler)),
                    Err((problem, help)) => errors.push(EventsError {
                        place: format!("{place}.handlers[{at}]"),
                        problem,
                        help,
                    }),
                }
            }
            built.push(Subscription {
                events: subscription.events.clone(),
                modules: subscription.modules.clone(),
                handlers,
            });
        }
        match errors.is_empty() {
            true => Ok(Subscriptions(built)),
            false => Err(errors),
        }
    }

    /// The handlers of an event, in the order of the configuration.
    fn of(&self, event: &Event) -> Vec<Arc<Handler>> {
        let meant = self
            .0
            .iter()
            .filter(|subscription| subscription.is_for(event));
        let handlers = meant.flat_map(|subscription| &subscription.handlers);
        handlers.cloned().collect()
    }
}

impl Subscription {
    fn is_for(&self, event: &Event) -> bool {
        // An event is also one of the modules above its own, as in Caddy.
        let is_of = |module: &String| {
            let below = event.module.strip_prefix(module.as_str());
            module.is_empty() || below.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        (self.events.is_empty() || self.events.iter().any(|name| name == event.name))
            && (self.modules.is_empty() || self.modules.iter().any(is_of))
    }
}

/// The events of the process. Clones share the same queue.
#[derive(Clone)]
pub struct Events(Arc<Shared>);

struct Shared {
    log: Log,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    subscriptions: Arc<Subscriptions>,
    queue: VecDeque<(Arc<Emitted>, Vec<Arc<Handler>>)>,
    /// Whether the thread that runs handlers exists.
    is_begun: bool,
    /// Whether it runs the handlers of an event.
    is_busy: bool,
    /// Handlers that run.
    running: usize,
    /// Events that were lost because the queue was full, since that was last logged.
    lost: u64,
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Events")
    }
}

impl Events {
    /// Events without handlers; failures of handlers go to `log`.
    pub fn new(log: Log) -> Events {
        Events(Arc::new(Shared {
            log,
            state: Mutex::default(),
            changed: Condvar::new(),
        }))
    }

    /// Runs the handlers of a configuration on what happens from now on. Returns those that were there before.
    pub fn replace(&self, subscriptions: Arc<Subscriptions>) -> Arc<Subscriptions> {
        std::mem::replace(&mut self.0.lock().subscriptions, subscriptions)
    }

    /// Runs the handlers of `event` soon. Never waits: when too many events are queued, it is lost, and that is logged.
    pub fn emit(&self, event: Event) {
        let subscriptions = self.0.lock().subscriptions.clone();
        self.emit_to(&subscriptions, event);
    }

    /// Like [`Events::emit`], with the handlers of a configuration that was replaced.
    pub fn emit_to(&self, subscriptions: &Subscriptions, event: Event) {
        let handlers = subscriptions.of(&event);
        if handlers.is_empty() {
            return;
        }
        let mut state = self.0.lock();
        if state.queue.len() >= EVENTS_QUEUED_MAX {
            state.lost += 1;
            return;
        }
        state
            .queue
            .push_back((Arc::new(Emitted::now(event)), handlers));
        if !state.is_begun {
            let shared = self.0.clone();
            let begun = thread::Builder::new()
                .name("events".into())
                .spawn(move || shared.run());
            match begun {
                Ok(_) => state.is_begun = true,
                Err(error) => {
                    state.queue.clear();
                    drop(state);
                    let entry = self.0.log.error(LOGGER, "event handlers cannot run");
                    entry.shown("error", error).send();
                    return;
                }
            }
        }
        drop(state);
        self.0.changed.notify_all();
    }

    /// Waits until the handlers of all events have ended, at most for `timeout`.
    pub fn finish(&self, timeout: Duration) {
        let until = Instant::now() + timeout;
        let mut state = self.0.lock();
        while !state.queue.is_empty() || state.is_busy || state.running > 0 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let entry = self.0.log.warn(LOGGER, "event handlers were not awaited");
                let count = state.queue.len() + state.running;
                entry.integer("handlers", count as u64).send();
                return;
            }
            let waited = self.0.changed.wait_timeout(state, left);
            state = waited.expect(NEVER_POISONED).0;
        }
    }
}

const NEVER_POISONED: &str = "nothing panics while it holds the events";

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect(NEVER_POISONED)
    }

    /// Runs handlers, for ever.
    fn run(self: Arc<Self>) {
        loop {
            let mut state = self.lock();
            while state.queue.is_empty() {
                state = self.changed.wait(state).expect(NEVER_POISONED);
            }
            let next = state.queue.pop_front();
            state.is_busy = true;
            let lost = std::mem::take(&mut state.lost);
            drop(state);
            if lost > 0 {
                let entry = self
                    .log
                    .error(LOGGER, "events were lost: too many are waiting");
                entry.integer("events", lost).send();
            }
            if let Some((emitted, handlers)) = next {
                for handler in handlers {
                    self.begin(&emitted, handler);
                }
            }
            self.lock().is_busy = false;
            self.changed.notify_all();
        }
    }

    /// Runs a handler once there is room for it, and waits for it if it is to be waited for.
    fn begin(self: &Arc<Self>, emitted: &Arc<Emitted>, handler: Arc<Handler>) {
        let mut state = self.lock();
        while state.running >= EVENT_RUNS_MAX {
            state = self.changed.wait(state).expect(NEVER_POISONED);
        }
        state.running += 1;
        drop(state);
        let waits = handler.is_foreground();
        let (shared, emitted) = (self.clone(), emitted.clone());
        let counted = Running(self.clone());
        let run = move || {
            let _counted = counted;
            shared.report(&emitted, &handler, handler.run(&emitted));
        };
        if waits {
            return run();
        }
        let begun = thread::Builder::new().name("event".into()).spawn(run);
        if let Err(error) = begun {
            // The count went with the function that was not called.
            let entry = self.log.error(LOGGER, "event handlers cannot run");
            entry.shown("error", error).send();
        }
    }

    fn report(&self, emitted: &Emitted, handler: &Handler, outcome: Result<(), String>) {
        let entry = match &outcome {
            Ok(()) => self.log.debug(LOGGER, "event handled"),
            Err(_) => self.log.error(LOGGER, "event handler failed"),
        };
        let entry = entry
            .text("event", emitted.event.name)
            .text("id", &*emitted.id)
            .text("handler", handler.name())
            .text("target", handler.target());
        match outcome {
            Ok(()) => entry.send(),
            Err(why) => entry.text("error", why).send(),
        }
    }
}

/// A handler that runs, until it is dropped: also if it panics.
struct Running(Arc<Shared>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.lock().running -= 1;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests;
