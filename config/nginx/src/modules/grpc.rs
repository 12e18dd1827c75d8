//! `ngx_http_grpc_module`: proxying of gRPC calls over HTTP/2.

use sluice_model::Handler;
use sluice_model::proxy::{HttpTransport, NginxProxy, Resolver, ReverseProxy, Transport};

use super::buffering::HEAD;
use super::proxy::{self, BIND, IGNORED, REPEATED, SIXTY, grpc_by_variable};
use super::upstream::Group;
use super::upstream_url::{Url, with_grpc_scheme};
use super::{cgi, http_core, upstream, upstream_tls};
use crate::definition::Takes::{Flag, Number, Size, Time, Words};
use crate::definition::Verdict::{Always, Idle};
use crate::definition::{Definition, MANY, many, once};
use crate::lower::level::Level;
use crate::lower::lowering::Lowering;
use crate::lower::text::{Facts, has_variables};
use crate::tree::Directive;

/// The directives.
pub const DIRECTIVES: &[Definition] = &[
    once("grpc_bind", Words(1, 2)).but(BIND),
    once("grpc_buffer_size", Size).but(HEAD),
    once("grpc_connect_timeout", Time),
    many("grpc_hide_header", Words(1, 1)),
    many("grpc_ignore_headers", Words(1, MANY)).but(IGNORED),
    once("grpc_intercept_errors", Flag),
    once("grpc_next_upstream", Words(1, MANY)).but(REPEATED),
    once("grpc_next_upstream_timeout", Time),
    once("grpc_next_upstream_tries", Number),
    once("grpc_pass", Words(1, 1)),
    many("grpc_pass_header", Words(1, 1)),
    once("grpc_read_timeout", Time),
    once("grpc_send_timeout", Time),
    many("grpc_set_header", Words(2, 2)),
    once("grpc_socket_keepalive", Flag).but(Always("connections are probed")),
    once("grpc_socket_rcvbuf", Size),
    once("grpc_socket_sndbuf", Size),
    once("grpc_ssl_certificate", Words(1, 1)),
    once("grpc_ssl_certificate_cache", Words(1, 3))
        .but(Always("certificates are read once, with the configuration")),
    once("grpc_ssl_certificate_key", Words(1, 1)),
    once("grpc_ssl_ciphers", Words(1, 1)).but(upstream_tls::CIPHERS),
    many("grpc_ssl_conf_command", Words(2, 2)).but(upstream_tls::COMMANDS),
    once("grpc_ssl_crl", Words(1, 1)).but(upstream_tls::REVOKED),
    once("grpc_ssl_name", Words(1, 1)).but(upstream_tls::NAME),
    once("grpc_ssl_password_file", Words(1, 1)).but(upstream_tls::PASSWORDS),
    once("grpc_ssl_protocols", Words(1, MANY)).but(upstream_tls::PROTOCOLS),
    once("grpc_ssl_server_name", Flag).but(upstream_tls::TOLD),
    once("grpc_ssl_session_reuse", Flag),
    once("grpc_ssl_trusted_certificate", Words(1, 1)),
    once("grpc_ssl_verify", Flag),
    once("grpc_ssl_verify_depth", Number).but(Idle("chains are verified as far as they go")),
];

/// Upstream response headers that are not forwarded.
const HIDDEN: [&str; 7] = [
    "Date",
    "Server",
    "X-Accel-Expires",
    "X-Accel-Redirect",
    "X-Accel-Limit-Rate",
    "X-Accel-Buffering",
    "X-Accel-Charset",
];

/// Lowers `grpc_pass`.
pub fn lower(
    cx: &mut Lowering<'_>,
    level: &Level<'_>,
    directive: &Directive,
    facts: &Facts,
) -> Option<Handler> {
    let word = directive.args.first()?;
    if has_variables(&word.text) {
        let one = |cx: &mut Lowering<'_>, url: Url<'_>, group, resolver| {
            pass_to(cx, level, &url, group, resolver, facts)
        };
        return grpc_by_variable(cx, level, word, facts, &one);
    }
    let text = with_grpc_scheme(&word.text);
    let is_grpc = text.starts_with("grpc://") || text.starts_with("grpcs://");
    let url = Url::parse(&text).filter(|url| is_grpc && url.path.is_none());
    let Some(url) = url else {
        return cx.invalid(word, "grpc_pass", "`grpc://` or `grpcs://` and an address");
    };
    let group = upstream::group(cx, url.host, url.port());
    Some(pass_to(cx, level, &url, group, None, facts))
}

fn pass_to(
    cx: &mut Lowering<'_>,
    level: &Level<'_>,
    url: &Url<'_>,
    group: Group,
    resolver: Option<Resolver>,
    facts: &Facts,
) -> Handler {
    let (fields, host, _) = proxy::set_headers(cx, level, facts, "grpc_set_header");
    let transport = HttpTransport {
        resolver,
        tls: url
            .is_tls
            .then(|| upstream_tls::lower(cx, level, url, "grpc")),
        keep_alive: group.keep_alive,
        versions: vec!["h2c".to_owned(), "2".to_owned()],
        local_address: proxy::bound(cx, level, "grpc_bind"),
        socket_buffers: cgi::socket_buffers(level, "grpc"),
        dial_timeout: level.time("grpc_connect_timeout").unwrap_or(SIXTY),
        response_header_timeout: level.time("grpc_read_timeout").unwrap_or(SIXTY),
        read_timeout: level.time("grpc_read_timeout").unwrap_or(SIXTY),
        write_timeout: level.time("grpc_send_timeout").unwrap_or(SIXTY),
        ..HttpTransport::default()
    };
    Handler::ReverseProxy(Box::new(ReverseProxy {
        transport: Some(Transport::Http(Box::new(transport))),
        load_balancing: group.balancing,
        upstreams: group.upstreams,
        headers: proxy::headers(fields),
        nginx: Some(NginxProxy {
            host,
            trailers: true,
            hide: cgi::hidden(level, "grpc", &HIDDEN),
            ignore: cgi::ignored(level, "grpc"),
            intercept: http_core::intercepted(level, "grpc_intercept_errors"),
            naming: http_core::redirects(level, &facts.server_name),
            ..upstream::next(cx, level, facts, "grpc")
        }),
        ..ReverseProxy::default()
    }))
}
