//! nginx variables that no Caddy placeholder provides.

use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sluice_message::decimal::push_integer;
use sluice_message::layout::LocalTime;
use sluice_message::{ConnInfo, FieldId, Fields, IpText, Remote, Version};
use sluice_net::clock;
use sluice_net::sys::tcp_info::tcp_info;
use sluice_route::placeholder::nginx::{NginxKey, PassKey, TlsKey};
use sluice_route::values::origin_form;
use sluice_route::{Found, Provenance};
use sluice_wire::proxy_protocol::{find, ssl_verify};

use super::shown::{join, seconds, show};
use super::state::{RequestState, State, Subject};
use super::user_id_value::Which;
use crate::state::NginxContext;
use sluice_pipeline::context::CacheStatus;
use sluice_pipeline::context::{DialectState, Exchange};
use sluice_pipeline::request_id;
use sluice_pipeline::values::{client_ip, remote_ip};

/// Layouts of `$time_local` and `$time_iso8601`.
const TIME_LOCAL: &str = "02/Jan/2006:15:04:05 -0700";
const TIME_ISO: &str = "2006-01-02T15:04:05-07:00";

impl DialectState for RequestState {
    fn clear(&mut self) {
        self.state = State::default();
        self.tables = None;
        self.captures.clear();
        self.occasional.clear();
        self.counted.clear();
    }

    fn apart(&self) -> Box<dyn DialectState> {
        Box::new(RequestState {
            state: self.state,
            tables: self.tables.clone(),
            captures: self.captures.clone(),
            occasional: self.occasional.clone(),
            counted: Vec::new(),
        })
    }

    fn is_subrequest(&self) -> bool {
        self.state.is_subrequest()
    }

    fn unix_client(&self) -> &'static str {
        UNIX_CLIENT
    }

    fn is_part(&self, key: &[u8]) -> bool {
        let piece = self.occasional.slice.as_ref();
        piece.is_some_and(|piece| {
            piece.is_used() && memchr::memmem::find(key, piece.text().as_bytes()).is_some()
        })
    }

    fn leaves_ranges(&mut self, fields: &mut Fields) -> bool {
        self.state.leaves_ranges(fields)
    }

    fn value(&self, exchange: &Exchange, key: &NginxKey, out: &mut Vec<u8>) -> Found {
        value(exchange, key, out)
    }

    fn provenance(&self, exchange: &Exchange, key: &NginxKey) -> Option<Provenance> {
        match key {
            NginxKey::Capture(index) => Some(self.captures.provenance(*index)),
            NginxKey::Table(name) => Some(match &self.tables {
                Some(tables) => tables.value(Subject::Request(exchange), name, &mut Vec::new()),
                None => Provenance::Configured,
            }),
            _ => None,
        }
    }
}

/// Appends the value of a variable.
pub fn value(exchange: &Exchange, key: &NginxKey, out: &mut Vec<u8>) -> Found {
    match key {
        NginxKey::Host(fallback) => host(exchange, fallback, out),
        NginxKey::RequestUri => out.extend_from_slice(sent(exchange)),
        NginxKey::Request => request_line(exchange, out),
        NginxKey::IsArgs => {
            let query = exchange.req.uri.query();
            out.extend(query.filter(|query| !query.is_empty()).map(|_| b'?'));
        }
        NginxKey::Argument(name) => argument(exchange, name.as_bytes(), out),
        NginxKey::Field(name) if name.eq_ignore_ascii_case("host") => {
            out.extend_from_slice(&exchange.req.authority);
        }
        NginxKey::Field(name) => join(&exchange.req.fields, name.as_bytes(), out),
        NginxKey::SentField(name) => join(&exchange.res.fields, name.as_bytes(), out),
        NginxKey::Cookie(name) => cookie(exchange, name.as_bytes(), out),
        NginxKey::Capture(index) => exchange.context.captures().write(*index, out),
        NginxKey::UriFrom(cut) => {
            let rest = exchange.req.uri.path().get(*cut..).unwrap_or_default();
            path_below(rest, out);
        }
        NginxKey::ChosenPath => {
            if exchange.context.nginx().follows_alias {
                path_below(exchange.req.uri.path(), out);
            }
        }
        NginxKey::Pass(key) => passed(exchange, *key, out),
        NginxKey::Table(name) => {
            if let Some(tables) = exchange.context.tables() {
                let _ = tables.value(Subject::Request(exchange), name, out);
            }
        }
        NginxKey::AddForwardedFor => {
            add_forwarded_for(exchange, out);
        }
        NginxKey::Https => {
            if exchange.conn.tls.is_some() {
                out.extend_from_slice(b"on");
            }
        }
        NginxKey::RemoteUser => remote_user(exchange, out),
        NginxKey::RemotePort => remote_port(exchange, out),
        NginxKey::Status => show(out, format_args!("{:03}", exchange.res.status.code())),
        NginxKey::BodyBytesSent => {
            let log = &exchange.context.log;
            let body = log.bytes_sent.saturating_sub(log.head_bytes_sent);
            push_integer(out, body);
        }
        NginxKey::RequestCompletion if exchange.context.log.is_complete => {
            out.extend_from_slice(b"OK")
        }
        NginxKey::RequestCompletion => {}
        NginxKey::Pipe if exchange.came.is_pipelined => out.push(b'p'),
        NginxKey::Pipe => out.push(b'.'),
        NginxKey::RequestTime => {
            // Measured from the first byte of the request head.
            seconds(
                clock::now().since(exchange.started) + exchange.came.head_time,
                out,
            );
        }
        NginxKey::TimeLocal => time(exchange.worker.clock.unix_seconds(), TIME_LOCAL, out),
        NginxKey::TimeIso => time(exchange.worker.clock.unix_seconds(), TIME_ISO, out),
        NginxKey::Msec => seconds(since_1970(), out),
        _ => return of_process_and_session(exchange, key, out),
    }
    Found::Known
}

/// Appends the value of a variable during a TLS handshake; nothing for variables of requests and of established
/// sessions.
pub fn of_handshake(conn: &ConnInfo, key: &NginxKey, out: &mut Vec<u8>) {
    match key {
        NginxKey::Host(fallback) => out.extend_from_slice(fallback.as_bytes()),
        NginxKey::Tls(TlsKey::ServerName) => {
            if let Some(tls) = &conn.tls {
                out.extend_from_slice(tls.server_name.as_bytes());
            }
        }
        NginxKey::Https if conn.tls.is_some() => out.extend_from_slice(b"on"),
        NginxKey::Pid => show(out, format_args!("{}", std::process::id())),
        NginxKey::Msec => seconds(since_1970(), out),
        NginxKey::TimeLocal => time(since_1970().as_secs(), TIME_LOCAL, out),
        NginxKey::TimeIso => time(since_1970().as_secs(), TIME_ISO, out),
        _ => {}
    }
}

/// Appends the rest of a path below a directory.
fn path_below(rest: &[u8], out: &mut Vec<u8>) {
    // `location /a { alias /b/; }` would let `/a../c` escape the directory; NUL makes the path invalid.
    if rest == b".." || rest.starts_with(b"../") {
        out.push(0);
    }
    out.extend_from_slice(rest);
}

/// `$proxy_add_x_forwarded_for`.
fn add_forwarded_for(exchange: &Exchange, out: &mut Vec<u8>) {
    join(&exchange.req.fields, b"X-Forwarded-For", out);
    if !out.is_empty() && exchange.req.fields.has(FieldId::XForwardedFor) {
        out.extend_from_slice(b", ");
    }
    match client_ip(exchange).or_else(|| remote_ip(&exchange.conn)) {
        Some(ip) => out.extend_from_slice(IpText::new(ip).as_bytes()),
        None => out.extend_from_slice(UNIX_CLIENT.as_bytes()),
    }
}

/// What nginx calls a client that has no address.
pub const UNIX_CLIENT: &str = "unix:";

/// The port of the client; empty if a trusted proxy reported an address without a port.
fn remote_port(exchange: &Exchange, out: &mut Vec<u8>) {
    let port = match (exchange.context.nginx().real_port, exchange.conn.remote) {
        (Some(port), _) => port,
        (None, Remote::Ip(peer)) => peer.port(),
        (None, Remote::Unix) => 0,
    };
    if port != 0 {
        push_integer(out, port.into());
    }
}

/// `$tcpinfo_*`: kernel data of the client's connection; empty if it is not TCP.
fn tcp(exchange: &Exchange, key: &NginxKey, out: &mut Vec<u8>) {
    let Some(info) = exchange.conn.facts.socket.and_then(tcp_info) else {
        return;
    };
    let number = match key {
        NginxKey::TcpRtt => info.rtt,
        NginxKey::TcpRttVar => info.rtt_variation,
        NginxKey::TcpSndCwnd => info.congestion_window,
        _ => info.receive_space,
    };
    show(out, format_args!("{number}"));
}

/// Variables that depend on the process or on the connection.
fn of_process_and_session(exchange: &Exchange, key: &NginxKey, out: &mut Vec<u8>) -> Found {
    match key {
        NginxKey::Upstream(key) => super::upstream_vars::push(exchange, *key, out),
        NginxKey::UpstreamField(name) => {
            join(&exchange.context.upstream.fields, name.as_bytes(), out);
        }
        NginxKey::UpstreamCookie(name) => {
            super::upstream_vars::cookie(exchange, name.as_bytes(), out)
        }
        NginxKey::UpstreamTrailer(name) => {
            super::upstream_vars::trailer(exchange, name.as_bytes(), out)
        }
        NginxKey::SentTrailer(name) => {
            super::upstream_vars::sent_trailer(exchange, name.as_bytes(), out)
        }
        NginxKey::Pid => show(out, format_args!("{}", std::process::id())),
        NginxKey::TlsProtocol => {
            if let Some(tls) = &exchange.conn.tls {
                out.extend_from_slice(match tls.version {
                    "tls1.2" => b"TLSv1.2",
                    "tls1.3" => b"TLSv1.3",
                    other => other.as_bytes(),
                });
            }
        }
        NginxKey::TlsReused => {
            if let Some(tls) = &exchange.conn.tls {
                out.push(if tls.resumed { b'r' } else { b'.' });
            }
        }
        NginxKey::Tls(key) => super::tls::push(exchange, *key, out),
        NginxKey::RequestId => request_id::push_hexadecimal(exchange, out),
        NginxKey::CacheStatus => {
            let status = exchange.context.upstream.cache;
            out.extend_from_slice(status.map_or("", CacheStatus::as_str).as_bytes());
        }
        _ => return of_connection(exchange, key, out),
    }
    Found::Known
}

/// The number of a connection. Each worker counts by itself, and their numbers interleave.
pub(super) fn connection_number(exchange: &Exchange) -> u64 {
    let (index, count) = (
        exchange.worker.index as u64,
        exchange.worker.count.max(1) as u64,
    );
    exchange.conn.facts.serial * count + index
}

/// Variables of the connection, and counters.
fn of_connection(exchange: &Exchange, key: &NginxKey, out: &mut Vec<u8>) -> Found {
    let facts = &exchange.conn.facts;
    match key {
        NginxKey::Connection => {
            show(out, format_args!("{}", connection_number(exchange)));
        }
        NginxKey::ConnectionRequests => show(out, format_args!("{}", facts.requests.get())),
        NginxKey::ConnectionTime => seconds(clock::now().since(facts.began), out),
        NginxKey::TcpRtt | NginxKey::TcpRttVar | NginxKey::TcpSndCwnd | NginxKey::TcpRcvSpace => {
            tcp(exchange, key, out)
        }
        NginxKey::Http2 => {
            if exchange.req.version == Version::Http2 {
                let secure = exchange.conn.tls.is_some();
                out.extend_from_slice(if secure { b"h2" } else { b"h2c" });
            }
        }
        NginxKey::Http3 => {
            if exchange.req.version == Version::Http3 {
                out.extend_from_slice(b"h3");
            }
        }
        NginxKey::ProxyAddr | NginxKey::ProxyServerAddr => {
            if let Some(end) = proxy_protocol_end(exchange, key) {
                out.extend_from_slice(IpText::new(end.ip()).as_bytes());
            }
        }
        NginxKey::ProxyExtension(name) => {
            if let Some(addresses) = &exchange.conn.facts.proxied {
                proxy_protocol_extension(&addresses.extensions, name, out);
            }
        }
        NginxKey::RequestBodyFile => {
            if let Some(path) = &exchange.context.occasional().body_file {
                out.extend_from_slice(path.as_os_str().as_bytes());
            }
        }
        NginxKey::ProxyPort | NginxKey::ProxyServerPort => {
            if let Some(end) = proxy_protocol_end(exchange, key) {
                show(out, format_args!("{}", end.port()));
            }
        }
        _ => return of_message(exchange, key, out),
    }
    Found::Known
}

/// An extension of a PROXY protocol header.
fn proxy_protocol_extension(extensions: &[u8], name: &str, out: &mut Vec<u8>) {
    if name == "ssl_verify" {
        if let Some(result) = ssl_verify(extensions) {
            show(out, format_args!("{result}"));
        }
        return;
    }
    out.extend_from_slice(find(extensions, name).unwrap_or_default());
}

/// The source or destination reported by the PROXY protocol.
fn proxy_protocol_end(exchange: &Exchange, key: &NginxKey) -> Option<SocketAddr> {
    let addresses = exchange.conn.facts.proxied.as_ref()?;
    Some(match key {
        NginxKey::ProxyAddr | NginxKey::ProxyPort => addresses.source,
        _ => addresses.destination,
    })
}

/// Variables of the request and the response messages.
fn of_message(exchange: &Exchange, key: &NginxKey, out: &mut Vec<u8>) -> Found {
    match key {
        // Empty for a request with a malformed request line, until an error page is requested with GET.
        NginxKey::RequestMethod
            if exchange.req.target.is_empty()
                && exchange.context.occasional().refused_line.is_some()
                && exchange.context.nginx().is_as_sent() => {}
        NginxKey::RequestMethod => {
            let own = &exchange.req.method;
            let method = match exchange.context.nginx().is_subrequest() {
                true => exchange.context.original_method.as_deref().unwrap_or(own),
                false => own,
            };
            out.extend_from_slice(method.as_str().as_bytes());
        }
        NginxKey::RequestPort => {
            if let Some(port) = host_port(exchange) {
                show(out, format_args!("{port}"));
            }
        }
        NginxKey::IsRequestPort => {
            if host_port(exchange).is_some() {
                out.push(b':');
            }
        }
        NginxKey::LimitReqStatus => {
            let outcome = exchange.context.nginx().limited_requests;
            out.extend_from_slice(outcome.as_str().as_bytes());
        }
        NginxKey::LimitConnStatus => {
            let outcome = exchange.context.nginx().limited_connections;
            out.extend_from_slice(outcome.as_str().as_bytes());
        }
        NginxKey::RequestLength => {
            show(out, format_args!("{}", request_length(exchange)));
        }
        NginxKey::BytesSent => show(out, format_args!("{}", exchange.context.log.bytes_sent)),
        NginxKey::UidGot | NginxKey::UidSet => {
            let which = match key {
                NginxKey::UidGot => Which::Got,
                _ => Which::Set,
            };
            if let Some(known) = &exchange.context.occasional().user_id {
                known.push(which, out);
            }
        }
        NginxKey::GzipRatio => super::gzip::push_ratio(exchange, out),
        NginxKey::SliceRange => super::slice::push(exchange, out),
        NginxKey::IsMsie => {
            let agent = exchange
                .req
                .fields
                .first(FieldId::UserAgent)
                .unwrap_or_default();
            if super::browser::is_msie(agent) {
                out.push(b'1');
            }
        }
        NginxKey::DateGmt => time(
            exchange.worker.clock.unix_seconds(),
            "Monday, 02-Jan-2006 15:04:05 GMT",
            out,
        ),
        _ => return Found::Unknown,
    }
    Found::Known
}

/// Bytes of the request read so far; the head is estimated where its size was not recorded.
fn request_length(exchange: &Exchange) -> u64 {
    let is_known =
        exchange.came.head_bytes > 0 || exchange.context.occasional().refused_line.is_some();
    let head = match is_known {
        true => exchange.came.head_bytes as u64,
        false => {
            let line = exchange.req.method.as_str().len() + exchange.req.target.len();
            let fields = exchange.req.fields.iter();
            // Colon, space and line end.
            let fields = fields.map(|field| (field.name.len() + field.value.len() + 4) as u64);
            (line + "  HTTP/1.1\r\n\r\n".len()) as u64 + fields.sum::<u64>()
        }
    };
    head + exchange.context.log.body_bytes_read
}

/// A part of the upstream address.
fn passed(exchange: &Exchange, key: PassKey, out: &mut Vec<u8>) {
    let pass = &exchange.context.occasional().pass;
    match key {
        PassKey::Dial => out.extend_from_slice(&pass.dial),
        PassKey::Host => out.extend_from_slice(&pass.host),
        PassKey::Port => show(out, format_args!("{}", pass.port)),
        PassKey::Uri => out.extend_from_slice(&pass.uri),
    }
}

/// The port in the `Host` header.
fn host_port(exchange: &Exchange) -> Option<u16> {
    sluice_message::head::split_port(&exchange.req.authority).1
}

fn host(exchange: &Exchange, fallback: &str, out: &mut Vec<u8>) {
    // A trailing dot marks a name as fully qualified and is dropped.
    let host = &exchange.req.host[..];
    match host.strip_suffix(b".").unwrap_or(host) {
        b"" => out.extend_from_slice(fallback.as_bytes()),
        host if host.contains(&b':') => {
            out.push(b'[');
            out.extend_from_slice(host);
            out.push(b']');
        }
        host => out.extend_from_slice(host),
    }
}

/// The path and query as sent by the client.
pub fn sent(exchange: &Exchange) -> &[u8] {
    let target = &exchange.req.target[..];
    if target.starts_with(b"/") {
        return target;
    }
    let (path, query) = origin_form(target);
    let behind = if query.is_empty() { 0 } else { query.len() + 1 };
    match target.len().checked_sub(path.len() + behind) {
        Some(start) if !path.is_empty() => &target[start..],
        _ => b"/",
    }
}

fn request_line(exchange: &Exchange, out: &mut Vec<u8>) {
    if let Some(line) = &exchange.context.occasional().refused_line {
        return out.extend_from_slice(line);
    }
    let method = exchange
        .context
        .original_method
        .as_deref()
        .unwrap_or(&exchange.req.method);
    out.extend_from_slice(method.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(&exchange.req.target);
    out.push(b' ');
    out.extend_from_slice(exchange.req.version.as_str().as_bytes());
}

/// Appends an argument as sent; names are compared without case.
pub(super) fn argument(exchange: &Exchange, name: &[u8], out: &mut Vec<u8>) {
    let query = exchange.req.uri.query().unwrap_or_default();
    let mut pairs = query.split(|byte| *byte == b'&');
    let found = pairs.find_map(|pair| {
        let (known, value) = (pair.get(..name.len())?, pair.get(name.len() + 1..)?);
        (pair[name.len()] == b'=' && known.eq_ignore_ascii_case(name)).then_some(value)
    });
    out.extend_from_slice(found.unwrap_or_default());
}

pub(super) fn cookie(exchange: &Exchange, name: &[u8], out: &mut Vec<u8>) {
    let mut pairs = exchange
        .req
        .fields
        .all(FieldId::Cookie)
        .flat_map(|line| line.split(|byte| *byte == b';'));
    let found = pairs.find_map(|pair| {
        let pair = pair.trim_ascii();
        let equals = memchr::memchr(b'=', pair)?;
        pair[..equals]
            .eq_ignore_ascii_case(name)
            .then(|| &pair[equals + 1..])
    });
    out.extend_from_slice(found.unwrap_or_default());
}

/// The user name in the credentials of a request, if they can be decoded.
fn remote_user(exchange: &Exchange, out: &mut Vec<u8>) {
    let Some(field) = exchange.req.fields.first(FieldId::Authorization) else {
        return;
    };
    let scheme = field
        .get(..6)
        .filter(|scheme| scheme.eq_ignore_ascii_case(b"basic "));
    if scheme.is_none() {
        return;
    }
    let Ok(text) = STANDARD.decode(field[6..].trim_ascii()) else {
        return;
    };
    if let Some(colon) = memchr::memchr(b':', &text) {
        out.extend_from_slice(&text[..colon]);
    }
}

fn time(seconds: u64, layout: &str, out: &mut Vec<u8>) {
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    LocalTime::utc(seconds, 0).push(layout, out);
}

fn since_1970() -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default()
}
