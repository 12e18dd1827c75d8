//! Prometheus's text format (0.0.4) and OpenMetrics (1.0.0). `page` provides the metrics. A crate would be larger than
//! this file and require its own counters.

use std::fmt::{Display, Write};

use super::otlp::Families;
use super::sample::{Bound, Kind, LabelList, number};

/// The format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus's text format.
    Prometheus,
    /// OpenMetrics.
    OpenMetrics,
}

impl Format {
    /// The format that a client accepts. OpenMetrics only if it is requested.
    pub fn accepted(accept: &[u8]) -> Format {
        let asked = memchr::memmem::find(accept, b"application/openmetrics-text").is_some();
        if asked {
            Format::OpenMetrics
        } else {
            Format::Prometheus
        }
    }

    /// The value of Content-Type.
    pub const fn media_type(self) -> &'static str {
        match self {
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8; escaping=underscores",
            Format::OpenMetrics => {
                "application/openmetrics-text; version=1.0.0; charset=utf-8; escaping=underscores"
            }
        }
    }
}

/// A page under construction.
#[derive(Debug)]
pub struct Page {
    format: Format,
    out: String,
    /// The current family.
    name: &'static str,
    /// The families, if the page is an OTLP message instead.
    families: Option<Families>,
}

impl Page {
    /// Creates an empty page.
    pub fn new(format: Format) -> Page {
        Page {
            format,
            out: String::new(),
            name: "",
            families: None,
        }
    }

    /// Creates a page that becomes an OTLP message.
    pub fn of_families(families: Families) -> Page {
        Page {
            families: Some(families),
            ..Page::new(Format::Prometheus)
        }
    }

    /// The OTLP message; empty for a text page.
    pub fn message(self, resource: &[(String, String)]) -> Vec<u8> {
        self.families
            .map_or_else(Vec::new, |families| families.message(resource))
    }

    /// Starts a family; its samples have to follow immediately.
    pub fn family(&mut self, name: &'static str, help: &str, kind: Kind) {
        self.name = name;
        if let Some(families) = &mut self.families {
            return families.begin(name, help, kind);
        }
        let kind_name = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        // In OpenMetrics the name of a counter family lacks the suffix of its samples.
        let family = match self.format {
            Format::Prometheus => name,
            Format::OpenMetrics => name.strip_suffix("_total").unwrap_or(name),
        };
        self.push(format_args!(
            "# HELP {family} {help}\n# TYPE {family} {kind_name}\n"
        ));
    }

    /// Adds a sample to the family.
    pub fn sample(&mut self, suffix: &str, labels: &LabelList<'_>, value: impl Display) {
        if let Some(families) = &mut self.families {
            return families.value(labels, number(value));
        }
        let name = self.name;
        self.push(format_args!("{name}{suffix}"));
        if !labels.is_empty() {
            self.out.push('{');
            for (at, (label, value)) in labels.iter().enumerate() {
                let comma = if at == 0 { "" } else { "," };
                self.push(format_args!("{comma}{label}=\""));
                push_escaped(&mut self.out, value);
                self.out.push('"');
            }
            self.out.push('}');
        }
        self.push(format_args!(" {value}\n"));
    }

    /// Adds a family with a single sample without labels.
    pub fn single(&mut self, name: &'static str, help: &str, kind: Kind, value: impl Display) {
        self.family(name, help, kind);
        self.sample("", &[], value);
    }

    /// Adds the samples of a histogram: the cumulative count for each bound, the sum and the count.
    pub fn histogram(
        &mut self,
        labels: &LabelList<'_>,
        bounds: &[Bound],
        counts: &[u64],
        sum: impl Display,
    ) {
        if let Some(families) = &mut self.families {
            return families.histogram(labels, bounds, counts, number(sum));
        }
        let mut below = 0;
        let mut with_bound = labels.to_vec();
        for (at, count) in counts.iter().enumerate() {
            below += count;
            let bound = bounds.get(at).map_or("+Inf", |bound| match self.format {
                Format::Prometheus => bound.prometheus,
                Format::OpenMetrics => bound.open_metrics,
            });
            with_bound.push(("le", bound));
            self.sample("_bucket", &with_bound, below);
            with_bound.pop();
        }
        self.sample("_sum", labels, sum);
        self.sample("_count", labels, below);
    }

    /// The complete page.
    pub fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.out.push_str("# EOF\n");
        }
        self.out
    }

    fn push(&mut self, text: std::fmt::Arguments<'_>) {
        self.out
            .write_fmt(text)
            .expect("writing to memory does not fail");
    }
}

fn push_escaped(out: &mut String, value: &str) {
    for character in value.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            plain => out.push(plain),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(format: Format) -> String {
        let mut page = Page::new(format);
        page.family("a_total", "Counts.", Kind::Counter);
        page.sample("", &[("l", "x\"\\\ny")], 3);
        page.family("h", "Sizes.", Kind::Histogram);
        let bounds = [Bound::new(1, "1", "1.0")];
        page.histogram(&[("l", "v")], &bounds, &[2, 1], 1.5);
        page.finish()
    }

    #[test]
    fn both_formats_are_as_their_documents_say() {
        assert_eq!(
            page(Format::Prometheus),
            "# HELP a_total Counts.\n# TYPE a_total counter\na_total{l=\"x\\\"\\\\\\ny\"} 3\n\
             # HELP h Sizes.\n# TYPE h histogram\nh_bucket{l=\"v\",le=\"1\"} 2\nh_bucket{l=\"v\",le=\"+Inf\"} 3\n\
             h_sum{l=\"v\"} 1.5\nh_count{l=\"v\"} 3\n"
        );
        assert_eq!(
            page(Format::OpenMetrics),
            "# HELP a Counts.\n# TYPE a counter\na_total{l=\"x\\\"\\\\\\ny\"} 3\n\
             # HELP h Sizes.\n# TYPE h histogram\nh_bucket{l=\"v\",le=\"1.0\"} 2\nh_bucket{l=\"v\",le=\"+Inf\"} 3\n\
             h_sum{l=\"v\"} 1.5\nh_count{l=\"v\"} 3\n# EOF\n"
        );
    }

    #[test]
    fn openmetrics_is_given_where_it_is_asked_for() {
        let asked = b"application/openmetrics-text;version=1.0.0,text/plain;q=0.5";
        assert_eq!(Format::accepted(asked), Format::OpenMetrics);
        assert_eq!(Format::accepted(b"text/plain, */*"), Format::Prometheus);
    }
}
