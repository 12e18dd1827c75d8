//! The limits of this package that no part of it has for itself, each with the reason for its number.

use std::time::Duration;

/// Largest file that `{file.*}` inserts, in bytes. It is meant for secrets and banners, and is read on each use.
pub const FILE_TEXT_BYTES_MAX: u64 = 1024 * 1024;

/// Maximum number of log lines about panics per [`PANIC_LINES_PERIOD`]. A client that can trigger a panic can do so ten
/// thousand times a second; the first few lines say it all, and the metrics have the count.
pub const PANIC_LINES_MAX: u32 = 10;

/// The period to which [`PANIC_LINES_MAX`] applies.
pub const PANIC_LINES_PERIOD: Duration = Duration::from_secs(10);

/// Panic locations that are remembered, so that only the first panic at each location has a backtrace. There are not so
/// many bugs; further locations are logged without one.
pub const PANIC_PLACES_MAX: usize = 64;

/// Maximum size of a backtrace in the log, in bytes. 16 KiB hold about 60 frames, more than the handlers of a request
/// use.
pub const PANIC_BACKTRACE_BYTES_MAX: usize = 16 * 1024;

/// Maximum size of a panic message in the log, in bytes: it may contain text from the request.
pub const PANIC_MESSAGE_BYTES_MAX: usize = 1024;

/// Events that wait for their handlers; further ones are lost and counted in the log. They are rare: a flood of them is an
/// upstream that flaps, and the first ones say so.
pub const EVENTS_QUEUED_MAX: usize = 256;

/// Handlers of events that run at once. Each is a thread, and a process if it runs a command.
pub const EVENT_RUNS_MAX: usize = 8;

/// How long a command may take if nothing else is configured, as in the Caddy plugin.
pub const EVENT_EXEC_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a request of a webhook may take if nothing else is configured.
pub const EVENT_WEBHOOK_TIMEOUT: Duration = Duration::from_secs(10);

/// How often a running command is looked at: its end may be noticed so much later.
pub const EVENT_LOOK: Duration = Duration::from_millis(10);

/// Sites with counters of their own; further ones are counted together. A site without requests costs about 100 bytes,
/// one with requests 500 bytes per worker that served it: at most 2 MiB per worker.
pub const SITES_COUNTED_MAX: usize = 4096;

/// Maximum length of the name of a site, in bytes: a site may have hundreds of hosts. Longer names are truncated, and
/// sites that then have the same name are counted together.
pub const SITE_NAME_BYTES_MAX: usize = 160;

/// Failed requests that the status shows, per worker: enough to see what is wrong now. About 40 KiB.
pub const FAILURES_MAX: usize = 64;

/// Failed requests that a worker records in a second; further ones are only counted. A server whose upstream is gone has
/// thousands of the same.
pub const FAILURES_PER_SECOND_MAX: u32 = 16;

/// Maximum length of each text of a recorded failure, in bytes: paths and hosts come from clients.
pub const FAILURE_TEXT_BYTES_MAX: usize = 200;

/// Seconds of history that the status has.
pub const HISTORY_SECONDS: usize = 600;

/// Sites that the status shows, those with most requests; the rest is summed. 500 rows are 150 KiB of JSON, more than a
/// person reads.
pub const SITES_SHOWN_MAX: usize = 500;

/// Upstreams that the status shows, unhealthy ones first: discovery may find thousands.
pub const UPSTREAMS_SHOWN_MAX: usize = 1000;

/// Certificates that the status shows, those that expire first.
pub const CERTIFICATES_SHOWN_MAX: usize = 1000;

/// Nodes of a fleet that the status shows, those that are not in sync first.
pub const NODES_SHOWN_MAX: usize = 200;

/// Zones and caches of each kind that the status shows.
pub const ZONES_SHOWN_MAX: usize = 500;

/// Maximum length of the error of a reload that the status shows, in bytes: about 20 diagnostics of one line.
pub const RELOAD_ERROR_BYTES_MAX: usize = 4096;

/// The least time between two samples of the counters. The local and the remote endpoint of the admin API both take one
/// each second.
pub const SAMPLE_PAUSE_MIN: Duration = Duration::from_millis(700);
