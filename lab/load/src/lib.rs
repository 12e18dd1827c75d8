//! The benchmark lab: loads any web server, measures what it costs, and says how sure the numbers are. It starts servers
//! by their command, as strangers, and links nothing of sluice above the ground floor, so it cannot favour it.

#![forbid(unsafe_code)]

pub mod adapter;
pub mod audit;
pub mod backend;
pub mod calibrate;
pub mod cli;
pub mod doctor;
pub mod experiment;
pub mod hit;
pub mod init;
pub mod limit;
pub mod limits;
pub mod live;
pub mod load;
pub mod machine;
pub mod quantity;
mod random;
pub mod report;
pub mod result;
pub mod sample;
pub mod setup;
pub mod statistics;
pub mod subject;
