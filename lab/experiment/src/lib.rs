//! `lab run`: an experiment from its file to its result. Every cell gets a fresh server for each block; the result is
//! written after every block, so that nothing is lost and `--resume` goes on.

pub mod builtin;
mod checks;
pub mod file;
pub mod folder;
mod marks;
pub mod plan;
mod rerun;
mod run;
pub mod stage;

pub use rerun::{Options as RerunOptions, rerun};
pub use run::{Options, run};

use crate::cli::{Answer, Outcome, Refused};

/// Carries out `lab list`.
pub fn list() -> Outcome {
    for name in builtin::builtin_names() {
        let text = builtin::builtin(name).unwrap_or_default();
        let file = file::parse(name, text).map_err(Refused::new)?;
        println!("{name:10} {}", file.title);
    }
    Ok(Answer::Yes)
}
