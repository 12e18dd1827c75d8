//! `[[check]]`: what must be observed in cells with certain values, so that an option is known to have taken effect.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::File;
use crate::comparison::Comparison;

/// The placeholder of the number of workers.
const WORKERS: &str = "{workers}";

/// Required observations in cells with these values. Each comparison has the form `>= 0.9`, `== 1` or `<= 4`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct CheckPart {
    /// Axes and the value they must have, or several separated by `|`; empty for all cells.
    pub when: BTreeMap<String, String>,
    /// Share of the upstream's requests on a reused connection.
    pub upstream_reuse: Option<String>,
    /// Upstream requests per successful request.
    pub backend_share: Option<String>,
    /// Responses per client connection.
    #[serde(alias = "answers_per_connection")]
    pub responses_per_connection: Option<String>,
    /// Processes of the server under test.
    pub processes: Option<String>,
    /// Processes of the upstreams.
    pub backend_processes: Option<String>,
    /// The protocol negotiated by ALPN.
    pub alpn: Option<String>,
    /// `Content-Encoding` of the response, `none` without one.
    pub encoding: Option<String>,
    /// TLS version, such as `TLSv1_3`, `none` without TLS.
    pub tls: Option<String>,
    /// Algorithm of the server's key: `RSA` or `ECDSA`.
    pub key: Option<String>,
    /// Share of the connections that resumed a TLS session.
    pub resumed: Option<String>,
    /// Lines that a log gained.
    pub log_lines: Option<LinesPart>,
    /// A request after the load.
    pub request: Option<RequestPart>,
    /// System calls of the server for a few requests after the load.
    pub calls: Option<CallPart>,
    /// Threads of the server with a certain name, after the load.
    pub threads: Option<ThreadPart>,
    /// A figure that the server itself reports, after the load.
    pub metric: Option<MetricPart>,
    /// Whether `TCP_NODELAY` is set on the server's side of a connection that has had a response. HTTP/1.1 without TLS only.
    pub nodelay: Option<Switch>,
}

/// Lines that a log gained.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LinesPart {
    /// The log, with placeholders. A file that does not exist has no lines.
    pub file: String,
    /// How many for each response.
    pub per_response: String,
}

/// Threads of a server, of all of its processes.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ThreadPart {
    /// Their name, as the kernel has it; a trailing `*` stands for anything.
    pub name: String,
    /// How many.
    pub count: String,
}

/// A figure that a server reports in the text format of Prometheus.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct MetricPart {
    /// Where, with placeholders; on the machine of the servers, or of the upstreams if it has the port of one.
    pub url: String,
    /// Its name. Values with different labels are added.
    pub name: String,
    /// Its value.
    pub value: String,
}

impl MetricPart {
    /// Distinguishes it from figures of the same name that are reported elsewhere.
    pub fn key(&self) -> String {
        format!("{} {}", self.url, self.name)
    }

    /// Whether an upstream reports it, as its URL says before placeholders are replaced.
    pub fn is_of_upstream(&self) -> bool {
        ["{upstream}", "{backend."]
            .iter()
            .any(|place| self.url.contains(place))
    }
}

/// A request after the load, on a connection of its own, like those of the test but for its path.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RequestPart {
    /// Path and query.
    pub path: String,
    /// The status of the response.
    pub status: u16,
}

/// System calls of the server for a few requests after the load, each on a connection of its own, as `strace` reports them.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CallPart {
    /// The call, or several separated by `|`. Calls that fail do not count.
    pub name: String,
    /// How many for each request.
    pub per_request: String,
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Switch {
    /// On.
    On,
    /// Off.
    Off,
}

impl CheckPart {
    /// Checks its comparisons and the values that it names.
    pub fn parse(&self, file: &File) -> Result<(), String> {
        let comparisons = [
            self.upstream_reuse.as_ref(),
            self.backend_share.as_ref(),
            self.responses_per_connection.as_ref(),
            self.processes.as_ref(),
            self.backend_processes.as_ref(),
            self.resumed.as_ref(),
            self.log_lines.as_ref().map(|part| &part.per_response),
            self.calls.as_ref().map(|part| &part.per_request),
            self.threads.as_ref().map(|part| &part.count),
            self.metric.as_ref().map(|part| &part.value),
        ];
        for comparison in comparisons.into_iter().flatten() {
            if comparison.contains(WORKERS) && file.matrix.workers.is_empty() {
                return Err(format!(
                    "`{comparison}` uses {WORKERS}, but [matrix] has no `workers`"
                ));
            }
            Comparison::parse(&comparison.replace(WORKERS, "1"))?;
        }
        if let Some(part) = &self.calls {
            let is_call = |name: &str| {
                !name.is_empty()
                    && name
                        .bytes()
                        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            };
            if !part.name.split('|').all(is_call) {
                return Err(format!(
                    "calls: `{}` is not the name of a system call",
                    part.name
                ));
            }
        }
        if let Some(part) = &self.request
            && !part.path.starts_with('/')
        {
            return Err(format!(
                "request: the path `{}` does not begin with `/`",
                part.path
            ));
        }
        self.names(file)
    }

    /// The comparisons that may contain `{workers}`, and the texts with other placeholders.
    pub fn texts(&mut self) -> impl Iterator<Item = &mut String> {
        let lines = self.log_lines.as_mut().map(|part| &mut part.file);
        let threads = self.threads.as_mut().map(|part| &mut part.count);
        let metric = self.metric.as_mut();
        let metric = metric
            .into_iter()
            .flat_map(|part| [&mut part.url, &mut part.value]);
        let processes = [&mut self.processes, &mut self.backend_processes];
        let processes = processes.into_iter().flatten();
        processes.chain(lines).chain(threads).chain(metric)
    }

    /// A value that no cell has would make the check silently apply to nothing.
    fn names(&self, file: &File) -> Result<(), String> {
        let workers: Vec<String> = file.matrix.workers.iter().map(usize::to_string).collect();
        for (axis, values) in &self.when {
            let known: Vec<&String> = match axis.as_str() {
                "workers" => workers.iter().collect(),
                "subject" => file.subject.keys().collect(),
                "test" => file.test.keys().collect(),
                "config" => file.matrix.config.iter().collect(),
                "clients" | "engine" | "rate" => continue,
                other => {
                    return Err(format!(
                        "`when` names the axis `{other}`, which there is not"
                    ));
                }
            };
            if let Some(value) = values
                .split('|')
                .find(|value| !known.iter().any(|one| one == value))
            {
                return Err(format!(
                    "`when` names the {axis} `{value}`, which there is not"
                ));
            }
        }
        Ok(())
    }
}
