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
