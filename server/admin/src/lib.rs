//! The admin API: reads, replaces and stops the running configuration over HTTP. The process that owns the server
//! carries out orders; `sluice-serve` interprets configurations.
#![forbid(unsafe_code)]

mod access;
mod address;
mod api;
mod autosave;
mod denied;
pub mod document;
mod endpoint;
pub mod limits;
mod orders;
mod remote;
mod service;

pub use access::Access;
pub use address::{Address, AddressError};
pub use api::WITH_TEXTS;
pub use autosave::{read_autosaved, write_autosaved};
pub use denied::Denied;
pub use endpoint::{Endpoint, StartError};
pub use orders::{
    Authority, ChangeOrder, Counts, Current, Insight, LoadOrder, Order, Orders, Outcome, Replier,
    UpgradeOrder, Waiter, reply,
};
pub use remote::RemoteAccess;
