//! `ngx_http_proxy_module`: proxying over HTTP.

use std::collections::BTreeMap;

use sluice_diag::Diagnostic;
use sluice_model::Handler;
use sluice_model::handler::{HeaderOps, Headers};
use sluice_model::proxy::{
    HttpTransport, KeepAlive, LocationChange, NginxProxy, Resolver, ReverseProxy, Target, Transport,
};

mod by_variable;
mod cookies;

pub use by_variable::application as application_by_variable;
pub use by_variable::grpc as grpc_by_variable;

use super::buffering::{self, BUFFER_SIZE, BUSY, FOLDER, LOWAT, WRITE};
use super::upstream::{self, Group};
use super::upstream_url::{Url, with_grpc_scheme};
use super::{cache, cgi, http_core, upstream_tls};
use crate::definition::Takes::{Choice, Flag, Number, Size, Time, Words};
use crate::definition::Verdict::{self, Always, Idle, Partly};
use crate::definition::{Definition, MANY, many, once};
use crate::lower::level::Level;
use crate::lower::lowering::Lowering;
use crate::lower::text::{Facts, has_variables, literal};
use crate::tree::Directive;

pub(super) const BIND: Verdict = Partly("an address without port and variables, or `off`");
pub(super) const IGNORED: Verdict = Partly(
    "`X-Accel-Buffering`, `X-Accel-Charset`, `X-Accel-Redirect` and `X-Accel-Limit-Rate`; of the others none has an effect \
     here anyway",
);
pub(super) const REPEATED: Verdict = Partly(
    "a body that waited here as a whole is sent again; one that did not, if it has up to 64 KiB",
);

/// The directives.
pub const DIRECTIVES: &[Definition] = &[
    once("proxy_bind", Words(1, 2)).but(BIND),
    once("proxy_buffer_size", Size).but(BUFFER_SIZE),
    once("proxy_buffering", Flag),
    once("proxy_buffers", Words(2, 2)),
    once("proxy_busy_buffers_size", Size).but(BUSY),
    once("proxy_cache", Words(1, 1)).but(cache::ZONE),
    once("proxy_cache_background_update", Flag),
    many("proxy_cache_bypass", Words(1, MANY)),
    once("proxy_cache_convert_head", Flag).but(Partly(
        "with `off` responses to HEAD are cached only if the key contains `$request_method`",
    )),
    once("proxy_cache_key", Words(1, 1)),
    once("proxy_cache_lock", Flag),
    once("proxy_cache_lock_age", Time),
    once("proxy_cache_lock_timeout", Time),
    once("proxy_cache_max_range_offset", Words(1, 1)),
    once("proxy_cache_methods", Words(1, MANY)),
    once("proxy_cache_min_uses", Number),
    many("proxy_cache_path", Words(2, MANY)).but(cache::PATH),
    many("proxy_cache_purge", Words(1, MANY)),
    once("proxy_cache_revalidate", Flag),
    once("proxy_cache_use_stale", Words(1, MANY)),
    many("proxy_cache_valid", Words(1, MANY)),
    once("proxy_connect_timeout", Time),
    many("proxy_cookie_domain", Words(1, 2)),
    many("proxy_cookie_flags", Words(1, MANY)),
    many("proxy_cookie_path", Words(1, 2)),
    once("proxy_headers_hash_bucket_size", Size).but(Always("tables grow by themselves")),
    once("proxy_headers_hash_max_size", Size).but(Always("tables grow by themselves")),
    once("proxy_force_ranges", Flag),
    many("proxy_hide_header", Words(1, 1)),
    once("proxy_http_version", Choice(&["1.0", "1.1", "2"])),
    once("proxy_ignore_client_abort", Flag),
    many("proxy_ignore_headers", Words(1, MANY)),
    once("proxy_intercept_errors", Flag),
    once("proxy_limit_rate", Words(1, 1)),
    once("proxy_max_temp_file_size", Size),
    once("proxy_method", Words(1, 1)),
    once("proxy_next_upstream", Words(1, MANY)).but(REPEATED),
    once("proxy_next_upstream_timeout", Time),
    once("proxy_next_upstream_tries", Number),
    many("proxy_no_cache", Words(1, MANY)),
    once("proxy_pass", Words(1, 1)),
    many("proxy_pass_header", Words(1, 1)),
    once("proxy_pass_request_body", Flag),
    once("proxy_pass_request_headers", Flag),
    once("proxy_pass_trailers", Flag).but(Always("trailers are forwarded if they are announced")),
    once("proxy_read_timeout", Time),
    many("proxy_redirect", Words(1, 2)),
    once("proxy_request_buffering", Flag),
    once("proxy_send_lowat", Size).but(LOWAT),
    once("proxy_send_timeout", Time),
    once("proxy_set_body", Words(1, 1)),
    many("proxy_set_header", Words(2, 2)),
    once("proxy_socket_keepalive", Flag).but(Always("connections are probed")),
    once("proxy_socket_rcvbuf", Size),
    once("proxy_socket_sndbuf", Size),
    once("proxy_ssl_certificate", Words(1, 1)),
    once("proxy_ssl_certificate_cache", Words(1, 3))
        .but(Always("certificates are read once, with the configuration")),
    once("proxy_ssl_certificate_key", Words(1, 1)),
    once("proxy_ssl_ciphers", Words(1, 1)).but(upstream_tls::CIPHERS),
    many("proxy_ssl_conf_command", Words(2, 2)).but(upstream_tls::COMMANDS),
    once("proxy_ssl_crl", Words(1, 1)).but(upstream_tls::REVOKED),
    once("proxy_ssl_name", Words(1, 1)).but(upstream_tls::NAME),
    once("proxy_ssl_password_file", Words(1, 1)).but(upstream_tls::PASSWORDS),
    once("proxy_ssl_protocols", Words(1, MANY)).but(upstream_tls::PROTOCOLS),
    once("proxy_ssl_server_name", Flag).but(upstream_tls::TOLD),
    once("proxy_ssl_session_reuse", Flag),
    once("proxy_ssl_trusted_certificate", Words(1, 1)),
    once("proxy_ssl_verify", Flag),
    once("proxy_ssl_verify_depth", Number).but(Idle("chains are verified as far as they go")),
    once("proxy_store", Words(1, 1)),
    once("proxy_store_access", Words(1, 3)),
    once("proxy_temp_file_write_size", Size).but(WRITE),
    once("proxy_temp_path", Words(1, 4)).but(FOLDER),
];

/// Upstream response headers that are not forwarded.
const HIDDEN: [&str; 8] = [
    "Date",
    "Server",
    "X-Pad",
    "X-Accel-Expires",
    "X-Accel-Redirect",
    "X-Accel-Limit-Rate",
    "X-Accel-Buffering",
    "X-Accel-Charset",
];

/// What `$proxy_host` and `$proxy_port` stand for.
pub fn facts(directive: &Directive) -> Option<(String, String)> {
    let text = directive.arg(0)?;
    if has_variables(text) {
        return Some((
            "{nginx.pass.host}".to_owned(),
            "{nginx.pass.port}".to_owned(),
        ));
    }
    let with_scheme = with_grpc_scheme(text);
    let url = Url::parse(match directive.name() {
        "grpc_pass" => &with_scheme,
        _ => text,
    })?;
    let host = match url.host.starts_with("unix:") {
        true => "localhost",
        false => url.host,
    };
    let port = host.rsplit_once(':').map(|(_, port)| port.to_owned());
    let usual = url.port().to_string();
    // The port that the scheme has anyway is left out.
    let shown = host.strip_suffix(&format!(":{usual}")).unwrap_or(host);
    Some((literal(shown), port.unwrap_or(usual)))
}

/// Lowers `proxy_pass`; `prefix` is the path of the location, where it is one that is compared from the left.
pub fn lower(
    cx: &mut Lowering<'_>,
    level: &Level<'_>,
    directive: &Directive,
    prefix: Option<&str>,
    facts: &Facts,
) -> Option<Handler> {
    let word = directive.args.first()?;
    if has_variables(&word.text) {
        return by_variable::proxy(cx, level, word, facts);
    }
    let Some(url) = Url::parse(&word.text) else {
        return cx.invalid(word, "proxy_pass", "`http://` or `https://` and an address");
    };
    let to = To {
        url,
        group: upstream::group(cx, url.host, url.port()),
        target: target(cx, &url, word, prefix),
        redirects: redirects(cx, level, word.text.as_str(), prefix, facts),
        resolver: None,
    };
    pass_to(cx, level, to, facts)
}

/// Where requests are proxied to.
struct To<'a> {
    url: Url<'a>,
    group: Group,
    target: Option<Target>,
    redirects: Vec<LocationChange>,
    resolver: Option<Resolver>,
}

fn pass_to(cx: &mut Lowering<'_>, level: &Level<'_>, to: To<'_>, facts: &Facts) -> Option<Handler> {
    let url = to.url;
    let resolver = to.resolver;
    let Group {
        upstreams,
        balancing,
        keep_alive,
    } = to.group;
    let (fields, host, upgrade) = set_headers(cx, level, facts, "proxy_set_header");
    let version = level.word("proxy_http_version");
    let transport = HttpTransport {
        resolver,
        tls: url
            .is_tls
            .then(|| upstream_tls::lower(cx, level, &url, "proxy")),
        keep_alive: match version {
            Some("1.0") => Some(KeepAlive {
                enabled: Some(false),
                ..KeepAlive::default()
            }),
            _ => keep_alive,
        },
        versions: match version {
            Some("2") => vec!["h2c".to_owned(), "2".to_owned()],
            _ => Vec::new(),
        },
        local_address: bound(cx, level, "proxy_bind"),
        socket_buffers: cgi::socket_buffers(level, "proxy"),
        dial_timeout: level.time("proxy_connect_timeout").unwrap_or(SIXTY),
        response_header_timeout: level.time("proxy_read_timeout").unwrap_or(SIXTY),
        read_timeout: level.time("proxy_read_timeout").unwrap_or(SIXTY),
        write_timeout: level.time("proxy_send_timeout").unwrap_or(SIXTY),
        ..HttpTransport::default()
    };
    let proxying = NginxProxy {
        host,
        target: to.target,
        upgrade,
        http10: version == Some("1.0"),
        redirects: to.redirects,
        ..proxying(cx, level, facts)
    };
    let proxy = ReverseProxy {
        transport: Some(Transport::Http(Box::new(transport))),
        load_balancing: balancing,
        upstreams,
        headers: headers(fields),
        nginx: Some(proxying),
        ..ReverseProxy::default()
    };
    cache::around(cx, level, "proxy", facts, proxy)
}

/// How requests are proxied, except for the destination.
fn proxying(cx: &mut Lowering<'_>, level: &Level<'_>, facts: &Facts) -> NginxProxy {
    let mut text = |name: &str| {
        let word = level.find(name).and_then(|line| line.args.first());
        word.map(|word| cx.text(word, facts))
    };
    let (method, body) = (text("proxy_method"), text("proxy_set_body"));
    let next = upstream::next(cx, level, facts, "proxy");
    NginxProxy {
        hide: cgi::hidden(level, "proxy", &HIDDEN),
        ignore: cgi::ignored(level, "proxy"),
        intercept: http_core::intercepted(level, "proxy_intercept_errors"),
        method: method.unwrap_or_default(),
        body,
        drop_fields: !level.is_on("proxy_pass_request_headers", true),
        drop_body: !level.is_on("proxy_pass_request_body", true),
        cookie_domains: cookies::changes(cx, level, facts, "proxy_cookie_domain"),
        cookie_paths: cookies::changes(cx, level, facts, "proxy_cookie_path"),
        cookie_flags: cookies::flags(cx, level, facts),
        naming: http_core::redirects(level, &facts.server_name),
        ..buffering::both(cx, level, "proxy", next)
    }
}

/// nginx's default timeout.
pub const SIXTY: sluice_model::Duration = sluice_model::Duration::seconds(60);

pub(super) fn headers(request: HeaderOps) -> Option<Headers> {
    (request != HeaderOps::default()).then_some(Headers {
        request: Some(request),
        response: None,
    })
}

/// The fields that are set, the host, and whether a client may switch to another protocol: nginx passes that on where
/// both `Upgrade` and `Connection` are set.
pub(super) fn set_headers(
    cx: &mut Lowering<'_>,
    level: &Level<'_>,
    facts: &Facts,
    name: &str,
) -> (HeaderOps, String, bool) {
    let mut ops = HeaderOps::default();
    let mut host = facts
        .proxy
        .as_ref()
        .map(|(host, _)| host.clone())
        .unwrap_or_default();
    let (mut upgrade, mut connection) = (false, false);
    let mut set: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for directive in level.nearest(&[name]) {
        let name = &directive.args[0].text;
        let value = cx.text(&directive.args[1], facts);
        match name.to_ascii_lowercase().as_str() {
            "host" => host = value,
            "upgrade" => upgrade = !value.is_empty(),
            // Whether a connection is kept is the business of `keepalive` here.
            "connection" => connection = !value.is_empty() && value != "close",
            "content-length" | "transfer-encoding" | "te" | "keep-alive" | "expect" => {}
            _ if value.is_empty() => ops.delete.push(name.clone()),
            _ => set.entry(name.clone()).or_default().push(value),
        }
    }
    ops.set = set;
    (ops, host, upgrade && connection)
}

/// The address that upstreams are dialled from; none where it is empty.
pub(super) fn bound(cx: &mut Lowering<'_>, level: &Level<'_>, name: &str) -> String {
    let Some(line) = level.find(name) else {
        return String::new();
    };
    let word = &line.args[0];
    if let Some(second) = line.args.get(1) {
        let wanted =
            "an address alone; `transparent` needs privileges that this server does not keep";
        let _: Option<()> = cx.invalid(second, name, wanted);
    }
    match word.text.as_str() {
        "off" => String::new(),
        text if text.parse::<std::net::IpAddr>().is_ok() => text.to_owned(),
        _ => {
            let wanted = "an IP address without port and variables, or `off`";
            let _: Option<()> = cx.invalid(word, name, wanted);
            String::new()
        }
    }
}

/// With a path in the address, that path stands in place of the location's.
fn target(
    cx: &mut Lowering<'_>,
    url: &Url<'_>,
    word: &crate::tree::Word,
    prefix: Option<&str>,
) -> Option<Target> {
    let path = url.path?;
    let Some(prefix) = prefix else {
        cx.report.push(
            Diagnostic::error("misplaced-path", "`proxy_pass` with a path in a location without one")
                .at(word.span, format!("`{path}` would replace no part of the path"))
                .imported(word.import)
                .help("leave the path out; in a location by a pattern, in `@name` and in `if` none may stand"),
        );
        return None;
    };
    Some(Target {
        path: match path.starts_with('?') {
            true => format!("/{path}"),
            false => path.to_owned(),
        },
        cut: u32::try_from(prefix.len()).unwrap_or(u32::MAX),
        whole: false,
    })
}

fn redirects(
    cx: &mut Lowering<'_>,
    level: &Level<'_>,
    url: &str,
    prefix: Option<&str>,
    facts: &Facts,
) -> Vec<LocationChange> {
    // What stands there for the location itself: its path, or without one all of the address is cut.
    let usual = prefix.map(|prefix| {
        let has_path = Url::parse(url).is_some_and(|url| url.path.is_some());
        let from = match has_path {
            true => url.to_owned(),
            false => format!("{url}/"),
        };
        LocationChange {
            from: literal(&from),
            pattern: String::new(),
            to: match has_path {
                true => literal(prefix),
                false => "/".to_owned(),
            },
        }
    });
    let written = level.nearest(&["proxy_redirect"]);
    if written.is_empty() {
        return usual.into_iter().collect();
    }
    let mut found = Vec::new();
    for directive in written {
        match directive.args.as_slice() {
            [word] if word.text == "off" => return Vec::new(),
            [word] if word.text == "default" => found.extend(usual.clone()),
            [from, to] => {
                let to = cx.text(to, facts);
                let change = match from.text.strip_prefix('~') {
                    None => LocationChange {
                        from: cx.text(from, facts),
                        pattern: String::new(),
                        to,
                    },
                    Some(pattern) => {
                        let pattern = match pattern.strip_prefix('*') {
                            Some(pattern) => format!("(?i){pattern}"),
                            None => pattern.to_owned(),
                        };
                        LocationChange {
                            from: String::new(),
                            pattern: cx.pattern(&pattern, from),
                            to,
                        }
                    }
                };
                found.push(change);
            }
            [word, ..] => {
                let _: Option<()> = cx.invalid(
                    word,
                    "proxy_redirect",
                    "`default`, `off`, or what is replaced and by what",
                );
            }
            [] => {}
        }
    }
    found
}
