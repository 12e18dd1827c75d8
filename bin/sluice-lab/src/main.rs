//! The program `sluice-lab`, started by `sluice lab`: command line, exit codes and terminal output. The implementation
//! is in the packages of `lab/`.

#![forbid(unsafe_code)]

mod agent;
mod audit;
mod calibrate;
mod cli;
mod doctor;
mod export;
mod hit;
mod init;
mod interrupt;
mod limit;
mod live;
mod report;
mod run;
mod serve;
mod setup;
mod shield;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
