//! A load of one target as a result, and the target's memory during the load.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sluice_load::generator::probe::sha256;
use sluice_load::generator::target::{Address, Target};
use sluice_load::generator::{Plan, Stage};
use sluice_load::machine;
use sluice_load::result::{Block, Cell, CellState, FailureClass, Load, Mode, RunResult, SCHEMA};
use sluice_load::sample::{Roots, Watched, owner};

use crate::progress::Progress;

/// The live view of a single load. The server's processes are shown if they are known.
pub fn view(plan: &Plan, live: &mut dyn Progress, behind: Duration) {
    let name = match plan.mode {
        Mode::Closed => format!("{}, {} connections", plan.target.url, plan.connections),
        Mode::Open { rate, .. } => {
            let rate = sluice_load::quantity::thousands(rate);
            format!("{}, {rate}/s due", plan.target.url)
        }
    };
    live.begin(&name, plan.warmup + plan.duration, behind);
    live.watch(&Roots {
        subject: server(&plan.target),
        backend: Vec::new(),
    });
}

/// The target's processes, if it runs on this machine.
fn server(target: &Target) -> Vec<u32> {
    match &target.address {
        Address::Tcp(address) if address.ip().is_loopback() => owner::listeners(address.port()),
        Address::Tcp(_) | Address::Unix(_) => Vec::new(),
    }
}

/// The server's memory before and with the held connections.
pub struct Memory {
    roots: Vec<u32>,
    without: Option<u64>,
    with: Option<u64>,
}

impl Memory {
    /// Of the server at this address.
    pub fn of(target: &Target) -> Self {
        Memory::of_processes(server(target))
    }

    /// Of these processes with all their children; if there are none, memory is unknown.
    pub fn of_processes(roots: Vec<u32>) -> Self {
        Memory {
            roots,
            without: None,
            with: None,
        }
    }

    /// Takes a reading at the right stages.
    pub fn look(&mut self, stage: &Stage) {
        let rss = || Watched::new(&self.roots).sample(false).rss_bytes;
        let known = !self.roots.is_empty();
        match stage {
            Stage::Alone if known => self.without = Some(rss()),
            Stage::Held if known => self.with = Some(rss()),
            Stage::Alone | Stage::Held | Stage::Window(..) | Stage::Running(..) => {}
        }
    }

    /// Writes the readings into the result.
    pub fn put(&self, load: &mut Load) {
        if let Some(held) = &mut load.held {
            (held.rss_without_bytes, held.rss_with_bytes) = (self.without, self.with);
        }
    }
}

/// The result as written to a file: one cell with one block.
pub fn result(load: Load, plan: &Plan, started: SystemTime, took: Duration) -> RunResult {
    let url = &plan.target.url;
    let unix = started.duration_since(UNIX_EPOCH).unwrap_or_default();
    let started_unix_ms = unix.as_millis() as u64;
    let axes = [
        ("subject", url.clone()),
        ("test", url.clone()),
        ("clients", plan.connections.to_string()),
    ];
    let unusable = FailureClass::ALL
        .into_iter()
        .any(|class| class.is_ours() && load.failed_in(class) > 0);
    let notes = unusable.then(|| "the generator ran out of ports or file descriptors".to_string());
    RunResult {
        schema: SCHEMA.into(),
        name: "hit".into(),
        title: url.clone(),
        command: std::env::args().collect(),
        started_unix_ms,
        duration_s: took.as_secs_f64(),
        seed: plan.seed,
        machine: machine::look(),
        cells: vec![Cell {
            id: sha256(url.as_bytes())[..12].into(),
            axes: axes.map(|(name, value)| (name.to_string(), value)).into(),
            state: CellState::Measured,
            blocks: vec![Block {
                started_unix_ms,
                load,
                ..Block::default()
            }],
            ..Cell::default()
        }],
        notes: notes.into_iter().collect(),
        ..RunResult::default()
    }
}
