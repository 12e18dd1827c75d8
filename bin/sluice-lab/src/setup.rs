//! `sluice-lab setup`: its options.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use sluice_experiment::setup;
use sluice_load::outcome::Outcome;

use crate::live::Live;

/// Options of `lab setup`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// What to get; everything by default
    #[arg(value_enum)]
    parts: Vec<Part>,
    /// Where to; by default ~/.cache/sluice-lab, or what SLUICE_LAB_SETUP says
    #[arg(long)]
    dir: Option<PathBuf>,
    /// The Python that the environment is made of; by default the newest of python3.14, 3.13, 3.12 and python3 that runs.
    /// Caddy Snake wants 3.12 or later
    #[arg(long)]
    python: Option<String>,
    /// Prints what would be done and does nothing
    #[arg(long)]
    plan: bool,
}

/// A part of the set-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// gunicorn, uvicorn, Flask, FastAPI, gevent and Caddy Snake, in an environment of their own (pip)
    Python,
    /// Caddy, built from the Go module proxy; the wheel of Caddy Snake has one for where Go is absent
    Caddy,
    /// The program of study 001 (Go)
    Go,
}

/// Carries out `lab setup`.
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
