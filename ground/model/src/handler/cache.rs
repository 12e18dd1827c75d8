//! sluice's own module `nginx_cache`: a shared cache for responses of an upstream (RFC 9111), with the settings of nginx's
//! `proxy_cache` directives. `response_cache` has that of Caddyfiles.

use alloc::string::String;
use alloc::vec::Vec;

use super::proxy::ReverseProxy;
use crate::object::objects;
use crate::storage::Storage;
use crate::value::Duration;

objects! {
    /// Serves responses from the cache, or fetches them from the upstream and stores them.
    pub struct Cache {
        /// Where responses are stored. Handlers with the same directory share it.
        pub store: CacheStore,
        /// The upstream that is used on a cache miss.
        pub origin: ReverseProxy,
        /// The cache key, with placeholders.
        pub key: String,
        /// Methods whose responses are cached in addition to GET and HEAD.
        pub methods: Vec<String>,
        /// Bypasses the cache if one of these is neither empty nor `0`; with placeholders.
        pub bypass: Vec<String>,
        /// Does not store the response if one of these is neither empty nor `0`; with placeholders.
        pub no_store: Vec<String>,
        /// Stores only responses with `X-Accel-Buffering: yes`. When false, stores all except those with
        /// `X-Accel-Buffering: no`.
        pub unbuffered: bool,
        /// Removes the cached response if one of these is neither empty nor `0`; with placeholders.
        pub purge: Vec<String>,
        /// Lifetimes of responses that specify none themselves; the first match applies.
        pub valid: Vec<CacheValid>,
        /// Number of requests after which a response is stored; 1 when zero.
        pub min_uses: u32,
        /// When a stale response is used: `error`, `timeout`, `invalid_header`, `updating`, or a status such as
        /// `http_404`.
        pub use_stale: Vec<String>,
        /// Lets only one of several concurrent cache misses fetch the response; the others wait.
        pub lock: Option<CacheLock>,
        /// Revalidates stale responses with a conditional request instead of fetching them again.
        pub revalidate: bool,
        /// If a stale response may be served during an update, it is also served to the request that starts the update;
        /// the update runs in the background.
        pub background_update: bool,
        /// Forwards HEAD requests as HEAD; as GET when false.
        pub keep_head: bool,
        /// Also stores responses to HEAD when they are forwarded as HEAD. Requires a key that GET requests do not
        /// share.
        pub store_head: bool,
        /// Range requests that start at or beyond this offset are forwarded unchanged, and their responses are not
        /// stored.
        pub max_range_offset: Option<u64>,
        /// Response headers to ignore: `X-Accel-Buffering`, `X-Accel-Expires`, `Expires`, `Cache-Control`,
        /// `Set-Cookie`, `Vary`.
        pub ignore: Vec<String>,
        /// Stores responses to requests with credentials like any other: the key contains them, or the upstream does
        /// not see them.
        pub ignore_authorization: bool,
        /// The nodes that are one cache together; this one alone when absent.
        pub peers: Option<CachePeers>,
    }

    /// Nodes that are one cache together: each key has one of them as its owner, and the others request it there.
    pub struct CachePeers {
        /// The name of this node, with placeholders of the process; the host name when empty.
        pub node: String,
        /// What proves to a node that a request comes from another one, with placeholders of the process.
        pub secret: String,
        /// All nodes, this one included.
        pub nodes: Vec<CacheNode>,
    }

    /// A node of a cache.
    pub struct CacheNode {
        /// Its name. The keys that it owns follow from it.
        pub name: String,
        /// How the other nodes send it requests.
        pub proxy: ReverseProxy,
    }

    /// A cache directory and its index.
    pub struct CacheStore {
        /// The directory.
        pub path: String,
        /// Number of digits in the directory names of each level.
        pub levels: Vec<u8>,
        /// Memory for the index, in bytes.
        pub index_size: u64,
        /// Responses that are not used for this long are removed; ten minutes when zero.
        pub inactive: Duration,
        /// Maximum total size of the files in bytes; no limit when zero.
        pub max_size: u64,
        /// Minimum free space on the file system in bytes.
        pub min_free: u64,
        /// Files processed per iteration when the index is loaded; 100 when zero.
        pub loader_files: u32,
        /// The pause between two iterations; 50 ms when zero.
        pub loader_sleep: Duration,
        /// Maximum duration of an iteration; 200 ms when zero.
        pub loader_threshold: Duration,
        /// Files removed per iteration because they are inactive or beyond a limit; all at once when this and the next two
        /// are zero.
        pub manager_files: u32,
        /// The pause between two iterations; 50 ms when zero.
        pub manager_sleep: Duration,
        /// Maximum duration of an iteration; 200 ms when zero.
        pub manager_threshold: Duration,
        /// Where purges are recorded that apply to all nodes; they apply to this node only when absent.
        pub purges: Option<CachePurges>,
    }

    /// Where the purges of a cache are recorded for all nodes that have it.
    pub struct CachePurges {
        /// The storage, which the nodes share.
        pub storage: Option<Storage>,
        /// The name of the cache: those of one name are purged together.
        pub name: String,
    }

    /// The lifetime of responses with certain statuses.
    pub struct CacheValid {
        /// The statuses; all when empty.
        pub codes: Vec<u16>,
        /// The lifetime; zero disables caching.
        pub time: Duration,
    }

    /// Timeouts of the cache lock.
    pub struct CacheLock {
        /// After this time another request may fetch the response as well.
        pub age: Duration,
        /// After this time a waiting request fetches the response itself, without storing it.
        pub timeout: Duration,
    }
}
