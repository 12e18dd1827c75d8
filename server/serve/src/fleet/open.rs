//! Opens the store of a location.

use std::sync::Arc;

use sluice_store::etcd::{EtcdOptions, EtcdStore};
use sluice_store::{Fault, Store, StoreError};

use super::location::{Location, Scheme};

/// The store, and the key of the text in it. Nothing is sent yet.
pub(super) fn open(location: &Location) -> Result<(Arc<dyn Store>, String), StoreError> {
    let place = location.to_string();
    let error = |what: String| StoreError::new(Fault::Setting, &place, what);
    match location.scheme {
        Scheme::Etcd => etcd(location, "http"),
        Scheme::EtcdTls => etcd(location, "https"),
        Scheme::Redis | Scheme::RedisTls | Scheme::Postgres => {
            let scheme = location.scheme.as_str();
            Err(error(format!("this build has no support for {scheme}")))
        }
        Scheme::Http | Scheme::Https => Err(error("an HTTP server can only be read".to_owned())),
    }
}

/// The path of the URL is the whole key in etcd, which begins with a slash by convention. Its last segment is the key in
/// the store, so that the leases and the metadata are beside it.
fn etcd(location: &Location, scheme: &str) -> Result<(Arc<dyn Store>, String), StoreError> {
    let (prefix, key) = match location.key.rsplit_once('/') {
        Some((prefix, key)) => (format!("/{prefix}"), key),
        None => (String::new(), location.key.as_str()),
    };
    let endpoint = |host: &String| match host.rsplit_once(':') {
        Some((_, port)) if port.parse::<u16>().is_ok() => format!("{scheme}://{host}"),
        Some(_) | None => format!("{scheme}://{host}:{ETCD_PORT}"),
    };
    let identity = match (file(location, "cert")?, file(location, "key")?) {
        (Some(cert), Some(key)) => Some((cert, key)),
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => {
            let what = "`cert` and `key` belong together";
            return Err(StoreError::new(Fault::Setting, &location.to_string(), what));
        }
    };
    let user = location.user.clone();
    let store = EtcdStore::open(&EtcdOptions {
        endpoints: location.hosts.iter().map(endpoint).collect(),
        ca: file(location, "ca")?,
        identity,
        login: user.map(|user| (user, location.password.clone().unwrap_or_default())),
        prefix,
        ..EtcdOptions::default()
    })?;
    Ok((Arc::new(store), key.to_owned()))
}

const ETCD_PORT: u16 = 2379;

/// The content of the file that an option names.
fn file(location: &Location, option: &str) -> Result<Option<Vec<u8>>, StoreError> {
    let Some(path) = location.option(option) else {
        return Ok(None);
    };
    std::fs::read(path).map(Some).map_err(|error| {
        let what = format!("cannot read `{path}`: {error}");
        StoreError::new(Fault::Setting, &location.to_string(), what)
    })
}
