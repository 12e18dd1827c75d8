//! Builds the cache of an nginx.conf from the model.

use std::path::PathBuf;
use std::sync::Arc;

use sluice_cache::store::{Pace, PurgeSource, Settings, Store};
use sluice_message::Method;
use sluice_message::caching::Rules;
use sluice_model::Duration;
use sluice_model::cache::{Cache as Config, CachePurges, CacheStore};
use sluice_route::Template;
use sluice_store::{Key, StoreError};

use super::key::KeyMaker;
use super::origin::Origin;
use super::peers::Peers;
use super::{Cache, LockTimeouts, Own, Rule, UseStale, Valid};
use crate::limits::{CACHE_INACTIVE, CACHE_INDEX_BYTES_MIN, CACHE_PACE};
use crate::reverse_proxy;
use crate::reverse_proxy::language::Language;
use sluice_pipeline::build::Builder;
use sluice_pipeline::handler::Handler;
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::settings::given;

/// Builds `nginx_cache`.
pub fn build<'m>(
    config: &'m Config,
    language: &dyn Language,
    builder: &mut Builder<'m>,
) -> Result<Box<dyn Handler>, Refusal> {
    if config.origin.coalesce || !config.origin.handle_response.is_empty() {
        return Err(
            Refusal::new("`coalesce` or `handle_response` together with a cache").with_help(
                "a cache coalesces requests itself, and stores responses before other handlers change them",
            ),
        );
    }
    if config.peers.is_some() && !config.purge.is_empty() && config.store.purges.is_none() {
        return Err(Refusal::new(
            "`purge` of a cache with several nodes, but without `purges` of its store",
        )
        .with_help("set a storage for purges: without it, a purge reaches one node only"));
    }
    let settings = settings(&config.store)?;
    let store = open(&settings, builder)?;
    follow_purges(config.store.purges.as_ref(), store.as_ref(), builder)?;
    let peers = config.peers.as_ref();
    let peers = peers.map(|peers| builder.within(".peers", |builder| Peers::build(peers, builder)));
    let peers = peers.transpose()?;
    let origin = builder.within(".origin", |builder| {
        reverse_proxy::proxy(&config.origin, language, builder)
    })?;
    let methods = config.methods.iter().map(|name| {
        let method = Method::from_token(name.as_bytes());
        method.ok_or_else(|| Refusal::new(format!("`{name}` is not a valid method")))
    });
    Ok(Box::new(Cache(Arc::new(Rule {
        store,
        origin: Origin::Proxy(Box::new(origin)),
        key: KeyMaker::Text(builder.template(&config.key)?),
        methods: methods.collect::<Result<_, _>>()?,
        bypass: templates(&config.bypass, builder)?,
        no_store: templates(&config.no_store, builder)?,
        purge: templates(&config.purge, builder)?,
        rules: rules(config)?,
        is_buffered: !config.unbuffered,
        ignores_buffering: config.ignore.iter().any(|name| is_buffering(name)),
        valid: config
            .valid
            .iter()
            .map(|valid| Valid {
                codes: valid.codes.as_slice().into(),
                seconds: seconds(valid.time),
            })
            .collect(),
        min_uses: config.min_uses.max(1),
        use_stale: use_stale(&config.use_stale)?,
        lock: config.lock.as_ref().map(|lock| LockTimeouts {
            age: given(lock.age).unwrap_or_default(),
            timeout: given(lock.timeout).unwrap_or_default(),
        }),
        revalidate: config.revalidate,
        updates_in_background: config.background_update,
        keeps_head: config.keep_head,
        stores_head: config.keep_head && config.store_head,
        max_range_offset: config.max_range_offset,
        peers,
        own: Own::default(),
    }))))
}

/// Follows the purges of other nodes, or checks the settings if the configuration is only validated.
fn follow_purges(
    config: Option<&CachePurges>,
    store: Option<&Arc<Store>>,
    builder: &Builder<'_>,
) -> Result<(), Refusal> {
    let source = match config {
        None => None,
        Some(config) => Some(purge_source(config, builder)?),
    };
    let Some(store) = store else {
        return Ok(());
    };
    store.follow_purges(source).map_err(|error| {
        Refusal::new(format!("a cache cannot follow purges: {error}"))
            .with_help("the process may have too many threads")
    })
}

fn purge_source(config: &CachePurges, builder: &Builder<'_>) -> Result<PurgeSource, Refusal> {
    let Some(module) = &config.storage else {
        return Err(Refusal::new("`purges` of a cache without `storage`")
            .with_help("name a storage that the nodes share"));
    };
    let key = Key::new(format!("{PURGES_PREFIX}/{}", config.name));
    let key = key.map_err(|error| {
        Refusal::new(format!(
            "`{}` is not a name for purges: {error}",
            config.name
        ))
        .with_help("a name has letters and digits, and perhaps slashes between them")
    })?;
    let log = builder.log.cloned();
    let place = config.name.clone();
    Ok(PurgeSource {
        store: sluice_tls::storages::engine(module)?,
        key,
        report: Box::new(move |error: Option<&StoreError>| {
            let Some(log) = &log else { return };
            match error {
                Some(error) => log
                    .error("http.cache", "the storage of purges is away")
                    .text("cache", &place)
                    .shown("error", error)
                    .send(),
                None => log
                    .info("http.cache", "the storage of purges is back")
                    .text("cache", &place)
                    .send(),
            }
        }),
    })
}

/// What the keys of lists of purges begin with.
const PURGES_PREFIX: &str = "cache_purges";

fn templates(texts: &[String], builder: &Builder<'_>) -> Result<Box<[Template]>, Refusal> {
    texts.iter().map(|text| builder.template(text)).collect()
}

pub(super) fn seconds(time: sluice_model::Duration) -> u32 {
    let time = given(time).unwrap_or_default();
    u32::try_from(time.as_secs()).unwrap_or(u32::MAX)
}

fn settings(config: &CacheStore) -> Result<Settings, Refusal> {
    let refuse = |what: &str, help: &str| Err(Refusal::new(what).with_help(help));
    if config.path.is_empty() {
        return refuse(
            "a cache without a folder",
            "set the directory for cached responses",
        );
    }
    let is_level = |level: &u8| matches!(level, 1 | 2);
    if config.levels.len() > 3 || !config.levels.iter().all(is_level) {
        return refuse(
            "these levels of folders are none",
            "up to three levels of one or two digits each",
        );
    }
    let index_bytes = usize::try_from(config.index_size).unwrap_or(usize::MAX);
    if index_bytes < CACHE_INDEX_BYTES_MIN {
        return refuse(
            "the index of the cache has no room",
            "use at least 32 KiB; 8,000 cached responses need about 1 MiB",
        );
    }
    let is_paced = config.manager_files != 0
        || given(config.manager_threshold).is_some()
        || given(config.manager_sleep).is_some();
    Ok(Settings {
        path: PathBuf::from(&config.path),
        levels: config.levels.clone(),
        index_bytes,
        inactive: given(config.inactive).unwrap_or(CACHE_INACTIVE),
        bytes_max: config.max_size,
        free_min: config.min_free,
        loader: pace(
            config.loader_files,
            config.loader_threshold,
            config.loader_sleep,
        ),
        manager: is_paced.then(|| {
            pace(
                config.manager_files,
                config.manager_threshold,
                config.manager_sleep,
            )
        }),
    })
}

/// A pace; what is zero has its default.
fn pace(files: u32, threshold: Duration, sleep: Duration) -> Pace {
    Pace {
        files: match files {
            0 => CACHE_PACE.files,
            files => files as usize,
        },
        threshold: given(threshold).unwrap_or(CACHE_PACE.threshold),
        sleep: given(sleep).unwrap_or(CACHE_PACE.sleep),
    }
}

/// Opens the cache, unless the configuration is only validated.
pub(super) fn open(
    settings: &Settings,
    builder: &Builder<'_>,
) -> Result<Option<Arc<Store>>, Refusal> {
    let Some(recorder) = builder.recorder else {
        return Ok(None);
    };
    let log = recorder.log().clone();
    let log_failure = move |what: &str, path: &std::path::Path, error: &std::io::Error| {
        log.error("http.cache", what)
            .shown("path", path.display())
            .shown("error", error)
            .send();
    };
    match recorder.stores().open(settings, Box::new(log_failure)) {
        Ok(Some(store)) => Ok(Some(store)),
        Ok(None) => Err(Refusal::new(format!(
            "the cache `{}` is in use with other levels of folders",
            settings.path.display()
        ))
        .with_help("restart the server to change them, or choose another folder")),
        Err(error) => Err(Refusal::new(format!(
            "the cache `{}` cannot be opened: {error}",
            settings.path.display()
        ))
        .with_help("the folder must be there, or its parent be writable")),
    }
}

fn rules(config: &Config) -> Result<Rules, Refusal> {
    let mut rules = Rules {
        ignores_authorization: config.ignore_authorization,
        ..Rules::default()
    };
    for name in config.ignore.iter().filter(|name| !is_buffering(name)) {
        match name.to_ascii_lowercase().as_str() {
            "x-accel-expires" => rules.ignores_accel_expires = true,
            "expires" => rules.ignores_expires = true,
            "cache-control" => rules.ignores_cache_control = true,
            "set-cookie" => rules.ignores_set_cookie = true,
            "vary" => rules.ignores_vary = true,
            _ => {
                return Err(Refusal::new(format!("a cache does not look at `{name}`")).with_help(
                    "it can ignore X-Accel-Buffering, X-Accel-Expires, Expires, Cache-Control, Set-Cookie and Vary",
                ));
            }
        }
    }
    Ok(rules)
}

fn is_buffering(name: &str) -> bool {
    name.eq_ignore_ascii_case("X-Accel-Buffering")
}

fn use_stale(words: &[String]) -> Result<UseStale, Refusal> {
    let mut found = UseStale::default();
    let mut statuses = Vec::new();
    for word in words {
        match word.as_str() {
            "error" => found.on_error = true,
            "timeout" => found.on_timeout = true,
            "invalid_header" => found.on_invalid_header = true,
            "updating" => found.while_updating = true,
            other => {
                let code = other
                    .strip_prefix("http_")
                    .and_then(|code| code.parse().ok());
                let code = code.filter(|code| (400..600).contains(code));
                statuses.push(code.ok_or_else(|| {
                    Refusal::new(format!(
                        "`{other}` is not a condition for serving stale responses"
                    ))
                })?);
            }
        }
    }
    found.statuses = statuses.into();
    Ok(found)
}
