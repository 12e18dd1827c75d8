//! Profile-guided optimisation: the compiler learns from an instrumented build under the lab's load which code requests
//! use, and arranges the program for that.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cost;
use crate::python;

/// Where everything of it lies, relative to the root.
const FOLDER: &str = "target/pgo";

/// The package of PyPI that has `llvm-profdata`, with its version.
const TOOLS: &str = "xtask/pgo-tools.txt";

/// Builds `target/pgo/sluice`.
pub fn build(root: &Path) -> bool {
    match build_program(root) {
        Ok(program) => {
            println!("{}", program.display());
            true
        }
        Err(reason) => {
            eprintln!("pgo: {reason}");
            false
        }
    }
}

fn build_program(root: &Path) -> Result<PathBuf, String> {
    let folder = root.join(FOLDER);
    let profdata = profdata(root, &folder)?;
    let profiles = folder.join("profiles");
    // Those of an earlier run, of other code.
    let _ = fs::remove_dir_all(&profiles);
    // With the same profile of cargo as below: it is part of the names of functions, by which profiles find them.
    // The names are not compressed: the `llvm-profdata` of PyPI has no zlib.
    let instruments = format!(
        "-Cprofile-generate={} -Cllvm-args=-enable-name-compression=false",
        profiles.display()
    );
    let instrumented = compile(root, &folder.join("instrumented"), &instruments)?;
    let generator = generator(root)?;
    cost::train(
        &instrumented,
        &generator,
        &folder.join("training"),
        &profiles,
    )?;
    let merged = folder.join("merged.profdata");
    python::output(
        Command::new(profdata)
            .args(["merge", "--output"])
            .args([&merged, &profiles]),
    )
    .map_err(|error| format!("`llvm-profdata merge`: {error}"))?;
    let uses = format!("-Cprofile-use={}", merged.display());
    let optimised = compile(root, &folder.join("optimised"), &uses)?;
    let program = folder.join("sluice");
    fs::copy(&optimised, &program).map_err(|error| format!("{}: {error}", program.display()))?;
    Ok(program)
}

/// The lab's load generator: the named one, or one that is built for tests. It only has to ask, not to be fast.
fn generator(root: &Path) -> Result<PathBuf, String> {
    if let Some(named) = std::env::var_os(cost::LAB) {
        return Ok(named.into());
    }
    let status = Command::new("cargo")
        .args(["build", "--package", "sluice-lab"])
        .current_dir(root)
        .status()
        .map_err(|error| format!("`cargo` cannot be started: {error}"))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| root.join("target"));
    match status.success() {
        true => Ok(target.join("debug/sluice-lab")),
        false => Err(format!(
            "`cargo build --package sluice-lab` failed: {status}"
        )),
    }
}

/// `llvm-profdata`, installed in `folder` if it is not there.
fn profdata(root: &Path, folder: &Path) -> Result<PathBuf, String> {
    let environment = python::install(&root.join(TOOLS), &folder.join("tools"))?;
    let found = python::output(Command::new("find").arg(&environment).args([
        "-name",
        "llvm-profdata",
        "-type",
        "f",
    ]))?;
    let first = found.lines().next();
    first
        .map(PathBuf::from)
        .ok_or_else(|| format!("{TOOLS} has no llvm-profdata"))
}

/// Builds sluice with `flag`, for this machine's target by name: scripts of packages are then built without the flag.
fn compile(root: &Path, target: &Path, flag: &str) -> Result<PathBuf, String> {
    let version = python::output(Command::new("rustc").arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.ok_or("`rustc -vV` does not name the host")?;
    let status = Command::new("cargo")
        .args([
            "build",
            "--release",
            "--package",
            "sluice",
            "--target",
            host,
        ])
        .arg("--target-dir")
        .arg(target)
        .env("RUSTFLAGS", flag)
        .current_dir(root)
        .status()
        .map_err(|error| format!("`cargo` cannot be started: {error}"))?;
    match status.success() {
        true => Ok(target.join(host).join("release/sluice")),
        false => Err(format!("`cargo build` with {flag} failed: {status}")),
    }
}
