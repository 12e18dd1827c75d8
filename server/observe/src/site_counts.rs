//! Requests by site: a few counters per site and worker, for the status page. They need no option: each request adds to
//! the counters of one site, which only its worker writes. Sites keep their counters across reloads.
//!
//! A site is what a configuration writes as one: the hosts of a route in a Caddyfile, a `server` block in an
//! nginx.conf, or else the addresses of a server.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use sluice_net::{Completion, Ending};

use crate::limits::{SITE_NAME_BYTES_MAX, SITES_COUNTED_MAX};
use crate::quantiles::{BUCKETS, Durations};

/// First digits of statuses, and 0 for none. Statuses from 600 up count as 5xx, as clients treat them.
pub const CLASSES: usize = 6;

/// The name of the row for sites beyond [`SITES_COUNTED_MAX`].
const OTHERS: &str = "(other sites)";

/// The sites of the running configurations, by name.
#[derive(Debug, Default)]
pub struct Sites {
    known: Mutex<BTreeMap<Box<str>, Weak<SiteCounts>>>,
    others: OnceLock<Arc<SiteCounts>>,
}

impl Sites {
    /// The counters of the site with this name, which all servers with such a site share. Beyond
    /// [`SITES_COUNTED_MAX`] sites, further ones are counted together.
    pub fn site(&self, name: &str, workers: usize) -> Arc<SiteCounts> {
        let name = &name[..name.floor_char_boundary(SITE_NAME_BYTES_MAX)];
        let mut known = self.known();
        if let Some(found) = known.get(name).and_then(Weak::upgrade) {
            return found;
        }
        if known.len() >= SITES_COUNTED_MAX {
            known.retain(|_, site| site.strong_count() > 0);
        }
        if known.len() >= SITES_COUNTED_MAX {
            let others = self.others.get_or_init(|| SiteCounts::new(OTHERS, workers));
            return others.clone();
        }
        let site = SiteCounts::new(name, workers);
        known.insert(name.into(), Arc::downgrade(&site));
        site
    }

    /// All sites in use, by name.
    pub fn all(&self) -> Vec<Arc<SiteCounts>> {
        let mut all: Vec<_> = self.known().values().filter_map(Weak::upgrade).collect();
        all.extend(self.others.get().cloned());
        all
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<Box<str>, Weak<SiteCounts>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The counters of one site, separate for each worker.
pub struct SiteCounts {
    name: Box<str>,
    /// Whether `status_zone` of an nginx.conf named it.
    is_zone: AtomicBool,
    /// Created by the worker with the first request: most sites of a large configuration have none.
    workers: Box<[OnceLock<Box<Counts>>]>,
}

impl fmt::Debug for SiteCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SiteCounts").field(&self.name).finish()
    }
}

/// The counters of one site and worker, on cache lines of their own.
#[derive(Debug)]
#[repr(align(64))]
struct Counts {
    in_flight: AtomicU64,
    ended: [AtomicU64; CLASSES],
    failed: AtomicU64,
    bytes_sent: AtomicU64,
    bytes_read: AtomicU64,
    durations: [AtomicU64; BUCKETS],
}

impl Default for Counts {
    fn default() -> Self {
        Counts {
            in_flight: AtomicU64::new(0),
            ended: Default::default(),
            failed: AtomicU64::new(0),
            bytes_sent: AtomicU64::new(0),
            bytes_read: AtomicU64::new(0),
            durations: [const { AtomicU64::new(0) }; BUCKETS],
        }
    }
}

/// The counters of a site, summed over all workers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SiteTotals {
    /// Requests in flight.
    pub in_flight: u64,
    /// Requests that ended, by the first digit of the status; index 0 counts those without a response.
    pub ended: [u64; CLASSES],
    /// Of those, responses that were not delivered completely.
    pub failed: u64,
    /// Bytes of response bodies.
    pub bytes_sent: u64,
    /// Bytes of request bodies.
    pub bytes_read: u64,
    /// Durations from the first byte of a request to the last byte of its response.
    pub durations: Durations,
}

impl SiteTotals {
    /// Requests that ended.
    pub fn requests(&self) -> u64 {
        self.ended.iter().sum()
    }

    /// Requests that failed on our side: those without a response and those with a status from 500 up.
    pub fn errors(&self) -> u64 {
        self.ended[0] + self.ended[CLASSES - 1]
    }

    /// Adds the counters of another site.
    pub fn add(&mut self, other: &SiteTotals) {
        self.in_flight += other.in_flight;
        for (sum, more) in self.ended.iter_mut().zip(&other.ended) {
            *sum += more;
        }
        self.failed += other.failed;
        self.bytes_sent += other.bytes_sent;
        self.bytes_read += other.bytes_read;
        self.durations.add(&other.durations);
    }
}

impl SiteCounts {
    fn new(name: &str, workers: usize) -> Arc<SiteCounts> {
        Arc::new(SiteCounts {
            name: name.into(),
            is_zone: AtomicBool::new(false),
            workers: (0..workers).map(|_| OnceLock::new()).collect(),
        })
    }

    /// The name of the site.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether `status_zone` of an nginx.conf named it.
    pub fn is_zone(&self) -> bool {
        self.is_zone.load(Ordering::Relaxed)
    }

    /// The sums over all workers.
    pub fn totals(&self) -> SiteTotals {
        let mut totals = SiteTotals::default();
        for counts in self.workers.iter().filter_map(OnceLock::get) {
            let value = |count: &AtomicU64| count.load(Ordering::Relaxed);
            totals.in_flight += value(&counts.in_flight);
            for (sum, count) in totals.ended.iter_mut().zip(&counts.ended) {
                *sum += value(count);
            }
            totals.failed += value(&counts.failed);
            totals.bytes_sent += value(&counts.bytes_sent);
            totals.bytes_read += value(&counts.bytes_read);
            totals.durations.add_counts(&counts.durations);
        }
        totals
    }

    fn of_worker(&self, worker: usize) -> Option<&Counts> {
        Some(self.workers.get(worker)?.get_or_init(Box::default))
    }

    fn enter(&self, worker: usize) {
        if let Some(counts) = self.of_worker(worker) {
            add(&counts.in_flight, 1);
        }
    }

    fn leave(&self, worker: usize) {
        if let Some(counts) = self.of_worker(worker) {
            add(&counts.in_flight, 1u64.wrapping_neg());
        }
    }

    /// Counts a request of this worker that has ended, with the status of its response; 0 if it got none.
    pub fn end(&self, worker: usize, status: u16, completion: &Completion) {
        let Some(counts) = self.of_worker(worker) else {
            return;
        };
        let class = (usize::from(status) / 100).min(CLASSES - 1);
        add(&counts.ended[class], 1);
        if matches!(completion.ending, Ending::Failed(_)) {
            add(&counts.failed, 1);
        }
        add(&counts.bytes_sent, completion.body_bytes_sent);
        add(&counts.bytes_read, completion.body_bytes_read);
        let bucket = Durations::bucket(completion.duration);
        add(&counts.durations[bucket], 1);
    }
}

/// Changes a counter that only this thread writes.
fn add(count: &AtomicU64, more: u64) {
    count.store(
        count.load(Ordering::Relaxed).wrapping_add(more),
        Ordering::Relaxed,
    );
}

/// The sites of one server of the configuration, by index.
#[derive(Debug)]
pub struct SiteTable(Box<[Arc<SiteCounts>]>);

/// Which site a request belongs to. Subrequests, which do not count, have the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SiteMark(u32);

impl SiteMark {
    /// A request that counts, before its site is known.
    pub const COUNTED: SiteMark = SiteMark(1);

    const fn of(site: u32) -> SiteMark {
        SiteMark(site + 2)
    }

    fn site(self) -> Option<usize> {
        Some(self.0.checked_sub(2)? as usize)
    }
}

impl SiteTable {
    /// The table for sites with these names; `None` without a name.
    pub fn new(sites: &Sites, workers: usize, names: &[String]) -> Option<SiteTable> {
        let table = names.iter().map(|name| sites.site(name, workers));
        Some(SiteTable(table.collect())).filter(|table| !table.0.is_empty())
    }

    /// Notes that `status_zone` of an nginx.conf named the site.
    pub fn name_zone(&self, site: usize) {
        if let Some(site) = self.0.get(site) {
            site.is_zone.store(true, Ordering::Relaxed);
        }
    }

    /// Counts a request as in flight at `site`, and no longer at the site of `mark`; returns its mark afterwards. For a
    /// request of this worker.
    #[inline]
    pub fn enter(&self, worker: usize, mark: SiteMark, site: u32) -> SiteMark {
        let next = SiteMark::of(site);
        if mark == SiteMark::default() || mark == next {
            return mark;
        }
        let Some(counts) = self.0.get(site as usize) else {
            return mark;
        };
        if let Some(before) = mark.site().and_then(|before| self.0.get(before)) {
            before.leave(worker);
        }
        counts.enter(worker);
        next
    }

    /// Counts a request that has ended, with the status of its response; 0 if it got none. One that entered no site
    /// counts at the first.
    pub fn end(&self, worker: usize, mark: SiteMark, status: u16, completion: &Completion) {
        let entered = mark.site().and_then(|site| self.0.get(site));
        if let Some(site) = entered {
            site.leave(worker);
        }
        entered
            .unwrap_or(&self.0[0])
            .end(worker, status, completion);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn completion(millis: u64) -> Completion {
        Completion {
            ending: Ending::Complete,
            body_bytes_sent: 10,
            bytes_sent: 60,
            head_bytes_sent: 50,
            body_bytes_read: 2,
            duration: Duration::from_millis(millis),
        }
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_request_counts_at_the_last_site_that_it_entered() {
        let sites = Sites::default();
        let table = SiteTable::new(&sites, 2, &names(&[":80", "a.test"])).expect("two sites");
        let at = |index: usize| table.0[index].totals();
        let mark = table.enter(1, SiteMark::COUNTED, 0);
        assert_eq!((at(0).in_flight, at(1).in_flight), (1, 0));
        let mark = table.enter(1, mark, 1);
        assert_eq!((at(0).in_flight, at(1).in_flight), (0, 1));
        table.end(1, mark, 503, &completion(3));
        assert_eq!(
            (at(1).in_flight, at(1).requests(), at(1).errors()),
            (0, 1, 1)
        );
        assert_eq!((at(1).bytes_sent, at(1).bytes_read), (10, 2));
        assert_eq!(at(0), SiteTotals::default());
        // One that was refused before it entered a site.
        table.end(0, SiteMark::COUNTED, 400, &completion(0));
        assert_eq!(
            (at(0).in_flight, at(0).requests(), at(0).errors()),
            (0, 1, 0)
        );
    }

    #[test]
    fn subrequests_and_workers_of_others_do_not_count() {
        let sites = Sites::default();
        let table = SiteTable::new(&sites, 1, &names(&["a"])).expect("a site");
        assert_eq!(table.enter(0, SiteMark::default(), 0), SiteMark::default());
        table.enter(9, SiteMark::COUNTED, 0);
        assert_eq!(table.0[0].totals(), SiteTotals::default());
        assert!(SiteTable::new(&sites, 1, &[]).is_none());
    }

    #[test]
    fn a_site_keeps_its_counters_while_a_configuration_has_it() {
        let sites = Sites::default();
        let before = SiteTable::new(&sites, 1, &names(&["a", "b"])).expect("two sites");
        before.end(0, SiteMark::COUNTED, 200, &completion(1));
        let after = SiteTable::new(&sites, 1, &names(&["a"])).expect("a site");
        drop(before);
        assert_eq!(after.0[0].totals().requests(), 1);
        let all = sites.all();
        assert_eq!(
            all.iter().map(|site| site.name()).collect::<Vec<_>>(),
            ["a"]
        );
    }

    #[test]
    fn sites_beyond_the_limit_are_counted_together() {
        let sites = Sites::default();
        let all: Vec<String> = (0..SITES_COUNTED_MAX + 5)
            .map(|n| format!("s{n}"))
            .collect();
        let table = SiteTable::new(&sites, 1, &all).expect("sites");
        let last = SITES_COUNTED_MAX as u32 + 4;
        let mark = table.enter(0, SiteMark::COUNTED, last);
        table.end(0, mark, 200, &completion(1));
        let shown = sites.all();
        assert_eq!(shown.len(), SITES_COUNTED_MAX + 1);
        let others = shown.last().expect("it is not empty");
        assert_eq!((others.name(), others.totals().requests()), (OTHERS, 1));
        drop((table, shown));
        // Room is found again once their configuration is gone.
        assert_eq!(sites.site("new", 1).name(), "new");
    }
}
