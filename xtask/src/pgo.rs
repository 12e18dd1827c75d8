//! A program optimised for what it does most: it is built with counters, serves the requests of `cargo xtask cost`, and is
//! built again with what it counted (profile-guided optimisation).

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{cost, python};

/// How often each kind of request is served, in units of its usual number: enough for every branch to be counted often.
const ROUNDS: u32 = 5;

/// Names the program that merges profiles; its LLVM must be as new as that of the compiler.
const PROFDATA: &str = "LLVM_PROFDATA";

/// The package that has it, with the LLVM of the compiler.
const TOOLS: &str = "xtask/pgo-tools.txt";

/// Builds `target/dist/sluice`.
pub fn build(root: &Path) -> bool {
    match try_build(root) {
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

fn try_build(root: &Path) -> Result<PathBuf, String> {
    let folder = root.join("target/pgo");
    let (raw, merged) = (folder.join("raw"), folder.join("sluice.profdata"));
    let profdata = profdata(root)?;
    // Counts of another program would be of no use.
    let _ = fs::remove_dir_all(&raw);
    let counting = compile(root, &format!("-Cprofile-generate={}", raw.display()))?;
    let counting_copy = folder.join("sluice-counting");
    copy(&counting, &counting_copy)?;
    cost::train(&counting_copy, &folder.join("sites"), ROUNDS)?;
    let mut merge = Command::new(profdata);
    merge.args(["merge", "--output"]).arg(&merged).arg(&raw);
    run(&mut merge)?;
    let fast = compile(root, &format!("-Cprofile-use={}", merged.display()))?;
    let program = root.join("target/dist/sluice");
    fs::create_dir_all(root.join("target/dist")).map_err(|error| error.to_string())?;
    copy(&fast, &program)?;
    Ok(program)
}

/// Builds the program with `flag`, which does not apply to build scripts and macros.
fn compile(root: &Path, flag: &str) -> Result<PathBuf, String> {
    let host = host()?;
    let target = root.join("target/pgo/build");
    let mut flags = env::var_os("RUSTFLAGS").unwrap_or_default();
    if !flags.is_empty() {
        flags.push(" ");
    }
    flags.push(flag);
    let mut cargo = Command::new("cargo");
    cargo
        .args([
            "build",
            "--release",
            "--package",
            "sluice",
            "--target",
            &host,
            "--target-dir",
        ])
        .arg(&target)
        .env("RUSTFLAGS", flags)
        .current_dir(root);
    run(&mut cargo)?;
    Ok(target.join(host).join("release/sluice"))
}

/// The machine that the compiler runs on, such as `x86_64-unknown-linux-gnu`.
fn host() -> Result<String, String> {
    let text = output(Command::new("rustc").arg("-vV"))?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned)
        .ok_or_else(|| "`rustc -vV` does not name its host".to_owned())
}

/// The program that merges profiles: the named one, that of the toolchain, or that of the package.
fn profdata(root: &Path) -> Result<OsString, String> {
    if let Some(named) = env::var_os(PROFDATA) {
        return Ok(named);
    }
    let sysroot = output(Command::new("rustc").args(["--print", "sysroot"]))?;
    let own = Path::new(sysroot.trim())
        .join("lib/rustlib")
        .join(host()?)
        .join("bin/llvm-profdata");
    if own.is_file() {
        return Ok(own.into());
    }
    let installed = python::install(&root.join(TOOLS), &root.join("target/pgo/tools"))?;
    find(&installed, "llvm-profdata")
        .map(Into::into)
        .ok_or_else(|| format!("{} has no llvm-profdata", installed.display()))
}

/// The file called `name` below `folder`.
fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?;
    entries.flatten().find_map(|entry| {
        let path = entry.path();
        match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            true => find(&path, name),
            false => (entry.file_name() == name).then_some(path),
        }
    })
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    fs::copy(from, to).map_err(|error| format!("{}: {error}", to.display()))?;
    Ok(())
}

fn run(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().display().to_string();
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{name}`: {status}")),
        Err(error) => Err(format!("`{name}` cannot be started: {error}")),
    }
}

fn output(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().display().to_string();
    let output = command
        .output()
        .map_err(|error| format!("`{name}`: {error}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
