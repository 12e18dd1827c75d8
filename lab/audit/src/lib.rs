//! `sluice-lab audit`: checks the arithmetic of any report and lists what does not add up. Figures are parsed by
//! `read`, checked by `rules`, claims of a report by `claim`; `studies` has five published reports, `print` formats
//! findings.

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

/// All findings about a report, the most severe first.
pub fn audit(sheet: &Sheet) -> Vec<Finding> {
    let mut findings = rules::all(sheet);
    findings.sort_by_key(|finding| (finding.weight, rule_number(finding.rule)));
    findings
}

fn rule_number(rule: &str) -> u32 {
    rule[1..].parse().unwrap_or(0)
}
