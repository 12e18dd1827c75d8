//! The lab's experiments, from the file to the result: plans, servers started by their command line, runs in blocks,
//! searches for limits, external load generators, and installation of the programs used by the studies. Every cell gets
//! a fresh server for each block; the result is saved after every block, so that nothing is lost and `--resume` can
//! continue.

#![forbid(unsafe_code)]

pub mod adapter;
pub mod agent;
pub mod builtin;
pub mod calibrate;
pub mod cell_filter;
mod checks;
pub mod comparison;
mod facts;
pub mod file;
pub mod folder;
pub mod host;
pub mod import;
pub mod init;
pub mod limits;
mod marks;
pub mod overload;
pub mod plan;
mod ports;
mod position;
pub mod progress;
mod readiness;
pub mod remote;
pub mod rerun;
pub mod rest;
pub mod run;
pub mod scenario;
pub mod setup;
pub mod single;
pub mod stage;
pub mod thresholds;
