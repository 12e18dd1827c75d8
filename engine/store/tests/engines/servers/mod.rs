//! Engines as child processes of a test. The end-to-end tests have them as well.

pub mod certificates;
mod engine;
#[cfg(feature = "etcd")]
pub mod etcd;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod proxy;
#[cfg(feature = "redis")]
pub mod redis;

use sluice_store::Store;

pub use engine::{Engine, SHORT_LEASE};

/// A store with leases of a short time on an engine that runs already, for a child process.
pub fn open(engine: &str, place: &str) -> Box<dyn Store> {
    match engine {
        #[cfg(feature = "etcd")]
        "etcd" => Box::new(etcd::open(place)),
        #[cfg(feature = "postgres")]
        "postgres" => Box::new(postgres::open(place)),
        #[cfg(feature = "redis")]
        "redis" => Box::new(redis::open(place)),
        _ => panic!("{engine} at {place}"),
    }
}
