//! The documentation is correct: the Caddyfiles in the reference and the readme are valid.

use std::fs;
use std::path::{Path, PathBuf};

use crate::harness::{Folder, run_to_end, text};

/// The output of `sluice validate` for a Caddyfile; empty if there is none.
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
    let reference = fs::read_dir(repository.join("docs/reference")).expect("the pages are there");
    let pages = reference.flatten().map(|entry| entry.path());
    let pages = pages.filter(|path| path.is_file());
    pages.chain([repository.join("README.md")]).collect()
}

#[test]
fn examples_of_the_reference_are_valid() {
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
