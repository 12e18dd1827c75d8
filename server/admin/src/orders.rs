//! What the control interface asks of the process, and the way the answer comes back to the waiting request.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::task::{Context, Poll, Waker};

use serde_json::Value;
use sluice_diag::Written;
use sluice_model::Config;

/// Something the process is asked to do.
#[derive(Debug)]
pub enum Order {
    /// Serve another configuration.
    Load(Box<LoadOrder>),
    /// End gracefully.
    Stop(Replier),
}

/// A configuration to serve.
#[derive(Debug)]
pub struct LoadOrder {
    /// The configuration.
    pub config: Config,
    /// Where it was written, if its language says so.
    pub written: Option<Arc<Written>>,
    /// Take it even if it is the one being served.
    pub forced: bool,
    /// Where the answer goes.
    pub reply: Replier,
}

/// How an order ended: done, or why not in words for the person who gave it.
pub type Outcome = Result<(), String>;

/// Sends orders; clones send to the same process.
#[derive(Clone)]
pub struct Orders {
    send: Arc<dyn Fn(Order) -> Outcome + Send + Sync>,
}

impl Orders {
    /// Orders go to `send`, which queues them within [`ORDERS_MAX`] and never waits: if there is no room, or the
    /// process is ending, it says so.
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

/// Explains how a request is handled: a question goes in as JSON, and an explanation or the reason for none comes out.
pub type Explain = dyn Fn(&[u8]) -> Result<Value, String> + Send + Sync;

/// What is being served, for readers.
#[derive(Clone, Default)]
pub struct Current {
    served: Arc<Mutex<Served>>,
    counts: Arc<OnceLock<Arc<dyn Counts>>>,
}

/// What the server counts.
pub trait Counts: std::fmt::Debug + Send + Sync {
    /// The page that Prometheus reads, and its media type, for a client that takes these.
    fn page(&self, accept: &[u8]) -> (&'static str, Vec<u8>);

    /// How the upstreams are: a list of objects, of which each has at least `address` and `fails`.
    fn upstreams(&self) -> Value;

    /// Counts a request to the control interface.
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

    /// What explains requests.
    pub fn explain(&self) -> Option<Arc<Explain>> {
        lock(&self.served).explain.clone()
    }

    /// What the server counts, once there is a server.
    pub fn counts(&self) -> Option<&dyn Counts> {
        self.counts.get().map(|counts| &**counts)
    }

    /// Tells who counts; of several the first.
    pub fn set_counts(&self, counts: Arc<dyn Counts>) {
        let _ = self.counts.set(counts);
    }

    /// Makes `config` the current one, with what explains requests by it.
    pub fn replace(&self, config: Arc<Config>, explain: Arc<Explain>) {
        *lock(&self.served) = Served {
            config,
            explain: Some(explain),
        };
    }
}

/// A place for one outcome and for whoever waits for it.
#[derive(Debug, Default)]
struct Place {
    outcome: Option<Outcome>,
    waker: Option<Waker>,
}

/// Gives the outcome of an order. Dropped without one, it says that the process is ending.
#[derive(Debug)]
pub struct Replier {
    place: Arc<Mutex<Place>>,
}

/// Waits for the outcome of an order.
#[derive(Debug)]
pub struct Waiter {
    place: Arc<Mutex<Place>>,
}

/// A pair for one outcome.
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
    /// Gives the outcome.
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
