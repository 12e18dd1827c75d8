//! Rules for documents: those that must exist, the row of each dependency, and paths that exist on one machine only.

use std::collections::BTreeMap;

use super::{Breach, Source};

/// Documents that must exist and must not be empty.
const DOCUMENTS: &[&str] = &[
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "README.md",
    "docs/ARCHITECTURE.md",
    "docs/dependencies.md",
];

/// The list that justifies each dependency.
const DEPENDENCIES: &str = "docs/dependencies.md";

/// The pages of diagnostics, named by the codes in their brackets.
const PAGES: &str = "docs/reference/errors";

/// The only registry that packages may come from.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Breaches of rules about the repository as a whole.
pub fn check(sources: &[Source]) -> Vec<Breach> {
    let find = |path: &str| sources.iter().find(|source| source.path == path);
    let mut breaches = Vec::new();
    for path in DOCUMENTS {
        if find(path).is_none_or(|source| source.text.trim().is_empty()) {
            breaches.push(Breach::new(
                path,
                0,
                "documents",
                "this document must exist",
            ));
        }
    }
    breaches.extend(check_messages(sources));
    let listed = find(DEPENDENCIES).map_or("", |source| source.text.as_str());
    for (name, path) in dependencies(sources) {
        let row = |line: &str| {
            let cell = line
                .trim()
                .strip_prefix('|')
                .and_then(|rest| rest.split('|').next());
            cell.is_some_and(|cell| cell.trim().trim_matches('`') == name)
        };
        if !listed.lines().any(row) {
            let message = format!("`{name}` has no row in {DEPENDENCIES}");
            breaches.push(Breach::new(&path, 0, "dependencies", message));
        }
    }
    breaches
}

/// Diagnostics that a golden test shows but `sluice explain` does not know.
fn check_messages(sources: &[Source]) -> Vec<Breach> {
    let has_page = |slug: &str| {
        let path = format!("{PAGES}/{slug}.md");
        sources.iter().any(|source| source.path == path)
    };
    let mut breaches = Vec::new();
    for source in sources
        .iter()
        .filter(|source| source.path.contains("/golden/"))
    {
        for (number, line) in source.lines() {
            let rest = line
                .strip_prefix("error[")
                .or_else(|| line.strip_prefix("warning["));
            let slug = rest
                .and_then(|rest| rest.split_once("]: "))
                .map(|(slug, _)| slug);
            if let Some(slug) = slug.filter(|slug| !has_page(slug)) {
                let message = format!("`{slug}` has no page in {PAGES}/");
                breaches.push(Breach::new(&source.path, number, "messages", message));
            }
        }
    }
    breaches
}

/// Third-party packages that our packages depend on, with one manifest each.
fn dependencies(sources: &[Source]) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let manifests = sources
        .iter()
        .filter(|source| source.path.ends_with("/Cargo.toml") && !source.path.starts_with("fuzz/"));
    for source in manifests {
        let mut section = "";
        for (_, line) in source.lines() {
            let line = line.trim();
            if line.starts_with('[') {
                section = line;
                continue;
            }
            let is_name = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
            let name = &line[..line.find(|c| !is_name(c)).unwrap_or(line.len())];
            let ours = name == "sluice" || name.starts_with("sluice-");
            if section.ends_with("dependencies]") && !name.is_empty() && !ours {
                found.insert(name.to_string(), source.path.clone());
            }
        }
    }
    found
}

/// Breaches of one file: paths and registries of one machine.
pub fn check_places(source: &Source) -> Vec<Breach> {
    let mut breaches = Vec::new();
    // Split, so that this file does not break its own rule.
    let marks = [
        concat!("/wor", "k/"),
        concat!("/ro", "ot/"),
        concat!("/Use", "rs/"),
    ];
    for (number, line) in source.lines() {
        for mark in marks.iter().filter(|mark| contains_path(line, mark)) {
            let message = format!("`{mark}` means something on one machine only");
            breaches.push(Breach::new(&source.path, number, "places", message));
        }
        let registry = line
            .trim()
            .strip_prefix("source = \"")
            .map(|rest| rest.trim_end_matches('"'));
        if source.path.ends_with("Cargo.lock") && registry.is_some_and(|name| name != REGISTRY) {
            let message = format!("packages come from {REGISTRY} only");
            breaches.push(Breach::new(&source.path, number, "places", message));
        }
    }
    breaches
}

/// Whether `line` has a path that begins with `mark`; matches inside a path or a URL do not count.
fn contains_path(line: &str, mark: &str) -> bool {
    line.match_indices(mark).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "._-/}*".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dependency_needs_a_row() {
        let manifest = Source::new(
            "ground/wire/Cargo.toml",
            "[package]\nname = \"sluice-wire\"\n[dependencies]\nsluice-message.workspace = true\n\
             memchr.workspace = true\n[dev-dependencies]\nserde_json = \"1\"\n[features]\ndefault = []\n",
        );
        let list = |text: &str| Source::new(DEPENDENCIES, text);
        let rules = |sources: &[Source]| {
            let found = check(sources)
                .into_iter()
                .filter(|breach| breach.rule == "dependencies");
            found.map(|breach| breach.message).collect::<Vec<_>>()
        };
        assert_eq!(
            rules(&[manifest.clone(), list("| memchr | fast | MIT |\n")]).len(),
            1
        );
        let both = list("| `memchr` | fast | MIT |\n| serde_json | JSON | MIT |\n");
        assert!(rules(&[manifest, both]).is_empty());
    }

    #[test]
    fn every_message_of_a_golden_test_needs_a_page() {
        let golden = Source::new(
            "config/a/tests/golden/b/c.txt",
            "a\n----\nerror[some-slug]: no\n",
        );
        let rules = |page: &str| check_messages(&[golden.clone(), Source::new(page, "# A")]);
        assert_eq!(rules("docs/reference/errors/other-slug.md").len(), 1);
        assert!(rules("docs/reference/errors/some-slug.md").is_empty());
    }

    #[test]
    fn documents_must_exist() {
        let found = check(&[Source::new("CHANGELOG.md", "# Changes")]);
        assert_eq!(found.len(), DOCUMENTS.len() - 1);
    }

    #[test]
    fn places_of_one_machine_are_refused() {
        let rules = |path: &str, text: &str| check_places(&Source::new(path, text)).len();
        assert_eq!(rules("a.md", &format!("see {}ork/main", "/w")), 1);
        assert_eq!(rules("a.md", &format!("path = \"{}oot/.cargo\"", "/r")), 1);
        assert_eq!(rules("a.md", &format!("https://a.test{}oot/b", "/r")), 0);
        assert_eq!(rules("Cargo.lock", &format!("source = \"{REGISTRY}\"")), 0);
        assert_eq!(
            rules("Cargo.lock", "source = \"registry+http://10.0.0.1/index\""),
            1
        );
    }
}
