//! Test support shared by the configuration languages: golden tests, the slugs of diagnostics, and generated pages.
//! Packages include it by `#[path]`, so that nothing of it is built into the program.
#![allow(dead_code, reason = "each test takes what it needs")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Every case `<root>/<topic>/*.txt`, with its topic.
pub fn cases(root: &Path) -> Vec<(String, PathBuf)> {
    let mut found = Vec::new();
    let topics = fs::read_dir(root).expect("the golden folder is there");
    for topic in topics.flatten() {
        let name = topic.file_name().to_string_lossy().into_owned();
        let cases = fs::read_dir(topic.path()).into_iter().flatten().flatten();
        let texts = cases.map(|case| case.path()).filter(|path| is(path, "txt"));
        found.extend(texts.map(|path| (name.clone(), path)));
    }
    found.sort();
    found
}

fn is(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found == extension)
}

/// Runs every case by its topic and what stands in front of the line of four dashes, and compares with what stands behind it.
/// With `BLESS=1` the cases are rewritten instead.
pub fn check(root: &Path, run: impl Fn(&str, &str) -> String) {
    let bless = std::env::var_os("BLESS").is_some();
    let mut failures = Vec::new();
    for (topic, path) in cases(root) {
        let text = fs::read_to_string(&path).expect("cases are UTF-8");
        let name = path.display();
        let found = parts(&text);
        assert!(
            found.is_some() || bless,
            "{name} has no line of four dashes"
        );
        let (input, expected) = found.unwrap_or((text.as_str(), ""));
        let came = run(&topic, input);
        if came == expected && found.is_some() {
            continue;
        }
        if bless {
            fs::write(&path, format!("{input}----\n{came}")).expect("the case can be rewritten");
        } else {
            failures.push(format!("{name}\n-- expected\n{expected}-- came\n{came}"));
        }
    }
    let failures = failures.join("\n");
    assert!(failures.is_empty(), "{failures}\nBLESS=1 rewrites them");
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

/// The first arguments of all calls in a folder of source that make a diagnostic.
pub fn slugs(folder: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder).expect("the source is there").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(slugs(&path));
        } else if is(&path, "rs") {
            let text = fs::read_to_string(&path).expect("source is UTF-8");
            for call in ["error(", "warning("] {
                let behind = text.split(call).skip(1);
                let quoted = behind.filter_map(|rest| rest.trim_start().strip_prefix('"'));
                let literals = quoted.filter_map(|rest| Some(rest.split_once('"')?.0));
                // The program also writes to logs, whose names have no hyphen.
                found.extend(
                    literals
                        .filter(|word| word.contains('-'))
                        .map(str::to_owned),
                );
            }
        }
    }
    found
}

/// Slugs are promised to be stable, so each one of `source` has to show up in some case, but for those `elsewhere`.
pub fn every_slug_has_a_case(source: &Path, root: &Path, elsewhere: &[&str]) {
    let mut expected = String::new();
    for (_, path) in cases(root) {
        expected.push_str(&fs::read_to_string(path).expect("cases are UTF-8"));
    }
    let mut slugs = slugs(source);
    assert!(slugs.len() >= 20, "only {slugs:?} were found in the source");
    slugs.retain(|slug| !elsewhere.contains(&slug.as_str()));
    slugs.retain(|slug| !expected.contains(&format!("[{slug}]: ")));
    assert!(slugs.is_empty(), "without a case: {slugs:?}");
}

/// Names and texts of the pages of messages.
pub fn pages() -> Vec<(String, String)> {
    let folder = repository().join("docs/reference/errors");
    let entries = fs::read_dir(folder).expect("the pages are there").flatten();
    let paths = entries.map(|entry| entry.path());
    let mut pages: Vec<_> = paths
        .filter(|path| is(path, "md"))
        .map(|path| {
            let name = path.file_stem().expect("it has an extension");
            let text = fs::read_to_string(&path).expect("pages are UTF-8");
            (name.to_string_lossy().into_owned(), text)
        })
        .collect();
    pages.sort();
    pages
}

/// The root of the repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Compares a generated page of `docs/reference/` with the file that is there, or writes it with `BLESS=1`.
pub fn is_fresh(name: &str, page: &str) {
    let path = repository().join("docs/reference").join(name);
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, page).expect("the page can be written");
    }
    let there = fs::read_to_string(&path).unwrap_or_default();
    let differ = there.lines().zip(page.lines()).find(|(was, is)| was != is);
    assert!(
        there == page,
        "docs/reference/{name} is stale, BLESS=1 rewrites it: {differ:?}"
    );
}

/// The sources of the tests of whole servers and the golden cases of the package `config`, with their paths below the
/// repository's folder.
pub fn test_sources(config: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for folder in ["tests", &format!("config/{config}/tests/golden")] {
        read_below(folder, &mut found);
    }
    found.sort();
    found
}

fn read_below(folder: &str, found: &mut Vec<(String, String)>) {
    let entries = fs::read_dir(repository().join(folder)).expect("the folder is there");
    for entry in entries.flatten() {
        let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            read_below(&path, found);
        } else if let Ok(text) = fs::read_to_string(entry.path()) {
            found.push((path, text));
        }
    }
}

/// The page of `docs/reference/` as it is.
pub fn page(name: &str) -> String {
    fs::read_to_string(repository().join("docs/reference").join(name)).unwrap_or_default()
}
