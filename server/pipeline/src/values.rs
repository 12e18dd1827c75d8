//! Placeholder values for a request. `sluice-route` provides those that depend only on the head; this module provides
//! those that need the rest of the exchange, the clock or the system.

use std::io::Write;
use std::net::IpAddr;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sluice_message::span::push_duration;
use sluice_message::{ConnInfo, Remote, Status};
use sluice_net::clock;
use sluice_observe::process_values;
use sluice_route::placeholder::{ErrorKey, FileKey, HeaderKey, ProxyKey, TimeKey, TlsKey, Unknown};
use sluice_route::{
    Found, Input, Key, Kind, MatcherSets, Provenance, RequestValues, Template, UnfitPath, Values,
};

use crate::client_cert;
use crate::context::{Exchange, ProxyFacts};
use crate::failure::Fault;
use crate::request_id;

/// Placeholder values in the current state of an exchange.
pub struct At<'a>(pub &'a Exchange);

impl At<'_> {
    /// The input for matchers and rewrites.
    pub fn input(&self) -> Input<'_> {
        Input {
            head: &self.0.req,
            conn: &self.0.conn,
            client_ip: self.0.context.client_ip,
            values: self,
            scratch: &self.0.context.scratch,
        }
    }
}

/// Whether the request matches one of the matcher sets. A matcher may fail the request instead.
pub fn matches(matchers: &MatcherSets, exchange: &Exchange) -> Result<bool, Fault> {
    matchers
        .matches(&At(exchange).input())
        .map_err(|refusal| Fault::new(refusal.status, refusal.reason))
}

/// Expands a template for an exchange; unknown placeholders are replaced by nothing.
pub fn expand(template: &Template, exchange: &Exchange, out: &mut Vec<u8>) {
    match template.literal() {
        Some(text) => out.extend_from_slice(text),
        None => template.expand(&At(exchange), Unknown::Empty, out),
    }
}

/// Like [`expand`], for texts that are rarely needed.
pub fn expanded(template: &Template, exchange: &Exchange) -> Vec<u8> {
    let mut out = Vec::new();
    expand(template, exchange, &mut out);
    out
}

/// Like [`expanded`], with the provenance of the text.
pub fn expanded_traced(template: &Template, exchange: &Exchange) -> (Vec<u8>, Provenance) {
    let mut out = Vec::new();
    let provenance = template.expand_traced(&At(exchange), &mut out);
    (out, provenance)
}

/// Appends the file path that a template yields for an exchange.
///
/// # Errors
/// A value of the request does not fit into the path.
pub fn expand_path(
    template: &Template,
    exchange: &Exchange,
    out: &mut Vec<u8>,
) -> Result<(), UnfitPath> {
    template.expand_path(&At(exchange), out)
}

/// Like [`expanded`], but unknown placeholders remain as written.
pub fn expanded_or_kept(template: &Template, exchange: &Exchange) -> Vec<u8> {
    let mut out = Vec::new();
    template.expand(&At(exchange), Unknown::Keep, &mut out);
    out
}

/// Whether a value is true in nginx's conditions: neither empty nor `0`.
pub fn is_set(value: &[u8]) -> bool {
    !matches!(value, b"" | b"0")
}

/// The client address, taking trusted proxies into account.
pub fn client_ip(exchange: &Exchange) -> Option<IpAddr> {
    exchange
        .context
        .client_ip
        .or_else(|| remote_ip(&exchange.conn))
}

/// Whether neither the client nor a trusted proxy has an address.
fn names_unix_client(exchange: &Exchange) -> bool {
    matches!(exchange.conn.remote, Remote::Unix) && exchange.context.client_ip.is_none()
}

/// The address of the peer.
pub fn remote_ip(conn: &ConnInfo) -> Option<IpAddr> {
    match conn.remote {
        Remote::Ip(addr) => Some(addr.ip()),
        Remote::Unix => None,
    }
}

/// A nine-character ID of an error, for the log and for responses.
pub fn error_id() -> String {
    const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
    let bits = sluice_observe::random::word();
    (0..9)
        .map(|at| LETTERS[(bits >> (5 * at) & 31) as usize] as char)
        .collect()
}

impl Values for At<'_> {
    fn value(&self, key: &Key, out: &mut Vec<u8>) -> Found {
        let exchange = self.0;
        match key {
            Key::Var(name) if &**name == "trusted_proxy" => {
                push(out, exchange.context.from_trusted_proxy)
            }
            Key::Var(name) if &**name != "client_ip" => {
                known(exchange.context.vars.find(name), out)
            }
            // The name `client_ip`: all others are above.
            Key::Var(_) | Key::RemoteHost if names_unix_client(exchange) => {
                let name = exchange
                    .context
                    .dialect
                    .any()
                    .map(|state| state.unix_client());
                out.extend_from_slice(name.unwrap_or_default().as_bytes());
                Found::Known
            }
            Key::Other(name) => maybe(exchange.context.mapped.find(name), out),
            Key::Nginx(key) => match exchange.context.dialect.any() {
                Some(state) => state.value(exchange, key, out),
                None => Found::Unknown,
            },
            Key::Error(key) => self.error(*key, out),
            Key::File(key) => self.file(*key, out),
            Key::Proxy(key) => self.proxy(key, out),
            Key::ResponseHeader(key) => self.response_header(key, out),
            Key::User(field) if &**field == "id" => {
                maybe(exchange.context.log.user.as_deref().map(str::as_bytes), out)
            }
            Key::Env(name) => {
                if let Some(value) = std::env::var_os(&**name) {
                    out.extend_from_slice(value.as_encoded_bytes());
                }
                Found::Known
            }
            Key::System(key) => process_values::system(*key, out),
            Key::Time(key) => self.time(*key, out),
            Key::FileText(path) => process_values::file_text(path, out),
            Key::Duration => self.duration(out),
            Key::DurationMs => push(out, self.elapsed().as_secs_f64() * 1e3),
            Key::Uuid => {
                request_id::push_uuid(exchange, out);
                Found::Known
            }
            Key::InterceptStatus | Key::InterceptHeader(_) => self.intercepted(key, out),
            Key::ShuttingDown => {
                let ends =
                    exchange.worker.draining.get() || exchange.worker.stop_at.get().is_some();
                push(out, ends)
            }
            Key::TimeUntilShutdown => match exchange.worker.stop_at.get() {
                Some(stop_at) => span(out, stop_at.since(clock::now())),
                None => Found::Known,
            },
            Key::Body => known(exchange.context.body_text(), out),
            Key::BodyBase64 => {
                let body = exchange.context.body_text().unwrap_or_default();
                push(out, STANDARD.encode(body))
            }
            Key::Tls(key @ (TlsKey::Client(_) | TlsKey::ClientSan(..))) => {
                self.client_certificate(*key, out)
            }
            _ => self.of_request().value(key, out),
        }
    }

    fn kind(&self, key: &Key) -> Kind {
        match key {
            Key::Var(name) if &**name == "trusted_proxy" => Kind::Flag,
            Key::Var(name) if &**name != "client_ip" => self.0.context.vars.kind(name),
            Key::TimeUntilShutdown if self.0.worker.stop_at.get().is_none() => Kind::Null,
            Key::Tls(_) if self.0.conn.tls.is_none() => Kind::Null,
            other => other.kind(),
        }
    }

    fn provenance(&self, key: &Key) -> Provenance {
        let context = &self.0.context;
        match key {
            Key::Var(name) => match context.vars.provenance(name) {
                Some(provenance) => provenance,
                // A capture of a host that did not match must not select a folder. In a Caddyfile, an unset variable is
                // the author's choice.
                None if name.starts_with(NGINX_VARS) => Provenance::Name,
                None => Provenance::Configured,
            },
            Key::Other(name) => context.mapped.provenance(name).unwrap_or(Provenance::Name),
            Key::Nginx(own) => {
                let state = context.dialect.any();
                let known = state.and_then(|state| state.provenance(self.0, own));
                known.unwrap_or_else(|| key.provenance())
            }
            Key::Capture { .. } => self.of_request().provenance(key),
            other => other.provenance(),
        }
    }
}

/// The prefix of nginx variables among the variables of a request.
const NGINX_VARS: &str = "nginx.";

impl At<'_> {
    fn of_request(&self) -> RequestValues<'_> {
        RequestValues {
            head: &self.0.req,
            conn: &self.0.conn,
            client_ip: self.0.context.client_ip,
            original_method: self.0.context.original_method.as_deref(),
            scratch: &self.0.context.scratch,
        }
    }

    fn elapsed(&self) -> Duration {
        clock::now().since(self.0.started)
    }

    fn duration(&self, out: &mut Vec<u8>) -> Found {
        span(out, self.elapsed())
    }

    fn error(&self, key: ErrorKey, out: &mut Vec<u8>) -> Found {
        let Some(error) = &self.0.context.error else {
            return Found::Unknown;
        };
        match key {
            ErrorKey::StatusCode => push(out, error.status.code()),
            ErrorKey::StatusText => push(out, error.status.reason()),
            ErrorKey::Message => push(out, &error.message),
            ErrorKey::Whole => push(
                out,
                format_args!("HTTP {}: {}", error.status.code(), error.message),
            ),
            ErrorKey::Id => push(out, &error.id),
            ErrorKey::Trace => Found::Known,
        }
    }

    fn client_certificate(&self, key: TlsKey, out: &mut Vec<u8>) -> Found {
        let Some(tls) = &self.0.conn.tls else {
            return Found::Known;
        };
        let der = tls.client_certs.first().map(Vec::as_slice);
        match key {
            TlsKey::Client(key) => {
                if let Some(der) = der {
                    client_cert::describe(der, key, out);
                }
            }
            TlsKey::ClientSan(kind, index) => client_cert::alternate_names(der, kind, index, out),
            TlsKey::Version
            | TlsKey::CipherSuite
            | TlsKey::Resumed
            | TlsKey::Proto
            | TlsKey::ProtoMutual
            | TlsKey::ServerName
            | TlsKey::Ech => return Found::Unknown,
        }
        Found::Known
    }

    fn file(&self, key: FileKey, out: &mut Vec<u8>) -> Found {
        self.0.context.scratch.file_value(key, out)
    }

    fn response_header(&self, key: &HeaderKey, out: &mut Vec<u8>) -> Found {
        let mut first = true;
        for value in self.0.res.fields.find(key.name().as_bytes()) {
            if !std::mem::take(&mut first) {
                out.push(b',');
            }
            out.extend_from_slice(value);
        }
        Found::Known
    }

    fn intercepted(&self, key: &Key, out: &mut Vec<u8>) -> Found {
        let aside = self.0.context.aside.as_ref();
        match (aside.and_then(|aside| aside.head.as_ref()), key) {
            (Some(head), Key::InterceptStatus) => push(out, head.status.code()),
            (Some(head), Key::InterceptHeader(name))
                if head.fields.find_first(name.name().as_bytes()).is_some() =>
            {
                sluice_route::values::join_fields(&head.fields, name, out);
                Found::Known
            }
            _ => Found::Unknown,
        }
    }

    fn proxy(&self, key: &ProxyKey, out: &mut Vec<u8>) -> Found {
        let upstream = &self.0.context.upstream;
        if upstream.address.is_empty() {
            return Found::Unknown;
        }
        let address = upstream.address.as_str();
        let (host, port) = address.rsplit_once(':').unwrap_or((address, ""));
        let status = upstream.status.map(Status::code);
        match key {
            // The network name, as in Caddy; configured paths of Unix domain sockets include it.
            ProxyKey::UpstreamAddress if !address.starts_with("unix") => {
                push(out, format_args!("tcp/{address}"))
            }
            ProxyKey::UpstreamAddress | ProxyKey::UpstreamHostPort => push(out, address),
            ProxyKey::UpstreamHost => push(out, host),
            ProxyKey::UpstreamPort => push(out, port),
            ProxyKey::Retries => push(out, upstream.attempts.saturating_sub(1)),
            ProxyKey::StatusCode => status.map_or(Found::Unknown, |code| push(out, code)),
            ProxyKey::StatusText => upstream.status.map_or(Found::Unknown, |status| {
                push(out, format_args!("{} {}", status.code(), status.reason()))
            }),
            // An attempt without a response failed in the transport.
            ProxyKey::TransportError => push(out, status.is_none()),
            ProxyKey::Header(name) if !upstream.fields.is_empty() => {
                sluice_route::values::join_fields(&upstream.fields, name, out);
                Found::Known
            }
            ProxyKey::Header(name) => self.response_header(name, out),
            ProxyKey::UpstreamRequests
            | ProxyKey::UpstreamMaxRequests
            | ProxyKey::UpstreamFails
            | ProxyKey::UpstreamLatency
            | ProxyKey::UpstreamLatencyMs
            | ProxyKey::UpstreamDuration
            | ProxyKey::UpstreamDurationMs
            | ProxyKey::Duration
            | ProxyKey::DurationMs => match &upstream.facts {
                Some(facts) => proxy_fact(facts, key, out),
                None => Found::Unknown,
            },
            ProxyKey::ActiveTarget => Found::Unknown,
        }
    }

    fn time(&self, key: TimeKey, out: &mut Vec<u8>) -> Found {
        let clock = &self.0.worker.clock;
        match key {
            TimeKey::Http => push(out, String::from_utf8_lossy(&clock.date())),
            TimeKey::Now
            | TimeKey::Rfc3339
            | TimeKey::CommonLog
            | TimeKey::Year
            | TimeKey::Unix
            | TimeKey::UnixMs => process_values::time_at(key, clock.unix_seconds(), out),
        }
    }
}

/// The value of a placeholder for latency or load. Durations that have not ended are measured up to now.
fn proxy_fact(facts: &ProxyFacts, key: &ProxyKey, out: &mut Vec<u8>) -> Found {
    let millis = |length: Duration| length.as_secs_f64() * 1e3;
    match (key, facts.latency) {
        (ProxyKey::UpstreamRequests, _) => push(out, facts.requests),
        (ProxyKey::UpstreamMaxRequests, _) => push(out, facts.requests_max),
        (ProxyKey::UpstreamFails, _) => push(out, facts.fails),
        (ProxyKey::Duration, _) => span(out, clock::now().since(facts.began)),
        (ProxyKey::DurationMs, _) => push(out, millis(clock::now().since(facts.began))),
        (ProxyKey::UpstreamLatency, Some(latency)) => span(out, latency),
        (ProxyKey::UpstreamLatencyMs, Some(latency)) => push(out, millis(latency)),
        (ProxyKey::UpstreamDuration, Some(_)) => span(out, clock::now().since(facts.asked)),
        (ProxyKey::UpstreamDurationMs, Some(_)) => {
            push(out, millis(clock::now().since(facts.asked)))
        }
        // Without a response the duration is unknown; the other keys are not handled here.
        _ => Found::Unknown,
    }
}

/// Formats a duration like Go.
fn span(out: &mut Vec<u8>, length: Duration) -> Found {
    push_duration(out, length);
    Found::Known
}

fn known(value: Option<&[u8]>, out: &mut Vec<u8>) -> Found {
    out.extend_from_slice(value.unwrap_or_default());
    Found::Known
}

fn maybe(value: Option<&[u8]>, out: &mut Vec<u8>) -> Found {
    match value {
        Some(value) => known(Some(value), out),
        None => Found::Unknown,
    }
}

fn push(out: &mut Vec<u8>, value: impl std::fmt::Display) -> Found {
    write!(out, "{value}").expect("writing to memory does not fail");
    Found::Known
}
