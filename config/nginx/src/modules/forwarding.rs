//! What modules with upstreams forward of requests and responses. Each has these directives under its own prefix.

use sluice_model::nginx::NginxProxy;

use super::{buffering, http_core, next_upstream};
use crate::definition::Takes::{Flag, Words};
use crate::definition::{Definition, Keywords, MANY, many, once};
use crate::lower::level::Level;
use crate::lower::lowering::Lowering;
use crate::lower::text::Facts;

/// The directives on responses with headers.
pub const RESPONSES: &[Definition] = &[
    many("hide_header", Words(1, 1)),
    once("intercept_errors", Flag),
    many("pass_header", Words(1, 1)),
];

/// The directives on requests.
pub const REQUESTS: &[Definition] = &[
    once("ignore_client_abort", Flag),
    once("pass_request_body", Flag),
    once("pass_request_headers", Flag),
];

/// `*_ignore_headers`.
pub const IGNORE_HEADERS: Definition = many("ignore_headers", Words(1, MANY)).of(&Keywords {
    from: 0,
    words: &[
        "X-Accel-Redirect",
        "X-Accel-Expires",
        "X-Accel-Limit-Rate",
        "X-Accel-Buffering",
        "X-Accel-Charset",
        "Expires",
        "Cache-Control",
        "Set-Cookie",
        "Vary",
    ],
    wanted: "`Cache-Control`, `Expires`, `Set-Cookie`, `Vary` or a field of `X-Accel-`",
});

/// Lowers the directives that begin with `prefix`, those of buffers and of the next upstream included. `usual` are the
/// response headers that are not forwarded unless the configuration says so.
pub fn lower(
    cx: &mut Lowering<'_>,
    level: &Level<'_>,
    facts: &Facts,
    prefix: &str,
    usual: &[&str],
) -> NginxProxy {
    let forwarded = responses(cx, level, facts, prefix, usual);
    NginxProxy {
        drop_body: !level.is_on(&format!("{prefix}_pass_request_body"), true),
        drop_fields: !level.is_on(&format!("{prefix}_pass_request_headers"), true),
        ..buffering::both(cx, level, prefix, forwarded)
    }
}

/// As [`lower`], for a module that forwards requests as they are and buffers nothing.
pub fn responses(
    cx: &mut Lowering<'_>,
    level: &Level<'_>,
    facts: &Facts,
    prefix: &str,
    usual: &[&str],
) -> NginxProxy {
    NginxProxy {
        hide: hidden(level, prefix, usual),
        ignore: ignored(level, prefix),
        intercept: http_core::intercepted(level, &format!("{prefix}_intercept_errors")),
        ..next_upstream::lower(cx, level, facts, prefix)
    }
}

/// The response headers that are not forwarded: those in `usual` and those of the configuration.
fn hidden(level: &Level<'_>, prefix: &str, usual: &[&str]) -> Vec<String> {
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
fn ignored(level: &Level<'_>, prefix: &str) -> Vec<String> {
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
