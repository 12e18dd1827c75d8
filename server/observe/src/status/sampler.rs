//! Samples of the counters, taken once per second, and the status computed from them. A site without
//! requests for a minute has one sample, so that memory follows the sites in use.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use crate::metrics::ProcessFacts;
use crate::quantiles::Durations;
use crate::recorder::{Recorder, Totals};
use crate::site_counts::SiteTotals;

use super::history::{History, HistoryDocument, Point};
use super::snapshot::{Classes, Process, Site, Sites, Snapshot, Traffic, unix};
use crate::limits::{SAMPLE_PAUSE_MIN, SITES_SHOWN_MAX};

/// Samples that rates are computed from: those of a minute, and the one before.
const SAMPLES: usize = 61;

/// Samples of the shorter rate.
const SHORT: usize = 11;

/// Samples between two copies of the durations: percentiles are those of the last 30 to 60 seconds.
const DURATIONS_EVERY: u64 = 30;

/// Computes the status of a server.
#[derive(Debug)]
pub struct Status {
    recorder: Arc<Recorder>,
    version: &'static str,
    samples: Mutex<Samples>,
}

#[derive(Debug, Default)]
struct Samples {
    /// How many were taken.
    count: u64,
    /// When each was taken, the latest last.
    times: VecDeque<Instant>,
    /// The counters of all requests at those times.
    all: Series,
    /// The counters of each site.
    sites: HashMap<Box<str>, Series>,
    cpu: VecDeque<Option<f64>>,
    history: History,
}

/// Counters at the times of the latest samples; a shorter series ends at the same sample. One sample alone stands for all
/// samples so far.
#[derive(Debug, Default)]
struct Series {
    counts: VecDeque<Counted>,
    /// Copies of the durations, the older first.
    durations: VecDeque<Durations>,
    /// The last sample in which the site existed.
    seen: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counted {
    requests: u64,
    errors: u64,
}

impl Counted {
    fn of_site(totals: &SiteTotals) -> Counted {
        Counted {
            requests: totals.requests(),
            errors: totals.errors(),
        }
    }

    fn of_all(totals: &Totals) -> Counted {
        Counted {
            requests: totals.ended.iter().sum(),
            errors: totals.ended[0] + totals.ended[totals.ended.len() - 1],
        }
    }
}

/// Rates of a series.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Rates {
    short: f64,
    long: f64,
    error_share: Option<f64>,
}

impl Series {
    /// The series of counters that are sampled for the first time.
    fn begun(counted: Counted, durations: &Durations) -> Series {
        let mut series = Series::default();
        series.counts.push_back(counted);
        if counted.requests > 0 {
            series.durations.push_back(durations.clone());
        }
        series
    }

    fn push(&mut self, counted: Counted, durations: &Durations, copies: bool) {
        if self.counts.len() == 1 && self.counts.front() == Some(&counted) {
            return;
        }
        push_bounded(&mut self.counts, counted, SAMPLES);
        if self.durations.is_empty() {
            self.durations.push_back(Durations::default());
        }
        if copies {
            push_bounded(&mut self.durations, durations.clone(), 2);
        }
        if self.counts.len() >= SAMPLES && self.counts.front() == self.counts.back() {
            // No request has ended for a minute: one sample stands for all.
            *self = Series {
                seen: self.seen,
                ..Series::begun(counted, durations)
            };
        }
    }

    fn rates(&self, times: &VecDeque<Instant>) -> Rates {
        let since = |samples: usize| {
            let back = samples.min(self.counts.len()).min(times.len());
            let first = *self.counts.get(self.counts.len().checked_sub(back)?)?;
            let last = *self.counts.back()?;
            let passed = times
                .back()?
                .duration_since(*times.get(times.len() - back)?);
            let requests = last.requests.saturating_sub(first.requests);
            let errors = last.errors.saturating_sub(first.errors);
            Some((requests, errors, passed)).filter(|_| !passed.is_zero())
        };
        let rate = |samples| {
            since(samples).map_or(0.0, |(requests, _, passed)| {
                requests as f64 / passed.as_secs_f64()
            })
        };
        if self.counts.len() < 2 {
            return Rates::default();
        }
        let share = since(SAMPLES).filter(|(requests, ..)| *requests > 0);
        Rates {
            short: rate(SHORT),
            long: rate(SAMPLES),
            error_share: share.map(|(requests, errors, _)| errors as f64 / requests as f64),
        }
    }

    /// The durations since the older copy.
    fn recent(&self, now: &Durations) -> Durations {
        match self.durations.front() {
            Some(before) => now.since(before),
            None => Durations::default(),
        }
    }
}

fn push_bounded<T>(list: &mut VecDeque<T>, value: T, max: usize) {
    if list.len() >= max {
        list.pop_front();
    }
    list.push_back(value);
}

impl Status {
    /// The status of the server with these counters, of this version.
    pub fn new(recorder: Arc<Recorder>, version: &'static str) -> Status {
        Status {
            recorder,
            version,
            samples: Mutex::default(),
        }
    }

    /// Takes a sample, unless one was taken just now. Each endpoint of the admin API calls this once per second.
    pub fn sample(&self) {
        let last = self.samples().times.back().copied();
        if last.is_none_or(|last| last.elapsed() >= SAMPLE_PAUSE_MIN) {
            self.take_sample();
        }
    }

    fn take_sample(&self) {
        let sites = self.recorder.hub().sites().all();
        let totals = self.recorder.totals();
        let (accepted, open) = self.recorder.hub().connections();
        let facts = ProcessFacts::read();
        let mut samples = self.samples();
        let samples = &mut *samples;
        samples.count += 1;
        let now = Instant::now();
        push_bounded(&mut samples.times, now, SAMPLES);
        push_bounded(&mut samples.cpu, facts.cpu_seconds, SAMPLES);
        let copies = samples.count.is_multiple_of(DURATIONS_EVERY);
        let mut durations = Durations::default();
        for site in sites {
            let site_totals = site.totals();
            durations.add(&site_totals.durations);
            samples.push_site(site.name(), &site_totals, copies);
        }
        samples
            .sites
            .retain(|_, series| series.seen == samples.count);
        let counted = Counted::of_all(&totals);
        match samples.count {
            1 => samples.all = Series::begun(counted, &durations),
            _ => samples.all.push(counted, &durations, copies),
        }
        let point = Point {
            at: unix(SystemTime::now()),
            requests: counted.requests,
            errors: counted.errors,
            in_flight: totals.in_flight(),
            connections: open,
            accepted,
            bytes_sent: totals.bytes_sent,
            resident_bytes: facts.resident_bytes.unwrap_or_default(),
            cpu_seconds: facts.cpu_seconds.unwrap_or_default(),
        };
        samples.history.push(point, durations);
    }

    /// The history of the last ten minutes.
    pub fn history(&self) -> HistoryDocument {
        self.samples().history.document()
    }

    /// The status now.
    pub fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot {
            at: unix(SystemTime::now()),
            ..Snapshot::default()
        };
        super::rows::fill(&self.recorder, self.version, &mut snapshot);
        let totals = self.recorder.totals();
        let samples = self.samples();
        (snapshot.sites, snapshot.requests) = samples.sites(&self.recorder);
        let all = Counted::of_all(&totals);
        snapshot.requests = Traffic {
            requests: all.requests,
            in_flight: totals.in_flight(),
            errors: all.errors,
            responses: Classes::of(totals.ended),
            incomplete: totals.failed,
            bytes_sent: totals.bytes_sent,
            bytes_received: totals.bytes_read,
            ..snapshot.requests
        };
        snapshot.process = samples.process();
        snapshot.latest = samples.history.latest();
        snapshot
    }

    /// The counters behind it.
    pub fn recorder(&self) -> &Arc<Recorder> {
        &self.recorder
    }

    fn samples(&self) -> MutexGuard<'_, Samples> {
        self.samples.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Samples {
    fn push_site(&mut self, name: &str, totals: &SiteTotals, copies: bool) {
        let counted = Counted::of_site(totals);
        if !self.sites.contains_key(name) {
            // A site of a new configuration had no requests at the sample before.
            let begun = match self.count {
                1 => Series::begun(counted, &totals.durations),
                _ => Series::begun(Counted::default(), &Durations::default()),
            };
            self.sites.insert(name.into(), begun);
        }
        if let Some(series) = self.sites.get_mut(name) {
            series.push(counted, &totals.durations, copies);
            series.seen = self.count;
        }
    }

    /// The sites, and the rates and percentiles of all requests.
    fn sites(&self, recorder: &Recorder) -> (Sites, Traffic) {
        let mut rows = Vec::new();
        let mut durations = Durations::default();
        let mut all_totals = Vec::new();
        for site in recorder.hub().sites().all() {
            let totals = site.totals();
            durations.add(&totals.durations);
            let traffic = self.traffic(&totals, self.sites.get(site.name()));
            rows.push(Site {
                name: site.name().to_owned(),
                traffic,
            });
            all_totals.push(totals);
        }
        let mut order: Vec<usize> = (0..rows.len()).collect();
        let rank = |row: &Site| (row.traffic.rate_1m, row.traffic.requests as f64);
        order.sort_by(|a, b| {
            let (a, b) = (&rows[*a], &rows[*b]);
            let (first, second) = (rank(b), rank(a));
            let order = first.0.total_cmp(&second.0);
            order
                .then(first.1.total_cmp(&second.1))
                .then(a.name.cmp(&b.name))
        });
        let total = rows.len();
        let rest = order.get(SITES_SHOWN_MAX..).unwrap_or_default();
        let rest = (!rest.is_empty()).then(|| self.rest(rest, &rows, &all_totals));
        order.truncate(SITES_SHOWN_MAX);
        let mut rows: Vec<Option<Site>> = rows.into_iter().map(Some).collect();
        let shown = order.into_iter().filter_map(|index| rows[index].take());
        let sites = Sites {
            total,
            rows: shown.collect(),
            rest,
        };
        let all = SiteTotals {
            durations,
            ..SiteTotals::default()
        };
        (sites, self.traffic(&all, Some(&self.all)))
    }

    /// The sum of some sites.
    fn rest(&self, rest: &[usize], rows: &[Site], all: &[SiteTotals]) -> Traffic {
        let (mut sum, mut recent) = (SiteTotals::default(), Durations::default());
        let (mut short, mut long, mut errors) = (0.0, 0.0, 0.0);
        for index in rest {
            let (row, totals) = (&rows[*index], &all[*index]);
            sum.add(totals);
            short += row.traffic.rate_10s;
            long += row.traffic.rate_1m;
            errors += row.traffic.rate_1m * row.traffic.error_share_1m.unwrap_or_default();
            if let Some(series) = self.sites.get(row.name.as_str()) {
                recent.add(&series.recent(&totals.durations));
            }
        }
        let share = (long > 0.0).then(|| errors / long);
        let rates = Rates {
            short,
            long,
            error_share: share,
        };
        traffic(&sum, rates, &recent)
    }

    fn traffic(&self, totals: &SiteTotals, series: Option<&Series>) -> Traffic {
        let rates = series.map_or_else(Rates::default, |series| series.rates(&self.times));
        let recent = series.map_or_else(Durations::default, |s| s.recent(&totals.durations));
        traffic(totals, rates, &recent)
    }

    fn process(&self) -> Process {
        let facts = ProcessFacts::read();
        let back = SHORT.min(self.cpu.len());
        let used = || {
            let first = (*self.cpu.get(self.cpu.len() - back)?)?;
            let last = (*self.cpu.back()?)?;
            let start = *self.times.get(self.times.len() - back)?;
            let passed = self.times.back()?.duration_since(start);
            (!passed.is_zero()).then(|| (last - first) / passed.as_secs_f64())
        };
        Process {
            resident_bytes: facts.resident_bytes,
            cpu_seconds: facts.cpu_seconds,
            cpu: used(),
            open_files: facts.open_files,
            files_max: facts.files_max,
        }
    }
}

fn traffic(totals: &SiteTotals, rates: Rates, recent: &Durations) -> Traffic {
    let quantile = |share| recent.quantile(share).map(|d: Duration| d.as_secs_f64());
    Traffic {
        requests: totals.requests(),
        in_flight: totals.in_flight,
        rate_10s: rates.short,
        rate_1m: rates.long,
        errors: totals.errors(),
        error_share_1m: rates.error_share,
        responses: Classes::of(totals.ended),
        incomplete: totals.failed,
        p50_1m: quantile(0.5),
        p99_1m: quantile(0.99),
        bytes_sent: totals.bytes_sent,
        bytes_received: totals.bytes_read,
    }
}

#[cfg(test)]
mod tests {
    use sluice_net::{Completion, Ending};

    use super::*;
    use crate::log::Log;
    use crate::site_counts::{SiteMark, SiteTable};

    fn status() -> Status {
        Status::new(Arc::new(Recorder::new(Log::silent(), 1)), "1.2.3")
    }

    fn table(status: &Status, names: &[&str]) -> SiteTable {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        SiteTable::new(status.recorder.hub().sites(), 1, &names).expect("sites")
    }

    fn serve(status: &Status, table: &SiteTable, site: u32, code: u16) {
        let completion = Completion {
            ending: Ending::Complete,
            body_bytes_sent: 10,
            bytes_sent: 20,
            head_bytes_sent: 10,
            body_bytes_read: 1,
            duration: Duration::from_millis(1),
        };
        status.recorder.begin(0);
        let mark = table.enter(0, SiteMark::COUNTED, site);
        status.recorder.end(0, code, &completion);
        table.end(0, mark, code, &completion);
    }

    /// Moves all samples into the past, as if time had passed.
    fn wait(status: &Status, by: Duration) {
        let mut samples = status.samples();
        for time in &mut samples.times {
            *time = time.checked_sub(by).expect("the clock has run for a while");
        }
    }

    #[test]
    fn rates_are_those_of_the_samples() {
        let status = status();
        let sites = table(&status, &["a", "b"]);
        status.take_sample();
        for _ in 0..30 {
            serve(&status, &sites, 1, 200);
        }
        serve(&status, &sites, 1, 502);
        wait(&status, Duration::from_secs(10));
        status.take_sample();
        let shown = status.snapshot();
        let names: Vec<&str> = shown.sites.rows.iter().map(|site| &*site.name).collect();
        assert_eq!((shown.sites.total, names), (2, vec!["b", "a"]));
        let busy = &shown.sites.rows[0].traffic;
        assert_eq!((busy.requests, busy.errors, busy.in_flight), (31, 1, 0));
        assert!((3.0..3.2).contains(&busy.rate_10s), "{}", busy.rate_10s);
        assert!((3.0..3.2).contains(&busy.rate_1m), "{}", busy.rate_1m);
        assert_eq!(busy.error_share_1m, Some(1.0 / 31.0));
        assert_eq!(busy.p50_1m, Some(0.001024));
        assert_eq!(shown.sites.rows[1].traffic.error_share_1m, None);
        assert_eq!(shown.sites.rows[1].traffic.p99_1m, None);
        assert_eq!(shown.requests.requests, 31);
        assert_eq!(shown.requests.responses.server_errors, 1);
        assert_eq!(shown.requests.p99_1m, Some(0.001024));
        assert_eq!(shown.server.version, "1.2.3");
    }

    #[test]
    fn a_site_without_requests_has_one_sample_and_one_that_is_gone_has_none() {
        let status = status();
        let sites = table(&status, &["a", "b"]);
        status.take_sample();
        serve(&status, &sites, 0, 200);
        for _ in 0..SAMPLES + 1 {
            status.take_sample();
        }
        assert_eq!(status.samples().sites["a"].counts.len(), 1);
        assert_eq!(status.samples().sites["b"].counts.len(), 1);
        serve(&status, &sites, 0, 200);
        status.take_sample();
        assert_eq!(status.samples().sites["a"].counts.len(), 2);
        let shown = status.snapshot();
        assert_eq!(shown.sites.rows[0].traffic.p50_1m, Some(0.001024));
        drop(sites);
        status.take_sample();
        assert!(status.samples().sites.is_empty());
    }

    #[test]
    fn two_callers_take_one_sample() {
        let status = status();
        status.sample();
        status.sample();
        assert_eq!(status.samples().count, 1);
        wait(&status, SAMPLE_PAUSE_MIN);
        status.sample();
        assert_eq!(status.samples().count, 2);
    }

    #[test]
    fn percentiles_do_not_forget_what_came_just_before_a_copy() {
        let status = status();
        let sites = table(&status, &["a"]);
        status.take_sample();
        serve(&status, &sites, 0, 200);
        for sample in 0..DURATIONS_EVERY + 5 {
            status.take_sample();
            let shown = status.snapshot();
            assert!(shown.sites.rows[0].traffic.p50_1m.is_some(), "{sample}");
        }
    }

    #[test]
    fn sites_that_are_not_shown_are_summed() {
        let status = status();
        let names: Vec<String> = (0..SITES_SHOWN_MAX + 3)
            .map(|n| format!("s{n:05}"))
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let sites = table(&status, &names);
        for site in 0..names.len() as u32 {
            serve(&status, &sites, site, 200);
        }
        let shown = status.snapshot().sites;
        assert_eq!(
            (shown.total, shown.rows.len()),
            (names.len(), SITES_SHOWN_MAX)
        );
        assert_eq!(shown.rest.map(|rest| rest.requests), Some(3));
    }
}
