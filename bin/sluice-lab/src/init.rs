//! `sluice-lab init`: its options.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use sluice_experiment::init;
use sluice_load::outcome::Outcome;

use crate::live::Live;

/// Options of `lab init`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Configuration file: a Caddyfile, Caddy's JSON or an nginx.conf
    pub config: PathBuf,
    /// Configuration format (default: detected from name and content)
    #[arg(long, value_enum)]
    pub adapter: Option<Language>,
    /// Output file of the experiment; copies of the configuration go next to it
    #[arg(long, short = 'o', default_value = "lab.toml")]
    pub out: PathBuf,
    /// Overwrite existing files
    #[arg(long)]
    pub force: bool,
}

/// Configuration formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Language {
    /// Caddy's configuration language
    Caddyfile,
    /// Caddy's JSON
    Json,
    /// nginx.conf
    Nginx,
}

/// Runs `lab init`.
pub fn run(options: &Options) -> Outcome {
    let options = options.clone();
    let options = init::Options {
        config: options.config,
        adapter: options.adapter.map(|language| match language {
            Language::Caddyfile => init::Language::Caddyfile,
            Language::Json => init::Language::Json,
            Language::Nginx => init::Language::Nginx,
        }),
        out: options.out,
        force: options.force,
    };
    init::run(&options, &mut Live::new())
}
