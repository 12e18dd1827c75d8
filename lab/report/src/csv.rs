//! A result as CSV (RFC 4180): one line per block, so that others can compute their own statistics.

use sluice_audit::ours;
use sluice_load::result::{Block, CellState, RunResult};

use super::text::mark_word;

/// Figures in the order of columns.
pub(crate) const FIGURES: [&str; 15] = [
    "requests", "errors", "goodput", "min", "median", "mean", "p90", "p95", "p99", "p99.9", "max",
    "cpu_us", "cpu_max", "rss_max", "bytes",
];

/// The CSV of a result. What was not measured is an empty field, never 0.
pub fn write(result: &RunResult) -> String {
    let mut axes: Vec<&String> = result
        .cells
        .iter()
        .flat_map(|cell| cell.axes.keys())
        .collect();
    axes.sort();
    axes.dedup();
    let mut headings: Vec<String> = vec!["cell".into(), "block".into(), "state".into()];
    headings.extend(axes.iter().map(|axis| axis.to_string()));
    headings.extend(FIGURES.iter().map(|figure| figure.to_string()));
    headings.extend(["seconds", "marks"].map(str::to_string));
    let mut out = line(&headings);
    for cell in &result.cells {
        let place: Vec<String> = axes
            .iter()
            .map(|axis| cell.axis(axis).to_string())
            .collect();
        if cell.blocks.is_empty() || cell.state != CellState::Measured {
            let mut fields = vec![
                cell.id.clone(),
                String::new(),
                super::markdown::state_words(&cell.state),
            ];
            fields.extend(place);
            fields.resize(headings.len(), String::new());
            out.push_str(&line(&fields));
            continue;
        }
        for (block, row) in cell.blocks.iter().zip(&ours::row(cell).blocks) {
            let mut fields = vec![
                cell.id.clone(),
                block.number.to_string(),
                "measured".to_string(),
            ];
            fields.extend(place.iter().cloned());
            fields.extend(
                FIGURES
                    .iter()
                    .map(|figure| row.figure(figure).map_or(String::new(), |v| format!("{v}"))),
            );
            fields.extend([format!("{}", block.load.window_s), marks(block)]);
            out.push_str(&line(&fields));
        }
    }
    out
}

/// The marks of a block, separated by spaces.
pub(crate) fn marks(block: &Block) -> String {
    let words = block.marks.iter().map(|mark| mark.kind);
    words.map(mark_word).collect::<Vec<&str>>().join(" ")
}

fn line(fields: &[String]) -> String {
    let quoted: Vec<String> = fields
        .iter()
        .map(|field| {
            // A leading =, +, - or @ would be a formula in a spreadsheet; numbers may begin with a minus sign.
            let formula = field.starts_with(['=', '+', '@'])
                || field.starts_with('-') && field.parse::<f64>().is_err();
            let field = if formula {
                format!("'{field}")
            } else {
                field.clone()
            };
            if field.contains([',', '"', '\n', '\r']) {
                format!("\"{}\"", field.replace('"', "\"\""))
            } else {
                field
            }
        })
        .collect();
    format!("{}\r\n", quoted.join(","))
}
