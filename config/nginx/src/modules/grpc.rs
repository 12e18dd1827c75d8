//! `ngx_http_grpc_module`: proxying of gRPC calls over HTTP/2.

use sluice_model::Handler;
use sluice_model::nginx::NginxProxy;
use sluice_model::proxy::{HttpTransport, Resolver, ReverseProxy, Transport};

use super::health_checks::{self, Via};
use super::proxy::{self, grpc_by_variable};
use super::upstream::Group;
use super::upstream_url::{Url, with_grpc_scheme};
use super::{
    buffering, forwarding, http_core, next_upstream, upstream, upstream_connection, upstream_tls,
};
use crate::definition::Takes::Words;
use crate::definition::Verdict::Partly;
use crate::definition::{Content, Definition, once};
use crate::lower::level::Level;
use crate::lower::lowering::Lowering;
use crate::lower::text::{Facts, has_variables};

/// The directives that are not in the tables of several modules.
pub const DIRECTIVES: &[Definition] = &[
    buffering::HEAD_SIZE,
    forwarding::IGNORE_HEADERS.but(Partly(
        "`X-Accel-Buffering`, `X-Accel-Charset`, `X-Accel-Redirect` and \
         `X-Accel-Limit-Rate`; the others have no effect in sluice",
    )),
    next_upstream::NEXT_UPSTREAM.of(&next_upstream::OF_HTTP),
    once("pass", Words(1, 1)).content(lower),
    proxy::SET_HEADER,
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
fn lower(cx: &mut Lowering<'_>, content: Content<'_>) -> Option<Handler> {
    let Content {
        level,
        directive,
        facts,
        ..
    } = content;
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
    let connection = upstream_connection::lower(cx, level, facts, "grpc");
    let transport = HttpTransport {
        resolver,
        tls: url
            .is_tls
            .then(|| upstream_tls::lower(cx, level, url, facts, "grpc")),
        keep_alive: group.keep_alive,
        versions: vec!["h2c".to_owned(), "2".to_owned()],
        local_address: connection.local_address,
        socket_buffers: upstream_connection::socket_buffers(level, "grpc"),
        dial_timeout: connection.dial_timeout,
        response_header_timeout: connection.read_timeout,
        read_timeout: connection.read_timeout,
        write_timeout: connection.write_timeout,
        ..HttpTransport::default()
    };
    let via = Via {
        host: &host,
        headers: Some(&fields.set),
        timeout: connection.read_timeout,
    };
    let health_checks = health_checks::lower(cx, level, &via);
    Handler::ReverseProxy(Box::new(ReverseProxy {
        health_checks,
        transport: Some(Transport::Http(Box::new(transport))),
        load_balancing: group.balancing,
        upstreams: group.upstreams,
        headers: proxy::headers(fields),
        dialect: Some(NginxProxy {
            host,
            trailers: true,
            naming: http_core::redirects(level, &facts.server_name),
            ..forwarding::responses(cx, level, facts, "grpc", &HIDDEN)
        }),
        ..ReverseProxy::default()
    }))
}
