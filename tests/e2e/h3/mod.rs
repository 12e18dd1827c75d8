//! HTTP/3 on real sockets. `peer` is a client that can also break the rules.

mod attacks;
mod forgeries;
mod forging;
mod lifecycle;
mod limits;
mod lossy;
mod lossy_soak;
mod origin;
pub mod peer;
mod programs;
pub mod serving;
mod soak;
mod upgrades;
mod upstream_faults;
mod upstreams;
