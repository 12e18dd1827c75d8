//! Every cell with its blocks, failures, connections, checks and server output: the source of each figure.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::super::text::{duration, escape, size};
use super::super::view::{Seen, View};
use super::{listed, table_html};
use crate::limits::REPORT_LIST_LINES_MAX;
use sluice_audit::finding::{count, number, percent, resolved};
use sluice_load::result::{Block, Distribution, FirstResponse, Histogram, LoadPart};

/// All cells, collapsed.
pub fn write(view: &View<'_>) -> String {
    let mut shown = Shown::default();
    let cells = view.cells.iter();
    cells.map(|seen| cell(view, seen, &mut shown)).collect()
}

/// What the page has already shown and need not repeat.
#[derive(Default)]
struct Shown<'a> {
    responses: Vec<ShownResponse<'a>>,
    /// Lines of server output, without the parts that differ between runs.
    said: BTreeSet<String>,
}

/// A response already shown: its head without volatile headers, its digest, and its cell.
type ShownResponse<'a> = (String, &'a str, String);

fn cell<'a>(view: &View<'a>, seen: &Seen<'a>, shown: &mut Shown<'a>) -> String {
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
        "responses each",
    ];
    let rows: Vec<Vec<String>> = seen.cell.blocks.iter().map(block_row).collect();
    out.push_str(&table_html(&headings.map(str::to_string), &rows));
    parts(seen, &mut out);
    super::scenario::write(seen, &mut out);
    lists(seen, &mut shown.said, &mut out);
    let mut blocks = seen.cell.blocks.iter();
    if let Some(found) = blocks.find_map(|block| block.load.response.as_ref()) {
        response(found, &place.join(", "), &mut shown.responses, &mut out);
    }
    out.push_str("</details>\n");
    out
}

/// Figures of each request of a mix: counts of all blocks, and their merged latencies.
fn parts(seen: &Seen<'_>, out: &mut String) {
    let mut sums: Vec<(&LoadPart, u64, u64, Histogram)> = Vec::new();
    for part in seen.cell.blocks.iter().flat_map(|block| &block.load.parts) {
        let at = sums.iter().position(|(known, ..)| known.name == part.name);
        let at = at.unwrap_or_else(|| {
            sums.push((part, 0, 0, Histogram::new()));
            sums.len() - 1
        });
        let (_, ok, failed, merged) = &mut sums[at];
        (*ok, *failed) = (*ok + part.ok, *failed + part.failed);
        if let Some(hdr) = &part.latency.hdr {
            merged.merge(hdr);
        }
    }
    if sums.is_empty() {
        return;
    }
    let rows: Vec<Vec<String>> = sums
        .into_iter()
        .map(|(part, ok, failed, merged)| {
            let latency = Distribution::of(merged);
            let listed = |percent: f64| listed(&latency, percent);
            vec![
                part.name.clone(),
                part.weight.to_string(),
                count(ok as f64),
                count(failed as f64),
                listed(50.0),
                listed(99.0),
            ]
        })
        .collect();
    let headings = ["request", "weight", "successful", "failed", "median", "p99"];
    out.push_str(&table_html(&headings.map(str::to_string), &rows));
}

/// The response that all others were compared with; a reference if an earlier cell had the same.
fn response<'a>(
    response: &'a FirstResponse,
    place: &str,
    shown: &mut Vec<ShownResponse<'a>>,
    out: &mut String,
) {
    let head = response.head.replace('\r', "");
    let lines = head.lines().map(|line| {
        let name = line.split(':').next().unwrap_or_default();
        let changes = ["date", "last-modified", "etag", "expires"];
        match changes.iter().any(|one| name.eq_ignore_ascii_case(one)) {
            true => name,
            false => line,
        }
    });
    let (key, digest) = (
        lines.collect::<Vec<_>>().join("\n"),
        response.body_sha256.as_str(),
    );
    let same = shown
        .iter()
        .find(|(head, body, _)| *head == key && *body == digest);
    if let Some((_, _, first)) = same {
        let _ = writeln!(out, "<p>Response: as in {}</p>", escape(first));
        return;
    }
    let _ = writeln!(
        out,
        "<p>Response: {} + {} B, SHA-256 {}…</p><pre>{}</pre>",
        response.head_bytes,
        response.body_bytes,
        escape(digest.get(..16).unwrap_or(digest)),
        escape(head.trim_end())
    );
    shown.push((key, digest, place.to_string()));
}

fn lists(seen: &Seen<'_>, shown: &mut BTreeSet<String>, out: &mut String) {
    let blocks = || seen.cell.blocks.iter();
    let marks = blocks().flat_map(|block| {
        let number = block.number.to_string();
        let marks = block.marks.iter();
        marks.map(move |mark| (mark.text.clone(), number.clone()))
    });
    let checks = blocks().flat_map(|block| {
        let number = block.number.to_string();
        block.checks.iter().map(move |check| {
            let word = match check.holds {
                Some(true) => "holds",
                Some(false) => "does not hold",
                None => "could not be seen",
            };
            (
                format!("{}: {word}, {}", check.claim, check.seen),
                number.clone(),
            )
        })
    });
    let said = blocks().flat_map(|block| {
        let number = block.number.to_string();
        let lines = block.log.iter();
        lines.map(move |line| (line.clone(), number.clone()))
    });
    list(out, "Failures", failures(seen));
    list(out, "Warnings", gathered(marks));
    list(out, "Checks", gathered(checks));
    // Numbers and addresses differ between runs; a server started for each block repeats the rest every time.
    let kind = |line: &str| -> String { line.chars().filter(|c| !c.is_ascii_hexdigit()).collect() };
    let all: Vec<(String, String)> = said.collect();
    let new = all.iter().filter(|(line, _)| !shown.contains(&kind(line)));
    let mut lines = gathered(new.cloned());
    let known = all.iter().filter(|(line, _)| shown.contains(&kind(line)));
    match known.count() {
        0 => {}
        1 => lines.push("1 line as in a cell above".to_string()),
        count => lines.push(format!("{count} lines as in cells above")),
    }
    shown.extend(all.iter().map(|(line, _)| kind(line)));
    list(out, "The server said", lines);
}

/// Texts with the blocks they belong to. Texts that differ only in numbers are listed once.
fn gathered(texts: impl Iterator<Item = (String, String)>) -> Vec<String> {
    let mut kinds: Vec<(String, String, Vec<String>, usize)> = Vec::new();
    for (text, block) in texts {
        let kind: String = text.chars().filter(|c| !c.is_ascii_digit()).collect();
        match kinds.iter_mut().find(|(known, ..)| *known == kind) {
            Some((_, _, blocks, count)) => {
                *count += 1;
                if !blocks.contains(&block) {
                    blocks.push(block);
                }
            }
            None => kinds.push((kind, text, vec![block], 1)),
        }
    }
    let lines = kinds.into_iter().map(|(_, text, blocks, count)| {
        let times = match count > blocks.len() {
            true => format!(", {count} such lines"),
            false => String::new(),
        };
        let noun = if blocks.len() > 1 { "blocks" } else { "block" };
        format!("{text} ({noun} {}{times})", blocks.join(", "))
    });
    lines.collect()
}

fn block_row(block: &Block) -> Vec<String> {
    let load = &block.load;
    let total = &load.latency.total;
    let ms = |ns: Option<f64>| ns.map_or("–".to_string(), |ns| duration(ns / 1e6));
    let carried = |percent: f64| {
        let carries = sluice_audit::statistics::order::carries(percent / 100.0, total.count);
        total.percentile(percent).filter(|_| carries)
    };
    let is_measured = !load
        .engine
        .not_measured
        .iter()
        .any(|field| field == "connections");
    let or_dash = |text: String| if is_measured { text } else { "–".to_string() };
    let each = load.connections.responses as f64 / (load.connections.opened.max(1)) as f64;
    vec![
        block.number.to_string(),
        number(load.ok_per_s()),
        percent(load.failed_share()),
        ms(carried(50.0)),
        ms(carried(99.0)),
        ms(total.max_ns),
        block
            .cpu_us_per_ok()
            .map_or("–".into(), |us| resolved(us, block.cpu_us_step())),
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
        let failures = block.failures();
        failures.map(move |failures| (block.number, failures))
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

fn list(out: &mut String, heading: &str, lines: Vec<String>) {
    if lines.is_empty() {
        return;
    }
    let shown = lines.iter().take(REPORT_LIST_LINES_MAX);
    let items: String = shown
        .map(|line| format!("<li>{}</li>", escape(line)))
        .collect();
    let more = match lines.len().saturating_sub(REPORT_LIST_LINES_MAX) {
        0 => String::new(),
        more => format!("<li>{more} more are in the result</li>"),
    };
    let _ = writeln!(out, "<h4>{heading}</h4><ul>{items}{more}</ul>");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_differ_in_numbers_alone_are_one() {
        let texts = [
            ("other processes used 1.9 CPUs", "0"),
            ("other processes used 0.4 CPUs", "2"),
            ("08:18:31 [alert] 438: not enough", "1"),
            ("08:18:32 [alert] 438: not enough", "1"),
            ("08:18:32 [alert] 440: not enough", "1"),
        ];
        let texts = texts.map(|(text, block)| (text.to_string(), block.to_string()));
        assert_eq!(
            gathered(texts.into_iter()),
            [
                "other processes used 1.9 CPUs (blocks 0, 2)",
                "08:18:31 [alert] 438: not enough (block 1, 3 such lines)"
            ]
        );
    }

    #[test]
    fn a_response_is_shown_once() {
        let made = |date: &str, server: &str| FirstResponse {
            head: format!("HTTP/1.1 200 OK\r\nDate: {date}\r\nServer: {server}\r\n"),
            body_sha256: "ab".repeat(32),
            ..FirstResponse::default()
        };
        let (one, later, other) = (made("1", "a"), made("2", "a"), made("1", "b"));
        let (mut shown, mut out) = (Vec::new(), String::new());
        response(&one, "a, 10 clients", &mut shown, &mut out);
        response(&later, "a, 20 clients", &mut shown, &mut out);
        response(&other, "b, 10 clients", &mut shown, &mut out);
        assert_eq!(out.matches("<pre>").count(), 2);
        assert!(out.contains("<p>Response: as in a, 10 clients</p>") && !out.contains('\r'));
    }
}
