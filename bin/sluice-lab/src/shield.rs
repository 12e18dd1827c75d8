//! The hidden command `sluice-lab shield`: its options.

use std::ffi::OsString;

use clap::Args;
use sluice_load::outcome::Outcome;
use sluice_load::process::shield;

/// Options of the hidden command `lab shield`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// PID of the lab
    #[arg(long)]
    parent: u32,
    /// CPUs to pin to
    #[arg(long, value_delimiter = ',')]
    cpus: Vec<usize>,
    /// Program and arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    command: Vec<OsString>,
}

/// Replaces this process with the program; returns only if that fails.
pub fn run(options: &Options) -> Outcome {
    let options = options.clone();
    shield::run(&shield::Options {
        parent: options.parent,
        cpus: options.cpus,
        command: options.command,
    })
}
