//! Connections to PostgreSQL: each with a runtime of its own, which runs only during a call.

use std::future::{Future, poll_fn};
use std::panic::resume_unwind;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::{Handle, Runtime};
use tokio::sync::mpsc::{Receiver, channel};
use tokio_postgres::config::TargetSessionAttrs;
use tokio_postgres::error::SqlState;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{AsyncMessage, Client, Config, Connection, NoTls, SimpleQueryMessage, Socket};

use super::schema::{COUNT, CREATE_LOCK, SCHEMA, TRIGGERS};
use super::tls::MakeTls;
use super::{PostgresOptions, SchemaSetup};
use crate::failure::{Fault, StoreError};
use crate::limits::{IDLE_CONNECTIONS_MAX, KEEPALIVE, NOTIFICATIONS_MAX};

/// Ways to the servers.
pub(super) struct Sessions {
    place: String,
    config: Config,
    tls: Option<MakeTls>,
    schema: SchemaSetup,
    timeout: Duration,
    idle: Mutex<Vec<Session>>,
}

/// A connection.
pub(super) struct Session {
    pub(super) client: Client,
    /// The keys that the server announces, if the connection listens.
    pub(super) announced: Receiver<String>,
    runtime: Runtime,
    timeout: Duration,
}

/// Why a watch ends.
pub(super) const ENDED: &str = "the connection of a watch has ended";

/// A call that failed.
pub(super) enum Failed {
    Database(tokio_postgres::Error),
    /// Not within the time limit.
    Late,
    /// With an error of its own.
    Own(Fault, String),
}

impl From<tokio_postgres::Error> for Failed {
    fn from(error: tokio_postgres::Error) -> Failed {
        Failed::Database(error)
    }
}

impl Session {
    /// Runs a call, up to the time limit.
    pub(super) fn run<'a, T, F: Future<Output = Result<T, Failed>> + 'a>(
        &'a mut self,
        call: impl FnOnce(&'a mut Client) -> F,
    ) -> Result<T, Failed> {
        let Session {
            client,
            runtime,
            timeout,
            ..
        } = self;
        let timeout = *timeout;
        let call = call(client);
        runtime.block_on(async move {
            let limited = tokio::time::timeout(timeout, call).await;
            limited.unwrap_or(Err(Failed::Late))
        })
    }

    /// The keys that are announced within `time`; `None` if the connection has ended.
    pub(super) fn announced(&mut self, time: Duration) -> Option<Vec<String>> {
        let Session {
            announced, runtime, ..
        } = self;
        runtime.block_on(async {
            let mut keys = Vec::new();
            match tokio::time::timeout(time, announced.recv_many(&mut keys, NOTIFICATIONS_MAX))
                .await
            {
                Ok(0) => None,
                Ok(_) | Err(_) => Some(keys),
            }
        })
    }

    /// Shows that the server responds within the time limit; what it announces first is returned.
    pub(super) fn probe(&mut self) -> Result<Vec<String>, Failed> {
        let Session {
            client,
            announced,
            runtime,
            timeout,
        } = self;
        let timeout = *timeout;
        runtime.block_on(async move {
            let mut keys = Vec::new();
            let mut response = pin!(client.check_connection());
            // The response comes after what was announced before it, for which there has to be room.
            let first = poll_fn(|context| {
                match announced.poll_recv_many(context, &mut keys, NOTIFICATIONS_MAX) {
                    Poll::Ready(0) => Poll::Ready(Err(Failed::Own(Fault::Away, ENDED.to_owned()))),
                    Poll::Ready(_) => Poll::Ready(Ok(())),
                    Poll::Pending => response.as_mut().poll(context).map_err(Failed::from),
                }
            });
            let limited = tokio::time::timeout(timeout, first).await;
            limited.unwrap_or(Err(Failed::Late))?;
            Ok(keys)
        })
    }
}

impl Sessions {
    pub(super) fn new(options: &PostgresOptions) -> Result<Sessions, StoreError> {
        let place = options.place();
        let mut config = options.config.clone();
        config
            .connect_timeout(options.timeout)
            .tcp_user_timeout(options.timeout)
            .keepalives_idle(KEEPALIVE)
            .keepalives_interval(KEEPALIVE)
            .keepalives_retries(3);
        if config.get_application_name().is_none() {
            config.application_name("sluice");
        }
        if config.get_hosts().len() > 1 {
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        let tls = options.uses_tls().then(|| MakeTls::new(&options.tls));
        let tls = tls
            .transpose()
            .map_err(|what| StoreError::new(Fault::Setting, &place, what))?;
        Ok(Sessions {
            config,
            tls,
            schema: options.schema,
            timeout: options.timeout,
            idle: Mutex::new(Vec::new()),
            place,
        })
    }

    pub(super) fn place(&self) -> &str {
        &self.place
    }

    /// Runs a call, on a thread of its own if this one runs a future: an ACME order does, and no thread can be in two
    /// runtimes.
    pub(super) fn run<T: Send>(
        &self,
        call: impl Fn(&mut Session) -> Result<T, Failed> + Sync,
    ) -> Result<T, StoreError> {
        if Handle::try_current().is_err() {
            return self.run_here(&call);
        }
        std::thread::scope(|scope| {
            let builder = std::thread::Builder::new().name("store".to_owned());
            let thread = builder.spawn_scoped(scope, || self.run_here(&call));
            let thread = thread
                .map_err(|error| StoreError::new(Fault::Limit, &self.place, error.to_string()))?;
            thread.join().unwrap_or_else(|panic| resume_unwind(panic))
        })
    }

    /// Runs a call on an idle connection or a new one. If an idle one turns out to be closed before the call could
    /// have an effect, or its server does not accept writes any more, the call is made again on a new one.
    fn run_here<T>(
        &self,
        call: &impl Fn(&mut Session) -> Result<T, Failed>,
    ) -> Result<T, StoreError> {
        if let Some(mut session) = self.open_idle() {
            match call(&mut session) {
                Err(failed) if self.is_outdated(&session, &failed) => self.idle().clear(),
                result => return self.finish(session, result),
            }
        }
        let mut session = self.connect()?;
        let result = call(&mut session);
        self.finish(session, result)
    }

    /// An idle connection that is not known to be closed.
    fn open_idle(&self) -> Option<Session> {
        let mut idle = self.idle();
        loop {
            let mut session = idle.pop()?;
            // The task of a connection notices its end only when it runs.
            let _ = session.announced(Duration::ZERO);
            if !session.client.is_closed() {
                return Some(session);
            }
        }
    }

    /// Whether a new connection may do better. What a closed one has begun was not committed, except where the commit
    /// itself got no response.
    fn is_outdated(&self, session: &Session, failed: &Failed) -> bool {
        match failed {
            Failed::Database(error) => {
                let is_refused = error.code() == Some(&SqlState::READ_ONLY_SQL_TRANSACTION);
                let ends = [SqlState::ADMIN_SHUTDOWN, SqlState::CRASH_SHUTDOWN];
                let is_ended = error.code().is_some_and(|code| ends.contains(code));
                (is_refused && self.config.get_hosts().len() > 1)
                    || is_ended
                    || (session.client.is_closed() && error.is_closed())
            }
            Failed::Late | Failed::Own(..) => false,
        }
    }

    fn finish<T>(&self, session: Session, result: Result<T, Failed>) -> Result<T, StoreError> {
        // A call that is late may still be running there. If the link is dead, other idle connections are as well, and
        // each would cost another call its time limit.
        let is_late = matches!(result, Err(Failed::Late));
        let is_usable = !session.client.is_closed() && !is_late;
        let mut idle = self.idle();
        if is_late {
            idle.clear();
        } else if is_usable && idle.len() < IDLE_CONNECTIONS_MAX {
            idle.push(session);
        }
        result.map_err(|failed| self.error(failed))
    }

    /// A new connection, with the tables in place.
    pub(super) fn connect(&self) -> Result<Session, StoreError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| StoreError::new(Fault::Limit, &self.place, error.to_string()))?;
        let connecting = async {
            let connected = async {
                match &self.tls {
                    Some(tls) => connected(&self.config, tls.clone()).await,
                    None => connected(&self.config, NoTls).await,
                }
            };
            let limited = tokio::time::timeout(self.timeout, connected).await;
            limited.unwrap_or(Err(Failed::Late))
        };
        let connected = runtime.block_on(connecting);
        let (client, announced) = connected.map_err(|failed| self.error(failed))?;
        let mut session = Session {
            client,
            announced,
            runtime,
            timeout: self.timeout,
        };
        let schema = self.schema;
        let prepared = session.run(|client| prepare(client, schema));
        prepared.map_err(|failed| self.error(failed))?;
        Ok(session)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Session>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn error(&self, failed: Failed) -> StoreError {
        let (fault, what) = match failed {
            Failed::Late => (
                Fault::Away,
                format!("no response within {:?}", self.timeout),
            ),
            Failed::Own(fault, what) => (fault, what),
            Failed::Database(error) => (fault(&error), text(&error)),
        };
        StoreError::new(fault, &self.place, what)
    }
}

/// Connects, and runs the connection in the background of its runtime.
async fn connected<T>(config: &Config, tls: T) -> Result<(Client, Receiver<String>), Failed>
where
    T: MakeTlsConnect<Socket>,
    T::Stream: Send + 'static,
{
    let (client, connection) = config.connect(tls).await?;
    let (sender, announced) = channel(NOTIFICATIONS_MAX);
    tokio::spawn(follow(connection, sender));
    Ok((client, announced))
}

async fn follow<S, T>(mut connection: Connection<S, T>, sender: tokio::sync::mpsc::Sender<String>)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    // The end of the connection shows in the next call.
    while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
        if let AsyncMessage::Notification(notification) = message
            && sender
                .send(notification.payload().to_owned())
                .await
                .is_err()
        {
            return;
        }
    }
}

/// Creates the tables, or checks that they are there. Each step is one message, for a database that is far away.
async fn prepare(client: &mut Client, schema: SchemaSetup) -> Result<(), Failed> {
    let rows = client.simple_query(COUNT).await?;
    let found = rows.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    if found == Some(TRIGGERS) {
        return Ok(());
    }
    if schema == SchemaSetup::Expect {
        let what = "the tables, columns or triggers of sluice are missing".to_owned();
        return Err(Failed::Own(Fault::Setting, what));
    }
    // Nothing happens to what another node has created meanwhile.
    let create = format!("begin; {CREATE_LOCK}; {SCHEMA}; commit");
    Ok(client.batch_execute(&create).await?)
}

/// The message of the server, or of what lies under an error of the library.
fn text(error: &tokio_postgres::Error) -> String {
    if let Some(reply) = error.as_db_error() {
        return reply.message().to_owned();
    }
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

fn fault(error: &tokio_postgres::Error) -> Fault {
    let Some(code) = error.code() else {
        // The library reports a login that it cannot make, for want of a password, by its text only.
        let is_login = text(error).contains("password missing");
        return if is_login {
            Fault::Credentials
        } else {
            Fault::Away
        };
    };
    // Classes and codes of appendix A of the manual.
    match code.code() {
        "42501" => Fault::Credentials,
        code if code.starts_with("28") => Fault::Credentials,
        "25006" | "53100" | "53200" => Fault::ReadOnly,
        "3D000" | "3F000" => Fault::Setting,
        code if code.starts_with("42") => Fault::Setting,
        code if code.starts_with("54") || code.starts_with("22") => Fault::Limit,
        _ => Fault::Away,
    }
}

impl std::fmt::Debug for Sessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sessions({})", self.place)
    }
}
