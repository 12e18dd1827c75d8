//! Configurations at a URL: reading them, and the environment variable with the password.

use std::sync::Arc;

use sluice_serve::fleet::{Layout, Location, LocationError, Scheme, Source};
use sluice_store::Store;

use crate::messages::Failed;

/// The environment variable with the password for URLs that have none.
const PASSWORD: &str = "SLUICE_STORE_PASSWORD";

/// The place that `url` names, with the password of the environment if the URL has a user without one.
pub fn location(url: &str) -> Result<Location, LocationError> {
    let mut location = Location::parse(url)?;
    // Redis has a default user.
    let needs_password = match location.scheme {
        Scheme::Redis | Scheme::RedisTls => true,
        Scheme::Etcd | Scheme::EtcdTls | Scheme::Postgres | Scheme::Http | Scheme::Https => {
            location.user.is_some()
        }
    };
    if needs_password && location.password.is_none() {
        let password = std::env::var(PASSWORD).ok();
        location.password = password.filter(|password| !password.is_empty());
    }
    Ok(location)
}

/// The name of the text in messages, and the text.
pub fn read(location: &Result<Box<Location>, LocationError>) -> Result<(String, String), Failed> {
    let location = location.as_ref().map_err(Failed::new)?;
    let source = Source::open(location).map_err(Failed::new)?;
    match source.read(None).map_err(Failed::new)? {
        Some(seen) => Ok((location.name().to_owned(), seen.text)),
        None => Err(missing(location)),
    }
}

/// The store at `url`, for the commands that write to it.
pub fn store(url: &str) -> Result<(Location, Arc<dyn Store>, Layout), Failed> {
    if !Location::is_url(url) {
        return Err(
            Failed::new(format!("`{url}` is not the URL of a store")).help(
                "write etcd://HOST/KEY, redis://HOST/PREFIX/KEY or postgres://HOST/DATABASE/KEY",
            ),
        );
    }
    let location = location(url).map_err(Failed::new)?;
    match Source::open(&location).map_err(Failed::new)? {
        Source::Store(store, layout) => Ok((location, store, layout)),
        Source::Http(_) => Err(Failed::new(format!(
            "{location} can only be read: nodes do not report to an HTTP server"
        ))
        .help("replace the file on that server; the nodes poll it")),
    }
}

/// The place has no text.
pub fn missing(location: &Location) -> Failed {
    Failed::new(format!("{location} has no configuration"))
        .help("write one with `sluice push FILE --to URL`")
}
