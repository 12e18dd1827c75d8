//! The limits of traces, each with the reason for its number. They are those that OpenTelemetry's documents give for a
//! batching exporter.

use std::time::Duration;

/// Spans that wait for the collector; what comes when so many wait is dropped and counted.
pub const SPANS_QUEUED_MAX: usize = 2048;

/// Spans in one message to the collector.
pub const SPANS_BATCH_MAX: usize = 512;

/// How long a span waits for others, unless `OTEL_BSP_SCHEDULE_DELAY` says otherwise.
pub const EXPORT_DELAY: Duration = Duration::from_secs(5);

/// How long the collector may take, unless `OTEL_EXPORTER_OTLP_TIMEOUT` says otherwise.
pub const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);

/// Times that a message is sent before its spans are given up: a collector that restarts is back soon, and one that
/// stays away must not hold newer spans up for long.
pub const EXPORT_ATTEMPTS_MAX: u32 = 3;

/// The pause before a message is sent again.
pub const EXPORT_PAUSE: Duration = Duration::from_secs(1);

/// Bytes of a collector's answer that are read to find its status.
pub const ANSWER_BYTES_MAX: usize = 4096;

/// The pause between two notices about a collector that takes nothing.
pub const EXPORT_NOTICE_PAUSE: Duration = Duration::from_secs(60);

/// Bytes of a tracestate that are handed on: what the standard asks for at least (section 3.3.1.5).
pub const TRACE_STATE_BYTES_MAX: usize = 512;
