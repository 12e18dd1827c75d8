//! What issue after issue found different in `caddy adapt`, as a table: for each file of `adapt_table/cases.txt` both
//! programs give the same JSON, to the letter, or both refuse the file. A difference that is accepted stands with its
//! reason behind the name of the case, as `| <where>: <reason>`; one that has gone fails the run.

use std::collections::BTreeMap;

use super::adapt_random::{Caddy, Outcome, first_difference, ours};
use crate::support::servers;

const CASES: &str = include_str!("adapt_table/cases.txt");

/// Minimum number of cases with the same JSON.
const SAME_MIN: usize = 75;

/// A file that both programs adapt.
struct Case {
    /// `<topic>: <what>`.
    name: &'static str,
    /// Where the accepted difference is, and its reason.
    accepted: Option<(&'static str, &'static str)>,
    text: &'static str,
}

fn cases() -> Vec<Case> {
    let parts = CASES.split("=== ").skip(1);
    let cases = parts.map(|part| {
        let (head, text) = part.split_once('\n').expect("a head");
        let (name, accepted) = match head.split_once(" | ") {
            Some((name, accepted)) => (name, accepted.split_once(": ")),
            None => (head, None),
        };
        Case {
            name,
            accepted,
            text,
        }
    });
    cases.collect()
}

/// What is different between both results, and whether both refuse the file.
fn difference(caddy: &Caddy, text: &str) -> (Option<String>, bool) {
    match (caddy.adapt(text), ours(text)) {
        (Outcome::Json(theirs), Outcome::Json(ours)) => {
            (first_difference(&theirs, &ours, String::new()), false)
        }
        (Outcome::Refused(_), Outcome::Refused(_)) => (None, true),
        (Outcome::Refused(text), Outcome::Json(_)) => {
            (Some(format!("only caddy refuses: {text}")), false)
        }
        (Outcome::Json(_), Outcome::Refused(text)) => {
            (Some(format!("only sluice refuses: {text}")), false)
        }
    }
}

#[test]
#[ignore = "a slower kind: cargo xtask peer"]
fn former_differences_adapt_as_in_caddy() {
    let Some(path) = servers::caddy() else {
        return;
    };
    let caddy = Caddy::start(&path);
    let (mut same, mut refused, mut with_reason, mut failures) = (0, 0, 0, Vec::new());
    let mut topics: BTreeMap<&str, usize> = BTreeMap::new();
    for case in cases() {
        let topic = case.name.split(':').next().unwrap_or(case.name);
        *topics.entry(topic).or_default() += 1;
        match (difference(&caddy, case.text), case.accepted) {
            ((None, true), None) => refused += 1,
            ((None, false), None) => same += 1,
            ((Some(found), _), Some((place, _))) if found.contains(place) => with_reason += 1,
            ((Some(found), _), _) => failures.push(format!("{}: {found}", case.name)),
            ((None, _), Some((place, _))) => {
                failures.push(format!("{}: {place} has gone away", case.name));
            }
        }
    }
    println!("{topics:?}");
    println!(
        "{same} the same JSON, {refused} refused by both, {with_reason} different with a reason, {} without",
        failures.len()
    );
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(same >= SAME_MIN, "only {same} cases give the same JSON");
}
