//! `rate_limit`: how often requests may come.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use crate::dialect::Dialect;
use crate::matcher::MatcherSet;
use crate::object::{RawModule, objects};
use crate::value::Duration;

objects! {
    /// Refuses requests that come too often.
    pub struct RateLimit {
        /// The zones, by name.
        pub rate_limits: BTreeMap<String, RateZone>,
        /// Random share of the wait time, up to this value, that is added to `Retry-After`.
        pub jitter: f64,
        /// How often forgotten keys are looked for.
        pub sweep_interval: Duration,
        /// Counts together with other servers, in all zones that say nothing else.
        pub distributed: Option<SharedLimit>,
        /// Where servers meet that count together.
        pub storage: Option<RawModule>,
        /// Whether the log names the key of a request that was refused.
        pub log_key: bool,
        /// The status of refusals, 429 when zero. Our own word.
        pub status: u16,
        /// In nginx's dialect a request with an empty key is not counted, and any other is counted once, wherever it is sent
        /// within the server. sluice's own setting.
        #[serde(rename = "as_nginx")]
        pub dialect: Dialect,
        /// Refuses nobody and holds nobody back. Our own word.
        pub dry_run: bool,
        /// The level at which rejections are logged, `debug` when empty. sluice's own setting.
        pub log_level: String,
    }

    /// How often some requests may come.
    pub struct RateZone {
        /// The requests that it is for, all when empty.
        pub r#match: Vec<MatcherSet>,
        /// What is counted apart; all together when it has no placeholder.
        pub key: String,
        /// The length of the window that slides.
        pub window: Duration,
        /// The most requests in it.
        pub max_events: i64,
        /// Bits of a key that is an IPv4 address; all 32 when zero.
        pub ipv4_prefix: i64,
        /// Bits of a key that is an IPv6 address; all 128 when zero.
        pub ipv6_prefix: i64,
        /// Counts by a bucket of so many tokens in place of a window. Our own word.
        pub burst: i64,
        /// Those of a burst beyond so many are held back until they come at the rate; none are when absent. Our own word.
        pub delay: Option<u32>,
        /// Counts together with other servers. Our own word.
        pub shared: Option<SharedLimit>,
    }

    /// How several servers count together. The first three are the plugin's and have no effect; the others are our own.
    pub struct SharedLimit {
        /// How often a server reads what others counted.
        pub read_interval: Duration,
        /// How often it writes what it counted.
        pub write_interval: Duration,
        /// When what others counted is too old.
        pub purge_age: Duration,
        /// The URL of the Redis server where all count.
        pub store: String,
        /// A file with the CAs (PEM) that the server's certificate may come from; those of the system when empty.
        pub ca: String,
        /// `exact`, which asks for each request, or `leased`, which asks for batches; `exact` when empty.
        pub mode: String,
        /// How long a request waits for the store at most, 5 ms when zero.
        pub deadline: Duration,
        /// What happens to requests without the store: `open` allows, `closed` refuses, `local` lets each server count for
        /// itself; `local` when empty.
        pub on_error: String,
    }
}
