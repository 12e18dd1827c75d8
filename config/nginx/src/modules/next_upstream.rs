//! `*_next_upstream`, `*_next_upstream_timeout` and `*_next_upstream_tries`: when a request is sent to the next upstream.
//! Each module with upstreams has these directives under its own prefix.

use sluice_model::nginx::NginxProxy;

use crate::definition::Takes::{Number, Time, Words};
use crate::definition::Verdict::Partly;
use crate::definition::{Definition, Keywords, MANY, once};
use crate::lower::level::Level;
use crate::lower::lowering::Lowering;
use crate::lower::text::Facts;

/// The directives of all modules with upstreams.
pub const DIRECTIVES: &[Definition] = &[
    once("next_upstream_timeout", Time),
    once("next_upstream_tries", Number),
];

/// `*_next_upstream`, to which modules add their failures.
pub const NEXT_UPSTREAM: Definition = once("next_upstream", Words(1, MANY)).but(Partly(
    "completely buffered bodies are sent again, others if they have at most 64 KiB",
));

/// The failures of upstreams that are spoken to over HTTP.
pub const OF_HTTP: Keywords = Keywords {
    from: 0,
    words: &[
        "error",
        "timeout",
        "invalid_header",
        "non_idempotent",
        "http_500",
        "http_502",
        "http_503",
        "http_504",
        "http_403",
        "http_404",
        "http_429",
        "updating",
        "off",
    ],
    wanted: "`error`, `timeout`, `invalid_header`, `non_idempotent`, `http_500`, `http_502`, `http_503`, `http_504`, \
             `http_403`, `http_404`, `http_429`, `updating` or `off`",
};

/// The failures of applications.
pub const OF_CGI: Keywords = Keywords {
    from: 0,
    words: &[
        "error",
        "timeout",
        "invalid_header",
        "non_idempotent",
        "http_500",
        "http_503",
        "http_403",
        "http_404",
        "http_429",
        "updating",
        "off",
    ],
    wanted: "`error`, `timeout`, `invalid_header`, `non_idempotent`, `http_500`, `http_503`, `http_403`, `http_404`, \
             `http_429`, `updating` or `off`",
};

/// The settings of `proxy_next_upstream`, `proxy_next_upstream_tries` and `proxy_next_upstream_timeout`; `prefix` is
/// the prefix of the directives.
pub fn lower(cx: &mut Lowering<'_>, level: &Level<'_>, facts: &Facts, prefix: &str) -> NginxProxy {
    let meant = |text: &str| match (prefix, text) {
        ("memcached", "invalid_response") => "invalid_header".to_owned(),
        ("memcached", "not_found") => "http_404".to_owned(),
        (_, text) => text.to_owned(),
    };
    let name = format!("{prefix}_next_upstream");
    let reasons = match level.find(&name) {
        None => vec!["error".to_owned(), "timeout".to_owned()],
        Some(line) if line.args.iter().any(|word| word.text == "off") => Vec::new(),
        // `updating` concerns stale responses and is not a failure.
        Some(line) => {
            let words = line.args.iter().map(|word| meant(&word.text));
            words.filter(|word| word != "updating").collect()
        }
    };
    let tries = level.word(&format!("{name}_tries"));
    let mut early_hints = Vec::new();
    for line in level.nearest(&["early_hints"]) {
        early_hints.extend(line.args.iter().map(|word| cx.text(word, facts)));
    }
    NginxProxy {
        early_hints,
        next_upstream: reasons,
        ignore_client_abort: level.is_on(&format!("{prefix}_ignore_client_abort"), false),
        next_upstream_tries: tries.and_then(|tries| tries.parse().ok()).unwrap_or(0),
        next_upstream_timeout: level.time(&format!("{name}_timeout")).unwrap_or_default(),
        ..NginxProxy::default()
    }
}
