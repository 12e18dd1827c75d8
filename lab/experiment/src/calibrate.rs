//! `lab calibrate`: how much the generator can ask for on this machine, of a server that does the least possible. What comes
//! near it in a run is the generator's figure, not the server's.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::builtin;
use crate::file::{self, File};
use crate::plan::{self, Only};
use crate::progress::{Progress, Silent};
use crate::stage::Stage;
use sluice_load::machine;
use sluice_load::outcome::{Answer, Outcome, Refused};
use sluice_load::quantity::{bytes, thousands};
use sluice_load::result::{Ceiling, CellState, RunResult, SCHEMA};

/// What is measured.
#[derive(Clone, Debug)]
pub struct Options {
    /// Length of each measurement
    pub duration: Duration,
    /// Connections
    pub clients: Vec<usize>,
    /// Writes the result to a file
    pub json: Option<PathBuf>,
}

/// The experiment behind it: the floor with answers of several sizes.
const EXPERIMENT: &str = "calibrate";

/// Carries out `lab calibrate`.
pub fn run(options: &Options, live: &mut dyn Progress) -> Outcome {
    machine::raise_open_files();
    let text = builtin::read(EXPERIMENT).map_err(Refused::new)?;
    let mut file: File = file::parse(EXPERIMENT, &text).map_err(Refused::new)?;
    file.load.duration = options.duration;
    file.matrix.clients.clone_from(&options.clients);
    let cells = plan::cells(&file, &Only::default(), usize::MAX);
    let stage = Stage::build(&file, &PathBuf::from("."), 7).map_err(Refused::new)?;
    let mut ceilings = Vec::new();
    for cell in &cells {
        let block = stage
            .block(&file, cell, 7, &mut Silent)
            .map_err(|state| match state {
                CellState::DidNotStart(why) => {
                    Refused::new(format!("the floor did not start: {why}"))
                }
                other => Refused::new(format!("{other:?}")),
            })?;
        let load = &block.load;
        let ceiling = Ceiling {
            body_bytes: load.answer.as_ref().map_or(0, |answer| answer.body_bytes),
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
            "{:>8} body, {:>5} connections: {:>9}/s, {}/s, generator {:.0} % at work, floor {:.1} us CPU",
            bytes(ceiling.body_bytes as f64),
            ceiling.connections,
            thousands(ceiling.ok_per_s),
            bytes(ceiling.bytes_per_s),
            busy * 100.0,
            block.cpu_us_per_ok().unwrap_or(0.0)
        ));
        ceilings.push(ceiling);
    }
    drop(stage);
    if let Some(path) = &options.json {
        let result = RunResult {
            schema: SCHEMA.into(),
            name: "calibrate".into(),
            title: "Ceiling of the generator".into(),
            machine: machine::look(),
            ceilings,
            ..RunResult::default()
        };
        let text = serde_json::to_vec(&result).map_err(|error| Refused::new(error.to_string()))?;
        fs::write(path, text)
            .map_err(|error| Refused::new(format!("{}: {error}", path.display())))?;
    }
    Ok(Answer::Yes)
}
