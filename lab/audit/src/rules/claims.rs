//! A11, claims against tables: checks what a report says against its own figures.

use crate::claim::{Outcome, Statement};
use crate::evidence::{Claim, Sheet};
use crate::finding::{Finding, Weight};

/// Runs the rule. Claims that no figure can decide, and that need no further comment, form one finding.
pub fn check(sheet: &Sheet) -> Vec<Finding> {
    let silent = |claim: &&Claim| claim.means.is_none() && claim.words.is_none();
    let claims = &sheet.conditions.claims;
    let decidable = claims.iter().filter(|claim| !silent(claim));
    let mut findings: Vec<Finding> = decidable.map(|claim| check_one(sheet, claim)).collect();
    let silent: Vec<&Claim> = claims.iter().filter(silent).collect();
    match silent[..] {
        [] => {}
        [one] => findings.push(check_one(sheet, one)),
        _ => {
            let title = format!("{} claims that no printed figure can decide", silent.len());
            let finding = Finding::new("A11", Weight::Gap, title);
            let lines = silent.iter().map(|claim| claim.says.clone());
            findings.push(lines.fold(finding, Finding::line));
        }
    }
    findings
}

/// The finding on one claim.
pub fn check_one(sheet: &Sheet, claim: &Claim) -> Finding {
    let words = claim.words.clone().unwrap_or_default();
    let Some(formula) = &claim.means else {
        let word = match claim.tested {
            true => "not comparable here",
            false => "no figure decides it",
        };
        return Finding::new("A11", Weight::Gap, format!("{word}: {}", claim.says)).means(words);
    };
    let outcome = match Statement::parse(formula) {
        Ok(statement) => statement.evaluate(&sheet.rows),
        Err(error) => Outcome::Undecided(format!("the formula cannot be read: {error}")),
    };
    let weight = match &outcome {
        Outcome::Holds { .. } => Weight::Sound,
        Outcome::Close { .. } => Weight::Note,
        // That a study's claim does not hold on another machine does not contradict any figure of ours.
        Outcome::Fails { .. } if claim.tested => Weight::Note,
        Outcome::Fails { .. } => Weight::Contradiction,
        Outcome::Undecided(_) => Weight::Gap,
    };
    let heading = match claim.tested {
        true => outcome.tested_word(),
        false => outcome.word(),
    };
    let mut finding =
        Finding::new("A11", weight, format!("{heading}: {}", claim.says)).line(formula.clone());
    for line in outcome.lines() {
        finding = finding.line(line);
    }
    finding.means(words)
}
