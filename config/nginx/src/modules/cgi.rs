//! What FastCGI, SCGI and uwsgi have in common: parameters of the application, and headers of its responses.

use std::collections::BTreeMap;

use sluice_model::proxy::{NginxProxy, SocketBuffers};

use super::{buffering, http_core, upstream};
use crate::lower::level::Level;
use crate::lower::lowering::Lowering;
use crate::lower::text::Facts;

/// The variables of the application, which of them are left out where they are empty; `name` is the directive.
pub fn params(
    cx: &mut Lowering<'_>,
    level: &Level<'_>,
    facts: &Facts,
    name: &str,
) -> Option<(BTreeMap<String, String>, Vec<String>)> {
    let (mut env, mut if_not_empty) = (BTreeMap::new(), Vec::new());
    for line in level.nearest(&[name]) {
        let variable = &line.args[0].text;
        match line.args.get(2) {
            Some(word) if word.text != "if_not_empty" => {
                return cx.invalid(word, name, "`if_not_empty` at its end");
            }
            Some(_) => if_not_empty.push(variable.clone()),
            None => {}
        }
        env.insert(variable.clone(), cx.text(&line.args[1], facts));
    }
    Some((env, if_not_empty))
}

/// How responses are forwarded; `prefix` is the prefix of the directives.
pub fn proxying(
    cx: &mut Lowering<'_>,
    level: &Level<'_>,
    facts: &Facts,
    prefix: &str,
) -> NginxProxy {
    const USUAL: [&str; 6] = [
        "Status",
        "X-Accel-Expires",
        "X-Accel-Redirect",
        "X-Accel-Limit-Rate",
        "X-Accel-Buffering",
        "X-Accel-Charset",
    ];
    let next = upstream::next(cx, level, facts, prefix);
    NginxProxy {
        hide: hidden(level, prefix, &USUAL),
        intercept: http_core::intercepted(level, &format!("{prefix}_intercept_errors")),
        drop_body: !level.is_on(&format!("{prefix}_pass_request_body"), true),
        drop_fields: !level.is_on(&format!("{prefix}_pass_request_headers"), true),
        ignore: ignored(level, prefix),
        ..buffering::both(cx, level, prefix, next)
    }
}

/// How much the system keeps of what comes from upstreams, and of what goes to them.
pub fn socket_buffers(level: &Level<'_>, prefix: &str) -> SocketBuffers {
    let size = |name: &str| {
        let bytes = level.size(&format!("{prefix}_socket_{name}"));
        bytes.map_or(0, |bytes| u32::try_from(bytes).unwrap_or(u32::MAX))
    };
    SocketBuffers {
        receive: size("rcvbuf"),
        send: size("sndbuf"),
    }
}

/// The response headers that are not forwarded: those in `usual` and those of the configuration.
pub fn hidden(level: &Level<'_>, prefix: &str, usual: &[&str]) -> Vec<String> {
    let (passed, hidden) = (
        format!("{prefix}_pass_header"),
        format!("{prefix}_hide_header"),
    );
    let passed = level.nearest(&[&passed]);
    let is_passed = |name: &str| {
        let mut names = passed.iter().filter_map(|line| line.arg(0));
        names.any(|passed| passed.eq_ignore_ascii_case(name))
    };
    let more = level.nearest(&[&hidden]);
    let more = more.iter().filter_map(|line| line.arg(0));
    let names = usual.iter().copied().chain(more);
    // What is to be passed is, even if it is to be hidden, too: a location may pass what its server hides.
    names
        .filter(|name| !is_passed(name))
        .map(str::to_owned)
        .collect()
}

/// The response headers to ignore, out of those that have an effect at all.
pub fn ignored(level: &Level<'_>, prefix: &str) -> Vec<String> {
    let lines = level.nearest(&[&format!("{prefix}_ignore_headers")]);
    let names: Vec<_> = lines.iter().flat_map(|line| &line.args).collect();
    const KNOWN: [&str; 4] = [
        "X-Accel-Buffering",
        "X-Accel-Charset",
        "X-Accel-Redirect",
        "X-Accel-Limit-Rate",
    ];
    KNOWN
        .into_iter()
        .filter(|known| {
            names
                .iter()
                .any(|name| name.text.eq_ignore_ascii_case(known))
        })
        .map(str::to_owned)
        .collect()
}
