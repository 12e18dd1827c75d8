//! The names of nginx variables without an equivalent among Caddy's placeholders. `sluice-serve` provides their values.

use alloc::boxed::Box;
use alloc::string::String;

/// What `nginx.*` stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NginxKey {
    /// `host/NAME`: the host of the request, or `NAME` if the request has none.
    Host(Box<str>),
    /// `request_uri`: the request target as sent.
    RequestUri,
    /// `request`: the request line.
    Request,
    /// `is_args`: a question mark if there is a query.
    IsArgs,
    /// `arg.NAME`: a query parameter as sent.
    Argument(Box<str>),
    /// `http.NAME`: a request header; several values are joined by a comma and a space. `NAME` is the name of the
    /// header.
    Field(Box<str>),
    /// `sent_http.NAME`: a response header.
    SentField(Box<str>),
    /// `cookie.NAME`
    Cookie(Box<str>),
    /// `capture.N`: a group of the last regular expression that matched.
    Capture(u8),
    /// `uri_from.N`: the path without its first bytes.
    UriFrom(usize),
    /// `chosen_path`: the path of the file that `try_files` has chosen below the `alias` of a location with a pattern;
    /// else empty.
    ChosenPath,
    /// `pass.…`: the proxy destination, if it depends on variables.
    Pass(PassKey),
    /// `table.NAME`: the value of a lookup table.
    Table(Box<str>),
    /// `proxy_add_x_forwarded_for`
    AddForwardedFor,
    /// `https`: `on` over TLS.
    Https,
    /// `remote_user`: the user name in the request's credentials, whether or not they are accepted.
    RemoteUser,
    /// `remote_port`: the port of the client, even if a trusted proxy names the client.
    RemotePort,
    /// `status`: the status of the response.
    Status,
    /// `body_bytes_sent`: known once the response is complete.
    BodyBytesSent,
    /// `request_completion`: `OK` once the response was sent completely.
    RequestCompletion,
    /// `pipe`: `p` if the request was pipelined, i.e. received before the previous response was complete, else a dot.
    Pipe,
    /// `request_time`: in seconds with milliseconds.
    RequestTime,
    /// `time_local`, as in the `combined` log format.
    TimeLocal,
    /// `time_iso8601`
    TimeIso,
    /// `msec`: seconds since 1970 with milliseconds.
    Msec,
    /// `upstream.NAME`: one value for each upstream that was tried.
    Upstream(UpstreamKey),
    /// `upstream_cookie.NAME`: a cookie set by the last upstream.
    UpstreamCookie(Box<str>),
    /// `upstream_http.NAME`: a header of the upstream's response as it came; several values are joined by a comma and a
    /// space.
    UpstreamField(Box<str>),
    /// `upstream_trailer.NAME`: a trailer of the last upstream's response, once that is complete.
    UpstreamTrailer(Box<str>),
    /// `sent_trailer.NAME`: a trailer of the response, once that is complete.
    SentTrailer(Box<str>),
    /// `request_method`: the method that the client sent.
    RequestMethod,
    /// `request_port`: the port in the `Host` header.
    RequestPort,
    /// `is_request_port`: a colon if there is a `request_port`.
    IsRequestPort,
    /// `http2`: `h2`, or `h2c` without TLS.
    Http2,
    /// `h3` over HTTP/3.
    Http3,
    /// `connection`: the serial number of the connection.
    Connection,
    /// `connection_requests`: the number of requests received on the connection.
    ConnectionRequests,
    /// `connection_time`: seconds with milliseconds since it was accepted.
    ConnectionTime,
    /// `tcpinfo_rtt`: the round trip time of the connection in microseconds.
    TcpRtt,
    /// `tcpinfo_rttvar`: the variance of the round trip time.
    TcpRttVar,
    /// `tcpinfo_snd_cwnd`: its congestion window in segments.
    TcpSndCwnd,
    /// `tcpinfo_rcv_space`: its receive window in bytes.
    TcpRcvSpace,
    /// `limit_req_status`
    LimitReqStatus,
    /// `limit_conn_status`
    LimitConnStatus,
    /// `request_length`: bytes of request line, head and body as in HTTP/1.
    RequestLength,
    /// `bytes_sent`: bytes of status line, head and body as in HTTP/1.
    BytesSent,
    /// `msie`: `1` if the browser claims to be Internet Explorer.
    IsMsie,
    /// `slice_range`: the current slice as a `Range` header value.
    SliceRange,
    /// `date_gmt`: as in `Sunday, 22-Nov-2026 10:00:00 GMT`.
    DateGmt,
    /// `proxy_protocol_tlv.NAME`: an extension of a PROXY protocol header.
    ProxyExtension(Box<str>),
    /// `request_body_file`: the path of the file that holds the request body.
    RequestBodyFile,
    /// `proxy_protocol_addr`
    ProxyAddr,
    /// `proxy_protocol_port`
    ProxyPort,
    /// `proxy_protocol_server_addr`
    ProxyServerAddr,
    /// `proxy_protocol_server_port`
    ProxyServerPort,
    /// `pid`: the PID.
    Pid,
    /// `ssl_protocol`: the TLS version in OpenSSL's spelling.
    TlsProtocol,
    /// `ssl_session_reused`: `r` for a resumed session, else a dot.
    TlsReused,
    /// `tls.NAME`: a property of the handshake or of the client certificate.
    Tls(TlsKey),
    /// `request_id`: 32 random hexadecimal digits.
    RequestId,
    /// `uid_got`: the cookie that identifies the client, as received.
    UidGot,
    /// `uid_set`: the same cookie as sent to the client.
    UidSet,
    /// `gzip_ratio`: the compression ratio of the response.
    GzipRatio,
    /// `upstream_cache_status`: the result of the cache lookup.
    CacheStatus,
}

/// A part of the address that a request is proxied to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassKey {
    /// `pass.dial`: the address to dial.
    Dial,
    /// `pass.host`: the host as written in the address, with its port unless that is the default.
    Host,
    /// `pass.port`
    Port,
    /// `pass.uri`: path and query.
    Uri,
}

/// The keys of `nginx.upstream.*`, which have one value for each upstream that was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpstreamKey {
    /// `addr`
    Address,
    /// `status`
    Status,
    /// `connect_time`: seconds with milliseconds.
    ConnectTime,
    /// `header_time`
    HeaderTime,
    /// `response_time`
    ResponseTime,
    /// `response_length`: bytes of the body.
    ResponseLength,
    /// `bytes_sent`: to it.
    BytesSent,
    /// `bytes_received`: from it.
    BytesReceived,
}

/// What `nginx.tls.*` stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsKey {
    /// `cipher`, as OpenSSL calls it.
    Cipher,
    /// `ciphers`: those that the client offers, joined by colons.
    Ciphers,
    /// `curve`: the group of the key exchange, as OpenSSL calls it.
    Curve,
    /// `curves`: those that the client offers, joined by colons.
    Curves,
    /// `id`: digits that tell the session from all others.
    Id,
    /// `alpn`: the protocol that the handshake chose.
    Alpn,
    /// `server_name`: the name that the client asked for.
    ServerName,
    /// `early`: `1` before the end of the handshake.
    Early,
    /// `client.NAME`: of the certificate that the client has shown.
    Client(ClientKey),
}

/// What `nginx.tls.client.*` stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientKey {
    /// `verify`: `SUCCESS`, `NONE` or `FAILED:` and why.
    Verify,
    /// `subject`: its name (RFC 2253).
    Subject,
    /// `issuer`
    Issuer,
    /// `subject_slashes`: its name as OpenSSL wrote it once.
    SubjectSlashes,
    /// `issuer_slashes`
    IssuerSlashes,
    /// `serial`: hexadecimal digits.
    Serial,
    /// `sha1`: of all of it.
    Sha1,
    /// `from`: when its time begins.
    From,
    /// `until`: when its time ends.
    Until,
    /// `days`: how many are left.
    Days,
    /// `pem_field`: as PEM, its lines joined as those of a field were.
    PemField,
    /// `pem`: as PEM.
    Pem,
    /// `pem_escaped`: as PEM, escaped as in addresses.
    PemEscaped,
}

impl TlsKey {
    fn parse(name: &str) -> Option<TlsKey> {
        Some(match name {
            "cipher" => TlsKey::Cipher,
            "ciphers" => TlsKey::Ciphers,
            "curve" => TlsKey::Curve,
            "curves" => TlsKey::Curves,
            "id" => TlsKey::Id,
            "alpn" => TlsKey::Alpn,
            "server_name" => TlsKey::ServerName,
            "early" => TlsKey::Early,
            _ => TlsKey::Client(ClientKey::parse(name.strip_prefix("client.")?)?),
        })
    }

    /// Whether it needs what the client offered, which is not kept unless somebody asks for it.
    pub fn is_of_offer(self) -> bool {
        matches!(self, TlsKey::Ciphers | TlsKey::Curves | TlsKey::Id)
    }
}

impl ClientKey {
    fn parse(name: &str) -> Option<ClientKey> {
        Some(match name {
            "verify" => ClientKey::Verify,
            "subject" => ClientKey::Subject,
            "issuer" => ClientKey::Issuer,
            "subject_slashes" => ClientKey::SubjectSlashes,
            "issuer_slashes" => ClientKey::IssuerSlashes,
            "serial" => ClientKey::Serial,
            "sha1" => ClientKey::Sha1,
            "from" => ClientKey::From,
            "until" => ClientKey::Until,
            "days" => ClientKey::Days,
            "pem_field" => ClientKey::PemField,
            "pem" => ClientKey::Pem,
            "pem_escaped" => ClientKey::PemEscaped,
            _ => return None,
        })
    }
}

impl UpstreamKey {
    fn parse(name: &str) -> Option<UpstreamKey> {
        Some(match name {
            "addr" => UpstreamKey::Address,
            "status" => UpstreamKey::Status,
            "connect_time" => UpstreamKey::ConnectTime,
            "header_time" => UpstreamKey::HeaderTime,
            "response_time" => UpstreamKey::ResponseTime,
            "response_length" => UpstreamKey::ResponseLength,
            "bytes_sent" => UpstreamKey::BytesSent,
            "bytes_received" => UpstreamKey::BytesReceived,
            _ => return None,
        })
    }
}

impl NginxKey {
    pub(super) fn parse(name: &str) -> Option<NginxKey> {
        Some(match name {
            "request_uri" => NginxKey::RequestUri,
            "request" => NginxKey::Request,
            "is_args" => NginxKey::IsArgs,
            "proxy_add_x_forwarded_for" => NginxKey::AddForwardedFor,
            "https" => NginxKey::Https,
            "remote_user" => NginxKey::RemoteUser,
            "remote_port" => NginxKey::RemotePort,
            "status" => NginxKey::Status,
            "body_bytes_sent" => NginxKey::BodyBytesSent,
            "request_completion" => NginxKey::RequestCompletion,
            "pipe" => NginxKey::Pipe,
            "request_time" => NginxKey::RequestTime,
            "time_local" => NginxKey::TimeLocal,
            "time_iso8601" => NginxKey::TimeIso,
            "msec" => NginxKey::Msec,
            "request_method" => NginxKey::RequestMethod,
            "request_port" => NginxKey::RequestPort,
            "is_request_port" => NginxKey::IsRequestPort,
            "http2" => NginxKey::Http2,
            "http3" => NginxKey::Http3,
            "connection" => NginxKey::Connection,
            "connection_requests" => NginxKey::ConnectionRequests,
            "connection_time" => NginxKey::ConnectionTime,
            "tcpinfo_rtt" => NginxKey::TcpRtt,
            "tcpinfo_rttvar" => NginxKey::TcpRttVar,
            "tcpinfo_snd_cwnd" => NginxKey::TcpSndCwnd,
            "tcpinfo_rcv_space" => NginxKey::TcpRcvSpace,
            "limit_req_status" => NginxKey::LimitReqStatus,
            "limit_conn_status" => NginxKey::LimitConnStatus,
            "request_length" => NginxKey::RequestLength,
            "bytes_sent" => NginxKey::BytesSent,
            "date_gmt" => NginxKey::DateGmt,
            "msie" => NginxKey::IsMsie,
            "slice_range" => NginxKey::SliceRange,
            "proxy_protocol_addr" => NginxKey::ProxyAddr,
            "proxy_protocol_port" => NginxKey::ProxyPort,
            "proxy_protocol_server_addr" => NginxKey::ProxyServerAddr,
            "proxy_protocol_server_port" => NginxKey::ProxyServerPort,
            "request_body_file" => NginxKey::RequestBodyFile,
            "uid_got" => NginxKey::UidGot,
            "uid_set" => NginxKey::UidSet,
            "gzip_ratio" => NginxKey::GzipRatio,
            "pid" => NginxKey::Pid,
            "ssl_protocol" => NginxKey::TlsProtocol,
            "ssl_session_reused" => NginxKey::TlsReused,
            "request_id" => NginxKey::RequestId,
            "pass.dial" => NginxKey::Pass(PassKey::Dial),
            "pass.host" => NginxKey::Pass(PassKey::Host),
            "pass.port" => NginxKey::Pass(PassKey::Port),
            "chosen_path" => NginxKey::ChosenPath,
            "pass.uri" => NginxKey::Pass(PassKey::Uri),
            "upstream_cache_status" => NginxKey::CacheStatus,
            _ => return NginxKey::parse_family(name),
        })
    }

    fn parse_family(name: &str) -> Option<NginxKey> {
        if let Some(fallback) = name.strip_prefix("host/") {
            return Some(NginxKey::Host(fallback.into()));
        }
        let (family, rest) = name.split_once('.')?;
        Some(match family {
            "arg" => NginxKey::Argument(rest.into()),
            "http" => NginxKey::Field(rest.into()),
            "sent_http" => NginxKey::SentField(rest.into()),
            "sent_trailer" => NginxKey::SentTrailer(rest.into()),
            "upstream_http" => NginxKey::UpstreamField(rest.into()),
            "upstream_cookie" => NginxKey::UpstreamCookie(rest.into()),
            "upstream_trailer" => NginxKey::UpstreamTrailer(rest.into()),
            "cookie" => NginxKey::Cookie(rest.into()),
            "proxy_protocol_tlv" => NginxKey::ProxyExtension(rest.into()),
            "table" => NginxKey::Table(rest.into()),
            "tls" => NginxKey::Tls(TlsKey::parse(rest)?),
            "capture" => NginxKey::Capture(rest.parse().ok()?),
            "upstream" => NginxKey::Upstream(UpstreamKey::parse(rest)?),
            "uri_from" => NginxKey::UriFrom(rest.parse().ok()?),
            _ => return None,
        })
    }
}

/// The name under which the variable `name` of nginx is kept among those of a request.
pub fn variable_name(name: &str) -> String {
    alloc::format!("nginx.{name}")
}

#[cfg(test)]
mod tests {
    use super::super::Key;
    use super::*;

    #[test]
    fn variable_names_are_distinguished() {
        for (name, key) in [
            ("nginx.host/a.example", NginxKey::Host("a.example".into())),
            ("nginx.host/", NginxKey::Host("".into())),
            ("nginx.arg.a.b", NginxKey::Argument("a.b".into())),
            ("nginx.capture.9", NginxKey::Capture(9)),
            ("nginx.uri_from.12", NginxKey::UriFrom(12)),
            (
                "nginx.upstream.addr",
                NginxKey::Upstream(UpstreamKey::Address),
            ),
        ] {
            assert_eq!(Key::parse(name), Key::Nginx(key), "{name}");
        }
        for other in [
            "nginx.capture.x",
            "nginx.nothing",
            "nginx.upstream.x",
            "nginx.",
        ] {
            assert_eq!(Key::parse(other), Key::Other(other.into()));
        }
    }
}
