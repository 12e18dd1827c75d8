//! The program `sluice-lab`, which `sluice lab` starts.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    sluice_lab::cli::main()
}
