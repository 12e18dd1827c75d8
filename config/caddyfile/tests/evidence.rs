//! Finds the end-to-end or peer test that runs a server with a line of a Caddyfile, for the reference table. The
//! Caddyfiles are the string literals of those tests.

use std::fs;
use std::path::{Path, PathBuf};

use crate::coverage::{Fate, Line, read_lines};

/// Tests of rejected files, and files whose texts are not Caddyfiles.
const PASSED_OVER: [&str; 8] = [
    "bad_input",
    "command_line",
    "containment",
    "documents",
    "explain",
    "main",
    "nginx",
    "support",
];

/// The test that compares the responses for the cases of two files.
const CASES: &str = "peer::responses_equal_those_of_caddy";

/// Lines of Caddyfiles, each with the test that uses it: `file::function`.
pub struct Evidence(Vec<(Line, String)>);

/// A function or constant of a file.
struct Item<'t> {
    name: &'t str,
    text: &'t str,
    is_test: bool,
}

impl Evidence {
    /// Reads all tests.
    pub fn collect() -> Evidence {
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests");
        let mut files = Vec::new();
        // A comparison with Caddy says more.
        for folder in ["peer", "e2e"] {
            let before = files.len();
            add_files(&tests.join(folder), &mut files);
            files[before..].sort();
        }
        let mut found = Vec::new();
        for path in files {
            let text = fs::read_to_string(&path).expect("tests are UTF-8");
            let is_mod = path.ends_with("mod.rs");
            let named = if is_mod { path.parent() } else { Some(&*path) };
            let module = named.and_then(Path::file_stem).expect("a file has a name");
            add_lines(&text, &module.to_string_lossy(), &mut found);
        }
        Evidence(found)
    }

    /// The first test with the word `name` of `place`.
    pub fn find(&self, place: &str, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(line, _)| line.is(place, name));
        found.map(|(_, test)| test.as_str())
    }
}

fn add_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the tests are there").flatten() {
        let path = entry.path();
        let stem = path.file_stem().map(|stem| stem.to_string_lossy());
        let stem = stem.unwrap_or_default();
        if PASSED_OVER.iter().any(|other| stem == *other) || stem.starts_with("nginx_") {
            continue;
        }
        match path.is_dir() {
            true => add_files(&path, files),
            false => files.push(path),
        }
    }
}

fn add_lines(text: &str, module: &str, found: &mut Vec<(Line, String)>) {
    let items = items(text);
    for item in &items {
        let used = |other: &&Item<'_>| other.is_test && other.text.contains(item.name);
        let test = match item.is_test {
            true => Some(item),
            false => items.iter().find(used),
        };
        let name = match test {
            Some(test) => format!("{module}::{}", test.name),
            None if ["cases", "fastcgi"].contains(&module) => CASES.to_owned(),
            None => continue,
        };
        for literal in literals(item.text) {
            if !literal.contains('\n') {
                continue;
            }
            let is_site = literal.lines().any(|line| line.trim_end().ends_with('{'));
            let literal = match is_site {
                true => literal,
                false => format!(":80 {{\n{literal}\n}}"),
            };
            let mut lines = Vec::new();
            read_lines(&literal, |_| Fate::Taken, &mut lines);
            found.extend(lines.into_iter().map(|line| (line, name.clone())));
        }
    }
}

/// The functions and constants at the left margin.
fn items(text: &str) -> Vec<Item<'_>> {
    let mut starts = Vec::new();
    let (mut at, mut is_test) = (0, false);
    for line in text.split_inclusive('\n') {
        let rest = line.strip_prefix("pub ").unwrap_or(line);
        let mut keywords = ["fn ", "const ", "static "].iter();
        if line.starts_with("#[test]") {
            is_test = true;
        } else if let Some(name) = keywords.find_map(|word| rest.strip_prefix(word)) {
            let end = name.find(|c: char| !c.is_alphanumeric() && c != '_');
            starts.push((at, &name[..end.unwrap_or(name.len())], is_test));
            is_test = false;
        }
        at += line.len();
    }
    let mut items = Vec::with_capacity(starts.len());
    for (index, (start, name, is_test)) in starts.iter().enumerate() {
        let end = starts
            .get(index + 1)
            .map_or(text.len(), |(next, _, _)| *next);
        items.push(Item {
            name,
            text: &text[*start..end],
            is_test: *is_test,
        });
    }
    items
}

/// The string literals of a Rust text, without their escapes.
fn literals(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(['"', '/', '\'']) {
        let after = &rest[at + 1..];
        match rest.as_bytes()[at] {
            b'/' if after.starts_with('/') => {
                rest = after.split_once('\n').map_or("", |(_, rest)| rest);
            }
            b'\'' if after.starts_with("\"'") => rest = &after[2..],
            b'\'' if after.starts_with("\\\"'") => rest = &after[3..],
            b'"' if rest[..at].ends_with("r#") => {
                let (literal, behind) = after.split_once("\"#").unwrap_or((after, ""));
                found.push(literal.to_owned());
                rest = behind;
            }
            b'"' => {
                let (literal, behind) = unescaped(after);
                found.push(literal);
                rest = behind;
            }
            _ => rest = after,
        }
    }
    found
}

/// The literal at the start of a text, up to its closing quote, and what follows.
fn unescaped(text: &str) -> (String, &str) {
    let mut out = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (out, &text[at + 1..]),
            '\\' => match chars.next() {
                Some((_, 'n')) => out.push('\n'),
                Some((_, 't')) => out.push('\t'),
                Some((_, '\n')) => {
                    let rest = chars.as_str();
                    let skipped = rest.len() - rest.trim_start().len();
                    for _ in 0..rest[..skipped].chars().count() {
                        chars.next();
                    }
                }
                Some((_, other)) => out.push(other),
                None => {}
            },
            // Braces are written twice in the texts of `format!`.
            '{' | '}' if out.ends_with(c) => {}
            c => out.push(c),
        }
    }
    (out, "")
}
