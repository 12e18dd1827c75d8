//! A result as Markdown: tables in a study's layout, beside the figures printed in the study, and the verdicts on
//! claims.

use std::fmt::Write;

use super::shapes::{Table, beside, tables};
use super::view::{Seen, View, axes};
use sluice_audit::evidence::Row;
use sluice_audit::finding::Weight;
use sluice_audit::{audit, ours, studies};
use sluice_load::result::{CellState, RunResult};

/// The Markdown of a result. `shape` is the number of a study.
pub fn write(result: &RunResult, shape: Option<&str>) -> String {
    let view = View::new(result);
    let chosen = shape.or(result
        .experiment
        .as_ref()
        .and_then(|experiment| experiment.table_shape.as_deref()));
    let mut out = format!("# {}\n\n{}\n", title(result), conditions(result));
    for table in super::overload::table(result)
        .into_iter()
        .chain(tables(&view, chosen))
    {
        if !table.title.is_empty() {
            let _ = write!(out, "\n## {}\n", table.title);
        }
        out.push('\n');
        out.push_str(&table_text(&table));
    }
    for cell in result
        .cells
        .iter()
        .filter(|cell| cell.state != CellState::Measured)
    {
        let _ = writeln!(
            out,
            "\nNot measured: {} ({})",
            axes(cell),
            state_words(&cell.state)
        );
    }
    if let Some((shape, published)) = chosen.and_then(|shape| Some((shape, studies::study(shape)?)))
    {
        out.push_str(&beside_published(&view, shape, published));
    }
    out.push_str(&super::claims::markdown(result, chosen));
    out.push_str(&findings(result));
    out
}

/// The title of a result.
pub fn title(result: &RunResult) -> String {
    if result.title.is_empty() {
        result.name.clone()
    } else {
        result.title.clone()
    }
}

fn conditions(result: &RunResult) -> String {
    let words = super::text::machine_words;
    let mut lines = vec![format!("{}.", words(&result.machine))];
    let upstreams = result.upstream_machine.as_ref().map(words);
    lines.extend(upstreams.map(|words| format!("Machine of the upstreams: {words}.")));
    if !result.command.is_empty() {
        lines.push(format!(
            "Created by `{}` with seed {}.",
            result.command.join(" "),
            result.seed
        ));
    }
    let limits = super::limits_found::lines(result).into_iter();
    lines.extend(limits.map(|(name, text)| format!("{name}: {text}.")));
    lines.extend(result.notes.iter().cloned());
    lines.extend(super::mark_summary::sentences(result));
    lines.join("\n")
}

/// A table in Markdown.
pub fn table_text(table: &Table) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let mut out = line(&table.headings);
    let dashes: Vec<String> = table
        .headings
        .iter()
        .enumerate()
        .map(|(at, _)| if at == 0 { "---" } else { "---:" }.into())
        .collect();
    out.push_str(&line(&dashes));
    table.rows.iter().for_each(|row| out.push_str(&line(row)));
    out
}

/// Cells with the printed row that each reproduces: as stated by the experiment, else by name if that is unambiguous.
fn pairs<'a>(view: &'a View<'_>, study: &'a studies::Study) -> Vec<(&'a Seen<'a>, &'a Row)> {
    let printed = &study.sheet.rows;
    let said = view.result.experiment.iter().flat_map(|one| &one.beside);
    let said: Vec<_> = said.collect();
    if !said.is_empty() {
        let pairs = said.into_iter().flat_map(|one| {
            let row = printed.iter().find(|row| row.matches(&one.printed));
            let cells = view.cells.iter().filter(|seen| {
                let mut wanted = one.here.iter();
                wanted.all(|(axis, value)| seen.cell.axis(axis) == value)
            });
            cells.filter_map(move |seen| Some((seen, row?)))
        });
        return pairs.collect();
    }
    let pair = |seen: &'a Seen<'a>| {
        let fits = |row: &&Row| {
            let shared = row
                .dims
                .iter()
                .filter(|(dim, _)| seen.cell.axes.contains_key(*dim));
            let mut shared = shared.peekable();
            shared.peek().is_some() && shared.all(|(dim, value)| seen.cell.axis(dim) == value)
        };
        let mut found = printed.iter().filter(fits);
        // A row that matches several printed ones is paired with none.
        match (found.next(), found.next()) {
            (Some(row), None) => Some((seen, row)),
            _ => None,
        }
    };
    view.cells.iter().filter_map(pair).collect()
}

/// Figures of this run below those printed in a study, in its columns, for rows that both have.
fn beside_published(view: &View<'_>, shape: &str, study: Result<studies::Study, String>) -> String {
    let Ok(study) = study else {
        return String::new();
    };
    let pairs = pairs(view, &study);
    if pairs.is_empty() {
        return String::new();
    }
    format!(
        "\n## Compared with the printed figures\n\nMachine and versions differ: compare orders of magnitude and ratios, not figures. \
         Counts belong to windows of different lengths.\n\n{}",
        table_text(&beside(shape, &pairs))
    )
}

fn findings(result: &RunResult) -> String {
    let sheet = ours::sheet(result);
    let found = audit(&sheet);
    let heavy: Vec<_> = found
        .iter()
        .filter(|f| f.weight != Weight::Sound && f.rule != "A11")
        .collect();
    if heavy.is_empty() {
        return String::new();
    }
    let mut out = String::from("\n## Audit\n");
    for finding in heavy {
        let _ = write!(
            out,
            "\n- **{}: {}** {}",
            finding.rule, finding.title, finding.meaning
        );
        for line in &finding.arithmetic {
            let _ = write!(out, "\n  - {line}");
        }
    }
    out.push('\n');
    out
}

/// Why a cell has no figures.
pub fn state_words(state: &CellState) -> String {
    match state {
        CellState::Pending => "not yet".into(),
        CellState::Measured => "measured".into(),
        CellState::NotInstalled(reason) => format!("not installed: {reason}"),
        CellState::DidNotStart(reason) => format!("did not start: {reason}"),
        CellState::Skipped(reason) => format!("skipped: {reason}"),
    }
}
