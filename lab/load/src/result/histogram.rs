//! Durations, counted precisely enough to be merged and queried for any percentile.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use serde::{Deserialize, Deserializer as Reader, Serialize, Serializer as Writer};

/// Longest duration that is distinguished: one hour, in nanoseconds. Longer ones count as one hour.
pub const DURATION_MAX_NS: u64 = 3_600_000_000_000;

/// Significant decimal digits of each duration.
pub const DIGITS: u8 = 3;

/// An HDR histogram of nanoseconds, from 1 ns to [`DURATION_MAX_NS`] with three digits. Histograms of several threads,
/// blocks or machines merge without loss. In JSON it is the standard interchange format (V2, deflated, base64), which
/// every HdrHistogram library reads.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram(hdrhistogram::Histogram<u64>);

impl Default for Histogram {
    fn default() -> Self {
        Histogram::new()
    }
}

impl Histogram {
    /// An empty histogram.
    pub fn new() -> Self {
        let inner = hdrhistogram::Histogram::new_with_bounds(1, DURATION_MAX_NS, DIGITS)
            .expect("the bounds are constants that the crate accepts");
        Histogram(inner)
    }

    /// Records one duration of `ns` nanoseconds.
    pub fn record(&mut self, ns: u64) {
        self.0.saturating_record(ns.max(1));
    }

    /// Adds all durations of another histogram.
    pub fn merge(&mut self, other: &Histogram) {
        self.0
            .add(&other.0)
            .expect("both have the bounds of this type");
    }

    /// How many durations were recorded.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// Whether no duration was recorded.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The duration in nanoseconds that `percent` per cent of all do not exceed; 0 if empty.
    pub fn percentile(&self, percent: f64) -> u64 {
        self.0.value_at_percentile(percent)
    }

    /// Shortest duration in nanoseconds; 0 if empty.
    pub fn min(&self) -> u64 {
        self.0.min()
    }

    /// Longest duration in nanoseconds; 0 if empty.
    pub fn max(&self) -> u64 {
        self.0.max()
    }

    /// Arithmetic mean in nanoseconds; 0 if empty.
    pub fn mean(&self) -> f64 {
        self.0.mean()
    }

    /// Standard deviation in nanoseconds; 0 if empty.
    pub fn stdev(&self) -> f64 {
        self.0.stdev()
    }

    /// Non-empty buckets in ascending order: the longest duration of the bucket in nanoseconds, and its count.
    pub fn steps(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0
            .iter_recorded()
            .map(|step| (step.value_iterated_to(), step.count_at_value()))
    }

    /// Encodes in the standard interchange format: V2, deflated, base64.
    pub fn encode(&self) -> String {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new()
            .serialize(&self.0, &mut bytes)
            .expect("writing to memory does not fail");
        STANDARD.encode(bytes)
    }

    /// Decodes the standard interchange format. Histograms with other bounds are converted value by value.
    pub fn decode(text: &str) -> Result<Self, String> {
        let bytes = STANDARD
            .decode(text.trim())
            .map_err(|error| format!("not base64: {error}"))?;
        let inner: hdrhistogram::Histogram<u64> = Deserializer::new()
            .deserialize(&mut bytes.as_slice())
            .map_err(|error| format!("not an HDR histogram: {error}"))?;
        let mut histogram = Histogram::new();
        for step in inner.iter_recorded() {
            let value = step.value_iterated_to().clamp(1, DURATION_MAX_NS);
            histogram
                .0
                .record_n(inner.lowest_equivalent(value).max(1), step.count_at_value())
                .map_err(|error| format!("a value out of bounds: {error}"))?;
        }
        Ok(histogram)
    }
}

impl Serialize for Histogram {
    fn serialize<W: Writer>(&self, writer: W) -> Result<W::Ok, W::Error> {
        writer.serialize_str(&self.encode())
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<R: Reader<'de>>(reader: R) -> Result<Self, R::Error> {
        let text = String::deserialize(reader)?;
        Histogram::decode(&text).map_err(serde::de::Error::custom)
    }
}

/// A distribution of durations as stored in a result: in full if the engine recorded it, else what the tool printed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// Number of durations.
    pub count: u64,
    /// Shortest, in nanoseconds; `None` if not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_ns: Option<f64>,
    /// Arithmetic mean, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_ns: Option<f64>,
    /// Standard deviation, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdev_ns: Option<f64>,
    /// Longest, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_ns: Option<f64>,
    /// Pairs of per cent and nanoseconds, in ascending order.
    #[serde(default)]
    pub percentiles: Vec<(f64, f64)>,
    /// Every duration; `None` if an external tool did not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hdr: Option<Histogram>,
}

/// Percentiles that a [`Distribution`] lists beside its histogram, for readers without HDR support.
pub const PERCENTILES: [f64; 7] = [50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99];

impl Distribution {
    /// Summarizes a histogram. A percentile is listed only if at least ten durations lie beyond it: fewer would make it
    /// a matter of chance.
    pub fn of(histogram: Histogram) -> Self {
        let count = histogram.count();
        let any = |value: f64| (count > 0).then_some(value);
        let carried = |percent: f64| count as f64 * (100.0 - percent) / 100.0 >= 10.0 - 1e-9;
        Distribution {
            count,
            min_ns: any(histogram.min() as f64),
            mean_ns: any(histogram.mean()),
            stdev_ns: any(histogram.stdev()),
            max_ns: any(histogram.max() as f64),
            percentiles: PERCENTILES
                .into_iter()
                .filter(|percent| carried(*percent))
                .map(|percent| (percent, histogram.percentile(percent) as f64))
                .collect(),
            hdr: Some(histogram),
        }
    }

    /// A percentile in nanoseconds: from the histogram if there is one, else the listed one with exactly that name.
    pub fn percentile(&self, percent: f64) -> Option<f64> {
        if let Some(hdr) = self.hdr.as_ref().filter(|hdr| !hdr.is_empty()) {
            return Some(hdr.percentile(percent) as f64);
        }
        let mut listed = self.percentiles.iter();
        listed.find(|(at, _)| *at == percent).map(|(_, ns)| *ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_survives_its_text_and_merges_exactly() {
        let (mut low, mut high, mut both) = (Histogram::new(), Histogram::new(), Histogram::new());
        for value in (1..5_000_000_u64).step_by(977) {
            let half = if value < 2_000_000 {
                &mut low
            } else {
                &mut high
            };
            half.record(value);
            both.record(value);
        }
        low.merge(&high);
        assert_eq!(low, both);
        let read = Histogram::decode(&both.encode()).unwrap();
        assert_eq!(read.count(), both.count());
        for percent in [0.0, 1.0, 50.0, 99.0, 99.9, 100.0] {
            assert_eq!(read.percentile(percent), both.percentile(percent));
        }
    }

    #[test]
    fn three_digits_are_kept() {
        let mut histogram = Histogram::new();
        for value in [137_u64, 54_321, 9_876_543, 123_456_789_012] {
            histogram.record(value);
        }
        for (percent, value) in [(25.0, 137.0), (50.0, 54_321.0), (75.0, 9_876_543.0)] {
            let read = histogram.percentile(percent) as f64;
            assert!((read / value - 1.0).abs() < 0.001, "{read} for {value}");
        }
        histogram.record(u64::MAX);
        assert!(
            histogram.max() >= DURATION_MAX_NS,
            "longer ones are not lost"
        );
    }

    #[test]
    fn percentiles_need_ten_durations_beyond_them() {
        let mut histogram = Histogram::new();
        for value in 1..=1_000 {
            histogram.record(value);
        }
        let listed = Distribution::of(histogram).percentiles;
        assert_eq!(listed.last().map(|(percent, _)| *percent), Some(99.0));
    }

    #[test]
    fn refuses_other_texts() {
        assert!(Histogram::decode("%%%").is_err());
        assert!(Histogram::decode("aGVsbG8gd29ybGQ=").is_err());
    }
}
