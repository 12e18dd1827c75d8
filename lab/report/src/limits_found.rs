//! The limits of which rates are shares, in words.

use super::view::axes;
use sluice_audit::finding::count;
use sluice_load::result::{Cell, Mode, RateLimit, RunResult};

/// A line for each limit: the server and its test, then the limit with the rates that are shares of it.
pub fn lines(result: &RunResult) -> Vec<(String, String)> {
    let line = |limit: &RateLimit| {
        let mut axes = limit.axes.clone();
        axes.remove("rate");
        let place = self::axes(&Cell {
            axes,
            ..Cell::default()
        });
        let mut rates: Vec<String> = Vec::new();
        for cell in result.cells.iter().filter(|cell| is_share(cell, limit)) {
            let Some(rate) = rate(cell) else { continue };
            let (share, rate) = (cell.axis("rate"), count(rate));
            let text = match cell.axis("subject") == limit.axes["subject"] {
                true => format!("{share}: {rate}/s"),
                false => format!("{share} for {}: {rate}/s", cell.axis("subject")),
            };
            if !rates.contains(&text) {
                rates.push(text);
            }
        }
        let met = limit.tried.iter().filter(|one| one.broken.is_none());
        let rates = match rates.is_empty() {
            true => String::new(),
            false => format!("; {}", rates.join("; ")),
        };
        let text = format!(
            "{}/s meet {} (closed loop {}/s; {} of {} rates tried for {} s met it){rates}",
            count(limit.per_s),
            limit.objective,
            count(limit.closed_per_s),
            met.count(),
            limit.tried.len(),
            limit.step_s
        );
        (format!("Limit of {place}"), text)
    };
    result.limits.iter().map(line).collect()
}

/// Whether the rate of a cell is a share of this limit.
fn is_share(cell: &Cell, limit: &RateLimit) -> bool {
    let of = |axis: &str| limit.axes.get(axis).map_or("", String::as_str);
    let named = cell.axis("rate").split_once(" of limit of ");
    let subject = named.map_or(cell.axis("subject"), |(_, name)| name);
    let same = ["test", "config", "clients", "workers", "rate"];
    subject == of("subject") && same.iter().all(|axis| cell.axis(axis) == of(axis))
}

/// The rate of a cell in requests per second.
fn rate(cell: &Cell) -> Option<f64> {
    match cell.blocks.first()?.load.asked.mode {
        Mode::Open { rate, .. } => Some(rate),
        Mode::Closed => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;
    use sluice_load::result::RateTried;

    #[test]
    fn a_rate_is_a_share_of_the_limit_of_as_many_workers() {
        let of = |workers: &str| {
            let axes = [
                ("subject", "a"),
                ("workers", workers),
                ("rate", "60 % of limit"),
            ];
            let axes = axes.map(|(axis, value)| (axis.to_string(), value.to_string()));
            Cell {
                axes: axes.into(),
                ..Cell::default()
            }
        };
        let limit = RateLimit {
            axes: of("1").axes,
            ..RateLimit::default()
        };
        assert!(is_share(&of("1"), &limit) && !is_share(&of("2"), &limit));
    }

    #[test]
    fn a_limit_is_shown_with_the_rates_that_are_shares_of_it() {
        let mut result = example::result();
        result.cells.truncate(2);
        for (cell, rate) in result.cells.iter_mut().zip([600.0, 300.0]) {
            cell.axes.insert("rate".into(), "60 % of limit".into());
            for block in &mut cell.blocks {
                block.load.asked.mode = Mode::Open {
                    rate,
                    poisson: false,
                };
            }
        }
        let limit = |cell: &Cell, per_s: f64| RateLimit {
            axes: cell.axes.clone(),
            objective: "p99<50ms".into(),
            per_s,
            closed_per_s: 1_100.0,
            step_s: 1.0,
            tried: vec![
                RateTried::default(),
                RateTried {
                    broken: Some("p99 70 ms".into()),
                    ..RateTried::default()
                },
            ],
            ..RateLimit::default()
        };
        result.limits = vec![
            limit(&result.cells[0], 1_000.0),
            limit(&result.cells[1], 500.0),
        ];
        let text: Vec<String> = lines(&result).into_iter().map(|(_, text)| text).collect();
        let expected = |limit: &str, rate: &str| {
            format!(
                "{limit}/s meet p99<50ms (closed loop 1,100/s; 1 of 2 rates tried for 1 s met it); 60 % of limit: {rate}/s"
            )
        };
        assert_eq!(text, [expected("1,000", "600"), expected("500", "300")]);
        let page = crate::html::page(&result, None, false);
        assert!(page.contains("Limit of clients 10, subject ") && page.contains("1,000/s meet"));
        // Both are at one level, so they are compared.
        let view = crate::view::View::new(&result);
        assert_eq!(view.levels.len(), 1);
        assert_eq!(view.level_name(0), "60 % of limit");
    }
}
