//! Access log entries with Caddy's field names. `record` collects the data.

use std::collections::HashMap;
use std::net::IpAddr;
use std::panic::Location;
use std::time::{Duration, SystemTime};

use sluice_message::decimal::push_integer;
use sluice_message::{FieldId, Fields as FieldLines, IpText, Remote, TlsInfo};
use sluice_model::http::ServerLogs;

use super::Level;
use super::encode::{Fields, Head, push_duration};
use super::json::JsonWriter;
use super::plan::{FixedRoute, Plan};

/// The access log settings of one server.
#[derive(Debug)]
pub struct AccessLog {
    default: FixedRoute,
    hosts: HashMap<Box<[u8]>, Vec<FixedRoute>>,
    skipped: HashMap<Box<[u8]>, ()>,
    /// Whether `hosts` or `skipped` contains wildcards; usually they do not.
    has_wildcards: bool,
    skip_unmapped: bool,
    credentials: Credentials,
}

/// Whether cookies and credentials are logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// Their values are replaced by `REDACTED`.
    Hidden,
    /// They are logged like other headers.
    Shown,
}

const ACCESS: &str = "http.log.access";

const MESSAGE: &str = "handled request";

/// The whole name of the logger with this name.
fn logger(name: &str) -> String {
    match name {
        "" => ACCESS.to_owned(),
        name => format!("{ACCESS}.{name}"),
    }
}

/// The data of a finished request.
#[derive(Debug)]
pub struct RequestFacts<'a> {
    /// The peer of the connection.
    pub remote: Remote,
    /// The client address from a trusted proxy; `None` if it is that of the peer.
    pub client_ip: Option<IpAddr>,
    /// `HTTP/1.1`
    pub protocol: &'static str,
    /// The method as sent.
    pub method: &'a str,
    /// Host and port as sent.
    pub authority: &'a [u8],
    /// The host in lower case, which selects the logger.
    pub host: &'a [u8],
    /// The request target as sent.
    pub target: &'a [u8],
    /// The request headers.
    pub fields: &'a FieldLines,
    /// The TLS session.
    pub tls: Option<&'a TlsInfo>,
    /// Bytes of the body read.
    pub bytes_read: u64,
    /// The authenticated user.
    pub user: &'a str,
    /// The time from the first byte of the request to the last byte of the response.
    pub duration: Duration,
    /// Bytes of the response body sent.
    pub size: u64,
    /// The status of the response; 0 if there was none.
    pub status: u16,
    /// The response headers.
    pub response_fields: &'a FieldLines,
    /// Fields added by the configuration.
    pub extra: &'a [(std::sync::Arc<str>, String)],
    /// The level of the entry; `None` for the one that follows from the status.
    pub level: Option<Level>,
    /// How long its stages took, if they are logged.
    pub timings: Option<Timings>,
}

/// How long the stages of a request took. An absent one did not happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timings {
    /// The TLS handshake, at the first request of a connection.
    pub handshake: Option<Duration>,
    /// From the end of the previous response to the first byte.
    pub idle: Duration,
    /// From the first byte to the end of the head, if it did not arrive at once.
    pub head: Duration,
    /// In the queues of handlers.
    pub queue: Duration,
    /// Until the connection to the upstream was established.
    pub connect: Option<Duration>,
    /// From there to the head of its response.
    pub upstream_head: Option<Duration>,
    /// From there to the end of its body.
    pub upstream_body: Option<Duration>,
    /// From the head of the request to the response, of which `queue`, `connect` and `upstream_head` are parts.
    pub handling: Duration,
    /// From there to the last byte of the response, of which `upstream_body` is a part.
    pub sending: Duration,
}

impl RequestFacts<'_> {
    fn level(&self) -> Level {
        self.level.unwrap_or(match self.status {
            500.. => Level::Error,
            _ => Level::Info,
        })
    }
}

impl AccessLog {
    /// Builds the settings from the `logs` of a server; `plan` has the logs.
    pub fn build(logs: &ServerLogs, plan: &Plan) -> AccessLog {
        let fixed = |name: &str| FixedRoute::new(plan, &logger(name), MESSAGE);
        let mut hosts: HashMap<Box<[u8]>, Vec<FixedRoute>> = HashMap::new();
        for (host, names) in &logs.logger_names {
            let loggers = names.0.iter().map(|name| fixed(name)).collect();
            hosts.insert(lower(host), loggers);
        }
        let skipped: HashMap<Box<[u8]>, ()> = logs
            .skip_hosts
            .iter()
            .map(|host| (lower(host), ()))
            .collect();
        let has_wildcards = hosts
            .keys()
            .chain(skipped.keys())
            .any(|host| host.contains(&b'*'));
        let credentials = if logs.should_log_credentials {
            Credentials::Shown
        } else {
            Credentials::Hidden
        };
        AccessLog {
            default: fixed(&logs.default_logger_name),
            hosts,
            skipped,
            has_wildcards,
            skip_unmapped: logs.skip_unmapped_hosts,
            credentials,
        }
    }

    /// Whether this never writes entries, so that nothing has to be measured.
    pub fn is_idle(&self) -> bool {
        self.default.is_empty() && self.hosts.values().flatten().all(FixedRoute::is_empty)
    }

    /// Whether cookies and credentials are logged.
    pub fn credentials(&self) -> Credentials {
        self.credentials
    }

    /// The logger names for a host without the prefix `http.log.access.`; an empty one for the default logger. Errors
    /// are logged under the same names.
    pub fn names_for(&self, host: &[u8]) -> impl Iterator<Item = &str> {
        let loggers = match self.find(&self.hosts, host) {
            Some(loggers) => loggers.as_slice(),
            None => std::slice::from_ref(&self.default),
        };
        loggers.iter().map(|logger| {
            let name = logger.logger();
            &name[name.len().min(ACCESS.len() + 1)..]
        })
    }

    /// Writes the entry of a request. `names` are loggers set by the request instead of its host's.
    pub fn write(
        &self,
        facts: &RequestFacts<'_>,
        names: &[std::sync::Arc<str>],
        plan: impl Fn() -> std::sync::Arc<Plan>,
        line: &mut Vec<u8>,
    ) {
        if self.find(&self.skipped, facts.host).is_some() {
            return;
        }
        if !names.is_empty() {
            let plan = plan();
            for name in names {
                self.write_once(&plan, &logger(name), facts, line);
            }
            return;
        }
        match self.find(&self.hosts, facts.host) {
            Some(loggers) => loggers
                .iter()
                .for_each(|logger| self.write_to(logger, facts, line)),
            None if self.skip_unmapped => {}
            None => self.write_to(&self.default, facts, line),
        }
    }

    fn write_to(&self, logger: &FixedRoute, facts: &RequestFacts<'_>, line: &mut Vec<u8>) {
        if logger.is_empty() {
            return;
        }
        logger.write(line, SystemTime::now(), facts.level(), |fields| {
            self.add(fields, facts);
        });
    }

    /// Writes to a logger that only this request has named: preparing its lines would not pay.
    fn write_once(&self, plan: &Plan, logger: &str, facts: &RequestFacts<'_>, line: &mut Vec<u8>) {
        let head = Head {
            severity: facts.level().into(),
            logger,
            message: MESSAGE,
            caller: Location::caller(),
        };
        let route = plan.route(logger);
        route.write(line, SystemTime::now(), &head, |fields| {
            self.add(fields, facts);
        });
    }

    fn add(&self, fields: &mut Fields<'_, '_>, facts: &RequestFacts<'_>) {
        add_request(fields, facts, self.credentials);
        add_response(fields, facts, self.credentials);
    }

    /// Finds the entry for `host`: its own, otherwise that of a wildcard for any of its labels.
    fn find<'a, T>(&self, map: &'a HashMap<Box<[u8]>, T>, host: &[u8]) -> Option<&'a T> {
        if map.is_empty() {
            return None;
        }
        let exact = map.get(host);
        if exact.is_some() || !self.has_wildcards {
            return exact;
        }
        let mut from = 0;
        loop {
            let length = memchr::memchr(b'.', &host[from..]).unwrap_or(host.len() - from);
            let pattern = [&host[..from], b"*", &host[from + length..]].concat();
            if let Some(found) = map.get(&pattern[..]) {
                return Some(found);
            }
            from += length + 1;
            if from > host.len() {
                return None;
            }
        }
    }
}

fn lower(host: &str) -> Box<[u8]> {
    host.to_ascii_lowercase().into_bytes().into()
}

/// Adds the `request` object.
pub fn add_request(
    fields: &mut Fields<'_, '_>,
    facts: &RequestFacts<'_>,
    credentials: Credentials,
) {
    let json = &mut *fields.json;
    let (peer, port) = match facts.remote {
        Remote::Ip(address) => (Some(IpText::new(address.ip())), address.port()),
        Remote::Unix => (None, 0),
    };
    // Empty on a Unix domain socket.
    let peer = peer.as_ref().map_or(&b""[..], IpText::as_bytes);
    json.fixed_member("\"request\":{\"remote_ip\":\"");
    json.bare(|out| out.extend_from_slice(peer));
    json.fixed("\",\"remote_port\":\"");
    json.bare(|out| push_integer(out, u64::from(port)));
    json.fixed("\",\"client_ip\":\"");
    json.bare(|out| match facts.client_ip {
        None => out.extend_from_slice(peer),
        Some(ip) => out.extend_from_slice(IpText::new(ip).as_bytes()),
    });
    json.fixed("\",\"proto\":\"");
    json.bare(|out| out.extend_from_slice(facts.protocol.as_bytes()));
    json.fixed("\",\"method\":\"");
    json.escaped(facts.method.as_bytes());
    json.fixed("\",\"host\":\"");
    json.escaped(facts.authority);
    json.fixed("\",\"uri\":\"");
    json.escaped(facts.target);
    json.fixed("\",\"headers\":{");
    push_fields(json, facts.fields, credentials);
    if let Some(coding) = facts.fields.first(FieldId::TransferEncoding) {
        json.plain_key("transfer_encoding");
        json.begin_array();
        json.text(coding);
        json.end_array();
    }
    if let Some(tls) = facts.tls {
        json.plain_key("tls");
        push_tls(json, tls);
    }
    json.end_object();
}

/// Adds what follows the `request` object.
fn add_response(fields: &mut Fields<'_, '_>, facts: &RequestFacts<'_>, credentials: Credentials) {
    let format = fields.duration;
    let json = &mut *fields.json;
    json.fixed(",\"bytes_read\":");
    json.bare(|out| push_integer(out, facts.bytes_read));
    json.fixed(",\"user_id\":\"");
    json.escaped(facts.user.as_bytes());
    json.fixed("\",\"duration\":");
    json.bare(|out| push_duration(out, facts.duration, format));
    json.fixed(",\"size\":");
    json.bare(|out| push_integer(out, facts.size));
    json.fixed(",\"status\":");
    json.bare(|out| push_integer(out, u64::from(facts.status)));
    if let Some(timings) = &facts.timings {
        add_timings(fields, timings);
    }
    fields.json.fixed(",\"resp_headers\":{");
    push_fields(fields.json, facts.response_fields, credentials);
    for (key, value) in facts.extra {
        fields.text(key, value.as_bytes());
    }
}

fn add_timings(fields: &mut Fields<'_, '_>, timings: &Timings) {
    fields.json.plain_key("timings");
    fields.json.begin_object();
    for (key, time) in [
        ("tls_handshake", timings.handshake),
        ("idle", Some(timings.idle)),
        ("head", Some(timings.head)),
        ("queue", Some(timings.queue)),
        ("connect", timings.connect),
        ("upstream_head", timings.upstream_head),
        ("upstream_body", timings.upstream_body),
        ("handling", Some(timings.handling)),
        ("sending", Some(timings.sending)),
    ] {
        if let Some(time) = time {
            fields.duration(key, time);
        }
    }
    fields.json.end_object();
}

fn text(json: &mut JsonWriter<'_>, key: &'static str, value: &[u8]) {
    json.plain_key(key);
    json.text(value);
}

fn push_tls(json: &mut JsonWriter<'_>, tls: &TlsInfo) {
    json.begin_object();
    json.plain_key("resumed");
    json.boolean(tls.resumed);
    json.plain_key("version");
    json.integer(match tls.version {
        "tls1.2" => 0x0303,
        "tls1.3" => 0x0304,
        _ => 0,
    });
    json.plain_key("cipher_suite");
    json.integer(suite_number(tls.cipher));
    text(json, "proto", &tls.alpn);
    text(json, "server_name", tls.server_name.as_bytes());
    json.end_object();
}

/// The IANA number of a cipher suite, as Caddy logs it; 0 for one that is not supported.
fn suite_number(name: &str) -> u64 {
    match name {
        "TLS_AES_128_GCM_SHA256" => 0x1301,
        "TLS_AES_256_GCM_SHA384" => 0x1302,
        "TLS_CHACHA20_POLY1305_SHA256" => 0x1303,
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256" => 0xc02b,
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384" => 0xc02c,
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256" => 0xc02f,
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384" => 0xc030,
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256" => 0xcca8,
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256" => 0xcca9,
        _ => 0,
    }
}

/// Adds headers to the open object, as lists, and ends it. Repeated headers are grouped at the position of the first;
/// names are spelled as in Go, so that tools for Caddy's logs find them. Host and Transfer-Encoding have fields of their
/// own.
fn push_fields(json: &mut JsonWriter<'_>, lines: &FieldLines, credentials: Credentials) {
    let repeated = repeated(lines);
    for (at, field) in lines.iter().enumerate() {
        if matches!(field.id, FieldId::Host | FieldId::TransferEncoding) {
            continue;
        }
        let is_alone = repeated & bit(field.id) == 0;
        if !is_alone && lines.iter().take(at).any(|line| same_name(&line, &field)) {
            continue;
        }
        json.list_name(field.id, field.name);
        if credentials == Credentials::Hidden && is_secret(field.id) {
            json.fixed("REDACTED");
        } else {
            json.escaped(field.value);
            if !is_alone {
                let rest = lines.iter().skip(at + 1);
                for line in rest.filter(|line| same_name(line, &field)) {
                    json.fixed("\",\"");
                    json.escaped(line.value);
                }
            }
        }
        json.fixed("\"],");
    }
    json.end_members();
}

/// The numbers of names that several lines have, one bit each. Names without a number share one.
fn repeated(lines: &FieldLines) -> u128 {
    let mut repeated = 0;
    lines.ids().fold(0, |seen, id| {
        repeated |= seen & bit(id);
        seen | bit(id)
    });
    repeated
}

fn bit(id: FieldId) -> u128 {
    const { assert!(FieldId::ALL.len() < 128) };
    1 << id as u8
}

fn same_name(one: &sluice_message::Field<'_>, other: &sluice_message::Field<'_>) -> bool {
    one.id == other.id && (one.id != FieldId::Other || one.name.eq_ignore_ascii_case(other.name))
}

fn is_secret(id: FieldId) -> bool {
    matches!(
        id,
        FieldId::Cookie | FieldId::SetCookie | FieldId::Authorization | FieldId::ProxyAuthorization
    )
}

#[cfg(test)]
mod tests;
