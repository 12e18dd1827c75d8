//! Opens the store of a location.

use std::sync::Arc;

use sluice_dns::fetch::escaped;
use sluice_store::etcd::{EtcdOptions, EtcdStore};
use sluice_store::postgres::{PostgresOptions, PostgresStore};
use sluice_store::redis::{RedisOptions, RedisServers, RedisStore};
use sluice_store::{Fault, Store, StoreError, TlsOptions};

use super::location::{Location, Scheme};

/// The store, and the key of the text in it. Nothing is sent yet.
pub(super) fn open(location: &Location) -> Result<(Arc<dyn Store>, String), StoreError> {
    match location.scheme {
        Scheme::Etcd => etcd(location, "http"),
        Scheme::EtcdTls => etcd(location, "https"),
        Scheme::Redis => redis(location, None),
        Scheme::RedisTls => redis(
            location,
            Some(TlsOptions {
                ca: file(location, "ca")?,
                identity: identity(location)?,
                ..TlsOptions::default()
            }),
        ),
        Scheme::Postgres => postgres(location),
        Scheme::Http | Scheme::Https => Err(setting(location, "an HTTP server can only be read")),
    }
}

/// The path of the URL is the whole key in etcd, which begins with a slash by convention. Its last segment is the key in
/// the store, so that the leases and the metadata are beside it.
fn etcd(location: &Location, scheme: &str) -> Result<(Arc<dyn Store>, String), StoreError> {
    let (prefix, key) = match location.key.rsplit_once('/') {
        Some((prefix, key)) => (format!("/{prefix}"), key),
        None => (String::new(), location.key.as_str()),
    };
    let endpoint = |host: &String| {
        let (name, port) = server(host, ETCD_PORT);
        format!("{scheme}://{name}:{port}")
    };
    let user = location.user.clone();
    let store = EtcdStore::open(&EtcdOptions {
        endpoints: location.hosts.iter().map(endpoint).collect(),
        ca: file(location, "ca")?,
        identity: identity(location)?,
        login: user.map(|user| (user, location.password.clone().unwrap_or_default())),
        prefix,
        ..EtcdOptions::default()
    })?;
    Ok((Arc::new(store), key.to_owned()))
}

const ETCD_PORT: u16 = 2379;

/// The path of the URL is the key in Redis, of which all but the last segment are the prefix.
fn redis(
    location: &Location,
    tls: Option<TlsOptions>,
) -> Result<(Arc<dyn Store>, String), StoreError> {
    let [host] = location.hosts.as_slice() else {
        return Err(setting(location, "it has one server"));
    };
    let (prefix, key) = location.key.rsplit_once('/').unwrap_or(("", &location.key));
    let (name, port) = server(host, REDIS_PORT);
    let db = location.option("db").unwrap_or("0").parse();
    let store = RedisStore::open(&RedisOptions {
        servers: RedisServers::Single(name.trim_matches(['[', ']']).to_owned(), port),
        username: location.user.clone(),
        password: location.password.clone(),
        db: db.map_err(|_| setting(location, "`db` is not a number"))?,
        prefix: prefix.to_owned(),
        tls,
        ..RedisOptions::default()
    })?;
    Ok((Arc::new(store), key.to_owned()))
}

const REDIS_PORT: u16 = 6379;

/// The first segment of the path is the database, and the rest the key.
fn postgres(location: &Location) -> Result<(Arc<dyn Store>, String), StoreError> {
    let parts = location.key.split_once('/');
    let (database, key) = parts.ok_or_else(|| setting(location, "the key is missing"))?;
    let login = match (&location.user, &location.password) {
        (None, _) => String::new(),
        (Some(user), None) => format!("{}@", escaped(user)),
        (Some(user), Some(password)) => format!("{}:{}@", escaped(user), escaped(password)),
    };
    let mode = location.option("sslmode").unwrap_or("prefer");
    let hosts = location.hosts.join(",");
    let (database, mode) = (escaped(database), escaped(mode));
    let url = format!("postgresql://{login}{hosts}/{database}?sslmode={mode}");
    let options = PostgresOptions::parse(&url);
    let mut options = options.map_err(|what| setting(location, &what))?;
    options.tls.ca = file(location, "ca")?;
    Ok((Arc::new(PostgresStore::open(&options)?), key.to_owned()))
}

fn setting(location: &Location, what: &str) -> StoreError {
    StoreError::new(Fault::Setting, &location.to_string(), what)
}

/// Host and port.
fn server(text: &str, port: u16) -> (&str, u16) {
    let given = text.rsplit_once(':');
    let given = given.and_then(|(host, port)| Some((host, port.parse().ok()?)));
    // The last part of a bare IPv6 address is not a port.
    let given = given.filter(|(host, _)| !host.contains(':') || host.ends_with(']'));
    given.unwrap_or((text, port))
}

/// A certificate chain and its private key (PEM).
type Identity = (Vec<u8>, Vec<u8>);

/// The certificate and the key that the options name.
fn identity(location: &Location) -> Result<Option<Identity>, StoreError> {
    match (file(location, "cert")?, file(location, "key")?) {
        (Some(cert), Some(key)) => Ok(Some((cert, key))),
        (None, None) => Ok(None),
        (Some(_), None) | (None, Some(_)) => {
            Err(setting(location, "`cert` and `key` belong together"))
        }
    }
}

/// The content of the file that an option names.
fn file(location: &Location, option: &str) -> Result<Option<Vec<u8>>, StoreError> {
    let Some(path) = location.option(option) else {
        return Ok(None);
    };
    std::fs::read(path)
        .map(Some)
        .map_err(|error| setting(location, &format!("cannot read `{path}`: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_have_a_default_port() {
        assert_eq!(server("a", 1), ("a", 1));
        assert_eq!(server("a:2", 1), ("a", 2));
        assert_eq!(server("[::1]:2", 1), ("[::1]", 2));
        assert_eq!(server("[::1]", 1), ("[::1]", 1));
    }

    #[test]
    fn stores_are_opened_without_a_request() {
        let opened = |url: &str| {
            let location = Location::parse(url).unwrap();
            open(&location).map(|(store, key)| (store.place().to_owned(), key))
        };
        let (place, key) = opened("etcd://u:secret@a,b:1/sluice/prod").unwrap();
        assert_eq!(key, "prod");
        assert!(
            place.contains("a:2379") && !place.contains("secret"),
            "{place}"
        );
        let (place, key) = opened("redis://:secret@a/sluice/x/prod?db=2").unwrap();
        assert_eq!(key, "prod");
        assert!(place.contains('a') && !place.contains("secret"), "{place}");
        let (place, key) = opened("postgres://u:se%20cret@a/db/sluice/prod").unwrap();
        assert_eq!(key, "sluice/prod");
        assert!(
            place.contains("db") && !place.contains("se cret"),
            "{place}"
        );
        for wrong in [
            "postgres://a/b/c?sslmode=x",
            "redis://a/b/c?db=x",
            "redis://a,b/c/d",
            "etcds://a/b?cert=/dev/null",
        ] {
            assert_eq!(opened(wrong).unwrap_err().fault, Fault::Setting, "{wrong}");
        }
    }
}
