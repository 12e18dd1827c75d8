//! The command line: names, options and exit codes. What a command does is in the module of its name.
//!
//! Exit codes: 0 done, 1 a question was answered with no (a gate that closes, a machine that is not fit), 2 the command
//! could not be carried out.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::{
    audit, backend, calibrate, doctor, experiment, hit, init, limit, report, setup, subject,
};

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
    Audit(audit::command::Options),
    /// Runs an experiment: subjects x tests x clients, in blocks, each with a fresh server
    Run(Box<experiment::Options>),
    /// Names the built-in experiments
    List,
    /// Repeats what made a result, by its own command line, beside it
    Rerun(experiment::RerunOptions),
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
    Shield(subject::shield::Options),
    /// Removes the folder of a run that is over
    #[command(hide = true)]
    Sweep(experiment::folder::Options),
    /// Gets the programs of the studies: a Python environment, Caddy and the Go program of study 001
    Setup(setup::Options),
    /// Is a server: the floor, a relay, a slow or faulty one, a FastCGI responder
    Serve(backend::Options),
    /// Compares two results, or two subjects of one, in paired ratios and words
    Compare(report::command::CompareOptions),
    /// Says what bounded a cell of a result
    Explain(report::command::ExplainOptions),
    /// For continuous integration: ends with 1 if a quantity is shown to be worse than allowed
    Gate(report::command::GateOptions),
    /// Writes a result as HTML, Markdown, CSV and charts
    Report(report::command::ReportOptions),
    /// Says whether this machine is fit for measuring, and what would limit a run
    Doctor(doctor::Options),
}

/// Why a command could not be carried out, in words for whoever typed it.
#[derive(Debug)]
pub struct Refused(pub String);

impl Refused {
    /// A refusal with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Refused(text.into())
    }
}

/// What a command gives: the answer to its question, or why there is none.
pub type Outcome = Result<Answer, Refused>;

/// The answer of a command that ran to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Done, or yes. Exit code 0.
    Yes,
    /// The command ran, and its answer is no. Exit code 1.
    No,
}

/// Reads the command line and carries it out.
pub fn main() -> ExitCode {
    let outcome = match Lab::parse().command {
        Command::Hit(options) => hit::run(&options),
        Command::Audit(options) => audit::command::run(&options),
        Command::Run(options) => experiment::run(&options),
        Command::List => experiment::list(),
        Command::Rerun(options) => experiment::rerun(&options),
        Command::Init(options) => init::run(&options),
        Command::FindLimit(options) => limit::find_limit(&options),
        Command::Break(options) => limit::break_down(&options),
        Command::Calibrate(options) => calibrate::run(&options),
        Command::Shield(options) => subject::shield::run(&options),
        Command::Sweep(options) => experiment::folder::sweep(&options),
        Command::Setup(options) => setup::run(&options),
        Command::Serve(options) => backend::run(&options),
        Command::Compare(options) => report::command::compare_results(&options),
        Command::Explain(options) => report::command::explain_cell(&options),
        Command::Gate(options) => report::command::gate(&options),
        Command::Report(options) => report::command::report(&options),
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
