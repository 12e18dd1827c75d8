//! State that several nodes share: values under keys, leases and watches, on engines that exist: files, etcd, Redis,
//! PostgreSQL. What the values mean is up to the callers: certificates, configurations, limits.
//!
//! Every call blocks and is made on a thread of the caller; workers never call into a store. The keys are those of
//! certmagic, so that the store of a fleet of Caddy servers is read and taken over as it is.

#![cfg_attr(
    not(all(feature = "etcd", feature = "postgres", feature = "redis")),
    allow(
        dead_code,
        reason = "a build without one engine leaves parts of the others unused"
    )
)]

mod calls;
#[cfg(feature = "etcd")]
pub mod etcd;
mod failure;
pub mod file;
mod key;
#[cfg(any(feature = "postgres", feature = "redis"))]
mod known;
mod lease;
pub mod limits;
mod local_copy;
pub mod memory;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "redis")]
pub mod redis;
mod reseal;
pub mod sealed;
mod tls;
pub mod transfer;
mod values;

use std::fmt;
use std::time::Duration;

pub use calls::Statistics;
pub use failure::{Fault, StoreError};
pub use file::FileStore;
pub use key::{Key, KeyError};
pub use lease::{Fence, Keep, Lease};
pub use local_copy::{CopyStanding, LocalCopy};
pub use reseal::{ResealOutcome, ResealReport, ResealStep};
pub use tls::{TlsOptions, TlsVerification};
pub use values::{Change, Entry, Guard, Reach, Value, Version, Write};

/// An engine that keeps values for several nodes.
///
/// # Errors
/// A call ends within the time limit of its engine. [`StoreError::fault`] shows whether a second attempt can help.
pub trait Store: Send + Sync + fmt::Debug {
    /// The engine and its address, without secrets, for messages: `redis://10.0.0.5:6379/0`.
    fn place(&self) -> &str;

    /// The values of `keys`, all as they are at one moment; `None` for a key without a value. An engine without a
    /// quorum returns what its reachable part has: a guarded write then shows whether that was the latest.
    fn load(&self, keys: &[&Key]) -> Result<Vec<Option<Value>>, StoreError>;

    /// Like [`Store::load`], for a holder of a lease who decides by what is found: never from a copy of this node.
    fn load_latest(&self, keys: &[&Key]) -> Result<Vec<Option<Value>>, StoreError> {
        self.load(keys)
    }

    /// Makes all of `writes` or none of them, if `guard` holds at that moment.
    ///
    /// # Errors
    /// [`Fault::Refused`] if `guard` does not hold: the lease has passed to another holder, or the value has changed.
    fn save(&self, writes: &[Write<'_>], guard: Guard<'_>) -> Result<(), StoreError>;

    /// The entries below `prefix`, without a value of `prefix` itself, sorted by key.
    ///
    /// # Errors
    /// [`Fault::Limit`] if there are more than `ENTRIES_MAX`.
    fn list(&self, prefix: &Key, reach: Reach) -> Result<Vec<Entry>, StoreError>;

    /// Like [`Store::list`], for a caller who has to see what it has missed: never from a copy of this node, nor without
    /// a quorum.
    fn list_latest(&self, prefix: &Key, reach: Reach) -> Result<Vec<Entry>, StoreError> {
        self.list(prefix, reach)
    }

    /// Takes the lease called `name`, waiting up to `timeout` for its holder. The lease of a holder that has died
    /// goes to another within `LEASE_TTL` and a second. The new holder checks again whether the work is still needed.
    ///
    /// # Errors
    /// [`Fault::Held`] if the lease is still held after `timeout`.
    fn lease(&self, name: &str, timeout: Duration) -> Result<Lease, StoreError>;

    /// Ends the lease called `name` of any holder, for an operator who knows that the holder is gone. Returns
    /// whether it was held.
    fn break_lease(&self, name: &str) -> Result<bool, StoreError>;

    /// The leases that are held, with their names.
    fn leases(&self) -> Result<Vec<String>, StoreError>;

    /// Watches the keys that begin with `prefix`. Every change after this call returns is reported.
    fn watch(&self, prefix: &Key) -> Result<Box<dyn Watch>, StoreError>;

    /// What this store has done since it was opened. Stores that do not count return zeros.
    fn statistics(&self) -> Statistics {
        Statistics::default()
    }

    /// Encrypts with the newest key what is in plain text or under an older key, each value only if nothing else has
    /// written it meanwhile, and reports each value that is to be encrypted.
    ///
    /// # Errors
    /// [`Fault::Setting`] if no key is configured. What was done until an error of the engine stays.
    fn reseal(&self, _report: &mut ResealReport<'_>) -> Result<(), StoreError> {
        let what = "no encryption key is configured";
        Err(StoreError::new(Fault::Setting, self.place(), what))
    }

    /// The state of the copy on this node; `None` if there is none.
    fn copy(&self) -> Option<CopyStanding> {
        None
    }
}

/// A subscription to changes.
pub trait Watch: Send {
    /// Waits up to `timeout` for changes, and returns them in the order in which they were made; none if nothing
    /// changed. Of several changes of one key the last may stand for all.
    ///
    /// # Errors
    /// The watch may have missed changes: the caller starts a new one and then reads the values again, by
    /// [`Store::list_latest`] and [`Store::load_latest`]. A connection that died without a sign is such an error within
    /// some seconds, unless the watch can go on where it was.
    fn next(&mut self, timeout: Duration) -> Result<Vec<Change>, StoreError>;
}
