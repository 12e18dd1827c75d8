//! A3, the generator: rows whose rate is limited by the load generator. Different servers that agree to a per cent
//! although neither is saturated are the usual sign.

use super::{grouped, lines, positions, rows_word, wire};
use crate::evidence::{Row, Sheet};
use crate::finding::{Finding, Weight, number, percent, span};
use crate::statistics::order::range;

/// Share of the calibrated ceiling beyond which the generator influences the figure.
const CEILING: f64 = 0.8;

/// Utilization of its cores beyond which the generator is saturated.
const BUSY: f64 = 0.85;

/// Different servers closer than this are suspected to show something they share.
const TWINS: f64 = 0.02;

/// A drop of the rate between two levels that is worth a line.
const FALL: f64 = 0.1;

/// Runs the rule.
pub fn check(sheet: &Sheet) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(ceiling) = sheet.conditions.generator_rate {
        let rows = positions(sheet, |row| {
            row.rate_counted().is_some_and(|r| r > CEILING * ceiling)
        });
        findings.extend(known(sheet, &rows, "near its ceiling", |row| {
            let rate = row.rate_counted().unwrap_or(0.0);
            format!(
                "{}/s is {} of {}/s",
                number(rate),
                percent(rate / ceiling),
                number(ceiling)
            )
        }));
    }
    let busy = positions(sheet, |row| row.generator_share.is_some_and(|s| s > BUSY));
    findings.extend(known(sheet, &busy, "full", |row| {
        format!(
            "{} of its cores in use",
            percent(row.generator_share.unwrap_or(0.0))
        )
    }));
    findings.extend(twins(sheet));
    findings
}

fn known(
    sheet: &Sheet,
    rows: &[usize],
    how: &str,
    line: impl Fn(&Row) -> String,
) -> Option<Finding> {
    if rows.is_empty() {
        return None;
    }
    let title = format!("{}: the generator was {how}", rows_word(rows.len()));
    let finding = Finding::new("A3", Weight::Limit, title)
        .means(
            "Rate and latency of these rows are partly the generator's own; they rank no servers.",
        )
        .advise("Compare CPU time per successful response, or give the generator more cores.");
    Some(lines(finding, sheet, rows, line))
}

/// Groups of clean rows with different subjects and nearly the same rate.
fn twins(sheet: &Sheet) -> Vec<Finding> {
    let usable = positions(sheet, |row| {
        row.is_clean()
            && row.rate_counted().is_some()
            && !wire::is_full(sheet, row)
            && !is_full(row)
    });
    let mut close: Vec<(String, Vec<usize>)> = Vec::new();
    for (_, rows) in grouped(sheet, &usable, |row| key(row, &["subject", "config"])) {
        let Some(members) = twin_rows(sheet, &rows) else {
            continue;
        };
        let test = sheet.rows[members[0]].dim("test").to_string();
        match close.iter_mut().find(|(known, _)| *known == test) {
            Some((_, all)) => all.extend(members),
            None => close.push((test, members)),
        }
    }
    close
        .iter()
        .map(|(test, rows)| twin_finding(sheet, test, rows))
        .collect()
}

/// Whether the server used all its cores, so that it is its own limit. False if CPU usage is unknown.
fn is_full(row: &Row) -> bool {
    row.marks
        .iter()
        .any(|mark| mark.starts_with("the subject was full"))
}

/// The largest set of rows within `TWINS` that has more than one subject.
fn twin_rows(sheet: &Sheet, rows: &[usize]) -> Option<Vec<usize>> {
    let rate = |at: &usize| sheet.rows[*at].rate_counted().unwrap_or(0.0);
    let within = |base: &usize| -> Vec<usize> {
        let near = |at: &&usize| rate(at) >= rate(base) && rate(at) <= rate(base) * (1.0 + TWINS);
        rows.iter().filter(near).copied().collect()
    };
    let several = |set: &Vec<usize>| grouped(sheet, set, |row| program(row).to_string()).len() > 1;
    rows.iter().map(within).filter(several).max_by_key(Vec::len)
}

/// The program: a subject measured twice is called `<name> (again)` the second time.
fn program(row: &Row) -> &str {
    row.dim("subject").trim_end_matches(" (again)")
}

fn key(row: &Row, without: &[&str]) -> String {
    let dims = row
        .dims
        .iter()
        .filter(|(dim, _)| !without.contains(&dim.as_str()));
    dims.map(|(dim, value)| format!("{dim}={value} ")).collect()
}

fn twin_finding(sheet: &Sheet, test: &str, rows: &[usize]) -> Finding {
    let heading = if test.is_empty() { "" } else { test };
    let levels = grouped(sheet, rows, |row| row.dim("clients").to_string());
    let title = format!(
        "{heading}{}different servers agree within {}",
        if heading.is_empty() { "" } else { ": " },
        percent(TWINS)
    );
    let mut finding = Finding::new("A3", Weight::Limit, title);
    for (clients, members) in &levels {
        let rates: Vec<f64> = members
            .iter()
            .filter_map(|at| sheet.rows[*at].rate_counted())
            .collect();
        let (low, high) = range(&rates).unwrap_or((1.0, 1.0));
        let names: Vec<&str> = members
            .iter()
            .map(|at| sheet.rows[*at].name.as_str())
            .collect();
        let at = if clients.is_empty() {
            String::new()
        } else {
            format!("{clients} clients: ")
        };
        finding = finding.line(format!(
            "{at}{} at {}/s, {} apart",
            names.join(", "),
            span(&rates, number),
            percent(high / low - 1.0)
        ));
    }
    let falls = falls(sheet, rows);
    let together = match falls.is_empty() {
        true => String::new(),
        false => {
            finding = finding.line(format!(
                "with more clients they fall together: {}",
                falls.join("; ")
            ));
            " What falls with the number of clients for every server alike is on the generator's side.".to_string()
        }
    };
    let words = "Servers that share no code rarely cost the same; the rate is likely that of the load program.";
    finding
        .means(format!("{words}{together}"))
        .advise("Calibrate the generator against a server that does nothing; compare CPU time per response.")
        .about(rows.iter().copied())
}

/// For each subject with its configuration: drops of the rate from one level to the next.
fn falls(sheet: &Sheet, rows: &[usize]) -> Vec<String> {
    let subjects = grouped(sheet, rows, |row| key(row, &["clients"]));
    let mut found = Vec::new();
    for (_, members) in subjects {
        for pair in members.windows(2) {
            let (before, after) = (&sheet.rows[pair[0]], &sheet.rows[pair[1]]);
            let rates = (
                before.rate_counted().unwrap_or(0.0),
                after.rate_counted().unwrap_or(0.0),
            );
            if rates.1 < rates.0 * (1.0 - FALL) && after.clients > before.clients {
                found.push(format!(
                    "{} {} to {}/s from {} to {} clients",
                    after.name,
                    number(rates.0),
                    number(rates.1),
                    before.dim("clients"),
                    after.dim("clients")
                ));
            }
        }
    }
    found
}
