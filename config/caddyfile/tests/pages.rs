//! Every message has its page in `docs/reference/errors/`, every page its message, and the examples there do what the pages say.
//! `bin/sluice` tests that `sluice explain` prints them.

use std::collections::BTreeSet;
use std::fs;

use sluice_caddyfile::{MemoryLoader, adapt};
use sluice_diag::Severity;

use crate::support;
use crate::support::{pages, repository};

/// Lines of a page: one screen of a small window, with its examples.
const PAGE_LINES_MAX: usize = 22;

/// Messages that come after the text was understood: of servers, and of the command line.
const OF_SERVERS: [&str; 3] = ["cannot-run", "invalid-expression", "not-formatted"];

#[test]
fn messages_and_pages_are_the_same() {
    let mut slugs = BTreeSet::new();
    for folder in [
        "config/caddyfile/src",
        "config/nginx/src",
        "bin/sluice/src",
        "server/pipeline/src/expression",
    ] {
        slugs.extend(support::slugs(&repository().join(folder)));
    }
    assert!(slugs.len() >= 70, "only {slugs:?} were found in the source");
    let names: BTreeSet<String> = pages().into_iter().map(|(name, _)| name).collect();
    let without_page: Vec<_> = slugs.difference(&names).collect();
    assert!(
        without_page.is_empty(),
        "no page in docs/reference/errors for {without_page:?}"
    );
    let without_message: Vec<_> = names.difference(&slugs).collect();
    assert!(
        without_message.is_empty(),
        "nothing says {without_message:?}"
    );
}

#[test]
fn the_index_lists_every_page() {
    let index = fs::read_to_string(repository().join("docs/reference/errors/index.rs"));
    let index = index.expect("the index is there");
    for (name, _) in pages() {
        let line = format!("    \"{name}\"\n");
        assert!(
            index.contains(&line),
            "docs/reference/errors/index.rs lacks\n{line}"
        );
    }
}

#[test]
fn pages_are_short() {
    for (name, page) in pages() {
        let lines = page.lines().count();
        assert!(lines <= PAGE_LINES_MAX, "{name} has {lines} lines");
    }
}

/// The word after the fence states the expected result: `refused` and `warned` by this message alone, `instead` by
/// none.
#[test]
fn examples_do_what_their_pages_say() {
    let mut examples = 0;
    for (name, page) in pages() {
        if OF_SERVERS.contains(&name.as_str()) {
            continue;
        }
        for block in page.split("```caddyfile ").skip(1) {
            let (kind, rest) = block.split_once('\n').expect("a line ends the fence");
            let (text, _) = rest.split_once("```").expect("the block ends");
            let adapted = adapt("Caddyfile", text, &MemoryLoader::default());
            let said: Vec<_> = adapted
                .report
                .sorted()
                .iter()
                .map(|found| (found.severity, found.slug))
                // Every Caddy 1 file is reported as such.
                .filter(|(_, slug)| *slug != "caddy1-dialect" || name == *slug)
                .collect();
            let refused = adapted.config.is_none();
            let expected = match kind {
                "refused" => (vec![(Severity::Error, name.as_str())], true),
                "warned" => (vec![(Severity::Warning, name.as_str())], false),
                "instead" => (Vec::new(), false),
                other => panic!("{name}: an example is `{other}`"),
            };
            assert_eq!(
                (said, refused),
                expected,
                "{name}: the example that is {kind}\n{text}"
            );
            examples += 1;
        }
    }
    assert!(examples >= 80, "only {examples} examples were found");
}
