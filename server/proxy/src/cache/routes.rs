//! Builds the cache of a Caddyfile from the model: the module `cache`.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use sluice_cache::store::Settings;
use sluice_message::caching::{self, Rules, Vary};
use sluice_message::{FieldId, Fields};
use sluice_model::matcher::{IpRanges, Matcher, Regexp};
use sluice_model::response_cache::{CacheDisk, CacheKey, ResponseCache};
use sluice_model::{Config, Duration, MatcherSet, Server};
use sluice_pipeline::build::{Builder, matcher_set};
use sluice_pipeline::handler::Handler;
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::settings::given;
use sluice_route::MatcherSets;

use super::build::{open, seconds};
use super::key::{KeyMaker, KeyParts, Part, Query};
use super::origin::{Origin, Rest};
use super::{Cache, LockTimeouts, Own, Rule, UseStale, Valid};
use crate::limits::{
    CACHE_BYTES_MAX, CACHE_COALESCE_TIMEOUT, CACHE_INDEX_BYTES, CACHE_INDEX_BYTES_MIN,
    CACHE_KEY_RULES_MAX, CACHE_PACE, CACHE_TTL, CACHE_UNUSED,
};

/// The name in `Cache-Status` if the configuration has none.
const NAME: &str = "Sluice";

/// Statuses that HTTP defines as cacheable without an explicit lifetime (RFC 9110, section 15.1), but for 206.
const CACHEABLE: [u16; 11] = [200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501];

/// Headers that the server believes if a trusted proxy sends them.
const CLAIMS: [&[u8]; 3] = [b"Forwarded", b"X-Forwarded-Host", b"X-Forwarded-Proto"];

/// The settings of the app `cache`, for handlers that have none of their own.
#[derive(Clone, Default)]
pub struct Defaults(Option<Arc<ResponseCache>>);

impl Defaults {
    /// Those of a configuration.
    pub fn of(config: &Config) -> Defaults {
        Defaults(config.apps.cache.as_deref().cloned().map(Arc::new))
    }
}

/// Settings that JSON has as nanoseconds.
const DURATIONS: [&str; 3] = ["/disk/inactive", "/stale", "/ttl"];

/// Which `Cache-Control` headers count.
struct Mode {
    of_requests: bool,
    of_responses: bool,
}

/// Builds `cache`.
///
/// # Errors
///
/// A setting that is not valid, or a directory that cannot be used.
pub fn build(config: &ResponseCache, builder: &Builder<'_>) -> Result<Box<dyn Handler>, Refusal> {
    let (config, inherited) = merged(config, builder.shared.get::<Defaults>().0.as_deref());
    let inherited = described(&config, &inherited)?;
    let mode = mode(&config.mode)?;
    check_methods(&config.allowed_http_verbs)?;
    let key = key_maker(&config, builder)?;
    let settings = settings(config.disk.as_ref(), builder)?;
    // A configuration that is only validated or explained creates no directory.
    let store = match builder.is_live() {
        true => open(&settings, builder)?,
        false => None,
    };
    if let Some(store) = &store {
        let followed = store.follow_purges(None);
        followed.map_err(|error| Refusal::new(format!("a cache cannot be opened: {error}")))?;
    }
    let backend = config.timeout.as_ref().map(|timeout| timeout.backend);
    let body_bytes_max = u64::try_from(config.max_cacheable_body_bytes).unwrap_or(0);
    Ok(Box::new(Cache(Arc::new(Rule {
        store,
        origin: Origin::Rest(Rest {
            site: builder.itself.clone(),
            timeout: backend.and_then(given),
            default_cache_control: match config.default_cache_control.as_bytes() {
                [] => None,
                value => Some(value.into()),
            },
        }),
        key,
        methods: Box::default(),
        bypass: Box::default(),
        no_store: Box::default(),
        purge: Box::default(),
        rules: rules(&config, &mode),
        is_buffered: true,
        ignores_buffering: true,
        valid: [valid(&config)?].into(),
        min_uses: 1,
        use_stale: UseStale::default(),
        lock: (!config.disable_coalescing).then_some(LockTimeouts {
            age: CACHE_COALESCE_TIMEOUT,
            timeout: CACHE_COALESCE_TIMEOUT,
        }),
        revalidate: true,
        updates_in_background: true,
        keeps_head: false,
        stores_head: false,
        max_range_offset: None,
        peers: None,
        own: Own {
            reads_requests: mode.of_requests,
            exclude: exclude(&config)?,
            purge_from: purge_from(&config)?,
            stale_seconds: seconds(config.stale),
            body_bytes_max: Some(body_bytes_max).filter(|max| *max > 0),
            name: Some(name(&config)?.into()),
            inherited: inherited.into(),
        },
    }))))
}

/// The settings of a handler, and those of the app where it has none; and the names of the latter.
fn merged(own: &ResponseCache, app: Option<&ResponseCache>) -> (ResponseCache, Vec<&'static str>) {
    let (mut all, mut names) = (own.clone(), Vec::new());
    macro_rules! merge {
        ($app:ident: $($field:ident)*) => {{
            let ResponseCache { $($field),* } = $app;
            $(if fill(&mut all.$field, $field) {
                names.push(stringify!($field));
            })*
        }};
    }
    if let Some(app) = app {
        merge!(app: allowed_http_verbs allowed_additional_status_codes cache_keys cache_name
            default_cache_control disable_coalescing disk headers key max_cacheable_body_bytes mode purge_from regex
            stale timeout ttl);
    }
    (all, names)
}

fn fill<T: Clone + Default + PartialEq>(own: &mut T, app: &T) -> bool {
    let takes = *own == T::default() && *app != T::default();
    if takes {
        own.clone_from(app);
    }
    takes
}

/// Settings as text, for `explain`.
fn described(config: &ResponseCache, names: &[&str]) -> Result<Vec<String>, Refusal> {
    let mut values = serde_json::to_value(config)
        .map_err(|error| Refusal::new(format!("the settings have no JSON: {error}")))?;
    for place in DURATIONS {
        if let Some(value) = values.pointer_mut(place)
            && let Some(nanos) = value.as_i64()
        {
            *value = Duration(nanos).to_string().into();
        }
    }
    if let Some(timeout) = &config.timeout {
        values["timeout"] = timeout.backend.to_string().into();
    }
    let described = names.iter().map(|name| match &values[name] {
        Value::String(text) => format!("`{name}` is `{text}`, set by the global `cache`"),
        other => format!("`{name}` is `{other}`, set by the global `cache`"),
    });
    Ok(described.collect())
}

fn mode(word: &str) -> Result<Mode, Refusal> {
    let (of_requests, of_responses) = match word {
        "" | "strict" => (true, true),
        "bypass_request" => (false, true),
        "bypass_response" => (true, false),
        "bypass" => (false, false),
        other => {
            return Err(Refusal::new(format!("`{other}` is not a mode of a cache"))
                .with_help("use strict, bypass_request, bypass_response or bypass"));
        }
    };
    Ok(Mode {
        of_requests,
        of_responses,
    })
}

fn check_methods(names: &[String]) -> Result<(), Refusal> {
    match names
        .iter()
        .find(|name| !matches!(name.as_str(), "GET" | "HEAD"))
    {
        None => Ok(()),
        Some(other) => Err(
            Refusal::new(format!("a cache does not store responses to `{other}`")).with_help(
                "use GET and HEAD: a response to another method depends on the body of its request",
            ),
        ),
    }
}

/// The name has to be a token of a structured field (RFC 8941, section 3.3.4).
fn name(config: &ResponseCache) -> Result<&str, Refusal> {
    let name = match config.cache_name.as_str() {
        "" => NAME,
        name => name,
    };
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&byte);
    match name.starts_with(|first: char| first.is_ascii_alphabetic()) && name.bytes().all(is_inner)
    {
        true => Ok(name),
        false => Err(Refusal::new(format!("`{name}` is not a name for a cache"))
            .with_help("begin with a letter, and use letters, digits, `-`, `_` and `.`")),
    }
}

fn rules(config: &ResponseCache, mode: &Mode) -> Rules {
    let key = config.key.as_ref();
    let of_key = key.map_or(&[][..], |key| key.headers.as_slice());
    let has_credentials = |names: &[String]| {
        let mut names = names.iter();
        names.any(|name| name.eq_ignore_ascii_case("Authorization"))
    };
    Rules {
        // That header is nginx's, and is not removed from the response here.
        ignores_accel_expires: true,
        ignores_cache_control: !mode.of_responses,
        ignores_expires: !mode.of_responses,
        ignores_vary: key.is_some_and(|key| key.disable_vary),
        // Each set of credentials has responses of its own then.
        ignores_authorization: has_credentials(&config.headers)
            || has_credentials(of_key) && config.cache_keys.is_empty(),
        ..Rules::default()
    }
}

/// How long responses are fresh that do not say so themselves.
fn valid(config: &ResponseCache) -> Result<Valid, Refusal> {
    let more = &config.allowed_additional_status_codes;
    if let Some(code) = more.iter().find(|code| !(200..600).contains(*code)) {
        return Err(
            Refusal::new(format!("a cache cannot store the status {code}"))
                .with_help("use statuses from 200 to 599"),
        );
    }
    let seconds = match given(config.ttl) {
        None => CACHE_TTL.as_secs(),
        // Less than a second is one: times are kept in seconds.
        Some(ttl) => ttl.as_secs().max(1),
    };
    Ok(Valid {
        codes: CACHEABLE.iter().chain(more).copied().collect(),
        seconds: u32::try_from(seconds).unwrap_or(u32::MAX),
    })
}

fn exclude(config: &ResponseCache) -> Result<Option<MatcherSets>, Refusal> {
    match config.regex.as_ref().map(|regex| regex.exclude.as_str()) {
        None | Some("") => Ok(None),
        Some(pattern) => path(pattern).map(Some),
    }
}

/// A matcher of paths. Its captures have a name that no placeholder of a configuration has by accident.
fn path(pattern: &str) -> Result<MatcherSets, Refusal> {
    let regexp = Regexp {
        name: "sluice_cache".to_owned(),
        pattern: pattern.to_owned(),
    };
    one(Matcher::PathRegexp(regexp))
}

fn purge_from(config: &ResponseCache) -> Result<Option<MatcherSets>, Refusal> {
    match config.purge_from.as_slice() {
        [] => Ok(None),
        ranges => {
            let ranges = IpRanges {
                ranges: ranges.to_vec(),
            };
            one(Matcher::ClientIp(ranges)).map(Some)
        }
    }
}

fn one(matcher: Matcher) -> Result<MatcherSets, Refusal> {
    let set = matcher_set(&MatcherSet(vec![matcher]))?;
    Ok(MatcherSets::new(vec![set]))
}

fn key_maker(config: &ResponseCache, builder: &Builder<'_>) -> Result<KeyMaker, Refusal> {
    let rules = config.cache_keys.iter().flatten();
    let by_path: Vec<_> = rules
        .map(|(pattern, key)| Ok((path(pattern)?, key_parts(Some(key), config, builder)?)))
        .collect::<Result<_, Refusal>>()?;
    if by_path.len() > CACHE_KEY_RULES_MAX {
        let what = format!("{} patterns in `cache_keys`", by_path.len());
        return Err(
            Refusal::new(what).with_help(format!("use at most {CACHE_KEY_RULES_MAX} of them"))
        );
    }
    Ok(KeyMaker::Parts {
        usual: key_parts(config.key.as_ref(), config, builder)?,
        by_path: by_path.into(),
    })
}

fn key_parts(
    key: Option<&CacheKey>,
    config: &ResponseCache,
    builder: &Builder<'_>,
) -> Result<KeyParts, Refusal> {
    let usual = CacheKey::default();
    let key = key.unwrap_or(&usual);
    let part = |is_out: bool| match is_out {
        true => Part::Out,
        false => Part::In,
    };
    Ok(KeyParts {
        method: part(key.disable_method),
        scheme: (!key.disable_scheme).then(|| addresses(builder.server)),
        host: part(key.disable_host),
        query: match (key.disable_query, key.sort_query) {
            (true, _) => Query::Out,
            (false, true) => Query::Sorted,
            (false, false) => Query::AsSent,
        },
        headers: names(config, key, builder.server)?,
        text: match key.template.as_str() {
            "" => None,
            text => Some(builder.template(text)?),
        },
        is_shown: !key.hide,
    })
}

/// Request headers by which responses vary, whatever they say. What a trusted proxy says of the client, handlers believe,
/// but many proxies let clients say it.
fn names(
    config: &ResponseCache,
    key: &CacheKey,
    server: &Server,
) -> Result<Option<Arc<[u8]>>, Refusal> {
    let own = config.headers.iter().chain(&key.headers);
    let mut fields = Fields::new();
    for name in own.map(String::as_bytes) {
        fields.push(FieldId::Vary, name);
    }
    if server.trusted_proxies.is_some() {
        for name in CLAIMS {
            fields.push(FieldId::Vary, name);
        }
    }
    match caching::vary(&fields) {
        Vary::Names(names) => Ok(Some(names.into())),
        Vary::Nothing => Ok(None),
        Vary::Everything => Err(Refusal::new("too many `headers` of a cache, or `*`")
            .with_help("name the headers by which responses differ, at most 13")),
    }
}

/// The listen addresses of a server, by which it differs from all others, in all configurations.
fn addresses(server: &Server) -> Box<[u8]> {
    let mut addresses: Vec<&str> = server.listen.iter().map(String::as_str).collect();
    addresses.sort_unstable();
    addresses.join(",").into_bytes().into()
}

fn settings(disk: Option<&CacheDisk>, builder: &Builder<'_>) -> Result<Settings, Refusal> {
    let usual = CacheDisk::default();
    let disk = disk.unwrap_or(&usual);
    let bytes = |size: i64, usual: u64| match u64::try_from(size) {
        Ok(0) | Err(_) => usual,
        Ok(size) => size,
    };
    let path = match (disk.path.as_str(), builder.keys) {
        ("", Some(keys)) => keys.data_dir.join("cache"),
        (path, _) => PathBuf::from(path),
    };
    let index_bytes = bytes(disk.index_size, CACHE_INDEX_BYTES as u64);
    let index_bytes = usize::try_from(index_bytes).unwrap_or(usize::MAX);
    if index_bytes < CACHE_INDEX_BYTES_MIN {
        return Err(Refusal::new("the index of the cache has no room")
            .with_help("use at least 32KiB; 8,000 cached responses need about 1MiB"));
    }
    Ok(Settings {
        path,
        levels: vec![1, 2],
        index_bytes,
        inactive: given(disk.inactive).unwrap_or(CACHE_UNUSED),
        bytes_max: bytes(disk.max_size, CACHE_BYTES_MAX),
        free_min: bytes(disk.min_free, 0),
        loader: CACHE_PACE,
        manager: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_model::http::IpSource;
    use sluice_model::response_cache::CacheTimeout;

    #[test]
    fn a_handler_has_the_settings_of_the_app_where_it_has_none() {
        let app = ResponseCache {
            cache_name: "app".to_owned(),
            mode: "bypass".to_owned(),
            disable_coalescing: true,
            headers: vec!["A".to_owned()],
            ..ResponseCache::default()
        };
        let own = ResponseCache {
            cache_name: "own".to_owned(),
            ..ResponseCache::default()
        };
        let (all, names) = merged(&own, Some(&app));
        assert_eq!(
            (all.cache_name.as_str(), all.mode.as_str()),
            ("own", "bypass")
        );
        assert!(all.disable_coalescing && all.headers == ["A"]);
        assert_eq!(names, ["disable_coalescing", "headers", "mode"]);
        assert_eq!(merged(&own, None), (own, Vec::new()));
    }

    #[test]
    fn settings_of_the_app_are_described() {
        let config = ResponseCache {
            ttl: Duration(90_000_000_000),
            mode: "bypass".to_owned(),
            timeout: Some(CacheTimeout {
                backend: Duration(1_000_000),
            }),
            ..ResponseCache::default()
        };
        let said = described(&config, &["ttl", "mode", "timeout"]).unwrap();
        assert_eq!(
            said,
            [
                "`ttl` is `90s`, set by the global `cache`",
                "`mode` is `bypass`, set by the global `cache`",
                "`timeout` is `1ms`, set by the global `cache`",
            ]
        );
    }

    #[test]
    fn credentials_in_the_key_keep_clients_apart() {
        let strict = mode("").unwrap();
        let mut config = ResponseCache {
            headers: vec!["authorization".to_owned()],
            ..ResponseCache::default()
        };
        assert!(rules(&config, &strict).ignores_authorization);
        let key = CacheKey {
            headers: std::mem::take(&mut config.headers),
            ..CacheKey::default()
        };
        config.key = Some(key);
        assert!(rules(&config, &strict).ignores_authorization);
        config.cache_keys = vec![[("^/a".to_owned(), CacheKey::default())].into()];
        assert!(
            !rules(&config, &strict).ignores_authorization,
            "paths with a key of their own do not have it"
        );
        assert!(!rules(&ResponseCache::default(), &strict).ignores_authorization);
    }

    #[test]
    fn responses_vary_by_what_trusted_proxies_say() {
        let config = ResponseCache {
            headers: vec!["X-Tenant".to_owned()],
            ..ResponseCache::default()
        };
        let mut server = Server::default();
        let of = |config: &ResponseCache, server: &Server| {
            names(config, &CacheKey::default(), server)
                .map(|names| names.unwrap_or_default().to_vec())
        };
        assert_eq!(of(&config, &server).unwrap(), b"x-tenant,");
        server.trusted_proxies = Some(IpSource::Static(IpRanges::default()));
        let names = of(&config, &server).unwrap();
        assert_eq!(
            names,
            b"forwarded,x-forwarded-host,x-forwarded-proto,x-tenant,"
        );
        let many = ResponseCache {
            headers: (0..17).map(|number| format!("X-{number}")).collect(),
            ..ResponseCache::default()
        };
        assert!(of(&many, &Server::default()).is_err());
    }

    #[test]
    fn names_are_tokens() {
        let with = |name: &str| {
            let config = ResponseCache {
                cache_name: name.to_owned(),
                ..ResponseCache::default()
            };
            self::name(&config).is_ok()
        };
        assert!(with("") && with("edge-1.example"));
        assert!(!with("two words") && !with("1") && !with("a\"b") && !with("é"));
    }

    #[test]
    fn settings_that_make_no_sense_are_refused() {
        assert!(mode("strikt").is_err() && check_methods(&["POST".to_owned()]).is_err());
        let config = ResponseCache {
            allowed_additional_status_codes: vec![302, 99],
            ..ResponseCache::default()
        };
        assert!(valid(&config).is_err_and(|refusal| refusal.message.contains("99")));
    }
}
