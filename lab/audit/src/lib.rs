//! `sluice-lab audit`: checks any report by arithmetic and says what does not add up. Figures are read by `read`, judged by
//! `rules`, sentences of a report by `claim`; `studies` holds five published reports. How a finding looks is in `print`.

#![forbid(unsafe_code)]

pub mod claim;
pub mod evidence;
pub mod finding;
pub mod limits;
pub mod ours;
pub mod print;
pub mod read;
pub mod rules;
pub mod statistics;
pub mod studies;
#[cfg(test)]
mod tests;

use evidence::Sheet;
use finding::Finding;

/// Everything that arithmetic has to say about a report, the heaviest first.
pub fn audit(sheet: &Sheet) -> Vec<Finding> {
    let mut findings = rules::all(sheet);
    findings.sort_by_key(|finding| (finding.weight, rule_number(finding.rule)));
    findings
}

fn rule_number(rule: &str) -> u32 {
    rule[1..].parse().unwrap_or(0)
}
