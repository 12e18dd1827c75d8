//! Request metrics of one configuration: their labels, and the tables of the workers.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use sluice_message::{FieldId, Method};
use sluice_model::http::{HttpApp, Metrics};
use sluice_net::{Completion, Ending, Exchange};

use super::NEVER_POISONED;
use super::limits::{HOSTS_MAX, KINDS_MAX};
use super::series::{Labels, Measured, ResponseLabels, Table, Total};

/// The request metrics of one configuration.
#[derive(Debug)]
pub struct HttpMetrics {
    servers: Vec<ServerNames>,
    hosts: Hosts,
    /// Whether they are also pushed to a collector.
    pushed: bool,
    tables: Box<[Table]>,
}

#[derive(Debug)]
struct ServerNames {
    name: String,
    /// The modules of the first handlers of routes, by index.
    kinds: Vec<String>,
}

/// Whether hosts are a label, and which ones.
#[derive(Debug)]
enum Hosts {
    /// No host label.
    None,
    /// Hosts in the configuration; all others share one value.
    Named(HashMap<Box<str>, u16>),
    /// Any host, up to a limit.
    Any(RwLock<HashMap<Box<str>, u16>>),
}

/// The index of hosts without a label value of their own.
const OTHER_HOST: u16 = 0;

/// Their label value.
const OTHER: &str = "_other";

/// Methods with a label value of their own; clients may send any.
const METHODS: [&str; 10] = [
    "OTHER", "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH",
];

impl HttpMetrics {
    /// The metrics enabled by a configuration, with a table for each worker; `None` if it does not enable them.
    pub fn build(app: &HttpApp, workers: usize) -> Option<HttpMetrics> {
        // The deprecated option of a server applies to all servers.
        let old = || {
            app.servers
                .values()
                .find_map(|server| server.metrics.as_ref())
        };
        let wanted = app.metrics.as_ref().or_else(old)?;
        let pushed = wanted.otlp;
        let servers = app.servers.iter().map(|(name, server)| {
            let mut kinds = Vec::new();
            for handler in server
                .routes
                .iter()
                .filter_map(|route| route.handle.first())
            {
                let kind = handler.module();
                if kinds.len() < KINDS_MAX && !kinds.iter().any(|known| known == kind) {
                    kinds.push(kind.to_owned());
                }
            }
            ServerNames {
                name: name.clone(),
                kinds,
            }
        });
        Some(HttpMetrics {
            servers: servers.collect(),
            hosts: Hosts::build(wanted, app),
            pushed,
            tables: (0..workers).map(|_| Table::default()).collect(),
        })
    }

    /// Whether they are also pushed to a collector.
    pub fn are_pushed(&self) -> bool {
        self.pushed
    }

    /// The number of values dropped because a table is full.
    pub fn dropped(&self) -> u64 {
        self.tables.iter().map(Table::dropped).sum()
    }

    /// The sums over all workers, with the names of their labels.
    pub fn totals(&self) -> Vec<(Names, Total)> {
        let mut totals = BTreeMap::new();
        for table in &self.tables {
            table.add_to(&mut totals);
        }
        let hosts = self.hosts.names();
        let named = totals.into_iter().map(|(labels, total)| {
            let server = &self.servers[usize::from(labels.server)];
            let names = Names {
                server: server.name.clone(),
                handler: server.kinds[usize::from(labels.kind)].clone(),
                host: hosts
                    .as_ref()
                    .map(|hosts| hosts[usize::from(labels.host)].clone()),
                code: labels.response.map(|response| response.status.to_string()),
                method: labels
                    .response
                    .map(|response| METHODS[usize::from(response.method)]),
            };
            (names, total)
        });
        named.collect()
    }
}

/// The label values.
#[derive(Debug)]
pub struct Names {
    server: String,
    handler: String,
    host: Option<String>,
    code: Option<String>,
    method: Option<&'static str>,
}

impl Names {
    /// Labels and values, sorted by label.
    pub fn list(&self) -> Vec<(&str, &str)> {
        let code = self.code.as_deref().map(|code| ("code", code));
        let host = self.host.as_deref().map(|host| ("host", host));
        let method = self.method.map(|method| ("method", method));
        let mut list: Vec<_> = code.into_iter().collect();
        list.push(("handler", self.handler.as_str()));
        list.extend(host);
        list.extend(method);
        list.push(("server", self.server.as_str()));
        list
    }
}

impl Hosts {
    fn build(wanted: &Metrics, app: &HttpApp) -> Hosts {
        if !wanted.per_host {
            return Hosts::None;
        }
        if wanted.observe_catchall_hosts {
            return Hosts::Any(RwLock::default());
        }
        let mut named = HashMap::new();
        for matcher in app
            .servers
            .values()
            .flat_map(|server| &server.routes)
            .flat_map(|route| &route.r#match)
            .flat_map(|set| &set.0)
        {
            if let sluice_model::Matcher::Host(hosts) = matcher {
                for host in hosts.iter().filter(|host| !host.contains(['*', '{'])) {
                    let next = named.len() as u16 + 1;
                    named
                        .entry(host.to_ascii_lowercase().into())
                        .or_insert(next);
                }
            }
        }
        Hosts::Named(named)
    }

    #[inline]
    fn number(&self, host: &[u8]) -> u16 {
        let text = || std::str::from_utf8(host).ok();
        match self {
            Hosts::None => OTHER_HOST,
            Hosts::Named(named) => {
                let found = text().and_then(|host| named.get(host));
                found.copied().unwrap_or(OTHER_HOST)
            }
            Hosts::Any(seen) => text().map_or(OTHER_HOST, |host| number_of_any(seen, host)),
        }
    }

    /// All label values by index; `None` without a host label.
    fn names(&self) -> Option<Vec<String>> {
        let list = |known: &HashMap<Box<str>, u16>| {
            let mut names = vec![OTHER.to_owned(); known.len() + 1];
            for (host, number) in known {
                names[usize::from(*number)] = host.to_string();
            }
            names
        };
        match self {
            Hosts::None => None,
            Hosts::Named(named) => Some(list(named)),
            Hosts::Any(seen) => Some(list(&seen.read().expect(NEVER_POISONED))),
        }
    }
}

/// The number of a host, which gets one if the limit allows.
fn number_of_any(seen: &RwLock<HashMap<Box<str>, u16>>, host: &str) -> u16 {
    let found = seen.read().expect(NEVER_POISONED).get(host).copied();
    found.unwrap_or_else(|| {
        let mut seen = seen.write().expect(NEVER_POISONED);
        let next = seen.len() as u16 + 1;
        if usize::from(next) > HOSTS_MAX {
            return OTHER_HOST;
        }
        *seen.entry(host.into()).or_insert(next)
    })
}

/// The metrics of one server.
#[derive(Clone, Debug)]
pub struct SiteMetrics {
    http: Arc<HttpMetrics>,
    server: u16,
}

impl SiteMetrics {
    /// The metrics of `server`, if metrics are enabled.
    pub fn of(http: Option<&Arc<HttpMetrics>>, server: &str) -> Option<SiteMetrics> {
        let http = http?;
        let at = http.servers.iter().position(|names| names.name == server)?;
        Some(SiteMetrics {
            http: http.clone(),
            server: u16::try_from(at).ok()?,
        })
    }

    /// The index of a module among the first handlers of routes; `None` if it is not one.
    pub fn kind(&self, module: &str) -> Option<u8> {
        let kinds = &self.http.servers[usize::from(self.server)].kinds;
        let at = kinds.iter().position(|kind| kind == module)?;
        u8::try_from(at).ok()
    }

    /// Counts that a request enters a route of this kind, unless it has entered one before; returns its marks
    /// afterwards.
    pub fn enter<C>(&self, exchange: &Exchange<C>, mut marks: Marks, kind: u8) -> Marks {
        let bit = 1 << kind;
        if marks.kinds & bit == 0
            && marks.kinds & COUNTED != 0
            && let Some(table) = self.http.tables.get(exchange.worker.index)
        {
            marks.kinds |= bit;
            table.enter(self.labels(self.host(exchange), kind));
        }
        marks
    }

    /// Counts a request that has ended; `failed` if a handler failed.
    pub fn leave<C>(
        &self,
        exchange: &Exchange<C>,
        marks: Marks,
        ended: (&Completion, u16),
        failed: bool,
    ) {
        let (completion, status) = ended;
        let kinds = marks.kinds & !COUNTED;
        let Some(table) = self
            .http
            .tables
            .get(exchange.worker.index)
            .filter(|_| kinds != 0)
        else {
            return;
        };
        let aborted = matches!(completion.ending, Ending::Aborted);
        let micros = u64::from(marks.responded_micros);
        let measured = Measured {
            duration: nanos(completion.duration),
            first_byte: (micros > 0 && !failed).then_some(micros * 1000),
            request_size: size(exchange),
            response_size: completion.body_bytes_sent,
        };
        let method = method_number(&exchange.req.method);
        let host = self.host(exchange);
        let mut left = kinds;
        while left != 0 {
            let labels = self.labels(host, left.trailing_zeros() as u8);
            left &= left - 1;
            table.leave(labels, failed);
            if !aborted {
                let response = Some(ResponseLabels { status, method });
                table.response(Labels { response, ..labels }, measured);
            }
        }
    }

    fn host<C>(&self, exchange: &Exchange<C>) -> u16 {
        self.http.hosts.number(&exchange.req.host)
    }

    /// The labels of requests in progress.
    fn labels(&self, host: u16, kind: u8) -> Labels {
        Labels {
            server: self.server,
            kind,
            host,
            response: None,
        }
    }
}

/// The bit for requests that are counted; subrequests of templates are not.
const COUNTED: u32 = 1 << KINDS_MAX;

/// A request's state for metrics.
#[derive(Clone, Copy, Debug, Default)]
pub struct Marks {
    /// The kinds of routes it has entered, one bit each.
    pub kinds: u32,
    /// When its response started, in microseconds from its first byte; 0 if not measured.
    pub responded_micros: u32,
}

impl Marks {
    /// The state of a request that is counted.
    pub fn counted() -> Marks {
        Marks {
            kinds: COUNTED,
            responded_micros: 0,
        }
    }

    /// Records that the response starts, `after` the first byte of the request.
    pub fn response_begins(&mut self, after: Duration) {
        self.responded_micros = u32::try_from(after.as_micros()).unwrap_or(u32::MAX).max(1);
    }
}

/// A duration in nanoseconds; the highest number for those beyond 584 years.
fn nanos(duration: Duration) -> u64 {
    let seconds = duration.as_secs().saturating_mul(1_000_000_000);
    seconds.saturating_add(u64::from(duration.subsec_nanos()))
}

/// The size of a request as counted by Caddy: the words of the request line, the headers without separators, and the
/// body.
fn size<C>(exchange: &Exchange<C>) -> u64 {
    let line = exchange.req.method.as_str().len()
        + exchange.req.target.len()
        + exchange.req.version.as_str().len();
    let mut size = line + exchange.req.authority.len();
    let mut has_length = false;
    for (id, length) in exchange.req.fields.sizes() {
        has_length |= id == FieldId::ContentLength;
        if id != FieldId::Host {
            size += length;
        }
    }
    size as u64 + if has_length { body(exchange) } else { 0 }
}

/// The length of the body that a header announces.
fn body<C>(exchange: &Exchange<C>) -> u64 {
    let length = exchange.req.fields.first(FieldId::ContentLength);
    let length = length.and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
    length.unwrap_or(0)
}

fn method_number(method: &Method) -> u8 {
    match method {
        Method::Other(_) => 0,
        Method::Get => 1,
        Method::Head => 2,
        Method::Post => 3,
        Method::Put => 4,
        Method::Delete => 5,
        Method::Connect => 6,
        Method::Options => 7,
        Method::Trace => 8,
        Method::Patch => 9,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics(json: &str) -> Option<HttpMetrics> {
        let app: HttpApp = serde_json::from_str(json).expect("it is a configuration");
        HttpMetrics::build(&app, 1)
    }

    #[test]
    fn only_hosts_of_the_configuration_have_their_own_series() {
        let http = metrics(
            r#"{"metrics":{"per_host":true},"servers":{"a":{"routes":[
                {"match":[{"host":["One.test","*.two.test"]}],"handle":[{"handler":"subroute"}]}]}}}"#,
        )
        .expect("it asks for metrics");
        let names = http.hosts.names().expect("hosts are counted separately");
        let name = |host: &[u8]| names[usize::from(http.hosts.number(host))].as_str();
        assert_eq!(name(b"one.test"), "one.test");
        assert_eq!(name(b"x.two.test"), OTHER);
        assert_eq!(name(b"evil.test"), OTHER);
        assert_eq!(name(b"\xff"), OTHER);
    }

    #[test]
    fn hosts_that_clients_choose_are_bounded() {
        let http = metrics(r#"{"metrics":{"per_host":true,"observe_catchall_hosts":true}}"#)
            .expect("it asks for metrics");
        for number in 0..HOSTS_MAX + 10 {
            http.hosts.number(format!("h{number}").as_bytes());
        }
        let names = http.hosts.names().expect("hosts are counted separately");
        assert_eq!(names.len(), HOSTS_MAX + 1);
        assert_eq!(http.hosts.number(b"h0"), 1);
        assert_eq!(http.hosts.number(b"one more"), OTHER_HOST);
    }

    #[test]
    fn nothing_is_counted_unless_asked_for() {
        assert!(metrics(r#"{"servers":{"a":{}}}"#).is_none());
        assert!(
            metrics(r#"{"servers":{"a":{"metrics":{}}}}"#).is_some(),
            "the old place"
        );
    }
}
