//! A2, the wire: rows that saturate the network between generator and subject measure the network.

use super::{grouped, positions, rows_word};
use crate::evidence::{Row, Sheet};
use crate::finding::{Finding, Weight, count, number, percent, span};
use crate::statistics::order::range;

/// Utilization of a known network from which it is the bottleneck.
const FULL: f64 = 0.9;

/// Utilization of a known network that rounding cannot explain: these bytes took another path, such as loopback.
const BEYOND: f64 = 1.05;

/// Rows of several subjects and levels that differ by no more than this share are flat.
const FLAT: f64 = 0.02;

/// Response size from which a flat rate indicates the network rather than the generator: at 10,000 B a generator that
/// reaches 30,000 requests/s transfers 2.4 Gbit/s.
const LARGE: f64 = 10_000.0;

/// Bits per second of successful responses.
fn bits(row: &Row) -> Option<f64> {
    Some(row.goodput()? * row.bytes()? * 8.0)
}

/// Whether a row saturates a known network.
pub fn is_full(sheet: &Sheet, row: &Row) -> bool {
    let network = sheet.conditions.network_bits;
    matches!((bits(row), network), (Some(bits), Some(network)) if (FULL * network..=BEYOND * network).contains(&bits))
}

/// Runs the rule.
pub fn check(sheet: &Sheet) -> Vec<Finding> {
    let full = positions(sheet, |row| is_full(sheet, row));
    let mut findings: Vec<Finding> = grouped(sheet, &full, |row| row.dim("test").to_string())
        .iter()
        .map(|(test, rows)| finding(sheet, test, rows, Weight::Limit))
        .collect();
    findings.extend(elsewhere(sheet));
    if sheet.conditions.network_bits.is_none() {
        let large = positions(sheet, |row| {
            row.is_clean() && row.bytes().is_some_and(|b| b >= LARGE) && bits(row).is_some()
        });
        for (test, rows) in grouped(sheet, &large, |row| row.dim("test").to_string()) {
            if is_flat(sheet, &rows) {
                findings.push(finding(sheet, &test, &rows, Weight::Note));
            }
        }
    }
    findings
}

/// Rows with more bytes than the network can carry.
fn elsewhere(sheet: &Sheet) -> Option<Finding> {
    let network = sheet.conditions.network_bits?;
    let rows = positions(sheet, |row| {
        bits(row).is_some_and(|bits| bits > BEYOND * network)
    });
    (!rows.is_empty()).then(|| {
        let title = format!("{}: more bytes than the network carries", rows_word(rows.len()));
        Finding::new("A2", Weight::Note, title)
            .means("They did not cross it (loopback), or they were counted before compression. The network does not bound these rows.")
            .advise("Omit --network, or describe the network between generator and subject.")
            .about(rows)
    })
}

/// Whether at least two subjects in at least three rows have the same rate.
fn is_flat(sheet: &Sheet, rows: &[usize]) -> bool {
    let subjects = grouped(sheet, rows, |row| row.dim("subject").to_string()).len();
    let rates: Vec<f64> = rows
        .iter()
        .filter_map(|at| sheet.rows[*at].goodput())
        .collect();
    let flat = range(&rates).is_some_and(|(low, high)| high <= low * (1.0 + FLAT));
    subjects >= 2 && rows.len() >= 3 && flat
}

fn finding(sheet: &Sheet, test: &str, rows: &[usize], weight: Weight) -> Finding {
    let each = |figure: fn(&Row) -> Option<f64>, rows: &[usize]| -> Vec<f64> {
        rows.iter()
            .filter_map(|at| figure(&sheet.rows[*at]))
            .collect()
    };
    let gigabits =
        |rows: &[usize]| -> Vec<f64> { each(bits, rows).iter().map(|bits| bits / 1e9).collect() };
    let title = format!(
        "{}{}: {} Gbit/s for every server",
        if test.is_empty() {
            String::new()
        } else {
            format!("{test}, ")
        },
        rows_word(rows.len()),
        span(&gigabits(rows), number)
    );
    let mut finding = Finding::new("A2", weight, title);
    let bytes = each(Row::bytes, rows);
    for (level, members) in grouped(sheet, rows, level) {
        let rates = each(Row::goodput, &members);
        finding = finding.line(format!(
            "{level}: {}, {}/s x {} B = {} Gbit/s",
            rows_word(members.len()),
            span(&rates, number),
            span(&bytes, count),
            span(&gigabits(&members), number)
        ));
    }
    let meaning = match sheet.conditions.network_bits {
        Some(network) => {
            let shares: Vec<f64> = each(bits, rows).iter().map(|b| b / network).collect();
            format!(
                "Bodies alone fill {} of a network of {} Gbit/s. These rows measure the network, so equal figures do not \
                 show equal servers.",
                span(&shares, percent),
                number(network / 1e9).trim_end_matches(".00").trim_end_matches(".0")
            )
        }
        None => "Different servers at different levels have the same rate, which points at something they share: the \
                 network, memory bandwidth over loopback, or the generator."
            .to_string(),
    };
    finding
        .means(meaning)
        .advise("Compare CPU time per response instead, or use a faster network.")
        .about(rows.iter().copied())
}

fn level(row: &Row) -> String {
    let clients = row.dim("clients");
    let variant = match row.dim("variant") {
        "" => "",
        _ => ", variants",
    };
    match clients {
        "" => "all levels".to_string(),
        clients => format!("{clients} clients{variant}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_not_four_times_the_network() {
        let finding_of = |rate: f64| {
            let row = Row {
                rate: Some(rate),
                response_bytes: Some(1_000_000.0),
                ..Row::default()
            };
            let mut sheet = Sheet {
                rows: vec![row],
                ..Sheet::default()
            };
            sheet.conditions.network_bits = Some(1e9);
            let found = check(&sheet).into_iter().map(|f| (f.weight, f.meaning));
            found.collect::<Vec<_>>()
        };
        let [(weight, meaning)] = &finding_of(500.0)[..] else {
            panic!("one finding")
        };
        assert_eq!(*weight, Weight::Note);
        assert!(meaning.contains("did not cross it"), "{meaning}");
        assert_eq!(finding_of(120.0)[0].0, Weight::Limit);
        assert!(finding_of(10.0).is_empty());
    }
}
