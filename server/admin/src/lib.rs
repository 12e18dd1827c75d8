//! The live control interface: read, replace and stop what runs, over HTTP. Carrying orders out is left to whoever
//! holds the server; what a configuration means is left to `sluice-serve`.
#![forbid(unsafe_code)]

mod access;
mod address;
mod api;
mod autosave;
mod endpoint;
pub mod limits;
mod orders;
mod service;

pub use access::Access;
pub use address::{Address, AddressError};
pub use api::WITH_TEXTS;
pub use autosave::{read_autosaved, write_autosaved};
pub use endpoint::{Endpoint, StartError};
pub use orders::{
    Counts, Current, Explain, LoadOrder, Order, Orders, Outcome, Replier, Waiter, reply,
};
