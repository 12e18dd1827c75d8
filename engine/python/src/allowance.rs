//! How many threads of a WSGI process get requests at the same time. Threads help an application that waits (for a
//! database, another server), and cost one that computes: its threads then fight for the interpreter's lock. So the
//! number grows while requests wait although the process leaves its CPU idle, and falls while the process is busy.

use crate::limits::{
    ALLOWANCE_DECAY, ALLOWANCE_INTERVAL, ALLOWANCE_MANY_PERCENT, ALLOWANCE_MORE_PERCENT,
};

/// The number of threads, and what it was derived from. Times are nanoseconds.
#[derive(Debug)]
pub(crate) struct Allowance {
    threads: usize,
    max: usize,
    /// When the last sample was taken, and how much CPU time the process had used or waited for.
    sample: Option<(u64, u64)>,
    /// When the number last fell, or since when the process is busy.
    decayed_at: u64,
}

impl Allowance {
    /// For a process with at most `max` threads; it begins with one.
    pub fn new(max: usize) -> Allowance {
        Allowance {
            threads: 1,
            max: max.max(1),
            sample: None,
            decayed_at: 0,
        }
    }

    /// The number of threads that may get requests.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Whether a look at `now` needs the CPU time of the process.
    pub fn is_due(&self, now: u64) -> bool {
        self.sample
            .is_none_or(|(at, _)| elapsed(at, now) >= nanos(ALLOWANCE_INTERVAL))
    }

    /// Requests wait for a thread at `now`. `demand` is the CPU time that all threads of the process have used or waited
    /// for since their start; without it (the kernel does not tell) all threads may get requests.
    pub fn look(&mut self, now: u64, demand: Option<u64>) {
        let Some(demand) = demand else {
            self.threads = self.max;
            return;
        };
        let before = self.sample.replace((now, demand));
        self.decay_while_unwatched(now, before);
        // After a pause, or when a thread has ended, there is nothing to compare with.
        let Some((at, used)) = before.filter(|(at, used)| {
            elapsed(*at, now) < 4 * nanos(ALLOWANCE_INTERVAL) && *used <= demand
        }) else {
            return;
        };
        let percent = (demand - used).saturating_mul(100) / elapsed(at, now).max(1);
        if percent < ALLOWANCE_MORE_PERCENT {
            self.threads = (self.threads * 2).min(self.max);
        }
        if percent > ALLOWANCE_MANY_PERCENT {
            self.decay(now);
        } else {
            self.decayed_at = now;
        }
    }

    /// While nothing waited, the number has fallen as if the process had been busy.
    fn decay_while_unwatched(&mut self, now: u64, before: Option<(u64, u64)>) {
        if before.is_some_and(|(at, _)| elapsed(at, now) >= nanos(ALLOWANCE_DECAY)) {
            self.decay(now);
        }
    }

    fn decay(&mut self, now: u64) {
        let steps = elapsed(self.decayed_at, now) / nanos(ALLOWANCE_DECAY);
        if steps > 0 {
            let steps = usize::try_from(steps).unwrap_or(usize::MAX);
            self.threads = self.threads.saturating_sub(steps).max(1);
            self.decayed_at = now;
        }
    }
}

fn elapsed(from: u64, to: u64) -> u64 {
    to.saturating_sub(from)
}

const fn nanos(duration: std::time::Duration) -> u64 {
    duration.as_nanos() as u64
}

/// The CPU time that the threads of a process have used or waited for, in nanoseconds: the first two numbers of each
/// `schedstat` (Linux, Documentation/scheduler/sched-stats.rst). `None` if the kernel does not count it.
pub(crate) fn demand_of(pid: u32) -> Option<u64> {
    let mut total = 0_u64;
    for task in std::fs::read_dir(format!("/proc/{pid}/task")).ok()? {
        // A thread may end meanwhile.
        let Ok(text) = std::fs::read_to_string(task.ok()?.path().join("schedstat")) else {
            continue;
        };
        let mut numbers = text
            .split_ascii_whitespace()
            .map_while(|n| n.parse::<u64>().ok());
        total = total.saturating_add(numbers.next()?.saturating_add(numbers.next()?));
    }
    (total > 0).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: u64 = nanos(ALLOWANCE_INTERVAL);

    /// Looks once per interval while the process uses `percent` of a CPU; returns the number of threads after each.
    fn watch(allowance: &mut Allowance, percent: u64, looks: u64) -> Vec<usize> {
        let (mut now, mut used) = allowance.sample.unwrap_or((1_000_000_000, 1));
        let mut seen = Vec::new();
        for _ in 0..looks {
            now += INTERVAL;
            used += INTERVAL * percent / 100;
            assert!(allowance.is_due(now));
            allowance.look(now, Some(used));
            seen.push(allowance.threads());
        }
        seen
    }

    #[test]
    fn an_application_that_waits_gets_more_threads() {
        let mut allowance = Allowance::new(16);
        assert_eq!(watch(&mut allowance, 10, 6), [1, 2, 4, 8, 16, 16]);
    }

    #[test]
    fn an_application_that_computes_stays_on_one_thread() {
        let mut allowance = Allowance::new(16);
        assert_eq!(watch(&mut allowance, 100, 200), [1; 200]);
    }

    #[test]
    fn the_number_falls_slowly_while_the_process_is_busy_and_stays_between() {
        let mut allowance = Allowance::new(16);
        watch(&mut allowance, 10, 3);
        assert_eq!(allowance.threads(), 4);
        watch(&mut allowance, 85, 200);
        assert_eq!(allowance.threads(), 4, "neither idle nor full");
        let looks = nanos(ALLOWANCE_DECAY) / INTERVAL + 1;
        let mut falling = watch(&mut allowance, 100, looks * 4);
        falling.dedup();
        assert_eq!(falling, [4, 3, 2, 1]);
    }

    #[test]
    fn a_pause_is_no_idle_process() {
        let mut allowance = Allowance::new(16);
        watch(&mut allowance, 10, 4);
        let (at, used) = allowance.sample.unwrap();
        allowance.look(at + 10 * nanos(ALLOWANCE_DECAY), Some(used + 1));
        assert_eq!(allowance.threads(), 1, "fell meanwhile");
    }

    #[test]
    fn without_the_kernels_numbers_all_threads_are_used() {
        let mut allowance = Allowance::new(16);
        allowance.look(INTERVAL, None);
        assert_eq!(allowance.threads(), 16);
    }

    #[test]
    fn the_demand_of_a_process_grows_while_it_computes() {
        let pid = std::process::id();
        let Some(before) = demand_of(pid) else {
            assert!(!std::path::Path::new("/proc/self/schedstat").exists());
            return;
        };
        while demand_of(pid).unwrap() <= before {
            std::hint::spin_loop();
        }
    }
}
