//! `cache`, in the syntax of the Caddy plugin `cache-handler`: the directive, and the global option with the same block.

use std::collections::BTreeMap;

use sluice_model::Handler;
use sluice_model::response_cache::{CacheDisk, CacheKey, CacheRegex, CacheTimeout, ResponseCache};

use crate::lower::Lowering;
use crate::lower::definition::Block;
use crate::lower::definition::Read::{Choice, Flag, MoreTexts, Size, Text, Time, With};
use crate::lower::definition::Verdict::{self, Always, NoEffect, Partly, Unsupported};
use crate::lower::definition::{Definition, OptionDefinition, Options, directive, option, refused};
use crate::lower::matchers::ranges;
use crate::lower::outcome::Outcomes;
use crate::tree::Directive;

/// `cache`.
pub(super) static CACHE: Definition =
    directive("cache", "cache [<matcher>] [{ … }]", |cx, line| {
        cx.cache(line)
    })
    .with(&OPTIONS)
    .own();

/// The options of the directive and of the global option.
pub(in crate::lower) static OPTIONS: Options<ResponseCache> =
    Options::<ResponseCache>::new("cache", SETTINGS)
        .more(STORAGES)
        .own();

const SETTINGS: &[OptionDefinition<ResponseCache>] = &[
    option(
        "allowed_additional_status_codes",
        "allowed_additional_status_codes <codes...>",
        With(|cx, line, cache| cx.cached_statuses(line, cache)),
    ),
    option(
        "allowed_http_verbs",
        "allowed_http_verbs GET|HEAD...",
        With(|cx, line, cache| cx.cached_methods(line, cache)),
    ),
    option::<ResponseCache>(
        "api",
        "api { … }",
        With(|cx, line, _| {
            cx.exact::<0>(line, &line.args)?;
            cx.read_options(&API, line.lines(), &mut ())
        }),
    )
    .holding(Block::Options(&API)),
    option::<ResponseCache>(
        "cache_keys",
        "cache_keys <path_regexp> { … }",
        With(|cx, line, cache| cx.cache_keys(line, cache)),
    ),
    option(
        "cache_name",
        "cache_name <name>",
        Text(|cache| &mut cache.cache_name),
    ),
    refused(
        "cdn",
        "cdn { … }",
        Unsupported("purge the CDN by its own API; `api` has what purges this cache"),
    ),
    option(
        "default_cache_control",
        "default_cache_control <value>",
        Text(|cache| &mut cache.default_cache_control),
    ),
    option(
        "disable_coalescing",
        "disable_coalescing",
        Flag(|cache| &mut cache.disable_coalescing),
    ),
    option::<ResponseCache>(
        "disable_surrogate_key",
        "disable_surrogate_key",
        With(|cx, line, _| cx.flag(line)),
    )
    .but(NoEffect(
        "responses have surrogate keys if their `Surrogate-Key` header names some, and can be purged by these",
    )),
    option::<ResponseCache>(
        "disk",
        "disk [<directory>] [{ … }]",
        With(|cx, line, cache| {
            cx.between(line, &line.args, 0, 1)?;
            let mut disk = cache.disk.take().unwrap_or_default();
            if let Some(path) = line.args.first() {
                disk.path.clone_from(&path.text);
            }
            cx.read_options(&DISK, line.lines(), &mut disk)?;
            cache.disk = Some(disk);
            Some(())
        }),
    )
    .own()
    .holding(Block::Options(&DISK)),
    option(
        "headers",
        "headers <names...>",
        MoreTexts(|cache| &mut cache.headers),
    ),
    option::<ResponseCache>(
        "key",
        "key { … }",
        With(|cx, line, cache| {
            cx.exact::<0>(line, &line.args)?;
            let mut key = CacheKey::default();
            cx.read_options(&KEY, line.lines(), &mut key)?;
            cache.key = Some(key);
            Some(())
        }),
    )
    .holding(Block::Options(&KEY)),
    option::<ResponseCache>(
        "log_level",
        "log_level <level>",
        With(|cx, line, _| cx.single_text(line).map(|_| ())),
    )
    .but(NoEffect(
        "the level of the log applies, which `log` sets in the global options",
    )),
    option::<ResponseCache>(
        "mapping_eviction_interval",
        "mapping_eviction_interval <duration>",
        With(|cx, line, _| cx.single_duration(line).map(|_| ())),
    )
    .but(NoEffect(
        "a thread looks for unused responses once a second",
    )),
    option(
        "max_cacheable_body_bytes",
        "max_cacheable_body_bytes <size>",
        Size(|cache| &mut cache.max_cacheable_body_bytes),
    ),
    option(
        "mode",
        "mode strict|bypass|bypass_request|bypass_response",
        Choice(
            &["strict", "bypass", "bypass_request", "bypass_response"],
            |cache| &mut cache.mode,
        ),
    ),
    option::<ResponseCache>(
        "purge",
        "purge <ranges...>",
        With(|cx, line, cache| {
            cx.texts(line)?;
            cache.purge_from.extend(ranges(&line.args));
            Some(())
        }),
    )
    .own(),
    option::<ResponseCache>(
        "regex",
        "regex { … }",
        With(|cx, line, cache| {
            cx.exact::<0>(line, &line.args)?;
            let mut regex = CacheRegex::default();
            cx.read_options(&REGEX, line.lines(), &mut regex)?;
            cache.regex = Some(regex);
            Some(())
        }),
    )
    .holding(Block::Options(&REGEX)),
    option("stale", "stale <duration>", Time(|cache| &mut cache.stale)),
    option::<ResponseCache>(
        "storers",
        "storers <names...>",
        With(|cx, line, _| cx.texts(line).map(|_| ())),
    )
    .but(NoEffect(
        "responses are stored in files, whose directory `disk` sets",
    )),
    option::<ResponseCache>(
        "timeout",
        "timeout { … }",
        With(|cx, line, cache| {
            cx.exact::<0>(line, &line.args)?;
            let mut timeout = CacheTimeout::default();
            cx.read_options(&TIMEOUT, line.lines(), &mut timeout)?;
            cache.timeout = Some(timeout);
            Some(())
        }),
    )
    .holding(Block::Options(&TIMEOUT)),
    option("ttl", "ttl <duration>", Time(|cache| &mut cache.ttl)),
];

/// What becomes of storages of the plugin that are on this machine.
const IN_FILES: Verdict = Partly("responses are stored in files of sluice, below `path`");

/// What becomes of those that are not.
const ELSEWHERE: Verdict = Unsupported(
    "responses are stored in files: set their directory with `disk`. Several nodes are one cache with `proxy_cache_peers` of \
     an nginx.conf",
);

/// The storages of the plugin.
const STORAGES: &[OptionDefinition<ResponseCache>] = &[
    option::<ResponseCache>(
        "badger",
        "badger [{ … }]",
        With(|cx, line, cache| cx.cache_files(&BADGER, line, cache)),
    )
    .but(IN_FILES)
    .holding(Block::Options(&BADGER)),
    refused("etcd", "etcd { … }", ELSEWHERE),
    refused("nats", "nats { … }", ELSEWHERE),
    option::<ResponseCache>(
        "nuts",
        "nuts [{ … }]",
        With(|cx, line, cache| cx.cache_files(&NUTS, line, cache)),
    )
    .but(IN_FILES)
    .holding(Block::Options(&NUTS)),
    refused("olric", "olric { … }", ELSEWHERE),
    option::<ResponseCache>(
        "otter",
        "otter [{ … }]",
        With(|cx, line, cache| cx.cache_files(&OTTER, line, cache)),
    )
    .but(IN_FILES)
    .holding(Block::Options(&OTTER)),
    refused("redis", "redis { … }", ELSEWHERE),
    option::<ResponseCache>(
        "simplefs",
        "simplefs [{ … }]",
        With(|cx, line, cache| cx.cache_files(&SIMPLEFS, line, cache)),
    )
    .but(IN_FILES)
    .holding(Block::Options(&SIMPLEFS)),
];

static BADGER: Options<CacheDisk> = Options::<CacheDisk>::new("badger", FILES).own();
static NUTS: Options<CacheDisk> = Options::<CacheDisk>::new("nuts", FILES).own();
static OTTER: Options<CacheDisk> = Options::<CacheDisk>::new("otter", FILES).own();
static SIMPLEFS: Options<CacheDisk> = Options::<CacheDisk>::new("simplefs", FILES).own();

const FILES: &[OptionDefinition<CacheDisk>] = &[
    option("path", "path <directory>", Text(|disk| &mut disk.path)),
    refused(
        "configuration",
        "configuration { … }",
        Unsupported("set limits with `disk { max_size … }` instead"),
    ),
    refused(
        "url",
        "url <address>",
        Unsupported("responses are stored in files: set `path`"),
    ),
];

static DISK: Options<CacheDisk> = Options::<CacheDisk>::new(
    "disk",
    &[
        option("path", "path <directory>", Text(|disk| &mut disk.path)),
        option(
            "max_size",
            "max_size <size>",
            Size(|disk| &mut disk.max_size),
        ),
        option(
            "min_free",
            "min_free <size>",
            Size(|disk| &mut disk.min_free),
        ),
        option(
            "index_size",
            "index_size <size>",
            Size(|disk| &mut disk.index_size),
        ),
        option(
            "inactive",
            "inactive <duration>",
            Time(|disk| &mut disk.inactive),
        ),
    ],
)
.own();

static KEY: Options<CacheKey> = Options::<CacheKey>::new(
    "key",
    &[
        option::<CacheKey>(
            "disable_body",
            "disable_body",
            With(|cx, line, _| cx.flag(line)),
        )
        .but(Always("the body of a request is never part of a key")),
        option(
            "disable_host",
            "disable_host",
            Flag(|key| &mut key.disable_host),
        ),
        option(
            "disable_method",
            "disable_method",
            Flag(|key| &mut key.disable_method),
        ),
        option(
            "disable_query",
            "disable_query",
            Flag(|key| &mut key.disable_query),
        ),
        option(
            "disable_scheme",
            "disable_scheme",
            Flag(|key| &mut key.disable_scheme),
        ),
        option(
            "disable_vary",
            "disable_vary",
            Flag(|key| &mut key.disable_vary),
        ),
        option::<CacheKey>("hash", "hash", With(|cx, line, _| cx.flag(line)))
            .but(Always("files are named by a digest of the key")),
        option(
            "headers",
            "headers <names...>",
            MoreTexts(|key| &mut key.headers),
        ),
        option("hide", "hide", Flag(|key| &mut key.hide)),
        option("sort_query", "sort_query", Flag(|key| &mut key.sort_query)),
        option("template", "template <text>", Text(|key| &mut key.template)),
    ],
)
.own();

static REGEX: Options<CacheRegex> = Options::<CacheRegex>::new(
    "regex",
    &[option(
        "exclude",
        "exclude <path_regexp>",
        Text(|regex| &mut regex.exclude),
    )],
)
.own();

static TIMEOUT: Options<CacheTimeout> = Options::<CacheTimeout>::new(
    "timeout",
    &[
        option(
            "backend",
            "backend <duration>",
            Time(|timeout| &mut timeout.backend),
        ),
        option::<CacheTimeout>(
            "cache",
            "cache <duration>",
            With(|cx, line, _| cx.single_duration(line).map(|_| ())),
        )
        .but(NoEffect(
            "cached responses are in memory and in local files",
        )),
    ],
)
.own();

static API: Options<()> = Options::<()>::new(
    "api",
    &[
        refused(
            "basepath",
            "basepath <path>",
            Unsupported("the admin API has it at `/souin-api/souin`"),
        ),
        option::<()>("debug", "debug", With(|cx, line, ()| cx.flag(line))).but(NoEffect(
            "the admin API has no profiles; `debug` in the global options makes the log say more",
        )),
        option::<()>(
            "prometheus",
            "prometheus",
            With(|cx, line, ()| cx.flag(line)),
        )
        .but(Always("the metrics of the server have those of its caches")),
        option::<()>("souin", "souin", With(|cx, line, ()| cx.flag(line))).but(Always(
            "the admin API always lists cached responses and removes them, at `/souin-api/souin`",
        )),
    ],
)
.own();

impl Lowering<'_> {
    fn cache(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            this.exact::<0>(line, args)?;
            let cache = this.cache_block(line)?;
            Some(Handler::Cache(Box::new(cache)))
        })
    }

    /// The block of the directive or the global option.
    pub(in crate::lower) fn cache_block(&mut self, line: &Directive) -> Option<ResponseCache> {
        let mut cache = ResponseCache::default();
        self.read_options(&OPTIONS, line.lines(), &mut cache)?;
        Some(cache)
    }

    fn cached_statuses(&mut self, line: &Directive, cache: &mut ResponseCache) -> Option<()> {
        self.texts(line)?;
        for word in &line.args {
            let what = "a status code from 200 to 599";
            let code: u16 = self.number(word, what)?;
            if !(200..600).contains(&code) {
                let title = format!("invalid status `{}`{}", word.text, self.about());
                let diagnostic = word.error("invalid-status", title, format!("expected {what}"));
                return self.refuse(diagnostic);
            }
            cache.allowed_additional_status_codes.push(code);
        }
        Some(())
    }

    fn cached_methods(&mut self, line: &Directive, cache: &mut ResponseCache) -> Option<()> {
        self.texts(line)?;
        for word in &line.args {
            if !matches!(word.text.as_str(), "GET" | "HEAD") {
                let title = format!("invalid value `{}`{}", word.text, self.about());
                let diagnostic = word.error("invalid-value", title, "expected `GET`, `HEAD`");
                let help = "remove it: a response to another method depends on the body of its request, which is not \
                            part of the key";
                return self.refuse(diagnostic.help(help));
            }
            cache.allowed_http_verbs.push(word.text.clone());
        }
        Some(())
    }

    /// `cache_keys <regexp> { … }`, or a block with a pattern in each line.
    fn cache_keys(&mut self, line: &Directive, cache: &mut ResponseCache) -> Option<()> {
        if let Some(pattern) = line.args.first() {
            self.exact::<1>(line, &line.args)?;
            return self.cache_key(&pattern.text, line, cache);
        }
        if line.lines().is_empty() {
            return self.missing(line, "a pattern");
        }
        self.each(line.lines(), |this, inner| {
            this.exact::<0>(inner, &inner.args)?;
            this.cache_key(&inner.name.text, inner, cache)
        })
    }

    fn cache_key(
        &mut self,
        pattern: &str,
        line: &Directive,
        cache: &mut ResponseCache,
    ) -> Option<()> {
        let mut key = CacheKey::default();
        self.read_options(&KEY, line.lines(), &mut key)?;
        let rule = BTreeMap::from([(pattern.to_string(), key)]);
        cache.cache_keys.push(rule);
        Some(())
    }

    fn cache_files(
        &mut self,
        table: &'static Options<CacheDisk>,
        line: &Directive,
        cache: &mut ResponseCache,
    ) -> Option<()> {
        self.exact::<0>(line, &line.args)?;
        let mut disk = cache.disk.take().unwrap_or_default();
        self.read_options(table, line.lines(), &mut disk)?;
        cache.disk = Some(disk);
        Some(())
    }
}
