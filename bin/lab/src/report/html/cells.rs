//! Every cell with its blocks, failures, connections, checks and what the server said: where a figure comes from.

use std::fmt::Write;

use super::super::text::{duration, escape, size};
use super::super::view::{Seen, View};
use super::table_html;
use crate::audit::finding::{count, number, percent};
use crate::result::Block;

/// All cells, closed.
pub fn write(view: &View<'_>) -> String {
    view.cells.iter().map(|seen| cell(view, seen)).collect()
}

fn cell(view: &View<'_>, seen: &Seen<'_>) -> String {
    let place = [
        view.subjects[seen.subject].clone(),
        view.tests[seen.test].clone(),
        view.level_name(seen.level),
    ];
    let place: Vec<&str> = place
        .iter()
        .map(String::as_str)
        .filter(|part| !part.is_empty())
        .collect();
    let flags: String = seen
        .flags()
        .iter()
        .map(|(short, text)| format!(" <b class=\"flag\" title=\"{}\">{short}</b>", escape(text)))
        .collect();
    let mut out = format!(
        "<details id=\"cell-{}\" data-test=\"{}\" data-level=\"{}\"><summary>{}{flags}</summary>\n",
        escape(&seen.cell.id),
        seen.test,
        seen.level,
        escape(&place.join(", "))
    );
    let headings = [
        "block",
        "good/s",
        "failed",
        "median",
        "p99",
        "max",
        "CPU µs",
        "memory",
        "connections",
        "answers each",
    ];
    let rows: Vec<Vec<String>> = seen.cell.blocks.iter().map(block_row).collect();
    out.push_str(&table_html(&headings.map(str::to_string), &rows));
    lists(seen, &mut out);
    if let Some(answer) = seen
        .cell
        .blocks
        .first()
        .and_then(|block| block.load.answer.as_ref())
    {
        let _ = writeln!(
            out,
            "<p>Answer: {} + {} B, SHA-256 {}</p><pre>{}</pre>",
            answer.head_bytes,
            answer.body_bytes,
            escape(&answer.body_sha256),
            escape(answer.head.trim_end())
        );
    }
    out.push_str("</details>\n");
    out
}

fn lists(seen: &Seen<'_>, out: &mut String) {
    list(out, "Failures", failures(seen));
    list(
        out,
        "Warnings",
        seen.cell
            .blocks
            .iter()
            .flat_map(|block| {
                block
                    .marks
                    .iter()
                    .map(|mark| format!("block {}: {}", block.number, mark.text))
            })
            .collect(),
    );
    list(out, "Checks", checks(seen));
    list(
        out,
        "The server said",
        seen.cell
            .blocks
            .iter()
            .flat_map(|block| block.log.iter().cloned())
            .collect(),
    );
}

fn block_row(block: &Block) -> Vec<String> {
    let load = &block.load;
    let total = &load.latency.total;
    let ms = |ns: Option<f64>| ns.map_or("–".to_string(), |ns| duration(ns / 1e6));
    let carried = |percent: f64| {
        let carries = crate::statistics::order::carries(percent / 100.0, total.count);
        total.percentile(percent).filter(|_| carries)
    };
    let told = !load
        .engine
        .not_measured
        .iter()
        .any(|field| field == "connections");
    let or_dash = |text: String| if told { text } else { "–".to_string() };
    let each = load.connections.answered as f64 / (load.connections.opened.max(1)) as f64;
    vec![
        block.number.to_string(),
        number(load.ok_per_s()),
        percent(load.failed_share()),
        ms(carried(50.0)),
        ms(carried(99.0)),
        ms(total.max_ns),
        block.cpu_us_per_ok().map_or("–".into(), number),
        block
            .resources
            .as_ref()
            .map_or("–".into(), |r| size(r.subject.rss_peak_bytes as f64)),
        or_dash(count(load.connections.opened as f64)),
        or_dash(number(each)),
    ]
}

fn failures(seen: &Seen<'_>) -> Vec<String> {
    let all = seen.cell.blocks.iter().flat_map(|block| {
        block
            .load
            .failures
            .iter()
            .map(move |failures| (block.number, failures))
    });
    all.map(|(number, failures)| {
        let statuses: Vec<String> = failures
            .statuses
            .iter()
            .map(|(status, n)| format!("{status} x {n}"))
            .collect();
        let example = failures
            .example
            .as_ref()
            .map_or(String::new(), |text| format!(" ({text})"));
        format!(
            "block {number}: {} {}{example} {}",
            count(failures.count as f64),
            failures.class.words(),
            statuses.join(", ")
        )
    })
    .collect()
}

fn checks(seen: &Seen<'_>) -> Vec<String> {
    let all = seen.cell.blocks.iter().flat_map(|block| &block.checks);
    all.map(|check| {
        let word = match check.holds {
            Some(true) => "holds",
            Some(false) => "does not hold",
            None => "could not be seen",
        };
        format!("{}: {word}, {}", check.claim, check.seen)
    })
    .collect()
}

fn list(out: &mut String, heading: &str, lines: Vec<String>) {
    if lines.is_empty() {
        return;
    }
    let items: String = lines
        .iter()
        .map(|line| format!("<li>{}</li>", escape(line)))
        .collect();
    let _ = writeln!(out, "<h4>{heading}</h4><ul>{items}</ul>");
}
