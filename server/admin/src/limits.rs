//! The limits of the control interface, each with the reason for its number.

use std::time::Duration;

/// The largest configuration taken: a hundred thousand sites fit, and it can be held in memory several times.
pub const BODY_BYTES_MAX: usize = 64 << 20;

/// Orders that may wait for the process; whoever sends more is told to come again.
pub const ORDERS_MAX: usize = 16;

/// Connections at once: control is for a few tools on this machine.
pub const CONNECTIONS_MAX: usize = 64;

/// How long a client may take for a head, or pause in a body or an answer.
pub const CLIENT_PATIENCE: Duration = Duration::from_secs(30);

/// How long answers under way get when the interface closes.
pub const GRACE: Duration = Duration::from_secs(2);
