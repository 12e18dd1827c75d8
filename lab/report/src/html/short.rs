//! The summary in a few lines: each subject against the first one, in ratios and verdicts, and the verdicts on claims.

use std::fmt::Write;

use super::super::compare::{Quantity, floor, ratio, two_cells};
use super::super::text::escape;
use super::super::view::View;
use sluice_audit::finding::{count, number, resolved};
use sluice_audit::statistics::verdict::Verdict;

/// A table per test: levels down, subjects across.
pub fn write(view: &View<'_>) -> String {
    let Some(base) = view.subjects.first() else {
        return "<p>No cell has figures.</p>\n".to_string();
    };
    let mut out = String::new();
    let floor = floor(view.result);
    if view.subjects.len() > 1 {
        let floor = floor.map_or(
            "No subject was measured twice, so the noise floor is unknown.".to_string(),
            |floor| {
                format!(
                    "One subject compared with itself differs by up to {:.1} %.",
                    (floor - 1.0) * 100.0
                )
            },
        );
        let _ = writeln!(
            out,
            "<p>Successful responses per second, and CPU time per response, compared with <b>{}</b>, paired within blocks. {floor}</p>",
            escape(base)
        );
    }
    let heading: String = view
        .subjects
        .iter()
        .map(|name| format!("<th>{}</th>", escape(name)))
        .collect();
    let _ = write!(
        out,
        "<div class=\"wide\"><table class=\"short\"><thead><tr><th></th>{heading}</tr></thead><tbody>"
    );
    for test in 0..view.tests.len() {
        let measured = |level: &usize| !view.beside(test, *level).is_empty();
        for level in (0..view.levels.len()).filter(measured) {
            let cells: String = (0..view.subjects.len())
                .map(|subject| cell(view, subject, test, level, floor))
                .collect();
            let place = [view.tests[test].clone(), view.level_name(level)];
            let place: Vec<&str> = place
                .iter()
                .map(String::as_str)
                .filter(|part| !part.is_empty())
                .collect();
            let _ = writeln!(
                out,
                "<tr><td>{}</td>{cells}</tr>",
                escape(&place.join(", "))
            );
        }
    }
    out.push_str("</tbody></table></div>\n");
    out.push_str(&total(view));
    out
}

/// All responses of the run, repeated attempts included.
fn total(view: &View<'_>) -> String {
    let blocks = view.result.cells.iter().flat_map(|cell| &cell.blocks);
    let (mut ok, mut failed, mut number) = (0, 0, 0);
    for block in blocks {
        let (all, bad) = block.counts();
        (ok, failed, number) = (ok + all, failed + bad, number + 1);
    }
    format!(
        "<p>In all: {} successful responses and {} failures in {} blocks.</p>\n",
        count(ok as f64),
        count(failed as f64),
        count(f64::from(number))
    )
}

fn cell(view: &View<'_>, subject: usize, test: usize, level: usize, floor: Option<f64>) -> String {
    let Some(seen) = view.at(subject, test, level) else {
        return "<td class=\"none\">–</td>".to_string();
    };
    let rate = seen.stat("goodput").map_or("–".to_string(), |stat| {
        format!("{}/s", number(stat.point))
    });
    let cpu = seen.stat("cpu_us").map_or(String::new(), |stat| {
        let shown = resolved(stat.point, seen.row.cpu_us_step);
        format!("<small>{shown} µs</small>")
    });
    let failed = seen.row.failed_share.filter(|share| *share > 0.0);
    let failed = failed.map_or(String::new(), |share| {
        format!(
            "<small class=\"bad\">{} failed</small>",
            sluice_audit::finding::percent(share)
        )
    });
    let link = format!("<a href=\"#cell-{}\">{rate}</a>", escape(&seen.cell.id));
    let base = view.at(0, test, level).filter(|_| subject > 0);
    let words = base.map_or(String::new(), |base| {
        let compared = two_cells(base.cell, seen.cell, Quantity::Rate, floor);
        let cost = two_cells(base.cell, seen.cell, Quantity::Cpu, floor);
        let costs = cost
            .paired
            .as_ref()
            .map_or(String::new(), |_| format!(", {} CPU", ratio(&cost)));
        format!(
            "<em class=\"{}\">{}{costs}<br>{}</em>",
            class(&compared.verdict),
            ratio(&compared),
            escape(&compared.verdict.to_string())
        )
    });
    format!("<td>{link}{cpu}{failed}{words}</td>")
}

fn class(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => "good",
        Verdict::Slower => "bad",
        _ => "soft",
    }
}
