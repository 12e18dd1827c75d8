//! The latest requests that failed on our side, for the status page. A worker keeps a bounded number of its own, and
//! records a bounded number each second, so a flood of failures costs no more than a counter each.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::limits::{FAILURE_TEXT_BYTES_MAX, FAILURES_MAX, FAILURES_PER_SECOND_MAX};

/// A failed request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    /// When it ended, in milliseconds since the Unix epoch.
    pub at_millis: u64,
    /// The status of the response; 0 if there was none.
    pub status: u16,
    /// The method.
    pub method: String,
    /// The host that the client named.
    pub host: String,
    /// The path, without the query, which may contain secrets.
    pub path: String,
    /// What failed, as in the log.
    pub error: String,
    /// The ID of the error, by which the log and the error page can be found; empty if it has none.
    pub id: String,
    /// The upstream concerned; empty if there is none.
    pub upstream: String,
}

/// The latest failures of all workers.
#[derive(Debug)]
pub struct RecentFailures(Box<[Mutex<OfWorker>]>);

/// The failures of one worker, the latest last.
#[derive(Debug, Default)]
struct OfWorker {
    failures: VecDeque<Failure>,
    /// The second of the latest failure, and those recorded in it.
    second: u64,
    in_second: u32,
    /// Failures that were not recorded.
    omitted: u64,
}

impl RecentFailures {
    /// No failures of so many workers.
    pub(crate) fn new(workers: usize) -> RecentFailures {
        RecentFailures((0..workers).map(|_| Mutex::default()).collect())
    }

    /// Records a failure on a worker, unless it had too many this second. `describe` fills in all but the time.
    pub fn note(&self, worker: usize, describe: impl FnOnce(&mut Failure)) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let millis = u64::try_from(now.unwrap_or_default().as_millis()).unwrap_or(u64::MAX);
        if let Some(mut own) = self.0.get(worker).map(lock) {
            own.note(millis, describe);
        }
    }

    /// The latest failures, the latest first, and the number of those that were not recorded.
    pub fn list(&self) -> (Vec<Failure>, u64) {
        let (mut all, mut omitted) = (Vec::new(), 0);
        for own in self.0.iter().map(lock) {
            all.extend(own.failures.iter().cloned());
            omitted += own.omitted;
        }
        all.sort_by_key(|failure| std::cmp::Reverse(failure.at_millis));
        all.truncate(FAILURES_MAX);
        (all, omitted)
    }
}

impl OfWorker {
    fn note(&mut self, at_millis: u64, describe: impl FnOnce(&mut Failure)) {
        if self.second != at_millis / 1000 {
            (self.second, self.in_second) = (at_millis / 1000, 0);
        }
        if self.in_second >= FAILURES_PER_SECOND_MAX {
            self.omitted += 1;
            return;
        }
        self.in_second += 1;
        let mut failure = match self.failures.len() {
            FAILURES_MAX.. => self.failures.pop_front().unwrap_or_default(),
            _ => Failure::default(),
        };
        failure.clear();
        describe(&mut failure);
        failure.at_millis = at_millis;
        failure.bound();
        self.failures.push_back(failure);
    }
}

impl Failure {
    fn texts(&mut self) -> [&mut String; 6] {
        [
            &mut self.method,
            &mut self.host,
            &mut self.path,
            &mut self.error,
            &mut self.id,
            &mut self.upstream,
        ]
    }

    fn clear(&mut self) {
        self.texts().into_iter().for_each(String::clear);
    }

    fn bound(&mut self) {
        for text in self.texts() {
            if text.len() > FAILURE_TEXT_BYTES_MAX {
                text.truncate(text.floor_char_boundary(FAILURE_TEXT_BYTES_MAX));
                text.push('…');
                text.shrink_to_fit();
            }
        }
    }
}

fn lock(own: &Mutex<OfWorker>) -> MutexGuard<'_, OfWorker> {
    own.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_counted_and_the_latest_stay() {
        let mut own = OfWorker::default();
        let total = 2 * FAILURES_MAX as u64;
        for second in 0..total {
            for number in 0..u64::from(FAILURES_PER_SECOND_MAX) + 3 {
                own.note(second * 1000 + number, |failure| {
                    failure.path = format!("/{second}");
                });
            }
        }
        assert_eq!(own.omitted, 3 * total);
        assert_eq!(own.failures.len(), FAILURES_MAX);
        let last = own.failures.back().expect("it is not empty");
        assert_eq!(last.path, format!("/{}", total - 1));
    }

    #[test]
    fn texts_of_clients_are_bounded() {
        let failures = RecentFailures::new(1);
        failures.note(0, |failure| {
            failure.host = "é".repeat(FAILURE_TEXT_BYTES_MAX)
        });
        failures.note(7, |failure| failure.host = "of another process".to_owned());
        let (list, omitted) = failures.list();
        assert_eq!((list.len(), omitted), (1, 0));
        assert!(list[0].host.len() <= FAILURE_TEXT_BYTES_MAX + "…".len());
        assert!(list[0].at_millis > 0);
    }
}
