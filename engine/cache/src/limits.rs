//! The limits of this package, each with the reason for its number.

use std::time::Duration;

/// How long cached metadata is used before the system is consulted again, unless the configuration says how long. With the lag of a worker's coarse clock (100
/// ms), entries are never older than a second.
pub const RECHECK_AFTER: Duration = Duration::from_millis(900);

/// Paths cached by one worker, including missing ones. Requests for ever new paths use at most about 2 MB.
pub const PATHS_MAX: usize = 8 * 1024;

/// A file up to this size is cached in memory; a larger one stays open. One write takes this much.
pub const CONTENT_BYTES_MAX: u64 = 64 * 1024;

/// File contents cached by one worker: some hundred pages, well below what the worker's connections may use.
pub const CONTENTS_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Larger files kept open by one worker: few compared with connections, even where a process may open only 1,024 files.
pub const HANDLES_MAX: usize = 64;

/// A file modified this recently may change again without a new modification time: the clock of most file systems ticks
/// every few milliseconds, that of some every two seconds. Such a file is reread at each check.
pub const CHANGE_UNSEEN: Duration = Duration::from_secs(2);

/// Bytes accounted for one index entry besides its key. The nginx documentation says that a megabyte of its index has
/// room for about eight thousand keys; with keys of thirty bytes that is this much per entry.
pub const NODE_BYTES: usize = 100;

/// Maximum length of a key in bytes. Request targets have up to 8 KiB, and keys are made of those.
pub const KEY_BYTES_MAX: usize = 16 * 1024;

/// Maximum size of a cache file's header block: the response head, the key and the `Vary` values. Each of these has its
/// own limit below this one.
pub const BLOCK_BYTES_MAX: usize = 256 * 1024;

/// Spare bytes in a header block for headers added by a revalidation.
pub const BLOCK_SPARE_BYTES: usize = 256;

/// Header blocks are a multiple of this, so that the body is aligned to disk sectors.
pub const BLOCK_STEP_BYTES: usize = 512;

/// The allocation unit of nearly all file systems.
pub const DISK_BLOCK_BYTES: u64 = 4096;

/// Cache entries being filled at the same time by requests that others may wait for; more than most machines have
/// upstream connections.
pub const FLIGHTS_MAX: usize = 64 * 1024;

/// Requests that wait for one cache entry. Further requests go to the upstream: a response in such demand cannot wait.
pub const WAITERS_MAX: usize = 4096;

/// Files queued for removal by the keeper thread; beyond this, the thread that drops an entry removes its file.
pub const DOOMED_MAX: usize = 16 * 1024;

/// How often the keeper thread inspects the store on its own. It is also woken when space runs out.
pub const KEEPER_PAUSE: Duration = Duration::from_secs(1);

/// Cached responses that the keeper evicts in one pass to free disk space: another program may be using up what is
/// freed.
pub const EVICTED_AT_ONCE_MAX: usize = 1000;

/// Minimum pause between log messages about files that cannot be written or read: a full disk would fill the log as
/// well.
pub const TROUBLE_PAUSE: Duration = Duration::from_secs(10);

/// Keys that a list of the responses of a cache shows: as many as a reader looks through, a megabyte or two.
pub const KEYS_SHOWN_MAX: usize = 10_000;

/// Memory accounted for a variant of a response in the index, besides that of each entry: two digests in a set.
pub const VARIANT_BYTES: usize = 64;

/// Surrogate keys of one response in the index: a kilobyte. Pages of shops and newspapers have some dozens; one with more is
/// removed by a purge of any key.
pub const TAGS_MAX: usize = 128;

/// Purges that are remembered while the index is being loaded; more count as a purge of everything that is not loaded yet.
/// Loading takes seconds, and more purges than this in that time are as good as one of everything.
pub const PURGED_MAX: usize = 4096;

/// Bytes of their keys: keys of usual length for as many purges.
pub const PURGED_BYTES_MAX: usize = 1024 * 1024;

/// Purges that the shared list keeps. A node that has missed more drops its whole cache.
pub const PURGE_LIST_MAX: usize = 1024;

/// Bytes of the shared list: a quarter of what stores take as a value, because each node reads it with each purge.
pub const PURGE_LIST_BYTES_MAX: usize = 256 * 1024;

/// Purges that wait to be recorded, which happens together; further ones fail. Each is a request that waits.
pub const PURGES_WAITING_MAX: usize = 1024;

/// How often a node tries to add to the shared list while other nodes add to it. Each failed attempt is one that succeeded
/// elsewhere, and purges that wait are added together.
pub const PURGE_ATTEMPTS_MAX: u32 = 32;

/// How long a watch of the shared list waits at a time: the longest time until its thread sees that the cache was closed.
pub const PURGE_WATCH_TIMEOUT: Duration = Duration::from_secs(1);

/// How often the shared list is read although no change was reported, in case a watch is broken and does not know.
pub const PURGE_LOOK_EVERY: Duration = Duration::from_secs(10);

/// The first pause after the store of the list could not be reached; each further one is twice as long.
pub const PURGE_RETRY_MIN: Duration = Duration::from_millis(500);

/// The longest such pause: a node catches up so long after the store has returned.
pub const PURGE_RETRY_MAX: Duration = Duration::from_secs(5);

/// The length of the file with the number of the last purge that was applied; it has two short lines.
pub const PURGE_POSITION_BYTES_MAX: u64 = 4096;
