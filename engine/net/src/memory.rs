//! The memory limit of the process: measuring use, and the measures of each worker while it approaches the limit. When
//! they begin and end is decided in `sluice-policy`.

use std::cell::RefCell;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;

use sluice_message::Moment;
use sluice_policy::memory::Pressure;

use crate::limits::TIMER_TICK;
use crate::sys::limits::page_bytes;

/// The memory limit of the process, shared by all workers.
#[derive(Debug, Default)]
pub struct MemoryLimit {
    /// The limit in bytes; 0 for unlimited.
    limit: AtomicU64,
    /// The number of the current level.
    level: AtomicU8,
    /// When memory is measured next, in nanoseconds.
    next_sample: AtomicU64,
    /// The latest measurement.
    used: AtomicU64,
    /// The control group, if it has a limit of its own.
    group: Mutex<Option<ControlGroup>>,
}

const NEVER_POISONED: &str = "nothing panics while it holds the control group";

impl MemoryLimit {
    /// Sets the limit in bytes; 0 for unlimited.
    pub fn set(&self, bytes: u64) {
        let group = match bytes {
            0 => None,
            _ => ControlGroup::limited(),
        };
        *self.group.lock().expect(NEVER_POISONED) = group;
        self.limit.store(bytes, Ordering::Relaxed);
        if bytes == 0 {
            self.level.store(0, Ordering::Relaxed);
        }
    }

    /// The limit in bytes; 0 for unlimited.
    pub fn bytes(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Memory in use at the latest sample, in bytes; 0 without a limit.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// The current level.
    pub fn level(&self) -> Pressure {
        Pressure::of_number(self.level.load(Ordering::Relaxed))
    }

    /// The current level. The first worker that calls this after [`TIMER_TICK`] measures, for all.
    fn sample(&self, now: Moment) -> Pressure {
        let limit = self.bytes();
        if limit == 0 {
            return Pressure::None;
        }
        let nanos = u64::try_from(now.since_start().as_nanos()).unwrap_or(u64::MAX);
        let due = self.next_sample.load(Ordering::Relaxed);
        // Half a tick, because ticks of workers are not in step.
        let next = nanos + u64::try_from(TIMER_TICK.as_nanos() / 2).unwrap_or(u64::MAX);
        let orders = (Ordering::Relaxed, Ordering::Relaxed);
        let is_due = nanos >= due;
        if is_due
            && (self.next_sample)
                .compare_exchange(due, next, orders.0, orders.1)
                .is_ok()
        {
            self.measure(limit);
        }
        self.level()
    }

    /// Measures now, because much was allocated since the last measurement.
    pub(crate) fn measure_now(&self) {
        let limit = self.bytes();
        if limit > 0 {
            self.measure(limit);
        }
    }

    fn measure(&self, limit: u64) {
        let Some(resident) = resident_bytes() else {
            return;
        };
        let before = self.level();
        let mut level = before.next(resident, limit);
        let group = self.group.lock().expect(NEVER_POISONED);
        let mut used = resident;
        if let Some(group) = &*group
            && let Some(of_group) = group.used_bytes()
        {
            level = level.max(before.next(of_group, group.limit));
            used = used.max(of_group);
        }
        self.used.store(used, Ordering::Relaxed);
        self.level.store(level.number(), Ordering::Relaxed);
    }
}

/// Resident memory of the process.
fn resident_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(pages * page_bytes())
}

/// The control group of the process: its memory includes sockets, and other processes such as applications.
#[derive(Debug)]
struct ControlGroup {
    usage: PathBuf,
    stat: PathBuf,
    /// The names in `stat` of cached file pages, which the kernel frees before it kills a process.
    cached: [&'static str; 2],
    limit: u64,
}

/// Limits from here on mean that there is none: cgroup v1 writes a number near 2^63.
const UNLIMITED_BYTES: u64 = 1 << 60;

impl ControlGroup {
    /// The group of this process, if its memory is limited.
    fn limited() -> Option<ControlGroup> {
        let text = fs::read_to_string("/proc/self/cgroup").ok()?;
        ControlGroup::of(&text, |path| fs::read_to_string(path).ok())
    }

    /// The group in the lines of `/proc/self/cgroup` (cgroups(7)); `read` reads a file.
    fn of(lines: &str, read: impl Fn(&PathBuf) -> Option<String>) -> Option<ControlGroup> {
        let mut found = None;
        for line in lines.lines() {
            let mut parts = line.splitn(3, ':');
            let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
            let path = path.trim_start_matches('/');
            let is_first_version = controllers.split(',').any(|name| name == "memory");
            let (root, limit, usage, cached) = match (controllers, is_first_version) {
                ("", _) => (
                    "/sys/fs/cgroup",
                    "memory.max",
                    "memory.current",
                    ["inactive_file", "active_file"],
                ),
                (_, true) => (
                    "/sys/fs/cgroup/memory",
                    "memory.limit_in_bytes",
                    "memory.usage_in_bytes",
                    ["total_inactive_file", "total_active_file"],
                ),
                (_, false) => continue,
            };
            // In a container the mount shows the group itself as its root.
            for folder in [PathBuf::from(root).join(path), PathBuf::from(root)] {
                let text = read(&folder.join(limit));
                let bytes = text.and_then(|text| text.trim().parse::<u64>().ok());
                if let Some(limit) = bytes.filter(|bytes| *bytes < UNLIMITED_BYTES) {
                    found = Some(ControlGroup {
                        usage: folder.join(usage),
                        stat: folder.join("memory.stat"),
                        cached,
                        limit,
                    });
                    break;
                }
            }
        }
        found
    }

    fn used_bytes(&self) -> Option<u64> {
        let usage = fs::read_to_string(&self.usage).ok()?;
        let stat = fs::read_to_string(&self.stat).ok()?;
        self.used_of(&usage, &stat)
    }

    fn used_of(&self, usage: &str, stat: &str) -> Option<u64> {
        let usage: u64 = usage.trim().parse().ok()?;
        let cached = stat.lines().filter_map(|line| {
            let (name, bytes) = line.split_once(' ')?;
            self.cached.contains(&name).then(|| bytes.parse::<u64>())
        });
        Some(usage.saturating_sub(cached.flatten().sum()))
    }
}

/// The memory pressure as one worker sees it.
#[derive(Debug, Default)]
pub struct WorkerMemory {
    limit: Arc<MemoryLimit>,
    /// Request bodies that wait.
    held: RefCell<Vec<Waker>>,
}

impl WorkerMemory {
    /// The memory pressure of a process with this limit.
    pub(crate) fn of(limit: Arc<MemoryLimit>) -> WorkerMemory {
        WorkerMemory {
            limit,
            held: RefCell::default(),
        }
    }

    /// The current level.
    pub fn level(&self) -> Pressure {
        self.limit.level()
    }

    /// Wakes a body at the next tick.
    pub(crate) fn hold(&self, body: &Waker) {
        self.held.borrow_mut().push(body.clone());
    }

    /// Sets the level.
    #[cfg(test)]
    pub(crate) fn set_level(&self, level: Pressure) {
        self.limit.level.store(level.number(), Ordering::Relaxed);
    }

    /// Measures if it is time, and wakes bodies that wait so that they look at the level.
    pub(crate) fn tick(&self, now: Moment) -> Pressure {
        let level = self.limit.sample(now);
        for waker in self.held.take() {
            waker.wake();
        }
        level
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_group_that_limits_memory_is_found() {
        let limits = |known: &'static [(&'static str, &'static str)]| {
            move |path: &PathBuf| {
                let found = known.iter().find(|(file, _)| *path == PathBuf::from(file));
                found.map(|(_, text)| (*text).to_owned())
            }
        };
        let own = limits(&[("/sys/fs/cgroup/a/b/memory.max", "268435456\n")]);
        let group = ControlGroup::of("0::/a/b\n", own).expect("it is limited");
        assert_eq!(group.limit, 256 << 20);
        assert_eq!(
            group.usage,
            PathBuf::from("/sys/fs/cgroup/a/b/memory.current")
        );
        // In a container, whose own group is at the root of the mount.
        let root = limits(&[("/sys/fs/cgroup/memory.max", "1000\n")]);
        let group = ControlGroup::of("0::/../x\n", root).expect("it is limited");
        assert_eq!(group.limit, 1000);
        let first = limits(&[("/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "4096\n")]);
        let lines = "9:name=systemd:/\n4:cpu,memory:/x\n0::/\n";
        let group = ControlGroup::of(lines, first).expect("it is limited");
        let stat = "cache 5\ntotal_inactive_file 30\ntotal_active_file 10\n";
        assert_eq!(group.used_of("100\n", stat), Some(60));
        let none = limits(&[
            ("/sys/fs/cgroup/memory.max", "max\n"),
            (
                "/sys/fs/cgroup/memory/x/memory.limit_in_bytes",
                "9223372036854771712\n",
            ),
        ]);
        assert!(ControlGroup::of("4:memory:/x\n0::/\n", none).is_none());
    }

    #[test]
    fn memory_is_measured_once_for_all_workers() {
        let limit = MemoryLimit::default();
        assert_eq!(limit.sample(Moment::START), Pressure::None);
        assert_eq!(limit.used(), 0, "without a limit nothing is measured");
        // Every process uses more.
        limit.set(4096);
        let at = |millis| Moment::START + Duration::from_millis(millis);
        assert_eq!(limit.sample(at(100)), Pressure::Refuse);
        assert!(limit.used() > 4096);
        limit.used.store(7, Ordering::Relaxed);
        limit.sample(at(120));
        assert_eq!(limit.used(), 7, "another worker has just measured");
        limit.set(1 << 50);
        assert_eq!(limit.sample(at(200)), Pressure::None);
        limit.set(4096);
        limit.sample(at(300));
        limit.set(0);
        assert_eq!(limit.level(), Pressure::None);
    }
}
