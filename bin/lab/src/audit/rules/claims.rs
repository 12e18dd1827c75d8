//! A11, sentences against tables: what a report says, held against its own figures.

use crate::audit::claim::{Outcome, Statement};
use crate::audit::evidence::{Claim, Sheet};
use crate::audit::finding::{Finding, Weight};

/// The rule.
pub fn check(sheet: &Sheet) -> Vec<Finding> {
    let claims = sheet.conditions.claims.iter();
    claims.map(|claim| check_one(sheet, claim)).collect()
}

fn check_one(sheet: &Sheet, claim: &Claim) -> Finding {
    let words = claim.words.clone().unwrap_or_default();
    let Some(formula) = &claim.means else {
        let title = format!("no figure can tell: {}", claim.says);
        return Finding::new("A11", Weight::Gap, title).means(words);
    };
    let outcome = match Statement::parse(formula) {
        Ok(statement) => statement.evaluate(&sheet.rows),
        Err(error) => Outcome::Undecided(format!("the formula cannot be read: {error}")),
    };
    let (weight, heading) = match &outcome {
        Outcome::Holds { .. } => (Weight::Sound, "holds"),
        Outcome::Close { .. } => (Weight::Note, "too close to call"),
        Outcome::Fails { .. } => (Weight::Contradiction, "does not hold"),
        Outcome::Undecided(_) => (Weight::Gap, "not decidable here"),
    };
    let mut finding =
        Finding::new("A11", weight, format!("{heading}: {}", claim.says)).line(formula.clone());
    for line in outcome.lines() {
        finding = finding.line(line);
    }
    finding.means(words)
}
