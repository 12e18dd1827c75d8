//! The commands that run other tools and tell what each said. The rules of `tidy` are left to that module.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::tidy;

/// One tool of `check`: its name, the arguments of cargo, and an environment variable it needs.
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
    Step("tests", &["test", "--workspace", "--quiet"], None),
];

/// Everything that CI runs. Goes on after a failure, so that one run tells everything.
pub fn check(root: &Path) -> bool {
    let mut failed = Vec::new();
    let begun = Instant::now();
    if !timed("tidy", || tidy::print(root)) {
        failed.push("tidy");
    }
    for Step(name, args, variable) in STEPS {
        if !timed(name, || cargo(root, args, *variable)) {
            failed.push(name);
        }
    }
    if has(root, "deny") {
        if !timed("deny", || {
            cargo(root, &["deny", "--all-features", "check"], None)
        }) {
            failed.push("deny");
        }
    } else {
        println!("-- deny: SKIPPED, cargo-deny is not installed (cargo install cargo-deny)");
    }
    let seconds = begun.elapsed().as_secs();
    if failed.is_empty() {
        println!("-- all checks passed in {seconds} s");
    } else {
        println!("-- FAILED after {seconds} s: {}", failed.join(", "));
    }
    failed.is_empty()
}

/// The tests that compare with other servers; those that need a server which is not installed say so.
pub fn peer(root: &Path) -> bool {
    cargo(
        root,
        &[
            "test",
            "-p",
            "sluice",
            "--test",
            "peer",
            "--",
            "--include-ignored",
        ],
        None,
    )
}

/// The ACME authority that the tests are run against: released, and the same everywhere.
const PEBBLE: &str = "v2.10.1";

/// The tests that order certificates from a real authority, which is installed below `target` first.
pub fn acme(root: &Path) -> bool {
    let folder = root.join("target/pebble").join(PEBBLE);
    for program in ["pebble", "pebble-challtestsrv"] {
        if folder.join(program).is_file() {
            continue;
        }
        let module = format!("github.com/letsencrypt/pebble/v2/cmd/{program}@{PEBBLE}");
        let status = Command::new("go")
            .args(["install", &module])
            .env("GOBIN", &folder)
            .status();
        if !status.is_ok_and(|status| status.success()) {
            eprintln!("`go install {module}` failed; it needs Go and the module proxy");
            return false;
        }
    }
    let folder = folder.display().to_string();
    cargo(
        root,
        &[
            "test",
            "-p",
            "sluice",
            "--test",
            "e2e",
            "acme",
            "--",
            "--include-ignored",
            "--test-threads=2",
        ],
        Some(("SLUICE_PEBBLE", &folder)),
    )
}

/// The public suite of HTTP/2: its last release, and the same everywhere.
const H2SPEC: &str = "v2.2.1+incompatible";

/// Runs the public suite of HTTP/2 against the real server; it is installed below `target` first.
pub fn h2spec(root: &Path) -> bool {
    let folder = root.join("target/h2spec").join(H2SPEC);
    let program = folder.join("h2spec");
    if !program.is_file() {
        let module = format!("github.com/summerwind/h2spec/cmd/h2spec@{H2SPEC}");
        let status = Command::new("go")
            .args(["install", &module])
            .env("GOBIN", &folder)
            .status();
        if !status.is_ok_and(|status| status.success()) {
            eprintln!("`go install {module}` failed; it needs Go and the module proxy");
            return false;
        }
    }
    cargo(
        root,
        &[
            "test",
            "-p",
            "sluice",
            "--test",
            "e2e",
            "h2spec",
            "--",
            "--include-ignored",
        ],
        Some(("SLUICE_H2SPEC", &program.display().to_string())),
    )
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
        clean &= timed(target, || cargo(&folder, &args, None));
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

fn timed(name: &str, run: impl FnOnce() -> bool) -> bool {
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

fn cargo(folder: &Path, args: &[&str], variable: Option<(&str, &str)>) -> bool {
    // The toolchain may be named by an argument (+nightly), which only the cargo of rustup understands.
    let mut command = Command::new("cargo");
    command.args(args).current_dir(folder).envs(variable);
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
