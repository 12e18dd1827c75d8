//! How to reach Redis, and how values are written there.

use std::fmt;
use std::time::Duration;

use crate::limits::{CALL_TIMEOUT, LEASE_TTL, WATCH_POLL, WATCH_PROBE};
use crate::tls::TlsOptions;

/// Options of a [`RedisStore`](super::RedisStore). The names and the defaults are those of caddy-storage-redis.
#[derive(Clone)]
pub struct RedisOptions {
    /// The server, or the sentinels that know it.
    pub servers: RedisServers,
    /// The user; the default user if `None`.
    pub username: Option<String>,
    /// The password of the user.
    pub password: Option<String>,
    /// The number of the database.
    pub db: i64,
    /// What the keys begin with, followed by a slash.
    pub prefix: String,
    /// The time limit of a call, and of connecting before it.
    pub timeout: Duration,
    /// How connections are encrypted; `None` for plain ones.
    pub tls: Option<TlsOptions>,
    /// The name of connections in `CLIENT LIST`; none if it is empty.
    pub client_name: String,
    /// How values are compressed. All kinds are read.
    pub compression: Compression,
    /// The key that encrypts values, as caddy-storage-redis does with its `encryption_key`. Values that are not
    /// encrypted are read as well.
    pub encryption_key: Option<[u8; 32]>,
    /// Keys that only decrypt: those that values were encrypted with before.
    pub former_keys: Vec<[u8; 32]>,
    /// How long a lease lasts without its holder.
    pub lease_ttl: Duration,
    /// How often a watch looks for writes of others, such as Caddy, which it is not informed of.
    pub poll: Duration,
    /// How often a watch probes its connection.
    pub probe: Duration,
}

/// Where the server is.
#[derive(Clone)]
pub enum RedisServers {
    /// At this host and port.
    Single(String, u16),
    /// Where the sentinels say.
    Sentinels {
        /// Host and port of each.
        sentinels: Vec<(String, u16)>,
        /// The name of the master.
        master: String,
        /// The password of the sentinels.
        password: Option<String>,
    },
}

/// How values are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// They are not.
    #[default]
    None,
    /// DEFLATE (RFC 1951).
    Flate,
    /// DEFLATE with the header and the checksum of zlib (RFC 1950).
    Zlib,
}

impl Default for RedisOptions {
    fn default() -> RedisOptions {
        RedisOptions {
            servers: RedisServers::Single("127.0.0.1".to_owned(), 6379),
            username: None,
            password: None,
            db: 0,
            prefix: "caddy".to_owned(),
            timeout: CALL_TIMEOUT,
            tls: None,
            client_name: String::new(),
            compression: Compression::None,
            encryption_key: None,
            former_keys: Vec::new(),
            lease_ttl: LEASE_TTL,
            poll: WATCH_POLL,
            probe: WATCH_PROBE,
        }
    }
}

impl RedisOptions {
    /// The servers and the database, as messages have them.
    pub(super) fn place(&self) -> String {
        let scheme = if self.tls.is_some() {
            "rediss"
        } else {
            "redis"
        };
        let address = |(host, port): &(String, u16)| match host.contains(':') {
            true => format!("[{host}]:{port}"),
            false => format!("{host}:{port}"),
        };
        match &self.servers {
            RedisServers::Single(host, port) => {
                let server = address(&(host.clone(), *port));
                format!("{scheme}://{server}/{}", self.db)
            }
            RedisServers::Sentinels {
                sentinels, master, ..
            } => {
                let all: Vec<String> = sentinels.iter().map(address).collect();
                format!("{scheme}+sentinel://{}/{master}/{}", all.join(","), self.db)
            }
        }
    }
}

impl fmt::Debug for RedisOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisOptions")
            .field("place", &self.place())
            .field("username", &self.username)
            .field("prefix", &self.prefix)
            .field("timeout", &self.timeout)
            .field("compression", &self.compression)
            .finish_non_exhaustive()
    }
}
