//! Our own module `cache`: answers of an upstream that are stored and used again (RFC 9111). Caddy has no word for it; the
//! settings are what nginx's directives come to.

use alloc::string::String;
use alloc::vec::Vec;

use crate::object::objects;
use crate::proxy::ReverseProxy;
use crate::value::Duration;

objects! {
    /// Answers with what was stored, or asks and stores.
    pub struct Cache {
        /// Where answers are stored. Handlers that name one folder share it.
        pub store: CacheStore,
        /// Who is asked for what is not there.
        pub origin: ReverseProxy,
        /// What answers are told apart by, with placeholders.
        pub key: String,
        /// Methods whose answers are stored besides those of GET and HEAD.
        pub methods: Vec<String>,
        /// Nothing stored is used where one of these is neither empty nor `0`; with placeholders.
        pub bypass: Vec<String>,
        /// Nothing is stored where one of these is neither empty nor `0`; with placeholders.
        pub no_store: Vec<String>,
        /// Nothing is stored but what says `yes` in X-Accel-Buffering. Otherwise all is but what says `no`.
        pub unbuffered: bool,
        /// What is stored is removed where one of these is neither empty nor `0`; with placeholders.
        pub purge: Vec<String>,
        /// How long answers are fresh that do not say so themselves; the first that fits counts.
        pub valid: Vec<CacheValid>,
        /// Requests for an answer until it is stored; 1 when zero.
        pub min_uses: u32,
        /// When a stale answer is used: `error`, `timeout`, `invalid_header`, `updating`, `http_404` and the like.
        pub use_stale: Vec<String>,
        /// Of several requests for what is not there one asks, and the others wait.
        pub lock: Option<CacheLock>,
        /// Stale answers are validated rather than asked for anew.
        pub revalidate: bool,
        /// A stale answer that may be used while a fresh one is fetched is used by whoever finds it stale, too.
        pub background_update: bool,
        /// The upstream is asked with HEAD where the client asked so; with GET when false.
        pub keep_head: bool,
        /// Answers to HEAD are stored as well where the upstream is asked with HEAD: no GET has the same key.
        pub store_head: bool,
        /// Ranges that begin there or behind are asked for as they are, and not stored.
        pub max_range_offset: Option<u64>,
        /// Fields of answers that are not looked at: `X-Accel-Buffering`, `X-Accel-Expires`,
        /// `Expires`, `Cache-Control`, `Set-Cookie`, `Vary`.
        pub ignore: Vec<String>,
        /// Answers to requests with credentials are stored like others: the key has them, or the upstream does not see them.
        pub ignore_authorization: bool,
    }

    /// Where answers are stored.
    pub struct CacheStore {
        /// The folder.
        pub path: String,
        /// Into how many digits the names of each level of folders are cut.
        pub levels: Vec<u8>,
        /// The memory of the index in bytes.
        pub index_size: u64,
        /// Answers that nobody asked for so long are removed; after ten minutes when zero.
        pub inactive: Duration,
        /// The most that files take in bytes; no limit when zero.
        pub max_size: u64,
        /// What stays free on the file system in bytes.
        pub min_free: u64,
        /// Files that are looked at in one go when the index is loaded; 100 when zero.
        pub loader_files: u32,
        /// The pause between two of these; 50 ms when zero.
        pub loader_sleep: Duration,
    }

    /// How long answers with some statuses are fresh.
    pub struct CacheValid {
        /// The statuses; all when empty.
        pub codes: Vec<u16>,
        /// How long; not at all when zero.
        pub time: Duration,
    }

    /// How long requests wait for one another.
    pub struct CacheLock {
        /// After so long another one asks as well.
        pub age: Duration,
        /// After so long one that waits asks for itself, and its answer is not stored.
        pub timeout: Duration,
    }
}
