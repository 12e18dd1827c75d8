//! A worker's hash table of counters by label combination. Only that worker writes it; the metrics page reads it
//! concurrently without a lock.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::histogram::{DURATIONS, Histogram, SIZES, Sums, add};
use super::limits::{SERIES_FILLED_MAX, SERIES_MAX};

/// A label combination. The configuration maps numbers to names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Labels {
    /// The server.
    pub server: u16,
    /// The kind of handler.
    pub kind: u8,
    /// The host.
    pub host: u16,
    /// Labels of a response; `None` for requests in progress.
    pub response: Option<ResponseLabels>,
}

/// Labels of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ResponseLabels {
    /// The status.
    pub status: u16,
    /// The method, as an index.
    pub method: u8,
}

impl Labels {
    /// All labels in one number.
    fn key(self) -> u64 {
        // A kind is less than 32, because each has a bit in a request's marks.
        let response = self.response.map_or(0, |response| {
            1 << 24 | u64::from(response.method) << 16 | u64::from(response.status)
        });
        let around = u64::from(self.kind) << 25 | u64::from(self.host) << 30;
        response | around | u64::from(self.server) << 46
    }
}

/// Where to look for a key first.
fn hash(key: u64) -> usize {
    // Fibonacci hashing: the upper bits of the product depend on all input bits.
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as usize % SERIES_MAX
}

/// The counters of one label combination.
#[derive(Debug)]
pub struct Series {
    labels: Labels,
    /// The same as one number, which is compared at once.
    key: u64,
    counts: Counts,
}

#[derive(Debug)]
enum Counts {
    Requests(Requests),
    Responses(Responses),
}

/// Counters of requests to one handler.
#[derive(Debug, Default)]
struct Requests {
    entered: AtomicU64,
    left: AtomicU64,
    failed: AtomicU64,
}

/// Histograms of responses with one status and method.
#[derive(Debug)]
struct Responses {
    duration: Histogram,
    first_byte: Histogram,
    request_size: Histogram,
    response_size: Histogram,
}

/// The measurements of a response.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// Nanoseconds until its end.
    pub duration: u64,
    /// Nanoseconds until the response head; `None` if no handler produced a response.
    pub first_byte: Option<u64>,
    /// Size of the request in bytes.
    pub request_size: u64,
    /// Size of the response body in bytes.
    pub response_size: u64,
}

/// The sum over all workers for one label combination.
#[derive(Clone, Debug)]
pub enum Total {
    /// Of requests.
    Requests {
        /// Requests received.
        entered: u64,
        /// Requests ended.
        left: u64,
        /// Requests failed.
        failed: u64,
    },
    /// Of responses.
    Responses(Box<ResponseTotal>),
}

/// Histograms of responses.
#[derive(Clone, Debug, Default)]
pub struct ResponseTotal {
    /// Duration until the end.
    pub duration: Sums,
    /// Duration until the response head.
    pub first_byte: Sums,
    /// Request sizes.
    pub request_size: Sums,
    /// Response sizes.
    pub response_size: Sums,
}

/// The table of one worker.
#[derive(Debug)]
#[repr(align(128))]
pub struct Table {
    places: Box<[OnceLock<Box<Series>>]>,
    filled: AtomicU64,
    dropped: AtomicU64,
}

impl Default for Table {
    fn default() -> Self {
        Table {
            places: (0..SERIES_MAX).map(|_| OnceLock::new()).collect(),
            filled: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        }
    }
}

impl Table {
    /// Counts the start of a request.
    pub fn enter(&self, labels: Labels) {
        if let Some(Counts::Requests(requests)) = self.find(labels) {
            add(&requests.entered, 1);
        }
    }

    /// Counts the end of a request.
    pub fn leave(&self, labels: Labels, failed: bool) {
        if let Some(Counts::Requests(requests)) = self.find(labels) {
            add(&requests.left, 1);
            add(&requests.failed, u64::from(failed));
        }
    }

    /// Counts a response.
    pub fn response(&self, labels: Labels, measured: Measured) {
        if let Some(Counts::Responses(responses)) = self.find(labels) {
            responses.duration.add(&DURATIONS, measured.duration);
            if let Some(first_byte) = measured.first_byte {
                responses.first_byte.add(&DURATIONS, first_byte);
            }
            responses.request_size.add(&SIZES, measured.request_size);
            responses.response_size.add(&SIZES, measured.response_size);
        }
    }

    /// The number of values dropped because the table is full.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// The counters for these labels; created on first use. `None` if the table is full.
    #[inline]
    fn find(&self, labels: Labels) -> Option<&Counts> {
        let key = labels.key();
        match self.places[hash(key)].get() {
            Some(series) if series.key == key => Some(&series.counts),
            _ => self.search(labels, key),
        }
    }

    /// As [`Table::find`], beyond the place where the key belongs.
    #[inline(never)]
    fn search(&self, labels: Labels, key: u64) -> Option<&Counts> {
        let start = hash(key);
        for step in 0..SERIES_MAX {
            let place = &self.places[(start + step) % SERIES_MAX];
            match place.get() {
                Some(series) if series.key == key => return Some(&series.counts),
                Some(_) => {}
                None if self.filled.load(Ordering::Relaxed) >= SERIES_FILLED_MAX as u64 => break,
                None => {
                    add(&self.filled, 1);
                    return Some(&place.get_or_init(|| Box::new(Series::new(labels))).counts);
                }
            }
        }
        add(&self.dropped, 1);
        None
    }

    /// Adds all counters to `totals`.
    pub fn add_to(&self, totals: &mut std::collections::BTreeMap<Labels, Total>) {
        for series in self.places.iter().filter_map(OnceLock::get) {
            let total = totals.entry(series.labels);
            match (
                &series.counts,
                total.or_insert_with(|| Total::of(&series.counts)),
            ) {
                (
                    Counts::Requests(requests),
                    Total::Requests {
                        entered,
                        left,
                        failed,
                    },
                ) => {
                    // Read `left` first, so that no request seems to have ended before it started.
                    *left += requests.left.load(Ordering::Relaxed);
                    *failed += requests.failed.load(Ordering::Relaxed);
                    *entered += requests.entered.load(Ordering::Relaxed);
                }
                (Counts::Responses(responses), Total::Responses(total)) => {
                    responses.duration.add_to(&mut total.duration);
                    responses.first_byte.add_to(&mut total.first_byte);
                    responses.request_size.add_to(&mut total.request_size);
                    responses.response_size.add_to(&mut total.response_size);
                }
                (Counts::Requests(_), Total::Responses(_))
                | (Counts::Responses(_), Total::Requests { .. }) => {
                    unreachable!("labels determine which counts they have")
                }
            }
        }
    }
}

impl Total {
    fn of(counts: &Counts) -> Total {
        match counts {
            Counts::Requests(_) => Total::Requests {
                entered: 0,
                left: 0,
                failed: 0,
            },
            Counts::Responses(_) => Total::Responses(Box::default()),
        }
    }
}

impl Series {
    fn new(labels: Labels) -> Series {
        let counts = match labels.response {
            None => Counts::Requests(Requests::default()),
            Some(_) => Counts::Responses(Responses {
                duration: Histogram::new(&DURATIONS),
                first_byte: Histogram::new(&DURATIONS),
                request_size: Histogram::new(&SIZES),
                response_size: Histogram::new(&SIZES),
            }),
        };
        Series {
            labels,
            key: labels.key(),
            counts,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(host: u16) -> Labels {
        Labels {
            server: 0,
            kind: 0,
            host,
            response: None,
        }
    }

    #[test]
    fn a_full_table_drops_what_is_new_and_keeps_what_it_has() {
        let table = Table::default();
        for host in 0..SERIES_MAX as u16 {
            table.enter(labels(host));
        }
        table.enter(labels(0));
        assert_eq!(table.dropped(), (SERIES_MAX - SERIES_FILLED_MAX) as u64);
        let mut totals = std::collections::BTreeMap::new();
        table.add_to(&mut totals);
        assert_eq!(totals.len(), SERIES_FILLED_MAX);
        assert!(matches!(
            totals[&labels(0)],
            Total::Requests { entered: 2, .. }
        ));
    }

    #[test]
    fn different_labels_have_different_keys() {
        let response = |status, method| Some(ResponseLabels { status, method });
        let (server, kind, host) = (u16::MAX, 31, u16::MAX);
        let mut keys = Vec::new();
        for response in [None, response(0, 0), response(u16::MAX, 0), response(0, 9)] {
            for (server, kind, host) in [(0, 0, 0), (server, 0, 0), (0, kind, 0), (0, 0, host)] {
                let labels = Labels {
                    server,
                    kind,
                    host,
                    response,
                };
                keys.push(labels.key());
            }
        }
        let count = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), count);
    }

    #[test]
    fn tables_of_workers_add_up() {
        let tables = [Table::default(), Table::default()];
        let response = Labels {
            response: Some(ResponseLabels {
                status: 200,
                method: 1,
            }),
            ..labels(1)
        };
        for table in &tables {
            table.enter(labels(1));
            table.leave(labels(1), true);
            let measured = Measured {
                duration: 6_000_000,
                first_byte: None,
                request_size: 10,
                response_size: 300,
            };
            table.response(response, measured);
        }
        let mut totals = std::collections::BTreeMap::new();
        tables.iter().for_each(|table| table.add_to(&mut totals));
        let Total::Responses(total) = &totals[&response] else {
            panic!("answers are counted there")
        };
        assert_eq!(total.duration.counts[..2], [0, 2]);
        assert_eq!(total.first_byte.counts.iter().sum::<u64>(), 0);
        assert_eq!(total.response_size.sum, 600);
    }
}
