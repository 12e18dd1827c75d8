//! The wheels for users of Python, which maturin builds: `sluice` has the program, `sluice-worker` the accelerator of its
//! worker processes. maturin comes from PyPI into an environment below `target/maturin`.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::python;

/// The environment variable that names the wheel of the accelerator to the tests.
pub const VARIABLE: &str = "SLUICE_WORKER_WHEEL";

/// The folders of the packages that become wheels.
const PROGRAM: &str = "bin/sluice";
const WORKER: &str = "engine/python/accelerator";

/// Builds both wheels in `target/wheels`.
pub fn build(root: &Path, profile: &str) -> bool {
    let folder = root.join("target/wheels");
    let built = check_versions(root).and_then(|()| {
        [WORKER, PROGRAM]
            .into_iter()
            .try_for_each(|package| run_maturin(root, package, profile, &folder))
    });
    match built {
        Ok(()) => {
            println!("wheels: {}", folder.display());
            true
        }
        Err(reason) => {
            eprintln!("no wheels: {reason}");
            false
        }
    }
}

/// Builds the wheel of the accelerator for the tests, and prints its path.
pub fn build_for_tests(root: &Path) -> bool {
    match wheel_for_tests(root) {
        Ok(wheel) => {
            println!("{}", wheel.display());
            true
        }
        Err(reason) => {
            eprintln!("no wheel: {reason}");
            false
        }
    }
}

fn wheel_for_tests(root: &Path) -> Result<PathBuf, String> {
    let folder = root.join("target/wheels/dev");
    // One of an earlier version would be found as well.
    let _ = fs::remove_dir_all(&folder);
    run_maturin(root, WORKER, "dev", &folder)?;
    only_wheel(&folder)
}

/// The wheel of the accelerator for the tests. If it cannot be built, this is the reason, and the tests that need it
/// report themselves as skipped for that reason.
pub fn for_tests(root: &Path) -> OsString {
    match wheel_for_tests(root) {
        Ok(wheel) => wheel.into_os_string(),
        Err(reason) => {
            println!("-- no wheel of the accelerator: {reason}");
            format!("unavailable: {reason}").into()
        }
    }
}

fn run_maturin(root: &Path, package: &str, profile: &str, folder: &Path) -> Result<(), String> {
    let tools = python::install(
        &root.join("xtask/src/wheel/requirements.txt"),
        &root.join("target/maturin"),
    )?;
    let mut maturin = Command::new(tools.join("bin/maturin"));
    maturin.current_dir(root);
    maturin.args(["build", "--profile", profile, "--locked"]);
    maturin
        .arg("--manifest-path")
        .arg(root.join(package).join("Cargo.toml"));
    maturin.arg("--out").arg(folder);
    println!("-- maturin build --profile {profile} ({package})");
    python::output(&mut maturin).map_err(|error| format!("maturin: {error}"))?;
    Ok(())
}

fn only_wheel(folder: &Path) -> Result<PathBuf, String> {
    let entries = fs::read_dir(folder).map_err(|error| error.to_string())?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut wheels = paths.filter(|path| path.extension().is_some_and(|end| end == "whl"));
    wheels.next().ok_or_else(|| "maturin built none".to_owned())
}

/// Both wheels have the version of the workspace; the extra `speed` of the program has to ask for it.
fn check_versions(root: &Path) -> Result<(), String> {
    let read = |path: &str| fs::read_to_string(root.join(path)).map_err(|error| error.to_string());
    let version = workspace_version(&read("Cargo.toml")?)
        .ok_or("Cargo.toml has no version")?
        .to_owned();
    let wanted = format!("sluice-worker=={version}");
    match read("bin/sluice/pyproject.toml")?.contains(&format!("\"{wanted}\"")) {
        true => Ok(()),
        false => Err(format!(
            "bin/sluice/pyproject.toml does not ask for {wanted}"
        )),
    }
}

fn workspace_version(manifest: &str) -> Option<&str> {
    let (_, package) = manifest.split_once("[workspace.package]")?;
    let (_, version) = package.split_once("version = \"")?;
    Some(version.split_once('"')?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extra_asks_for_the_version_of_the_workspace() {
        assert_eq!(check_versions(&crate::root()), Ok(()));
        let manifest = "[workspace.package]\nversion = \"1.2.3\"\nedition = \"2024\"\n";
        assert_eq!(workspace_version(manifest), Some("1.2.3"));
    }
}
