//! Encodes metrics for OTLP (opentelemetry/proto/metrics/v1): the same families and labels as on the Prometheus page.
//! `push` sends them.

use crate::tracing::protobuf::{push_bytes, push_fixed, push_number, push_text_attribute};

use super::sample::{Bound, Kind, LabelList};

/// Values since the start of the process rather than since the last export (`AggregationTemporality`).
const CUMULATIVE: u64 = 2;

/// Encodes families, each as a `Metric`.
#[derive(Debug)]
pub struct Families {
    /// The start time and the current time, in nanoseconds since the Unix epoch.
    started: u64,
    now: u64,
    /// The encoded families, as the field `metrics` of `ScopeMetrics`.
    out: Vec<u8>,
    open: Option<Family>,
}

#[derive(Debug)]
struct Family {
    name: &'static str,
    help: String,
    kind: Kind,
    /// The data points, each as field 1 of the message for the kind.
    points: Vec<u8>,
}

impl Families {
    /// Creates an empty message.
    pub fn new(started: u64, now: u64) -> Families {
        Families {
            started,
            now,
            out: Vec::new(),
            open: None,
        }
    }

    /// Starts a family and ends the previous one.
    pub fn begin(&mut self, name: &'static str, help: &str, kind: Kind) {
        self.end();
        self.open = Some(Family {
            name,
            help: help.to_owned(),
            kind,
            points: Vec::new(),
        });
    }

    /// Adds a value (`NumberDataPoint`).
    pub fn value(&mut self, labels: &LabelList<'_>, value: f64) {
        let mut point = Vec::new();
        push_fixed(&mut point, 2, self.started);
        push_fixed(&mut point, 3, self.now);
        push_fixed(&mut point, 4, value.to_bits());
        for (label, value) in labels {
            push_text_attribute(&mut point, 7, label, value.as_bytes());
        }
        self.add(&point);
    }

    /// Adds a histogram (`HistogramDataPoint`): the number of values per bucket, and their sum.
    pub fn histogram(
        &mut self,
        labels: &LabelList<'_>,
        bounds: &[Bound],
        counts: &[u64],
        sum: f64,
    ) {
        let mut point = Vec::new();
        push_fixed(&mut point, 2, self.started);
        push_fixed(&mut point, 3, self.now);
        push_fixed(&mut point, 4, counts.iter().sum());
        push_fixed(&mut point, 5, sum.to_bits());
        push_bytes(&mut point, 6, &packed(counts.iter().copied()));
        push_bytes(
            &mut point,
            7,
            &packed(bounds.iter().map(|bound| bound.number().to_bits())),
        );
        for (label, value) in labels {
            push_text_attribute(&mut point, 9, label, value.as_bytes());
        }
        self.add(&point);
    }

    fn add(&mut self, point: &[u8]) {
        if let Some(family) = &mut self.open {
            push_bytes(&mut family.points, 1, point);
        }
    }

    fn end(&mut self) {
        let Some(mut family) = self.open.take() else {
            return;
        };
        let field = match family.kind {
            Kind::Gauge => 5,
            Kind::Counter => {
                push_number(&mut family.points, 2, CUMULATIVE);
                // Monotonic.
                push_number(&mut family.points, 3, 1);
                7
            }
            Kind::Histogram => {
                push_number(&mut family.points, 2, CUMULATIVE);
                9
            }
        };
        let mut metric = Vec::new();
        push_bytes(&mut metric, 1, family.name.as_bytes());
        push_bytes(&mut metric, 2, family.help.as_bytes());
        push_bytes(&mut metric, field, &family.points);
        push_bytes(&mut self.out, 2, &metric);
    }

    /// The message (`ExportMetricsServiceRequest`) with all families, for a resource with these attributes.
    pub fn message(mut self, resource: &[(String, String)]) -> Vec<u8> {
        self.end();
        let mut about = Vec::new();
        for (key, value) in resource {
            push_text_attribute(&mut about, 1, key, value.as_bytes());
        }
        let mut scope = Vec::new();
        push_bytes(&mut scope, 1, b"sluice");
        push_bytes(&mut scope, 2, env!("CARGO_PKG_VERSION").as_bytes());
        let mut of_scope = Vec::new();
        push_bytes(&mut of_scope, 1, &scope);
        of_scope.extend_from_slice(&self.out);
        let mut of_resource = Vec::new();
        push_bytes(&mut of_resource, 1, &about);
        push_bytes(&mut of_resource, 2, &of_scope);
        let mut message = Vec::new();
        push_bytes(&mut message, 1, &of_resource);
        message
    }
}

/// Encodes a packed field of 64-bit numbers.
fn packed(numbers: impl Iterator<Item = u64>) -> Vec<u8> {
    numbers.flat_map(u64::to_le_bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encoded by hand according to the message definitions.
    #[test]
    fn families_are_encoded_as_their_definitions_say() {
        let mut families = Families::new(1, 2);
        families.begin("a_total", "A.", Kind::Counter);
        families.value(&[("l", "v")], 3.0);
        families.begin("g", "", Kind::Gauge);
        families.value(&[], 0.5);
        families.begin("h", "", Kind::Histogram);
        families.histogram(&[], &[Bound::new(1, "1", "1.0")], &[2, 1], 1.5);
        let message = families.message(&[]);
        let eight = |number: u64| number.to_le_bytes();
        let times = [&b"\x11"[..], &eight(1), b"\x19", &eight(2)].concat();
        let number = |bits: u64| [&b"\x21"[..], &eight(bits)].concat();
        let counter = [
            &times[..],
            &number(3f64.to_bits()),
            b"\x3a\x08\x0a\x01l\x12\x03\x0a\x01v",
        ]
        .concat();
        let gauge = [&times[..], &number(0.5f64.to_bits())].concat();
        let histogram = [
            &times[..],
            &number(3),
            b"\x29",
            &eight(1.5f64.to_bits()),
            b"\x32\x10",
            &eight(2),
            &eight(1),
            b"\x3a\x08",
            &eight(1f64.to_bits()),
        ]
        .concat();
        let within = |field: u8, inside: &[u8]| {
            let length = u8::try_from(inside.len()).expect("short");
            assert!(length < 0x80);
            [&[field << 3 | 2, length], inside].concat()
        };
        let metric = |name: &[u8], help: &[u8], field: u8, point: &[u8], rest: &[u8]| {
            let data = [&within(1, point), rest].concat();
            [within(1, name), within(2, help), within(field, &data)].concat()
        };
        for expected in [
            metric(b"a_total", b"A.", 7, &counter, b"\x10\x02\x18\x01"),
            metric(b"g", b"", 5, &gauge, b""),
            metric(b"h", b"", 9, &histogram, b"\x10\x02"),
        ] {
            let found = message.windows(expected.len()).any(|part| part == expected);
            assert!(found, "{expected:x?} in {message:x?}");
        }
    }
}
