//! Golden cases: `tests/golden/<topic>/*.txt` hold a Caddyfile, a line `----`, and what comes of it.
//!
//! The topic decides what is done with the Caddyfile: `parse` dumps the tree, `fmt` formats, `v1`
//! translates from Caddy 1, every other topic adapts. `BLESS=1` rewrites what does not fit; the diff is to be read. More files and
//! environment variables are given in front of the `----`:
//!
//! ```text
//! === env NAME=value
//! === file sites/a.conf
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use sluice_caddyfile::{Loader, MemoryLoader, adapt, adapt_v1, format, parse, translate};
use sluice_diag::Colour;

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

/// Every case file, with its topic.
fn case_files() -> Vec<(String, PathBuf)> {
    let mut found = Vec::new();
    for topic in fs::read_dir(root())
        .expect("the golden folder is there")
        .flatten()
    {
        let name = topic
            .file_name()
            .into_string()
            .expect("topics are named in ASCII");
        for case in fs::read_dir(topic.path()).into_iter().flatten().flatten() {
            if case
                .path()
                .extension()
                .is_some_and(|extension| extension == "txt")
            {
                found.push((name.clone(), case.path()));
            }
        }
    }
    found.sort();
    found
}

#[test]
fn golden_cases() {
    let bless = std::env::var_os("BLESS").is_some();
    let mut failures = Vec::new();
    let cases = case_files();
    assert!(cases.len() >= 70, "only {} cases were found", cases.len());
    for (topic, path) in cases {
        let text = fs::read_to_string(&path).expect("cases are UTF-8");
        let name = path
            .strip_prefix(root())
            .expect("it was found there")
            .display()
            .to_string();
        let (input, expected) = match parts(&text) {
            Some(parts) => parts,
            None if bless => (text.as_str(), ""),
            None => panic!("{name} has no line of four dashes"),
        };
        let came = Case::read(input).run(&topic);
        if came == expected && parts(&text).is_some() {
            continue;
        }
        if bless {
            fs::write(&path, format!("{input}----\n{came}")).expect("the case can be rewritten");
        } else {
            failures.push(format!("{name}\n-- expected\n{expected}-- came\n{came}"));
        }
    }
    assert!(
        failures.is_empty(),
        "{}\nBLESS=1 rewrites them",
        failures.join("\n")
    );
}

/// What stands in front of and behind the line of four dashes. The lines around certificates end in dashes, too.
fn parts(text: &str) -> Option<(&str, &str)> {
    let line = "----\n";
    if let Some(expected) = text.strip_prefix(line) {
        return Some(("", expected));
    }
    let at = text.find("\n----\n")? + 1;
    Some((&text[..at], &text[at + line.len()..]))
}

/// Slugs are promised to be stable, so each one has to show up in some case.
#[test]
fn every_slug_has_a_case() {
    let mut expected = String::new();
    for (_, path) in case_files() {
        expected.push_str(&fs::read_to_string(path).expect("cases are UTF-8"));
    }
    let mut slugs = Vec::new();
    collect_slugs(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        &mut slugs,
    );
    slugs.sort();
    slugs.dedup();
    assert!(slugs.len() >= 30, "only {slugs:?} were found in the source");
    slugs.retain(|slug| !NOT_IN_TEXT.contains(&slug.as_str()));
    slugs.retain(|slug| !expected.contains(&format!("[{slug}]: ")));
    assert!(slugs.is_empty(), "without a case: {slugs:?}");
}

/// Slugs whose cases cannot be written as text; `tests/limits.rs` has them.
const NOT_IN_TEXT: [&str; 3] = ["file-too-large", "invalid-utf8", "too-many-words"];

/// The first argument of every call that makes a diagnostic.
fn collect_slugs(folder: &Path, slugs: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("the source is there").flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect_slugs(&path, slugs);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("source is UTF-8");
            for call in ["error(", "warning("] {
                for behind in text.split(call).skip(1) {
                    let literal = behind.trim_start().strip_prefix('"');
                    slugs.extend(
                        literal
                            .and_then(|l| l.split_once('"'))
                            .map(|(s, _)| s.into()),
                    );
                }
            }
        }
    }
}
