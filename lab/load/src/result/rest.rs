//! The pause before a block.

use serde::{Deserialize, Serialize};

/// The pause before a block, in which the machine comes to rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rest {
    /// How long it took.
    pub waited_s: f64,
    /// Whether the machine was idle at its end; `None` if the experiment does not wait for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<bool>,
    /// Share of all CPUs that was busy in its last interval, from 0 to 1; `None` if it had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy: Option<f64>,
    /// Local ports that connections in TIME_WAIT held at its end, to one destination.
    pub ports_held: u64,
    /// The most that may be held so that the block has enough.
    pub ports_held_max: u64,
}

impl Rest {
    /// Whether the block began although the machine was busy.
    pub fn is_busy(&self) -> bool {
        self.idle == Some(false)
    }

    /// Whether the block began with too few free ports.
    pub fn is_short_of_ports(&self) -> bool {
        self.ports_held > self.ports_held_max
    }
}
