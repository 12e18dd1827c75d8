//! nginx's variables, and the model's placeholder for each.

/// What a variable stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variable {
    /// A placeholder.
    Placeholder(&'static str),
    /// A text that is the same everywhere.
    Text(&'static str),
    /// Something of the place where it is used.
    OfPlace(OfPlace),
    /// It is known and refused by name.
    NotYet,
}

/// What is known of the place where a variable is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfPlace {
    /// `$host`, which falls back to the name of the server.
    Host,
    /// `$server_name`
    ServerName,
    /// `$document_root`
    Root,
    /// `$request_filename`
    File,
    /// `$fastcgi_script_name`
    Script,
    /// `$fastcgi_path_info`
    PathInfo,
    /// `$proxy_host`
    ProxyHost,
    /// `$proxy_port`
    ProxyPort,
    /// `$realpath_root`
    RealRoot,
    /// `$invalid_referer`
    InvalidReferer,
    /// `$secure_link`
    SecureLink,
    /// `$secure_link_expires`
    SecureLinkExpires,
    /// `$modern_browser`
    ModernBrowser,
    /// `$ancient_browser`
    AncientBrowser,
    /// `$connections_…`, by what they count.
    Connections(&'static str),
}

/// The version of nginx that is followed.
pub const NGINX_VERSION: &str = "1.31.4";

use OfPlace as P;
use Variable::{NotYet, OfPlace as Of, Placeholder as As, Text};

/// All variables with one name.
pub const VARIABLES: &[(&str, Variable)] = &[
    ("ancient_browser", Of(P::AncientBrowser)),
    ("args", As("http.request.uri.query")),
    ("binary_remote_addr", As("http.vars.client_ip")),
    ("body_bytes_sent", As("nginx.body_bytes_sent")),
    ("bytes_sent", As("nginx.bytes_sent")),
    ("connection", As("nginx.connection")),
    ("connection_requests", As("nginx.connection_requests")),
    ("connection_time", As("nginx.connection_time")),
    ("connections_active", Of(P::Connections("active"))),
    ("connections_reading", Text("0")),
    ("connections_waiting", Of(P::Connections("waiting"))),
    ("connections_writing", Of(P::Connections("writing"))),
    ("content_length", As("nginx.http.Content-Length")),
    ("content_type", As("nginx.http.Content-Type")),
    ("date_gmt", As("nginx.date_gmt")),
    ("date_local", As("nginx.date_gmt")),
    ("document_root", Of(P::Root)),
    ("document_uri", As("http.request.uri.path")),
    ("fastcgi_path_info", Of(P::PathInfo)),
    ("fastcgi_script_name", Of(P::Script)),
    ("gzip_ratio", As("nginx.gzip_ratio")),
    ("host", Of(P::Host)),
    ("hostname", As("system.hostname")),
    ("http2", As("nginx.http2")),
    ("http3", As("nginx.http3")),
    ("https", As("nginx.https")),
    ("invalid_referer", Of(P::InvalidReferer)),
    ("is_args", As("nginx.is_args")),
    ("is_request_port", As("nginx.is_request_port")),
    ("limit_conn_status", As("nginx.limit_conn_status")),
    ("limit_rate", As("http.vars.nginx.limit_rate")),
    ("limit_req_status", As("nginx.limit_req_status")),
    ("modern_browser", Of(P::ModernBrowser)),
    ("msec", As("nginx.msec")),
    ("msie", As("nginx.msie")),
    ("nginx_version", Text(NGINX_VERSION)),
    ("pid", As("nginx.pid")),
    ("pipe", As("nginx.pipe")),
    (
        "proxy_add_x_forwarded_for",
        As("nginx.proxy_add_x_forwarded_for"),
    ),
    ("proxy_host", Of(P::ProxyHost)),
    ("proxy_port", Of(P::ProxyPort)),
    ("proxy_protocol_addr", As("nginx.proxy_protocol_addr")),
    ("proxy_protocol_port", As("nginx.proxy_protocol_port")),
    (
        "proxy_protocol_server_addr",
        As("nginx.proxy_protocol_server_addr"),
    ),
    (
        "proxy_protocol_server_port",
        As("nginx.proxy_protocol_server_port"),
    ),
    ("query_string", As("http.request.uri.query")),
    ("realip_remote_addr", As("http.request.remote.host")),
    ("realip_remote_port", As("http.request.remote.port")),
    ("realpath_root", Of(P::RealRoot)),
    ("remote_addr", As("http.vars.client_ip")),
    ("remote_port", As("nginx.remote_port")),
    ("remote_user", As("nginx.remote_user")),
    ("request", As("nginx.request")),
    ("request_body", As("http.request.body")),
    ("request_body_file", As("nginx.request_body_file")),
    ("request_completion", As("nginx.request_completion")),
    ("request_filename", Of(P::File)),
    ("request_id", As("nginx.request_id")),
    ("request_length", As("nginx.request_length")),
    ("request_method", As("nginx.request_method")),
    ("request_port", As("nginx.request_port")),
    ("request_time", As("nginx.request_time")),
    ("request_uri", As("nginx.request_uri")),
    ("scheme", As("http.request.scheme")),
    ("secure_link", Of(P::SecureLink)),
    ("secure_link_expires", Of(P::SecureLinkExpires)),
    ("server_addr", As("http.request.local.host")),
    ("server_name", Of(P::ServerName)),
    ("server_port", As("http.request.local.port")),
    ("server_protocol", As("http.request.proto")),
    ("slice_range", As("nginx.slice_range")),
    ("ssl_alpn_protocol", As("nginx.tls.alpn")),
    ("ssl_cipher", As("nginx.tls.cipher")),
    ("ssl_ciphers", As("nginx.tls.ciphers")),
    ("ssl_client_cert", As("nginx.tls.client.pem_field")),
    (
        "ssl_client_escaped_cert",
        As("nginx.tls.client.pem_escaped"),
    ),
    ("ssl_client_fingerprint", As("nginx.tls.client.sha1")),
    ("ssl_client_i_dn", As("nginx.tls.client.issuer")),
    (
        "ssl_client_i_dn_legacy",
        As("nginx.tls.client.issuer_slashes"),
    ),
    ("ssl_client_raw_cert", As("nginx.tls.client.pem")),
    ("ssl_client_s_dn", As("nginx.tls.client.subject")),
    (
        "ssl_client_s_dn_legacy",
        As("nginx.tls.client.subject_slashes"),
    ),
    ("ssl_client_serial", As("nginx.tls.client.serial")),
    // As with OpenSSL before 3.5: the library does not tell.
    ("ssl_client_sigalg", NotYet),
    ("ssl_client_v_end", As("nginx.tls.client.until")),
    ("ssl_client_v_remain", As("nginx.tls.client.days")),
    ("ssl_client_v_start", As("nginx.tls.client.from")),
    ("ssl_client_verify", As("nginx.tls.client.verify")),
    ("ssl_curve", As("nginx.tls.curve")),
    ("ssl_curves", As("nginx.tls.curves")),
    ("ssl_early_data", As("nginx.tls.early")),
    ("ssl_protocol", As("nginx.ssl_protocol")),
    ("ssl_server_name", As("nginx.tls.server_name")),
    ("ssl_session_id", As("nginx.tls.id")),
    ("ssl_session_reused", As("nginx.ssl_session_reused")),
    ("ssl_sigalg", NotYet),
    ("status", As("nginx.status")),
    ("tcpinfo_rcv_space", As("nginx.tcpinfo_rcv_space")),
    ("tcpinfo_rtt", As("nginx.tcpinfo_rtt")),
    ("tcpinfo_rttvar", As("nginx.tcpinfo_rttvar")),
    ("tcpinfo_snd_cwnd", As("nginx.tcpinfo_snd_cwnd")),
    ("time_iso8601", As("nginx.time_iso8601")),
    ("time_local", As("nginx.time_local")),
    ("uid_got", As("nginx.uid_got")),
    ("uid_reset", Text("")),
    ("uid_set", As("nginx.uid_set")),
    ("upstream_addr", As("nginx.upstream.addr")),
    (
        "upstream_bytes_received",
        As("nginx.upstream.bytes_received"),
    ),
    ("upstream_bytes_sent", As("nginx.upstream.bytes_sent")),
    ("upstream_cache_status", As("nginx.upstream_cache_status")),
    ("upstream_connect_time", As("nginx.upstream.connect_time")),
    ("upstream_header_time", As("nginx.upstream.header_time")),
    (
        "upstream_response_length",
        As("nginx.upstream.response_length"),
    ),
    ("upstream_response_time", As("nginx.upstream.response_time")),
    ("upstream_status", As("nginx.upstream.status")),
    ("uri", As("http.request.uri.path")),
];

/// Families of variables: the beginning of the name, and that of the placeholder; none where they are not built.
pub const FAMILIES: &[(&str, Option<&str>)] = &[
    ("arg_", Some("nginx.arg.")),
    ("cookie_", Some("nginx.cookie.")),
    ("http_", Some("nginx.http.")),
    ("proxy_protocol_tlv_", Some("nginx.proxy_protocol_tlv.")),
    ("sent_http_", Some("nginx.sent_http.")),
    ("sent_trailer_", Some("nginx.sent_trailer.")),
    ("upstream_cookie_", Some("nginx.upstream_cookie.")),
    ("upstream_http_", Some("nginx.upstream_http.")),
    ("upstream_trailer_", Some("nginx.upstream_trailer.")),
];

/// What the variable `name`, in lower case, stands for.
pub fn variable(name: &str) -> Option<Variable> {
    let found = VARIABLES.binary_search_by_key(&name, |(known, _)| known);
    found.ok().map(|at| VARIABLES[at].1)
}

/// Whether a configuration may give a variable of this name a value: of those that are there, as in nginx, only a few.
pub fn may_be_set(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    const SETTABLE: [&str; 7] = [
        "args",
        "invalid_referer",
        "limit_rate",
        "memcached_key",
        "proxy_host",
        "proxy_port",
        "uid_reset",
    ];
    variable(&name).is_none() || SETTABLE.contains(&name.as_str()) || name.starts_with("ssl_")
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_route::placeholder::Key;

    #[test]
    fn names_are_sorted() {
        assert!(VARIABLES.is_sorted_by(|a, b| a.0 < b.0));
        assert_eq!(variable("uri"), Some(As("http.request.uri.path")));
        assert_eq!(variable("nothing"), None);
    }

    #[test]
    fn every_placeholder_is_one() {
        for (name, variable) in VARIABLES {
            if let As(placeholder) = variable {
                let key = Key::parse(placeholder);
                assert!(!matches!(key, Key::Other(_)), "{name}: {placeholder}");
            }
        }
    }
}
