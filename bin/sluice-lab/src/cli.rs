//! The command line: names, options and exit codes. Each command is implemented in the module of its name.
//!
//! Exit codes: 0 done, 1 the result is negative (a gate that fails, a machine that is not fit), 2 the command failed, 130
//! interrupted.

use std::process::ExitCode;

use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};

use sluice_load::outcome::{Completion, Refused};

use crate::interrupt::INTERRUPTED;
use crate::{
    agent, audit, calibrate, doctor, export, hit, init, limit, report, run, serve, setup, shield,
};

/// Honest benchmarks for any web server
#[derive(Debug, Parser)]
#[command(name = "sluice-lab", version, arg_required_else_help = true)]
struct Lab {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Load one URL and report the results
    Hit(Box<hit::Options>),
    /// Check the arithmetic of any report: ours, another tool's output, a pasted table or a published study
    Audit(audit::Options),
    /// Run an experiment: subjects x tests x clients, in blocks, each with a fresh server
    Run(Box<run::Options>),
    /// List the built-in experiments
    List,
    /// Repeat the run that produced a result, next to it
    Rerun(run::RerunOptions),
    /// Write an experiment for a Caddyfile, Caddy's JSON or an nginx.conf
    Init(init::Options),
    /// Find the highest request rate that still meets a latency objective
    FindLimit(Box<limit::LimitOptions>),
    /// Overload a server and report how it degrades and recovers
    Break(Box<limit::BreakOptions>),
    /// Measure the load generator's own limits on this machine
    Calibrate(calibrate::Options),
    /// Generate load, or run servers or upstreams, for a coordinator on another machine (`hit --agent`, `run --servers`, `--upstreams`)
    Agent(agent::Options),
    /// Become another program that ends with the lab
    #[command(hide = true)]
    Shield(shield::Options),
    /// Remove the folder of a finished run
    #[command(hide = true)]
    Sweep(run::SweepOptions),
    /// Install the programs of the studies: a Python environment, Caddy and the Go program of study 001
    Setup(setup::Options),
    /// Run a test upstream (fixed response, relay, delays, faults, FastCGI, WebSocket, events)
    Serve(serve::Options),
    /// Compare two results, or two subjects of one, by paired ratios
    Compare(report::CompareOptions),
    /// Explain the bottleneck of a measurement
    Explain(report::ExplainOptions),
    /// Fail (exit 1) if a metric regressed beyond a threshold; for CI
    Gate(report::GateOptions),
    /// Print a result as tables
    Show(export::ShowOptions),
    /// Convert the output of another program to a result, or a HAR or OpenAPI file to a scenario
    Import(export::ImportOptions),
    /// Add up the blocks of several results of the same experiment
    Merge(export::MergeOptions),
    /// Convert a result for other programs: CSV, HDR histogram log, Prometheus, OTLP
    Export(export::ExportOptions),
    /// Write a result as HTML, Markdown, CSV and charts
    Report(report::ReportOptions),
    /// Check whether this machine is fit for benchmarking
    Doctor(doctor::Options),
}

/// Parses the command line and runs the command.
pub fn main() -> ExitCode {
    let matches = Lab::command().get_matches();
    let lab = Lab::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let given = given(&matches);
    let outcome = match lab.command {
        Command::Hit(options) => hit::run(&options),
        Command::Audit(options) => audit::run(&options),
        Command::Run(options) => run::run(&options),
        Command::List => run::list(),
        Command::Rerun(options) => run::rerun(&options),
        Command::Init(options) => init::run(&options),
        Command::FindLimit(options) => limit::find_limit(&options, &given),
        Command::Break(options) => limit::break_down(&options, &given),
        Command::Calibrate(options) => calibrate::run(&options),
        Command::Agent(options) => agent::run(&options),
        Command::Shield(options) => shield::run(&options),
        Command::Sweep(options) => run::sweep(&options),
        Command::Setup(options) => setup::run(&options),
        Command::Serve(options) => serve::run(&options),
        Command::Compare(options) => report::compare_results(&options),
        Command::Explain(options) => report::explain_cell(&options),
        Command::Gate(options) => report::gate(&options),
        Command::Show(options) => export::show(&options),
        Command::Import(options) => export::import(&options),
        Command::Merge(options) => export::merge(&options),
        Command::Export(options) => export::export(&options),
        Command::Report(options) => report::report(&options),
        Command::Doctor(options) => doctor::run(&options),
    };
    match outcome {
        Ok(Completion::Yes) => ExitCode::SUCCESS,
        Ok(Completion::No) => ExitCode::from(1),
        Ok(Completion::Interrupted) => ExitCode::from(INTERRUPTED),
        Err(Refused(text)) => {
            eprintln!("sluice-lab: {text}");
            ExitCode::from(2)
        }
    }
}

/// The identifiers of the subcommand's options that are on the command line, rather than defaults.
fn given(matches: &ArgMatches) -> Vec<String> {
    let Some((_, matches)) = matches.subcommand() else {
        return Vec::new();
    };
    let typed = |id: &&str| matches.value_source(id) == Some(ValueSource::CommandLine);
    // Groups of flattened options have identifiers as well, which start with a capital.
    let ids = matches.ids().map(clap::Id::as_str);
    let ids = ids.filter(|id| !id.starts_with(char::is_uppercase));
    ids.filter(typed).map(str::to_string).collect()
}
