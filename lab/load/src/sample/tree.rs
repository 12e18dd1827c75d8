//! A process with all its descendants, discovered anew for every sample.

use std::collections::BTreeMap;

use super::process::{
    ProcessSample, Ticks, children, descriptors, disk_bytes, pss_bytes, switches,
};

/// A process tree at one moment. Counters only ever rise: they include what exited processes had used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeSample {
    /// CPU time.
    pub ticks: Ticks,
    /// Resident memory of the living processes.
    pub rss_bytes: u64,
    /// Proportional memory, if it was read.
    pub pss_bytes: Option<u64>,
    /// Threads.
    pub threads: u64,
    /// Processes.
    pub processes: u64,
    /// Open descriptors, if they were counted.
    pub descriptors: Option<u64>,
    /// Voluntary context switches.
    pub switches_voluntary: u64,
    /// Involuntary context switches.
    pub switches_involuntary: u64,
    /// Time spent runnable, waiting for a CPU.
    pub run_delay_ns: u64,
    /// Page faults without disk access.
    pub faults_minor: u64,
    /// Page faults with disk access.
    pub faults_major: u64,
    /// Bytes read from and written to disks; `None` if no process may be asked.
    pub disk_bytes: Option<(u64, u64)>,
}

impl TreeSample {
    /// Both trees together.
    pub fn plus(self, other: TreeSample) -> TreeSample {
        let (mut pss_bytes, mut descriptors) = (self.pss_bytes, self.descriptors);
        add(&mut pss_bytes, other.pss_bytes);
        add(&mut descriptors, other.descriptors);
        TreeSample {
            ticks: self.ticks.plus(other.ticks),
            rss_bytes: self.rss_bytes + other.rss_bytes,
            pss_bytes,
            threads: self.threads + other.threads,
            processes: self.processes + other.processes,
            descriptors,
            switches_voluntary: self.switches_voluntary + other.switches_voluntary,
            switches_involuntary: self.switches_involuntary + other.switches_involuntary,
            run_delay_ns: self.run_delay_ns + other.run_delay_ns,
            faults_minor: self.faults_minor + other.faults_minor,
            faults_major: self.faults_major + other.faults_major,
            disk_bytes: both(self.disk_bytes, other.disk_bytes),
        }
    }
}

/// Trees with more processes than this are watched in part; web servers have dozens.
const PROCESSES_MAX: usize = 4_096;

/// Processes with all their descendants, those that live now.
pub(super) fn living(roots: &[u32]) -> Vec<u32> {
    let mut queue = roots.to_vec();
    let mut at = 0;
    while let Some(pid) = queue.get(at).copied() {
        at += 1;
        if queue.len() < PROCESSES_MAX {
            queue.extend(children(pid));
        }
    }
    queue.retain(|pid| ProcessSample::read(*pid).is_some());
    queue
}

/// A process tree being watched.
#[derive(Clone, Debug)]
pub struct Watched {
    roots: Vec<u32>,
    with_children: bool,
    /// What is known of each process, by PID and start time.
    known: BTreeMap<(u32, u64), Last>,
}

/// The last reading of a process.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    sample: ProcessSample,
    switches: (u64, u64, u64),
    disk_bytes: Option<(u64, u64)>,
    alive: bool,
    /// Its CPU time is included in the children's time of its parent, which waited for it.
    inherited: bool,
}

impl Watched {
    /// Watches processes with all their descendants.
    pub fn new(roots: &[u32]) -> Self {
        Watched {
            roots: roots.to_vec(),
            with_children: true,
            known: BTreeMap::new(),
        }
    }

    /// Watches one process without its children.
    pub fn alone(pid: u32) -> Self {
        Watched {
            roots: vec![pid],
            with_children: false,
            known: BTreeMap::new(),
        }
    }

    /// Takes a sample, with `dear` also of what is expensive to read.
    pub fn sample(&mut self, dear: bool) -> TreeSample {
        for last in self.known.values_mut() {
            last.alive = false;
        }
        let mut sample = TreeSample::default();
        let mut queue = self.roots.clone();
        let mut at = 0;
        while let Some(pid) = queue.get(at).copied() {
            at += 1;
            let Some(process) = ProcessSample::read(pid) else {
                continue;
            };
            if self.with_children && queue.len() < PROCESSES_MAX {
                queue.extend(children(pid));
            }
            let last = self.known.entry((pid, process.begun)).or_default();
            *last = Last {
                sample: process,
                switches: switches(pid),
                disk_bytes: disk_bytes(pid),
                alive: true,
                inherited: false,
            };
            sample.processes += 1;
            sample.threads += process.threads;
            sample.rss_bytes += process.rss_bytes;
            if dear {
                add(&mut sample.pss_bytes, pss_bytes(pid));
                add(&mut sample.descriptors, descriptors(pid));
            }
        }
        self.inherit();
        self.add_counters(&mut sample);
        sample
    }

    /// A process that exited is included in its parent's children's time if the parent lives and has waited: its own
    /// last reading would then count twice.
    fn inherit(&mut self) {
        let alive: Vec<(u32, Ticks)> = self
            .known
            .iter()
            .filter(|(_, last)| last.alive)
            .map(|((pid, _), last)| (*pid, last.sample.children))
            .collect();
        for last in self.known.values_mut().filter(|last| !last.alive) {
            let parent = alive.iter().find(|(pid, _)| *pid == last.sample.parent);
            last.inherited = parent.is_some_and(|(_, waited)| {
                waited.user >= last.sample.own.user
                    && waited.system >= last.sample.own.system
                    && *waited != Ticks::default()
            });
        }
    }

    fn add_counters(&self, sample: &mut TreeSample) {
        for last in self.known.values() {
            let Last {
                sample: process,
                switches,
                disk_bytes,
                ..
            } = last;
            if !last.inherited {
                sample.ticks = sample.ticks.plus(process.own);
                if self.with_children {
                    sample.ticks = sample.ticks.plus(process.children);
                }
            }
            sample.switches_voluntary += switches.0;
            sample.switches_involuntary += switches.1;
            sample.run_delay_ns += switches.2;
            sample.faults_minor += process.faults.0;
            sample.faults_major += process.faults.1;
            sample.disk_bytes = both(sample.disk_bytes, *disk_bytes);
        }
    }
}

/// The sum of what is known.
fn both(one: Option<(u64, u64)>, two: Option<(u64, u64)>) -> Option<(u64, u64)> {
    match (one, two) {
        (Some(one), Some(two)) => Some((one.0 + two.0, one.1 + two.1)),
        (one, two) => one.or(two),
    }
}

fn add(sum: &mut Option<u64>, more: Option<u64>) {
    if let Some(more) = more {
        *sum = Some(sum.unwrap_or(0) + more);
    }
}
