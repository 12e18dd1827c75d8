//! Golden tests: `tests/golden/<topic>/*.txt` contain an nginx.conf, a line `----`, and the resulting messages and
//! model. `BLESS=1` rewrites what differs; review the diff. A case that begins with `=== site` is wrapped in `events {}
//! http { server {` and `}}`; further files are given as `=== file sites/a.conf` before the `----`.

use std::path::{Path, PathBuf};

use sluice_diag::Colour;
use sluice_nginx::{MemoryLoader, adapt};

use crate::support;

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

#[test]
fn golden_cases() {
    let cases = support::cases(&root()).len();
    assert!(cases >= 15, "only {cases} cases were found");
    support::check(&root(), |_, input| run(input));
}

#[test]
fn every_slug_has_a_case() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    support::every_slug_has_a_case(&source, &root(), &NOT_IN_TEXT);
}

/// Slugs whose cases are too long to be written out; `tests/limits.rs` has them.
const NOT_IN_TEXT: [&str; 3] = ["too-long", "too-many-groups", "too-much"];
