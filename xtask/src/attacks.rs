//! Keeps `docs/attacks.md` true: every class has its row, and every test named there exists. The tests themselves are
//! not checked.

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    /// Number of listed bug classes.
    const ROWS: usize = 77;

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
    }

    fn read(path: &str) -> String {
        std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// The cells of each row, in the order of the page.
    fn rows(page: &str) -> Vec<Vec<&str>> {
        page.lines()
            .filter(|line| line.starts_with("| ") && !line.starts_with("| #"))
            .map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
            .collect()
    }

    /// The code spans that refer to a test: a file and a function.
    fn named(cell: &str) -> impl Iterator<Item = (&str, &str)> {
        let code = cell.split('`').skip(1).step_by(2);
        code.filter_map(|name| name.split_once("::"))
    }

    #[test]
    fn every_class_has_its_row_and_every_test_exists() {
        let page = read("docs/attacks.md");
        let rows = rows(&page);
        assert_eq!(rows.len(), ROWS);
        for (at, row) in rows.iter().enumerate() {
            let [number, class, state, tests] = row[..] else {
                panic!("row {}: {row:?}", at + 1);
            };
            assert_eq!(number, (at + 1).to_string(), "{class}");
            assert!(
                matches!(state, "tested" | "in part" | "not yet" | "does not apply"),
                "{class}: {state}"
            );
            let mut count = 0;
            for (file, function) in named(tests) {
                let source = read(file);
                let is_there = source.contains(&format!("#[test]\nfn {function}("))
                    || source.contains(&format!("#[test]\n    fn {function}("));
                assert!(is_there, "row {number}: no test {function} in {file}");
                count += 1;
            }
            assert!(state != "tested" || count > 0, "row {number} names no test");
            assert!(!tests.is_empty(), "row {number} says nothing");
        }
    }

    #[test]
    fn overflows_are_checked_in_releases() {
        let manifest = read("Cargo.toml");
        let (_, release) = manifest
            .split_once("[profile.release]")
            .expect("the profile");
        let release = release.split("\n[").next().unwrap_or_default();
        assert!(release.contains("\noverflow-checks = true\n"), "{release}");
    }

    #[test]
    fn advisories_are_refused() {
        let deny = read("deny.toml");
        assert!(deny.contains("[advisories]"), "{deny}");
        let check = read("xtask/src/check.rs");
        assert!(check.contains("\"deny\", \"--all-features\", \"check\""));
        let ignored = deny
            .lines()
            .find(|line| line.trim_start().starts_with("ignore"));
        assert!(
            ignored.is_none_or(|line| line.contains("[]")),
            "{ignored:?}"
        );
    }
}
