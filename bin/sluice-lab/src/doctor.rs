//! `sluice-lab doctor`: reports whether this machine is fit for benchmarking, and applies the remedies that are without risk.

use clap::Args;
use sluice_load::fitness::{Verdict, examine};
use sluice_load::outcome::{Completion, Outcome};
use sluice_load::remedy::Place;

/// Options of `lab doctor`.
#[derive(Args, Debug)]
pub struct Options {
    /// Concurrent connections that the run will need
    #[arg(long, short = 'c', default_value_t = 1000)]
    pub connections: u64,
    /// Apply the remedies that are without risk, and print how to undo each; none of them outlasts a boot
    #[arg(long)]
    pub fix: bool,
    /// With --fix: print what would be changed, and change nothing
    #[arg(long, requires = "fix")]
    pub dry_run: bool,
}

/// Runs `lab doctor`.
pub fn run(options: &Options) -> Outcome {
    let fixed = !options.fix || fix(options);
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
    Ok(match fixed && !unfit {
        true => Completion::Yes,
        false => Completion::No,
    })
}

/// Applies remedies. Returns whether none failed.
fn fix(options: &Options) -> bool {
    let remedies = Place::here().remedies(options.connections);
    let mut failed = false;
    for remedy in &remedies {
        let outcome = match (&remedy.refused, options.dry_run) {
            (Some(reason), _) => Err(("not", format!("not changed: {reason}"))),
            (None, true) => Ok("would"),
            (None, false) => remedy.apply().map(|()| "fixed").map_err(|error| {
                failed = true;
                ("FAILED", error)
            }),
        };
        let word = match &outcome {
            Ok(word) | Err((word, _)) => word,
        };
        println!("{word:6} {:22} {}", remedy.what, remedy.words());
        match &outcome {
            Ok(_) => println!("{:29} undo: {}", "", remedy.undo()),
            Err((_, reason)) => println!("{:29} {reason}", ""),
        }
    }
    if remedies.is_empty() {
        println!("nothing to change");
    }
    println!();
    !failed
}
