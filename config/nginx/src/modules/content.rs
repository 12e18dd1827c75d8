//! `ngx_http_stub_status_module`, `ngx_http_api_module` and `ngx_http_empty_gif_module`: built-in content; `ngx_http_referer_module` and
//! `ngx_http_secure_link_module`: variables derived from the request.

use sluice_diag::Diagnostic;
use sluice_model::Handler;
use sluice_model::nginx::{OwnContent, TableRow, VariableTable};

use crate::definition::Takes::{Nothing, Size, Words};
use crate::definition::Verdict::{Always, Partly};
use crate::definition::{Content, Definition, MANY, Wrong, many, once};
use crate::lower::level::Level;
use crate::lower::lowering::Lowering;
use crate::lower::text::{Derived, Facts, literal};
use crate::modules::browser;
use crate::tree::Directive;

/// Those of `stub_status`.
pub const STUB_STATUS: &[Definition] = &[once("stub_status", Words(0, 1))
    .but(Partly(
        "connections that are sending a head count as waiting",
    ))
    .content(lower)];

/// Those of nginx Plus's status.
pub const API: &[Definition] = &[
    once("api", Words(0, 1))
        .but(Partly(
            "read-only, with `nginx`, `processes`, `connections`, `workers` and, of `http`, `requests`, `server_zones`, \
             `location_zones` and `limit_reqs`; `sent` and `received` count bodies",
        ))
        .checked(api_argument)
        .content(lower_api),
    once("status_zone", Words(1, 1)),
];

/// `api` takes one parameter.
fn api_argument(directive: &Directive) -> Option<Wrong> {
    let word = directive.arg(0)?;
    (!matches!(word, "write=on" | "write=off")).then_some((0, "`write=on` or `write=off`"))
}

fn lower_api(cx: &mut Lowering<'_>, content: Content<'_>) -> Option<Handler> {
    if content.directive.arg(0) == Some("write=on") {
        cx.report.push(
            Diagnostic::error("unsupported-directive", "`api write=on` is not supported")
                .at(content.directive.span(), "the API is read-only")
                .imported(content.directive.name.import)
                .help("leave `write=on` out, and reload the configuration to change upstreams"),
        );
        return None;
    }
    lower(cx, content)
}

/// The zone in which the requests of a server are counted; empty for none.
pub fn zone_of_server(level: &Level<'_>) -> String {
    zone(level.own("status_zone").last())
}

/// The zone in which the requests are counted that end in a location, or in an `if` of one: its own, else that of the
/// location around it. That of the server counts all of its requests, and no location inherits it.
pub fn zone_of_location(level: &Level<'_>) -> String {
    let mut levels = level.locations();
    zone(levels.find_map(|level| level.own("status_zone").last()))
}

fn zone(directive: Option<&Directive>) -> String {
    let word = directive.and_then(|directive| directive.arg(0));
    word.filter(|word| *word != "off")
        .unwrap_or_default()
        .to_owned()
}

/// Those of `empty_gif`.
pub const EMPTY_GIF: &[Definition] = &[once("empty_gif", Nothing).content(lower)];

/// Those of `valid_referers`.
pub const REFERER: &[Definition] = &[
    once("referer_hash_bucket_size", Size).but(Always("tables grow as needed")),
    once("referer_hash_max_size", Size).but(Always("tables grow as needed")),
    many("valid_referers", Words(1, MANY)),
];

/// Those of `secure_link`.
pub const SECURE_LINK: &[Definition] = &[
    once("secure_link", Words(1, 1)),
    once("secure_link_md5", Words(1, 1)),
    once("secure_link_secret", Words(1, 1)),
];

/// The built-in content of a location.
fn lower(_: &mut Lowering<'_>, content: Content<'_>) -> Option<Handler> {
    Some(Handler::NginxContent(OwnContent {
        what: content.directive.name().to_owned(),
    }))
}

/// The tables that follow from a place, whose root is `root`.
pub fn derived(cx: &mut Lowering<'_>, level: &Level<'_>, facts: &Facts) -> Derived {
    let real_root = facts.root.as_ref().map(|root| {
        cx.derived_number(VariableTable {
            source: root.clone(),
            kind: "real_path".to_owned(),
            ..VariableTable::default()
        })
    });
    let mut derived = Derived {
        real_root,
        referer: referer(cx, level),
        link: None,
        browser: browser::tables(cx, level),
    };
    // A link may be made of the others.
    let facts = Facts {
        derived,
        ..facts.clone()
    };
    derived.link = link(cx, level, &facts);
    derived
}

fn referer(cx: &mut Lowering<'_>, level: &Level<'_>) -> Option<usize> {
    let row = |key: &str| TableRow {
        key: key.to_owned(),
        value: String::new(),
    };
    let mut rows = Vec::new();
    for word in level
        .nearest(&["valid_referers"])
        .iter()
        .flat_map(|line| &line.args)
    {
        match word.text.as_str() {
            "server_names" => {
                let names = level.nearest(&["server_name"]);
                let names = names.iter().flat_map(|line| &line.args);
                rows.extend(
                    names
                        .filter(|name| !name.text.is_empty())
                        .map(|name| row(&name.text)),
                );
            }
            text => {
                if let Some(pattern) = text.strip_prefix('~') {
                    cx.pattern(pattern, word);
                }
                rows.push(row(text));
            }
        }
    }
    if rows.is_empty() {
        return None;
    }
    Some(cx.derived_number(VariableTable {
        source: "{nginx.http.referer}".to_owned(),
        kind: "referer".to_owned(),
        rows,
        ..VariableTable::default()
    }))
}

fn link(cx: &mut Lowering<'_>, level: &Level<'_>, facts: &Facts) -> Option<(usize, usize)> {
    // A secret replaces what is set around it, and the other two replace a secret around them.
    let own = level.nearest(&["secure_link_secret", "secure_link", "secure_link_md5"]);
    let is_own = |name: &str| own.iter().find(|line| line.name() == name).copied();
    let secret = is_own("secure_link_secret");
    let (given, text) = match secret {
        Some(_) => (is_own("secure_link"), is_own("secure_link_md5")),
        None => (level.find("secure_link"), level.find("secure_link_md5")),
    };
    let (source, row) = match (secret, given, text) {
        (Some(secret), Some(other), _) | (Some(secret), None, Some(other)) => {
            cx.report.push(
                Diagnostic::error("invalid-value", "`secure_link_secret` beside `secure_link`")
                    .at(secret.span(), "links are checked in one way")
                    .imported(secret.name.import)
                    .also(other.span(), "the other one"),
            );
            return None;
        }
        (Some(secret), None, None) => {
            let word = secret.arg(0).unwrap_or_default();
            (String::new(), ("secret", word.to_owned()))
        }
        (None, Some(given), Some(text)) => {
            let source = cx.text(given.args.first()?, facts);
            // The text may name the time, which does not depend on it.
            let until = link_table(cx, "secure_link_expires", &source, ("md5", String::new()));
            let mut facts = facts.clone();
            facts.derived.link = Some((until, until));
            (source, ("md5", cx.text(text.args.first()?, &facts)))
        }
        (None, _, _) => return None,
    };
    let until = (row.0, String::new());
    let verdict = link_table(cx, "secure_link", &source, row);
    Some((
        verdict,
        link_table(cx, "secure_link_expires", &source, until),
    ))
}

fn link_table(cx: &mut Lowering<'_>, kind: &str, source: &str, row: (&str, String)) -> usize {
    cx.derived_number(VariableTable {
        source: source.to_owned(),
        kind: kind.to_owned(),
        rows: vec![TableRow {
            key: row.0.to_owned(),
            value: row.1,
        }],
        ..VariableTable::default()
    })
}

/// The rate at which a block sends its responses, if it sets one.
pub fn rate(cx: &mut Lowering<'_>, level: &Level<'_>, facts: &Facts) -> Option<Handler> {
    let rate = level.find("limit_rate").and_then(|line| line.args.first());
    let after = level.find("limit_rate_after");
    let after = after.and_then(|line| line.args.first());
    for (word, name) in [(rate, "limit_rate"), (after, "limit_rate_after")] {
        if let Some(word) = word.filter(|word| !word.text.contains('$'))
            && crate::lower::values::size(&word.text).is_none()
        {
            return cx.invalid(word, name, "a size such as `100k`");
        }
    }
    let is_set = cx.is_set("limit_rate");
    let says = rate.is_some_and(|word| word.text != "0");
    (says || is_set).then(|| {
        let mut text = |word: Option<&crate::tree::Word>| {
            word.map_or_else(|| literal("0"), |word| cx.text(word, facts))
        };
        Handler::NginxRate(sluice_model::nginx::ResponseRate {
            rate: text(rate),
            after: text(after),
        })
    })
}
