//! The `*_cache` directives: response caching. Each module with upstreams has them under its own prefix.

use std::collections::BTreeMap;

use sluice_diag::Diagnostic;
use sluice_model::cache::{Cache, CacheLock, CachePurges, CacheStore, CacheValid};
use sluice_model::handler::{StaticError, Subroute};
use sluice_model::matcher::{Matcher, MatcherSet};
use sluice_model::proxy::ReverseProxy;
use sluice_model::{Duration, Handler, Route, WeakString};

use super::{cache_peers, upstream_responses};
use crate::arguments::each;
use crate::definition::Takes::{Flag, Number, Time, Words};
use crate::definition::Verdict::Partly;
use crate::definition::{Definition, MANY, Wrong, many, once};
use crate::lower::level::Level;
use crate::lower::lowering::{Lowering, Stores};
use crate::lower::text::{Facts, has_variables};
use crate::lower::values;
use crate::tree::{Directive, Word};

/// The directives; modules add `cache_use_stale` with their failures.
pub const DIRECTIVES: &[Definition] = &[
    once("cache", Words(1, 1)),
    once("cache_background_update", Flag),
    many("cache_bypass", Words(1, MANY)),
    once("cache_key", Words(1, 1)),
    once("cache_lock", Flag),
    once("cache_lock_age", Time),
    once("cache_lock_timeout", Time),
    once("cache_max_range_offset", Words(1, 1)).checked(|line| {
        each(line, "a number of bytes", |word| {
            values::size(word).is_some()
        })
    }),
    once("cache_methods", Words(1, MANY)).checked(|line| {
        each(line, "`GET`, `HEAD` and `POST`", |word| {
            matches!(word, "GET" | "HEAD" | "POST")
        })
    }),
    once("cache_min_uses", Number),
    many("cache_path", Words(2, MANY)).but(Partly(
        "files are written directly to the folder, as with `use_temp_path=off`, so that none is copied between file systems; `purger` is always on, and removes files before the purge is acknowledged; without a `manager_` setting files are removed without pauses",
    )),
    many("cache_purge", Words(1, MANY)),
    once("cache_revalidate", Flag),
    many("cache_valid", Words(1, MANY)).checked(cache_valid),
    many("no_cache", Words(1, MANY)),
];

fn cache_valid(directive: &Directive) -> Option<Wrong> {
    let (last, codes) = directive.args.split_last()?;
    if values::time(&last.text).is_none() {
        return Some((
            codes.len(),
            "statuses or `any`, and a length of time at its end",
        ));
    }
    let fits = |text: &str| {
        text == "any"
            || text
                .parse::<u16>()
                .is_ok_and(|code| (100..=599).contains(&code))
    };
    let at = codes.iter().position(|word| !fits(&word.text))?;
    Some((at, "a status from 100 to 599, or `any`"))
}

/// The modules with a cache, by the prefix of their directives.
const MODULES: [&str; 4] = ["proxy", "fastcgi", "scgi", "uwsgi"];

/// Lowers `*_cache_path`.
pub fn stores(cx: &mut Lowering<'_>, level: &Level<'_>) -> Stores {
    let mut found = Stores::new();
    for module in MODULES {
        let name = format!("{module}_cache_path");
        let storage = cache_peers::purge_storage(cx, level, module);
        for line in level.everywhere(&name) {
            let Some((zone, mut store)) = store(cx, line, &name) else {
                continue;
            };
            store.purges = storage.clone().map(|storage| CachePurges {
                storage: Some(storage),
                name: format!("{module}/{zone}"),
            });
            let is_taken = found.values().any(|known| known.path == store.path);
            if is_taken || found.contains_key(&(module, zone.clone())) {
                let title = match is_taken {
                    true => format!("a second cache in `{}`", store.path),
                    false => format!("a second zone `{zone}`"),
                };
                cx.report.push(
                    Diagnostic::error("duplicate-zone", title)
                        .at(line.span(), "defined before")
                        .imported(line.name.import)
                        .help("give each zone its own name and folder"),
                );
                continue;
            }
            found.insert((module, zone), store);
        }
    }
    found
}

fn store(cx: &mut Lowering<'_>, line: &Directive, name: &str) -> Option<(String, CacheStore)> {
    let (path, params) = line.args.split_first()?;
    if has_variables(&path.text) {
        return cx.invalid(path, name, "a folder without variables");
    }
    let mut store = CacheStore {
        path: cx.prefixed(path.text.strip_suffix('/').unwrap_or(&path.text)),
        ..CacheStore::default()
    };
    let mut zone = None;
    for word in params {
        let (setting, value) = word.text.split_once('=').unwrap_or((&word.text, ""));
        match setting {
            "keys_zone" => zone = Some(keys_zone(cx, word, name, value, &mut store)?),
            "levels" => store.levels = levels(cx, word, name, value)?,
            "inactive" => store.inactive = time(cx, word, name, value)?,
            "max_size" => store.max_size = size(cx, word, name, value)?,
            "min_free" => store.min_free = size(cx, word, name, value)?,
            "loader_files" => match value.parse() {
                Ok(count @ 1..) => store.loader_files = count,
                _ => return cx.invalid(word, name, "`loader_files=` and a number of 1 or more"),
            },
            "loader_sleep" => store.loader_sleep = time(cx, word, name, value)?,
            "loader_threshold" => store.loader_threshold = time(cx, word, name, value)?,
            "manager_files" => match value.parse() {
                Ok(count @ 1..) => store.manager_files = count,
                _ => {
                    let wanted = "`manager_files=` and a number of 1 or more";
                    return cx.invalid(word, name, wanted);
                }
            },
            "manager_sleep" => store.manager_sleep = time(cx, word, name, value)?,
            "manager_threshold" => store.manager_threshold = time(cx, word, name, value)?,
            "use_temp_path" | "purger" if matches!(value, "on" | "off") => {}
            "purger_sleep" | "purger_threshold" => _ = time(cx, word, name, value)?,
            "purger_files" if value.parse::<u32>().is_ok() => {}
            _ => {
                let wanted = "a folder, `keys_zone=NAME:SIZE`, `levels=`, `inactive=`, `max_size=`, `min_free=`, \
                              `use_temp_path=` and settings of its loader, manager and purger";
                return cx.invalid(word, name, wanted);
            }
        }
    }
    match zone {
        Some(zone) => Some((zone, store)),
        None => cx.invalid(path, name, "a folder and `keys_zone=NAME:SIZE`"),
    }
}

/// The least that nginx takes: eight pages of usual size.
const ZONE_BYTES_MIN: u64 = 32 * 1024;

fn keys_zone(
    cx: &mut Lowering<'_>,
    word: &Word,
    name: &str,
    value: &str,
    store: &mut CacheStore,
) -> Option<String> {
    let parts = value.split_once(':');
    let parts = parts.and_then(|(zone, bytes)| Some((zone, values::size(bytes)?)));
    match parts {
        Some((zone, bytes)) if !zone.is_empty() && bytes >= ZONE_BYTES_MIN => {
            store.index_size = bytes;
            Some(zone.to_owned())
        }
        _ => cx.invalid(
            word,
            name,
            "`keys_zone=NAME:SIZE` with a size of 32k or more",
        ),
    }
}

fn levels(cx: &mut Lowering<'_>, word: &Word, name: &str, value: &str) -> Option<Vec<u8>> {
    let level = |text: &str| match text {
        "1" => Some(1),
        "2" => Some(2),
        _ => None,
    };
    let found: Option<Vec<u8>> = value.split(':').map(level).collect();
    match found.filter(|found| found.len() <= 3) {
        Some(found) => Some(found),
        None => cx.invalid(
            word,
            name,
            "`levels=` with up to three of `1` and `2`, as in `1:2`",
        ),
    }
}

fn time(cx: &mut Lowering<'_>, word: &Word, name: &str, value: &str) -> Option<Duration> {
    match values::time(value) {
        Some(time) => Some(time),
        None => cx.invalid(word, name, "a length of time, as in `inactive=60m`"),
    }
}

fn size(cx: &mut Lowering<'_>, word: &Word, name: &str, value: &str) -> Option<u64> {
    match values::size(value) {
        Some(size) => Some(size),
        None => cx.invalid(word, name, "a size, as in `max_size=10g`"),
    }
}

/// The handler that sends requests to an upstream, wrapped in a cache if responses are cached here.
pub fn around(
    cx: &mut Lowering<'_>,
    level: &Level<'_>,
    module: &'static str,
    facts: &Facts,
    mut origin: ReverseProxy,
) -> Option<Handler> {
    let of = |name: &str| format!("{module}_{name}");
    let plain = |origin| Some(Handler::ReverseProxy(Box::new(origin)));
    upstream_responses::shape(cx, level, module, facts, &mut origin)?;
    let line = level.find(&of("cache"));
    let Some(zone) = line.and_then(|line| line.args.first()) else {
        return plain(origin);
    };
    if zone.text == "off" {
        return plain(origin);
    }
    if has_variables(&zone.text) {
        return by_variable(cx, level, (module, zone), facts, &origin);
    }
    let Some(store) = cx.store(module, &zone.text) else {
        let path = of("cache_path");
        cx.report.push(
            Diagnostic::error(
                "unknown-zone",
                format!("no `{path}` is called `{}`", zone.text),
            )
            .at(zone.span, "not defined")
            .imported(zone.import)
            .help(format!("define it in `http` with `{path}`")),
        );
        return None;
    };
    cached(cx, level, (module, zone), facts, (store, origin))
}

/// A zone whose name has variables: a cache for each zone, of which the request selects one. As in nginx, nothing is
/// cached where the value is empty or `off`, and any other value gives 500.
fn by_variable(
    cx: &mut Lowering<'_>,
    level: &Level<'_>,
    (module, zone): (&'static str, &Word),
    facts: &Facts,
    origin: &ReverseProxy,
) -> Option<Handler> {
    let value = cx.text(zone, facts);
    let route = |names: Vec<String>, handler: Handler| Route {
        r#match: vec![MatcherSet::of(Matcher::Vars(BTreeMap::from([(
            value.clone(),
            names,
        )])))],
        handle: vec![handler],
        terminal: true,
        ..Route::default()
    };
    let uncached = Handler::ReverseProxy(Box::new(origin.clone()));
    let mut routes = vec![route(vec![String::new(), "off".to_owned()], uncached)];
    for (name, store) in cx.stores_of(module) {
        let handler = cached(cx, level, (module, zone), facts, (store, origin.clone()))?;
        routes.push(route(vec![name], handler));
    }
    routes.push(Route {
        handle: vec![Handler::Error(StaticError {
            error: "unknown cache".to_owned(),
            status_code: WeakString("500".to_owned()),
        })],
        ..Route::default()
    });
    Some(Handler::Subroute(Subroute {
        routes,
        ..Subroute::default()
    }))
}

fn cached(
    cx: &mut Lowering<'_>,
    level: &Level<'_>,
    (module, zone): (&'static str, &Word),
    facts: &Facts,
    (store, origin): (CacheStore, ReverseProxy),
) -> Option<Handler> {
    let of = |name: &str| format!("{module}_{name}");
    let key = key(cx, level, module, zone, facts)?;
    let peers = cache_peers::peers(cx, level, module);
    cache_peers::check_purge(cx, level, module, (peers.as_ref(), &store))?;
    let lock = level.is_on(&of("cache_lock"), false).then(|| CacheLock {
        age: level.time(&of("cache_lock_age")).unwrap_or(FIVE),
        timeout: level.time(&of("cache_lock_timeout")).unwrap_or(FIVE),
    });
    let Key {
        text: key,
        varies_by_client,
        varies_by_method,
    } = key;
    Some(Handler::NginxCache(Box::new(Cache {
        store,
        key,
        methods: methods(cx, level, &of("cache_methods"))?,
        bypass: texts(cx, level, &of("cache_bypass"), facts),
        no_store: texts(cx, level, &of("no_cache"), facts),
        // nginx stores only what goes through its buffers.
        unbuffered: !level.is_on(&of("buffering"), true),
        purge: texts(cx, level, &of("cache_purge"), facts),
        valid: valid(level, &of("cache_valid")),
        min_uses: min_uses(cx, level, &of("cache_min_uses"))?,
        use_stale: use_stale(level, module),
        lock,
        revalidate: level.is_on(&of("cache_revalidate"), false),
        background_update: level.is_on(&of("cache_background_update"), false),
        keep_head: !level.is_on(&of("cache_convert_head"), true),
        store_head: varies_by_method,
        max_range_offset: offset(level, &of("cache_max_range_offset")),
        ignore: ignored(level, &of("ignore_headers")),
        ignore_authorization: varies_by_client || hides_authorization(level, module),
        origin,
        peers,
    })))
}

/// nginx's default timeout for waiting on the cache lock.
const FIVE: Duration = Duration::seconds(5);

/// A key, and what it tells apart.
struct Key {
    text: String,
    /// Credentials are in it.
    varies_by_client: bool,
    /// The method is.
    varies_by_method: bool,
}

fn key(
    cx: &mut Lowering<'_>,
    level: &Level<'_>,
    module: &str,
    zone: &Word,
    facts: &Facts,
) -> Option<Key> {
    let name = format!("{module}_cache_key");
    let word = match level.find(&name).and_then(|line| line.args.first()) {
        Some(word) => word.clone(),
        None if module == "proxy" => Word {
            text: "$scheme$proxy_host$request_uri".to_owned(),
            ..zone.clone()
        },
        None => {
            cx.report.push(
                Diagnostic::error("missing-key", format!("`{module}_cache` without `{name}`"))
                    .at(zone.span, "all requests would get the same response")
                    .imported(zone.import)
                    .help(format!("add `{name} $scheme$host$request_uri;`")),
            );
            return None;
        }
    };
    let has = |name: &str| {
        let text = &word.text;
        text.contains(&format!("${name}")) || text.contains(&format!("${{{name}}}"))
    };
    Some(Key {
        text: cx.text(&word, facts),
        varies_by_client: has("http_authorization") || has("remote_user"),
        varies_by_method: has("request_method"),
    })
}

/// Whether the upstream does not see the credentials of the client.
fn hides_authorization(level: &Level<'_>, module: &str) -> bool {
    let (name, field) = match module {
        "proxy" => ("proxy_set_header".to_owned(), "authorization"),
        _ => (format!("{module}_param"), "http_authorization"),
    };
    let lines = level.nearest(&[&name]);
    lines.iter().any(|line| {
        let is_it = line
            .arg(0)
            .is_some_and(|known| known.eq_ignore_ascii_case(field));
        is_it
            && line
                .arg(1)
                .is_some_and(|value| !value.contains("$http_authorization"))
    })
}

fn texts(cx: &mut Lowering<'_>, level: &Level<'_>, name: &str, facts: &Facts) -> Vec<String> {
    let lines = level.nearest(&[name]);
    let words = lines.iter().flat_map(|line| &line.args);
    words.map(|word| cx.text(word, facts)).collect()
}

fn methods(cx: &mut Lowering<'_>, level: &Level<'_>, name: &str) -> Option<Vec<String>> {
    let mut found = Vec::new();
    for word in level
        .find(name)
        .map(|line| &line.args[..])
        .unwrap_or_default()
    {
        match word.text.as_str() {
            "GET" | "HEAD" => {}
            "POST" | "PUT" | "DELETE" | "MKCOL" | "COPY" | "MOVE" | "OPTIONS" | "PROPFIND"
            | "PROPPATCH" | "LOCK" | "UNLOCK" | "PATCH" => found.push(word.text.clone()),
            _ => return cx.invalid(word, name, "methods in capitals, such as `GET HEAD POST`"),
        }
    }
    Some(found)
}

fn valid(level: &Level<'_>, name: &str) -> Vec<CacheValid> {
    let valid = |line: &&crate::tree::Directive| {
        let (last, codes) = line.args.split_last()?;
        let is_any = codes.iter().any(|word| word.text == "any");
        let statuses = codes.iter().flat_map(|word| word.text.parse());
        let codes = match (is_any, codes.is_empty()) {
            (true, _) => Vec::new(),
            (false, true) => vec![200, 301, 302],
            (false, false) => statuses.collect(),
        };
        Some(CacheValid {
            codes,
            time: values::time(&last.text)?,
        })
    };
    level.nearest(&[name]).iter().filter_map(valid).collect()
}

fn min_uses(cx: &mut Lowering<'_>, level: &Level<'_>, name: &str) -> Option<u32> {
    let Some(word) = level.find(name).and_then(|line| line.args.first()) else {
        return Some(0);
    };
    match word.text.parse() {
        Ok(count) => Some(count),
        Err(_) => cx.invalid(word, name, "a number of requests"),
    }
}

fn offset(level: &Level<'_>, name: &str) -> Option<u64> {
    level.word(name).and_then(values::size)
}

fn use_stale(level: &Level<'_>, module: &str) -> Vec<String> {
    let line = level.find(&format!("{module}_cache_use_stale"));
    let words = line.into_iter().flat_map(|line| &line.args);
    let words: Vec<String> = words.map(|word| word.text.clone()).collect();
    match words.iter().any(|word| word == "off") {
        true => Vec::new(),
        // Conditions that only concern retries have no meaning for stale responses.
        false => words
            .into_iter()
            .filter(|word| word != "non_idempotent")
            .collect(),
    }
}

fn ignored(level: &Level<'_>, name: &str) -> Vec<String> {
    const LOOKED_AT: [&str; 6] = [
        "Cache-Control",
        "Expires",
        "Set-Cookie",
        "Vary",
        "X-Accel-Buffering",
        "X-Accel-Expires",
    ];
    let lines = level.nearest(&[name]);
    let words = lines.iter().flat_map(|line| &line.args);
    let looked_at = |word: &crate::tree::Word| {
        let mut known = LOOKED_AT.into_iter();
        known.find(|known| known.eq_ignore_ascii_case(&word.text))
    };
    words.filter_map(looked_at).map(str::to_owned).collect()
}
