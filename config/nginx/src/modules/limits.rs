//! `ngx_http_limit_req_module` and `ngx_http_limit_conn_module`: how often and how many at a time.

use std::collections::BTreeMap;

use sluice_diag::Diagnostic;
use sluice_model::handler::{InFlight, RateLimit, RateZone};
use sluice_model::{Duration, Handler};

use crate::lower::Lowering;
use crate::lower::level::Level;
use crate::lower::text::Facts;
use crate::registry::Takes::{Choice, Flag, Number, Words};
use crate::registry::Verdict::{Idle, OnlyAs, Partly};
use crate::registry::Word;
use crate::tree::{Directive, Word as Text};

const LEVELS: crate::registry::Takes = Choice(&["info", "notice", "warn", "error"]);

/// Those of requests.
pub const REQUESTS: &[Word] = &[
    Word::many("limit_req", Words(1, 3)).but(Partly(
        "`burst` and `nodelay`; without `nodelay` a request within the burst is let through at once, too. Refusals tell when to \
         come back",
    )),
    Word::once("limit_req_dry_run", Flag).but(OnlyAs(&["off"])),
    Word::once("limit_req_log_level", LEVELS).but(Idle("refusals are told at the level `debug`")),
    Word::once("limit_req_status", Number),
    Word::many("limit_req_zone", Words(3, 4)).but(Partly("a zone has up to 64 MiB, whatever its size says")),
];

/// Those of connections.
pub const CONNECTIONS: &[Word] = &[
    Word::many("limit_conn", Words(2, 2)).but(Partly("each place counts for itself")),
    Word::once("limit_conn_dry_run", Flag).but(OnlyAs(&["off"])),
    Word::once("limit_conn_log_level", LEVELS).but(Idle("refusals are told at the level `debug`")),
    Word::once("limit_conn_status", Number).but(OnlyAs(&["503"])),
    Word::many("limit_conn_zone", Words(2, 2)).but(Partly("a zone is as large as what is counted")),
];

/// The limits of a place.
pub fn lower(cx: &mut Lowering<'_>, level: &Level<'_>, facts: &Facts) -> Vec<Handler> {
    let mut zones = BTreeMap::new();
    for directive in level.nearest(&["limit_req"]) {
        if let Some((name, zone)) = requests(cx, level, directive, facts) {
            zones.insert(name, zone);
        }
    }
    let mut found = Vec::new();
    if !zones.is_empty() {
        let status = level
            .word("limit_req_status")
            .and_then(|status| status.parse().ok());
        found.push(Handler::RateLimit(Box::new(RateLimit {
            rate_limits: zones,
            status: status.unwrap_or(503),
            skip_empty: true,
            ..RateLimit::default()
        })));
    }
    for directive in level.nearest(&["limit_conn"]) {
        found.extend(connections(cx, level, directive, facts));
    }
    found
}

/// The value of a word such as `zone=one`.
fn param<'w>(words: &'w [Text], name: &str) -> Option<(&'w Text, &'w str)> {
    words.iter().find_map(|word| {
        let value = word.text.strip_prefix(name)?.strip_prefix('=')?;
        Some((word, value))
    })
}

/// The line that defines a zone.
fn zone_line<'t>(
    cx: &mut Lowering<'_>,
    level: &Level<'t>,
    directive: &str,
    name: &str,
    word: &Text,
) -> Option<&'t Directive> {
    let lines = level.everywhere(directive);
    let found = lines.into_iter().find(|line| {
        param(&line.args, "zone").is_some_and(|(_, zone)| zone.split(':').next() == Some(name))
    });
    if found.is_none() {
        cx.report.push(
            Diagnostic::error(
                "unknown-zone",
                format!("no `{directive}` is called `{name}`"),
            )
            .at(word.span, "not defined")
            .imported(word.import)
            .help(format!("define it in `http` with `{directive}`")),
        );
    }
    found
}

fn requests(
    cx: &mut Lowering<'_>,
    level: &Level<'_>,
    directive: &Directive,
    facts: &Facts,
) -> Option<(String, RateZone)> {
    let Some((word, name)) = param(&directive.args, "zone") else {
        return cx.invalid(directive.args.first()?, "limit_req", "`zone=NAME`");
    };
    let mut burst = 0;
    for word in &directive.args {
        match word.text.split_once('=').unwrap_or((&word.text, "")) {
            ("zone", _) | ("nodelay", "") => {}
            ("burst", number) => match number.parse::<i64>() {
                Ok(number @ 0..=1_000_000) => burst = number,
                _ => return cx.invalid(word, "limit_req", "`burst=` and a number"),
            },
            _ => {
                return cx.invalid(
                    word,
                    "limit_req",
                    "`zone=`, `burst=` and `nodelay`; `delay=` is not built yet",
                );
            }
        }
    }
    let line = zone_line(cx, level, "limit_req_zone", name, word)?;
    let key = cx.text(line.args.first()?, facts);
    let Some((rate_word, rate)) = param(&line.args, "rate") else {
        return cx.invalid(
            line.args.first()?,
            "limit_req_zone",
            "a key, `zone=NAME:SIZE` and `rate=10r/s`",
        );
    };
    let per = match (rate.strip_suffix("r/s"), rate.strip_suffix("r/m")) {
        (Some(count), _) => Some((count, 1)),
        (None, Some(count)) => Some((count, 60)),
        (None, None) => None,
    };
    let counted = per.and_then(|(count, seconds)| {
        let count = count.parse::<i64>().ok().filter(|count| *count > 0)?;
        Some((count, seconds))
    });
    let Some((max_events, seconds)) = counted else {
        return cx.invalid(rate_word, "limit_req_zone", "`rate=10r/s` or `rate=30r/m`");
    };
    let zone = RateZone {
        key,
        window: Duration::seconds(seconds),
        max_events,
        // The one that is on its way, and those that may come before their time.
        burst: burst + 1,
        ..RateZone::default()
    };
    Some((name.to_owned(), zone))
}

fn connections(
    cx: &mut Lowering<'_>,
    level: &Level<'_>,
    directive: &Directive,
    facts: &Facts,
) -> Option<Handler> {
    let (name, number) = (directive.args.first()?, directive.args.get(1)?);
    let Some(max) = number.text.parse::<i64>().ok().filter(|max| *max > 0) else {
        return cx.invalid(number, "limit_conn", "a zone and a number of 1 or more");
    };
    let line = zone_line(cx, level, "limit_conn_zone", &name.text, name)?;
    Some(Handler::InFlight(InFlight {
        max,
        key: cx.text(line.args.first()?, facts),
        skip_empty: true,
        ..InFlight::default()
    }))
}
