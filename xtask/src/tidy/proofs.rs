//! Tables whose rows say that something works: each row names a test that shows it, or says `untested`. The tables are
//! generated from the registries; here it is checked that the tests exist.

use super::{Breach, Source};

/// The tables, and the folders of the tests that their rows name as ``(`module::test`)``.
const TABLES: &[(&str, &[&str])] = &[(
    "docs/reference/nginx-directives.md",
    &["tests/e2e/nginx/", "tests/peer/"],
)];

/// Heading of the first table in which rows name tests; what follows is about variables, which have a table of their own.
const ENDS: &str = "## Variables";

/// Rows without a test that exists.
pub fn check(sources: &[Source]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (path, folders) in TABLES {
        let Some(table) = sources.iter().find(|source| source.path == *path) else {
            continue;
        };
        let lines = table
            .lines()
            .take_while(|(_, line)| !line.starts_with(ENDS));
        for (number, line) in lines {
            if let Some(message) = judge(line, sources, folders) {
                breaches.push(Breach::new(path, number, "proofs", message));
            }
        }
    }
    breaches
}

/// What is wrong with a row, if anything.
fn judge(line: &str, sources: &[Source], folders: &[&str]) -> Option<String> {
    let row = line.strip_prefix("| ")?.strip_suffix(" |")?;
    let (_, here) = row.rsplit_once(" | ")?;
    if !here.starts_with("works") || here.ends_with("(untested)") {
        return None;
    }
    let named = here
        .strip_suffix("`)")
        .and_then(|text| text.rsplit_once("(`"));
    let Some((module, test)) = named.and_then(|(_, name)| name.split_once("::")) else {
        return Some("a row that says `works` names a test, or says `(untested)`".to_owned());
    };
    let files = [format!("/{module}.rs"), format!("/{module}/mod.rs")];
    let head = format!("fn {test}(");
    let is_there = sources.iter().any(|source| {
        folders.iter().any(|folder| source.path.starts_with(folder))
            && files.iter().any(|end| source.path.ends_with(end))
            && source.text.contains(&head)
    });
    (!is_there).then(|| format!("there is no test `{module}::{test}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_name_tests_that_exist() {
        let file = |path: &str, text: &str| Source {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        let sources = [file("tests/peer/a/mod.rs", "#[test]\nfn shows() {}")];
        let folders = ["tests/peer/"];
        for (line, is_fine) in [
            ("| `root` | http | `path` | works (`a::shows`) |", true),
            ("| `root` | http | `path` | works (untested) |", true),
            ("| `root` | http | `path` | not yet |", true),
            ("| `root` | http | `path` | works |", false),
            ("| `root` | http | `path` | works (`a::hides`) |", false),
            ("| `root` | http | `path` | works (`b::shows`) |", false),
            ("text", true),
        ] {
            assert_eq!(judge(line, &sources, &folders).is_none(), is_fine, "{line}");
        }
    }
}
