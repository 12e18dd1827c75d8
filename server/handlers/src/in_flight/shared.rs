//! `in_flight` with `distributed`: a limit that several nodes share. The slots are in a store; the requests of this node that
//! wait for one stand in a line, whose first asks for them all.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use sluice_model::handler::{SharedFlight as Config, SharedLimit};
use sluice_net::clock;
use sluice_net::gate::{Gate, Pass, Shut};
use sluice_net::signal::Signal;
use sluice_net::timeout::within;
use sluice_net::worker::Worker;
use sluice_pipeline::build::Builder;
use sluice_pipeline::refusal::Refusal;

use crate::limit_store::StoreUse;
use crate::limits::{SLOT_NAME_BYTES_MAX, SLOT_RETRY};
use crate::shared_slots::{SharedSlots, SlotHeld};

/// The slots of a limit.
pub struct Shared {
    slots: Arc<SharedSlots>,
    max: u32,
}

/// The requests of one key that wait for a slot, in first-come order.
pub struct Line {
    /// The first has it, the others wait for it; `None` if none may wait.
    turn: Option<Gate>,
    /// Raised when a request of this node has left its slot.
    freed: Signal,
}

impl Shared {
    /// Reads the settings of a limit of `max` requests.
    ///
    /// # Errors
    /// A setting is invalid or missing.
    pub fn build(
        config: &Config,
        max: usize,
        builder: &mut Builder<'_>,
    ) -> Result<Shared, Refusal> {
        let name = &config.name;
        if name.is_empty() || name.len() > SLOT_NAME_BYTES_MAX {
            return Err(
                Refusal::new("`in_flight` with `distributed`, and without a name").with_help(
                    format!(
                        "write `name NAME`, up to {SLOT_NAME_BYTES_MAX} bytes: limits of the same name are one"
                    ),
                ),
            );
        }
        // Without the store a node still keeps the limit by itself.
        if !matches!(config.on_error.as_str(), "" | "local" | "closed") {
            return Err(Refusal::new(format!("`on_error {}`", config.on_error))
                .with_help("write `local` or `closed`"));
        }
        let store_use = StoreUse::build(
            &SharedLimit {
                store: config.store.clone(),
                ca: config.ca.clone(),
                deadline: config.deadline,
                on_error: config.on_error.clone(),
                ..SharedLimit::default()
            },
            builder,
        )?;
        Ok(Shared {
            slots: SharedSlots::of(name, store_use, builder.recorder),
            max: u32::try_from(max)
                .map_err(|_| Refusal::new(format!("`in_flight` with {max} requests")))?,
        })
    }

    /// Where the slots are counted, without secrets.
    pub fn place(&self) -> &str {
        self.slots.place()
    }

    /// Takes a slot that this node holds and does not use.
    pub fn take_unused(&self, key: &[u8]) -> Option<SlotHeld> {
        self.slots.take_unused(key)
    }

    /// Takes a slot of this node and one among those of all, for which it waits in the line for at most `timeout`.
    pub async fn enter(
        &self,
        worker: &Rc<Worker>,
        key: &[u8],
        lane: (&Gate, &Line),
        timeout: Duration,
    ) -> Result<(Pass, SlotHeld), Shut> {
        let (_, line) = lane;
        // Those that wait already come first.
        if line.len() == 0
            && let Some(taken) = self.attempt(worker, key, lane).await
        {
            return Ok(taken);
        }
        let began = clock::now();
        let turn = line.turn.as_ref().ok_or(Shut::QueueFull)?;
        let _turn = turn.enter(worker, timeout).await?;
        loop {
            let freed = line.freed.wait();
            if let Some(taken) = self.attempt(worker, key, lane).await {
                return Ok(taken);
            }
            let left = timeout.saturating_sub(clock::now().since(began));
            if left.is_zero() {
                return Err(Shut::TooLong);
            }
            // Nobody reports what other nodes free.
            within(worker, left.min(SLOT_RETRY), freed).await;
        }
    }

    async fn attempt(
        &self,
        worker: &Rc<Worker>,
        key: &[u8],
        (gate, line): (&Gate, &Line),
    ) -> Option<(Pass, SlotHeld)> {
        let pass = gate.try_enter()?;
        let behind = line.turn.as_ref().map_or(0, Gate::waiting);
        let behind = u32::try_from(behind).unwrap_or(u32::MAX);
        let slot = self.slots.enter(worker, key, (self.max, behind)).await?;
        Some((pass, slot))
    }
}

impl Line {
    /// A line for up to `max` requests.
    pub fn new(max: usize) -> Line {
        Line {
            turn: max.checked_sub(1).map(|behind| Gate::new(1, behind)),
            freed: Signal::default(),
        }
    }

    /// How many requests stand in it.
    pub fn len(&self) -> usize {
        let turn = self.turn.as_ref();
        turn.map_or(0, |turn| turn.in_flight() + turn.waiting())
    }

    /// A request of this node has left its slot: the first in the line may have it.
    pub fn move_up(&self) {
        self.freed.raise();
    }
}
