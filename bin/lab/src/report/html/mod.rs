//! The report as one HTML file: everything in it, nothing fetched, readable without scripts, printable.

mod cells;
mod setup;
mod short;

use std::fmt::Write;

use super::markdown::title;
use super::marked;
use super::panels::{self, Panel};
use super::text::escape;
use super::view::View;
use super::{chart, shapes};
use crate::audit::finding::{Finding, Weight, count};
use crate::audit::{audit, ours, print};
use crate::limits::REPORT_DRAWINGS_MAX;
use crate::result::RunResult;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The page of a result. `shape` is the number of a study whose tables it takes.
pub fn page(result: &RunResult, shape: Option<&str>) -> String {
    let view = View::new(result);
    let sheet = ours::sheet(result);
    let findings = audit(&sheet);
    let mut out =
        String::from("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    let _ = writeln!(
        out,
        "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n<title>{}</title>\n<style>\n{}\n{STYLE}</style>\n</head>\n<body>",
        escape(&title(result)),
        chart::STYLE
    );
    head(result, &view, &mut out);
    out.push_str("<main>\n");
    section(
        &mut out,
        "caveats",
        "Read this first",
        &caveats(result, &findings),
    );
    section(&mut out, "short", "In short", &short::write(&view));
    section(&mut out, "claims", "Claims", &short::claims(&findings));
    drawings(&view, &mut out);
    section(&mut out, "figures", "All figures", &figures(&view, shape));
    section(
        &mut out,
        "audit",
        "What arithmetic says",
        &audit_text(&findings, &print::summary(&sheet, &findings)),
    );
    section(&mut out, "cells", "Cell by cell", &cells::write(&view));
    section(
        &mut out,
        "setup",
        "How it was measured",
        &setup::write(result),
    );
    let _ = writeln!(
        out,
        "</main>\n<div id=\"tip\" role=\"status\" hidden></div>\n<script>\n{SCRIPT}</script>\n</body>\n</html>"
    );
    out
}

fn section(out: &mut String, id: &str, heading: &str, inside: &str) {
    if !inside.is_empty() {
        let _ = writeln!(
            out,
            "<section id=\"{id}\">\n<h2>{heading}</h2>\n{inside}</section>"
        );
    }
}

fn head(result: &RunResult, view: &View<'_>, out: &mut String) {
    let answers: u64 = view
        .cells
        .iter()
        .flat_map(|seen| &seen.cell.blocks)
        .map(|block| block.load.ok)
        .sum();
    let failed: u64 = view
        .cells
        .iter()
        .flat_map(|seen| &seen.cell.blocks)
        .map(|block| block.load.failed())
        .sum();
    let blocks = view
        .cells
        .iter()
        .map(|seen| seen.cell.blocks.len())
        .max()
        .unwrap_or(0);
    let mut facts = vec![
        plural(view.subjects.len(), "subject"),
        plural(view.cells.len(), "cell"),
        plural(blocks, "block"),
        format!("{} good answers", count(answers as f64)),
    ];
    if failed > 0 {
        facts.push(format!("{} failures", count(failed as f64)));
    }
    let _ = writeln!(
        out,
        "<header>\n<h1>{}</h1>\n<p class=\"facts\">{}</p>",
        escape(&title(result)),
        facts.join("<span> · </span>")
    );
    out.push_str("<div class=\"controls\">\n");
    choice(
        out,
        "test",
        &view.tests.iter().map(String::clone).collect::<Vec<_>>(),
    );
    choice(
        out,
        "level",
        &(0..view.levels.len())
            .map(|level| view.level_name(level))
            .collect::<Vec<_>>(),
    );
    out.push_str("<button id=\"theme\" type=\"button\" title=\"Light, dark, or as the system says (key t)\">theme: system</button>\n</div>\n</header>\n");
}

/// A choice of one place or all; nothing when there is one only.
fn choice(out: &mut String, id: &str, names: &[String]) {
    if names.len() < 2 {
        return;
    }
    let _ = write!(
        out,
        "<label>{id} <select id=\"{id}\"><option value=\"\">all</option>"
    );
    for (at, name) in names.iter().enumerate() {
        let _ = write!(out, "<option value=\"{at}\">{}</option>", escape(name));
    }
    out.push_str("</select></label>\n");
}

fn plural(count: usize, noun: &str) -> String {
    if count == 1 {
        format!("1 {noun}")
    } else {
        format!("{count} {noun}s")
    }
}

/// What a reader must know before any figure: notes of the run, marks of blocks, changes to the experiment, cells without figures, and the
/// heaviest findings.
fn caveats(result: &RunResult, findings: &[Finding]) -> String {
    let mut lines: Vec<String> = result.notes.clone();
    lines.extend(marked::sentences(result));
    let changes = result
        .experiment
        .iter()
        .flat_map(|experiment| &experiment.changes);
    lines.extend(changes.map(|change| format!("Other than the file says: {change}")));
    let missing = result.cells.iter().filter(|cell| cell.blocks.is_empty());
    lines.extend(missing.map(|cell| {
        format!(
            "Not measured: {} ({})",
            super::markdown::axes(cell),
            super::markdown::state_words(&cell.state)
        )
    }));
    let heavy = findings
        .iter()
        .filter(|f| f.weight <= Weight::Limit && f.rule != "A11");
    lines.extend(heavy.map(|finding| finding.title.clone()));
    if lines.is_empty() {
        return "<p>Nothing stands against the figures below.</p>\n".to_string();
    }
    let items: String = lines
        .iter()
        .map(|line| format!("<li>{}</li>", escape(line)))
        .collect();
    format!("<ul class=\"caveats\">{items}</ul>\n")
}

fn drawings(view: &View<'_>, out: &mut String) {
    let mut left = REPORT_DRAWINGS_MAX;
    let mut latency = panels::latency_bars(view);
    latency.extend(panels::percentiles(view));
    latency.sort_by_key(|panel| (panel.test, panel.level));
    let groups: [(&str, &str, Vec<Panel>); 5] = [
        (
            "overview",
            "Answers, cost, failures",
            panels::overview(view),
        ),
        ("latency", "Latency", latency),
        (
            "curves",
            if view.is_open() {
                "Against the offered rate"
            } else {
                "Against the number of clients"
            },
            panels::curves(view),
        ),
        ("time", "Over time", panels::over_time(view)),
        ("heat", "Latency over time", panels::heat_maps(view)),
    ];
    for (id, heading, panels) in groups {
        let shown = &panels[..panels.len().min(left)];
        left -= shown.len();
        let mut inside: String = shown.iter().map(figure).collect();
        if !inside.is_empty() {
            inside = format!("<div class=\"charts\">{inside}</div>\n");
        }
        if shown.len() < panels.len() {
            let _ = writeln!(
                inside,
                "<p>{} more are left out here; <code>lab report --svg</code> writes all of them.</p>",
                panels.len() - shown.len()
            );
        }
        section(out, id, heading, &inside);
    }
}

fn figure(panel: &Panel) -> String {
    let place = |name: &str, at: Option<usize>| {
        at.map_or(String::new(), |at| format!(" data-{name}=\"{at}\""))
    };
    format!(
        "<figure{}{}>{}</figure>\n",
        place("test", panel.test),
        place("level", panel.level),
        panel.drawing.draw(false)
    )
}

fn figures(view: &View<'_>, shape: Option<&str>) -> String {
    let shape = shape.or(view
        .result
        .experiment
        .as_ref()
        .and_then(|e| e.table_shape.as_deref()));
    let mut out = String::new();
    for table in shapes::tables(view, shape)
        .iter()
        .filter(|table| !table.rows.is_empty())
    {
        let _ = write!(
            out,
            "<h3>{}</h3>\n{}",
            escape(&table.title),
            table_html(&table.headings, &table.rows)
        );
    }
    out + "<p class=\"soft\">± is half the 95 % interval of good answers per second over blocks; with fewer than five blocks half the range. – was not measured, or too few answers carry it.</p>\n"
}

/// A table; cells are text.
fn table_html(headings: &[String], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String], tag: &str| -> String {
        let cells: String = cells
            .iter()
            .map(|cell| format!("<{tag}>{}</{tag}>", escape(cell)))
            .collect();
        format!("<tr>{cells}</tr>\n")
    };
    let body: String = rows.iter().map(|row| line(row, "td")).collect();
    format!(
        "<div class=\"wide\"><table>\n<thead>{}</thead>\n<tbody>{body}</tbody></table></div>\n",
        line(headings, "th")
    )
}

fn audit_text(findings: &[Finding], summary: &str) -> String {
    let mut out = format!(
        "<p>{}. The rules are explained in the lab's guide.</p>\n",
        escape(summary)
    );
    for weight in Weight::ALL {
        let mut of_weight = findings
            .iter()
            .filter(|f| f.weight == weight && f.rule != "A11")
            .peekable();
        if of_weight.peek().is_none() {
            continue;
        }
        let _ = writeln!(out, "<h3>{}</h3>", weight.heading());
        for finding in of_weight {
            let _ = write!(
                out,
                "<details class=\"finding\"><summary><b>{}</b> {}</summary>",
                finding.rule,
                escape(&finding.title)
            );
            let lines: String = finding
                .arithmetic
                .iter()
                .map(|line| format!("<li>{}</li>", escape(line)))
                .collect();
            let _ = writeln!(
                out,
                "<ul>{lines}</ul><p>{} <i>{}</i></p></details>",
                escape(&finding.meaning),
                escape(&finding.advice)
            );
        }
    }
    out
}
