//! The examples in `docs/errors/` that are nginx.confs do what their pages say. Whether each message has a page is left to
//! the test of this name in `config/caddyfile`.

use std::fs;
use std::path::Path;

use sluice_diag::Severity;
use sluice_nginx::{MemoryLoader, adapt};

/// What follows the fence tells what has to happen: `refused` and `warned` by this message alone, `instead` by none.
/// Lines without an `http` block are those of a `server`.
#[test]
fn examples_do_what_their_pages_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors");
    let mut examples = 0;
    for entry in fs::read_dir(folder).expect("the pages are there").flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let name = path
            .file_stem()
            .expect("it has an extension")
            .to_string_lossy();
        let page = fs::read_to_string(&path).expect("pages are UTF-8");
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
