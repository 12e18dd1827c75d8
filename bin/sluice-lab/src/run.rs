//! `sluice-lab run`, `list`, `rerun` and the hidden `sweep`: their options.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use sluice_experiment::{builtin, file, folder, rerun, run};
use sluice_load::outcome::{Answer, Outcome, Refused};
use sluice_load::quantity::parse_duration;

use crate::live::Live;

/// Options of `lab run`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// A built-in experiment (000) or a file
    pub experiment: String,
    /// Minutes rather than hours: 5 blocks of 1.5 s at 3 levels, or at those that the file names for it
    #[arg(long)]
    pub quick: bool,
    /// Only these cells: 'subject=sluice*,nginx; clients<=1000'
    #[arg(long, default_value = "")]
    pub only: String,
    /// Blocks, instead of what the file says
    #[arg(long)]
    pub repeats: Option<usize>,
    /// Length of the window, instead of what the file says
    #[arg(long, short = 'd', value_parser = parse_duration)]
    pub duration: Option<Duration>,
    /// Load before the window, instead of what the file says
    #[arg(long, value_parser = parse_duration)]
    pub warmup: Option<Duration>,
    /// Connections, instead of what the file says: 10,200
    #[arg(long, short = 'c', value_delimiter = ',')]
    pub clients: Option<Vec<usize>>,
    /// Takes fewer blocks if all would need more time than this
    #[arg(long, value_parser = parse_duration)]
    pub budget: Option<Duration>,
    /// Order within a block
    #[arg(long, value_enum)]
    pub order: Option<OrderName>,
    /// Whether subject and generator have processors of their own
    #[arg(long, value_enum)]
    pub pin: Option<PinName>,
    /// Start value of everything random
    #[arg(long, default_value_t = 7)]
    pub seed: u64,
    /// Where the result goes; by default lab-results/NAME
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Goes on with the result that is there, as far as its cells are the same
    #[arg(long)]
    pub resume: bool,
    /// Shows the plan and measures nothing
    #[arg(long)]
    pub plan: bool,
    /// Keeps the folder of configurations and logs
    #[arg(long)]
    pub keep: bool,
    /// Starts every server once and verifies its answers, without load; ends with 1 if one of them is not right
    #[arg(long, conflicts_with_all = ["resume", "plan"])]
    pub check: bool,
}

/// Order within a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OrderName {
    /// Random and repeatable
    Random,
    /// As written, and backwards in every second block
    Abba,
    /// As written
    Fixed,
}

/// Whether subject and generator are kept apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PinName {
    /// The subject has the first half of the processors, generator and backends have the rest
    Split,
    /// Wherever the kernel likes
    None,
}

/// Carries out `lab run`.
pub fn run(options: &Options) -> Outcome {
    let options = options.clone();
    let options = run::Options {
        experiment: options.experiment,
        quick: options.quick,
        only: options.only,
        repeats: options.repeats,
        duration: options.duration,
        warmup: options.warmup,
        clients: options.clients,
        budget: options.budget,
        order: options.order.map(|order| match order {
            OrderName::Random => file::Order::Random,
            OrderName::Abba => file::Order::Abba,
            OrderName::Fixed => file::Order::Fixed,
        }),
        pin: options.pin.map(|pin| match pin {
            PinName::Split => file::Pin::Split,
            PinName::None => file::Pin::None,
        }),
        seed: options.seed,
        out: options.out,
        resume: options.resume,
        plan: options.plan,
        keep: options.keep,
        check: options.check,
    };
    run::run(&options, &mut Live::new())
}

/// Carries out `lab list`.
pub fn list() -> Outcome {
    for name in builtin::builtin_names() {
        let text = builtin::builtin(name).unwrap_or_default();
        let file = file::parse(name, text).map_err(Refused::new)?;
        println!("{name:10} {}", file.title);
    }
    Ok(Answer::Yes)
}

/// Options of `lab rerun`.
#[derive(Args, Clone, Debug)]
pub struct RerunOptions {
    /// A result.json, or the folder that has one
    result: PathBuf,
    /// Where the new result goes; by default the folder of the old one with `-again` behind its name
    #[arg(long)]
    out: Option<PathBuf>,
    /// Repeats it although the experiment's file is another one now
    #[arg(long)]
    force: bool,
    /// Says the command and does not carry it out
    #[arg(long)]
    plan: bool,
}

/// Carries out `lab rerun`.
pub fn rerun(options: &RerunOptions) -> Outcome {
    let options = options.clone();
    let options = rerun::Options {
        result: options.result,
        out: options.out,
        force: options.force,
        plan: options.plan,
    };
    rerun::rerun(&options, &mut Live::new())
}

/// Options of the hidden command `lab sweep`.
#[derive(Args, Clone, Debug)]
pub struct SweepOptions {
    /// The folder
    dir: PathBuf,
}

/// Waits until whoever started it is gone, and removes the folder unless it was told to keep it.
pub fn sweep(options: &SweepOptions) -> Outcome {
    folder::sweep(&options.dir);
    Ok(Answer::Yes)
}
