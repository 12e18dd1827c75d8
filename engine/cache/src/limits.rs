//! The limits of this package, each with the reason for its number.

use std::time::Duration;

/// How long what is known of a path is believed without asking the system. With the lag of a worker's coarse
/// clock (100 ms) nothing is ever older than a second.
pub const RECHECK_AFTER: Duration = Duration::from_millis(900);

/// Paths known to one worker, missing ones included. Asking for new paths without end costs about 2 MB.
pub const PATHS_MAX: usize = 8 * 1024;

/// A file up to this size is kept in memory; a larger one is kept open. One write takes this much.
pub const CONTENT_BYTES_MAX: u64 = 64 * 1024;

/// Contents kept by one worker: some hundred pages, well below what one worker's connections may use.
pub const CONTENTS_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Larger files kept open by one worker, so that files stay few beside connections even where a process may open
/// no more than 1,024.
pub const HANDLES_MAX: usize = 64;

/// A file modified this recently may change again without a new time of modification: the clock of most file
/// systems ticks every few milliseconds, that of some every two seconds. It is read again at each check.
pub const CHANGE_UNSEEN: Duration = Duration::from_secs(2);

/// Bytes that a place of the index stands for, besides its key. nginx says that a megabyte of its index has room for
/// about eight thousand keys; with keys of thirty bytes that is what this comes to.
pub const NODE_BYTES: usize = 100;

/// Bytes of a key. Requests have targets of up to 8 KiB, and keys are made of those.
pub const KEY_BYTES_MAX: usize = 16 * 1024;

/// Bytes of the beginning of a file: the head of an answer, its key and what it varies by, each of which has its own
/// limits that stay below this.
pub const BLOCK_BYTES_MAX: usize = 256 * 1024;

/// Room in the beginning of a file for what a validation adds.
pub const BLOCK_SPARE_BYTES: usize = 256;

/// The beginning of a file is a multiple of this, so that contents are aligned to what disks write at once.
pub const BLOCK_STEP_BYTES: usize = 512;

/// What files take on a disk is a multiple of this on nearly all file systems.
pub const DISK_BLOCK_BYTES: u64 = 4096;

/// Places that are being filled at a time by requests that others may wait for; more than there are connections to
/// upstreams on most machines.
pub const FLIGHTS_MAX: usize = 64 * 1024;

/// Requests that wait for one place. More of them go their own way: the answer is not one that can wait.
pub const WAITERS_MAX: usize = 4096;

/// Files that wait for the keeper to remove them; more are removed by whoever forgets them.
pub const DOOMED_MAX: usize = 16 * 1024;

/// How often the keeper looks after the store by itself. It is called when there is no room.
pub const KEEPER_PAUSE: Duration = Duration::from_secs(1);

/// Answers that the keeper removes at a time for want of free space: another program may take what it frees.
pub const EVICTED_AT_ONCE_MAX: usize = 1000;

/// How often the log is told that files cannot be written or read: a full disk would fill the log as well.
pub const TROUBLE_PAUSE: Duration = Duration::from_secs(10);
