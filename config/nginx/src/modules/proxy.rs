//! `ngx_http_proxy_module`: proxying over HTTP.

use std::collections::BTreeMap;

use sluice_diag::Diagnostic;
use sluice_model::Handler;
use sluice_model::handler::{HeaderOps, Headers};
use sluice_model::nginx::{LocationChange, NginxProxy, Target};
use sluice_model::proxy::{HttpTransport, KeepAlive, Resolver, ReverseProxy, Transport};

mod by_variable;
mod cookies;

pub use by_variable::application as application_by_variable;
pub use by_variable::grpc as grpc_by_variable;

use super::health_checks::{self, Via};
use super::upstream::{self, Group};
use super::upstream_url::{Url, with_grpc_scheme};
use super::{
    buffering, cache, forwarding, http_core, next_upstream, upstream_connection, upstream_tls,
};
use crate::definition::Takes::{Flag, Size, Words};
use crate::definition::Verdict::{Always, Partly};
use crate::definition::{Content, Definition, MANY, Wrong, many, once};
use crate::lower::level::Level;
use crate::lower::lowering::Lowering;
use crate::lower::text::{Facts, has_variables, literal};
use crate::tree::Directive;

/// The directives that are not in the tables of several modules.
pub const DIRECTIVES: &[Definition] = &[
    once("cache_convert_head", Flag).but(Partly(
        "with `off` responses to HEAD are cached only if the key contains \
         `$request_method`",
    )),
    once("cache_use_stale", Words(1, MANY)).of(&next_upstream::OF_HTTP),
    many("cookie_domain", Words(1, 2)).checked(cookies::changed),
    many("cookie_flags", Words(1, MANY))
        .of(&cookies::FLAGS)
        .checked(cookies::flagged),
    many("cookie_path", Words(1, 2)).checked(cookies::changed),
    once("headers_hash_bucket_size", Size).but(Always("tables grow as needed")),
    once("headers_hash_max_size", Size).but(Always("tables grow as needed")),
    once("http_version", Words(1, 1)).checked(version),
    forwarding::IGNORE_HEADERS,
    once("method", Words(1, 1)),
    next_upstream::NEXT_UPSTREAM.of(&next_upstream::OF_HTTP),
    once("pass", Words(1, 1)).content(lower),
    once("pass_trailers", Flag).but(Always("trailers are forwarded if they are announced")),
    many("redirect", Words(1, 2)).checked(redirected),
    buffering::SEND_LOWAT,
    once("set_body", Words(1, 1)),
    SET_HEADER,
];

/// `*_set_header`.
pub(super) const SET_HEADER: Definition = many("set_header", Words(2, 2));

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

/// Lowers `proxy_pass`.
fn lower(cx: &mut Lowering<'_>, content: Content<'_>) -> Option<Handler> {
    let Content {
        level,
        directive,
        facts,
        prefix,
    } = content;
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
    let connection = upstream_connection::lower(cx, level, facts, "proxy");
    let transport = HttpTransport {
        resolver,
        tls: url
            .is_tls
            .then(|| upstream_tls::lower(cx, level, &url, facts, "proxy")),
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
        local_address: connection.local_address,
        socket_buffers: upstream_connection::socket_buffers(level, "proxy"),
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
        health_checks,
        headers: headers(fields),
        dialect: Some(proxying),
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
    let forwarded = forwarding::lower(cx, level, facts, "proxy", &HIDDEN);
    NginxProxy {
        method: method.unwrap_or_default(),
        body,
        cookie_domains: cookies::changes(cx, level, facts, "proxy_cookie_domain"),
        cookie_paths: cookies::changes(cx, level, facts, "proxy_cookie_path"),
        cookie_flags: cookies::flags(cx, level, facts),
        naming: http_core::redirects(level, &facts.server_name),
        ..forwarded
    }
}

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

/// Checks the argument of `proxy_http_version`.
fn version(directive: &Directive) -> Option<Wrong> {
    match directive.arg(0)? {
        "1.0" | "1.1" | "2" => None,
        "3" => Some((
            0,
            "`1.0`, `1.1` and `2`, as in nginx; HTTP/3 to upstreams needs a Caddyfile (`versions 3`)",
        )),
        _ => Some((0, "`1.0`, `1.1` and `2`")),
    }
}

fn redirected(directive: &Directive) -> Option<Wrong> {
    let wanted = "`default`, `off`, or what is replaced and by what";
    cookies::alone(directive, wanted, &["off", "default"])
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

/// The `proxy_redirect` among directives of one block that mean nothing beside the others: what is wrong, and what helps.
pub fn misplaced_redirects(
    directives: &[Directive],
) -> Vec<(&Directive, &'static str, &'static str)> {
    let mut found = Vec::new();
    let mut is_passed = false;
    let redirects = directives
        .iter()
        .filter(|one| one.name() == "proxy_redirect");
    let is_several = redirects.count() > 1;
    for directive in directives {
        match (directive.name(), directive.arg(0)) {
            ("proxy_pass", _) => is_passed = true,
            ("proxy_redirect", Some("default")) if !is_passed => found.push((
                directive,
                "no `proxy_pass` stands before it, from which it would follow",
                "put it after `proxy_pass`, or remove it: it is the default",
            )),
            ("proxy_redirect", Some("off")) if is_several => found.push((
                directive,
                "other lines of this block say what is replaced",
                "keep it, or the others",
            )),
            _ => {}
        }
    }
    found
}
