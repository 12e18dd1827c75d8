//! Limits of tracing: the defaults of a batching exporter in OpenTelemetry's specification, with their rationale.

use std::time::Duration;

/// Maximum number of queued spans; further ones are dropped and counted.
pub const SPANS_QUEUED_MAX: usize = 2048;

/// Maximum number of spans per export.
pub const SPANS_BATCH_MAX: usize = 512;

/// Default delay before a batch is exported (`OTEL_BSP_SCHEDULE_DELAY`).
pub const EXPORT_DELAY: Duration = Duration::from_secs(5);

/// Default timeout for the collector (`OTEL_EXPORTER_OTLP_TIMEOUT`).
pub const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);

/// Attempts to send a message before its spans are dropped: a collector that restarts is back soon, and one that stays
/// away must not delay newer spans for long.
pub const EXPORT_ATTEMPTS_MAX: u32 = 3;

/// The delay before a message is sent again.
pub const EXPORT_PAUSE: Duration = Duration::from_secs(1);

/// Interval between log messages about a collector that does not accept data.
pub const EXPORT_NOTICE_PAUSE: Duration = Duration::from_secs(60);

/// Maximum size of a propagated `tracestate`, in bytes: the minimum that the standard requires (section 3.3.1.5).
pub const TRACE_STATE_BYTES_MAX: usize = 512;
