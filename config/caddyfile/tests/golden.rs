//! Golden tests: `tests/golden/<topic>/*.txt` contain a Caddyfile, a line `----`, and the result.
//!
//! The topic determines how the Caddyfile is processed: `parse` dumps the tree, `fmt` formats, `v1` translates from
//! Caddy 1, every other topic adapts. `BLESS=1` rewrites what differs; review the diff. Further files and environment
//! variables are given before the `----`:
//!
//! ```text
//! === env NAME=value
//! === file sites/a.conf
//! ```

use std::path::{Path, PathBuf};

use sluice_caddyfile::{Loader, MemoryLoader, adapt, adapt_v1, format, parse, translate};
use sluice_diag::Colour;

use crate::support;

/// The input of one case.
struct Case {
    caddyfile: String,
    loader: MemoryLoader,
}

impl Case {
    fn read(input: &str) -> Case {
        let mut caddyfile = String::new();
        let mut loader = MemoryLoader::default();
        let mut file: Option<String> = None;
        for line in input.split_inclusive('\n') {
            if let Some(variable) = line.strip_prefix("=== env ") {
                let (name, value) = variable.trim_end().split_once('=').expect("NAME=value");
                // A value of several lines is written with `\n`.
                loader
                    .variables
                    .insert(name.into(), value.replace("\\n", "\n"));
            } else if let Some(path) = line.strip_prefix("=== file ") {
                let path = path.trim_end().to_owned();
                loader.files.insert(path.clone(), Vec::new());
                file = Some(path);
            } else {
                match &file {
                    None => caddyfile.push_str(line),
                    Some(path) => {
                        let bytes = loader.files.get_mut(path).expect("inserted above");
                        bytes.extend_from_slice(line.as_bytes());
                    }
                }
            }
        }
        Case { caddyfile, loader }
    }

    fn run(&self, topic: &str) -> String {
        match topic {
            "parse" => self.parse(),
            "fmt" => self.format(),
            "v1" => self.translate(),
            _ => self.adapt(),
        }
    }

    fn parse(&self) -> String {
        let parsed = parse("Caddyfile", &self.caddyfile, &self.loader);
        let tree = parsed.file.to_string();
        let said = parsed.report.human(Colour::Never);
        let between = if tree.is_empty() || said.is_empty() {
            ""
        } else {
            "\n"
        };
        format!("{tree}{between}{said}")
    }

    fn format(&self) -> String {
        match format("Caddyfile", &self.caddyfile) {
            Ok(formatted) => {
                let again = format("Caddyfile", &formatted).map_err(|r| r.short());
                assert_eq!(
                    again.as_ref(),
                    Ok(&formatted),
                    "formatting twice changes something"
                );
                formatted
            }
            Err(report) => report.human(Colour::Never),
        }
    }

    /// The translation, which has to be formatted already, and to mean what the old text means.
    fn translate(&self) -> String {
        let loader = Hashing(&self.loader);
        let translated = translate("Caddyfile", &self.caddyfile, &loader);
        let said = translated.report.human(Colour::Never);
        let Some(text) = translated.caddyfile else {
            return said;
        };
        assert_eq!(format("translation", &text).ok().as_ref(), Some(&text));
        let old = adapt_v1("Caddyfile", &self.caddyfile, &loader);
        let new = adapt("Caddyfile", &text, &loader);
        match &old.config {
            Some(config) => {
                let new = new
                    .config
                    .unwrap_or_else(|| panic!("{text}{}", new.report.short()));
                assert_eq!(without_hidden(config), without_hidden(&new), "{text}");
            }
            None => assert!(
                said.contains("[caddy1-untranslated]"),
                "{}",
                old.report.short()
            ),
        }
        let between = if said.is_empty() { "" } else { "\n" };
        format!("{said}{between}{text}")
    }

    fn adapt(&self) -> String {
        let adapted = adapt("Caddyfile", &self.caddyfile, &self.loader);
        let said = adapted.report.human(Colour::Never);
        let Some(config) = adapted.config else {
            return said;
        };
        let between = if said.is_empty() { "" } else { "\n" };
        format!("{said}{between}{}\n", json(&config))
    }
}

fn json(config: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(config).expect("keys are text")
}

/// The JSON without the files that are hidden: those that were imported are part of the translation.
fn without_hidden(config: &impl serde::Serialize) -> serde_json::Value {
    fn remove(value: &mut serde_json::Value) {
        if let Some(object) = value.as_object_mut() {
            object.remove("hide");
            object.values_mut().for_each(remove);
        }
        value.as_array_mut().into_iter().flatten().for_each(remove);
    }
    let mut value = serde_json::to_value(config).expect("keys are text");
    remove(&mut value);
    value
}

/// Gives every password the same hash, as random salts would make cases differ.
struct Hashing<'a>(&'a MemoryLoader);

impl Loader for Hashing<'_> {
    fn read(&self, path: &str) -> std::io::Result<Vec<u8>> {
        self.0.read(path)
    }

    fn glob(&self, pattern: &str) -> std::io::Result<Vec<String>> {
        self.0.glob(pattern)
    }

    fn variable(&self, name: &str) -> Option<String> {
        self.0.variable(name)
    }

    fn hash_password(&self, password: &str) -> Option<String> {
        Some(format!("$2a$04$hash-of-{password}"))
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

#[test]
fn golden_cases() {
    let cases = support::cases(&root()).len();
    assert!(cases >= 70, "only {cases} cases were found");
    support::check(&root(), |topic, input| Case::read(input).run(topic));
}

#[test]
fn every_slug_has_a_case() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    support::every_slug_has_a_case(&source, &root(), &NOT_IN_TEXT);
}

/// Slugs whose cases cannot be written as text; `tests/limits.rs` has them.
const NOT_IN_TEXT: [&str; 3] = ["file-too-large", "invalid-utf8", "too-many-words"];
