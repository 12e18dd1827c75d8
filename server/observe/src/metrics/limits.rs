//! The limits of metrics, each with the reason for its number.

use std::time::Duration;

/// Series of requests that one worker keeps: methods, statuses, hosts and handlers multiply, and clients choose some of
/// them. Some 2 MiB when full; what goes beyond is counted as dropped. A power of two.
pub const SERIES_MAX: usize = 4096;

/// Of the places in the table of a worker as many are filled: a fuller table takes long to search.
pub const SERIES_FILLED_MAX: usize = SERIES_MAX / 4 * 3;

/// Hosts that have series of their own where any host may (`observe_catchall_hosts`): clients choose them.
pub const HOSTS_MAX: usize = 500;

/// Kinds of handlers of one server that are told apart: each has a bit in what a request remembers, and one bit
/// is taken.
pub const KINDS_MAX: usize = 31;

/// Paths of the control interface that are told apart; the others count together.
pub const ADMIN_SERIES_MAX: usize = 200;

/// How often metrics are pushed, unless `OTEL_METRIC_EXPORT_INTERVAL` says otherwise; the number of OpenTelemetry's
/// documents.
pub const METRICS_INTERVAL: Duration = Duration::from_secs(60);
