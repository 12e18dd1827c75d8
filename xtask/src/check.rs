//! The commands that run other tools and report their results. The rules of `tidy` are in that module.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::rerun::{Echo, Runner};
use crate::skipped::SkippedFile;
use crate::{python, tidy, wheel};

/// A step of `check`: its name, the arguments of cargo, and environment variables.
struct Step(
    &'static str,
    &'static [&'static str],
    &'static [(&'static str, &'static str)],
);

const FMT: Step = Step("fmt", &["fmt", "--all", "--check"], &[]);

const CLIPPY: Step = Step(
    "clippy",
    &[
        "clippy",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ],
    &[],
);

/// With clippy's variables (and its driver, see `clippy_driver`) cargo finds all libraries checked by the step before,
/// and does not check them once more.
const RUSTDOC: Step = Step(
    "rustdoc",
    &[
        "doc",
        "--workspace",
        "--no-deps",
        "--document-private-items",
    ],
    &[
        ("RUSTDOCFLAGS", "-D warnings"),
        (
            "CLIPPY_ARGS",
            "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__",
        ),
    ],
);

const BUILD: Step = Step(
    "build",
    &["test", "--workspace", "--no-run", "--quiet"],
    &[],
);

/// Licences, sources and known faults of the dependencies.
const DENY: Step = Step("deny", &["deny", "--all-features", "check"], &[]);

/// Everything that `make test` runs. Continues after a failure, so that one run reports everything; the tests come
/// last, so that the names of those that failed or were skipped end the output.
pub fn check(root: &Path) -> bool {
    let mut failed = Vec::new();
    let begun = Instant::now();
    if !timed("tidy", || tidy::print(root)) {
        failed.push("tidy");
    }
    let has_deny = has(root, "deny");
    let steps = [FMT, CLIPPY, RUSTDOC, DENY, BUILD];
    for Step(name, args, variables) in steps {
        if name == DENY.0 && !has_deny {
            continue;
        }
        let mut variables: Vec<(&str, &OsStr)> = variables
            .iter()
            .map(|(name, value)| (*name, OsStr::new(*value)))
            .collect();
        let driver = clippy_driver();
        if let Some(driver) = driver.as_ref().filter(|_| name == RUSTDOC.0) {
            variables.push(("RUSTC_WORKSPACE_WRAPPER", driver.as_os_str()));
        }
        variables.extend(first_build(root));
        if !timed(name, || cargo(root, args, &variables)) {
            failed.push(name);
        }
    }
    if !timed("tests", || test(root, &["--workspace", "--quiet"])) {
        failed.push("tests");
    }
    for name in failed.iter().filter(|name| **name != "tests") {
        println!("failed: {name}");
    }
    if !has_deny {
        println!("skipped: deny: cargo-deny is not installed (cargo install cargo-deny)");
    }
    let seconds = begun.elapsed().as_secs();
    if failed.is_empty() {
        println!("-- all checks passed in {seconds} s");
    } else {
        println!("-- FAILED after {seconds} s: {}", failed.join(", "));
    }
    failed.is_empty()
}

/// The program as which `cargo clippy` runs the compiler.
fn clippy_driver() -> Option<PathBuf> {
    let mut rustc = Command::new("rustc");
    let output = rustc.args(["--print", "sysroot"]).output().ok()?;
    let sysroot = String::from_utf8(output.stdout).ok()?;
    let driver = Path::new(sysroot.trim()).join("bin/clippy-driver");
    driver.is_file().then_some(driver)
}

/// Turns incremental compilation off for a first build, of which it takes a third: what it stores is of use only to a
/// later build. A checkout that was built before has it, and keeps it.
fn first_build(root: &Path) -> Option<(&'static str, &'static OsStr)> {
    const VARIABLE: &str = "CARGO_INCREMENTAL";
    let stored = std::fs::read_dir(root.join("target/debug/incremental"));
    let has_built = stored.into_iter().flatten().flatten().any(|entry| {
        let name = entry.file_name();
        name.to_string_lossy().starts_with("sluice")
    });
    let is_set = std::env::var_os(VARIABLE).is_some();
    (!has_built && !is_set).then_some((VARIABLE, OsStr::new("0")))
}

/// How many tests run at once, per core: most of the time they wait for timeouts and for other processes.
const TESTS_PER_CORE: usize = 2;

/// The variable of the test runner with that number, if it is not set.
fn test_threads() -> (&'static str, OsString) {
    const VARIABLE: &str = "RUST_TEST_THREADS";
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = OsString::from((TESTS_PER_CORE * cores).to_string());
    (VARIABLE, std::env::var_os(VARIABLE).unwrap_or(threads))
}

/// Runs `cargo test` with `args` with everything that tests may use.
pub fn test(root: &Path, args: &[&str]) -> bool {
    test_with(root, args, &[])
}

/// Like `test`, with the paths of programs that some tests need.
pub fn test_with(root: &Path, args: &[&str], programs: &[(&str, &Path)]) -> bool {
    let skipped = SkippedFile::new(root);
    let python = python::value(root);
    let wheel = wheel::for_tests(root);
    let mut variables = vec![
        skipped.variable(),
        (python::VARIABLE, python.as_os_str()),
        (wheel::VARIABLE, wheel.as_os_str()),
    ];
    let (threads, count) = test_threads();
    variables.push((threads, count.as_os_str()));
    variables.extend(first_build(root));
    let programs = programs.iter();
    variables.extend(programs.map(|(name, path)| (*name, path.as_os_str())));
    let runner = Runner {
        root,
        variables: &variables,
        echo: Echo::Terminal,
    };
    let summary = runner.test(args);
    summary.print(&skipped.read());
    summary.is_good()
}

/// Runs each fuzz target for `seconds`, starting from its seeds.
pub fn fuzz(root: &Path, seconds: u32) -> bool {
    let folder = root.join("fuzz");
    let manifest = match std::fs::read_to_string(folder.join("Cargo.toml")) {
        Ok(text) => text,
        Err(error) => {
            eprintln!("fuzz/Cargo.toml: {error}");
            return false;
        }
    };
    if !has(root, "fuzz") {
        eprintln!("cargo-fuzz is not installed (cargo install cargo-fuzz; it needs +nightly)");
        return false;
    }
    let time = format!("-max_total_time={seconds}");
    let mut clean = true;
    for target in fuzz_targets(&manifest) {
        let corpus = format!("corpus/{target}");
        let seeds = format!("seeds/{target}");
        if let Err(error) = std::fs::create_dir_all(folder.join(&corpus)) {
            eprintln!("fuzz/{corpus}: {error}");
            return false;
        }
        let mut args = vec!["+nightly", "fuzz", "run", target, &corpus];
        if folder.join(&seeds).is_dir() {
            args.push(&seeds);
        }
        args.extend(["--", &time, "-print_final_stats=1"]);
        clean &= timed(target, || cargo(&folder, &args, &[]));
    }
    clean
}

fn fuzz_targets(manifest: &str) -> Vec<&str> {
    let bins = manifest.split("[[bin]]").skip(1);
    bins.filter_map(|bin| {
        let line = bin
            .lines()
            .find_map(|line| line.trim().strip_prefix("name"))?;
        line.split('"').nth(1)
    })
    .collect()
}

/// Runs a step and prints its name, whether it succeeded and how long it took.
pub fn timed(name: &str, run: impl FnOnce() -> bool) -> bool {
    println!("-- {name}");
    let begun = Instant::now();
    let done = run();
    let verdict = if done { "ok" } else { "FAILED" };
    println!(
        "-- {name}: {verdict} after {:.1} s",
        begun.elapsed().as_secs_f32()
    );
    done
}

pub fn cargo(folder: &Path, args: &[&str], variables: &[(&str, &OsStr)]) -> bool {
    // An argument may select the toolchain (+nightly), which only rustup's cargo understands.
    let mut command = Command::new("cargo");
    command.args(args).current_dir(folder);
    command.envs(variables.iter().copied());
    if args.first().is_some_and(|arg| arg.starts_with('+')) {
        command.env_remove("RUSTUP_TOOLCHAIN");
    }
    match command.status() {
        Ok(status) => status.success(),
        Err(error) => {
            eprintln!("cargo: {error}");
            false
        }
    }
}

fn has(root: &Path, subcommand: &str) -> bool {
    let mut command = Command::new("cargo");
    command.args([subcommand, "--version"]).current_dir(root);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fuzz_targets_are_read_from_the_manifest() {
        let manifest = "[package]\nname = \"fuzz\"\n[[bin]]\nname = \"a\"\npath = \"a.rs\"\n\
                        [[bin]]\ntest = false\nname = \"b\"\n";
        assert_eq!(fuzz_targets(manifest), ["a", "b"]);
    }
}
