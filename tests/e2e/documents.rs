//! What the documents say: the Caddyfiles of the guide and the readme are ones that a server runs, and what the
//! registry calls refused is refused.

use std::fs;
use std::path::{Path, PathBuf};

use sluice_caddyfile::registry::{GAPS, Running};

use crate::harness::{Folder, run_to_end, text};

/// What `sluice validate` says of a Caddyfile; empty if nothing.
fn validate(folder: &Folder, caddyfile: &str) -> String {
    folder.write("Caddyfile", caddyfile);
    let output = run_to_end(folder, &["validate", "--message-format", "short"]);
    let said = text(&output.stderr);
    assert_eq!(
        output.status.code(),
        Some(i32::from(said.contains("error["))),
        "{said}"
    );
    said
}

fn documents() -> Vec<PathBuf> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let guide = fs::read_dir(repository.join("docs/guide")).expect("the guide is there");
    let pages = guide.flatten().map(|entry| entry.path());
    pages.chain([repository.join("README.md")]).collect()
}

#[test]
fn examples_of_the_guide_are_valid() {
    let folder = Folder::new();
    let mut examples = 0;
    for path in documents() {
        let page = fs::read_to_string(&path).expect("pages are UTF-8");
        for block in page.split("```caddyfile\n").skip(1) {
            let (caddyfile, _) = block.split_once("\n```").expect("the block ends");
            let said = validate(&folder, &format!("{caddyfile}\n"));
            assert_eq!(said, "", "{}:\n{caddyfile}", path.display());
            examples += 1;
        }
    }
    assert!(examples >= 50, "only {examples} examples were found");
}

/// One line, or option in its directive, for each word that the registry calls refused.
const REFUSED: &[(&str, &str, &str)] = &[];

/// A site in which an option stands in its place.
fn around(place: &str, line: &str) -> String {
    let (before, after) = match place {
        "" => ("", ""),
        "matcher" => ("@m ", "\nrespond @m ok"),
        "proxy_protocol" => {
            return format!(
                "{{\nservers {{\nlistener_wrappers {{\nproxy_protocol {{\n{line}\n}}\n}}\n}}\n}}\n\
                 a.localhost {{\n}}\n"
            );
        }
        "global options" => {
            return format!("{{\nacme_ca https://localhost/dir\n{line}\n}}\na.example {{\n}}\n");
        }
        "issuer acme" => ("tls {\nissuer acme {\n", "\n}\n}"),
        "dynamic" => ("reverse_proxy {\ndynamic a localhost 1 {\n", "\n}\n}"),
        "transport http" => ("reverse_proxy localhost:1 {\ntransport http {\n", "\n}\n}"),
        "client_auth" => ("tls {\nclient_auth {\n", "\n}\n}"),
        "verifier leaf" => ("tls {\nclient_auth {\nverifier leaf {\n", "\n}\n}\n}"),
        "trust_pool" => ("tls {\nclient_auth {\ntrust_pool ", "\n}\n}"),
        directive => return format!("a.localhost {{\n{directive} {{\n{line}\n}}\n}}\n"),
    };
    format!("a.localhost {{\n{before}{line}{after}\n}}\n")
}

#[test]
fn what_the_registry_calls_refused_is_refused() {
    let folder = Folder::new();
    for (place, name, line) in REFUSED {
        let gap = GAPS
            .iter()
            .find(|gap| gap.place == *place && gap.name == *name);
        let gap = gap.unwrap_or_else(|| panic!("`{place}` has no gap `{name}`"));
        assert!(matches!(gap.running, Running::Refused(_)), "{gap:?}");
        let said = validate(&folder, &around(place, line));
        assert!(
            said.contains("error[cannot-run]"),
            "`{name}` of `{place}` is taken: {said}"
        );
    }
}

#[test]
fn every_refused_word_is_tried() {
    let mut untried = Vec::new();
    for gap in GAPS
        .iter()
        .filter(|gap| matches!(gap.running, Running::Refused(_)))
    {
        let tried = REFUSED
            .iter()
            .any(|(place, name, _)| (gap.place, gap.name) == (*place, *name));
        if !tried {
            untried.push(gap);
        }
    }
    assert!(untried.is_empty(), "{untried:?}");
}
