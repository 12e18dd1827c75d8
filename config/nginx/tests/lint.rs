//! Tests of `sluice lint`: `tests/lint/<rule>.txt` contain an nginx.conf, a line `----`, and the findings. `BLESS=1`
//! rewrites what differs; review the diff. A case that begins with `=== site` is put into a `server` without findings,
//! one with `=== http` into an `http` block.

use std::fs;
use std::path::{Path, PathBuf};

use sluice_diag::Colour;
use sluice_nginx::MemoryLoader;
use sluice_nginx::lint::{RULES, lint};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lint")
}

fn whole(input: &str) -> String {
    let main = "worker_processes auto; events { worker_connections 10000; }";
    let types = "types { text/html html; }";
    if let Some(lines) = input.strip_prefix("=== site\n") {
        return format!(
            "{main} http {{ {types} server {{ listen 80 default_server;\n{lines}}} }}\n"
        );
    }
    match input.strip_prefix("=== http\n") {
        Some(lines) => format!("{main} http {{ {types}\n{lines}}}\n"),
        None => input.to_owned(),
    }
}

/// The rules that find something in a text, each once for each place.
fn found(text: &str) -> Vec<&'static str> {
    let report = lint("nginx.conf", text, &MemoryLoader::default());
    report.sorted().iter().map(|found| found.slug).collect()
}

#[test]
fn every_rule_has_a_case_that_only_it_finds() {
    let bless = std::env::var_os("BLESS").is_some();
    let mut failures = Vec::new();
    for rule in RULES {
        let path = folder().join(format!("{}.txt", rule.id));
        let Ok(text) = fs::read_to_string(&path) else {
            failures.push(format!("{}: no case", rule.id));
            continue;
        };
        let (input, expected) = text.split_once("----\n").unwrap_or((&text, ""));
        let whole = whole(input);
        let slugs = found(&whole);
        if slugs.is_empty() || slugs.iter().any(|slug| *slug != rule.id) {
            failures.push(format!("{}: found {slugs:?}", rule.id));
        }
        let report = lint("nginx.conf", &whole, &MemoryLoader::default());
        let came = report.human(Colour::Never);
        if came != expected && bless {
            fs::write(&path, format!("{input}----\n{came}")).expect("the case can be rewritten");
        } else if came != expected {
            failures.push(format!("{}: expected\n{expected}came\n{came}", rule.id));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn no_case_is_of_no_rule() {
    for entry in fs::read_dir(folder())
        .expect("the cases are there")
        .flatten()
    {
        let path = entry.path();
        let name = path.file_stem().expect("it has a name").to_string_lossy();
        assert!(RULES.iter().any(|rule| rule.id == name), "{name}");
    }
}

#[test]
fn a_careful_file_has_nothing_to_be_found() {
    let text = fs::read_to_string(folder().join("../careful.nginx.conf")).expect("it is there");
    let report = lint("nginx.conf", &text, &MemoryLoader::default());
    assert_eq!(report.short(), "");
}

/// Syntax errors are reported as well, and the rules check the rest.
#[test]
fn mistakes_are_reported_beside_findings() {
    let text = "worker_processes auto; events { worker_connections 9; }\nhttp { server { \n";
    let slugs = found(text);
    assert!(slugs.contains(&"few-worker-connections"), "{slugs:?}");
    assert!(slugs.contains(&"unclosed-brace"), "{slugs:?}");
}

/// `docs/reference/lint.md` is made from the rules: `BLESS=1` rewrites it.
#[test]
fn the_page_is_that_of_the_rules() {
    let mut page = "# Lint rules\n\n`sluice lint nginx.conf` reports each finding as `file:line:column` with a fix. It exits with 1 if it \
        finds any; `--json` prints them for other programs. It finds valid but unwise lines; `sluice validate` finds mistakes.\n\n\
        This page is generated from `config/nginx/src/lint` by `BLESS=1 cargo test -p sluice-nginx --test lint`.\n"
        .to_owned();
    for rule in RULES {
        let case = fs::read_to_string(folder().join(format!("{}.txt", rule.id)));
        let case = case.unwrap_or_default();
        let example = case.split("----\n").next().unwrap_or_default();
        let lines = example.lines().filter(|line| !line.starts_with("==="));
        let example: Vec<&str> = lines.collect();
        page.push_str(&format!(
            "\n## {}\n\n{}: {}.\n\nInstead: {}.\n\n```nginx\n{}\n```\n",
            rule.id,
            capital(rule.what),
            rule.why,
            rule.fix,
            example.join("\n")
        ));
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/lint.md");
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, page).expect("the page can be written");
        return;
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        page == kept,
        "docs/reference/lint.md is stale, BLESS=1 rewrites it"
    );
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => String::new(),
    }
}
