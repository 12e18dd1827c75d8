//! The names of placeholders, parsed when the configuration is built, so that no text is compared per request.
//! `sluice-caddyfile` expands the short names of the Caddyfile to these long ones.

use alloc::boxed::Box;
use core::fmt;

use sluice_message::FieldId;

use super::{Kind, NginxKey};

/// What a placeholder stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    /// `http.request.method`
    Method,
    /// `http.request.scheme`
    Scheme,
    /// `http.request.proto`
    Proto,
    /// `http.request.proto_name`: as `proto`, with `HTTP/2` and `HTTP/3` as their RFCs write them.
    ProtoName,
    /// `http.request.host`: without the port.
    Host,
    /// `http.request.port`: as the client wrote it, empty if it did not.
    Port,
    /// `http.request.hostport`: as the client wrote it.
    HostPort,
    /// `http.request.host.labels.N`, counted from the right.
    HostLabel(usize),
    /// `http.request.uri`: path and query, still encoded.
    Uri,
    /// `http.request.uri_escaped`: the same, encoded for use in a query.
    UriEscaped,
    /// `http.request.uri.path`, decoded.
    Path,
    /// `http.request.uri.path_escaped`: the decoded path, encoded for use in a query.
    PathEscaped,
    /// `http.request.uri.path.dir`: up to and including the last slash.
    PathDir,
    /// `http.request.uri.path.file`: after the last slash.
    PathFile,
    /// `http.request.uri.path.file.base`: the last segment without its extension.
    PathFileBase,
    /// `http.request.uri.path.file.ext`: with its dot.
    PathFileExt,
    /// `http.request.uri.path.N`
    PathSegment(usize),
    /// `http.request.uri.query`, without its question mark.
    Query,
    /// `http.request.uri.query_escaped`
    QueryEscaped,
    /// `http.request.uri.prefixed_query`: with its question mark unless it is empty.
    PrefixedQuery,
    /// `http.request.uri.query.NAME`, decoded; several joined by commas.
    QueryParam(Box<str>),
    /// `http.request.header.NAME`; several joined by commas.
    Header(HeaderKey),
    /// `http.request.cookie.NAME`
    Cookie(Box<str>),
    /// `http.request.remote`: address and port of the peer.
    Remote,
    /// `http.request.remote.host`
    RemoteHost,
    /// `http.request.remote.host/BITS` or `/BITS4,BITS6`: the network of the peer.
    RemoteNetwork {
        /// Bits kept of an IPv4 address.
        v4_bits: u8,
        /// Bits kept of an IPv6 address.
        v6_bits: u8,
    },
    /// `http.request.remote.port`
    RemotePort,
    /// `http.request.local`: our own address and port.
    Local,
    /// `http.request.local.host`
    LocalHost,
    /// `http.request.local.port`
    LocalPort,
    /// `http.request.orig_method`: before any rewrite.
    OrigMethod,
    /// `http.request.orig_uri`: the request target as it was sent.
    OrigUri,
    /// `http.request.orig_uri.path`, decoded.
    OrigPath,
    /// `http.request.orig_uri.path.dir`
    OrigPathDir,
    /// `http.request.orig_uri.path.file`
    OrigPathFile,
    /// `http.request.orig_uri.path.file_escaped`: as it was sent; an encoded slash does not separate.
    OrigPathFileEscaped,
    /// `http.request.orig_uri.path.N`
    OrigPathSegment(usize),
    /// `http.request.orig_uri.query`
    OrigQuery,
    /// `http.request.orig_uri.prefixed_query`
    OrigPrefixedQuery,
    /// `http.request.tls.*`
    Tls(TlsKey),
    /// `http.request.duration`: time since the request began, as `1.5ms`.
    Duration,
    /// `http.request.duration_ms`
    DurationMs,
    /// `http.request.uuid`
    Uuid,
    /// `http.request.body`
    Body,
    /// `http.request.body_base64`
    BodyBase64,
    /// `http.vars.NAME`
    Var(Box<str>),
    /// `http.regexp.NAME.GROUP` or `http.regexp.GROUP`
    Capture {
        /// The name of the expression; without one the latest match counts.
        regexp: Option<Box<str>>,
        /// The number or name of the group.
        group: Box<str>,
    },
    /// `http.error` and `http.error.*`
    Error(ErrorKey),
    /// `http.matchers.file.*`
    File(FileKey),
    /// `http.url_pattern.COMPONENT.GROUP`
    UrlPattern(Box<str>),
    /// `http.reverse_proxy.*`
    Proxy(ProxyKey),
    /// `http.response.header.NAME`; several joined by commas.
    ResponseHeader(HeaderKey),
    /// `http.intercept.status_code`
    InterceptStatus,
    /// `http.intercept.header.NAME`
    InterceptHeader(HeaderKey),
    /// `http.auth.user.FIELD`
    User(Box<str>),
    /// `http.shutting_down`
    ShuttingDown,
    /// `http.time_until_shutdown`
    TimeUntilShutdown,
    /// `time.now` and `time.now.*`
    Time(TimeKey),
    /// `env.NAME`
    Env(Box<str>),
    /// `system.*`
    System(SystemKey),
    /// `file.PATH`: the content of a file.
    FileText(Box<str>),
    /// `nginx.*`: what only nginx has a variable for.
    Nginx(NginxKey),
    /// Any other name: those that `map` sets, and those that nobody knows.
    Other(Box<str>),
}

/// A field name in a placeholder. It may be no valid name; then there is never such a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderKey {
    id: FieldId,
    name: Box<str>,
}

impl HeaderKey {
    /// The key for the field `name`.
    pub fn new(name: &str) -> HeaderKey {
        HeaderKey {
            id: FieldId::of(name.as_bytes()),
            name: name.into(),
        }
    }

    /// The number of the name.
    pub fn id(&self) -> FieldId {
        self.id
    }

    /// The name as it was written.
    pub fn name(&self) -> &str {
        &self.name
    }
}

macro_rules! names {
    ($(#[$doc:meta])* $type:ident { $($variant:ident = $text:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $type {
            $(#[doc = concat!("`", $text, "`")] $variant,)*
        }

        impl $type {
            fn parse(text: &str) -> Option<$type> {
                match text { $($text => Some($type::$variant),)* _ => None }
            }

            /// The rest of the placeholder's name.
            pub const fn as_str(self) -> &'static str {
                match self { $($type::$variant => $text,)* }
            }
        }
    };
}

/// What `http.request.tls.*` stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TlsKey {
    /// `version`
    Version,
    /// `cipher_suite`
    CipherSuite,
    /// `resumed`
    Resumed,
    /// `proto`: the protocol that ALPN chose.
    Proto,
    /// `proto_mutual`
    ProtoMutual,
    /// `server_name`
    ServerName,
    /// `ech`
    Ech,
    /// `client.*`: of the client's certificate.
    Client(ClientCertKey),
    /// `client.san.KIND` and `client.san.KIND.N`: subject alternate names, all or one.
    ClientSan(SanKind, Option<usize>),
}

names! {
    /// What `http.request.tls.client.*` stands for.
    ClientCertKey {
        Fingerprint = "fingerprint", PublicKey = "public_key", PublicKeySha256 = "public_key_sha256",
        Issuer = "issuer", Serial = "serial", Subject = "subject", Pem = "certificate_pem",
        DerBase64 = "certificate_der_base64",
    }
}

names! {
    /// A kind of subject alternate names.
    SanKind { DnsNames = "dns_names", Emails = "emails", Ips = "ips", Uris = "uris" }
}

names! {
    /// What `http.error.*` stands for.
    ErrorKey {
        Whole = "error", StatusCode = "status_code", StatusText = "status_text", Message = "message",
        Trace = "trace", Id = "id",
    }
}

names! {
    /// What `http.matchers.file.*` stands for.
    FileKey { Relative = "relative", Absolute = "absolute", Type = "type", Remainder = "remainder" }
}

names! {
    /// What `time.now.*` stands for.
    TimeKey {
        Now = "now", Http = "http", Rfc3339 = "rfc3339", CommonLog = "common_log", Year = "year", Unix = "unix", UnixMs = "unix_ms",
    }
}

names! {
    /// What `system.*` stands for.
    SystemKey { Hostname = "hostname", Slash = "slash", Os = "os", Arch = "arch", WorkingDir = "wd" }
}

/// What `http.reverse_proxy.*` stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProxyKey {
    /// `upstream.address`
    UpstreamAddress,
    /// `upstream.hostport`
    UpstreamHostPort,
    /// `upstream.host`
    UpstreamHost,
    /// `upstream.port`
    UpstreamPort,
    /// `upstream.requests`
    UpstreamRequests,
    /// `upstream.max_requests`
    UpstreamMaxRequests,
    /// `upstream.fails`
    UpstreamFails,
    /// `upstream.latency`
    UpstreamLatency,
    /// `upstream.latency_ms`
    UpstreamLatencyMs,
    /// `upstream.duration`
    UpstreamDuration,
    /// `upstream.duration_ms`
    UpstreamDurationMs,
    /// `duration`
    Duration,
    /// `duration_ms`
    DurationMs,
    /// `retries`
    Retries,
    /// `status_code`
    StatusCode,
    /// `status_text`
    StatusText,
    /// `header.NAME`
    Header(HeaderKey),
    /// `is_transport_error`
    TransportError,
    /// `active.target_upstream`
    ActiveTarget,
}

impl Key {
    /// The key called `name`, the text between the braces. Any text is some key.
    pub fn parse(name: &str) -> Key {
        parse_known(name).unwrap_or_else(|| Key::Other(name.into()))
    }

    /// What its values are; those of variables follow from what set them.
    pub fn kind(&self) -> Kind {
        match self {
            Key::RemotePort | Key::LocalPort => Kind::Integer,
            Key::Duration => Kind::Duration,
            Key::DurationMs => Kind::Float,
            Key::ShuttingDown => Kind::Flag,
            Key::Error(ErrorKey::StatusCode) | Key::InterceptStatus => Kind::Integer,
            Key::Time(TimeKey::Now) => Kind::Moment,
            Key::Tls(TlsKey::Resumed | TlsKey::ProtoMutual | TlsKey::Ech) => Kind::Flag,
            Key::Proxy(key) => key.kind(),
            _ => Kind::Text,
        }
    }
}

impl ProxyKey {
    /// Whether it stands for a duration of the proxying or for the load of the upstream.
    pub fn is_fact(&self) -> bool {
        match self {
            ProxyKey::UpstreamRequests
            | ProxyKey::UpstreamMaxRequests
            | ProxyKey::UpstreamFails
            | ProxyKey::UpstreamLatency
            | ProxyKey::UpstreamLatencyMs
            | ProxyKey::UpstreamDuration
            | ProxyKey::UpstreamDurationMs
            | ProxyKey::Duration
            | ProxyKey::DurationMs => true,
            ProxyKey::UpstreamAddress
            | ProxyKey::UpstreamHostPort
            | ProxyKey::UpstreamHost
            | ProxyKey::UpstreamPort
            | ProxyKey::Retries
            | ProxyKey::StatusCode
            | ProxyKey::StatusText
            | ProxyKey::Header(_)
            | ProxyKey::TransportError
            | ProxyKey::ActiveTarget => false,
        }
    }

    fn kind(&self) -> Kind {
        match self {
            ProxyKey::UpstreamRequests
            | ProxyKey::UpstreamMaxRequests
            | ProxyKey::UpstreamFails
            | ProxyKey::Retries
            | ProxyKey::StatusCode => Kind::Integer,
            ProxyKey::UpstreamLatency | ProxyKey::UpstreamDuration | ProxyKey::Duration => {
                Kind::Duration
            }
            ProxyKey::UpstreamLatencyMs | ProxyKey::UpstreamDurationMs | ProxyKey::DurationMs => {
                Kind::Float
            }
            ProxyKey::TransportError => Kind::Flag,
            ProxyKey::UpstreamAddress
            | ProxyKey::UpstreamHostPort
            | ProxyKey::UpstreamHost
            | ProxyKey::UpstreamPort
            | ProxyKey::StatusText
            | ProxyKey::Header(_)
            | ProxyKey::ActiveTarget => Kind::Text,
        }
    }
}

fn parse_known(name: &str) -> Option<Key> {
    let (head, rest) = name.split_once('.')?;
    match head {
        "http" => parse_http(rest),
        "env" => Some(Key::Env(rest.into())),
        "file" => Some(Key::FileText(rest.into())),
        "system" => SystemKey::parse(rest).map(Key::System),
        "nginx" => NginxKey::parse(rest).map(Key::Nginx),
        "time" if rest == "now" => Some(Key::Time(TimeKey::Now)),
        "time" => TimeKey::parse(rest.strip_prefix("now.")?).map(Key::Time),
        _ => None,
    }
}

fn parse_http(name: &str) -> Option<Key> {
    if let Some(rest) = name.strip_prefix("request.") {
        return parse_request(rest);
    }
    let (head, rest) = name.split_once('.').unwrap_or((name, ""));
    match head {
        "vars" => Some(Key::Var(rest.into())),
        "regexp" => match rest.split_once('.') {
            Some((regexp, group)) => Some(Key::Capture {
                regexp: Some(regexp.into()),
                group: group.into(),
            }),
            None => Some(Key::Capture {
                regexp: None,
                group: rest.into(),
            }),
        },
        "error" if rest.is_empty() => Some(Key::Error(ErrorKey::Whole)),
        "error" => ErrorKey::parse(rest).map(Key::Error),
        "matchers" => FileKey::parse(rest.strip_prefix("file.")?).map(Key::File),
        "url_pattern" => Some(Key::UrlPattern(rest.into())),
        "reverse_proxy" => parse_proxy(rest).map(Key::Proxy),
        "response" => Some(Key::ResponseHeader(HeaderKey::new(
            rest.strip_prefix("header.")?,
        ))),
        "intercept" if rest == "status_code" => Some(Key::InterceptStatus),
        "intercept" => Some(Key::InterceptHeader(HeaderKey::new(
            rest.strip_prefix("header.")?,
        ))),
        "auth" => Some(Key::User(rest.strip_prefix("user.")?.into())),
        "shutting_down" => Some(Key::ShuttingDown),
        "time_until_shutdown" => Some(Key::TimeUntilShutdown),
        _ => None,
    }
}

fn parse_request(name: &str) -> Option<Key> {
    Some(match name {
        "method" => Key::Method,
        "scheme" => Key::Scheme,
        "proto" => Key::Proto,
        "proto_name" => Key::ProtoName,
        "host" => Key::Host,
        "port" => Key::Port,
        "hostport" => Key::HostPort,
        "uri" => Key::Uri,
        "uri_escaped" => Key::UriEscaped,
        "remote" => Key::Remote,
        "remote.host" => Key::RemoteHost,
        "remote.port" => Key::RemotePort,
        "local" => Key::Local,
        "local.host" => Key::LocalHost,
        "local.port" => Key::LocalPort,
        "orig_method" => Key::OrigMethod,
        "orig_uri" => Key::OrigUri,
        "duration" => Key::Duration,
        "duration_ms" => Key::DurationMs,
        "uuid" => Key::Uuid,
        "body" => Key::Body,
        "body_base64" => Key::BodyBase64,
        _ => return parse_request_part(name),
    })
}

fn parse_request_part(name: &str) -> Option<Key> {
    if let Some(bits) = name.strip_prefix("remote.host/") {
        return parse_network(bits);
    }
    if let Some(index) = name.strip_prefix("host.labels.") {
        return index.parse().ok().map(Key::HostLabel);
    }
    let (head, rest) = name.split_once('.')?;
    match head {
        "header" => Some(Key::Header(HeaderKey::new(rest))),
        "cookie" => Some(Key::Cookie(rest.into())),
        "tls" => parse_tls(rest).map(Key::Tls),
        "uri" => parse_uri(rest),
        "orig_uri" => parse_orig_uri(rest),
        _ => None,
    }
}

fn parse_uri(name: &str) -> Option<Key> {
    Some(match name {
        "path" => Key::Path,
        "path_escaped" => Key::PathEscaped,
        "path.dir" => Key::PathDir,
        "path.file" => Key::PathFile,
        "path.file.base" => Key::PathFileBase,
        "path.file.ext" => Key::PathFileExt,
        "query" => Key::Query,
        "query_escaped" => Key::QueryEscaped,
        "prefixed_query" => Key::PrefixedQuery,
        _ => match name.split_once('.')? {
            ("path", index) => Key::PathSegment(index.parse().ok()?),
            ("query", param) => Key::QueryParam(param.into()),
            _ => return None,
        },
    })
}

fn parse_orig_uri(name: &str) -> Option<Key> {
    Some(match name {
        "path" => Key::OrigPath,
        "path.dir" => Key::OrigPathDir,
        "path.file" => Key::OrigPathFile,
        "path.file_escaped" => Key::OrigPathFileEscaped,
        "query" => Key::OrigQuery,
        "prefixed_query" => Key::OrigPrefixedQuery,
        _ => Key::OrigPathSegment(name.strip_prefix("path.")?.parse().ok()?),
    })
}

fn parse_network(bits: &str) -> Option<Key> {
    let (v4, v6) = bits.split_once(',').unwrap_or((bits, bits));
    Some(Key::RemoteNetwork {
        v4_bits: v4.parse().ok()?,
        v6_bits: v6.parse().ok()?,
    })
}

fn parse_tls(name: &str) -> Option<TlsKey> {
    Some(match name {
        "version" => TlsKey::Version,
        "cipher_suite" => TlsKey::CipherSuite,
        "resumed" => TlsKey::Resumed,
        "proto" => TlsKey::Proto,
        "proto_mutual" => TlsKey::ProtoMutual,
        "server_name" => TlsKey::ServerName,
        "ech" => TlsKey::Ech,
        _ => {
            let rest = name.strip_prefix("client.")?;
            match rest
                .strip_prefix("san.")
                .map(|san| san.split_once('.').unwrap_or((san, "")))
            {
                None => TlsKey::Client(ClientCertKey::parse(rest)?),
                Some((kind, "")) => TlsKey::ClientSan(SanKind::parse(kind)?, None),
                Some((kind, index)) => {
                    TlsKey::ClientSan(SanKind::parse(kind)?, Some(index.parse().ok()?))
                }
            }
        }
    })
}

fn parse_proxy(name: &str) -> Option<ProxyKey> {
    Some(match name {
        "upstream.address" => ProxyKey::UpstreamAddress,
        "upstream.hostport" => ProxyKey::UpstreamHostPort,
        "upstream.host" => ProxyKey::UpstreamHost,
        "upstream.port" => ProxyKey::UpstreamPort,
        "upstream.requests" => ProxyKey::UpstreamRequests,
        "upstream.max_requests" => ProxyKey::UpstreamMaxRequests,
        "upstream.fails" => ProxyKey::UpstreamFails,
        "upstream.latency" => ProxyKey::UpstreamLatency,
        "upstream.latency_ms" => ProxyKey::UpstreamLatencyMs,
        "upstream.duration" => ProxyKey::UpstreamDuration,
        "upstream.duration_ms" => ProxyKey::UpstreamDurationMs,
        "duration" => ProxyKey::Duration,
        "duration_ms" => ProxyKey::DurationMs,
        "retries" => ProxyKey::Retries,
        "status_code" => ProxyKey::StatusCode,
        "status_text" => ProxyKey::StatusText,
        "is_transport_error" => ProxyKey::TransportError,
        "active.target_upstream" => ProxyKey::ActiveTarget,
        _ => ProxyKey::Header(HeaderKey::new(name.strip_prefix("header.")?)),
    })
}

impl fmt::Display for HeaderKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}
