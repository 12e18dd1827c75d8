//! Process metrics from the kernel, with the names used by Prometheus client libraries.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use super::sample::Kind;
use super::text::Page;

/// What the kernel reports of this process; `None` for what cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessFacts {
    /// Processor time used, in user space and in the kernel, in seconds.
    pub cpu_seconds: Option<f64>,
    /// Resident memory in bytes.
    pub resident_bytes: Option<u64>,
    /// Address space in bytes.
    pub virtual_bytes: Option<u64>,
    /// Open files.
    pub open_files: Option<u64>,
    /// How many files may be open.
    pub files_max: Option<u64>,
}

impl ProcessFacts {
    /// Reads the facts.
    pub fn read() -> ProcessFacts {
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        // The program name is in parentheses and may contain anything; the numbers follow the last parenthesis.
        let fields: Vec<&str> = stat
            .rsplit_once(')')
            .map(|(_, rest)| rest.split_ascii_whitespace().collect())
            .unwrap_or_default();
        let number = |at: usize| fields.get(at).and_then(|text| text.parse::<u64>().ok());
        // proc_pid_stat(5): utime and stime are fields 14 and 15, vsize and rss 23 and 24; the first field here is
        // number 3.
        let cpu = number(11).zip(number(12));
        ProcessFacts {
            cpu_seconds: cpu.map(|(user, system)| (user + system) as f64 / TICKS_PER_SECOND),
            resident_bytes: number(21).map(|pages| pages * PAGE_BYTES),
            virtual_bytes: number(20),
            open_files: open_files(),
            files_max: limit("Max open files"),
        }
    }
}

/// Writes the metrics; those that cannot be read are omitted.
pub fn write(page: &mut Page, started: SystemTime) {
    let facts = ProcessFacts::read();
    if let Some(seconds) = facts.cpu_seconds {
        page.single(
            "process_cpu_seconds_total",
            "Processor time used, in user space and in the kernel.",
            Kind::Counter,
            seconds,
        );
    }
    let mut gauge = |name, help, value: Option<u64>| {
        if let Some(value) = value {
            page.single(name, help, Kind::Gauge, value);
        }
    };
    gauge(
        "process_max_fds",
        "How many files may be open.",
        facts.files_max,
    );
    gauge("process_open_fds", "Open files.", facts.open_files);
    gauge(
        "process_resident_memory_bytes",
        "Memory in use.",
        facts.resident_bytes,
    );
    let since = started.duration_since(UNIX_EPOCH).unwrap_or_default();
    page.single(
        "process_start_time_seconds",
        "When the process started, in seconds since 1970.",
        Kind::Gauge,
        since.as_secs_f64(),
    );
    if let Some(bytes) = facts.virtual_bytes {
        page.single(
            "process_virtual_memory_bytes",
            "Address space in use.",
            Kind::Gauge,
            bytes,
        );
    }
}

/// Clock ticks per second as seen by programs, on all supported architectures (time(7)).
const TICKS_PER_SECOND: f64 = 100.0;

/// The page size on all supported architectures.
const PAGE_BYTES: u64 = 4096;

fn limit(name: &str) -> Option<u64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// Since Linux 6.2 the size of the folder is the number of its entries; counting a hundred thousand of them is slow.
fn open_files() -> Option<u64> {
    match fs::metadata("/proc/self/fd").ok()?.len() {
        0 => Some(fs::read_dir("/proc/self/fd").ok()?.count() as u64),
        count => Some(count),
    }
}
