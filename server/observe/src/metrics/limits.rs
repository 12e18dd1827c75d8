//! Limits of metrics, each with its rationale.

use std::time::Duration;

/// Maximum number of request series per worker: methods, statuses, hosts and handlers multiply, and clients choose some
/// of them. About 2 MiB if all are used; further ones are counted as dropped. A power of two.
pub const SERIES_MAX: usize = 4096;

/// Maximum number of used slots in a worker's table: lookups in a fuller table are slow.
pub const SERIES_FILLED_MAX: usize = SERIES_MAX / 4 * 3;

/// Maximum number of hosts with series of their own if any host is allowed (`observe_catchall_hosts`): clients choose
/// them.
pub const HOSTS_MAX: usize = 500;

/// Maximum number of handler kinds per server: each has a bit in a request's marks, and one bit is reserved.
pub const KINDS_MAX: usize = 31;

/// Maximum number of admin API paths with series of their own; further ones share one.
pub const ADMIN_SERIES_MAX: usize = 200;

/// Default interval for pushing metrics (`OTEL_METRIC_EXPORT_INTERVAL`); the default in OpenTelemetry's specification.
pub const METRICS_INTERVAL: Duration = Duration::from_secs(60);
