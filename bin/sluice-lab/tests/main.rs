//! The program `sluice-lab` as a whole.

#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "the tests of sluice use the rest of it")]
#[path = "../../../tests/support/abilities.rs"]
mod abilities;
mod agents;
mod agents_run;
mod agents_ssh;
mod axes;
mod commands;
mod delivery;
mod doctor;
mod everyday;
#[path = "../../../tests/support/executable.rs"]
mod executable;
mod hotdogs;
mod http3;
mod pace;
#[path = "../../../tests/support/ports.rs"]
mod ports;
mod requirements;
mod run;
mod scenario;
mod search;
mod servers;
mod shares;
mod upstreams;
#[allow(dead_code, reason = "the tests of sluice use the rest of it")]
#[path = "../../../tests/support/wait.rs"]
mod wait;
mod world;
