//! Golden cases: `tests/golden/<topic>/*.txt` hold an nginx.conf, a line `----`, and the messages and the model that come
//! of it. `BLESS=1` rewrites what does not fit; the diff is to be read. A case that begins with `=== site` is put between
//! `events {} http { server {` and `}}`; more files are given as `=== file sites/a.conf` in front of the `----`.

use std::fs;
use std::path::{Path, PathBuf};

use sluice_diag::Colour;
use sluice_nginx::{MemoryLoader, adapt};

fn run(input: &str) -> String {
    let (mut text, mut loader) = (String::new(), MemoryLoader::default());
    let (mut file, mut in_site): (Option<String>, bool) = (None, false);
    for line in input.split_inclusive('\n') {
        if line.trim_end() == "=== site" {
            in_site = true;
        } else if let Some(path) = line.strip_prefix("=== file ") {
            let path = path.trim_end().to_owned();
            loader.files.insert(path.clone(), Vec::new());
            file = Some(path);
        } else if let Some(path) = &file {
            let bytes = loader.files.get_mut(path).expect("inserted above");
            bytes.extend_from_slice(line.as_bytes());
        } else {
            text.push_str(line);
        }
    }
    if in_site {
        text = format!("events {{ worker_connections 100; }} http {{ server {{\n{text}}}}}\n");
    }
    let adapted = adapt("nginx.conf", &text, &loader);
    let said = adapted.report.human(Colour::Never);
    let Some(config) = adapted.config else {
        return said;
    };
    let between = if said.is_empty() { "" } else { "\n" };
    let json = serde_json::to_string_pretty(&config).expect("keys are text");
    format!("{said}{between}{json}\n")
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn case_files() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for topic in fs::read_dir(root())
        .expect("the golden folder is there")
        .flatten()
    {
        let cases = fs::read_dir(topic.path()).into_iter().flatten().flatten();
        found.extend(cases.map(|case| case.path()));
    }
    found.sort();
    found
}

#[test]
fn golden_cases() {
    let bless = std::env::var_os("BLESS").is_some();
    let mut failures = Vec::new();
    let cases = case_files();
    assert!(cases.len() >= 15, "only {} cases were found", cases.len());
    for path in cases {
        let text = fs::read_to_string(&path).expect("cases are UTF-8");
        let name = path.display();
        let (input, expected) = match text.split_once("\n----\n") {
            Some((input, expected)) => (format!("{input}\n"), expected),
            None if bless => (text.clone(), ""),
            None => panic!("{name} has no line of four dashes"),
        };
        let came = run(&input);
        if came == expected {
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

/// Slugs are promised to be stable, so each one has to show up in some case.
#[test]
fn every_slug_has_a_case() {
    let mut expected = String::new();
    for path in case_files() {
        expected.push_str(&fs::read_to_string(path).expect("cases are UTF-8"));
    }
    let mut slugs = Vec::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    collect_slugs(&source, &mut slugs);
    slugs.sort();
    slugs.dedup();
    assert!(slugs.len() >= 20, "only {slugs:?} were found in the source");
    slugs.retain(|slug| !NOT_IN_TEXT.contains(&slug.as_str()));
    slugs.retain(|slug| !expected.contains(&format!("[{slug}]: ")));
    assert!(slugs.is_empty(), "without a case: {slugs:?}");
}

/// Slugs whose cases are too long to be written out; `tests/limits.rs` has them.
const NOT_IN_TEXT: [&str; 2] = ["too-long", "too-much"];

/// The first argument of every call that makes a diagnostic.
fn collect_slugs(folder: &Path, slugs: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("the source is there").flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect_slugs(&path, slugs);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("source is UTF-8");
            for call in ["Diagnostic::error(", "Diagnostic::warning("] {
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
