//! What a load cost the server, its upstream and the machine, sampled from `/proc`.

use serde::{Deserialize, Serialize};

/// Resolution of CPU time in `/proc`: the kernel reports it in hundredths of a second (USER_HZ).
pub const CPU_TICK_S: f64 = 0.01;

/// Resource usage of one block, over its window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Resources {
    /// Time between two samples in milliseconds.
    pub interval_ms: u64,
    /// The server with all its children.
    pub subject: Tree,
    /// Its upstream, if the lab started one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<Tree>,
    /// The lab itself.
    pub generator: Tree,
    /// The whole machine.
    pub system: System,
    /// The machine of the upstream, if that is not the machine of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend_system: Option<System>,
    /// Counters of the upstream, if it is one of the lab's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend_counts: Option<BackendCounts>,
}

/// A process with all its descendants.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tree {
    /// CPU seconds in user mode inside the window, including children that exited.
    pub cpu_user_s: f64,
    /// CPU seconds in the kernel inside the window.
    pub cpu_system_s: f64,
    /// Largest sum of resident memory. Pages shared by processes count in each; see `pss_peak_bytes`.
    pub rss_peak_bytes: u64,
    /// Mean of the sums.
    pub rss_mean_bytes: u64,
    /// The last sum inside the window.
    pub rss_end_bytes: u64,
    /// The sum some seconds after the load ended: is memory released?
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rss_after_bytes: Option<u64>,
    /// Largest proportional memory, in which shared pages count once; sampled once a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pss_peak_bytes: Option<u64>,
    /// Largest number of threads.
    pub threads_max: u64,
    /// Largest number of open descriptors; `None` if they may not be counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub descriptors_max: Option<u64>,
    /// Largest number of processes.
    pub processes_max: u64,
    /// Voluntary context switches.
    pub switches_voluntary: u64,
    /// Involuntary context switches.
    pub switches_involuntary: u64,
    /// Seconds that threads were runnable and waited for a CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_delay_s: Option<f64>,
    /// Page faults without disk access.
    pub faults_minor: u64,
    /// Page faults with disk access.
    pub faults_major: u64,
    /// Bytes read from disks; `None` if that may not be asked. Files in memory cost none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_read_bytes: Option<u64>,
    /// Bytes written to disks, or to be written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_write_bytes: Option<u64>,
    /// The samples.
    #[serde(default)]
    pub points: Vec<TreePoint>,
}

impl TreePoint {
    /// CPU usage in per cent of a core, in the steps that the kernel's clock resolves within `interval_ms`.
    pub fn percent(&self, interval_ms: u64) -> f64 {
        let used = f64::from(self.user + self.system) * 100.0;
        let step = match interval_ms {
            0 => return used,
            ms => CPU_TICK_S * 1000.0 / ms as f64 * 100.0,
        };
        (used / step).round() * step
    }
}

/// One sample of a process tree.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TreePoint {
    /// Milliseconds since the window began; negative before.
    pub at_ms: i64,
    /// CPUs used in user mode since the last sample; 1 is one full CPU.
    pub user: f32,
    /// CPUs used in the kernel since the last sample.
    pub system: f32,
    /// Resident memory.
    pub rss_bytes: u64,
    /// Threads.
    pub threads: u64,
    /// Open descriptors, if counted in this sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub descriptors: Option<u64>,
}

/// The machine over the window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct System {
    /// CPUs used by all programs.
    pub busy: f64,
    /// CPUs used by programs that do not belong to the experiment.
    pub foreign: f64,
    /// Share of time that the hypervisor gave to other guests, from 0 to 1.
    pub steal: f64,
    /// Share of time spent waiting for disks.
    pub iowait: f64,
    /// Share of time spent on soft interrupts (the network, mostly).
    pub softirq: f64,
    /// Share of the window in which some task waited for a CPU (PSI); `None` if the kernel does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pressure_cpu: Option<f64>,
    /// The same for memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pressure_memory: Option<f64>,
    /// The same for I/O.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pressure_io: Option<f64>,
    /// Connections that arrived while a listener's queue was full.
    pub listen_overflows: u64,
    /// Connections that a listener dropped.
    pub listen_drops: u64,
    /// TCP segments retransmitted.
    pub tcp_retransmits: u64,
    /// Sockets in TIME_WAIT at the end.
    pub time_wait: u64,
    /// Bytes received and sent over network cards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_bytes: Option<u64>,
    /// Bytes sent over loopback.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loopback_bytes: Option<u64>,
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
    /// CPUs used by all programs since the last sample.
    pub busy: f32,
    /// CPUs taken by the hypervisor.
    pub steal: f32,
}

/// Counters of one of the lab's own upstreams, over the window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackendCounts {
    /// Connections accepted.
    pub accepted: u64,
    /// Completed requests.
    pub requests: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_usage_is_shown_in_the_steps_of_its_clock() {
        let point = TreePoint {
            user: 0.31,
            system: 0.163,
            ..TreePoint::default()
        };
        // Ten milliseconds in a hundred are ten per cent of a core.
        assert!((point.percent(100) - 50.0).abs() < 1e-9);
        assert!((point.percent(1_000) - 47.0).abs() < 1e-9);
        assert!((point.percent(0) - 47.3).abs() < 0.01);
    }
}
