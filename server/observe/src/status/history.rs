//! The history of the whole server, one point per second for ten minutes, for charts.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::limits::HISTORY_SECONDS;
use crate::quantiles::Durations;

/// Counters at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Point {
    pub(super) at: f64,
    pub(super) requests: u64,
    pub(super) errors: u64,
    pub(super) in_flight: u64,
    pub(super) connections: u64,
    pub(super) accepted: u64,
    pub(super) bytes_sent: u64,
    pub(super) resident_bytes: u64,
    pub(super) cpu_seconds: f64,
}

/// The points of the last ten minutes.
#[derive(Debug, Default)]
pub(super) struct History {
    rows: VecDeque<Row>,
    times: VecDeque<f64>,
    last: Option<(Point, Durations)>,
}

/// The values of a point, in the order of the columns after the first.
type Row = [f32; COLUMNS.len() - 1];

/// The columns of the history.
const COLUMNS: [&str; 10] = [
    "at",
    "request_rate",
    "error_rate",
    "in_flight",
    "connections",
    "accept_rate",
    "sent_rate",
    "resident_bytes",
    "cpu",
    "p99",
];

/// The history as a document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HistoryDocument {
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The points, the latest last: seconds since the Unix epoch, rates per second, numbers of requests and connections,
    /// bytes, processors in use, and the 99th percentile in seconds; that is `null` for a second without requests.
    pub points: Vec<Vec<Option<f64>>>,
}

impl History {
    /// Adds a point; the first one has no rates and is not shown.
    pub(super) fn push(&mut self, point: Point, durations: Durations) {
        let Some((before, durations_before)) = self.last.replace((point, durations)) else {
            return;
        };
        let passed = (point.at - before.at).max(0.001);
        let rate = |now: u64, before: u64| (now.saturating_sub(before) as f64 / passed) as f32;
        let recent = self
            .last
            .as_ref()
            .map(|(_, durations)| durations.since(&durations_before));
        let p99 = recent.and_then(|recent| recent.quantile(0.99));
        if self.rows.len() >= HISTORY_SECONDS {
            self.rows.pop_front();
            self.times.pop_front();
        }
        self.times.push_back(point.at);
        self.rows.push_back([
            rate(point.requests, before.requests),
            rate(point.errors, before.errors),
            point.in_flight as f32,
            point.connections as f32,
            rate(point.accepted, before.accepted),
            rate(point.bytes_sent, before.bytes_sent),
            point.resident_bytes as f32,
            ((point.cpu_seconds - before.cpu_seconds) / passed) as f32,
            p99.map_or(f32::NAN, |p99| p99.as_secs_f32()),
        ]);
    }

    /// The latest point; empty before the first.
    pub(super) fn latest(&self) -> Vec<Option<f64>> {
        let last = self.times.back().zip(self.rows.back());
        last.map(shown).unwrap_or_default()
    }

    pub(super) fn document(&self) -> HistoryDocument {
        let points = self.times.iter().zip(&self.rows).map(shown);
        HistoryDocument {
            columns: COLUMNS.map(str::to_owned).to_vec(),
            points: points.collect(),
        }
    }
}

/// The values of a point, by column.
fn shown((at, row): (&f64, &Row)) -> Vec<Option<f64>> {
    let values = row.iter().map(|value| {
        // Six digits are what an `f32` has.
        let value = f64::from(*value);
        value.is_finite().then(|| (value * 1e6).round() / 1e6)
    });
    std::iter::once(Some(*at)).chain(values).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn points_have_the_rates_since_the_point_before_and_are_bounded() {
        let mut history = History::default();
        let mut durations = Durations::default();
        for second in 0..HISTORY_SECONDS as u64 + 10 {
            let point = Point {
                at: 1000.0 + second as f64,
                requests: second * 7,
                cpu_seconds: second as f64 / 2.0,
                ..Point::default()
            };
            if second % 2 == 0 {
                durations.count(Duration::from_millis(1));
            }
            history.push(point, durations.clone());
        }
        let document = history.document();
        assert_eq!(document.points.len(), HISTORY_SECONDS);
        assert_eq!(document.columns.len(), document.points[0].len());
        let value = |name: &str, back: usize| {
            let column = document.columns.iter().position(|column| column == name);
            let point = &document.points[HISTORY_SECONDS - 1 - back];
            point[column.expect("a column")]
        };
        assert_eq!(value("at", 0), Some(1000.0 + HISTORY_SECONDS as f64 + 9.0));
        assert_eq!(value("request_rate", 0), Some(7.0));
        assert_eq!(value("cpu", 0), Some(0.5));
        assert_eq!(value("p99", 0), None);
        assert_eq!(value("p99", 1), Some(0.001024));
    }
}
