//! What tests skipped for want of a program or a privilege. The test runner does not show the output of a test that
//! passes, so tests append such lines to a file, and the end of the run lists them.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The file of one run.
pub struct SkippedFile(PathBuf);

impl SkippedFile {
    /// An empty file below `target`.
    pub fn new(root: &Path) -> SkippedFile {
        let path = root.join("target/skipped-tests");
        // Removes the file of an earlier run.
        let _ = std::fs::remove_file(&path);
        SkippedFile(path)
    }

    /// The environment variable that names it to the tests.
    pub fn variable(&self) -> (&'static str, &OsStr) {
        ("SLUICE_SKIPPED", self.0.as_os_str())
    }

    /// What the tests have recorded so far.
    pub fn read(&self) -> Skipped {
        Skipped::parse(&std::fs::read_to_string(&self.0).unwrap_or_default())
    }
}

/// The recorded lines.
#[derive(Debug, Default, PartialEq)]
pub struct Skipped {
    /// `skipped: NAME: reason` and `skipped in part: NAME: reason`, sorted and without duplicates.
    pub lines: BTreeSet<String>,
    /// The names of tests that did not run at all. The test runner counts them as passed.
    pub tests: BTreeSet<String>,
}

impl Skipped {
    fn parse(text: &str) -> Skipped {
        let lines: BTreeSet<String> = text.lines().map(str::to_owned).collect();
        let name = |line: &String| {
            let (name, _) = line.strip_prefix("skipped: ")?.split_once(": ")?;
            Some(name.to_owned())
        };
        let tests = lines.iter().filter_map(name).collect();
        Skipped { lines, tests }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipped_tests_are_listed_once_and_in_order() {
        let text = "skipped: m::b: no IPv6\nskipped in part: m::c: no ab\nskipped: a: no: curl\n\
                    skipped: m::b: no IPv6\nskipped: m::b: no nginx\n";
        let skipped = Skipped::parse(text);
        let lines = [
            "skipped in part: m::c: no ab",
            "skipped: a: no: curl",
            "skipped: m::b: no IPv6",
            "skipped: m::b: no nginx",
        ];
        assert!(skipped.lines.iter().eq(lines));
        assert!(skipped.tests.iter().eq(["a", "m::b"]));
        assert_eq!(Skipped::parse(""), Skipped::default());
    }
}
