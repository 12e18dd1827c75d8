//! The messages between coordinator and agents.

use serde::{Deserialize, Serialize};

use super::task::Task;
use sluice_load::result::Load;

/// Version of these messages: both sides need the same.
pub const VERSION: u32 = 4;

/// What a coordinator sends.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// It knows the token: its random number, and the proof.
    Prove {
        /// A random number, in hexadecimal.
        nonce: String,
        /// See `token`.
        proof: String,
    },
    /// Asks for the time.
    Ping,
    /// Prepare this load: open its connections.
    Prepare(Box<Task>),
    /// Begin the window at this time of the agent's clock.
    Begin {
        /// Nanoseconds.
        at_ns: u64,
    },
    /// End the load early.
    Stop,
    /// For the agent's [`Host`](super::Host), in a form that only the two of them know.
    Host(String),
    /// The coordinator of a host is alive.
    Alive,
}

/// What an agent sends.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Report {
    /// The first message.
    Hello {
        /// [`VERSION`].
        version: u32,
        /// A random number in hexadecimal, which the coordinator's proof covers; `None` if no token is needed.
        nonce: Option<String>,
    },
    /// The coordinator may give orders.
    Welcome {
        /// The agent's proof that it knows the token, too; `None` if none is needed.
        proof: Option<String>,
        /// Its CPU model.
        cpu_model: String,
        /// Identifies its network stack: loopback addresses of two agents are the same only if these are.
        network: String,
    },
    /// The agent does not do what was asked; the connection ends.
    Refused {
        /// The reason.
        reason: String,
    },
    /// The agent's clock when it received a ping.
    Time {
        /// Nanoseconds of its clock since an unknown moment.
        clock_ns: u64,
        /// Nanoseconds since 1970.
        unix_ns: u64,
    },
    /// The connections of the load are open.
    Ramped,
    /// The agent is alive; sums since the window began.
    Alive {
        /// Successful requests, warm-up included.
        ok: u64,
        /// As in the generator's `Seen`.
        heat: Vec<u64>,
        /// As in the generator's `Seen`.
        failed: Vec<u64>,
    },
    /// What the host reports.
    Host(String),
    /// The agent of a host is alive.
    Up,
    /// The load has ended.
    Done {
        /// Its figures.
        load: Box<Load>,
        /// CPUs that it could use.
        cpus: usize,
    },
}
