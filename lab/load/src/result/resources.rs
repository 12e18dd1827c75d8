//! What a load cost the server, what stands behind it and the machine, sampled from `/proc`.

use serde::{Deserialize, Serialize};

/// Costs of one block, over its window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Resources {
    /// Time between two samples in milliseconds.
    pub interval_ms: u64,
    /// The server with all its children.
    pub subject: Tree,
    /// What stands behind it, if the lab started that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<Tree>,
    /// The lab itself.
    pub generator: Tree,
    /// The whole machine.
    pub system: System,
    /// What the backend counted, if it is one of the lab's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend_counts: Option<BackendCounts>,
}

/// A process with all its descendants.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tree {
    /// CPU seconds in user mode inside the window, children that ended included.
    pub cpu_user_s: f64,
    /// CPU seconds in the kernel inside the window.
    pub cpu_system_s: f64,
    /// Largest sum of resident memory. Pages that processes share count in each; see `pss_peak_bytes`.
    pub rss_peak_bytes: u64,
    /// Mean of the sums.
    pub rss_mean_bytes: u64,
    /// The last sum inside the window.
    pub rss_end_bytes: u64,
    /// The sum some seconds after the load ended: does it give memory back?
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rss_after_bytes: Option<u64>,
    /// Largest proportional memory, in which shared pages count once; sampled once a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pss_peak_bytes: Option<u64>,
    /// Largest number of threads.
    pub threads_max: u64,
    /// Largest number of open descriptors; `None` where they may not be counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub descriptors_max: Option<u64>,
    /// Largest number of processes.
    pub processes_max: u64,
    /// Times that a thread gave way of its own accord.
    pub switches_voluntary: u64,
    /// Times that a thread was made to give way.
    pub switches_involuntary: u64,
    /// Seconds that threads were ready and waited for a processor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_delay_s: Option<f64>,
    /// Page faults without disk.
    pub faults_minor: u64,
    /// Page faults with disk.
    pub faults_major: u64,
    /// The samples.
    #[serde(default)]
    pub points: Vec<TreePoint>,
}

/// One sample of a tree.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TreePoint {
    /// Milliseconds since the window began; negative before.
    pub at_ms: i64,
    /// Processors used in user mode since the last sample; 1 is one full processor.
    pub user: f32,
    /// Processors used in the kernel since the last sample.
    pub system: f32,
    /// Resident memory.
    pub rss_bytes: u64,
    /// Threads.
    pub threads: u64,
    /// Open descriptors, if they were counted in this sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub descriptors: Option<u64>,
}

/// The machine over the window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct System {
    /// Processors used by all programs.
    pub busy: f64,
    /// Processors used by programs that do not belong to the experiment.
    pub foreign: f64,
    /// Share of time that the hypervisor gave to others, from 0 to 1.
    pub steal: f64,
    /// Share of time spent waiting for disks.
    pub iowait: f64,
    /// Share of time spent on soft interrupts (the network, mostly).
    pub softirq: f64,
    /// Share of the window in which some task waited for a processor (PSI); `None` where the kernel does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pressure_cpu: Option<f64>,
    /// The same for memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pressure_memory: Option<f64>,
    /// The same for input and output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pressure_io: Option<f64>,
    /// Connections that found a listener's queue full.
    pub listen_overflows: u64,
    /// Connections that a listener dropped.
    pub listen_drops: u64,
    /// TCP segments sent again.
    pub tcp_retransmits: u64,
    /// Sockets in TIME_WAIT at the end.
    pub time_wait: u64,
    /// Microseconds that a fixed piece of work took before or after the block, whichever was longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_us: Option<f64>,
    /// The samples.
    #[serde(default)]
    pub points: Vec<SystemPoint>,
}

/// One sample of the machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SystemPoint {
    /// Milliseconds since the window began.
    pub at_ms: i64,
    /// Processors used by all programs since the last sample.
    pub busy: f32,
    /// Processors that the hypervisor took.
    pub steal: f32,
}

/// What a backend of the lab counted, over the window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackendCounts {
    /// Connections accepted.
    pub accepted: u64,
    /// Requests answered.
    pub requests: u64,
}
