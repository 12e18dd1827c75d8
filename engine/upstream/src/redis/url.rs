//! Addresses of Redis servers as URLs: `redis://[USER[:PASSWORD]@]HOST[:PORT][/DB]`, `rediss://` for TLS, and
//! `redis+unix:///PATH[?db=N&user=U&password=P]` for a Unix socket. The forms are those of the redis clients of other languages.

use std::fmt;

use crate::endpoint::Address;

/// What a URL says.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisUrl {
    /// Where the server listens.
    pub address: Address,
    /// Whether the connection uses TLS.
    pub is_secure: bool,
    /// The ACL user; empty for the default user.
    pub user: String,
    /// The password; empty for none.
    pub password: String,
    /// The number of the database.
    pub database: u32,
}

/// Why a text is not such a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UrlError {
    /// It does not begin with a known scheme.
    Scheme,
    /// The host or the path of the socket is missing.
    Host,
    /// The port is not a number from 1 to 65535.
    Port,
    /// The database is not a number.
    Database,
    /// An escape sequence is not two hexadecimal digits, or the result is not UTF-8.
    Escape,
    /// A parameter that is not `db`, `user` or `password`.
    Parameter,
}

impl fmt::Display for UrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            UrlError::Scheme => "it does not begin with `redis://`, `rediss://` or `redis+unix://`",
            UrlError::Host => "the host is missing",
            UrlError::Port => "the port is not a number from 1 to 65535",
            UrlError::Database => "the database is not a number",
            UrlError::Escape => "it has an invalid percent-encoding",
            UrlError::Parameter => "a parameter is not `db`, `user` or `password`",
        })
    }
}

impl std::error::Error for UrlError {}

/// The port of Redis.
const PORT: u16 = 6379;

impl RedisUrl {
    /// Parses `text`.
    ///
    /// # Errors
    /// It is not such a URL.
    pub fn parse(text: &str) -> Result<RedisUrl, UrlError> {
        let (scheme, rest) = text.split_once("://").ok_or(UrlError::Scheme)?;
        match scheme {
            "redis" | "valkey" => RedisUrl::tcp(rest, false),
            "rediss" | "valkeys" => RedisUrl::tcp(rest, true),
            "unix" | "redis+unix" | "valkey+unix" => RedisUrl::unix(rest),
            _ => Err(UrlError::Scheme),
        }
    }

    /// The server and its database without the secrets, for messages and metrics.
    pub fn place(&self) -> String {
        let database = self.database;
        let scheme = if self.is_secure { "rediss" } else { "redis" };
        match &self.address {
            Address::Unix(path) => format!("redis+unix://{}?db={database}", path.display()),
            Address::Ip(addr) => format!("{scheme}://{addr}/{database}"),
            Address::Name { host, port } => format!("{scheme}://{host}:{port}/{database}"),
        }
    }

    fn tcp(rest: &str, is_secure: bool) -> Result<RedisUrl, UrlError> {
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (credentials, host) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = credentials.split_once(':').unwrap_or((credentials, ""));
        let (host, port) = match host.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']').ok_or(UrlError::Host)?;
                (host, port.strip_prefix(':'))
            }
            None => match host.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (host, None),
            },
        };
        if host.is_empty() {
            return Err(UrlError::Host);
        }
        let port = match port {
            None => PORT,
            Some(port) => port
                .parse()
                .ok()
                .filter(|port| *port > 0)
                .ok_or(UrlError::Port)?,
        };
        Ok(RedisUrl {
            address: Address::tcp(&decoded(host)?, port),
            is_secure,
            user: decoded(user)?,
            password: decoded(password)?,
            database: database(path)?,
        })
    }

    fn unix(rest: &str) -> Result<RedisUrl, UrlError> {
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        if !path.starts_with('/') {
            return Err(UrlError::Host);
        }
        let mut url = RedisUrl {
            address: Address::unix(decoded(path)?),
            is_secure: false,
            user: String::new(),
            password: String::new(),
            database: 0,
        };
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            match parameter.split_once('=') {
                Some(("db", number)) => url.database = database(number)?,
                Some(("user", user)) => url.user = decoded(user)?,
                Some(("password", password)) => url.password = decoded(password)?,
                Some(_) | None => return Err(UrlError::Parameter),
            }
        }
        Ok(url)
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.place())
    }
}

fn database(text: &str) -> Result<u32, UrlError> {
    match text {
        "" => Ok(0),
        number => number.parse().map_err(|_| UrlError::Database),
    }
}

/// Decodes percent-encoding (RFC 3986, section 2.1).
fn decoded(text: &str) -> Result<String, UrlError> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut digit = || char::from(bytes.next()?).to_digit(16);
        let (Some(high), Some(low)) = (digit(), digit()) else {
            return Err(UrlError::Escape);
        };
        out.push((high * 16 + low) as u8);
    }
    String::from_utf8(out).map_err(|_| UrlError::Escape)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_server_user_and_database() {
        let url = RedisUrl::parse("rediss://limits:p%40ss%3a@[::1]:7000/3").unwrap();
        assert_eq!(url.address, Address::tcp("::1", 7000));
        assert!(url.is_secure);
        assert_eq!(
            (&*url.user, &*url.password, url.database),
            ("limits", "p@ss:", 3)
        );
        assert_eq!(url.place(), "rediss://[::1]:7000/3", "without the password");
        assert_eq!(format!("{url:?}"), url.place());
        let url = RedisUrl::parse("redis://:secret@cache.internal").unwrap();
        assert_eq!(url.address, Address::tcp("cache.internal", PORT));
        assert_eq!(
            (&*url.user, &*url.password, url.database),
            ("", "secret", 0)
        );
        let url = RedisUrl::parse("redis+unix:///run/redis.sock?db=2&password=x").unwrap();
        assert_eq!(url.address, Address::unix("/run/redis.sock"));
        assert_eq!((&*url.password, url.database), ("x", 2));
    }

    #[test]
    fn each_mistake_has_its_error() {
        for (text, error) in [
            ("127.0.0.1:6379", UrlError::Scheme),
            ("http://127.0.0.1", UrlError::Scheme),
            ("redis://", UrlError::Host),
            ("redis://user:password@/1", UrlError::Host),
            ("redis://[::1", UrlError::Host),
            ("redis+unix://run/redis.sock", UrlError::Host),
            ("redis://host:0", UrlError::Port),
            ("redis://host:port", UrlError::Port),
            ("redis://host/one", UrlError::Database),
            ("redis://:%4@host", UrlError::Escape),
            ("redis://:%ff@host", UrlError::Escape),
            ("redis+unix:///a?timeout=1", UrlError::Parameter),
        ] {
            assert_eq!(RedisUrl::parse(text), Err(error), "{text}");
        }
    }
}
