//! Properties of lowering any Caddyfile: no text panics, a model survives its JSON, and each directive has golden
//! tests.

use std::fs;
use std::path::{Path, PathBuf};

use sluice_caddyfile::registry::directives;
use sluice_caddyfile::{MemoryLoader, adapt};
use sluice_model::Config;

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// The topic, the Caddyfile and the expectation of every golden case that adapts.
fn cases() -> Vec<(String, String, String)> {
    let mut found = Vec::new();
    for topic in fs::read_dir(golden())
        .expect("the folder is there")
        .flatten()
    {
        let name = topic.file_name().into_string().expect("topics are ASCII");
        if name == "parse" || name == "fmt" {
            continue;
        }
        for case in fs::read_dir(topic.path())
            .expect("topics are folders")
            .flatten()
        {
            let text = fs::read_to_string(case.path()).expect("cases are UTF-8");
            let (input, expected) = text.split_once("----\n").expect("a line of dashes");
            found.push((name.clone(), input.to_string(), expected.to_string()));
        }
    }
    found.sort();
    found
}

#[test]
fn a_model_survives_its_json() {
    let mut survivors = 0;
    for (_, input, _) in cases() {
        let Some(config) = adapt("Caddyfile", &input, &MemoryLoader::default()).config else {
            continue;
        };
        let json = config.to_json();
        let read = Config::from_json(&json).unwrap_or_else(|error| panic!("{error}\n{json}"));
        // `099` reads back as 99, so the texts are compared.
        assert_eq!(read.to_json(), json);
        survivors += 1;
    }
    assert!(survivors >= 100, "only {survivors} cases adapt");
}

#[test]
fn every_directive_has_a_good_and_a_bad_case() {
    let cases = cases();
    for directive in directives()
        .map(|known| &known.entry)
        .filter(|entry| entry.verdict.is_lowered())
    {
        let own = || {
            cases
                .iter()
                .filter(|(topic, _, _)| *topic == directive.name)
        };
        let refused = |expected: &str| expected.starts_with("error[");
        assert!(
            own().any(|(_, _, came)| !refused(came)),
            "{} has no good case",
            directive.name
        );
        assert!(
            own().any(|(_, _, came)| refused(came)),
            "{} has no bad case",
            directive.name
        );
    }
}

/// A small generator, so that a seed replays a run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound.max(1) as u64) as usize
    }
}

/// Drops, repeats, swaps and replaces words of a text.
fn mutated(text: &str, words: &[&str], random: &mut Random) -> String {
    let mut lines: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>())
        .collect();
    for _ in 0..1 + random.below(6) {
        let at = random.below(lines.len());
        let word = random.below(lines[at].len());
        match random.below(6) {
            0 => {
                lines.remove(at);
            }
            1 => {
                let copy = lines[at].clone();
                lines.insert(random.below(lines.len()), copy);
            }
            2 => {
                let other = random.below(lines.len());
                lines.swap(at, other);
            }
            3 if !lines[at].is_empty() => {
                lines[at].remove(word);
            }
            4 if !lines[at].is_empty() => lines[at][word] = words[random.below(words.len())],
            _ => lines[at].insert(word, words[random.below(words.len())]),
        }
        if lines.is_empty() {
            lines.push(vec!["x"]);
        }
    }
    lines
        .iter()
        .map(|line| line.join(" "))
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn no_text_panics() {
    let seed = 0x5eed_1e55_c0ff_ee11;
    println!("seed {seed:#x}");
    let mut random = Random(seed);
    let cases = cases();
    let words: Vec<&str> = cases
        .iter()
        .flat_map(|(_, input, _)| input.split_whitespace())
        .collect();
    for _ in 0..3_000 {
        let (_, input, _) = &cases[random.below(cases.len())];
        let text = mutated(input, &words, &mut random);
        let adapted = adapt("Caddyfile", &text, &MemoryLoader::default());
        assert_eq!(
            adapted.config.is_none(),
            adapted.report.has_errors(),
            "{text}"
        );
        if let Some(config) = adapted.config {
            let json = config.to_json();
            let read = Config::from_json(&json).map(|config| config.to_json());
            assert_eq!(read, Ok(json), "{text}");
        }
    }
}
