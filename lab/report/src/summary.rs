//! A result without its distributions and courses over time: a JSON document that is small enough to be committed.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sluice_audit::evidence::Row;
use sluice_audit::ours;
use sluice_load::result::{Cell, CellState, RunResult};

use super::csv::{FIGURES, marks};
use super::markdown::state_words;

/// The form of the document. Fields may be added to it; `sluice-lab` reads results only, no summaries.
pub const SCHEMA: &str = "sluice.lab.summary/1";

/// The summary of a result: what it says of the machine, the experiment and the servers, and for each cell the figures
/// over all blocks and of each block, in the order of `columns`. What was not measured is `null`.
pub fn summary(result: &RunResult) -> Value {
    let mut summary = serde_json::to_value(result).expect("the keys of results are text");
    summary["schema"] = SCHEMA.into();
    summary["columns"] = FIGURES.as_slice().into();
    summary["cells"] = result.cells.iter().map(cell).collect();
    summary
}

fn cell(cell: &Cell) -> Value {
    let mut summary =
        json!({ "id": cell.id, "axes": cell.axes, "state": state_words(&cell.state) });
    if cell.blocks.is_empty() || cell.state != CellState::Measured {
        return summary;
    }
    let row = ours::row(cell);
    let blocks = cell.blocks.iter().zip(&row.blocks).map(|(block, row)| {
        json!({ "number": block.number, "seconds": block.load.window_s, "figures": figures(row), "marks": marks(block) })
    });
    summary["blocks"] = blocks.collect();
    summary["figures"] = figures(&row);
    let failures: BTreeMap<&str, u64> = row
        .failures
        .iter()
        .map(|(class, count)| (class.words(), *count))
        .collect();
    summary["failures"] = json!(failures);
    summary
}

/// The figures of a row with six digits: more would say nothing, and be most of the document.
fn figures(row: &Row) -> Value {
    let rounded = |value: f64| format!("{value:.5e}").parse::<f64>().ok();
    let figures = FIGURES
        .iter()
        .map(|name| row.figure(name).and_then(rounded));
    figures.collect::<Vec<_>>().into()
}
