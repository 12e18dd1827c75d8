//! Orders from the admin API to the process, and the way their outcome gets back to the waiting request.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::task::{Context, Poll, Waker};

use serde_json::Value;
use sluice_diag::Written;
use sluice_model::Config;

/// An order to the process.
#[derive(Debug)]
pub enum Order {
    /// Load another configuration.
    Load(Box<LoadOrder>),
    /// Shut down gracefully.
    Stop(Replier),
}

/// A configuration to load.
#[derive(Debug)]
pub struct LoadOrder {
    /// The configuration.
    pub config: Config,
    /// Its source texts, if the format has them.
    pub written: Option<Arc<Written>>,
    /// Reload even if it equals the running configuration.
    pub forced: bool,
    /// Receives the outcome.
    pub reply: Replier,
}

/// The outcome of an order; the error is a message for the user.
pub type Outcome = Result<(), String>;

/// Sends orders to the process; clones share the same queue.
#[derive(Clone)]
pub struct Orders {
    send: Arc<dyn Fn(Order) -> Outcome + Send + Sync>,
}

impl Orders {
    /// Creates a sender from `send`, which queues at most [`ORDERS_MAX`] orders without blocking and fails if the queue
    /// is full or the process is shutting down.
    ///
    /// [`ORDERS_MAX`]: crate::limits::ORDERS_MAX
    pub fn new(send: impl Fn(Order) -> Outcome + Send + Sync + 'static) -> Orders {
        Orders {
            send: Arc::new(send),
        }
    }

    /// Queues an order.
    pub fn send(&self, order: Order) -> Outcome {
        (self.send)(order)
    }
}

/// Explains how a request is handled: takes a question as JSON and returns an explanation, or the reason why there is
/// none.
pub type Explain = dyn Fn(&[u8]) -> Result<Value, String> + Send + Sync;

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

    /// The Python applications: a list of objects, each with its processes.
    fn python_applications(&self) -> Value;

    /// Takes a sample of the counters, from which rates are computed. Called once per second.
    fn sample(&self);

    /// The status as JSON, on one line.
    fn status(&self) -> Vec<u8>;

    /// The status as CSV.
    fn status_csv(&self) -> Vec<u8>;

    /// The history of the last ten minutes as JSON.
    fn history(&self) -> Vec<u8>;

    /// Counts a request to the admin API.
    fn count(&self, method: &str, path: &str, status: u16);
}

#[derive(Clone, Default)]
struct Served {
    config: Arc<Config>,
    explain: Option<Arc<Explain>>,
}

impl Current {
    /// The configuration.
    pub fn config(&self) -> Arc<Config> {
        lock(&self.served).config.clone()
    }

    /// The function that explains requests.
    pub fn explain(&self) -> Option<Arc<Explain>> {
        lock(&self.served).explain.clone()
    }

    /// The server's metrics, once the server is running.
    pub fn counts(&self) -> Option<&dyn Counts> {
        self.counts.get().map(|counts| &**counts)
    }

    /// Sets the source of metrics; later calls have no effect.
    pub fn set_counts(&self, counts: Arc<dyn Counts>) {
        let _ = self.counts.set(counts);
    }

    /// Makes `config` the running configuration and `explain` the function that explains its requests.
    pub fn replace(&self, config: Arc<Config>, explain: Arc<Explain>) {
        *lock(&self.served) = Served {
            config,
            explain: Some(explain),
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
        self.fill(Err("the server is ending".to_owned()));
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
