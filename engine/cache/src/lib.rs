//! Caches that outlive a request: open files with their contents, and the HTTP response cache. Sending them is left to
//! `sluice-serve`.

pub mod files;
pub mod limits;
pub mod store;

mod file_facts;
mod generations;

pub use file_facts::{Facts, Kind, Missing, Time};
pub use files::{Access, Content, Found, MaxAge, OpenFile, OpenFiles, Reach};
