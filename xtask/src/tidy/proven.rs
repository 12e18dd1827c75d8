//! The reference tables name a test for each row that works, and the tests exist. Whether a test uses what its row is
//! about is checked by the tests that generate the tables (`registry_table`).

use super::{Breach, Source};
use crate::proofs::{self, UNTESTED};

/// The tables, each with the package of its language.
const TABLES: &[(&str, &str)] = &[
    ("docs/reference/caddyfile-directives.md", "caddyfile"),
    ("docs/reference/nginx-directives.md", "nginx"),
];

/// All breaches of the tables.
pub fn check(sources: &[Source]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (path, config) in TABLES {
        let Some(page) = sources.iter().find(|source| source.path == *path) else {
            continue;
        };
        let files = sources.iter().map(|source| (&*source.path, &*source.text));
        let tests = proofs::tests(files, config);
        for (number, line) in page.lines() {
            let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
            let works = cells.iter().position(|cell| {
                cell.strip_prefix("works")
                    .is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
            });
            let Some(works) = works.filter(|_| line.starts_with("| ")) else {
                continue;
            };
            let message = match cells.get(works + 1).copied() {
                Some(UNTESTED) => continue,
                Some(cell) => match proofs::named(cell) {
                    Some((_, name)) if tests.iter().any(|test| test.name == name) => continue,
                    Some((_, name)) => format!("no test `{name}`; write the table anew"),
                    None => format!("`{cell}` is neither a test nor `{UNTESTED}`"),
                },
                None => format!("a row that works names its test, or `{UNTESTED}`"),
            };
            breaches.push(Breach::new(path, number, "proofs", message));
        }
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_work_name_a_test_that_exists() {
        let test = "#[test]\nfn is_served() {\n    server.ask(\"/\");\n}\n";
        let breaches = |cells: &str| {
            let page = format!("| a | b | c |\n|---|---|---|\n| `x` | {cells} |\n");
            let sources = [
                Source::new("docs/reference/nginx-directives.md", page),
                Source::new("tests/e2e/a.rs", test),
            ];
            check(&sources).len()
        };
        assert_eq!(breaches("works | e2e: `tests/e2e/a.rs::is_served`"), 0);
        assert_eq!(breaches("works: ours | untested"), 0);
        assert_eq!(breaches("not yet | "), 0);
        assert_eq!(breaches("works | e2e: `tests/e2e/a.rs::gone`"), 1);
        assert_eq!(breaches("works | yes"), 1);
        assert_eq!(breaches("works"), 1);
    }
}
