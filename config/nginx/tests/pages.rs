//! The nginx.conf examples in `docs/reference/errors/` do what their pages say. The test of the same name in `config/caddyfile`
//! checks that each message has a page.

use sluice_diag::Severity;
use sluice_nginx::{MemoryLoader, adapt};

use crate::support;

/// The word after the fence states the expected result: `refused` and `warned` by this message alone, `instead` by
/// none. Lines without an `http` block belong to a `server`.
#[test]
fn examples_do_what_their_pages_say() {
    let mut examples = 0;
    for (name, page) in support::pages() {
        for block in page.split("```nginx ").skip(1) {
            let (kind, rest) = block.split_once('\n').expect("a line ends the fence");
            let (text, _) = rest.split_once("```").expect("the block ends");
            let whole = match text.contains("http {") {
                true => text.to_owned(),
                false => format!(
                    "events {{ worker_connections 100; }}\nhttp {{ server {{\n{text}}} }}\n"
                ),
            };
            let adapted = adapt("nginx.conf", &whole, &MemoryLoader::default());
            let found = adapted.report.sorted();
            let said: Vec<_> = found
                .iter()
                .map(|found| (found.severity, found.slug))
                .collect();
            let expected = match kind {
                "refused" => vec![(Severity::Error, &*name)],
                "warned" => vec![(Severity::Warning, &*name)],
                "instead" => Vec::new(),
                other => panic!("{name}: an example is `{other}`"),
            };
            assert_eq!(said, expected, "{name}: the example that is {kind}\n{text}");
            examples += 1;
        }
    }
    assert!(examples >= 30, "only {examples} examples were found");
}
