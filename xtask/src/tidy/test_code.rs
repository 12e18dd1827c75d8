//! Rules for tests: a package links its tests once, and tests wait for events instead of for time.

use super::scan::scan;
use super::{Breach, Source};

/// Lines above a pause in which its reason must be given.
const REASON_LINES: usize = 3;

/// Where conditions are polled for all tests.
const WAITING: &str = "tests/support/wait.rs";

/// All breaches of test programs: each one costs seconds of linking, so a package has one, `tests/main.rs`, and every
/// other file beside it is a module of it.
pub fn check_programs(sources: &[Source]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let find = |path: &str| sources.iter().find(|source| source.path == path);
    for source in sources {
        let Some((folder, file)) = source.path.rsplit_once("/tests/") else {
            continue;
        };
        let Some(name) = file.strip_suffix(".rs").filter(|it| !it.contains('/')) else {
            continue;
        };
        let Some(manifest) = find(&format!("{folder}/Cargo.toml")) else {
            continue;
        };
        let main = find(&format!("{folder}/tests/main.rs"));
        let is_module = main.is_some_and(|main| {
            let line = format!("mod {name};");
            main.text.lines().any(|found| found.trim() == line)
        });
        let message = match name {
            "main" if manifest.text.contains("autotests = false") => continue,
            "main" => "its Cargo.toml lacks `autotests = false`: each file would be a program",
            _ if is_module => continue,
            _ => "a file of tests that is not a module of `tests/main.rs`",
        };
        breaches.push(Breach::new(&source.path, 0, "test-programs", message));
    }
    breaches
}

/// All libraries whose `doctest` setting does not fit: rustdoc takes a second for each library to find out that there is
/// no example, and an example that is not run is not trustworthy.
pub fn check_doctests(sources: &[Source]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for manifest in sources.iter().filter(|it| it.path.ends_with("/Cargo.toml")) {
        let inside = format!("{}/src/", manifest.folder());
        let mut files = sources.iter().filter(|it| it.path.starts_with(&inside));
        if !files.clone().any(|it| it.path == format!("{inside}lib.rs")) {
            continue;
        }
        let has_example = files.any(|source| {
            let mut lines = source.text.lines().map(str::trim_start);
            lines.any(|line| line.starts_with("/// ```") || line.starts_with("//! ```"))
        });
        let is_off = manifest.text.contains("doctest = false");
        let message = match (has_example, is_off) {
            (true, true) => "its documentation has examples: remove `doctest = false`",
            (false, false) => "its documentation has no examples: `doctest = false` in `[lib]`",
            _ => continue,
        };
        breaches.push(Breach::new(&manifest.path, 0, "doctests", message));
    }
    breaches
}

/// All pauses in the tests of one file that do not give a reason: a test waits for an event (`support::wait`), and where
/// it cannot, a comment says why.
pub fn check_pauses(source: &Source) -> Vec<Breach> {
    if source.path == WAITING {
        return Vec::new();
    }
    let is_test_file = source.path.ends_with("/tests.rs")
        || source.path.ends_with("_tests.rs")
        || source.path.split('/').any(|part| part == "tests");
    let lines = scan(&source.text);
    let mut breaches = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let pauses = ["thread::sleep(", "time::sleep("]
            .iter()
            .any(|call| line.code.contains(call))
            || line.code.trim_start().starts_with("sleep(");
        let above = &lines[at.saturating_sub(REASON_LINES)..=at];
        let has_reason = above.iter().any(|line| !line.comment.is_empty());
        if (is_test_file || line.is_test) && pauses && !has_reason {
            let message = "a test waits for an event, not for time: use `support::wait`, or say \
                           in a comment above why time has to pass";
            breaches.push(Breach::new(&source.path, at + 1, "pauses", message));
        }
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_has_one_test_program() {
        let manifest = |text: &str| Source::new("ground/a/Cargo.toml", text);
        let file = |name: &str, text: &str| Source::new(format!("ground/a/tests/{name}.rs"), text);
        let main = file("main", "//! All.\nmod one;\nmod feed;\n");
        let one = file("one", "//! One.\n");
        let module = Source::new("ground/a/tests/feed/mod.rs", "//! Shared.\n");
        let apart = manifest("autotests = false\n");
        let good = [apart.clone(), main.clone(), one.clone(), module];
        assert!(check_programs(&good).is_empty());
        let paths = |sources: &[Source]| -> Vec<String> {
            let breaches = check_programs(sources);
            breaches.into_iter().map(|breach| breach.path).collect()
        };
        assert_eq!(
            paths(&[manifest(""), main.clone(), one.clone()]),
            ["ground/a/tests/main.rs"]
        );
        assert_eq!(
            paths(&[apart.clone(), main, file("two", "//! Two.\n")]),
            ["ground/a/tests/two.rs"]
        );
        assert_eq!(paths(&[apart, one]), ["ground/a/tests/one.rs"]);
    }

    #[test]
    fn doctests_are_on_where_there_are_examples() {
        let count = |manifest: &str, library: &str| {
            let manifest = Source::new("ground/a/Cargo.toml", manifest);
            let library = Source::new("ground/a/src/lib.rs", library);
            check_doctests(&[manifest, library]).len()
        };
        let example = "//! A.\n\n/// B:\n/// ```\n/// a();\n/// ```\npub fn a() {}\n";
        assert_eq!(count("doctest = false\n", "//! A.\n"), 0);
        assert_eq!(count("", "//! A.\n"), 1);
        assert_eq!(count("", example), 0);
        assert_eq!(count("doctest = false\n", example), 1);
    }

    #[test]
    fn a_pause_in_a_test_has_a_reason() {
        let count = |path: &str, text: &str| check_pauses(&Source::new(path, text)).len();
        let pause = "//! A.\n\n\n\nfn a() {\n    thread::sleep(PAUSE);\n}\n";
        assert_eq!(count("tests/e2e/a.rs", pause), 1);
        assert_eq!(count("ground/a/src/b.rs", pause), 0);
        assert_eq!(count(WAITING, pause), 0);
        let reason = pause.replace("fn a() {\n", "fn a() {\n    // The client is slow.\n");
        assert_eq!(count("tests/e2e/a.rs", &reason), 0);
        let unit = format!("//! A.\n#[cfg(test)]\nmod tests {{\n{}}}\n", &pause[8..]);
        assert_eq!(count("ground/a/src/b.rs", &unit), 1);
    }
}
