//! Experiments of the lab, from their file to their result: plans, servers started as strangers, runs in blocks, searches for
//! limits, other load programs as engines, and what gets the programs of the studies. Every cell gets a fresh server for
//! each block; the result is written after every block, so that nothing is lost and `--resume` goes on.

#![forbid(unsafe_code)]

pub mod adapter;
pub mod builtin;
pub mod calibrate;
mod checks;
pub mod comparison;
pub mod file;
pub mod folder;
pub mod init;
pub mod limits;
mod marks;
pub mod only;
pub mod overload;
pub mod plan;
pub mod progress;
pub mod rerun;
pub mod run;
pub mod setup;
pub mod single;
pub mod stage;
