//! The commands that run other tools and report their results. The rules of `tidy` are in that module.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::rerun::{Echo, Runner};
use crate::skipped::SkippedFile;
use crate::{python, tidy};

/// A step of `check`: its name, the arguments of cargo, and an environment variable it needs.
struct Step(
    &'static str,
    &'static [&'static str],
    Option<(&'static str, &'static str)>,
);

const STEPS: &[Step] = &[
    Step("fmt", &["fmt", "--all", "--check"], None),
    Step(
        "clippy",
        &[
            "clippy",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ],
        None,
    ),
    Step(
        "rustdoc",
        &[
            "doc",
            "--workspace",
            "--no-deps",
            "--document-private-items",
        ],
        Some(("RUSTDOCFLAGS", "-D warnings")),
    ),
];

/// Licences, sources and known faults of the dependencies.
const DENY: &[&str] = &["deny", "--all-features", "check"];

/// Everything that `make test` runs. Continues after a failure, so that one run reports everything; the tests come
/// last, so that the names of those that failed or were skipped end the output.
pub fn check(root: &Path) -> bool {
    let mut failed = Vec::new();
    let begun = Instant::now();
    if !timed("tidy", || tidy::print(root)) {
        failed.push("tidy");
    }
    for Step(name, args, variable) in STEPS {
        let variable = variable.map(|(name, value)| (name, OsStr::new(value)));
        if !timed(name, || cargo(root, args, variable.as_slice())) {
            failed.push(name);
        }
    }
    let has_deny = has(root, "deny");
    if has_deny && !timed("deny", || cargo(root, DENY, &[])) {
        failed.push("deny");
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

/// Runs `cargo test` with `args` with everything that tests may use.
pub fn test(root: &Path, args: &[&str]) -> bool {
    test_with(root, args, &[])
}

/// Like `test`, with the paths of programs that some tests need.
pub fn test_with(root: &Path, args: &[&str], programs: &[(&str, &Path)]) -> bool {
    let skipped = SkippedFile::new(root);
    let python = python::value(root);
    let mut variables = vec![skipped.variable(), (python::VARIABLE, python.as_os_str())];
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
