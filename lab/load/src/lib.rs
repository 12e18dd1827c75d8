//! The lab's ground: the load generator, what servers cost meanwhile, servers to put behind others, and the form of results.
//! It starts servers by their command, as strangers, and links nothing of sluice above the ground floor, so it cannot
//! favour it (`docs/decisions/0010-lab.md`).

#![forbid(unsafe_code)]

pub mod backend;
pub mod fitness;
pub mod generator;
pub mod machine;
pub mod outcome;
pub mod process;
pub mod quantity;
pub mod random;
pub mod result;
pub mod sample;
