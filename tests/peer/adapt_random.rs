//! Random Caddyfiles for both programs: both must produce the same JSON, or both must reject the file.
//!
//! `SLUICE_SEED` selects other files, `SLUICE_COUNT` their number.

mod accepted;
mod caddy;
mod generate;
mod shrink;

use serde_json::Value;
use sluice_caddyfile::{MemoryLoader, adapt};

use accepted::{Accepted, accepted, normal};
pub(super) use caddy::Caddy;
use generate::{Chance, Grammar, mutate, untidy};
use shrink::shrink;

use crate::support::servers;

/// Number of files in a run, which takes some seconds.
const COUNT: u64 = 1500;

/// Number of files for the formatters, one of which needs a process per file.
const FORMATTED: u64 = 200;

/// Number of differences that are printed; the others are only counted.
const SHOWN_MAX: usize = 12;

fn number(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// The result for a file.
pub(super) enum Outcome {
    Json(Value),
    Refused(String),
}

pub(super) fn ours(text: &str) -> Outcome {
    let adapted = adapt("Caddyfile", text, &MemoryLoader::default());
    match adapted.config {
        Some(config) => {
            let json = config.to_json();
            Outcome::Json(serde_json::from_str(&json).expect("it is JSON"))
        }
        None => Outcome::Refused(adapted.report.short()),
    }
}

#[test]
#[ignore = "a slower kind: cargo xtask peer"]
fn both_adapt_random_files_alike() {
    let Some(path) = servers::caddy() else {
        return;
    };
    let caddy = Caddy::start(&path);
    let grammar = Grammar::read();
    let (seed, count) = (number("SLUICE_SEED", 1), number("SLUICE_COUNT", COUNT));
    let (mut same, mut refused, mut known, mut failures) = (0, 0, 0, Vec::new());
    for number in seed..seed + count {
        let mut chance = Chance::new(number);
        let mut text = grammar.file(&mut chance);
        let is_mutated = number % 3 == 0;
        if is_mutated {
            text = mutate(&text, &mut chance);
        }
        match compare(&caddy, &text) {
            Compared::Adapted => same += 1,
            Compared::Refused => refused += 1,
            Compared::Differ(what) if accepted(&text, &what, is_mutated) == Accepted::Listed => {
                known += 1
            }
            Compared::Differ(what) => {
                let shows = |text: &str| {
                    matches!(compare(&caddy, text), Compared::Differ(other)
                        if kind(&other) == kind(&what) && accepted(text, &other, is_mutated) == Accepted::No)
                };
                let short = if failures.len() < SHOWN_MAX {
                    shrink(&text, shows)
                } else {
                    String::new()
                };
                failures.push(format!("seed {number}: {what}\n{short}"));
            }
        }
    }
    println!(
        "{count} files from seed {seed}: {same} adapted by both, {refused} refused by both, {known} differ as listed"
    );
    let shown = failures.iter().take(SHOWN_MAX).cloned().collect::<Vec<_>>();
    assert!(
        failures.is_empty(),
        "{} differ\n{}",
        failures.len(),
        shown.join("\n")
    );
    assert!(same > refused, "most files are to be valid");
}

/// The comparison of both results.
enum Compared {
    Adapted,
    Refused,
    Differ(String),
}

fn compare(caddy: &Caddy, text: &str) -> Compared {
    match (caddy.adapt(text), ours(text)) {
        (Outcome::Json(theirs), Outcome::Json(ours)) => {
            first_difference(&normal(theirs), &normal(ours), String::new())
                .map_or(Compared::Adapted, Compared::Differ)
        }
        (Outcome::Refused(_), Outcome::Refused(_)) => Compared::Refused,
        (Outcome::Refused(theirs), Outcome::Json(_)) => {
            Compared::Differ(format!("only caddy refuses: {theirs}"))
        }
        (Outcome::Json(_), Outcome::Refused(ours)) => {
            Compared::Differ(format!("only sluice refuses: {ours}"))
        }
    }
}

/// The part of a difference that stays the same when the rest of the file changes.
fn kind(difference: &str) -> String {
    let words = difference
        .split(['/', ' ', ':'])
        .filter(|word| !word.is_empty());
    let plain = words.filter(|word| !word.starts_with(|c: char| c.is_ascii_digit()));
    let last = difference.split(": ").next().unwrap_or_default();
    match last.starts_with('/') {
        true => last.rsplit('/').next().unwrap_or_default().to_owned(),
        false => plain
            .take(20)
            .filter(|word| !word.contains("Caddyfile"))
            .collect(),
    }
}

#[test]
#[ignore = "a slower kind: cargo xtask peer"]
fn both_format_random_files_alike() {
    let Some(path) = servers::caddy() else {
        return;
    };
    let caddy = Caddy::start(&path);
    let grammar = Grammar::read();
    let (seed, count) = (number("SLUICE_SEED", 1), number("SLUICE_COUNT", FORMATTED));
    let mut failures = Vec::new();
    for number in seed..seed + count {
        let mut chance = Chance::new(number);
        // `caddy fmt` takes the delimiter for a heredoc and joins it with the next word.
        let text = grammar.file(&mut chance).replace("<< >>", "[[ ]]");
        let text = untidy(&text, &mut chance);
        let differs = |text: &str| {
            let opened = text
                .lines()
                .filter(|line| line.trim_end().ends_with('{'))
                .count();
            let closed = text.lines().filter(|line| line.trim() == "}").count();
            let ours = sluice_caddyfile::format("Caddyfile", text);
            opened == closed && ours.is_ok_and(|ours| ours != without_ends(&caddy.format(text)))
        };
        let ours = sluice_caddyfile::format("Caddyfile", &text);
        let ours = ours.unwrap_or_else(|report| panic!("seed {number}: {}", report.short()));
        let again = sluice_caddyfile::format("Caddyfile", &ours).ok();
        assert_eq!(
            again.as_ref(),
            Some(&ours),
            "seed {number}: formatting twice changes something"
        );
        if without_ends(&caddy.format(&text)) != ours {
            let short = if failures.len() < SHOWN_MAX {
                shrink(&text, differs)
            } else {
                String::new()
            };
            failures.push(format!("seed {number}\n{short}"));
        }
    }
    println!("{count} files from seed {seed} formatted alike");
    let shown = failures.iter().take(SHOWN_MAX).cloned().collect::<Vec<_>>();
    assert!(
        failures.is_empty(),
        "{} differ\n{}",
        failures.len(),
        shown.join("\n")
    );
}

/// The first difference between two values.
pub(super) fn first_difference(theirs: &Value, ours: &Value, path: String) -> Option<String> {
    match (theirs, ours) {
        (Value::Object(a), Value::Object(b)) => {
            for (key, value) in a {
                let Some(other) = b.get(key) else {
                    return Some(format!("{path}/{key}: caddy {value}, sluice has none"));
                };
                if let Some(found) = first_difference(value, other, format!("{path}/{key}")) {
                    return Some(found);
                }
            }
            let more = b.keys().find(|key| !a.contains_key(*key))?;
            Some(format!("{path}/{more}: caddy has none, sluice {}", b[more]))
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => a
            .iter()
            .zip(b)
            .enumerate()
            .find_map(|(at, (a, b))| first_difference(a, b, format!("{path}/{at}"))),
        (a, b) if a == b || same_number(a, b) => None,
        (a, b) => Some(format!("{path}: caddy {a}, sluice {b}")),
    }
}

/// `1` and `1.0` are the same number.
fn same_number(a: &Value, b: &Value) -> bool {
    a.as_f64().is_some_and(|a| Some(a) == b.as_f64())
}

/// Without the spaces that `caddy fmt` leaves at the end of a line with `#` inside a word.
fn without_ends(text: &str) -> String {
    let lines = text.split_inclusive('\n').map(|line| {
        let (words, end) = line
            .strip_suffix('\n')
            .map_or((line, ""), |words| (words, "\n"));
        match words.contains('#') {
            true => format!("{}{end}", words.trim_end()),
            false => line.to_owned(),
        }
    });
    lines.collect()
}
