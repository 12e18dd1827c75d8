//! Checks whether this machine is fit for benchmarking, and what would limit a run. Changes nothing; each finding says
//! what to do.

use std::fs;
use std::thread;
use std::time::Duration;

use crate::generator::limits::UDP_BUFFER_BYTES;
use crate::machine;

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing to do.
    Fit,
    /// Numbers will be less certain than they could be.
    Weak,
    /// The run is not possible as requested.
    Unfit,
}

/// The result of one check.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Whether the machine is fit to measure.
    pub verdict: Verdict,
    /// What was checked.
    pub what: &'static str,
    /// The observed value.
    pub seen: String,
    /// What to do about it; empty if nothing.
    pub help: String,
}

/// Share of the time of all CPUs that other programs may use, in per cent: above it the machine is not quiet.
pub const PRESSURE_MAX: f64 = 5.0;

/// Share of stolen time, in per cent, above which another guest of the host disturbs the run.
const STEAL_MAX: f64 = 1.0;

/// Descriptors in addition to those of connections: listeners, logs, files.
pub const SPARE_FILES: u64 = 200;

/// The name of the finding about the receive buffer of UDP.
pub const UDP_BUFFER: &str = "UDP buffer";

/// How long the load and the steal time of the machine are observed.
const WATCH: Duration = Duration::from_millis(1_000);

/// Checks everything that limits or disturbs a run with `connections` concurrent connections.
pub fn examine(connections: u64) -> Vec<Finding> {
    let mut findings = vec![
        processors(),
        threads(&machine::cores(&machine::processors())),
        open_files(connections, machine::open_files().1),
        ports(connections),
        backlog(connections),
        udp_buffer(),
        frequency(),
        quota(),
    ];
    findings.extend(quiet());
    findings
}

fn finding(verdict: Verdict, what: &'static str, seen: String, help: &str) -> Finding {
    let help = match verdict {
        Verdict::Fit => String::new(),
        Verdict::Weak | Verdict::Unfit => help.into(),
    };
    Finding {
        verdict,
        what,
        seen,
        help,
    }
}

fn processors() -> Finding {
    let count = machine::processors().len();
    let verdict = match count {
        0 | 1 => Verdict::Weak,
        _ => Verdict::Fit,
    };
    finding(
        verdict,
        "processors",
        format!("{count} available"),
        "generator and server share one CPU: only CPU time per request is reliable here",
    )
}

/// Threads of one core that server and generator would share.
fn threads(cores: &[Vec<usize>]) -> Finding {
    let most = cores.iter().map(Vec::len).max().unwrap_or(1);
    let verdict = match (cores.len(), most) {
        (_, 0 | 1) => Verdict::Fit,
        (1, _) => Verdict::Weak,
        _ => Verdict::Fit,
    };
    let seen = match most {
        0 | 1 => "each CPU is a core".to_string(),
        _ if cores.len() == 1 => format!("1 core with {most} threads"),
        _ => format!("{} cores with up to {most} threads", cores.len()),
    };
    let help = "generator and server are threads of one core and slow each other: compare only runs on this machine";
    finding(verdict, "cores", seen, help)
}

fn open_files(connections: u64, hard: u64) -> Finding {
    // A proxy has two descriptors for each client in one process, the generator has one.
    let proxied = hard.saturating_sub(SPARE_FILES) / 2;
    let verdict = if connections + SPARE_FILES > hard {
        Verdict::Unfit
    } else if connections > proxied {
        Verdict::Weak
    } else {
        Verdict::Fit
    };
    let help = format!(
        "a proxied client needs two descriptors in one process: {proxied} clients fit; raise `ulimit -Hn`"
    );
    finding(
        verdict,
        "open files",
        format!("hard limit {hard}, {connections} connections requested"),
        &help,
    )
}

fn ports(connections: u64) -> Finding {
    let (first, last) = machine::local_ports();
    let free = u64::from(last - first) + 1;
    let verdict = if connections > free {
        Verdict::Weak
    } else {
        Verdict::Fit
    };
    finding(
        verdict,
        "local ports",
        format!("{free} ({first} to {last})"),
        "more connections than ports: over loopback the generator uses several addresses of 127.0.0.0/8; elsewhere \
         widen net.ipv4.ip_local_port_range",
    )
}

fn backlog(connections: u64) -> Finding {
    let text = machine::read("/proc/sys/net/core/somaxconn");
    let most: u64 = text.trim().parse().unwrap_or(128);
    let verdict = if connections > most {
        Verdict::Weak
    } else {
        Verdict::Fit
    };
    finding(
        verdict,
        "listen queue",
        format!("net.core.somaxconn is {most}"),
        "connections are opened in small groups, so this matters only for bursts of new connections",
    )
}

/// The receive buffer that HTTP/3 needs. Without it only HTTP/3 is affected.
fn udp_buffer() -> Finding {
    let most: usize = machine::read("/proc/sys/net/core/rmem_max")
        .trim()
        .parse()
        .unwrap_or(0);
    let verdict = match most < UDP_BUFFER_BYTES {
        true => Verdict::Weak,
        false => Verdict::Fit,
    };
    finding(
        verdict,
        UDP_BUFFER,
        format!("net.core.rmem_max is {most}"),
        &format!(
            "HTTP/3 loses packets in bursts of large responses: sysctl -w net.core.rmem_max={UDP_BUFFER_BYTES}"
        ),
    )
}

fn frequency() -> Finding {
    let governor = machine::read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    match governor.trim() {
        "" => finding(
            Verdict::Fit,
            "frequency",
            "not visible to this machine (usual in virtual ones)".into(),
            "",
        ),
        "performance" => finding(Verdict::Fit, "frequency", "performance".into(), ""),
        other => finding(
            Verdict::Weak,
            "frequency",
            format!("governor {other}"),
            "cpupower frequency-set -g performance, while measuring",
        ),
    }
}

fn quota() -> Finding {
    let own = machine::read("/proc/self/cgroup");
    let path = own.lines().find_map(|line| line.strip_prefix("0::"));
    let limit = path
        .and_then(|path| fs::read_to_string(format!("/sys/fs/cgroup{path}/cpu.max")).ok())
        .unwrap_or_default();
    let quota = limit.split_whitespace().next().unwrap_or("max");
    if quota == "max" {
        return finding(Verdict::Fit, "CPU quota", "none".into(), "");
    }
    finding(
        Verdict::Weak,
        "CPU quota",
        format!("cpu.max is {}", limit.trim()),
        "the cgroup's CPU quota will pause servers: run outside this cgroup",
    )
}

/// Observes the machine for a moment: other load and steal time.
fn quiet() -> Vec<Finding> {
    let before = CpuTimes::read();
    thread::sleep(WATCH);
    let spent = CpuTimes::read().since(&before);
    let (busy, steal) = (spent.share(spent.busy), spent.share(spent.steal));
    let load = if busy > PRESSURE_MAX {
        Verdict::Weak
    } else {
        Verdict::Fit
    };
    let neighbour = if steal > STEAL_MAX {
        Verdict::Weak
    } else {
        Verdict::Fit
    };
    vec![
        finding(
            load,
            "other load",
            format!("{busy:.1} % of all CPUs"),
            "stop other programs; CPU time per request is affected least",
        ),
        finding(
            neighbour,
            "stolen time",
            format!("{steal:.1} %"),
            "the host gives CPU time to other guests: repeat at another time, or use more blocks",
        ),
    ]
}

/// The first line of `/proc/stat`, in ticks.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuTimes {
    /// Total, idle time included.
    pub all: u64,
    /// Neither idle nor waiting for disks nor stolen.
    pub busy: u64,
    /// Waiting for disks.
    pub iowait: u64,
    /// Soft interrupts.
    pub softirq: u64,
    /// Time given to other guests by the host.
    pub steal: u64,
}

impl CpuTimes {
    /// The current counters; all zero if they cannot be read.
    pub fn read() -> Self {
        CpuTimes::parse(&machine::read("/proc/stat"))
    }

    /// Parses a text like `/proc/stat`: user nice system idle iowait irq softirq steal (proc(5)).
    pub fn parse(text: &str) -> Self {
        let line = text.lines().next().unwrap_or_default();
        let mut ticks = [0_u64; 8];
        for (slot, word) in ticks.iter_mut().zip(line.split_whitespace().skip(1)) {
            *slot = word.parse().unwrap_or(0);
        }
        let [user, nice, system, idle, iowait, irq, softirq, steal] = ticks;
        let busy = user + nice + system + irq + softirq;
        CpuTimes {
            all: busy + idle + iowait + steal,
            busy,
            iowait,
            softirq,
            steal,
        }
    }

    /// Time spent between an earlier reading and this one.
    pub fn since(&self, earlier: &CpuTimes) -> CpuTimes {
        CpuTimes {
            all: self.all.saturating_sub(earlier.all),
            busy: self.busy.saturating_sub(earlier.busy),
            iowait: self.iowait.saturating_sub(earlier.iowait),
            softirq: self.softirq.saturating_sub(earlier.softirq),
            steal: self.steal.saturating_sub(earlier.steal),
        }
    }

    /// `part` as a share of the total, in per cent.
    pub fn share(&self, part: u64) -> f64 {
        if self.all == 0 {
            return 0.0;
        }
        part as f64 * 100.0 / self.all as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_connections_than_descriptors_are_unfit() {
        assert_eq!(open_files(100, 20_000).verdict, Verdict::Fit);
        let proxied = open_files(10_000, 20_000);
        assert_eq!(proxied.verdict, Verdict::Weak);
        assert!(proxied.help.contains("9900 clients"), "{}", proxied.help);
        assert_eq!(open_files(20_000, 20_000).verdict, Verdict::Unfit);
    }

    #[test]
    fn one_core_with_two_threads_is_weak() {
        assert_eq!(threads(&[vec![0], vec![1]]).verdict, Verdict::Fit);
        assert_eq!(threads(&[vec![0, 2], vec![1, 3]]).verdict, Verdict::Fit);
        let shared = threads(&[vec![0, 1]]);
        assert_eq!(shared.verdict, Verdict::Weak);
        assert_eq!(shared.seen, "1 core with 2 threads");
    }

    #[test]
    fn processor_times_are_read_by_their_places() {
        let before = CpuTimes::parse("cpu  10 0 10 70 5 0 5 0 0 0\ncpu0 1 1 1");
        let after = CpuTimes::parse("cpu  30 0 20 110 5 0 15 20 0 0\n");
        let spent = after.since(&before);
        assert_eq!((spent.all, spent.busy, spent.steal), (100, 40, 20));
        assert_eq!(spent.share(spent.softirq), 10.0);
        assert_eq!(CpuTimes::parse("").share(1), 0.0);
    }
}
