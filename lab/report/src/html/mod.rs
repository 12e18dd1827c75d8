//! The report as one HTML file: self-contained, readable without scripts, printable.

mod cells;
mod scenario;
mod setup;
mod short;

use std::fmt::Write;

use super::mark_summary;
use super::markdown::title;
use super::panels::{self, Detail, Panel};
use super::text::{duration, escape};
use super::view::{LoopKind, View};
use super::{chart, shapes};
use crate::limits::{DRAWING_BYTES_MIN, PAGE_BYTES_AIM};
use sluice_audit::finding::{Finding, Weight, count};
use sluice_audit::{audit, ours, print};
use sluice_load::result::{Distribution, RunResult};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Keyboard shortcuts of the page.
const KEYS: &str = "<p class=\"soft keyhelp\">Keys: <kbd>t</kbd> theme, <kbd>[</kbd> <kbd>]</kbd> level, <kbd>,</kbd> <kbd>.</kbd> test; <kbd>Tab</kbd> to a chart, then arrows from mark to mark and from subject to subject.</p>\n";

/// The page of a result. `shape` is the number of a study whose table layout it uses. The page is kept small by
/// reducing the resolution of drawings, unless `full` is set.
pub fn page(result: &RunResult, shape: Option<&str>, full: bool) -> String {
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
    let chosen = shape.or(result
        .experiment
        .as_ref()
        .and_then(|experiment| experiment.table_shape.as_deref()));
    let claims = super::claims::html(result, chosen);
    let mut behind = String::new();
    section(&mut behind, "claims", "Claims", &claims);
    section(
        &mut behind,
        "figures",
        "All figures",
        &figures(&view, shape),
    );
    section(
        &mut behind,
        "audit",
        "What arithmetic says",
        &audit_text(&findings, &print::summary(&sheet, &findings)),
    );
    section(&mut behind, "cells", "Cell by cell", &cells::write(&view));
    section(
        &mut behind,
        "setup",
        "How it was measured",
        &setup::write(result),
    );
    let _ = writeln!(
        behind,
        "{KEYS}</main>\n<div id=\"tip\" role=\"status\" hidden></div>\n<script>\n{}</script>\n</body>\n</html>",
        script()
    );
    let room = match full {
        true => None,
        false => {
            let left = PAGE_BYTES_AIM.saturating_sub(out.len() + behind.len());
            Some(left.max(DRAWING_BYTES_MIN))
        }
    };
    drawings(&view, room, &mut out);
    out + &behind
}

/// The script without its comments and indentation.
fn script() -> String {
    let lines = SCRIPT.lines().map(str::trim_start);
    let code = lines.filter(|line| !line.is_empty() && !line.starts_with("//"));
    code.flat_map(|line| [line, "\n"]).collect()
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
    let responses: u64 = view
        .cells
        .iter()
        .flat_map(|seen| &seen.cell.blocks)
        .map(|block| block.load.ok)
        .sum();
    let failed: u64 = view
        .cells
        .iter()
        .flat_map(|seen| &seen.cell.blocks)
        .map(|block| block.counts().1)
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
        format!("{} successful responses", count(responses as f64)),
    ];
    if failed > 0 {
        facts.push(format!("{} failures", count(failed as f64)));
    }
    let _ = writeln!(
        out,
        "<header>\n<div><h1>{}</h1>\n<p class=\"facts\">{}</p></div>",
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
    for (at, name) in view
        .subjects
        .iter()
        .enumerate()
        .filter(|_| view.subjects.len() > 1)
    {
        let _ = writeln!(
            out,
            "<button type=\"button\" class=\"s{}\" data-key=\"{1}\" aria-pressed=\"true\" title=\"Show or hide in all charts\">{1}</button>",
            at % 8,
            escape(name)
        );
    }
    out.push_str("<button id=\"theme\" type=\"button\" title=\"Light, dark, or as the system (key t)\">theme: system</button>\n</div>\n</header>\n");
}

/// A filter for one value or all; empty if there is only one.
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

/// What a reader must know before any figure: notes of the run, marks of blocks, changes to the experiment, cells
/// without figures, and the most severe findings.
fn caveats(result: &RunResult, findings: &[Finding]) -> String {
    let mut lines: Vec<String> = result.notes.clone();
    lines.extend(mark_summary::sentences(result));
    let changes = result
        .experiment
        .iter()
        .flat_map(|experiment| &experiment.changes);
    lines.extend(changes.map(|change| format!("Overrides of the file: {change}")));
    let missing = result.cells.iter().filter(|cell| cell.blocks.is_empty());
    lines.extend(missing.map(|cell| {
        format!(
            "Not measured: {} ({})",
            super::view::axes(cell),
            super::markdown::state_words(&cell.state)
        )
    }));
    let heavy = findings
        .iter()
        .filter(|f| f.weight <= Weight::Limit && f.rule != "A11");
    lines.extend(heavy.map(|finding| finding.title.clone()));
    if lines.is_empty() {
        return "<p>The audit has no objection to the figures below.</p>\n".to_string();
    }
    let items: String = lines
        .iter()
        .map(|line| format!("<li>{}</li>", escape(line)))
        .collect();
    format!("<ul class=\"caveats\">{items}</ul>\n")
}

/// A group of drawings: ID and heading of its section, and each drawing as text.
struct Group {
    id: &'static str,
    heading: &'static str,
    drawn: Vec<String>,
}

/// All drawings: if they need more than `room` bytes, coarser ones, and only if the coarsest do not fit, not all of them.
fn drawings(view: &View<'_>, room: Option<usize>, out: &mut String) {
    let details = match room {
        None => vec![Detail::FULL],
        Some(_) => Detail::of_page(view.cells.len()),
    };
    let mut left = room.unwrap_or(usize::MAX);
    let bytes = |groups: &[Group]| -> usize {
        let drawn = groups.iter().flat_map(|group| &group.drawn);
        drawn.map(String::len).sum()
    };
    let mut all = Vec::new();
    for detail in details {
        all = groups(view, detail);
        if bytes(&all) <= left {
            break;
        }
    }
    for Group { id, heading, drawn } in all {
        let (mut inside, mut hidden) = (String::new(), 0);
        for drawn in drawn {
            if drawn.len() > left {
                // Later drawings matter less, and a gap in the middle would mislead.
                left = 0;
                hidden += 1;
                continue;
            }
            left -= drawn.len();
            inside.push_str(&drawn);
        }
        if !inside.is_empty() {
            inside = format!("<div class=\"charts\">{inside}</div>\n");
        }
        if hidden > 0 {
            let _ = writeln!(
                inside,
                "<p>{hidden} drawings are omitted to keep this page small; <code>lab report --full</code> writes a page with all of them, <code>--svg</code> each as a file.</p>"
            );
        }
        section(out, id, heading, &inside);
    }
}

/// All drawings: first those of study 000 (latency, failures and responses, CPU and memory over time).
fn groups(view: &View<'_>, detail: Detail) -> Vec<Group> {
    let by_level = match view.kinds()[..] {
        [LoopKind::Open] => "By offered rate",
        [LoopKind::Closed] => "By number of clients",
        _ => "By load",
    };
    let groups: [(&str, &str, Vec<Panel>); 7] = [
        ("latency", "Latency", panels::latency_bars(view)),
        (
            "overview",
            "Responses, cost, failures",
            panels::overview(view),
        ),
        (
            "time",
            "CPU and memory over time",
            panels::over_time(view, detail),
        ),
        ("curves", by_level, panels::curves(view)),
        (
            "percentiles",
            "Latency by percentile",
            panels::percentiles(view, detail),
        ),
        (
            "rates",
            "Responses over time",
            panels::rates_over_time(view, detail),
        ),
        ("heat", "Latency over time", panels::heat_maps(view, detail)),
    ];
    let group = |(id, heading, panels): (_, _, Vec<Panel>)| Group {
        id,
        heading,
        drawn: panels
            .iter()
            .map(|panel| figure(panel, view.result.layout.as_deref()))
            .collect(),
    };
    groups.map(group).into()
}

/// A drawing with the machines that its figures are from.
fn figure(panel: &Panel, layout: Option<&str>) -> String {
    let place = |name: &str, at: Option<usize>| {
        at.map_or(String::new(), |at| format!(" data-{name}=\"{at}\""))
    };
    let layout = layout.map_or(String::new(), |words| {
        format!("<figcaption>{}</figcaption>", escape(words))
    });
    format!(
        "<figure{}{}>{}{layout}</figure>\n",
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
    let overload = super::overload::table(view.result);
    for table in overload
        .iter()
        .chain(&shapes::tables(view, shape))
        .filter(|table| !table.rows.is_empty())
    {
        let _ = write!(
            out,
            "<h3>{}</h3>\n{}",
            escape(&table.title),
            table_html(&table.headings, &table.rows)
        );
    }
    out + "<p class=\"soft\">± is half the 95 % interval of successful responses per second over blocks, or half the range with fewer than five blocks. – means not measured, or too few responses.</p>\n"
}

/// A percentile, if the sample supports it.
fn listed(latency: &Distribution, percent: f64) -> String {
    let found = latency.percentiles.iter().find(|(at, _)| *at == percent);
    found.map_or("–".to_string(), |(_, ns)| duration(ns / 1e6))
}

/// A table; cells are plain text. Closing tags are omitted where HTML allows it: tables are a large part of a page.
fn table_html(headings: &[String], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String], tag: &str| -> String {
        let cells: String = cells
            .iter()
            .map(|cell| format!("<{tag}>{}", escape(cell)))
            .collect();
        format!("<tr>{cells}\n")
    };
    let body: String = rows.iter().map(|row| line(row, "td")).collect();
    format!(
        "<div class=\"wide\"><table><thead>{}<tbody>{body}</table></div>\n",
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
