//! The Python environment with the packages of `tests/python/requirements.txt`, which `cargo xtask python-env` creates
//! and `cargo xtask test` and `check` set up themselves.

use std::path::{Path, PathBuf};

use super::abilities::skipped;

/// Set by `cargo xtask test`: the folder of the environment, or `unavailable: ` and the reason.
const VARIABLE: &str = "SLUICE_PYTHON";

/// Set by `cargo xtask test`: the wheel of the accelerator, or `unavailable: ` and the reason.
const WHEEL: &str = "SLUICE_WORKER_WHEEL";

/// What the environment has to contain.
const REQUIREMENTS: &str = include_str!("../python/requirements.txt");

/// The environment's programs.
pub struct Python(PathBuf);

impl Python {
    /// The environment. If there is none, the test is reported as skipped and this returns `None`.
    #[track_caller]
    pub fn find() -> Option<Python> {
        match Python::look() {
            Ok(python) => Some(python),
            Err(reason) => {
                skipped(format_args!("no Python environment: {reason}"));
                None
            }
        }
    }

    /// The environment, or the reason why there is none: for a test of which only a part needs it.
    pub fn look() -> Result<Python, String> {
        let folder = match std::env::var(VARIABLE) {
            Ok(value) => match value.strip_prefix("unavailable: ") {
                Some(reason) => return Err(reason.to_owned()),
                None => PathBuf::from(value),
            },
            Err(_) => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/python/current"),
        };
        match std::fs::read_to_string(folder.join("requirements.txt")) {
            Ok(text) if text == REQUIREMENTS => match folder.canonicalize() {
                Ok(folder) => Ok(Python(folder)),
                Err(error) => Err(error.to_string()),
            },
            Ok(_) => Err("it is out of date, run `cargo xtask python-env`".to_owned()),
            Err(_) => Err("run `cargo xtask python-env`".to_owned()),
        }
    }

    /// The path of a program of the environment, such as `python` or `uvicorn`.
    pub fn program(&self, name: &str) -> PathBuf {
        self.0.join("bin").join(name)
    }

    /// The folder of the environment, as settings for a virtual environment expect it.
    pub fn folder(&self) -> &Path {
        &self.0
    }
}

/// The wheel `sluice-worker`. If there is none, the test is reported as skipped and this returns `None`.
#[track_caller]
pub fn accelerator_wheel() -> Option<PathBuf> {
    let found = match std::env::var(WHEEL) {
        Ok(value) => match value.strip_prefix("unavailable: ") {
            Some(reason) => Err(reason.to_owned()),
            None => Ok(PathBuf::from(value)),
        },
        Err(_) => {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/wheels/dev");
            let entries = std::fs::read_dir(folder).into_iter().flatten();
            let mut paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
            paths
                .find(|path| path.extension().is_some_and(|end| end == "whl"))
                .ok_or_else(|| "run `cargo xtask wheel worker`".to_owned())
        }
    };
    match found {
        Ok(wheel) => Some(wheel),
        Err(reason) => {
            skipped(format_args!("no wheel of the accelerator: {reason}"));
            None
        }
    }
}
