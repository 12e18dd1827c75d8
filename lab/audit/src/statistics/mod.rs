//! Statistics of numbers that vary between blocks: medians, intervals, paired ratios, the noise floor and verdicts. It
//! is independent of servers and files: the input is slices of `f64`.
//!
//! The unit of repetition is the block (a fresh process of each subject in a new order), because that is the highest
//! level that varies (Kalibera and Jones, "Rigorous benchmarking in reasonable time", 2013). Requests within a block
//! are not independent, so nothing here is computed from single requests.

pub mod bootstrap;
pub mod order;
pub mod paired;
pub mod significance;
pub mod verdict;
