//! Connections to Redis: finding the master, logging in, idle connections, and errors by their kind.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::{
    Client, ClientTlsConfig, Cmd, Connection, ConnectionAddr, ConnectionInfo, ErrorKind,
    FromRedisValue, IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo, RedisError,
    TlsCertificates, cmd,
};

use super::{RedisOptions, RedisServers};
use crate::calls::Attempt;
use crate::failure::{Fault, StoreError};
use crate::limits::IDLE_CONNECTIONS_MAX;
use crate::tls::{TlsOptions, TlsVerification};

/// A way to the server.
pub(super) struct Link {
    place: String,
    servers: RedisServers,
    user: RedisConnectionInfo,
    tls: Option<TlsOptions>,
    client_name: String,
    timeout: Duration,
    idle: Mutex<Vec<Connection>>,
}

impl Link {
    /// A way without a connection.
    pub(super) fn new(options: &RedisOptions) -> Result<Link, StoreError> {
        let place = options.place();
        let mut user = RedisConnectionInfo::default()
            .set_db(options.db)
            .set_skip_set_lib_name();
        if let Some(name) = &options.username {
            user = user.set_username(name);
        }
        if let Some(password) = &options.password {
            user = user.set_password(password);
        }
        let link = Link {
            servers: options.servers.clone(),
            user,
            tls: options.tls.clone(),
            client_name: options.client_name.clone(),
            timeout: options.timeout,
            idle: Mutex::new(Vec::new()),
            place,
        };
        if let RedisServers::Sentinels { sentinels, .. } = &options.servers
            && sentinels.is_empty()
        {
            return Err(link.error(Fault::Setting, "no sentinel is configured"));
        }
        // Bad certificates are reported now rather than by the first call.
        link.client("localhost", 1, RedisConnectionInfo::default())
            .map_err(|error| link.error(Fault::Setting, error.to_string()))?;
        Ok(link)
    }

    pub(super) fn place(&self) -> &str {
        &self.place
    }

    /// The time limit of a call.
    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    pub(super) fn error(&self, fault: Fault, what: impl Into<String>) -> StoreError {
        StoreError::new(fault, &self.place, what)
    }

    /// Sends a command that has the same effect if it is sent twice.
    pub(super) fn call<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, StoreError> {
        Ok(self.call_tracked(command)?.0)
    }

    /// Sends a command, and once again on a new connection if an idle one was closed meanwhile, or the server is not
    /// the master any more.
    pub(super) fn call_tracked<T: FromRedisValue>(
        &self,
        command: &Cmd,
    ) -> Result<(T, Attempt), StoreError> {
        let idle = self.idle().pop();
        let was_idle = idle.is_some();
        let mut connection = idle.map_or_else(|| self.connect(), Ok)?;
        let first = match command.query(&mut connection) {
            Ok(reply) => {
                self.keep(connection);
                return Ok((reply, Attempt::First));
            }
            Err(error) => error,
        };
        let is_closed = was_idle && first.is_connection_dropped() && !first.is_timeout();
        let is_replaced = matches!(self.servers, RedisServers::Sentinels { .. })
            && (first.is_io_error() || self.failed(&first).fault == Fault::ReadOnly);
        if !is_closed && !is_replaced {
            if !first.is_io_error() {
                self.keep(connection);
            } else if first.is_timeout() {
                // If the link is dead, other idle connections are as well, and each would cost a call its time limit.
                self.idle().clear();
            }
            return Err(self.failed(&first));
        }
        // Others that are idle have the same end.
        self.idle().clear();
        let mut connection = self.connect()?;
        match command.query(&mut connection) {
            Ok(reply) => {
                self.keep(connection);
                Ok((reply, Attempt::Repeated))
            }
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// A new connection to the master, logged in.
    fn connect(&self) -> Result<Connection, StoreError> {
        self.connect_as(self.user.clone())
    }

    /// A new connection on which messages differ from responses.
    pub(super) fn connect_for_pushes(&self) -> Result<Connection, StoreError> {
        self.connect_as(self.user.clone().set_protocol(ProtocolVersion::RESP3))
    }

    fn connect_as(&self, user: RedisConnectionInfo) -> Result<Connection, StoreError> {
        let (host, port) = match &self.servers {
            RedisServers::Single(host, port) => (host.clone(), *port),
            RedisServers::Sentinels {
                sentinels,
                master,
                password,
            } => self.master(sentinels, master, password.as_deref())?,
        };
        let mut connection = self
            .open(&host, port, user)
            .map_err(|error| self.failed(&error))?;
        if !self.client_name.is_empty() {
            let named: Result<(), RedisError> = cmd("CLIENT")
                .arg("SETNAME")
                .arg(&self.client_name)
                .query(&mut connection);
            named.map_err(|error| self.failed(&error))?;
        }
        Ok(connection)
    }

    fn open(
        &self,
        host: &str,
        port: u16,
        user: RedisConnectionInfo,
    ) -> Result<Connection, RedisError> {
        let client = self.client(host, port, user)?;
        let connection = client.get_connection_with_timeout(self.timeout)?;
        connection.set_read_timeout(Some(self.timeout))?;
        connection.set_write_timeout(Some(self.timeout))?;
        Ok(connection)
    }

    fn client(
        &self,
        host: &str,
        port: u16,
        user: RedisConnectionInfo,
    ) -> Result<Client, RedisError> {
        let addr = match &self.tls {
            None => ConnectionAddr::Tcp(host.to_owned(), port),
            Some(tls) => ConnectionAddr::TcpTls {
                host: host.to_owned(),
                port,
                insecure: tls.verification == TlsVerification::None,
                tls_params: None,
            },
        };
        let info: ConnectionInfo = addr.into_connection_info()?.set_redis_settings(user);
        let Some(tls) = &self.tls else {
            return Client::open(info);
        };
        let identity = tls.identity.as_ref();
        let certificates = TlsCertificates {
            client_tls: identity.map(|(chain, key)| ClientTlsConfig {
                client_cert: chain.clone(),
                client_key: key.clone(),
            }),
            root_cert: tls.ca.clone(),
        };
        Client::build_with_tls(info, certificates)
    }

    /// The address of the master, from the first sentinel that knows it.
    fn master(
        &self,
        sentinels: &[(String, u16)],
        name: &str,
        password: Option<&str>,
    ) -> Result<(String, u16), StoreError> {
        let mut user = RedisConnectionInfo::default().set_skip_set_lib_name();
        if let Some(password) = password {
            user = user.set_password(password);
        }
        let mut last = self.error(Fault::Away, "no sentinel responds");
        for (host, port) in sentinels {
            let known: Result<Option<(String, u16)>, RedisError> = self
                .open(host, *port, user.clone())
                .and_then(|mut sentinel| {
                    cmd("SENTINEL")
                        .arg("get-master-addr-by-name")
                        .arg(name)
                        .query(&mut sentinel)
                });
            match known {
                Ok(Some(address)) => return Ok(address),
                Ok(None) => {
                    let what = format!("the sentinel {host}:{port} knows no master `{name}`");
                    last = self.error(Fault::Setting, what);
                }
                Err(error) => last = self.failed(&error),
            }
        }
        Err(last)
    }

    /// Keeps a connection for the next call.
    fn keep(&self, connection: Connection) {
        let mut idle = self.idle();
        if idle.len() < IDLE_CONNECTIONS_MAX {
            idle.push(connection);
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An error of the library by its kind.
    pub(super) fn failed(&self, error: &RedisError) -> StoreError {
        if error.is_timeout() {
            let what = format!("no response within {:?}", self.timeout);
            return self.error(Fault::Away, what);
        }
        let detail = error.detail().unwrap_or_default();
        self.error(fault(error.kind(), error.code(), detail), error.to_string())
    }
}

/// The kind of an error. `code` is the first word of what the server replied, `detail` the rest.
fn fault(kind: ErrorKind, code: Option<&str>, detail: &str) -> Fault {
    // Before Redis 7 the errors of a script stand in the text of another.
    let within = |word: &str| detail.contains(&format!("-{word} "));
    let is = |words: &[&str]| {
        let mut words = words.iter();
        words.any(|word| code == Some(*word) || within(word))
    };
    if is(&["OOM", "READONLY", "MISCONF", "NOREPLICAS"]) {
        return Fault::ReadOnly;
    }
    if is(&["WRONGPASS", "NOAUTH", "NOPERM"]) || kind == ErrorKind::AuthenticationFailed {
        return Fault::Credentials;
    }
    // A long command of a client that has not logged in, and a command in a script that the user may not run.
    let lacks_rights = ["unauthenticated", "The user executing the script can't"];
    if lacks_rights.iter().any(|text| detail.contains(text)) {
        return Fault::Credentials;
    }
    if is(&["MOVED", "ASK", "CROSSSLOT"]) {
        return Fault::Setting;
    }
    match kind {
        ErrorKind::InvalidClientConfig => Fault::Setting,
        _ if detail.contains("DB index is out of range") => Fault::Setting,
        _ if detail.contains("unknown command") => Fault::Setting,
        _ => Fault::Away,
    }
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Link({})", self.place)
    }
}
