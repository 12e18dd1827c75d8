//! How to reach PostgreSQL.

use std::fmt;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use crate::limits::{CALL_TIMEOUT, LEASE_TTL, WATCH_PROBE};
use crate::tls::{TlsOptions, TlsVerification};

/// Options of a [`PostgresStore`](super::PostgresStore).
#[derive(Clone)]
pub struct PostgresOptions {
    /// Servers, user, password and database.
    pub(super) config: Config,
    /// The certificates for encrypted connections, and how servers are verified.
    pub tls: TlsOptions,
    /// Whether the tables, their columns and their triggers are created if they are missing.
    pub schema: SchemaSetup,
    /// The time limit of a call, and of connecting before it.
    pub timeout: Duration,
    /// How long a lease lasts without its holder.
    pub lease_ttl: Duration,
    /// How often a watch probes its connection.
    pub probe: Duration,
}

/// Who creates the tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SchemaSetup {
    /// The store, at its first call.
    #[default]
    Create,
    /// An operator, with the statements of [`SCHEMA`](super::SCHEMA).
    Expect,
}

impl PostgresOptions {
    /// Options from a connection string, `key=value` pairs or a URI. `sslmode` is `disable`, `prefer` (encrypted if the
    /// server can), `require` (encrypted, with any certificate), `verify-ca` or `verify-full`, which both verify the
    /// certificate and the name. Of several hosts the first that accepts writes is used.
    ///
    /// # Errors
    /// What is wrong with the text, without its values.
    pub fn parse(text: &str) -> Result<PostgresOptions, String> {
        let (plain, is_verified) = without_verification(text);
        let mut config: Config = plain.parse().map_err(|error: tokio_postgres::Error| {
            let reason = std::error::Error::source(&error).map(ToString::to_string);
            reason.unwrap_or_else(|| error.to_string())
        })?;
        if config.get_hosts().is_empty() {
            config.host("127.0.0.1");
        }
        Ok(PostgresOptions {
            config,
            tls: TlsOptions {
                verification: match is_verified {
                    true => TlsVerification::Full,
                    false => TlsVerification::None,
                },
                ..TlsOptions::default()
            },
            schema: SchemaSetup::Create,
            timeout: CALL_TIMEOUT,
            lease_ttl: LEASE_TTL,
            probe: WATCH_PROBE,
        })
    }

    /// Whether connections may be encrypted.
    pub(super) fn uses_tls(&self) -> bool {
        self.config.get_ssl_mode() != SslMode::Disable
    }

    /// The servers and the database, as messages have them.
    pub(super) fn place(&self) -> String {
        let ports = self.config.get_ports();
        let hosts = self.config.get_hosts().iter().enumerate();
        let hosts = hosts.map(|(at, host)| {
            let port = ports.get(at).or(ports.first()).copied().unwrap_or(5432);
            match host {
                Host::Tcp(name) if name.contains(':') => format!("[{name}]:{port}"),
                Host::Tcp(name) => format!("{name}:{port}"),
                Host::Unix(path) => format!("{}:{port}", path.display()),
            }
        });
        let hosts: Vec<String> = hosts.collect();
        let database = self.config.get_dbname().or(self.config.get_user());
        format!(
            "postgres://{}/{}",
            hosts.join(","),
            database.unwrap_or_default()
        )
    }
}

/// The text with the modes that the library does not know as `require`, and whether it had one of them.
fn without_verification(text: &str) -> (String, bool) {
    let mut plain = text.to_owned();
    let mut is_verified = false;
    for mode in ["sslmode=verify-full", "sslmode=verify-ca"] {
        is_verified |= plain.contains(mode);
        plain = plain.replace(mode, "sslmode=require");
    }
    (plain, is_verified)
}

impl fmt::Debug for PostgresOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresOptions")
            .field("place", &self.place())
            .field("user", &self.config.get_user())
            .field("tls", &self.tls)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_strings_are_read_in_both_forms() {
        let pairs = PostgresOptions::parse(
            "host=db.test port=5433 user=web password=secret dbname=certs sslmode=verify-full",
        );
        let pairs = pairs.unwrap();
        assert_eq!(pairs.place(), "postgres://db.test:5433/certs");
        assert!(pairs.uses_tls());
        assert_eq!(pairs.tls.verification, TlsVerification::Full);
        assert!(!format!("{pairs:?}").contains("secret"));
        let uri = "postgres://web:secret@a.test,b.test:6000/certs?sslmode=disable";
        let uri = PostgresOptions::parse(uri).unwrap();
        assert_eq!(uri.place(), "postgres://a.test:5432,b.test:6000/certs");
        assert!(!uri.uses_tls());
        let error = PostgresOptions::parse("host=a passwort=secret").unwrap_err();
        assert!(
            error.contains("passwort") && !error.contains("secret"),
            "{error}"
        );
    }
}
