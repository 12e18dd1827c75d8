//! `sluice-lab run`, `list`, `rerun` and the hidden `sweep`: their options.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use sluice_experiment::adapter::Tool;
use sluice_experiment::agent::AgentSpec;
use sluice_experiment::{builtin, file, folder, rerun, run};
use sluice_load::generator::warmup::Warmup;
use sluice_load::outcome::{Completion, Outcome, Refused};
use sluice_load::quantity::parse_duration;

use crate::interrupt::on_signal;
use crate::live::Live;

/// Options of `lab run`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// A built-in experiment (000) or a file
    pub experiment: String,
    /// Short run (minutes, not hours): 5 blocks of 1.5 s at 3 client counts, or what `[quick]` of the file sets
    #[arg(long)]
    pub quick: bool,
    /// Measure only these cells: 'subject=sluice*,nginx; clients<=1000'
    #[arg(long, default_value = "")]
    pub only: String,
    /// Number of blocks, overriding the file
    #[arg(long)]
    pub repeats: Option<usize>,
    /// Length of the window, overriding the file
    #[arg(long, short = 'd', value_parser = parse_duration)]
    pub duration: Option<Duration>,
    /// Warm-up before the window, overriding the file: a time, or '1000 requests'
    #[arg(long, value_name = "TIME|N requests")]
    pub warmup: Option<Warmup>,
    /// Wait before each block until the machine is idle, at most this long, overriding the file
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub rest: Option<Duration>,
    /// Concurrent connections, overriding the file: 10,200
    #[arg(long, short = 'c', value_delimiter = ',')]
    pub clients: Option<Vec<usize>>,
    /// Run fewer blocks, and shorten the windows, if all would take longer than this
    #[arg(long, value_parser = parse_duration)]
    pub budget: Option<Duration>,
    /// Measure with these load generators as well, each beside the lab's own: wrk,hey
    #[arg(long, value_name = "PROGRAM", value_delimiter = ',', value_parser = Tool::of_name)]
    pub engine: Vec<Tool>,
    /// Order within a block
    #[arg(long, value_enum)]
    pub order: Option<OrderName>,
    /// Whether the server and the load generator have separate CPUs
    #[arg(long, value_enum)]
    pub pin: Option<PinName>,
    /// Divide the load between agents: HOST:PORT, ssh:HOST, command:WORDS or local (repeatable), overriding the file
    #[arg(long, value_name = "AGENT", conflicts_with = "engine")]
    pub agent: Vec<AgentSpec>,
    /// File with the token of the agents (default: the variable SLUICE_LAB_TOKEN)
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Run the servers under test, and their upstreams without --upstreams, on the machine of this agent, overriding the file
    #[arg(long, value_name = "AGENT")]
    pub servers: Option<AgentSpec>,
    /// Address of the servers' machine at which the load reaches them (default: the loopback address)
    #[arg(long, value_name = "IP")]
    pub address: Option<IpAddr>,
    /// Run the upstreams on the machine of this agent instead, overriding the file
    #[arg(long, value_name = "AGENT")]
    pub upstreams: Option<AgentSpec>,
    /// Address of the upstreams' machine at which the servers reach them (default: the loopback address)
    #[arg(long, value_name = "IP")]
    pub upstream_address: Option<IpAddr>,
    /// Random seed
    #[arg(long, default_value_t = 7)]
    pub seed: u64,
    /// Output folder (default: lab-results/NAME)
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Continue an existing result: keep the cells that have not changed and measure the rest
    #[arg(long)]
    pub resume: bool,
    /// Print the plan without measuring anything
    #[arg(long)]
    pub plan: bool,
    /// Keep the temporary folder with configurations and logs
    #[arg(long)]
    pub keep: bool,
    /// Start every server once and verify its responses, without load; exit with 1 if one is wrong
    #[arg(long, conflicts_with_all = ["resume", "plan"])]
    pub check: bool,
}

/// Order within a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OrderName {
    /// Random, reproducible from the seed
    Random,
    /// Order of the file, reversed in every second block
    Abba,
    /// Order of the file
    Fixed,
}

/// Whether the server and the load generator have separate CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PinName {
    /// The server gets the first half of the CPUs, load generator and upstreams the rest
    Split,
    /// Scheduled by the kernel
    None,
}

/// Runs `lab run`.
pub fn run(options: &Options) -> Outcome {
    let options = options.clone();
    let options = run::Options {
        experiment: options.experiment,
        quick: options.quick,
        only: options.only,
        repeats: options.repeats,
        duration: options.duration,
        warmup: options.warmup,
        rest: options.rest,
        clients: options.clients,
        budget: options.budget,
        engines: options.engine,
        order: options.order.map(|order| match order {
            OrderName::Random => file::Order::Random,
            OrderName::Abba => file::Order::Abba,
            OrderName::Fixed => file::Order::Fixed,
        }),
        pin: options.pin.map(|pin| match pin {
            PinName::Split => file::Pin::Split,
            PinName::None => file::Pin::None,
        }),
        agents: options.agent,
        servers: options.servers,
        token_file: options.token_file,
        address: options.address,
        upstreams: options.upstreams,
        upstream_address: options.upstream_address,
        seed: options.seed,
        out: options.out,
        resume: options.resume,
        plan: options.plan,
        keep: options.keep,
        check: options.check,
        interrupt: on_signal()?,
    };
    run::run(&options, &mut Live::new())
}

/// Runs `lab list`.
pub fn list() -> Outcome {
    for name in builtin::builtin_names() {
        let text = builtin::builtin(name).unwrap_or_default();
        let file = file::parse(name, text).map_err(Refused::new)?;
        println!("{name:10} {}", file.title);
    }
    Ok(Completion::Yes)
}

/// Options of `lab rerun`.
#[derive(Args, Clone, Debug)]
pub struct RerunOptions {
    /// A result.json, or its folder
    result: PathBuf,
    /// Output folder (default: that of the old result with `-again` appended)
    #[arg(long)]
    out: Option<PathBuf>,
    /// Repeat it even if the experiment file has changed
    #[arg(long)]
    force: bool,
    /// Print the command without running it
    #[arg(long)]
    plan: bool,
}

/// Runs `lab rerun`.
pub fn rerun(options: &RerunOptions) -> Outcome {
    let options = options.clone();
    let options = rerun::Options {
        result: options.result,
        out: options.out,
        force: options.force,
        plan: options.plan,
    };
    // Ctrl-C reaches the repeated run as well, which then ends and says how to continue.
    on_signal()?;
    rerun::rerun(&options, &mut Live::new())
}

/// Options of the hidden command `lab sweep`.
#[derive(Args, Clone, Debug)]
pub struct SweepOptions {
    /// The folder
    dir: PathBuf,
}

/// Waits until the parent process is gone, and removes the folder unless told to keep it.
pub fn sweep(options: &SweepOptions) -> Outcome {
    folder::sweep(&options.dir);
    Ok(Completion::Yes)
}
