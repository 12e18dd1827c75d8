//! The lowest rate of data that clients have to keep up.

use crate::object::objects;
use crate::value::Duration;

objects! {
    /// The lowest rate at which clients may send bodies and take responses.
    pub struct MinDataRate {
        /// Bytes a second; any rate will do when 0.
        pub rate: u64,
        /// How long sluice waits for a client in all before the rate counts; 30 s when 0.
        pub grace: Duration,
    }
}
