//! The Redis servers where several nodes count together: those of `rate_limit` and `in_flight`, and of nginx's zones. Configurations
//! that name the same server share it, and it outlives them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use sluice_model::handler::SharedLimit as Config;
use sluice_net::tls::{Connector, ConnectorOptions, ServerTrust};
use sluice_observe::log::Log;
use sluice_observe::metrics::{LimitStore, LimitStoreTotals};
use sluice_pipeline::build::Builder;
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::settings::given;
use sluice_tls::{environment, trust_pool};
use sluice_upstream::redis::{Reachability, RedisServer, RedisUrl};

use crate::limits::{STORE_DEADLINE, STORE_DEADLINE_MAX};

/// The stores in use, by what names them in the configuration.
#[derive(Debug, Default)]
pub struct Stores(Mutex<HashMap<StoreName, Weak<Store>>>);

/// The URL of a store, and its file of CAs.
type StoreName = (String, String);

/// A store in use.
#[derive(Debug)]
pub struct Store {
    /// The server.
    pub server: Arc<RedisServer>,
}

/// What happens to requests that the store does not decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OnError {
    /// They are allowed.
    Open,
    /// They are refused.
    Closed,
    /// Each node counts for itself.
    Local,
}

/// How a limit uses its store.
#[derive(Clone, Debug)]
pub struct StoreUse {
    /// The store.
    pub store: Arc<Store>,
    /// How long a request waits for it at most.
    pub deadline: Duration,
    /// What happens without it.
    pub on_error: OnError,
}

impl StoreUse {
    /// Reads the settings, and finds or makes the store.
    ///
    /// # Errors
    /// The URL or another setting is invalid.
    pub fn build(config: &Config, builder: &Builder<'_>) -> Result<StoreUse, Refusal> {
        let deadline = given(config.deadline).unwrap_or(STORE_DEADLINE);
        if deadline > STORE_DEADLINE_MAX {
            return Err(
                Refusal::new(format!("a deadline of {deadline:?}")).with_help(
                    "give 1s or less: without the store each request waits no longer than that",
                ),
            );
        }
        let on_error = match config.on_error.as_str() {
            "" | "local" => OnError::Local,
            "open" => OnError::Open,
            "closed" => OnError::Closed,
            other => {
                return Err(Refusal::new(format!("`on_error {other}`"))
                    .with_help("write `open`, `closed` or `local`"));
            }
        };
        Ok(StoreUse {
            store: store(config, builder)?,
            deadline,
            on_error,
        })
    }
}

fn store(config: &Config, builder: &Builder<'_>) -> Result<Arc<Store>, Refusal> {
    if config.store.is_empty() {
        return Err(
            Refusal::new("several servers count together in a store, and none is named")
                .with_help("write `store redis://HOST`"),
        );
    }
    let (url, connector) = address(&config.store, &config.ca)?;
    let log = builder.log.cloned();
    let make = || {
        let place = url.place();
        let report = move |change: &Reachability| report(log.as_ref(), &place, change);
        Arc::new(Store {
            server: Arc::new(RedisServer::new(&url, connector.clone(), report)),
        })
    };
    let Some(recorder) = builder.recorder else {
        return Ok(make());
    };
    let stores = recorder.shared::<Stores>();
    let mut known = stores.0.lock().unwrap_or_else(PoisonError::into_inner);
    known.retain(|_, store| store.strong_count() > 0);
    let found = known
        .entry((environment(&config.store), config.ca.clone()))
        .or_default();
    Ok(found.upgrade().unwrap_or_else(|| {
        let made = make();
        *found = Arc::downgrade(&made);
        let shown: Arc<dyn LimitStore> = made.clone();
        recorder.hub().add_limit_store(Arc::downgrade(&shown));
        made
    }))
}

/// Reads the URL of a Redis server, in which `{env.NAME}` stands for secrets, and makes what TLS to it needs. `ca` is a file
/// with the CAs of its certificate, those of the system if empty.
///
/// # Errors
/// The URL is invalid, or the file cannot be read.
pub fn address(url: &str, ca: &str) -> Result<(RedisUrl, Option<Arc<Connector>>), Refusal> {
    let url = RedisUrl::parse(&environment(url)).map_err(|error| {
        // The text may hold a password, so it is not repeated.
        Refusal::new(format!("the URL of the store: {error}")).with_help(
            "write `redis://HOST`, `redis://USER:PASSWORD@HOST:PORT/DB` or `rediss://HOST` with TLS",
        )
    })?;
    if !url.is_secure {
        return Ok((url, None));
    }
    let options = ConnectorOptions {
        trust: match ca {
            "" => ServerTrust::System,
            file => ServerTrust::Pool(trust_pool::from_file(file)?),
        },
        ..ConnectorOptions::default()
    };
    let made = Connector::new(options);
    let made = made.map_err(|error| Refusal::new(format!("TLS to the store: {error}")))?;
    Ok((url, Some(Arc::new(made))))
}

fn report(log: Option<&Log>, place: &str, change: &Reachability) {
    let Some(log) = log else { return };
    const LOGGER: &str = "limits.store";
    match change {
        Reachability::Away(reason) => log
            .error(
                LOGGER,
                "cannot use the store of shared limits; `on_error` decides",
            )
            .text("store", place)
            .text("error", &**reason)
            .send(),
        Reachability::Back => log
            .info(LOGGER, "the store of shared limits is back")
            .text("store", place)
            .send(),
        Reachability::Odd(reason) => log
            .error(LOGGER, "the store of shared limits refused a command")
            .text("store", place)
            .text("error", &**reason)
            .send(),
    }
}

impl LimitStore for Store {
    fn place(&self) -> &str {
        self.server.place()
    }

    fn totals(&self) -> LimitStoreTotals {
        let counts = self.server.counts();
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        LimitStoreTotals {
            replies: count(&counts.replies),
            timeouts: count(&counts.timeouts),
            errors: count(&counts.errors),
            unavailable: count(&counts.unavailable),
            waited: Duration::from_micros(count(&counts.waited_micros)),
            is_away: self.server.is_away(),
        }
    }
}
