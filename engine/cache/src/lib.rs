//! What is kept between requests: open files and their contents, and stored answers. What is sent of them is left to
//! `sluice-serve`.

pub mod files;
pub mod limits;
pub mod store;

mod facts;
mod generations;

pub use facts::{Facts, Kind, Missing, Time};
pub use files::{Content, Found, OpenFile, OpenFiles, Reach};
