//! Orders from the admin API to the process, and the way their outcome gets back to the waiting request.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use serde_json::Value;
use sluice_diag::Written;
use sluice_message::Status;
use sluice_model::{Config, DashboardAction};

use crate::denied::Denied;
use crate::document::{Change, Document};

/// An order to the process.
#[derive(Debug)]
pub enum Order {
    /// Load another configuration.
    Load(Box<LoadOrder>),
    /// Change a part of the configuration.
    Change(Box<ChangeOrder>),
    /// Read the configuration again, as for SIGHUP.
    Reload(Replier),
    /// Shut down gracefully.
    Stop(Replier),
    /// Replace the process by a new one.
    Upgrade(Box<UpgradeOrder>),
}

/// A configuration to load.
#[derive(Debug)]
pub struct LoadOrder {
    /// The configuration.
    pub config: Config,
    /// The document that clients see.
    pub document: Document,
    /// Its source texts, if the format has them.
    pub written: Option<Arc<Written>>,
    /// Reload even if it equals the running configuration.
    pub forced: bool,
    /// Receives the outcome.
    pub reply: Replier,
}

/// A binary upgrade.
#[derive(Debug)]
pub struct UpgradeOrder {
    /// The program to start; `None` for the one at the path of the running one.
    pub binary: Option<PathBuf>,
    /// How long the new process may take until it serves; `None` for the default.
    pub ready_timeout: Option<Duration>,
    /// How long requests may go on in the old process; `None` for what the configuration says.
    pub grace_period: Option<Duration>,
    /// Receives the outcome.
    pub reply: Replier,
}

/// A change of the configuration, for the process: of two changes at once, one is made after the other.
#[derive(Debug)]
pub struct ChangeOrder {
    /// What changes.
    pub change: Change,
    /// Reload even if the configuration stays the same.
    pub forced: bool,
    /// Receives the outcome.
    pub reply: Replier,
}

/// The outcome of an order.
pub type Outcome = Result<(), Denied>;

/// Sends orders to the process; clones share the same queue.
#[derive(Clone)]
pub struct Orders {
    send: Arc<dyn Fn(Order) -> Result<(), String> + Send + Sync>,
}

impl Orders {
    /// Creates a sender from `send`, which queues at most [`ORDERS_MAX`] orders without blocking and fails if the queue
    /// is full or the process is shutting down.
    ///
    /// [`ORDERS_MAX`]: crate::limits::ORDERS_MAX
    pub fn new(send: impl Fn(Order) -> Result<(), String> + Send + Sync + 'static) -> Orders {
        Orders {
            send: Arc::new(send),
        }
    }

    /// Queues an order.
    pub fn send(&self, order: Order) -> Result<(), String> {
        (self.send)(order)
    }
}

/// What is known of the running configuration beyond its text.
pub trait Insight: Send + Sync {
    /// Explains how a request is handled: takes a question as JSON and returns an explanation, or the reason why there is
    /// none.
    fn explain(&self, question: &[u8]) -> Result<Value, String>;

    /// The local CA with an ID; `None` if there is none.
    fn authority(&self, id: &str) -> Result<Option<Authority>, String>;
}

/// The names and certificates of a local CA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority {
    /// Its ID.
    pub id: String,
    /// The name people see.
    pub name: String,
    /// The common names of the root and of the intermediate.
    pub common_names: (String, String),
    /// The root and the intermediate as PEM; the latter is empty if the root signs.
    pub certificates: (String, String),
}

/// The running configuration, for readers.
#[derive(Clone, Default)]
pub struct Current {
    served: Arc<Mutex<Served>>,
    counts: Arc<OnceLock<Arc<dyn Counts>>>,
}

/// Metrics of the server.
pub trait Counts: std::fmt::Debug + Send + Sync {
    /// The metrics page in a format that `accept` allows, and its media type.
    fn page(&self, accept: &[u8]) -> (&'static str, Vec<u8>);

    /// The state of the upstreams: a list of objects, each with at least `address` and `fails`.
    fn upstreams(&self) -> Value;

    /// Directs the upstreams with an address as an object says; returns their new state, or `None` if there are none.
    ///
    /// # Errors
    ///
    /// The object is not a direction.
    fn direct_upstream(&self, address: &str, direction: Value) -> Result<Option<Value>, String>;

    /// Removes responses from the cache with this name in the status; returns how many, or `None` if no cache has it.
    fn purge(&self, cache: &str, which: &Purge) -> Option<usize>;

    /// The keys of cached responses, in order.
    fn cached_keys(&self) -> Vec<String>;

    /// Removes responses from all caches; returns how many.
    fn purge_all(&self, which: &Purge) -> usize;

    /// Logs that an action of the dashboard was used.
    fn note_action(&self, used: &ActionUse<'_>);

    /// The Python applications: a list of objects, each with its processes.
    fn python_applications(&self) -> Value;

    /// Takes a sample of the counters, from which rates are computed. Called once per second.
    fn sample(&self);

    /// The status as JSON, on one line; `actions` are those that the dashboard offers.
    fn status(&self, actions: &[DashboardAction]) -> Vec<u8>;

    /// The status as CSV.
    fn status_csv(&self) -> Vec<u8>;

    /// The history of the last ten minutes as JSON.
    fn history(&self) -> Vec<u8>;

    /// Counts a request to the admin API.
    fn count(&self, method: &str, path: &str, status: u16);
}

/// Which responses of a cache are removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purge {
    /// Those with this key, in all variants.
    Key(String),
    /// Those whose key begins so.
    Beginning(String),
    /// Those with one of these surrogate keys, a list as in the header `Surrogate-Key`.
    Tagged(Vec<u8>),
}

/// The use of an action of the dashboard.
#[derive(Debug)]
pub struct ActionUse<'a> {
    /// The action.
    pub action: DashboardAction,
    /// The upstream or the cache that it is about; empty if it is about none or was refused before that was read.
    pub object: &'a str,
    /// The address of the client.
    pub remote: String,
    /// The result in words, or why it was refused.
    pub outcome: Result<&'a str, &'a str>,
}

#[derive(Clone, Default)]
struct Served {
    config: Arc<Config>,
    document: Document,
    insight: Option<Arc<dyn Insight>>,
}

impl Current {
    /// The configuration.
    pub fn config(&self) -> Arc<Config> {
        lock(&self.served).config.clone()
    }

    /// The configuration together with its document.
    pub fn document(&self) -> (Arc<Config>, Document) {
        let served = lock(&self.served);
        (served.config.clone(), served.document.clone())
    }

    /// What the buttons of the dashboard may do, as configured.
    pub fn actions(&self) -> Vec<DashboardAction> {
        let config = self.config();
        let admin = config.admin.as_ref();
        let dashboard = admin.and_then(|admin| admin.dashboard.as_ref());
        dashboard.map_or_else(Vec::new, |dashboard| dashboard.actions.clone())
    }

    /// What is known of the configuration beyond its text, once it runs.
    pub fn insight(&self) -> Option<Arc<dyn Insight>> {
        lock(&self.served).insight.clone()
    }

    /// The server's metrics, once the server is running.
    pub fn counts(&self) -> Option<&dyn Counts> {
        self.counts.get().map(|counts| &**counts)
    }

    /// Sets the source of metrics; later calls have no effect.
    pub fn set_counts(&self, counts: Arc<dyn Counts>) {
        let _ = self.counts.set(counts);
    }

    /// Makes `config` the running configuration, and `document` what clients see of it.
    pub fn replace(&self, config: Arc<Config>, document: Document, insight: Arc<dyn Insight>) {
        *lock(&self.served) = Served {
            config,
            document,
            insight: Some(insight),
        };
    }
}

/// A slot for one outcome and the waker of the task that waits for it.
#[derive(Debug, Default)]
struct Place {
    outcome: Option<Outcome>,
    waker: Option<Waker>,
}

/// Sends the outcome of an order. If dropped without one, the waiter receives the error that the process is shutting
/// down.
#[derive(Debug)]
pub struct Replier {
    place: Arc<Mutex<Place>>,
}

/// Waits for the outcome of an order.
#[derive(Debug)]
pub struct Waiter {
    place: Arc<Mutex<Place>>,
}

/// Creates a connected pair for one outcome.
pub fn reply() -> (Replier, Waiter) {
    let place = Arc::new(Mutex::new(Place::default()));
    (
        Replier {
            place: place.clone(),
        },
        Waiter { place },
    )
}

impl Replier {
    /// Sends the outcome.
    pub fn send(self, outcome: Outcome) {
        self.fill(outcome);
    }

    fn fill(&self, outcome: Outcome) {
        let mut place = lock(&self.place);
        place.outcome.get_or_insert(outcome);
        if let Some(waker) = place.waker.take() {
            waker.wake();
        }
    }
}

impl Drop for Replier {
    fn drop(&mut self) {
        let why = "the server is ending";
        self.fill(Err(Denied::new(Status::SERVICE_UNAVAILABLE, why)));
    }
}

impl Future for Waiter {
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        let mut place = lock(&self.place);
        if let Some(outcome) = place.outcome.take() {
            return Poll::Ready(outcome);
        }
        place.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .expect("nothing panics while it holds this lock")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poll(waiter: &mut Waiter) -> Poll<Outcome> {
        Pin::new(waiter).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn an_outcome_reaches_the_waiter() {
        let (replier, mut waiter) = reply();
        assert_eq!(poll(&mut waiter), Poll::Pending);
        replier.send(Ok(()));
        assert_eq!(poll(&mut waiter), Poll::Ready(Ok(())));
    }

    #[test]
    fn a_lost_order_is_an_error_and_not_silence() {
        let (replier, mut waiter) = reply();
        drop(replier);
        assert!(matches!(poll(&mut waiter), Poll::Ready(Err(_))));
    }
}
