//! `limit_conn`: how many requests may be in flight.

use alloc::string::String;
use alloc::vec::Vec;

use crate::handler::SharedLimit;
use crate::object::objects;

objects! {
    /// Limits on concurrent requests per key (`limit_conn`).
    pub struct ConnectionLimits {
        /// The limits; the first one reached rejects the request.
        pub limits: Vec<ConnectionLimit>,
        /// The status of rejected requests, 503 when zero.
        pub status: u16,
        /// Only logs what would be rejected.
        pub dry_run: bool,
        /// The level at which rejections are logged, `error` when empty.
        pub log_level: String,
    }

    /// A limit on concurrent requests.
    pub struct ConnectionLimit {
        /// The zone that counts requests; limits with the same zone share its counters.
        pub zone: String,
        /// The key of the counter, with placeholders; requests with an empty key are not counted.
        pub key: String,
        /// Maximum number of concurrent requests.
        pub max: u32,
        /// Counts together with other servers.
        pub shared: Option<SharedLimit>,
    }
}
