//! Errors of stores.

use std::fmt;

/// A call of a store that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreError {
    /// The kind of failure.
    pub fault: Fault,
    /// The engine and its address, without secrets.
    pub place: String,
    /// The message of the engine, or what was found. It contains no values and no secrets.
    pub what: String,
}

/// Kinds of failure, by what the caller can do about them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The engine cannot be reached, does not respond in time, or has no quorum: try again later.
    Away,
    /// The engine refuses the credentials: an operator has to act.
    Credentials,
    /// The engine takes no writes now: it is read-only or full.
    ReadOnly,
    /// The guard of a write does not hold.
    Refused,
    /// Somebody else holds the lease.
    Held,
    /// A value under one of our keys is not ours, or cannot be decrypted.
    Foreign,
    /// The system refuses an operation on a file.
    System,
    /// The request exceeds a limit of ours or of the engine.
    Limit,
    /// A setting cannot be used.
    Setting,
}

impl StoreError {
    /// An error at `place`.
    pub fn new(fault: Fault, place: &str, what: impl Into<String>) -> StoreError {
        StoreError {
            fault,
            place: place.to_owned(),
            what: what.into(),
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StoreError { place, what, .. } = self;
        match self.fault {
            Fault::Away => write!(f, "the store {place} does not respond: {what}"),
            Fault::Credentials => write!(f, "the store {place} refuses the credentials: {what}"),
            Fault::ReadOnly => write!(f, "the store {place} accepts no writes: {what}"),
            Fault::Refused => write!(f, "the store {place} refused a write: {what}"),
            Fault::Held => write!(f, "a lock in the store {place} is held: {what}"),
            Fault::Foreign => write!(f, "the store {place} has an unusable value: {what}"),
            // Its text names the file.
            Fault::System => f.write_str(what),
            Fault::Limit => write!(f, "a limit of the store {place} is exceeded: {what}"),
            Fault::Setting => write!(f, "the store {place} cannot be used: {what}"),
        }
    }
}

impl std::error::Error for StoreError {}
