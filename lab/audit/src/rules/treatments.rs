//! A12, treatment checks: an option counts as tested only if there is evidence that it took effect.

use crate::evidence::Sheet;
use crate::finding::{Finding, Weight};

/// Runs the rule.
pub fn check(sheet: &Sheet) -> Vec<Finding> {
    let treatments = sheet.conditions.treatments.iter();
    treatments
        .map(|treatment| match &treatment.evidence {
            Some(evidence) => Finding::new("A12", Weight::Sound, format!("{}: seen to act", treatment.name))
                .line(evidence.clone())
                .means(treatment.words.clone()),
            None => Finding::new("A12", Weight::Gap, format!("{}: nothing shows that it acted", treatment.name))
                .means(treatment.words.clone())
                .advise("Observe the effect before the run: system calls, reuse of connections, hits of a cache, workers."),
        })
        .collect()
}
