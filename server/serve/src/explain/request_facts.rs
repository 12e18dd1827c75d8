//! Describes the part of a request that a matcher examines. The compiled matchers decide whether they match.

use std::collections::BTreeMap;

use sluice_diag::shown;
use sluice_model::matcher::{FileMatcher, Matcher, Regexp};
use sluice_route::placeholder::Unknown;
use sluice_route::{Template, query};

use sluice_pipeline::context::Exchange;
use sluice_pipeline::expression::placeholder_names;
use sluice_pipeline::files::Root;
use sluice_pipeline::values::{At, client_ip, remote_ip};

/// `text` in backticks, safe for a terminal.
pub(super) fn quoted(text: &[u8]) -> String {
    format!("`{}`", shown(&String::from_utf8_lossy(text)))
}

/// Describes what `matcher` examined.
pub(super) fn seen(matcher: &Matcher, exchange: &Exchange) -> String {
    let path = || format!("path is {}", quoted(exchange.req.uri.path()));
    match matcher {
        Matcher::Host(_) if exchange.req.host.is_empty() => "the request names no host".to_owned(),
        Matcher::Host(_) => format!("host is {}", quoted(&exchange.req.host)),
        Matcher::Path(_) | Matcher::PathRegexp(_) => path(),
        Matcher::UrlPattern(_) => {
            let scheme = exchange.conn.scheme().as_str();
            let request = &exchange.req;
            let rest = [&request.authority[..], request.uri.as_bytes()].concat();
            format!(
                "the URL is {}",
                quoted(&[scheme.as_bytes(), b"://", &rest].concat())
            )
        }
        Matcher::Method(_) => format!(
            "method is {}",
            quoted(exchange.req.method.as_str().as_bytes())
        ),
        Matcher::Protocol(_) => {
            let scheme = exchange.conn.scheme().as_str();
            format!("protocol is `{scheme}`, {}", exchange.req.version.as_str())
        }
        Matcher::Tls(_) if exchange.conn.tls.is_some() => "the connection has TLS".to_owned(),
        Matcher::Tls(_) => "the connection has no TLS".to_owned(),
        Matcher::RemoteIp(_) => address("the peer", remote_ip(&exchange.conn)),
        Matcher::ClientIp(_) => address("the client", client_ip(exchange)),
        Matcher::Header(fields) => each(fields.keys(), |name| field(exchange, name)),
        Matcher::HeaderRegexp(fields) => each(fields.keys(), |name| field(exchange, name)),
        Matcher::Query(params) => each(params.keys(), |name| param(exchange, name)),
        Matcher::Vars(vars) => each(vars.keys(), |name| variable(exchange, name)),
        Matcher::VarsRegexp(vars) => regexps(vars, exchange),
        Matcher::File(file) => candidates(file, exchange),
        Matcher::Expression(expression) => placeholders(&expression.expr, exchange),
        Matcher::Not(sets) => each(sets.iter().flat_map(|set| &set.0), |inner| {
            seen(inner, exchange)
        }),
        Matcher::Other(name, _) => format!("nobody knows `{name}`"),
    }
}

fn each<T>(items: impl Iterator<Item = T>, say: impl Fn(T) -> String) -> String {
    let said: Vec<String> = items.map(say).collect();
    said.join(", ")
}

fn address(who: &str, ip: Option<std::net::IpAddr>) -> String {
    match ip {
        Some(ip) => format!("{who} is `{ip}`"),
        None => format!("{who} has no address"),
    }
}

fn field(exchange: &Exchange, name: &str) -> String {
    // Host is stored apart from the other headers.
    if name.eq_ignore_ascii_case("host") {
        return format!("{name} is {}", quoted(&exchange.req.authority));
    }
    let values: Vec<String> = exchange
        .req
        .fields
        .find(name.as_bytes())
        .map(quoted)
        .collect();
    match values.is_empty() {
        true => format!("{name} is absent"),
        false => format!("{name} is {}", values.join(" and ")),
    }
}

fn param(exchange: &Exchange, name: &str) -> String {
    let mut value = Vec::new();
    query::join_values(
        exchange.req.uri.query().unwrap_or_default(),
        name.as_bytes(),
        &mut value,
    );
    match value.is_empty() {
        true => format!("query `{name}` is absent or empty"),
        false => format!("query `{name}` is {}", quoted(&value)),
    }
}

/// The name and value of a variable or placeholder.
fn variable(exchange: &Exchange, name: &str) -> String {
    match name.starts_with('{') {
        true => format!("{name} is {}", quoted(&expanded(name, exchange))),
        false => {
            let value = exchange.context.vars.find(name).unwrap_or_default();
            format!("variable `{name}` is {}", quoted(value))
        }
    }
}

fn regexps(vars: &BTreeMap<String, Regexp>, exchange: &Exchange) -> String {
    each(vars.keys(), |name| variable(exchange, name))
}

/// The files that the matcher looked for.
fn candidates(file: &FileMatcher, exchange: &Exchange) -> String {
    let mut root = Vec::new();
    if let Ok(built) = Root::build(&file.root) {
        // If a value does not fit into the path, an empty root is shown.
        let _ = built.write(&At(exchange), &mut root);
    }
    let root = String::from_utf8_lossy(&root).into_owned();
    let tried = match file.try_files.as_slice() {
        [] => &["{http.request.uri.path}".to_owned()],
        tried => tried,
    };
    let say = |text: &String| {
        let name = expanded(text, exchange);
        match name.starts_with(b"=") {
            true => String::from_utf8_lossy(&name).into_owned(),
            false => quoted(&name),
        }
    };
    format!(
        "looked for {} in `{}`",
        each(tried.iter(), say),
        shown(&root)
    )
}

/// The values of the placeholders in an expression.
fn placeholders(expression: &str, exchange: &Exchange) -> String {
    let mut said: Vec<String> = Vec::new();
    for name in placeholder_names(expression) {
        let mut value = Vec::new();
        let template = Template::of_placeholder(name);
        template.expand(&At(exchange), Unknown::Empty, &mut value);
        let text = format!("{template} is {}", quoted(&value));
        if !said.contains(&text) {
            said.push(text);
        }
    }
    match said.is_empty() {
        true => "the expression".to_owned(),
        false => said.join(", "),
    }
}

fn expanded(text: &str, exchange: &Exchange) -> Vec<u8> {
    let mut out = Vec::new();
    if let Ok(template) = Template::parse(text) {
        template.expand(&At(exchange), Unknown::Empty, &mut out);
    }
    out
}
