//! `sluice-lab calibrate`: its options.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use sluice_experiment::calibrate;
use sluice_load::outcome::Outcome;
use sluice_load::quantity::parse_duration;

use crate::live::Live;

/// Options of `lab calibrate`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Length of each measurement
    #[arg(long, short = 'd', value_parser = parse_duration, default_value = "2s")]
    duration: Duration,
    /// Concurrent connections
    #[arg(long, short = 'c', value_delimiter = ',', default_value = "10,200")]
    clients: Vec<usize>,
    /// Write the result to a file
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Runs `lab calibrate`.
pub fn run(options: &Options) -> Outcome {
    let options = options.clone();
    let options = calibrate::Options {
        duration: options.duration,
        clients: options.clients,
        json: options.json,
    };
    calibrate::run(&options, &mut Live::new())
}
