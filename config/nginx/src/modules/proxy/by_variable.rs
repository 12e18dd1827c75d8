//! `proxy_pass`, `fastcgi_pass`, `scgi_pass`, `uwsgi_pass` and `grpc_pass` with variables: the value may name any
//! upstream group of the configuration, or any other address. All possibilities are lowered, and the request selects
//! one.

use std::collections::BTreeMap;

use sluice_diag::Diagnostic;
use sluice_model::nginx::{LocationChange, PassByVariable, Target};
use sluice_model::proxy::Resolver;
use sluice_model::{Handler, Route};

use super::{To, pass_to};
use crate::limits::GROUPS_BY_VARIABLE_MAX;
use crate::lower::level::Level;
use crate::lower::lowering::Lowering;
use crate::lower::text::Facts;
use crate::modules::resolver;
use crate::modules::upstream::{self, Group};
use crate::modules::upstream_url::Url;
use crate::tree::Word;

/// What is dialled where no group is meant.
const DIAL: &str = "{nginx.pass.dial}";

/// Lowers `proxy_pass` with variables.
pub(super) fn proxy(
    cx: &mut Lowering<'_>,
    level: &Level<'_>,
    word: &Word,
    facts: &Facts,
) -> Option<Handler> {
    let schemes: &[(&str, bool)] = match word.text.as_str() {
        text if text.starts_with("http://") => &[("http://", false)],
        text if text.starts_with("https://") => &[("https://", true)],
        text if text.starts_with('$') => &[("http://", false), ("https://", true)],
        _ => {
            let wanted = "`http://` or `https://` and an address, or a variable that holds them";
            return cx.invalid(word, "proxy_pass", wanted);
        }
    };
    let redirects = redirects(cx, level, facts);
    let resolver = resolver::of_level(level);
    let names = group_names(cx, word)?;
    let mut to = BTreeMap::new();
    for (scheme, is_tls) in schemes {
        for name in names.iter().map(String::as_str).chain([""]) {
            // The port of a scheme: what is dialled otherwise brings its own.
            let port = if *is_tls { 443 } else { 80 };
            let group = match name {
                "" => by_dial(),
                name => upstream::group(cx, name, port),
            };
            let one = To {
                url: Url {
                    is_tls: *is_tls,
                    host: name,
                    path: None,
                },
                group,
                target: Some(Target {
                    path: "{nginx.pass.uri}".to_owned(),
                    cut: 0,
                    whole: true,
                }),
                redirects: redirects.clone(),
                resolver: resolver.clone().filter(|_| name.is_empty()),
            };
            let handler = pass_to(cx, level, one, facts)?;
            to.insert(
                format!("{scheme}{}", name.to_ascii_lowercase()),
                route(handler),
            );
        }
    }
    finish(cx, level, word, facts, to, 0)
}

/// Lowers `grpc_pass` for one group, or for what is dialled as the request says, by names of a resolver.
pub type OneCall<'c> = dyn Fn(&mut Lowering<'_>, Url<'_>, Group, Option<Resolver>) -> Handler + 'c;

/// Lowers `grpc_pass` with variables; `one` lowers it for one group, over TLS if its argument says so.
pub fn grpc(
    cx: &mut Lowering<'_>,
    level: &Level<'_>,
    word: &Word,
    facts: &Facts,
    one: &OneCall<'_>,
) -> Option<Handler> {
    let resolver = resolver::of_level(level);
    let names = group_names(cx, word)?;
    let mut to = BTreeMap::new();
    for (scheme, is_tls, port) in [("grpc://", false, 80), ("grpcs://", true, 443)] {
        for name in names.iter().map(String::as_str).chain([""]) {
            let group = match name {
                "" => by_dial(),
                name => upstream::group(cx, name, port),
            };
            let url = Url {
                is_tls,
                host: name,
                path: None,
            };
            let resolver = resolver.clone().filter(|_| name.is_empty());
            let handler = one(cx, url, group, resolver);
            let key = format!("{scheme}{}", name.to_ascii_lowercase());
            to.insert(key, route(handler));
        }
    }
    finish(cx, level, word, facts, to, 0)
}

/// Lowers `fastcgi_pass`, `scgi_pass` or `uwsgi_pass` with variables; `port` is that of addresses without one, and `one`
/// lowers it for one group.
pub fn application(
    cx: &mut Lowering<'_>,
    level: &Level<'_>,
    word: &Word,
    facts: &Facts,
    port: u16,
    one: &dyn Fn(&mut Lowering<'_>, Group) -> Option<Handler>,
) -> Option<Handler> {
    let mut to = BTreeMap::new();
    for name in group_names(cx, word)? {
        let group = upstream::group(cx, &name, port);
        to.insert(name.to_ascii_lowercase(), route(one(cx, group)?));
    }
    to.insert(String::new(), route(one(cx, by_dial())?));
    finish(cx, level, word, facts, to, port)
}

fn finish(
    cx: &mut Lowering<'_>,
    level: &Level<'_>,
    word: &Word,
    facts: &Facts,
    to: BTreeMap<String, Vec<Route>>,
    port: u16,
) -> Option<Handler> {
    Some(Handler::NginxPass(Box::new(PassByVariable {
        address: cx.text(word, facts),
        to,
        looks_up: level.find("resolver").is_some(),
        port,
    })))
}

fn by_dial() -> Group {
    Group {
        keep_alive: Some(upstream::usual_keep_alive()),
        ..Group::of(DIAL.to_owned())
    }
}

fn route(handler: Handler) -> Vec<Route> {
    vec![Route {
        handle: vec![handler],
        ..Route::default()
    }]
}

fn group_names(cx: &mut Lowering<'_>, word: &Word) -> Option<Vec<String>> {
    let names = cx.group_names();
    if names.len() <= GROUPS_BY_VARIABLE_MAX {
        return Some(names);
    }
    let title = format!(
        "an address with variables beside {} groups of upstreams",
        names.len()
    );
    cx.report.push(
        Diagnostic::error("too-many-groups", title)
            .at(word.span, "each of them may be meant")
            .imported(word.import)
            .note(format!(
                "at most {GROUPS_BY_VARIABLE_MAX} can be chosen from"
            ))
            .help("name the group, or choose among locations"),
    );
    None
}

/// Redirects are changed only where the configuration says how: which address they would begin with is not known.
fn redirects(cx: &mut Lowering<'_>, level: &Level<'_>, facts: &Facts) -> Vec<LocationChange> {
    for line in level.nearest(&["proxy_redirect"]) {
        if line.arg(0) == Some("default") {
            cx.report.push(
                Diagnostic::error(
                    "invalid-value",
                    "`proxy_redirect default` with variables in `proxy_pass`",
                )
                .at(
                    line.span(),
                    "what it would replace is known only with the request",
                )
                .imported(line.name.import)
                .help("write what is replaced, and by what"),
            );
            return Vec::new();
        }
    }
    super::redirects(cx, level, "", None, facts)
}
