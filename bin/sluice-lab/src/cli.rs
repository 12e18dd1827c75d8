//! The command line: names, options and exit codes. What a command does is in the module of its name.
//!
//! Exit codes: 0 done, 1 a question was answered with no (a gate that closes, a machine that is not fit), 2 the command
//! could not be carried out.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use sluice_load::outcome::{Answer, Refused};

use crate::{audit, calibrate, doctor, hit, init, limit, report, run, serve, setup, shield};

/// Honest numbers for any web server.
#[derive(Debug, Parser)]
#[command(name = "sluice-lab", version, arg_required_else_help = true)]
struct Lab {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Loads one URL and says what it found
    Hit(Box<hit::Options>),
    /// Checks any report by arithmetic: ours, another tool's output, a pasted table or a published study
    Audit(audit::Options),
    /// Runs an experiment: subjects x tests x clients, in blocks, each with a fresh server
    Run(Box<run::Options>),
    /// Names the built-in experiments
    List,
    /// Repeats what made a result, by its own command line, beside it
    Rerun(run::RerunOptions),
    /// Writes an experiment for a Caddyfile, Caddy's JSON or an nginx.conf
    Init(init::Options),
    /// Finds the highest rate at which a promise is kept
    FindLimit(Box<limit::LimitOptions>),
    /// Overloads a server: in which manner it gives way, and how it recovers
    Break(Box<limit::BreakOptions>),
    /// Says how much the generator itself can ask for on this machine
    Calibrate(calibrate::Options),
    /// Becomes another program that ends with the lab
    #[command(hide = true)]
    Shield(shield::Options),
    /// Removes the folder of a run that is over
    #[command(hide = true)]
    Sweep(run::SweepOptions),
    /// Gets the programs of the studies: a Python environment, Caddy and the Go program of study 001
    Setup(setup::Options),
    /// Is a server: the floor, a relay, a slow or faulty one, a FastCGI responder
    Serve(serve::Options),
    /// Compares two results, or two subjects of one, in paired ratios and words
    Compare(report::CompareOptions),
    /// Says what bounded a cell of a result
    Explain(report::ExplainOptions),
    /// For continuous integration: ends with 1 if a quantity is shown to be worse than allowed
    Gate(report::GateOptions),
    /// Writes a result as HTML, Markdown, CSV and charts
    Report(report::ReportOptions),
    /// Says whether this machine is fit for measuring, and what would limit a run
    Doctor(doctor::Options),
}

/// Reads the command line and carries it out.
pub fn main() -> ExitCode {
    let outcome = match Lab::parse().command {
        Command::Hit(options) => hit::run(&options),
        Command::Audit(options) => audit::run(&options),
        Command::Run(options) => run::run(&options),
        Command::List => run::list(),
        Command::Rerun(options) => run::rerun(&options),
        Command::Init(options) => init::run(&options),
        Command::FindLimit(options) => limit::find_limit(&options),
        Command::Break(options) => limit::break_down(&options),
        Command::Calibrate(options) => calibrate::run(&options),
        Command::Shield(options) => shield::run(&options),
        Command::Sweep(options) => run::sweep(&options),
        Command::Setup(options) => setup::run(&options),
        Command::Serve(options) => serve::run(&options),
        Command::Compare(options) => report::compare_results(&options),
        Command::Explain(options) => report::explain_cell(&options),
        Command::Gate(options) => report::gate(&options),
        Command::Report(options) => report::report(&options),
        Command::Doctor(options) => doctor::run(&options),
    };
    match outcome {
        Ok(Answer::Yes) => ExitCode::SUCCESS,
        Ok(Answer::No) => ExitCode::from(1),
        Err(Refused(text)) => {
            eprintln!("sluice-lab: {text}");
            ExitCode::from(2)
        }
    }
}
