//! Settings of tracing and of exporting metrics, from OpenTelemetry's environment variables, as in Caddy.

use std::time::Duration;

use super::limits::{EXPORT_DELAY, EXPORT_TIMEOUT};

/// The tracing settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The destination of spans; `None` to drop them.
    pub collector: Option<Collector>,
    /// The resource attributes, including `service.name`.
    pub resource: Vec<(String, String)>,
    /// Which traces are recorded.
    pub sampler: Sampler,
    /// Whether to continue traces of clients and to propagate them to upstreams.
    pub propagates: bool,
    /// The delay before a batch is exported.
    pub delay: Duration,
    /// Timeout for the collector.
    pub timeout: Duration,
}

/// A program that accepts spans over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collector {
    /// Whether it is reached over TLS.
    pub is_tls: bool,
    /// Host and port to connect to.
    pub address: String,
    /// The value of Host.
    pub authority: String,
    /// The path of requests.
    pub path: String,
    /// Request headers.
    pub fields: Vec<(String, String)>,
}

/// Which traces are recorded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampler {
    /// Whether the client's decision applies.
    pub follows_parent: bool,
    /// The fraction of all other traces, from 0 to 1.
    pub ratio: f64,
}

impl Sampler {
    /// Whether to record a trace, given the client's decision, if any.
    pub fn takes(self, trace_id: u128, parent: Option<bool>) -> bool {
        match parent.filter(|_| self.follows_parent) {
            Some(sampled) => sampled,
            // The lower half of the trace ID is random; all servers along the way make the same decision based on it.
            None => {
                (trace_id as u64 >> 1) as f64 <= self.ratio * (u64::MAX >> 1) as f64
                    && self.ratio > 0.0
            }
        }
    }
}

impl Settings {
    /// Reads the environment variables. The error names the invalid one and what it accepts.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Settings, String> {
        let set = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let millis = |name: &str, default| millis(set, name, default);
        let Destination {
            collector,
            resource,
            timeout,
        } = Destination::read(&variable, Signal::Traces)?;
        Ok(Settings {
            collector,
            resource,
            sampler: sampler(set)?,
            propagates: propagates(set)?,
            delay: millis("OTEL_BSP_SCHEDULE_DELAY", EXPORT_DELAY)?,
            timeout,
        })
    }
}

/// The kind of data that is exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Spans.
    Traces,
    /// Metrics.
    Metrics,
}

/// The destination of an export, and its resource.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Destination {
    /// The collector; `None` to drop the data.
    pub(crate) collector: Option<Collector>,
    /// The resource attributes, including `service.name`.
    pub(crate) resource: Vec<(String, String)>,
    /// Timeout for the collector.
    pub(crate) timeout: Duration,
}

impl Signal {
    /// As in the names of variables, and in the path of requests.
    const fn names(self) -> (&'static str, &'static str) {
        match self {
            Signal::Traces => ("TRACES", "traces"),
            Signal::Metrics => ("METRICS", "metrics"),
        }
    }
}

impl Destination {
    /// Reads the environment variables. The error names the invalid one and what it accepts.
    pub(crate) fn read(
        variable: impl Fn(&str) -> Option<String>,
        signal: Signal,
    ) -> Result<Destination, String> {
        let set = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let (upper, _) = signal.names();
        let own = |name: &str| format!("OTEL_EXPORTER_OTLP_{upper}_{name}");
        let of_signal =
            |name: &str| set(&own(name)).or_else(|| set(&format!("OTEL_EXPORTER_OTLP_{name}")));
        let timeout = match set(&own("TIMEOUT")) {
            Some(_) => millis(set, &own("TIMEOUT"), EXPORT_TIMEOUT)?,
            None => millis(set, "OTEL_EXPORTER_OTLP_TIMEOUT", EXPORT_TIMEOUT)?,
        };
        let exporter = format!("OTEL_{upper}_EXPORTER");
        let exports = match set(&exporter).as_deref() {
            None | Some("otlp") => true,
            Some("none") => false,
            Some(other) => return Err(format!("{exporter} is `{other}`; use otlp or none")),
        };
        let disabled = set("OTEL_SDK_DISABLED").is_some_and(|it| it.eq_ignore_ascii_case("true"));
        if let Some(protocol) = of_signal("PROTOCOL").filter(|it| it != "http/protobuf") {
            let port = "collectors take it on port 4318";
            return Err(format!(
                "OTEL_EXPORTER_OTLP_PROTOCOL is `{protocol}`; use http/protobuf, {port}"
            ));
        }
        let collector = (exports && !disabled)
            .then(|| Collector::read(set, signal, of_signal("HEADERS").as_deref()))
            .transpose()?;
        Ok(Destination {
            collector,
            resource: resource(set),
            timeout,
        })
    }
}

fn millis(
    set: impl Fn(&str) -> Option<String>,
    name: &str,
    default: Duration,
) -> Result<Duration, String> {
    match set(name) {
        None => Ok(default),
        Some(text) => (text.trim().parse().map(Duration::from_millis))
            .map_err(|_| format!("{name} is `{text}`, not a number of milliseconds")),
    }
}

impl Collector {
    /// The URL that messages are posted to.
    pub(crate) fn url(&self) -> String {
        let scheme = match self.is_tls {
            true => "https",
            false => "http",
        };
        format!("{scheme}://{}{}", self.authority, self.path)
    }

    fn read(
        set: impl Fn(&str) -> Option<String>,
        signal: Signal,
        headers: Option<&str>,
    ) -> Result<Collector, String> {
        let (upper, path) = signal.names();
        let own = set(&format!("OTEL_EXPORTER_OTLP_{upper}_ENDPOINT"));
        // The endpoint for one signal is used as is; a path is appended to the common one.
        let url = own.unwrap_or_else(|| {
            let all = set("OTEL_EXPORTER_OTLP_ENDPOINT");
            let all = all.unwrap_or_else(|| "http://localhost:4318".into());
            format!("{}/v1/{path}", all.trim_end_matches('/'))
        });
        let (is_tls, rest) = match (url.strip_prefix("http://"), url.strip_prefix("https://")) {
            (Some(rest), _) => (false, rest),
            (None, Some(rest)) => (true, rest),
            (None, None) => {
                return Err(format!(
                    "the address of the OTLP collector is `{url}`; use http:// or https://"
                ));
            }
        };
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, "/"),
        };
        let has_port = authority
            .rsplit_once(':')
            .is_some_and(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
        let address = if has_port {
            authority.to_owned()
        } else {
            format!("{authority}:{}", if is_tls { 443 } else { 80 })
        };
        let fields = pairs(headers.unwrap_or_default());
        let breaks = |text: &str| text.contains(['\r', '\n', '\0']);
        if breaks(&url)
            || fields
                .iter()
                .any(|(name, value)| breaks(name) || breaks(value))
        {
            return Err(
                "the address or the headers of the OTLP collector hold a line break".into(),
            );
        }
        Ok(Collector {
            is_tls,
            address,
            authority: authority.to_owned(),
            path: path.to_owned(),
            fields,
        })
    }
}

/// Parses `key1=value1,key2=value2` with percent-encoded values.
fn pairs(text: &str) -> Vec<(String, String)> {
    let pair = |pair: &str| {
        let (key, value) = pair.split_once('=')?;
        let mut decoded = Vec::new();
        sluice_message::uri::decode_percent(value.trim().as_bytes(), &mut decoded);
        let value = String::from_utf8_lossy(&decoded).into_owned();
        Some((key.trim().to_owned(), value))
    };
    text.split(',').filter_map(pair).collect()
}

fn resource(set: impl Fn(&str) -> Option<String>) -> Vec<(String, String)> {
    let mut resource = pairs(&set("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default());
    let mut put = |key: &str, value: String| {
        resource.retain(|(known, _)| known != key);
        resource.push((key.to_owned(), value));
    };
    if let Some(name) = set("OTEL_SERVICE_NAME") {
        put("service.name", name);
    }
    put("telemetry.sdk.name", "sluice".into());
    put("telemetry.sdk.language", "rust".into());
    put("telemetry.sdk.version", env!("CARGO_PKG_VERSION").into());
    if resource.iter().all(|(key, _)| key != "service.name") {
        resource.push(("service.name".into(), "sluice".into()));
    }
    resource
}

fn sampler(set: impl Fn(&str) -> Option<String>) -> Result<Sampler, String> {
    let name = set("OTEL_TRACES_SAMPLER").unwrap_or_else(|| "parentbased_always_on".into());
    let bare = name.strip_prefix("parentbased_").unwrap_or(&name);
    let ratio = match bare {
        "always_on" => 1.0,
        "always_off" => 0.0,
        "traceidratio" => {
            let text = set("OTEL_TRACES_SAMPLER_ARG").unwrap_or_else(|| "1.0".into());
            let ratio = text.trim().parse().ok();
            ratio
                .filter(|ratio| (0.0..=1.0).contains(ratio))
                .ok_or_else(|| {
                    format!("OTEL_TRACES_SAMPLER_ARG is `{text}`, not a number from 0 to 1")
                })?
        }
        _ => {
            let names = "always_on, always_off or traceidratio, or one of these after parentbased_";
            return Err(format!("OTEL_TRACES_SAMPLER is `{name}`; use {names}"));
        }
    };
    Ok(Sampler {
        follows_parent: bare.len() < name.len(),
        ratio,
    })
}

/// Baggage needs no support: an intermediary forwards it like any other header.
fn propagates(set: impl Fn(&str) -> Option<String>) -> Result<bool, String> {
    let list = set("OTEL_PROPAGATORS").unwrap_or_else(|| "tracecontext,baggage".into());
    let mut propagates = false;
    for name in list.split(',').map(str::trim) {
        match name {
            "tracecontext" => propagates = true,
            "baggage" | "none" => {}
            other => {
                let names = "tracecontext, baggage and none";
                return Err(format!("OTEL_PROPAGATORS names `{other}`; use {names}"));
            }
        }
    }
    Ok(propagates)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Settings, String> {
        Settings::read(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| value.to_string())
        })
    }

    #[test]
    fn without_variables_a_collector_on_this_machine_is_meant() {
        let settings = read(&[]).expect("nothing is wrong");
        let collector = settings.collector.expect("spans are exported");
        assert_eq!(collector.address, "localhost:4318");
        assert_eq!(collector.path, "/v1/traces");
        assert!(settings.propagates);
        let name = ("service.name".to_owned(), "sluice".to_owned());
        assert!(settings.resource.contains(&name));
    }

    #[test]
    fn variables_say_where_spans_go_and_what_they_are_called() {
        let settings = read(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:1234/base/"),
            (
                "OTEL_EXPORTER_OTLP_HEADERS",
                "Authorization=Basic%20eA==,x=y",
            ),
            ("OTEL_SERVICE_NAME", "shop"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=other,zone=north"),
            ("OTEL_BSP_SCHEDULE_DELAY", "100"),
        ])
        .expect("nothing is wrong");
        let collector = settings.collector.expect("spans are exported");
        assert_eq!(collector.path, "/base/v1/traces");
        assert_eq!(
            collector.fields[0],
            ("Authorization".into(), "Basic eA==".into())
        );
        assert_eq!(settings.delay, Duration::from_millis(100));
        let names: Vec<_> = settings
            .resource
            .iter()
            .filter(|(key, _)| key == "service.name")
            .collect();
        assert_eq!(names, [&("service.name".to_owned(), "shop".to_owned())]);
        let exact = read(&[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://c/traces")]);
        let exact = exact.expect("an address").collector.expect("exported");
        assert_eq!(
            (exact.address.as_str(), exact.path.as_str()),
            ("c:80", "/traces")
        );
        let over_tls = read(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "https://c")]);
        let over_tls = over_tls.expect("an address").collector.expect("exported");
        assert_eq!(
            (over_tls.address.as_str(), over_tls.url().as_str()),
            ("c:443", "https://c/v1/traces")
        );
    }

    #[test]
    fn traces_are_sampled_as_said() {
        let takes = |name: &str, arg: &str, parent| {
            let variables = [
                ("OTEL_TRACES_SAMPLER", name),
                ("OTEL_TRACES_SAMPLER_ARG", arg),
            ];
            let sampler = read(&variables).expect("a sampler").sampler;
            [1u128, u128::from(u64::MAX) / 4, u128::from(u64::MAX)]
                .map(|id| sampler.takes(id, parent))
        };
        assert_eq!(takes("always_on", "", Some(false)), [true; 3]);
        assert_eq!(takes("always_off", "", None), [false; 3]);
        assert_eq!(takes("parentbased_always_off", "", Some(true)), [true; 3]);
        assert_eq!(takes("traceidratio", "0.5", None), [true, true, false]);
        assert_eq!(
            takes("parentbased_traceidratio", "1", Some(false)),
            [false; 3]
        );
    }

    #[test]
    fn what_cannot_be_done_is_refused() {
        for (name, value) in [
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "grpc://collector"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=b%0d%0ac"),
            ("OTEL_TRACES_EXPORTER", "console"),
            ("OTEL_TRACES_SAMPLER", "jaeger_remote"),
            ("OTEL_PROPAGATORS", "b3"),
            ("OTEL_BSP_SCHEDULE_DELAY", "soon"),
        ] {
            assert!(read(&[(name, value)]).is_err(), "{name}={value}");
        }
        let off = read(&[("OTEL_TRACES_EXPORTER", "none")]).expect("nothing is wrong");
        assert_eq!(off.collector, None);
    }
}
