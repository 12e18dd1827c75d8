//! Process metrics from the kernel, with the names used by Prometheus client libraries.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use super::sample::Kind;
use super::text::Page;

/// Writes the metrics; those that cannot be read are omitted.
pub fn write(page: &mut Page, started: SystemTime) {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The program name is in parentheses and may contain anything; the numbers follow the last parenthesis.
    let fields: Vec<&str> = stat
        .rsplit_once(')')
        .map(|(_, rest)| rest.split_ascii_whitespace().collect())
        .unwrap_or_default();
    let number = |at: usize| fields.get(at).and_then(|text| text.parse::<u64>().ok());
    // proc_pid_stat(5): utime and stime are fields 14 and 15, vsize and rss 23 and 24; the first field here is number
    // 3.
    if let (Some(user), Some(system)) = (number(11), number(12)) {
        page.single(
            "process_cpu_seconds_total",
            "Processor time used, in user space and in the kernel.",
            Kind::Counter,
            (user + system) as f64 / TICKS_PER_SECOND,
        );
    }
    if let Some(max) = limit("Max open files") {
        page.single(
            "process_max_fds",
            "How many files may be open.",
            Kind::Gauge,
            max,
        );
    }
    if let Some(open) = open_files() {
        page.single("process_open_fds", "Open files.", Kind::Gauge, open);
    }
    if let Some(pages) = number(21) {
        page.single(
            "process_resident_memory_bytes",
            "Memory in use.",
            Kind::Gauge,
            pages * PAGE_BYTES,
        );
    }
    let since = started.duration_since(UNIX_EPOCH).unwrap_or_default();
    page.single(
        "process_start_time_seconds",
        "When the process started, in seconds since 1970.",
        Kind::Gauge,
        since.as_secs_f64(),
    );
    if let Some(bytes) = number(20) {
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
