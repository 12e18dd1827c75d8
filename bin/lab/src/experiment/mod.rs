//! `lab run`: an experiment from its file to its result. Every cell gets a fresh server for each block; the result is
//! written after every block, so that nothing is lost and `--resume` goes on.

pub mod builtin;
mod checks;
pub mod file;
pub mod folder;
mod marks;
pub mod plan;
mod run;
pub mod stage;

pub use run::{Options, run};
