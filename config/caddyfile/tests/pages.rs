//! Every message has its page in `docs/errors/`, every page its message, and the examples there do what the pages
//! say. Whether `sluice explain` prints them is left to `bin/sluice`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use sluice_caddyfile::{MemoryLoader, adapt};
use sluice_diag::Severity;

/// Lines of a page: one screen of a small window, with its examples.
const PAGE_LINES_MAX: usize = 22;

/// Messages that come after the text was understood: of servers, and of the command line.
const OF_SERVERS: [&str; 3] = ["cannot-run", "invalid-expression", "not-formatted"];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Names and texts of all pages.
fn pages() -> Vec<(String, String)> {
    let folder = repository().join("docs/errors");
    let mut pages = Vec::new();
    for entry in fs::read_dir(folder).expect("the pages are there").flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|extension| extension == "md") {
            let name = path
                .file_stem()
                .expect("it has an extension")
                .to_string_lossy();
            pages.push((
                name.into_owned(),
                fs::read_to_string(&path).expect("pages are UTF-8"),
            ));
        }
    }
    pages.sort();
    pages
}

/// The first argument of every call that makes a diagnostic.
fn collect_slugs(folder: &Path, slugs: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("the source is there").flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect_slugs(&path, slugs);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("source is UTF-8");
            for behind in ["error(", "warning("]
                .iter()
                .flat_map(|call| text.split(call).skip(1))
            {
                let literal = behind.trim_start().strip_prefix('"');
                let slug = literal
                    .and_then(|rest| rest.split_once('"'))
                    .map(|(slug, _)| slug);
                // The program also writes to logs, whose names have no hyphen.
                slugs.extend(slug.filter(|slug| slug.contains('-')).map(str::to_owned));
            }
        }
    }
}

#[test]
fn messages_and_pages_are_the_same() {
    let mut slugs = BTreeSet::new();
    collect_slugs(&repository().join("config/caddyfile/src"), &mut slugs);
    collect_slugs(&repository().join("config/nginx/src"), &mut slugs);
    collect_slugs(&repository().join("bin/sluice/src"), &mut slugs);
    collect_slugs(
        &repository().join("server/serve/src/expression"),
        &mut slugs,
    );
    assert!(slugs.len() >= 70, "only {slugs:?} were found in the source");
    let names: BTreeSet<String> = pages().into_iter().map(|(name, _)| name).collect();
    let without_page: Vec<_> = slugs.difference(&names).collect();
    assert!(
        without_page.is_empty(),
        "no page in docs/errors for {without_page:?}"
    );
    let without_message: Vec<_> = names.difference(&slugs).collect();
    assert!(
        without_message.is_empty(),
        "nothing says {without_message:?}"
    );
}

#[test]
fn the_index_lists_every_page() {
    let index = fs::read_to_string(repository().join("docs/errors/index.rs"));
    let index = index.expect("the index is there");
    for (name, _) in pages() {
        let line = format!("    \"{name}\"\n");
        assert!(index.contains(&line), "docs/errors/index.rs lacks\n{line}");
    }
}

#[test]
fn pages_are_short() {
    for (name, page) in pages() {
        let lines = page.lines().count();
        assert!(lines <= PAGE_LINES_MAX, "{name} has {lines} lines");
    }
}

/// What follows the fence tells what has to happen: `refused` and `warned` by this message alone, `instead` by none.
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
                // Every file of Caddy 1 is told to be one.
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
