//! Runs tests, and reruns each that failed, alone. A test that then passes is reported as `flaky: NAME` and does not
//! fail the run: it is fixed in the next change instead of blocking this one.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

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
    /// Targets that ended without a result: they did not compile, or a test ended the process.
    pub broken: usize,
}

impl Summary {
    /// Whether the change may be merged.
    pub fn is_good(&self) -> bool {
        self.failed.is_empty() && self.broken == 0
    }

    fn print(&self) {
        for name in &self.failed {
            println!("failed: {name}");
        }
        for name in &self.flaky {
            println!("flaky: {name}");
        }
        let failed = self.failed.len() + self.broken;
        println!("summary: {} passed, {failed} failed", self.passed);
    }
}

/// Runs `cargo test` with `args`, prints its output as it arrives, and a summary at the end.
pub fn test(root: &Path, args: &[&str], variables: &[(&str, &OsStr)]) -> bool {
    let at = args.iter().position(|arg| *arg == "--");
    let (options, filters) = args.split_at(at.unwrap_or(args.len()));
    let all = [&["test", "--no-fail-fast"], options, filters].concat();
    let (succeeded, output) = run(root, &all, variables);
    let mut summary = output.summary(succeeded);
    if (1..=RERUNS_MAX).contains(&summary.failed.len()) {
        let ignored: &[&str] = match filters.contains(&"--include-ignored") {
            true => &["--include-ignored"],
            false => &[],
        };
        summary.failed.retain(|name| {
            let passed = output
                .targets
                .iter()
                .any(|target| alone(root, target, name, ignored, variables));
            if passed {
                summary.flaky.push(name.clone());
                summary.passed += 1;
            }
            !passed
        });
    }
    summary.print();
    summary.is_good()
}

/// Whether the test `name` is in `target`, and passes when run alone.
fn alone(
    root: &Path,
    target: &str,
    name: &str,
    ignored: &[&str],
    variables: &[(&str, &OsStr)],
) -> bool {
    // `-p NAME` would select other features of third-party crates than the first run did, and rebuild them.
    let kind = target.split_whitespace().skip(2);
    let mut args = vec!["test", "--quiet", "--workspace"];
    args.extend(kind);
    args.extend(["--", "--exact", name]);
    args.extend(ignored);
    let (succeeded, output) = run(root, &args, variables);
    succeeded && output.passed > 0
}

/// The parsed output of `cargo test`.
#[derive(Debug, Default, PartialEq)]
struct Output {
    passed: usize,
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
            broken: silent + usize::from(!compiled),
        }
    }
}

fn run(root: &Path, args: &[&str], variables: &[(&str, &OsStr)]) -> (bool, Output) {
    let mut command = Command::new("cargo");
    command.args(args).current_dir(root);
    command.envs(variables.iter().copied());
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
    let errors = thread::spawn(move || copy(stderr, std::io::stderr()));
    let results = read_results(&copy(stdout, std::io::stdout()));
    let errors = errors.join().unwrap_or_default();
    let succeeded = child.wait().is_ok_and(|status| status.success());
    let targets = read_targets(&errors);
    (succeeded, Output { targets, ..results })
}

/// Copies input to the terminal, and returns its lines.
fn copy(from: impl Read, mut to: impl Write) -> Vec<String> {
    let mut lines = Vec::new();
    let mut reader = BufReader::new(from);
    let mut line = Vec::new();
    while reader
        .read_until(b'\n', &mut line)
        .is_ok_and(|count| count > 0)
    {
        let _ = to.write_all(&line);
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
    let mut targets: Vec<String> = named.map(str::to_owned).collect();
    targets.dedup();
    targets
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn failed_targets_are_read_as_options() {
        let many =
            "error: 2 targets failed:\n    `-p sluice --test e2e`\n    `-p sluice-net --lib`\n";
        let targets = ["-p sluice --test e2e", "-p sluice-net --lib"];
        assert_eq!(read_targets(&lines(many)), targets);
        let one = "error: test failed, to rerun pass `-p sluice --test e2e`\n";
        assert_eq!(read_targets(&lines(one)), targets[..1]);
    }
}
