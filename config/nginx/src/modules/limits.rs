//! `ngx_http_limit_req_module` and `ngx_http_limit_conn_module`: rate limits and concurrency limits.

use std::collections::BTreeMap;

use sluice_diag::Diagnostic;
use sluice_model::handler::{RateLimit, RateZone, SharedLimit};
use sluice_model::nginx::{ConnectionLimit, ConnectionLimits};
use sluice_model::{Dialect, Duration, Handler};

use super::overload;
use crate::arguments::{ZONE_BYTES_MIN, not_in};
use crate::definition::Repeats::{OncePerName, OncePerZone};
use crate::definition::Takes::{Choice, Flag, Number, Words};
use crate::definition::Verdict::Partly;
use crate::definition::Wrong;
use crate::definition::{Definition, many, once};
use crate::lower::level::Level;
use crate::lower::lowering::Lowering;
use crate::lower::text::Facts;
use crate::lower::values::{size, time};
use crate::tree::{Directive, Word as Text};

const LEVELS: crate::definition::Takes = Choice(&["info", "notice", "warn", "error"]);

/// Those of requests.
pub const REQUESTS: &[Definition] = &[
    many("limit_req", Words(1, 4))
        .but(Partly("rejections also contain `Retry-After`"))
        .checked(limit_req)
        .repeated(OncePerZone),
    once("limit_req_dry_run", Flag),
    once("limit_req_log_level", LEVELS),
    once("limit_req_status", Number).checked(check_status),
    many("limit_req_zone", Words(3, 8))
        .but(Partly(
            "a zone uses up to 64 MiB regardless of its size; `sync` alone has no effect, `sync=redis://…` shares the zone",
        ))
        .checked(zone)
        .repeated(OncePerZone)
        .named(),
];

/// Those of connections.
pub const CONNECTIONS: &[Definition] = &[
    many("limit_conn", Words(2, 2))
        .checked(limit_conn)
        .repeated(OncePerName),
    once("limit_conn_dry_run", Flag),
    once("limit_conn_log_level", LEVELS),
    once("limit_conn_status", Number).checked(check_status),
    many("limit_conn_zone", Words(2, 6))
        .but(Partly(
            "the size of the zone grows with its entries; `sync=redis://…` shares the zone",
        ))
        .checked(zone)
        .repeated(OncePerZone)
        .named(),
];

/// The limits of a place: those of connections first, as nginx has it, and `overload` last, which lets requests wait.
pub fn lower(cx: &mut Lowering<'_>, level: &Level<'_>, facts: &Facts) -> Vec<Handler> {
    let mut found = Vec::new();
    let limits: Vec<ConnectionLimit> = level
        .nearest(&["limit_conn"])
        .into_iter()
        .filter_map(|line| connections(cx, level, line, facts))
        .collect();
    if !limits.is_empty() {
        found.push(Handler::NginxConnections(ConnectionLimits {
            limits,
            status: status(level, "limit_conn_status"),
            dry_run: level.is_on("limit_conn_dry_run", false),
            log_level: log_level(level, "limit_conn_log_level"),
        }));
    }
    let mut zones = BTreeMap::new();
    for directive in level.nearest(&["limit_req"]) {
        if let Some((name, zone)) = requests(cx, level, directive, facts) {
            zones.insert(name, zone);
        }
    }
    if !zones.is_empty() {
        found.push(Handler::RateLimit(Box::new(RateLimit {
            rate_limits: zones,
            status: match status(level, "limit_req_status") {
                0 => 503,
                status => status,
            },
            dialect: Dialect::Nginx,
            dry_run: level.is_on("limit_req_dry_run", false),
            log_level: log_level(level, "limit_req_log_level"),
            ..RateLimit::default()
        })));
    }
    found.extend(overload::lower(cx, level, facts));
    found
}

fn log_level(level: &Level<'_>, name: &str) -> String {
    match level.word(name) {
        None | Some("error") => String::new(),
        Some(word) => word.to_owned(),
    }
}

/// The status of refusals, 0 where nothing is said.
fn status(level: &Level<'_>, name: &str) -> u16 {
    let word = level.word(name);
    word.and_then(|word| word.parse().ok()).unwrap_or_default()
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
    let (word, name) = param(&directive.args, "zone")?;
    let number = |name: &str| param(&directive.args, name).and_then(|(_, text)| text.parse().ok());
    let burst = number("burst").map_or(0, i64::from);
    let is_plain = !directive.args.iter().any(|word| word.text == "nodelay");
    let delay = is_plain.then(|| number("delay").unwrap_or_default());
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
        (None, None) => Some((rate, 1)),
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
        // Without a burst nothing comes before its time.
        delay: delay.filter(|_| burst > 0),
        shared: shared(&line.args),
        ..RateZone::default()
    };
    Some((name.to_owned(), zone))
}

/// How several servers share a zone: the words of its line that begin with `sync`.
fn shared(words: &[Text]) -> Option<SharedLimit> {
    let text = |name: &str| param(words, name).map_or("", |(_, value)| value);
    Some(SharedLimit {
        store: Some(text("sync")).filter(|url| !url.is_empty())?.to_owned(),
        ca: text("sync_ca").to_owned(),
        mode: text("sync_mode").to_owned(),
        on_error: text("sync_on_error").to_owned(),
        deadline: time(text("sync_deadline")).unwrap_or_default(),
        ..SharedLimit::default()
    })
}

/// What is wrong with a word that begins with `sync`, if it does.
fn check_sync(directive: &str, word: &str, all: &[Text]) -> Option<&'static str> {
    let (name, value) = word.split_once('=')?;
    let is_shared = param(all, "sync").is_some();
    match (name, value) {
        ("sync", url) if SCHEMES.iter().any(|scheme| url.starts_with(scheme)) => None,
        ("sync", _) => Some("`sync=redis://HOST`"),
        ("sync_mode", _) if directive == "limit_conn_zone" => {
            Some("no `sync_mode=`: slots are always leased")
        }
        ("sync_mode" | "sync_on_error" | "sync_deadline" | "sync_ca", _) if !is_shared => {
            Some("`sync=redis://HOST` beside it")
        }
        ("sync_mode", "exact" | "leased") => None,
        ("sync_mode", _) => Some("`sync_mode=exact` or `sync_mode=leased`"),
        ("sync_on_error", "open" | "closed" | "local") => None,
        ("sync_on_error", _) => Some("`sync_on_error=open`, `closed` or `local`"),
        ("sync_deadline", text) if time(text).is_some() => None,
        ("sync_deadline", _) => Some("`sync_deadline=5ms`, at most `1s`"),
        ("sync_ca", file) if !file.is_empty() => None,
        ("sync_ca", _) => Some("`sync_ca=FILE`"),
        _ => Some("`sync=`, `sync_mode=`, `sync_on_error=`, `sync_deadline=` or `sync_ca=`"),
    }
}

/// What the URL of a store begins with.
const SCHEMES: [&str; 6] = [
    "redis://",
    "rediss://",
    "valkey://",
    "valkeys://",
    "unix:///",
    "redis+unix:///",
];

fn connections(
    cx: &mut Lowering<'_>,
    level: &Level<'_>,
    directive: &Directive,
    facts: &Facts,
) -> Option<ConnectionLimit> {
    let (name, number) = (directive.args.first()?, directive.args.get(1)?);
    let max = number.text.parse().ok()?;
    let line = zone_line(cx, level, "limit_conn_zone", &name.text, name)?;
    Some(ConnectionLimit {
        zone: name.text.clone(),
        key: cx.text(line.args.first()?, facts),
        max,
        shared: shared(&line.args),
    })
}

fn check_status(directive: &Directive) -> Option<Wrong> {
    not_in(directive, 400..=599, "a status from 400 to 599")
}

fn limit_conn(directive: &Directive) -> Option<Wrong> {
    let is_number = |text: &str| text.parse::<u16>().is_ok_and(|count| count > 0);
    (!is_number(directive.arg(1)?)).then_some((1, "a zone and a number from 1 to 65535"))
}

fn limit_req(directive: &Directive) -> Option<Wrong> {
    const BOUND: u32 = 1_000_000;
    let mut words = directive.args.iter().enumerate();
    let is_number = |text: &str| {
        text.parse::<u32>()
            .is_ok_and(|number| (1..=BOUND).contains(&number))
    };
    let found = words.find_map(|(at, word)| {
        let wanted = match word.text.split_once('=').unwrap_or((&word.text, "")) {
            ("zone", name) if !name.is_empty() => return None,
            ("nodelay", "") => return None,
            ("delay" | "burst", number) if is_number(number) => return None,
            ("delay", _) => "`delay=` and a number",
            ("burst", _) => "`burst=` and a number",
            _ => "`zone=`, `burst=`, and `nodelay` or `delay=`",
        };
        Some((at, wanted))
    });
    let mut words = directive.args.iter();
    let has_zone = words.any(|word| word.text.starts_with("zone="));
    found.or((!has_zone).then_some((0, "`zone=NAME`")))
}

fn zone(directive: &Directive) -> Option<Wrong> {
    let (at, text) = directive
        .args
        .iter()
        .enumerate()
        .find_map(|(at, word)| Some((at, word.text.strip_prefix("zone=")?)))?;
    if !text.contains(':') {
        return Some((at, "`zone=NAME:SIZE`"));
    }
    let is_rate_zone = directive.name() == "limit_req_zone";
    if is_rate_zone || directive.args.len() > 2 {
        let mut words = directive.args.iter().enumerate().skip(1);
        let is_known = |word: &str| {
            let is_shared = word.starts_with("sync=") || word.starts_with("sync_");
            word.starts_with("zone=")
                || is_shared
                || is_rate_zone && (word == "sync" || is_rate(word))
        };
        let unknown = words.find(|(_, word)| !is_known(&word.text));
        if let Some((at, _)) = unknown {
            return Some((
                at,
                match is_rate_zone {
                    true => "a key, `zone=NAME:SIZE`, and `rate=10r/s` or `rate=30r/m`",
                    false => "a key and `zone=NAME:SIZE`",
                },
            ));
        }
    }
    let mut words = directive.args.iter().enumerate().skip(1);
    let wrong = words.find_map(|(at, word)| {
        let is_sync = word.text.starts_with("sync=") || word.text.starts_with("sync_");
        let wanted =
            is_sync.then(|| check_sync(directive.name(), &word.text, &directive.args))??;
        Some((at, wanted))
    });
    if wrong.is_some() {
        return wrong;
    }
    let bytes = text.rsplit_once(':').map(|(_, bytes)| size(bytes));
    let is_enough = bytes.is_none_or(|bytes| bytes.is_some_and(|bytes| bytes >= ZONE_BYTES_MIN));
    (!is_enough).then_some((at, "a size that is large enough, such as `10m`"))
}

/// Whether a word is a rate of one or more.
fn is_rate(word: &str) -> bool {
    let rate = word.strip_prefix("rate=");
    // Without a unit it is one of a second, as in nginx.
    let count = rate.map(|rate| {
        let bare = rate.strip_suffix("r/s").or(rate.strip_suffix("r/m"));
        bare.unwrap_or(rate)
    });
    count.is_some_and(|count| count.parse::<u32>().is_ok_and(|count| count > 0))
}
