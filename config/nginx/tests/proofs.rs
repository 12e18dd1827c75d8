//! Which end-to-end or peer test runs a server with a directive of nginx, for the reference table. The configurations are
//! the string literals of those tests; the sites below `tests/data/nginx` belong to the peer test that runs them.

use std::fs;
use std::path::{Path, PathBuf};

/// The peer test of `tests/data/nginx`.
const SITES: &str = "nginx_sites::whole_sites_respond_as_in_nginx";

/// Files about messages: their configurations are refused.
const PASSED_OVER: [&str; 1] = ["differences.rs"];

/// Configurations, each with the test that uses it.
pub struct Proofs(Vec<(String, String)>);

impl Proofs {
    /// Reads all tests.
    pub fn collect() -> Proofs {
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests");
        let mut files = Vec::new();
        add_files(&tests.join("e2e/nginx"), &mut files);
        add_files(&tests.join("peer"), &mut files);
        files.sort();
        let mut found = Vec::new();
        for path in files {
            let below = path.strip_prefix(&tests).expect("found below it");
            let of_nginx = below.to_string_lossy().contains("nginx");
            if of_nginx && !PASSED_OVER.iter().any(|name| path.ends_with(name)) {
                add_texts(&path, &mut found);
            }
        }
        for path in fs::read_dir(tests.join("data/nginx"))
            .expect("sites")
            .flatten()
        {
            if path.path().extension().is_some_and(|end| end == "conf") {
                let text = fs::read_to_string(path.path()).expect("a site is UTF-8");
                found.push((text, SITES.to_owned()));
            }
        }
        Proofs(found)
    }

    /// The first test with the directive `name`.
    pub fn find(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(text, _)| has_directive(text, name));
        found.map(|(_, test)| test.as_str())
    }
}

/// Whether `name` begins a directive in `text`.
fn has_directive(text: &str, name: &str) -> bool {
    text.match_indices(name).any(|(at, _)| {
        let before = text[..at].trim_end_matches([' ', '\t', '\r']);
        let after = &text[at + name.len()..];
        (before.is_empty() || before.ends_with(['\n', ';', '{', '}']))
            && after.starts_with([' ', '\t', ';', '\n', '{'])
    })
}

fn add_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the tests are there").flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => add_files(&path, files),
            false if path.extension().is_some_and(|end| end == "rs") => files.push(path),
            false => {}
        }
    }
}

/// What stands at the left margin of a file: a function or a constant, up to the next one.
struct Item<'t> {
    name: &'t str,
    text: &'t str,
    is_test: bool,
}

fn add_texts(path: &Path, found: &mut Vec<(String, String)>) {
    let text = fs::read_to_string(path).expect("a test is UTF-8");
    let own = items(&text);
    // The cases of a module may stand in a file of their own, and its test beside it.
    let beside = path.with_file_name("mod.rs");
    let outer = match own.iter().any(|item| item.is_test) || !beside.is_file() {
        true => None,
        false => Some(fs::read_to_string(&beside).expect("a test is UTF-8")),
    };
    let outer_items = outer.as_deref().map(items).unwrap_or_default();
    let (home, tests) = match outer {
        Some(_) => (beside.as_path(), &outer_items),
        None => (path, &own),
    };
    let module = match home.file_stem().is_some_and(|stem| stem == "mod") {
        true => home.parent().and_then(Path::file_name),
        false => home.file_stem(),
    };
    let module = module.unwrap_or_default().to_string_lossy();
    for item in &own {
        let test = match item.is_test {
            true => Some(item),
            false => {
                let asks = |test: &&Item<'_>| test.is_test && test.text.contains(item.name);
                let any = || tests.iter().find(|test| test.is_test);
                tests.iter().find(asks).or_else(any)
            }
        };
        let Some(test) = test else { continue };
        let name = format!("{module}::{}", test.name);
        found.extend(literals(item.text).map(|literal| (literal, name.clone())));
    }
}

fn items(text: &str) -> Vec<Item<'_>> {
    let mut found: Vec<Item<'_>> = Vec::new();
    let (mut at, mut is_test, mut start) = (0, false, None);
    for line in text.split_inclusive('\n') {
        let words = line.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
        let mut words = words.skip_while(|word| matches!(*word, "pub" | "crate" | "super" | ""));
        let is_item = !line.starts_with([' ', '}', '#', '/'])
            && matches!(words.next(), Some("fn" | "const" | "static"));
        if let (true, Some(name)) = (is_item, words.next()) {
            if let Some((begin, name, is_test)) = start.replace((at, name, is_test)) {
                found.push(Item {
                    name,
                    text: &text[begin..at],
                    is_test,
                });
            }
            is_test = false;
        }
        is_test |= line.starts_with("#[test]");
        at += line.len();
    }
    if let Some((begin, name, is_test)) = start {
        found.push(Item {
            name,
            text: &text[begin..],
            is_test,
        });
    }
    found
}

/// The string literals of a piece of Rust, with their line ends and without other escapes.
fn literals(text: &str) -> impl Iterator<Item = String> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let start = rest.find('"')?;
        let is_raw = rest[..start].ends_with("r#") || rest[..start].ends_with(" r");
        let end = if rest[..start].ends_with("r#") {
            "\"#"
        } else {
            "\""
        };
        let body = &rest[start + 1..];
        let mut from = 0;
        let length = loop {
            let Some(at) = body[from..].find(end) else {
                break body.len();
            };
            let escapes = body[..from + at]
                .bytes()
                .rev()
                .take_while(|byte| *byte == b'\\');
            if is_raw || escapes.count() % 2 == 0 {
                break from + at;
            }
            from += at + 1;
        };
        rest = body.get(length + end.len()..).unwrap_or_default();
        // Braces are doubled where the literal is a format.
        let plain = body[..length].replace("\\n", "\n").replace("\\\n", "\n");
        Some(plain.replace("{{", "{").replace("}}", "}"))
    })
}

#[test]
fn directives_are_found_where_they_begin() {
    let text = "server {\n root /a; location / { return 200 'index'; } }";
    for (name, expected) in [
        ("root", true),
        ("return", true),
        ("index", false),
        ("serve", false),
    ] {
        assert_eq!(has_directive(text, name), expected, "{name}");
    }
    let source = "fn a() { b(\"x \\\" y;\\nz\"); r#\"raw \" {{ \"#; }";
    let found: Vec<String> = literals(source).collect();
    assert_eq!(found, ["x \\\" y;\nz", "raw \" { "]);
}
