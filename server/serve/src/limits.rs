//! Limits of the server, each with its rationale.

use std::time::Duration;

/// Non-matching routes of one list that an explanation shows individually; the rest is only counted. A dozen fits on a
/// screen, and a file may have ten thousand sites.
pub const PASSED_RECORDED_MAX: usize = 12;

/// Bytes of a text body that an explanation shows.
pub const BODY_SHOWN_BYTES_MAX: usize = 200;

/// Default timeout for the PROXY protocol header, which is the first thing a proxy sends; Caddy's default.
pub const PROXY_HEADER_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest period over which errors around a change of a fleet's configuration are counted: long enough for a quiet
/// site, short enough that the time before a change is like the time after it.
pub const ERROR_WINDOW: Duration = Duration::from_secs(60);

/// The fewest errors after a change that can undo it: a few happen in any minute.
pub const ERRORS_MIN: u64 = 10;

/// The largest text of a fleet's configuration: what a store takes as one value.
pub const CONFIG_BYTES_MAX: usize = sluice_store::limits::VALUE_BYTES_MAX;

/// Earlier configurations that stay in the store: some weeks of changes, and at most 20 MiB.
pub const HISTORY_MAX: usize = 20;

/// Bytes of a diagnostic in a node's report: the first errors of twenty; the log of the node has the whole.
pub const REPORTED_ERROR_BYTES_MAX: usize = 4096;

/// Nodes of one fleet that are shown and waited for: each has a lease in the store, which it renews.
pub const NODES_MAX: usize = 1000;

/// How often a node reports without a change, and reads the store even if no change was announced.
pub const REPORT_PERIOD: Duration = Duration::from_secs(10);

/// How often a node reports in the first minute after a change, while `sluice push` looks at its error rate.
pub const REPORT_PERIOD_AFTER_CHANGE: Duration = Duration::from_secs(1);

/// How long a watch of the store waits at a time: the longest time until its thread sees that the process stops.
pub const WATCH_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the first pause is after the store could not be reached; each further one is twice as long.
pub const RETRY_PAUSE_MIN: Duration = Duration::from_millis(500);

/// The longest pause while the store is away: a node catches up so long after it has returned.
pub const RETRY_PAUSE_MAX: Duration = Duration::from_secs(5);

/// The longest pause while the store refuses the credentials, which needs an operator. Some engines lock a user out who
/// tries too often.
pub const REFUSED_PAUSE_MAX: Duration = Duration::from_secs(60);

/// How long a node that has a local copy waits for the store when it starts.
pub const START_WAIT: Duration = Duration::from_millis(700);

/// How long a node waits at its end until its report is removed from the store.
pub const LEAVE_WAIT: Duration = Duration::from_secs(1);

/// How long another node may hold our name before that is logged: the lease of a process that was killed ends earlier.
pub const NAME_TAKEN_AFTER: Duration = Duration::from_secs(20);

/// Pause between two polls of an HTTP server that does not send `Cache-Control: max-age`.
pub const HTTP_POLL: Duration = Duration::from_secs(10);

/// The shortest pause between two polls, whatever the server says.
pub const HTTP_POLL_MIN: Duration = Duration::from_secs(1);

/// The longest pause: after it a change is found whatever the server said.
pub const HTTP_POLL_MAX: Duration = Duration::from_secs(3600);

/// Timeout of one request to an HTTP server that has a configuration.
pub const HTTP_TIMEOUT: Duration = Duration::from_secs(10);

/// How often `sluice push` reads the reports if no change of them was announced.
pub const PUSH_LOOK: Duration = Duration::from_millis(250);

/// How long `sluice push` waits for further verdicts after the first refusal, so that it shows all of them.
pub const VERDICT_GRACE: Duration = Duration::from_secs(5);

/// Wakes that wait at most: one of each kind.
pub const WAKES_MAX: usize = 4;

/// The longest name of a node: a host name has at most 253 bytes.
pub const NODE_NAME_BYTES_MAX: usize = 255;

/// Reports that are loaded at once: etcd takes at most 128 reads in one request.
pub const LOADED_AT_ONCE: usize = 64;

/// The longest pause between two attempts to fetch a configuration of `admin.config.load`: an outage of the other server
/// costs one request a minute, and a minute passes until its end is noticed.
pub const PULL_PAUSE_MAX: Duration = Duration::from_secs(60);

/// Locks that a node names in its report: more are hardly held at a time.
pub const REPORTED_LOCKS_MAX: usize = 20;

/// How often a node reads its whole fleet while somebody looks at it on its dashboard.
pub const FLEET_READ_PERIOD: Duration = Duration::from_secs(2);

/// How long a node goes on reading its fleet after the last look: a page that polls looks every two seconds.
pub const FLEET_READ_AFTER_LOOK: Duration = Duration::from_secs(15);
