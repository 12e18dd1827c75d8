//! Admission of requests to an upstream during overload, across all workers: `sluice-policy` decides, this module keeps
//! the decisions together with what wakes the requests that wait.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use sluice_message::Moment;
use sluice_policy::overload::{
    Admission, Arrival, Arriving, Outcome, Sample, Settings, Shed, Ticket, Totals, Withdrawal,
};
use tokio::sync::oneshot;

use crate::clock;
use crate::timeout::within;
use crate::worker::Worker;

/// The admission of one upstream group or handler.
#[derive(Debug)]
pub struct AdmissionControl(Mutex<Admission<Waiter>>);

/// What wakes a request that waits.
#[derive(Debug)]
struct Waiter {
    client: u64,
    outcome: oneshot::Sender<Result<Pass, Shed>>,
}

/// What becomes of a request that arrives.
#[derive(Debug)]
pub enum Entry {
    /// It has a slot.
    Pass(Pass),
    /// It has to wait for one.
    Place(Place),
    /// It is shed.
    Shed(Shed),
}

/// The slot of an admitted request; dropping it frees the slot.
#[derive(Debug)]
pub struct Pass {
    /// `None` once the slot is free.
    control: Option<Arc<AdmissionControl>>,
    client: u64,
    since: Moment,
}

/// The place of a request in the queue; dropping it gives up.
#[derive(Debug)]
pub struct Place {
    control: Arc<AdmissionControl>,
    ticket: Ticket,
    outcome: oneshot::Receiver<Result<Pass, Shed>>,
}

/// The state of an admission, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdmissionState {
    /// The concurrency limit.
    pub limit: u32,
    /// Requests in flight.
    pub in_flight: u32,
    /// Requests that wait.
    pub waiting: u64,
    /// Whether the queue no longer empties.
    pub is_overloaded: bool,
    /// Totals since the start.
    pub totals: Totals,
}

const NEVER_POISONED: &str = "nothing panics while it holds an admission";

impl AdmissionControl {
    /// No request in flight.
    pub fn new(settings: Settings) -> Arc<AdmissionControl> {
        let admission = Admission::new(settings, clock::now());
        Arc::new(AdmissionControl(Mutex::new(admission)))
    }

    /// The current state.
    pub fn state(&self) -> AdmissionState {
        let admission = self.lock();
        AdmissionState {
            limit: admission.limit(),
            in_flight: admission.in_flight(),
            waiting: admission.waiting() as u64,
            is_overloaded: admission.is_overloaded(clock::now()),
            totals: admission.totals(),
        }
    }

    /// A request arrives.
    pub fn arrive(self: &Arc<Self>, arriving: Arriving) -> Entry {
        let (sender, receiver) = oneshot::channel();
        let waiter = Waiter {
            client: arriving.client,
            outcome: sender,
        };
        let mut woken = Vec::new();
        // The clock is read under the lock, so that times are monotonic.
        let mut admission = self.lock();
        let arrival = admission.arrive(arriving, waiter, clock::now(), &mut |waiter, outcome| {
            woken.push((waiter, outcome));
        });
        drop(admission);
        self.wake(woken);
        match arrival {
            Arrival::Admitted => Entry::Pass(self.pass(arriving.client)),
            Arrival::Waits(ticket) => Entry::Place(Place {
                control: self.clone(),
                ticket,
                outcome: receiver,
            }),
            Arrival::Shed(_) => Entry::Shed(Shed::Full),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Admission<Waiter>> {
        self.0.lock().expect(NEVER_POISONED)
    }

    fn pass(self: &Arc<Self>, client: u64) -> Pass {
        Pass {
            control: Some(self.clone()),
            client,
            since: clock::now(),
        }
    }

    /// A request has ended.
    fn leave(self: &Arc<Self>, client: u64, sample: Sample) {
        let mut ended = vec![(client, sample)];
        while let Some((client, sample)) = ended.pop() {
            let mut woken = Vec::new();
            let mut admission = self.lock();
            admission.leave(client, sample, clock::now(), &mut |waiter, outcome| {
                woken.push((waiter, outcome));
            });
            drop(admission);
            // Slots of requests that are gone meanwhile go to the next ones.
            ended.extend(self.wake(woken));
        }
    }

    /// Wakes requests. Returns the slots of those that are gone.
    fn wake(self: &Arc<Self>, woken: Vec<(Waiter, Outcome)>) -> Vec<(u64, Sample)> {
        let mut gone = Vec::new();
        for (waiter, outcome) in woken {
            let result = match outcome {
                Outcome::Admitted => Ok(self.pass(waiter.client)),
                Outcome::Shed(why) => Err(why),
            };
            if let Err(Ok(mut pass)) = waiter.outcome.send(result) {
                // Its slot is freed by the caller, not by this pass: a chain of them would nest.
                pass.control = None;
                gone.push((pass.client, Sample::None));
            }
        }
        gone
    }
}

impl Pass {
    /// Whether this is a slot of `control`.
    pub fn is_of(&self, control: &Arc<AdmissionControl>) -> bool {
        let own = self.control.as_ref();
        own.is_some_and(|own| Arc::ptr_eq(own, control))
    }

    /// How long ago the request was admitted.
    pub fn age(&self) -> Duration {
        clock::now().since(self.since)
    }

    /// Frees the slot, and reports how the request went.
    pub fn end(mut self, sample: Sample) {
        self.free(sample);
    }

    fn free(&mut self, sample: Sample) {
        if let Some(control) = self.control.take() {
            control.leave(self.client, sample);
        }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.free(Sample::None);
    }
}

impl Place {
    /// Waits for a slot, for at most `limit`.
    ///
    /// # Errors
    ///
    /// The request is shed.
    pub async fn wait(mut self, worker: &Worker, limit: Duration) -> Result<Pass, Shed> {
        if let Some(outcome) = within(worker, limit, &mut self.outcome).await {
            return outcome.unwrap_or(Err(Shed::Late));
        }
        match self.withdraw(Withdrawal::Late) {
            true => Err(Shed::Late),
            // It is on its way.
            false => (&mut self.outcome).await.unwrap_or(Err(Shed::Late)),
        }
    }

    fn withdraw(&self, why: Withdrawal) -> bool {
        self.control.lock().withdraw(self.ticket, why)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.withdraw(Withdrawal::Gone);
    }
}

#[cfg(test)]
mod tests {
    use sluice_policy::overload::{Class, LimitPolicy, Reserve};

    use super::*;

    fn control() -> Arc<AdmissionControl> {
        AdmissionControl::new(Settings {
            limit: LimitPolicy::Fixed(1),
            queue_max: 5,
            wait_max: Duration::from_secs(60),
            wait_in_overload: Duration::from_secs(60),
            reserve: Reserve::None,
        })
    }

    fn arrive(control: &Arc<AdmissionControl>, client: u64) -> Entry {
        control.arrive(Arriving {
            class: Class::Normal,
            client,
            timeout: None,
        })
    }

    fn place(entry: Entry) -> Place {
        match entry {
            Entry::Place(place) => place,
            other => panic!("it waits: {other:?}"),
        }
    }

    #[test]
    fn a_slot_goes_to_the_next_that_is_still_there() {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.build().unwrap();
        runtime.block_on(async {
            let control = control();
            let Entry::Pass(first) = arrive(&control, 1) else {
                panic!("it has a slot")
            };
            let (second, third) = (place(arrive(&control, 2)), place(arrive(&control, 3)));
            let mut fourth = place(arrive(&control, 4));
            drop(second);
            assert_eq!(control.state().waiting, 2);
            first.end(Sample::None);
            // The third was admitted, but leaves before it notices.
            assert_eq!(control.state().in_flight, 1);
            assert!(fourth.outcome.try_recv().is_err());
            drop(third);
            let worker = Worker::new(0, 1);
            let pass = fourth.wait(&worker, Duration::from_secs(60)).await.unwrap();
            assert_eq!((control.state().in_flight, control.state().waiting), (1, 0));
            drop(pass);
            assert_eq!(control.state().in_flight, 0);
        });
    }

    #[test]
    fn a_request_that_waits_for_too_long_is_shed() {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.build().unwrap();
        tokio::task::LocalSet::new().block_on(&runtime, async {
            let control = control();
            let first = arrive(&control, 1);
            let worker = Worker::new(0, 1);
            let waiting = place(arrive(&control, 2));
            let sweeper = worker.clone();
            tokio::task::spawn_local(async move {
                crate::tasks::yield_once().await;
                let later = sweeper.clock.coarse() + Duration::from_secs(6);
                sweeper.timers.sweep(later);
            });
            let outcome = waiting.wait(&worker, Duration::from_secs(5)).await;
            assert_eq!(outcome.map(|_| ()).unwrap_err(), Shed::Late);
            assert_eq!(control.state().totals.late, [0, 1, 0]);
            drop(first);
            assert_eq!(control.state().in_flight, 0);
        });
    }
}
