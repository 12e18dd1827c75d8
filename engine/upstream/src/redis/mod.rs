//! Calls to a Redis server in the time of a request: one connection per worker, pipelined, with a deadline per call. A
//! server that is away costs a request nothing: calls fail at once until the connection is back. `sluice-wire` has the
//! protocol; what the commands mean is up to the caller.

mod connection;
mod lines;
mod script;
mod standing;
mod url;

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluice_net::tls::Connector;
use sluice_net::worker::Worker;
use sluice_wire::resp::{Reply, encode_command};

use crate::endpoint::{Endpoint, Options, Timeouts};
use crate::limits::REDIS_CONNECT_TIMEOUT;
use lines::Lines;

pub use script::Script;
pub use standing::{Reachability, RedisCounts};
pub use url::{RedisUrl, UrlError};

use standing::Standing;

/// A Redis server, shared by all workers.
pub struct RedisServer {
    endpoint: Arc<Endpoint>,
    /// What is sent first on a connection, and the number of replies to it.
    greeting: (Vec<u8>, usize),
    place: String,
    standing: Standing,
}

/// Why a call has no reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallError {
    /// The server was away when the call was made; nothing was sent.
    Away,
    /// Too many calls are waiting for a reply; nothing was sent.
    Busy,
    /// The reply did not arrive within the deadline. The server may have executed the command.
    Deadline,
    /// The connection was lost. The server may have executed the command.
    Lost,
    /// The server replied with this error.
    Refused(String),
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallError::Away => f.write_str("the server is away"),
            CallError::Busy => f.write_str("too many calls are waiting"),
            CallError::Deadline => f.write_str("no reply within the deadline"),
            CallError::Lost => f.write_str("the connection was lost"),
            CallError::Refused(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for CallError {}

impl RedisServer {
    /// The server that `url` names. `connector` is used if the URL asks for TLS. `on_change` is called, on a thread of
    /// a worker, when the first worker finds the server away, and when the last one has it back.
    pub fn new(
        url: &RedisUrl,
        connector: Option<Arc<Connector>>,
        on_change: impl Fn(&Reachability) + Send + Sync + 'static,
    ) -> RedisServer {
        let options = Options {
            tls: connector.filter(|_| url.is_secure),
            timeouts: Timeouts {
                dial: REDIS_CONNECT_TIMEOUT,
                ..Timeouts::default()
            },
            ..Options::default()
        };
        RedisServer {
            endpoint: Arc::new(Endpoint::new(url.address.clone(), options)),
            greeting: greeting(url),
            place: url.place(),
            standing: Standing::new(on_change),
        }
    }

    /// The server and its database without secrets, for messages and metrics.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// What calls have come to so far.
    pub fn counts(&self) -> &RedisCounts {
        &self.standing.counts
    }

    /// Whether a worker has found the server away and does not have it back.
    pub fn is_away(&self) -> bool {
        self.standing.is_away()
    }

    /// Runs a script with one key. The reply arrives within `deadline`, or not at all.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn run(
        self: &Arc<Self>,
        worker: &Rc<Worker>,
        script: &Script,
        (key, args): (&[u8], &[&[u8]]),
        deadline: Duration,
    ) -> Result<Reply, CallError> {
        let began = Instant::now();
        let first = script.by_digest(key, args);
        let mut result = self.exchange(worker, first, deadline).await;
        if let Err(CallError::Refused(message)) = &result
            && message.starts_with("NOSCRIPT")
        {
            // The server was restarted, or its scripts were flushed.
            let left = deadline.saturating_sub(began.elapsed());
            result = self.exchange(worker, script.whole(key, args), left).await;
        }
        self.standing.counts.note(&result, began.elapsed());
        result
    }

    /// Sends a command. The reply arrives within `deadline`, or not at all.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn ask(
        self: &Arc<Self>,
        worker: &Rc<Worker>,
        words: &[&[u8]],
        deadline: Duration,
    ) -> Result<Reply, CallError> {
        let mut command = Vec::new();
        encode_command(words.iter().copied(), &mut command);
        self.exchange(worker, command, deadline).await
    }

    async fn exchange(
        self: &Arc<Self>,
        worker: &Rc<Worker>,
        command: Vec<u8>,
        deadline: Duration,
    ) -> Result<Reply, CallError> {
        let lines: Rc<Lines> = worker.local();
        let line = lines.line(self, |line| connection::drive(worker.clone(), line));
        match line.call(command, deadline).await? {
            Reply::Error(message) => Err(CallError::Refused(
                String::from_utf8_lossy(&message).into_owned(),
            )),
            reply => Ok(reply),
        }
    }
}

impl fmt::Debug for RedisServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RedisServer").field(&self.place).finish()
    }
}

/// The commands that begin a connection, and their number.
fn greeting(url: &RedisUrl) -> (Vec<u8>, usize) {
    let (mut out, mut count) = (Vec::new(), 0);
    let mut add = |words: &[&[u8]]| {
        encode_command(words.iter().copied(), &mut out);
        count += 1;
    };
    match (&*url.user, &*url.password) {
        ("", "") => {}
        ("", password) => add(&[b"AUTH", password.as_bytes()]),
        (user, password) => add(&[b"AUTH", user.as_bytes(), password.as_bytes()]),
    }
    let database = url.database.to_string();
    if url.database != 0 {
        add(&[b"SELECT", database.as_bytes()]);
    }
    // A server that demands a password or is still loading its data says so in reply to this.
    add(&[b"PING"]);
    (out, count)
}

#[cfg(test)]
mod tests;
