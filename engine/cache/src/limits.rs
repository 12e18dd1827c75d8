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
