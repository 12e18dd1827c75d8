//! The module `cache`: a shared cache for the responses of all handlers behind it (RFC 9111). The names are those of the
//! Caddy plugin `cache-handler`; `disk` and `purge_from` are sluice's own.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use crate::object::objects;
use crate::value::Duration;

objects! {
    /// Serves responses from the cache, or has the handlers behind it respond and stores that. As the app `cache` it has
    /// the settings of all handlers that have none of their own.
    pub struct ResponseCache {
        /// Methods whose responses are cached: GET and HEAD, which is the default.
        pub allowed_http_verbs: Vec<String>,
        /// Statuses whose responses are cached for `ttl`, besides those that HTTP defines as cacheable.
        pub allowed_additional_status_codes: Vec<u16>,
        /// Other keys for paths that match a pattern; the first that matches counts.
        pub cache_keys: Vec<BTreeMap<String, CacheKey>>,
        /// The name in the `Cache-Status` header; `Sluice` when empty.
        pub cache_name: String,
        /// The `Cache-Control` header of responses without one.
        pub default_cache_control: String,
        /// Has each of several concurrent cache misses fetch the response. By default one does, and the others wait.
        pub disable_coalescing: bool,
        /// Where responses are stored.
        pub disk: Option<CacheDisk>,
        /// Request headers by which responses vary.
        pub headers: Vec<String>,
        /// What the key consists of.
        pub key: Option<CacheKey>,
        /// Responses with a longer body are not stored; no limit when zero.
        pub max_cacheable_body_bytes: i64,
        /// Which `Cache-Control` headers count: `strict`, `bypass_request`, `bypass_response` or `bypass`.
        pub mode: String,
        /// Addresses of clients that may remove responses with the method PURGE; none when empty.
        pub purge_from: Vec<String>,
        /// Requests that do not use the cache.
        pub regex: Option<CacheRegex>,
        /// How long a stale response is used if the handlers behind fail, unless it says so itself.
        pub stale: Duration,
        /// Timeouts.
        pub timeout: Option<CacheTimeout>,
        /// How long responses are fresh that do not say so themselves; two minutes when zero.
        pub ttl: Duration,
    }

    /// What the key of a response consists of.
    pub struct CacheKey {
        /// Without the host.
        pub disable_host: bool,
        /// Without the method.
        pub disable_method: bool,
        /// Without the query.
        pub disable_query: bool,
        /// Without the scheme and the listen addresses of the server.
        pub disable_scheme: bool,
        /// Ignores `Vary` of responses.
        pub disable_vary: bool,
        /// Request headers by which responses vary.
        pub headers: Vec<String>,
        /// Does not show the key in `Cache-Status`.
        pub hide: bool,
        /// Sorts the parameters of the query.
        pub sort_query: bool,
        /// The whole key, with placeholders.
        pub template: String,
    }

    /// The directory of a cache and its limits.
    pub struct CacheDisk {
        /// The directory; `cache` in the data directory when empty.
        pub path: String,
        /// Maximum total size of the files in bytes; 1 GiB when zero.
        pub max_size: i64,
        /// Minimum free space on the file system in bytes.
        pub min_free: i64,
        /// Memory for the index in bytes; 16 MiB when zero.
        pub index_size: i64,
        /// Responses that are not used for this long are removed; a day when zero.
        pub inactive: Duration,
    }

    /// Requests that do not use the cache.
    pub struct CacheRegex {
        /// A pattern over the path, in RE2 syntax.
        pub exclude: String,
    }

    /// Timeouts of a cache.
    pub struct CacheTimeout {
        /// How long the handlers behind may take until their response begins; no limit when zero.
        pub backend: Duration,
    }
}
