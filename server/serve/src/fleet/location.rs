//! The URL of a configuration: `etcd://user@h1:2379,h2:2379/KEY`.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sluice_message::uri::decode_percent;
use sluice_store::Key;

/// Where a fleet's configuration is. Its password is never shown: `Display` and `Debug` leave it out.
#[derive(Clone, PartialEq, Eq)]
pub struct Location {
    /// The kind of place.
    pub scheme: Scheme,
    /// The servers, `host` or `host:port`; one for HTTP.
    pub hosts: Vec<String>,
    /// The user, if any.
    pub user: Option<String>,
    /// The password, if any.
    pub password: Option<String>,
    /// The key of the text; for HTTP the path, without its first slash.
    pub key: String,
    /// The options after `?`; for HTTP they are part of the URL.
    pub options: Vec<(String, String)>,
    /// The text after `?`, as it was written.
    query: String,
}

/// Kinds of places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// etcd.
    Etcd,
    /// etcd with TLS.
    EtcdTls,
    /// Redis or Valkey.
    Redis,
    /// Redis or Valkey with TLS.
    RedisTls,
    /// PostgreSQL.
    Postgres,
    /// An HTTP server, which is polled.
    Http,
    /// The same with TLS.
    Https,
}

const SCHEMES: [(&str, Scheme); 8] = [
    ("etcd", Scheme::Etcd),
    ("etcds", Scheme::EtcdTls),
    ("redis", Scheme::Redis),
    ("rediss", Scheme::RedisTls),
    ("postgres", Scheme::Postgres),
    ("postgresql", Scheme::Postgres),
    ("http", Scheme::Http),
    ("https", Scheme::Https),
];

/// Why a text is not the URL of a configuration. It does not contain the URL, which may have a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocationError {
    /// The scheme is not one of ours.
    Scheme(String),
    /// It has no host.
    Host,
    /// It has no key.
    Key,
    /// The key breaks a rule.
    KeyRule(String),
    /// A percent-encoded part is not valid.
    Encoding,
    /// It does not have this option.
    Option(String, &'static [&'static str]),
}

impl Scheme {
    /// As it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Scheme::Etcd => "etcd",
            Scheme::EtcdTls => "etcds",
            Scheme::Redis => "redis",
            Scheme::RedisTls => "rediss",
            Scheme::Postgres => "postgres",
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }

    /// Whether it is a plain HTTP server, which nodes can read and nobody can write.
    pub const fn is_http(self) -> bool {
        matches!(self, Scheme::Http | Scheme::Https)
    }

    /// The options that its URL may have.
    const fn options(self) -> &'static [&'static str] {
        match self {
            Scheme::Etcd => &[],
            Scheme::EtcdTls => &["ca", "cert", "key"],
            Scheme::Redis => &["db"],
            Scheme::RedisTls => &["ca", "cert", "db", "key"],
            Scheme::Postgres => &["ca", "sslmode"],
            Scheme::Http | Scheme::Https => &[],
        }
    }
}

impl Location {
    /// Whether `text` is a URL rather than the name of a file.
    pub fn is_url(text: &str) -> bool {
        text.split_once("://").is_some_and(|(scheme, _)| {
            !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric())
        })
    }

    /// Parses a URL.
    ///
    /// # Errors
    /// The first mistake.
    pub fn parse(text: &str) -> Result<Location, LocationError> {
        let (scheme, rest) = text.split_once("://").unwrap_or((text, ""));
        let lower = scheme.to_ascii_lowercase();
        let known = SCHEMES.iter().find(|(name, _)| *name == lower);
        let scheme = known.ok_or(LocationError::Scheme(lower))?.1;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (servers, path) = rest.split_once('/').unwrap_or((rest, ""));
        // A password may contain an at sign, a host cannot.
        let (login, hosts) = match servers.rsplit_once('@') {
            Some((login, hosts)) => (Some(login), hosts),
            None => (None, servers),
        };
        let (user, password) = match login.map(|login| login.split_once(':').unwrap_or((login, "")))
        {
            Some((user, password)) => (given(user)?, given(password)?),
            None => (None, None),
        };
        let hosts: Vec<String> = hosts.split(',').map(str::to_owned).collect();
        if hosts.iter().any(String::is_empty) {
            return Err(LocationError::Host);
        }
        if scheme.is_http() {
            return Ok(Location {
                scheme,
                hosts,
                user,
                password,
                key: path.to_owned(),
                options: Vec::new(),
                query: query.to_owned(),
            });
        }
        let key = decoded(path.trim_end_matches('/'))?;
        let has_two = matches!(scheme, Scheme::Redis | Scheme::RedisTls | Scheme::Postgres);
        if key.is_empty() || has_two && !key.contains('/') {
            return Err(LocationError::Key);
        }
        Key::new(key.clone()).map_err(|error| LocationError::KeyRule(error.to_string()))?;
        Ok(Location {
            scheme,
            hosts,
            user,
            password,
            key,
            options: options(scheme, query)?,
            query: query.to_owned(),
        })
    }

    /// The value of an option.
    pub fn option(&self, name: &str) -> Option<&str> {
        let found = self.options.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The name of the text in diagnostics, and what its format is detected from: the last segment of the key.
    pub fn name(&self) -> &str {
        match self.key.rsplit('/').next() {
            Some(name) if !name.is_empty() => name,
            Some(_) | None => &self.hosts[0],
        }
    }

    /// The value of `Authorization` for the user and the password of an HTTP server, if there are any (RFC 7617).
    pub fn login(&self) -> Option<String> {
        if self.user.is_none() && self.password.is_none() {
            return None;
        }
        let (user, password) = (self.user.as_deref(), self.password.as_deref());
        let both = format!(
            "{}:{}",
            user.unwrap_or_default(),
            password.unwrap_or_default()
        );
        Some(format!("Basic {}", STANDARD.encode(both)))
    }

    /// The URL without user and password.
    pub fn target(&self) -> String {
        let (scheme, hosts) = (self.scheme.as_str(), self.hosts.join(","));
        let separator = if self.query.is_empty() { "" } else { "?" };
        format!("{scheme}://{hosts}/{}{separator}{}", self.key, self.query)
    }
}

fn given(text: &str) -> Result<Option<String>, LocationError> {
    let text = decoded(text)?;
    Ok(Some(text).filter(|text| !text.is_empty()))
}

fn decoded(text: &str) -> Result<String, LocationError> {
    let mut bytes = Vec::with_capacity(text.len());
    if !decode_percent(text.as_bytes(), &mut bytes) {
        return Err(LocationError::Encoding);
    }
    String::from_utf8(bytes).map_err(|_| LocationError::Encoding)
}

fn options(scheme: Scheme, query: &str) -> Result<Vec<(String, String)>, LocationError> {
    let parts = query.split('&').filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            if !scheme.options().contains(&name) {
                return Err(LocationError::Option(name.to_owned(), scheme.options()));
            }
            Ok((name.to_owned(), decoded(value)?))
        })
        .collect()
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Options of HTTP may be secrets as well.
        let target = self.target();
        f.write_str(target.split('?').next().unwrap_or(&target))
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Location({self})")
    }
}

impl fmt::Display for LocationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LocationError::Scheme(scheme) => {
                let known: Vec<&str> = SCHEMES.iter().map(|(name, _)| *name).collect();
                let known = known.join("`, `");
                write!(f, "`{scheme}` is not a scheme of configurations: use `{known}`")
            }
            LocationError::Host => f.write_str("the URL of the configuration lacks a host"),
            LocationError::Key => f.write_str(
                "the URL of the configuration lacks a key: write etcd://HOST/KEY, redis://HOST/PREFIX/KEY \
                 or postgres://HOST/DATABASE/KEY",
            ),
            LocationError::KeyRule(rule) => write!(f, "the key of the configuration: {rule}"),
            LocationError::Encoding => {
                f.write_str("the URL of the configuration has an invalid percent-encoding")
            }
            LocationError::Option(name, []) => {
                write!(f, "`{name}` in the URL of the configuration: it has no options")
            }
            LocationError::Option(name, known) => {
                let known = known.join("`, `");
                write!(f, "`{name}` is not an option of the URL: use `{known}`")
            }
        }
    }
}

impl std::error::Error for LocationError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_hosts_a_login_and_a_key() {
        let url = "etcd://ops:p%40ss@h1:2379,h2:2379/sluice/prod";
        let found = Location::parse(url).unwrap();
        assert_eq!(found.scheme, Scheme::Etcd);
        assert_eq!(found.hosts, ["h1:2379", "h2:2379"]);
        assert_eq!(found.user.as_deref(), Some("ops"));
        assert_eq!(found.password.as_deref(), Some("p@ss"));
        assert_eq!(found.key, "sluice/prod");
        assert_eq!(found.name(), "prod");
        assert_eq!(found.to_string(), "etcd://h1:2379,h2:2379/sluice/prod");
        let shown = format!("{found:?} {found}");
        assert!(
            !shown.contains("p@ss") && !shown.contains("p%40ss"),
            "{shown}"
        );
        let redis = Location::parse("rediss://:a:b@c/p/Caddyfile?db=3&ca=/etc/ca.pem").unwrap();
        assert_eq!(redis.user, None);
        assert_eq!(redis.password.as_deref(), Some("a:b"));
        assert_eq!((redis.option("db"), redis.option("key")), (Some("3"), None));
        let http = Location::parse("https://u:p@a.test/x/Caddyfile?token=secret").unwrap();
        assert_eq!(http.target(), "https://a.test/x/Caddyfile?token=secret");
        assert_eq!(http.to_string(), "https://a.test/x/Caddyfile");
        assert_eq!(http.name(), "Caddyfile");
        assert_eq!(Location::parse("http://a.test/").unwrap().name(), "a.test");
    }

    #[test]
    fn mistakes_are_named() {
        let failed = |text: &str| Location::parse(text).unwrap_err();
        assert_eq!(
            failed("consul://a/b"),
            LocationError::Scheme("consul".into())
        );
        assert_eq!(failed("etcd:///b"), LocationError::Host);
        assert_eq!(failed("etcd://a,/b"), LocationError::Host);
        assert_eq!(failed("etcd://a"), LocationError::Key);
        assert_eq!(failed("etcd://a/"), LocationError::Key);
        assert_eq!(failed("postgres://a/db"), LocationError::Key);
        assert_eq!(failed("redis://a/key"), LocationError::Key);
        assert_eq!(failed("etcd://a/%zz"), LocationError::Encoding);
        assert!(matches!(
            failed("etcd://a/b/../c"),
            LocationError::KeyRule(_)
        ));
        assert!(failed("redis://a/b/c?x=1").to_string().contains("`db`"));
        assert!(
            failed("etcd://a/b?x=1")
                .to_string()
                .contains("has no options")
        );
    }

    #[test]
    fn files_are_not_urls() {
        assert!(Location::is_url("etcd://a/b"));
        assert!(Location::is_url("consul://a/b"));
        for file in [
            "Caddyfile",
            "/etc/sluice/Caddyfile",
            "a:b",
            "://a",
            "./x://y",
        ] {
            assert!(!Location::is_url(file), "{file}");
        }
    }
}
