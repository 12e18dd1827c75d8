//! `sluice lab`: replaces itself by the program `sluice-lab`. The lab is a separate program so that it cannot favour
//! this one.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use crate::Exit;
use crate::messages::Failed;

/// The program's name, beside this one or in `PATH`.
const PROGRAM: &str = "sluice-lab";

/// Arguments of `sluice lab`.
#[derive(clap::Args, Debug)]
#[command(disable_help_flag = true)]
pub struct Args {
    /// Arguments for `sluice-lab` (`sluice lab --help` describes them).
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

impl Args {
    /// Replaces this process by `sluice-lab`; returns only if that fails.
    pub fn run(self) -> Result<Exit, Failed> {
        let program = beside_us().unwrap_or_else(|| PROGRAM.into());
        let error = Command::new(&program).args(self.words).exec();
        Err(Failed::new(format!(
            "cannot start `{}`: {error}; `sluice-lab` is a separate program, which sluice searches for beside itself \
             and in PATH",
            program.display()
        )))
    }
}

/// The lab in the directory of the running program.
fn beside_us() -> Option<PathBuf> {
    let ours = std::env::current_exe().ok()?;
    let lab = ours.parent()?.join(PROGRAM);
    lab.is_file().then_some(lab)
}
