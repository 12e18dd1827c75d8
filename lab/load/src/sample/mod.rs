//! Resource usage under load: processes and machine, sampled from `/proc`. What the clients observe is in `load`.
//!
//! CPU time comes from cumulative counters, a process's own and those of the children it has waited for. Nothing is
//! lost between two samples except the time of a child that starts and exits within one interval and is not waited for.

mod machine;
pub mod owner;
mod process;
mod tree;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

pub use machine::MachineSample;
pub use process::{ProcessSample, Ticks};
pub use tree::{TreeSample, Watched};

use crate::result::{Resources, System, SystemPoint, Tree, TreePoint};

/// Sampling interval.
pub const EVERY: Duration = Duration::from_millis(100);

/// Sampling interval of what is expensive to read: proportional memory (the kernel walks all pages) and descriptors.
pub const EVERY_DEAR: Duration = Duration::from_secs(1);

/// Maximum number of samples: ten hours at 100 ms.
const SAMPLES_MAX: usize = 360_000;

/// The processes to watch.
#[derive(Clone, Debug, Default)]
pub struct Roots {
    /// The server's processes, without their children.
    pub subject: Vec<u32>,
    /// The processes of its upstream.
    pub backend: Vec<u32>,
    /// Processes that generate the load in addition to this one, such as agents that it started.
    pub generator: Vec<u32>,
}

/// One sample of everything.
#[derive(Clone, Debug)]
struct Sample {
    at: Instant,
    subject: TreeSample,
    backend: TreeSample,
    generator: TreeSample,
    machine: MachineSample,
}

/// All samples of a load.
#[derive(Clone, Debug)]
pub struct Samples {
    list: Vec<Sample>,
    has_backend: bool,
}

/// Takes a sample every [`EVERY`] until `stop` is set. Blocks the calling thread.
pub fn watch(roots: &Roots, stop: &AtomicBool) -> Samples {
    let mut subject = Watched::new(&roots.subject);
    let mut backend = Watched::new(&roots.backend);
    let mut generator = Watched::alone(std::process::id());
    let mut agents = Watched::new(&roots.generator);
    let mut list = Vec::new();
    let begin = Instant::now();
    let mut dear_next = begin;
    for round in 0_u32.. {
        let now = Instant::now();
        let dear = now >= dear_next;
        if dear {
            dear_next = now + EVERY_DEAR;
        }
        list.push(Sample {
            at: now,
            subject: subject.sample(dear),
            backend: backend.sample(dear),
            generator: generator.sample(false).plus(agents.sample(false)),
            machine: MachineSample::read(),
        });
        if stop.load(Ordering::Acquire) || list.len() == SAMPLES_MAX {
            break;
        }
        let next = begin + EVERY * (round + 1);
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    Samples {
        list,
        has_backend: !roots.backend.is_empty(),
    }
}

/// Processes with all their descendants, those that live now.
pub fn processes(roots: &[u32]) -> Vec<u32> {
    tree::living(roots)
}

/// Current resident memory of processes and all their descendants.
pub fn memory(roots: &[u32]) -> u64 {
    Watched::new(roots).sample(false).rss_bytes
}

impl Samples {
    /// Resource usage over the window. Counters at its borders are interpolated between the samples on both sides.
    pub fn over(&self, begin: Instant, end: Instant) -> Resources {
        let system = self.system(begin, end);
        let subject = self.tree(begin, end, |sample| &sample.subject);
        let backend = self
            .has_backend
            .then(|| self.tree(begin, end, |sample| &sample.backend));
        let generator = self.tree(begin, end, |sample| &sample.generator);
        let window = (end - begin).as_secs_f64();
        let ours = |tree: &Tree| (tree.cpu_user_s + tree.cpu_system_s) / window;
        let known = ours(&subject) + ours(&generator) + backend.as_ref().map_or(0.0, ours);
        Resources {
            interval_ms: EVERY.as_millis() as u64,
            system: System {
                foreign: (system.busy - known).max(0.0),
                ..system
            },
            subject,
            backend,
            generator,
            backend_system: None,
            backend_counts: None,
        }
    }

    /// The value of a counter at a moment, interpolated between the samples around it.
    fn at(&self, moment: Instant, counter: impl Fn(&Sample) -> f64) -> f64 {
        let after = self.list.partition_point(|sample| sample.at < moment);
        let before = after.checked_sub(1).and_then(|at| self.list.get(at));
        match (before, self.list.get(after)) {
            (Some(before), Some(after)) => {
                let whole = (after.at - before.at).as_secs_f64().max(1e-9);
                let part = (moment - before.at).as_secs_f64() / whole;
                counter(before) + (counter(after) - counter(before)) * part
            }
            (Some(one), None) | (None, Some(one)) => counter(one),
            (None, None) => 0.0,
        }
    }

    /// The samples of the window. If a busy machine left none in it, those before and after it: what is not a counter was measured
    /// then as well.
    fn inside(&self, begin: Instant, end: Instant) -> &[Sample] {
        let from = self.list.partition_point(|sample| sample.at < begin);
        let to = self.list.partition_point(|sample| sample.at < end);
        if from < to {
            return &self.list[from..to];
        }
        &self.list[from.saturating_sub(1)..self.list.len().min(from + 1)]
    }

    fn growth(&self, begin: Instant, end: Instant, counter: impl Fn(&Sample) -> f64) -> f64 {
        (self.at(end, &counter) - self.at(begin, &counter)).max(0.0)
    }

    fn tree(&self, begin: Instant, end: Instant, of: impl Fn(&Sample) -> &TreeSample) -> Tree {
        let inside = || self.inside(begin, end).iter().map(&of);
        let most = |value: fn(&TreeSample) -> u64| inside().map(value).max().unwrap_or(0);
        let count = inside().count().max(1) as u64;
        let growth = |counter: fn(&TreeSample) -> f64| self.growth(begin, end, |s| counter(of(s)));
        let disk = inside().any(|tree| tree.disk_bytes.is_some()).then_some(());
        Tree {
            cpu_user_s: growth(|tree| tree.ticks.user_s()),
            cpu_system_s: growth(|tree| tree.ticks.system_s()),
            rss_peak_bytes: most(|tree| tree.rss_bytes),
            rss_mean_bytes: inside().map(|tree| tree.rss_bytes).sum::<u64>() / count,
            rss_end_bytes: inside().last().map_or(0, |tree| tree.rss_bytes),
            rss_after_bytes: None,
            pss_peak_bytes: inside().filter_map(|tree| tree.pss_bytes).max(),
            threads_max: most(|tree| tree.threads),
            descriptors_max: inside().filter_map(|tree| tree.descriptors).max(),
            processes_max: most(|tree| tree.processes),
            switches_voluntary: growth(|tree| tree.switches_voluntary as f64) as u64,
            switches_involuntary: growth(|tree| tree.switches_involuntary as f64) as u64,
            run_delay_s: Some(growth(|tree| tree.run_delay_ns as f64) / 1e9),
            faults_minor: growth(|tree| tree.faults_minor as f64) as u64,
            faults_major: growth(|tree| tree.faults_major as f64) as u64,
            disk_read_bytes: disk
                .map(|()| growth(|tree| tree.disk_bytes.map_or(0, |b| b.0) as f64) as u64),
            disk_write_bytes: disk
                .map(|()| growth(|tree| tree.disk_bytes.map_or(0, |b| b.1) as f64) as u64),
            points: self.tree_points(begin, end, of),
        }
    }

    fn tree_points(
        &self,
        begin: Instant,
        end: Instant,
        of: impl Fn(&Sample) -> &TreeSample,
    ) -> Vec<TreePoint> {
        let pairs = self.list.windows(2);
        let inside = pairs.filter(|pair| begin <= pair[1].at && pair[0].at < end);
        let points = inside.map(|pair| {
            let (before, after) = (of(&pair[0]), of(&pair[1]));
            let passed = (pair[1].at - pair[0].at).as_secs_f64().max(1e-9);
            let per = |after: f64, before: f64| ((after - before).max(0.0) / passed) as f32;
            TreePoint {
                at_ms: offset_ms(begin, pair[1].at),
                user: per(after.ticks.user_s(), before.ticks.user_s()),
                system: per(after.ticks.system_s(), before.ticks.system_s()),
                rss_bytes: after.rss_bytes,
                threads: after.threads,
                descriptors: after.descriptors,
            }
        });
        points.collect()
    }

    fn system(&self, begin: Instant, end: Instant) -> System {
        let growth =
            |counter: fn(&MachineSample) -> f64| self.growth(begin, end, |s| counter(&s.machine));
        let window = (end - begin).as_secs_f64().max(1e-9);
        let all = growth(|machine| machine.cpu.all as f64).max(1e-9);
        let share = |counter: fn(&MachineSample) -> f64| growth(counter) / all;
        let pressure = |of: fn(&MachineSample) -> Option<u64>| {
            self.list.first().and_then(|sample| of(&sample.machine))?;
            let stalled = self.growth(begin, end, |s| of(&s.machine).unwrap_or(0) as f64);
            Some(stalled / 1e6 / window)
        };
        System {
            busy: growth(|machine| machine.cpu.busy as f64) / process::ticks_per_s() / window,
            foreign: 0.0,
            steal: share(|machine| machine.cpu.steal as f64),
            iowait: share(|machine| machine.cpu.iowait as f64),
            softirq: share(|machine| machine.cpu.softirq as f64),
            pressure_cpu: pressure(|machine| machine.pressure_cpu_us),
            pressure_memory: pressure(|machine| machine.pressure_memory_us),
            pressure_io: pressure(|machine| machine.pressure_io_us),
            listen_overflows: growth(|machine| machine.listen_overflows as f64) as u64,
            listen_drops: growth(|machine| machine.listen_drops as f64) as u64,
            tcp_retransmits: growth(|machine| machine.tcp_retransmits as f64) as u64,
            time_wait: self.at(end, |sample| sample.machine.time_wait as f64) as u64,
            network_bytes: Some(growth(|machine| machine.network_bytes as f64) as u64),
            loopback_bytes: Some(growth(|machine| machine.loopback_bytes as f64) as u64),
            work_us: None,
            points: self.system_points(begin, end),
        }
    }

    fn system_points(&self, begin: Instant, end: Instant) -> Vec<SystemPoint> {
        let pairs = self.list.windows(2);
        let inside = pairs.filter(|pair| begin <= pair[1].at && pair[0].at < end);
        let points = inside.map(|pair| {
            let spent = pair[1].machine.cpu.since(&pair[0].machine.cpu);
            let passed = (pair[1].at - pair[0].at).as_secs_f64().max(1e-9);
            let per = |ticks: u64| (ticks as f64 / process::ticks_per_s() / passed) as f32;
            SystemPoint {
                at_ms: offset_ms(begin, pair[1].at),
                busy: per(spent.busy),
                steal: per(spent.steal),
            }
        });
        points.collect()
    }
}

fn offset_ms(begin: Instant, at: Instant) -> i64 {
    match at.checked_duration_since(begin) {
        Some(after) => after.as_millis() as i64,
        None => -((begin - at).as_millis() as i64),
    }
}

#[cfg(test)]
mod tests;
