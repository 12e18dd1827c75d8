//! `sluice-lab doctor`: reports whether this machine is fit for benchmarking.

use clap::Args;
use sluice_load::fitness::{Verdict, examine};
use sluice_load::outcome::{Completion, Outcome};

/// Options of `lab doctor`.
#[derive(Args, Debug)]
pub struct Options {
    /// Concurrent connections that the run will need
    #[arg(long, short = 'c', default_value_t = 1000)]
    pub connections: u64,
}

/// Runs `lab doctor`.
pub fn run(options: &Options) -> Outcome {
    let findings = examine(options.connections);
    for finding in &findings {
        let word = match finding.verdict {
            Verdict::Fit => "ok",
            Verdict::Weak => "weak",
            Verdict::Unfit => "UNFIT",
        };
        println!("{word:6} {:22} {}", finding.what, finding.seen);
        if !finding.help.is_empty() {
            println!("{:29} {}", "", finding.help);
        }
    }
    let unfit = findings.iter().any(|f| f.verdict == Verdict::Unfit);
    Ok(if unfit {
        Completion::No
    } else {
        Completion::Yes
    })
}
