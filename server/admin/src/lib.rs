//! The admin API: reads, replaces and stops the running configuration over HTTP. The process that owns the server
//! carries out orders; `sluice-serve` interprets configurations.
#![forbid(unsafe_code)]

mod access;
mod address;
mod api;
mod autosave;
mod dashboard;
mod denied;
pub mod document;
mod endpoint;
pub mod limits;
mod orders;
mod pages;
mod remote;
mod service;
mod stream;

pub use access::Access;
pub use address::{Address, AddressError};
pub use api::WITH_TEXTS;
pub use autosave::{read_autosaved, write_autosaved};
pub use denied::Denied;
pub use endpoint::{Endpoint, StartError};
pub use orders::{
    ActionUse, Authority, ChangeOrder, Counts, Current, Insight, LoadOrder, Order, Orders, Outcome,
    Purge, Replier, UpgradeOrder, Waiter, reply,
};
pub use remote::RemoteAccess;
