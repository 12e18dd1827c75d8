//! Runs tests, and reruns each that failed, alone. A test that then passes is reported as `flaky: NAME` and does not
//! fail the run: it is fixed in the next change instead of blocking this one.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use crate::skipped::Skipped;

/// With more failures than this the change is at fault, and nothing is rerun.
const RERUNS_MAX: usize = 10;

/// The result of a run of `cargo test`.
#[derive(Debug, Default, PartialEq)]
pub struct Summary {
    /// Tests that passed, flaky ones included.
    pub passed: usize,
    /// Tests that failed twice, or once if nothing was rerun.
    pub failed: Vec<String>,
    /// Tests that failed, and passed when run alone.
    pub flaky: Vec<String>,
    /// Tests of the slower kinds, which have commands of their own.
    pub ignored: usize,
    /// Targets that ended without a result: they did not compile, or a test ended the process.
    pub broken: usize,
}

impl Summary {
    /// Whether the change may be merged.
    pub fn is_good(&self) -> bool {
        self.failed.is_empty() && self.broken == 0
    }

    /// Prints what did not simply pass, by name, and the counts.
    pub fn print(&self, skipped: &Skipped) {
        print!("{}", self.text(skipped));
    }

    fn text(&self, skipped: &Skipped) -> String {
        let listed = |prefix: &str, names: &[String]| -> Vec<String> {
            names.iter().map(|name| format!("{prefix}{name}")).collect()
        };
        let mut lines: Vec<String> = skipped.lines.iter().cloned().collect();
        lines.extend(listed("flaky: ", &self.flaky));
        lines.extend(listed("failed: ", &self.failed));
        if self.broken > 0 {
            lines.push(format!("failed: {} targets without a result", self.broken));
        }
        if self.ignored > 0 {
            let note =
                "tests of slower kinds were not asked for (cargo xtask lists their commands)";
            lines.push(format!("ignored: {} {note}", self.ignored));
        }
        let failed = self.failed.len() + self.broken;
        let passed = self.passed.saturating_sub(skipped.tests.len());
        let counts = format!(
            "{passed} passed, {failed} failed, {} skipped",
            skipped.tests.len()
        );
        lines.push(format!("summary: {counts}\n"));
        lines.join("\n")
    }
}

/// Where the output of the tests appears.
#[derive(Clone, Copy)]
pub enum Echo {
    /// On standard output and standard error, as it arrives.
    Terminal,
    /// Nowhere: the result of a run inside a test must not be read as that of the run around it.
    #[cfg(test)]
    Off,
}

/// Runs tests of one workspace.
pub struct Runner<'a> {
    /// Its root folder.
    pub root: &'a Path,
    /// Environment variables for the tests.
    pub variables: &'a [(&'a str, &'a OsStr)],
    /// Where their output appears.
    pub echo: Echo,
}

impl Runner<'_> {
    /// Runs `cargo test` with `args`. Reruns each failed test alone.
    pub fn test(&self, args: &[&str]) -> Summary {
        let at = args.iter().position(|arg| *arg == "--");
        let (options, filters) = args.split_at(at.unwrap_or(args.len()));
        let all = [&["test", "--no-fail-fast"], options, filters].concat();
        let (succeeded, output) = self.run(&all);
        let mut summary = output.summary(succeeded);
        if (1..=RERUNS_MAX).contains(&summary.failed.len()) {
            let ignored: &[&str] = match filters.contains(&"--include-ignored") {
                true => &["--include-ignored"],
                false => &[],
            };
            summary.failed.retain(|name| {
                let mut targets = output.targets.iter();
                let passed = targets.any(|target| self.passes_alone(target, name, ignored));
                if passed {
                    summary.flaky.push(name.clone());
                    summary.passed += 1;
                }
                !passed
            });
        }
        summary
    }

    /// Whether the test `name` is in `target`, and passes when run alone.
    fn passes_alone(&self, target: &str, name: &str, ignored: &[&str]) -> bool {
        // `-p NAME` would select other features of third-party crates than the first run did, and rebuild them.
        let kind = target.split_whitespace().skip(2);
        let mut args = vec!["test", "--quiet", "--workspace"];
        args.extend(kind);
        args.extend(["--", "--exact", name]);
        args.extend(ignored);
        let (succeeded, output) = self.run(&args);
        succeeded && output.passed > 0
    }

    fn run(&self, args: &[&str]) -> (bool, Output) {
        let mut command = Command::new("cargo");
        command.args(args).current_dir(self.root);
        command.envs(self.variables.iter().copied());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => {
                eprintln!("cargo: {error}");
                return (false, Output::default());
            }
        };
        let stderr = child.stderr.take().expect("it is piped");
        let stdout = child.stdout.take().expect("it is piped");
        let echo = self.echo;
        let errors = thread::spawn(move || copy(stderr, std::io::stderr(), echo));
        let results = read_results(&copy(stdout, std::io::stdout(), echo));
        let errors = errors.join().unwrap_or_default();
        let succeeded = child.wait().is_ok_and(|status| status.success());
        let targets = read_targets(&errors);
        (succeeded, Output { targets, ..results })
    }
}

/// The parsed output of `cargo test`.
#[derive(Debug, Default, PartialEq)]
struct Output {
    passed: usize,
    ignored: usize,
    failed: Vec<String>,
    /// Targets that ended with a result in which tests failed.
    failed_results: usize,
    /// Options that select the targets in which tests failed, such as `-p sluice --test e2e`.
    targets: Vec<String>,
}

impl Output {
    fn summary(&self, succeeded: bool) -> Summary {
        // A target that failed without a result ended early; if none is named, compilation failed.
        let silent = self.targets.len().saturating_sub(self.failed_results);
        let compiled = succeeded || !self.targets.is_empty();
        Summary {
            passed: self.passed,
            failed: self.failed.clone(),
            flaky: Vec::new(),
            ignored: self.ignored,
            broken: silent + usize::from(!compiled),
        }
    }
}

/// Copies input to the terminal, and returns its lines.
fn copy(from: impl Read, mut to: impl Write, echo: Echo) -> Vec<String> {
    let mut lines = Vec::new();
    let mut reader = BufReader::new(from);
    let mut line = Vec::new();
    while reader
        .read_until(b'\n', &mut line)
        .is_ok_and(|count| count > 0)
    {
        match echo {
            // The tests go on if nobody reads any more.
            Echo::Terminal => drop(to.write_all(&line)),
            #[cfg(test)]
            Echo::Off => {}
        }
        lines.push(String::from_utf8_lossy(&line).trim_end().to_owned());
        line.clear();
    }
    lines
}

/// Parses the counts and the names of failed tests: the test runner lists those last, indented, under `failures:`.
fn read_results(lines: &[String]) -> Output {
    let mut output = Output::default();
    let mut listed = Vec::new();
    let mut in_list = false;
    for line in lines {
        if line == "failures:" {
            // The first list has the output of the tests, the second one their names.
            listed.clear();
            in_list = true;
        } else if let Some(rest) = line.strip_prefix("test result: ") {
            output.passed += count(rest, "passed");
            output.ignored += count(rest, "ignored");
            output.failed_results += usize::from(rest.starts_with("FAILED"));
            output.failed.append(&mut listed);
            in_list = false;
        } else if in_list && let Some(name) = line.strip_prefix("    ") {
            listed.push(name.to_owned());
        } else if !line.is_empty() {
            in_list = false;
        }
    }
    output
}

/// The number before `word`, as in `ok. 12 passed; 0 failed`.
fn count(text: &str, word: &str) -> usize {
    let words: Vec<&str> = text.split([' ', ';']).collect();
    let pair = words.windows(2).find(|pair| pair[1] == word);
    pair.and_then(|pair| pair[0].parse().ok()).unwrap_or(0)
}

/// Parses the targets that cargo names in backquotes: each on a line of its own, or one after `to rerun pass`.
fn read_targets(lines: &[String]) -> Vec<String> {
    let named = lines.iter().filter_map(|line| {
        let line = line.trim();
        let single = line.strip_prefix("error: test failed, to rerun pass ");
        let target = single.unwrap_or(line).strip_prefix('`')?;
        target.strip_suffix('`').filter(|it| it.starts_with("-p "))
    });
    // Cargo names each when it fails, and all of them at the end.
    let mut targets: Vec<String> = Vec::new();
    for name in named {
        if !targets.iter().any(|known| known == name) {
            targets.push(name.to_owned());
        }
    }
    targets
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skipped::SkippedFile;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn failed_tests_are_read_by_name() {
        let text = "running 3 tests\n\nfailures:\n\n---- a::b stdout ----\n    indented output\n\n\
                    failures:\n    a::b\n    c\n\ntest result: FAILED. 1 passed; 2 failed; 0 ignored\n\
                    running 4 tests\n....\ntest result: ok. 4 passed; 0 failed; 0 ignored\n";
        let output = read_results(&lines(text));
        assert_eq!(output.failed, ["a::b", "c"]);
        assert_eq!((output.passed, output.failed_results), (5, 1));
    }

    #[test]
    fn a_target_without_a_result_fails_the_run() {
        let mut output = read_results(&lines("test result: ok. 4 passed; 0 failed; 0 ignored\n"));
        assert!(output.summary(true).is_good());
        assert!(!output.summary(false).is_good());
        output.targets = vec![
            "-p sluice --test e2e".to_owned(),
            "-p xtask --bin xtask".to_owned(),
        ];
        output.failed = vec!["a".to_owned()];
        output.failed_results = 1;
        assert_eq!(output.summary(false).broken, 1);
    }

    /// A package in which every kind of result occurs. The state of the flaky test is a file.
    const PACKAGE: &str = r#"
use std::{env::var_os, fs};

#[test]
fn passes() {}

#[test]
fn fails_the_first_time() {
    let mark = var_os("MARK").unwrap();
    let has_run = fs::exists(&mark).unwrap();
    fs::write(&mark, "").unwrap();
    assert!(has_run);
}

#[test]
fn fails() {
    panic!("as it should");
}

#[test]
fn cannot_run() {
    fs::write(var_os("SLUICE_SKIPPED").unwrap(), "skipped: cannot_run: no such program\n").unwrap();
}

#[test]
#[ignore = "slow"]
fn is_slow() {}
"#;

    #[test]
    fn a_test_that_passes_alone_is_flaky_and_does_not_fail_the_run() {
        let folder = std::env::temp_dir().join(format!("sluice-rerun-{}", std::process::id()));
        // Cargo names the packages of failed tests only in a workspace of several.
        let all = "[workspace]\nmembers = [\"kinds\", \"other\"]\nresolver = \"3\"\n";
        for (name, text) in [("kinds", PACKAGE), ("other", "")] {
            let manifest = format!("[package]\nname = \"{name}\"\nedition = \"2024\"\n");
            std::fs::create_dir_all(folder.join(name).join("src")).unwrap();
            std::fs::write(folder.join(name).join("Cargo.toml"), manifest).unwrap();
            std::fs::write(folder.join(name).join("src/lib.rs"), text).unwrap();
        }
        std::fs::write(folder.join("Cargo.toml"), all).unwrap();
        let (mark, target) = (folder.join("mark"), folder.join("target"));
        let file = SkippedFile::new(&folder);
        std::fs::create_dir_all(&target).unwrap();
        let variables = [
            ("MARK", mark.as_os_str()),
            ("CARGO_TARGET_DIR", target.as_os_str()),
            file.variable(),
        ];
        let runner = Runner {
            root: &folder,
            variables: &variables,
            echo: Echo::Off,
        };
        let summary = runner.test(&["--workspace", "--lib"]);
        let skipped = file.read();
        assert_eq!(summary.flaky, ["fails_the_first_time"]);
        assert_eq!(summary.failed, ["fails"]);
        assert!(!summary.is_good());
        assert_eq!(
            summary.text(&skipped),
            "skipped: cannot_run: no such program\nflaky: fails_the_first_time\nfailed: fails\n\
             ignored: 1 tests of slower kinds were not asked for (cargo xtask lists their commands)\n\
             summary: 2 passed, 1 failed, 1 skipped\n"
        );

        // Without the test that always fails, the run is good.
        std::fs::remove_file(&mark).unwrap();
        let filters = ["--workspace", "--lib", "--", "fails_the_first"];
        let summary = runner.test(&filters);
        assert_eq!(summary.flaky, ["fails_the_first_time"]);
        assert!(summary.is_good());
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn failed_targets_are_read_as_options() {
        let many =
            "error: 2 targets failed:\n    `-p sluice --test e2e`\n    `-p sluice-net --lib`\n";
        let targets = ["-p sluice --test e2e", "-p sluice-net --lib"];
        assert_eq!(read_targets(&lines(many)), targets);
        let each = "error: test failed, to rerun pass `-p sluice --test e2e`\n\
                    error: test failed, to rerun pass `-p sluice-net --lib`\n";
        assert_eq!(read_targets(&lines(&(each.to_owned() + many))), targets);
        let one = "error: test failed, to rerun pass `-p sluice --test e2e`\n";
        assert_eq!(read_targets(&lines(one)), targets[..1]);
    }
}
