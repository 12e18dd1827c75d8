//! The limits of this package that no part of it has for itself, each with the reason for its number.

use std::time::Duration;

/// The largest file that `{file.*}` inserts; it is meant for secrets and banners, and is read when used.
pub const FILE_TEXT_BYTES_MAX: u64 = 1024 * 1024;

/// Lines about panics in the log in one [`PANIC_LINES_PERIOD`]. A client that finds a request that panics can send ten
/// thousand of them in a second; the first few say all there is to know, and the metrics have the number.
pub const PANIC_LINES_MAX: u32 = 10;

/// The time in which so many lines go out.
pub const PANIC_LINES_PERIOD: Duration = Duration::from_secs(10);

/// Places of panics that are remembered, so that only the first panic of each shows how the program came there. There
/// are not so many bugs; further places get lines without it.
pub const PANIC_PLACES_MAX: usize = 64;

/// Bytes of the way to a panic in the log. 16 KiB are about 60 calls, which the handlers of a request do not exceed.
pub const PANIC_BACKTRACE_BYTES_MAX: usize = 16 * 1024;

/// Bytes of the message of a panic in the log: it may have text of the request in it.
pub const PANIC_MESSAGE_BYTES_MAX: usize = 1024;
