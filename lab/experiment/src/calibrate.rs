//! `lab calibrate`: measures the load generator's maximum on this machine, against a server that does the least
//! possible. Results close to that maximum say more about the generator than about the server.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::builtin;
use crate::cell_filter::Only;
use crate::file::{self, File, Rate};
use crate::plan::{self, CellPlan};
use crate::progress::{Progress, Silent};
use crate::stage::{NoBlock, Sources, Stage};
use sluice_load::generator::limits::LATE_MAX;
use sluice_load::machine;
use sluice_load::outcome::{Completion, Outcome, Refused};
use sluice_load::quantity::{bytes, thousands, time};
use sluice_load::result::{Block, Ceiling, CellState, RunResult, SCHEMA};

/// Options of `lab calibrate`.
#[derive(Clone, Debug)]
pub struct Options {
    /// Length of each measurement
    pub duration: Duration,
    /// Connections
    pub clients: Vec<usize>,
    /// Write the result to a file
    pub json: Option<PathBuf>,
}

/// The experiment it runs: the floor with responses of several sizes.
const EXPERIMENT: &str = "calibrate";

/// Rates at which the send delay is measured: far apart, close together, and closer than a thread sleeps.
const RATES: [f64; 3] = [500.0, 5_000.0, 20_000.0];

/// Runs `lab calibrate`.
pub fn run(options: &Options, live: &mut dyn Progress) -> Outcome {
    machine::raise_open_files();
    let text = builtin::read(EXPERIMENT).map_err(Refused::new)?;
    let mut file: File = file::parse(EXPERIMENT, &text).map_err(Refused::new)?;
    file.load.duration = options.duration;
    file.matrix.clients.clone_from(&options.clients);
    let cells = plan::cells(&file, &Only::default(), usize::MAX);
    let stage = Stage::build(&file, Sources::Beside(".".into()), 7).map_err(Refused::new)?;
    let mut ceilings = Vec::new();
    for cell in &cells {
        let block = block(&file, &stage, cell)?;
        let load = &block.load;
        let ceiling = Ceiling {
            body_bytes: load
                .response
                .as_ref()
                .map_or(0, |response| response.body_bytes),
            connections: cell.clients,
            protocol: load.asked.protocol.clone(),
            ok_per_s: load.ok_per_s(),
            bytes_per_s: load.transfer.received_bytes as f64 / load.window_s,
        };
        let busy = load
            .generator
            .as_ref()
            .map_or(0.0, |generator| generator.busiest);
        live.line(&format!(
            "{:>8} body, {:>5} connections: {:>9}/s, {}/s, generator {:.0} % busy, floor {:.1} us CPU",
            bytes(ceiling.body_bytes as f64),
            ceiling.connections,
            thousands(ceiling.ok_per_s),
            bytes(ceiling.bytes_per_s),
            busy * 100.0,
            block.cpu_us_per_ok().unwrap_or(0.0)
        ));
        ceilings.push(ceiling);
    }
    let notes = lateness(&mut file, &stage, live)?;
    drop(stage);
    if let Some(path) = &options.json {
        let result = RunResult {
            schema: SCHEMA.into(),
            name: "calibrate".into(),
            title: "Ceiling of the load generator".into(),
            machine: machine::look(),
            ceilings,
            notes,
            ..RunResult::default()
        };
        let text = serde_json::to_vec(&result).map_err(|error| Refused::new(error.to_string()))?;
        fs::write(path, text)
            .map_err(|error| Refused::new(format!("{}: {error}", path.display())))?;
    }
    Ok(Completion::Yes)
}

/// Measures how late an open loop sends its requests, at several rates: the load generator's own share of latencies.
/// Returns sentences.
fn lateness(
    file: &mut File,
    stage: &Stage,
    live: &mut dyn Progress,
) -> Result<Vec<String>, Refused> {
    let only = Only::parse("test=tiny").map_err(Refused::new)?;
    let mut lines = Vec::new();
    for rate in RATES {
        file.load.rate = Some(Rate::PerSecond(rate));
        let Some(cell) = plan::cells(file, &only, usize::MAX).into_iter().last() else {
            continue;
        };
        let block = block(file, stage, &cell)?;
        let lag = block.load.generator.as_ref().map(|one| &one.send_lag);
        let at = |percent: f64| lag.and_then(|lag| lag.percentile(percent));
        let words = match (at(50.0), at(99.0)) {
            (Some(p50), Some(p99)) => {
                let late = p99 > LATE_MAX.as_nanos() as f64;
                let word = if late { "LATE" } else { "on time" };
                let (p50, p99) = (time(p50), time(p99));
                format!(
                    "requests leave {p50} after they are due (median), 99 % within {p99}: {word}"
                )
            }
            _ => "no connection was free when a request was due".to_string(),
        };
        let text = format!("open loop of {}/s: {words}", thousands(rate));
        live.line(&text);
        lines.push(text);
    }
    Ok(lines)
}

fn block(file: &File, stage: &Stage, cell: &CellPlan) -> Result<Block, Refused> {
    let block = stage.block((file, cell), 7, None, &mut Silent);
    block.map_err(|none| match none {
        NoBlock::Cell(CellState::DidNotStart(why)) => {
            Refused::new(format!("the floor did not start: {why}"))
        }
        other => Refused::new(format!("{other:?}")),
    })
}
