//! One process, as `/proc` shows it.

use std::fs;
use std::sync::OnceLock;

use crate::machine::read;

/// Clock ticks per second in `/proc`, from the auxiliary vector.
pub fn ticks_per_s() -> f64 {
    rustix::param::clock_ticks_per_second() as f64
}

/// The page size.
fn page_bytes() -> u64 {
    static PAGE: OnceLock<u64> = OnceLock::new();
    *PAGE.get_or_init(|| rustix::param::page_size() as u64)
}

/// CPU time in clock ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticks {
    /// In user mode.
    pub user: u64,
    /// In the kernel.
    pub system: u64,
}

impl Ticks {
    /// Seconds in user mode.
    pub fn user_s(&self) -> f64 {
        self.user as f64 / ticks_per_s()
    }

    /// Seconds in the kernel.
    pub fn system_s(&self) -> f64 {
        self.system as f64 / ticks_per_s()
    }

    /// The sum of both.
    pub fn plus(&self, other: Ticks) -> Ticks {
        Ticks {
            user: self.user + other.user,
            system: self.system + other.system,
        }
    }
}

/// A line of `/proc/PID/stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessSample {
    /// Its parent.
    pub parent: u32,
    /// Start time in ticks since boot: distinguishes processes with the same PID.
    pub begun: u64,
    /// Its own CPU time.
    pub own: Ticks,
    /// CPU time of children that have exited and were waited for.
    pub children: Ticks,
    /// Page faults without and with disk access.
    pub faults: (u64, u64),
    /// Threads.
    pub threads: u64,
    /// Resident memory.
    pub rss_bytes: u64,
}

impl ProcessSample {
    /// Reads a process; `None` if it does not exist.
    pub fn read(pid: u32) -> Option<Self> {
        ProcessSample::parse(&read(&format!("/proc/{pid}/stat")))
    }

    /// Parses such a line. The name, in parentheses, may contain anything (proc(5)).
    pub fn parse(line: &str) -> Option<Self> {
        let (_, rest) = line.rsplit_once(')')?;
        let words: Vec<&str> = rest.split_whitespace().collect();
        // The manual counts from 1, and the first word here is field 3.
        let number = |at: usize| words.get(at - 3).and_then(|word| word.parse::<u64>().ok());
        Some(ProcessSample {
            parent: number(4)? as u32,
            begun: number(22)?,
            own: Ticks {
                user: number(14)?,
                system: number(15)?,
            },
            children: Ticks {
                user: number(16)?,
                system: number(17)?,
            },
            faults: (number(10)?, number(12)?),
            threads: number(20)?,
            rss_bytes: number(24)? * page_bytes(),
        })
    }
}

/// Voluntary and involuntary context switches of all threads, and how long they waited for a CPU in nanoseconds.
pub fn switches(pid: u32) -> (u64, u64, u64) {
    let (mut voluntary, mut involuntary, mut delay) = (0, 0, 0);
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return (0, 0, 0);
    };
    for thread in threads.flatten() {
        let path = thread.path();
        let text = read(&path.join("status").to_string_lossy());
        for line in text.lines() {
            let (name, value) = line.split_once(':').unwrap_or_default();
            let value = value.trim().parse().unwrap_or(0);
            match name {
                "voluntary_ctxt_switches" => voluntary += value,
                "nonvoluntary_ctxt_switches" => involuntary += value,
                _ => {}
            }
        }
        let text = read(&path.join("schedstat").to_string_lossy());
        let waited = text
            .split_whitespace()
            .nth(1)
            .and_then(|word| word.parse().ok());
        delay += waited.unwrap_or(0_u64);
    }
    (voluntary, involuntary, delay)
}

/// Proportional memory; `None` if it may not be read.
pub fn pss_bytes(pid: u32) -> Option<u64> {
    let text = read(&format!("/proc/{pid}/smaps_rollup"));
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

/// Bytes that a process has had read from and written to disks; `None` if they may not be read.
pub fn disk_bytes(pid: u32) -> Option<(u64, u64)> {
    disk_bytes_of(&read(&format!("/proc/{pid}/io")))
}

/// The same of the text of such a file (proc(5)).
fn disk_bytes_of(text: &str) -> Option<(u64, u64)> {
    let number = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse().ok()
    };
    Some((number("read_bytes:")?, number("write_bytes:")?))
}

/// Open descriptors; `None` if they may not be counted.
pub fn descriptors(pid: u32) -> Option<u64> {
    Some(fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count() as u64)
}

/// Children of all threads of a process.
pub fn children(pid: u32) -> Vec<u32> {
    let mut found = Vec::new();
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return found;
    };
    for thread in threads.flatten() {
        let text = read(&thread.path().join("children").to_string_lossy());
        found.extend(
            text.split_whitespace()
                .filter_map(|word| word.parse::<u32>().ok()),
        );
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disk_bytes_are_those_of_disks() {
        let text = "rchar: 9\nwchar: 8\nsyscr: 7\nsyscw: 6\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 5\n";
        assert_eq!(disk_bytes_of(text), Some((4096, 8192)));
        assert_eq!(disk_bytes_of(""), None);
        assert!(disk_bytes(std::process::id()).is_some());
    }
}
