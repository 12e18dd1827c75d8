//! The lab's foundation: the load generator, resource accounting of servers under load, test upstreams, and the format
//! of results. It starts servers by their command line, like any other program, and links nothing of sluice above
//! `ground`, so it cannot favour sluice (`docs/decisions/0010-lab.md`).

#![forbid(unsafe_code)]

pub mod backend;
pub mod combine;
pub mod fitness;
pub mod generator;
pub mod machine;
pub mod outcome;
pub mod post;
pub mod process;
pub mod quantity;
pub mod random;
pub mod remedy;
pub mod result;
pub mod sample;
pub mod time_wait;
