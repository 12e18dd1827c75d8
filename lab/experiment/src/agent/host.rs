//! The agent's side of servers: a thread that follows the orders for its [`Host`], and one that ends the connection if
//! the coordinator is silent. Whatever ends the connection stops the servers.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::channel::{Heard, Sender};
use super::message::Report;
use crate::limits::{ALIVE_INTERVAL, HOST_ORDERS_MAX};
use sluice_load::generator::interrupt::Interrupt;

/// Starts servers as a coordinator orders. Its servers stop when it is dropped.
pub trait Host {
    /// Follows an order; returns what to report, if anything.
    fn follow(&mut self, order: &str) -> Option<String>;
}

/// Makes a host: from the origin of the agent's clock, and what ends its work early.
type Maker = dyn Fn(Instant, Interrupt) -> Box<dyn Host> + Send + Sync;

/// Makes the host of each coordinator.
#[derive(Clone)]
pub struct Hosting(Arc<Maker>);

impl fmt::Debug for Hosting {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("Hosting")
    }
}

impl Hosting {
    /// With this function: the host gets the origin of the agent's clock, and what ends its work early.
    pub fn new(make: impl Fn(Instant, Interrupt) -> Box<dyn Host> + Send + Sync + 'static) -> Self {
        Hosting(Arc::new(make))
    }
}

/// Ends a connection, so that what reads from it stops.
pub(super) type Cut = Arc<dyn Fn() + Send + Sync>;

/// The host of a connection, on a thread of its own.
pub(super) struct Hosted {
    orders: Option<SyncSender<String>>,
    interrupt: Interrupt,
    heard: Heard,
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Hosted {
    /// Starts the threads. A coordinator that is silent for longer than `silence_max` is gone.
    pub fn start(
        hosting: &Hosting,
        clock: Instant,
        (sender, cut): (&Arc<Sender>, &Cut),
        silence_max: Duration,
    ) -> io::Result<Self> {
        let (orders, to_follow) = sync_channel::<String>(HOST_ORDERS_MAX);
        let mut hosted = Hosted {
            orders: Some(orders),
            interrupt: Interrupt::default(),
            heard: Heard::now(),
            is_over: Arc::default(),
            threads: Vec::new(),
        };
        let (make, interrupt) = (hosting.0.clone(), hosted.interrupt.clone());
        let (to, ends) = (sender.clone(), cut.clone());
        // Servers end with the thread that started them.
        let work = move || {
            let mut host = make(clock, interrupt.clone());
            for order in to_follow {
                if interrupt.is_set() {
                    break;
                }
                let report = host.follow(&order).map(Report::Host);
                if report.is_some_and(|report| to.send(&report).is_err()) {
                    ends();
                    break;
                }
            }
        };
        let named = |name: &str| thread::Builder::new().name(name.to_string());
        hosted.threads.push(named("servers").spawn(work)?);
        let (heard, is_over) = (hosted.heard.clone(), hosted.is_over.clone());
        let (to, ends, interrupt) = (sender.clone(), cut.clone(), hosted.interrupt.clone());
        let watch = move || {
            while !is_over.load(Ordering::Acquire) {
                if heard.silent_for() > silence_max || to.send(&Report::Up).is_err() {
                    interrupt.set();
                    ends();
                    return;
                }
                thread::sleep(ALIVE_INTERVAL);
            }
        };
        hosted
            .threads
            .push(named("coordinator-silence").spawn(watch)?);
        Ok(hosted)
    }

    /// The coordinator is alive.
    pub fn heard(&self) {
        self.heard.again();
    }

    /// Has an order followed after those before it. The error is the reason why it is refused.
    pub fn follow(&self, order: String) -> Result<(), String> {
        let orders = self.orders.as_ref();
        let sent = orders.is_some_and(|orders| orders.try_send(order).is_ok());
        let refused =
            || format!("more than {HOST_ORDERS_MAX} orders before the first was followed");
        sent.then_some(()).ok_or_else(refused)
    }
}

impl Drop for Hosted {
    fn drop(&mut self) {
        self.interrupt.set();
        self.is_over.store(true, Ordering::Release);
        self.orders = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::sync::mpsc::{Sender as Channel, channel};

    /// A host that reports when it is dropped.
    struct Dropped(Channel<&'static str>);

    impl Host for Dropped {
        fn follow(&mut self, order: &str) -> Option<String> {
            Some(order.to_uppercase())
        }
    }

    impl Drop for Dropped {
        fn drop(&mut self) {
            let _ = self.0.send("stopped");
        }
    }

    #[test]
    fn a_silent_coordinator_is_cut_off_and_its_servers_stop() {
        let (events, seen) = channel();
        let (stopped, cut) = (Mutex::new(events.clone()), events);
        let lock = |events: &Mutex<Channel<&'static str>>| events.lock().unwrap().clone();
        let hosting = Hosting::new(move |_, _| Box::new(Dropped(lock(&stopped))));
        let cut: Cut = Arc::new(move || {
            let _ = cut.send("cut");
        });
        let sender = Arc::new(Sender::new(io::sink()));
        let by = (&sender, &cut);
        let silence = Duration::from_millis(1);
        let hosted = Hosted::start(&hosting, Instant::now(), by, silence).unwrap();
        assert_eq!(seen.recv(), Ok("cut"));
        // Orders that are still under way are not followed any more.
        assert!(hosted.interrupt.is_set());
        drop(hosted);
        assert_eq!(seen.recv(), Ok("stopped"));
        // One that is heard is not cut off before its connection ends.
        let silence = Duration::from_secs(3600);
        let hosted = Hosted::start(&hosting, Instant::now(), by, silence).unwrap();
        hosted.follow("start".into()).unwrap();
        drop(hosted);
        assert_eq!(seen.recv(), Ok("stopped"));
    }
}
