//! Keeps `docs/lab/requirements.md` true: each requirement has its row, and every test named there exists.

use std::fs;
use std::path::{Path, PathBuf};

/// The points of the design.
const ROWS: usize = 62;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn each_requirement_has_its_row_and_every_test_exists() {
    let page = fs::read_to_string(root().join("docs/lab/requirements.md")).unwrap();
    let rows = page.lines().filter(|line| line.starts_with("| "));
    let rows: Vec<Vec<&str>> = rows
        .filter(|line| !line.starts_with("| #"))
        .map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
        .collect();
    assert_eq!(rows.len(), ROWS);
    let mut met = 0;
    for (at, row) in rows.iter().enumerate() {
        let [number, what, state, remark, tests] = row[..] else {
            panic!("row {}: {row:?}", at + 1);
        };
        assert_eq!(number, (at + 1).to_string(), "{what}");
        assert!(matches!(state, "yes" | "in part"), "{what}: {state}");
        assert!(state == "yes" || remark != "–", "{what}: what is missing?");
        met += usize::from(state == "yes");
        let mut count = 0;
        let code = tests.split('`').skip(1).step_by(2);
        for (file, function) in code.filter_map(|name| name.split_once("::")) {
            let source = fs::read_to_string(root().join(file));
            let source = source.unwrap_or_else(|error| panic!("row {number}: {file}: {error}"));
            let is_there = source.contains(&format!("#[test]\nfn {function}("))
                || source.contains(&format!("#[test]\n    fn {function}("));
            assert!(is_there, "row {number}: no test {function} in {file}");
            count += 1;
        }
        assert!(count > 0, "row {number} names no test");
    }
    let sums = format!("{met} are met, {} in part", ROWS - met);
    assert!(page.contains(&sums), "{sums}");
}
