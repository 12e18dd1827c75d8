//! Servers beyond the known capacity of their upstream, as a table.

use super::shapes::Table;
use super::text::{duration, short};
use sluice_audit::finding::count;
use sluice_load::result::{Overload, OverloadStep, RunResult};

const HEADINGS: [&str; 10] = [
    "cell",
    "offered",
    "goodput",
    "p99 of admitted",
    "successful",
    "refused",
    "late",
    "broken",
    "recovery",
    "verdict",
];

/// A row for each server and overload; `None` if the result has none.
pub fn table(result: &RunResult) -> Option<Table> {
    let capacity = result.overload.first()?.capacity_per_s;
    Some(Table {
        title: format!(
            "Overload of an upstream that can serve {}/s",
            short(capacity)
        ),
        headings: HEADINGS.map(str::to_string).into(),
        rows: result.overload.iter().flat_map(rows).collect(),
    })
}

/// The latency without overload, and then each overload.
fn rows(one: &Overload) -> Vec<Vec<String>> {
    let mut calm = vec![String::new(); HEADINGS.len()];
    calm[0].clone_from(&one.cell);
    calm[1] = "0.5 x".into();
    calm[3] = duration(one.unloaded_p99_ns / 1e6);
    calm[9] = format!("at most {} in overload", duration(one.p99_max_ns / 1e6));
    let steps = one.steps.iter().map(|step| row(&one.cell, step));
    std::iter::once(calm).chain(steps).collect()
}

fn row(cell: &str, step: &OverloadStep) -> Vec<String> {
    let absent = || "–".to_string();
    let share = |share: f64| format!("{:.0} %", share * 100.0);
    let number = |number: u64| count(number as f64);
    vec![
        cell.to_string(),
        step.load.clone(),
        step.goodput.map_or_else(absent, share),
        step.p99_ns.map_or_else(absent, |ns| duration(ns / 1e6)),
        number(step.ok),
        number(step.refused),
        number(step.late),
        number(step.broken),
        step.recovery_s
            .map_or_else(absent, |seconds| format!("{seconds:.1} s")),
        step.verdict(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{example, markdown};

    #[test]
    fn overloads_are_a_table_of_the_report() {
        let mut result = example::result();
        assert!(table(&result).is_none());
        result.overload = vec![Overload {
            cell: "swift".into(),
            capacity_per_s: 500.0,
            unloaded_p99_ns: 51e6,
            p99_max_ns: 202e6,
            steps: vec![OverloadStep {
                load: "5 x".into(),
                goodput: Some(0.985),
                p99_ns: Some(120e6),
                ok: 1_490,
                refused: 6_010,
                recovery_s: Some(0.1),
                faults: vec!["latency".into()],
                disturbed: true,
                ..OverloadStep::default()
            }],
        }];
        let text = markdown::write(&result, None);
        let rows = [
            "## Overload of an upstream that can serve 500/s",
            "| swift | 0.5 x |  | 51 ms |  |  |  |  |  | at most 202 ms in overload |",
            "| swift | 5 x | 98 % | 120 ms | 1,490 | 6,010 | 0 | 0 | 0.1 s | latency (other programs interfered) |",
        ];
        for row in rows {
            assert!(text.contains(row), "{row}\n{text}");
        }
        let page = crate::page(&result, None, false);
        assert!(page.contains("Overload of an upstream"), "in HTML, too");
    }
}
