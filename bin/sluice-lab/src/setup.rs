//! `sluice-lab setup`: its options.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use sluice_experiment::setup;
use sluice_load::outcome::Outcome;

use crate::live::Live;

/// Options of `lab setup`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Parts to install (default: all)
    #[arg(value_enum)]
    parts: Vec<Part>,
    /// Destination (default: SLUICE_LAB_SETUP, or ~/.cache/sluice-lab)
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Python for the environment (default: the newest of python3.14, 3.13, 3.12 and python3 that runs).
    /// Caddy Snake needs 3.12 or later
    #[arg(long)]
    python: Option<String>,
    /// Print what would be done without doing it
    #[arg(long)]
    plan: bool,
}

/// A part of the setup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// gunicorn, uvicorn, Flask, FastAPI, gevent and Caddy Snake, in a separate environment (pip)
    Python,
    /// Caddy, built from the Go module proxy; without Go, the one in the wheel of Caddy Snake
    Caddy,
    /// The program of study 001 (Go)
    Go,
}

/// Runs `lab setup`.
pub fn run(options: &Options) -> Outcome {
    let options = options.clone();
    let parts = options.parts.iter().map(|part| match part {
        Part::Python => setup::Part::Python,
        Part::Caddy => setup::Part::Caddy,
        Part::Go => setup::Part::Go,
    });
    let options = setup::Options {
        parts: parts.collect(),
        dir: options.dir,
        python: options.python,
        plan: options.plan,
    };
    setup::run(&options, &mut Live::new())
}
