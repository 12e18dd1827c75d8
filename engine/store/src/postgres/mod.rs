//! Values in PostgreSQL, in the tables of the plugin `caddy.storage.postgres`, so that a fleet of Caddy servers can use
//! the same store. Leases are rows with a fencing token; changes are announced by `NOTIFY`, from triggers, so those
//! that Caddy makes are announced as well.

mod lease;
mod options;
mod schema;
mod session;
mod tls;
mod watch;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, IsolationLevel, Transaction};

use crate::calls::{Calls, Statistics, checked};
use crate::failure::{Fault, StoreError};
use crate::lease::Lease;
use crate::limits::{CONFLICT_RETRIES, ENTRIES_MAX};
use crate::values::{Entry, Guard, Listed, Reach, Value, Version, Write, entries};
use crate::{Key, Store, Watch};
use session::{Failed, Sessions};

pub use options::{PostgresOptions, SchemaSetup};
pub use schema::SCHEMA;

/// A store in PostgreSQL 13 or newer.
#[derive(Debug)]
pub struct PostgresStore {
    shared: Arc<Shared>,
}

/// What leases and watches need of a store.
#[derive(Debug)]
struct Shared {
    sessions: Sessions,
    calls: Calls,
    lease_ttl: Duration,
    probe: Duration,
}

const LOAD: &str = "
select key, coalesce(value, ''), coalesce(modified, 'epoch'), coalesce(revision, 0)
from certmagic_data where key = any($1)";

const LIST: &str = "
select key, coalesce(octet_length(value), 0), coalesce(modified, 'epoch')
from certmagic_data where starts_with(key, $1) limit $2";

const PUT: &str = "
insert into certmagic_data (key, value) select * from unnest($1::text[], $2::bytea[])
on conflict (key) do update set value = excluded.value, modified = current_timestamp";

const DELETE: &str = "delete from certmagic_data where key = any($1)";

/// Locks the row, so that nobody takes the lease over before the write is committed.
const HELD: &str = "select 1 from certmagic_locks where key = $1 and token = $2 for share";

const REVISION: &str = "select coalesce(revision, 0) from certmagic_data where key = $1";

impl PostgresStore {
    /// A store with these options. No connection is made before the first call.
    ///
    /// # Errors
    /// [`Fault::Setting`] if a certificate cannot be used.
    pub fn open(options: &PostgresOptions) -> Result<PostgresStore, StoreError> {
        Ok(PostgresStore {
            shared: Arc::new(Shared {
                sessions: Sessions::new(options)?,
                calls: Calls::default(),
                lease_ttl: options.lease_ttl,
                probe: options.probe,
            }),
        })
    }
}

impl Store for PostgresStore {
    fn place(&self) -> &str {
        self.shared.sessions.place()
    }

    fn load(&self, keys: &[&Key]) -> Result<Vec<Option<Value>>, StoreError> {
        let shared = &self.shared;
        shared.calls.run(|| shared.load(keys))
    }

    fn save(&self, writes: &[Write<'_>], guard: Guard<'_>) -> Result<(), StoreError> {
        let shared = &self.shared;
        let mut writes = checked(writes, self.place())?;
        // Two transactions that lock rows in the same order do not wait for each other in a circle.
        writes.sort_by(|a, b| a.key().cmp(b.key()));
        shared.calls.run(|| shared.save(&writes, guard))
    }

    fn list(&self, prefix: &Key, reach: Reach) -> Result<Vec<Entry>, StoreError> {
        let shared = &self.shared;
        let listed = shared.calls.run(|| shared.list(prefix))?;
        entries(prefix, reach, listed.into_iter(), self.place())
    }

    fn lease(&self, name: &str, timeout: Duration) -> Result<Lease, StoreError> {
        lease::take(&self.shared, name, timeout)
    }

    fn break_lease(&self, name: &str) -> Result<bool, StoreError> {
        self.shared.calls.run(|| lease::end(&self.shared, name))
    }

    fn leases(&self) -> Result<Vec<String>, StoreError> {
        self.shared.calls.run(|| lease::names(&self.shared))
    }

    fn watch(&self, prefix: &Key) -> Result<Box<dyn Watch>, StoreError> {
        let shared = &self.shared;
        let watch = shared.calls.run(|| watch::begin(shared, prefix))?;
        Ok(Box::new(watch))
    }

    fn statistics(&self) -> Statistics {
        self.shared.calls.statistics()
    }
}

impl Shared {
    fn error(&self, fault: Fault, what: impl Into<String>) -> StoreError {
        StoreError::new(fault, self.sessions.place(), what)
    }

    fn load(&self, keys: &[&Key]) -> Result<Vec<Option<Value>>, StoreError> {
        let names: Vec<&str> = keys.iter().map(|key| key.as_str()).collect();
        let rows = self
            .sessions
            .run(|session| session.run(async |client| Ok(client.query(LOAD, &[&names]).await?)))?;
        let found = rows.into_iter().map(|row| {
            let (key, bytes, modified, revision): (String, Vec<u8>, SystemTime, i64) =
                (row.get(0), row.get(1), row.get(2), row.get(3));
            let value = Value {
                bytes,
                modified,
                version: Version(revision.to_string()),
            };
            (key, value)
        });
        let found: HashMap<String, Value> = found.collect();
        Ok(names.iter().map(|&name| found.get(name).cloned()).collect())
    }

    fn save(&self, writes: &[Write<'_>], guard: Guard<'_>) -> Result<(), StoreError> {
        self.sessions.run(|session| {
            let mut conflicts = 0;
            loop {
                match session.run(async |client| transaction(client, writes, guard).await) {
                    Err(failed) if is_conflict(&failed) && conflicts < CONFLICT_RETRIES => {
                        conflicts += 1;
                    }
                    // Others write the same all the time: so it has changed.
                    Err(failed) if is_conflict(&failed) => {
                        return Err(Failed::Own(Fault::Refused, guard.refusal()));
                    }
                    other => return other,
                }
            }
        })
    }

    fn list(&self, prefix: &Key) -> Result<Vec<Listed>, StoreError> {
        let first = match prefix.as_str() {
            "" => String::new(),
            text => format!("{text}/"),
        };
        let limit = i64::try_from(ENTRIES_MAX + 1).unwrap_or(i64::MAX);
        let rows = self.sessions.run(|session| {
            session.run(async |client| Ok(client.query(LIST, &[&first, &limit]).await?))
        })?;
        if rows.len() > ENTRIES_MAX {
            let what = format!("more than {ENTRIES_MAX} values below `{prefix}`");
            return Err(self.error(Fault::Limit, what));
        }
        let listed = rows.iter().filter_map(|row| {
            // Something else may have written what is not a key.
            let key = Key::new(row.get::<_, String>(0)).ok()?;
            let size: i32 = row.get(1);
            Some((key, u64::try_from(size).unwrap_or_default(), row.get(2)))
        });
        Ok(listed.collect())
    }
}

async fn transaction(
    client: &mut Client,
    writes: &[Write<'_>],
    guard: Guard<'_>,
) -> Result<(), Failed> {
    // With this level a write of another transaction between the check and ours is a conflict.
    let level = match guard {
        Guard::Unchanged(..) => IsolationLevel::Serializable,
        Guard::Always | Guard::Held(_) => IsolationLevel::ReadCommitted,
    };
    let transaction = client.build_transaction().isolation_level(level);
    let transaction = transaction.start().await?;
    if !holds(&transaction, guard).await? {
        return Err(Failed::Own(Fault::Refused, guard.refusal()));
    }
    let mut names = Vec::new();
    let mut values = Vec::new();
    let mut gone = Vec::new();
    for write in writes {
        match write {
            Write::Put(key, bytes) => {
                names.push(key.as_str());
                values.push(*bytes);
            }
            Write::Delete(key) => gone.push(key.as_str()),
        }
    }
    if !names.is_empty() {
        transaction.execute(PUT, &[&names, &values]).await?;
    }
    if !gone.is_empty() {
        transaction.execute(DELETE, &[&gone]).await?;
    }
    match transaction.commit().await {
        // A second attempt would find its own write and take it for another's.
        Err(error) if error.is_closed() => {
            let what = "the connection ended during a commit, which may have been made";
            Err(Failed::Own(Fault::Away, what.to_owned()))
        }
        other => Ok(other?),
    }
}

async fn holds(transaction: &Transaction<'_>, guard: Guard<'_>) -> Result<bool, Failed> {
    match guard {
        Guard::Always => Ok(true),
        Guard::Held(fence) => {
            // The text of another engine is not a token of this one.
            let Ok(token) = fence.token.parse::<i64>() else {
                return Ok(false);
            };
            let row = transaction.query_opt(HELD, &[&fence.name, &token]).await?;
            Ok(row.is_some())
        }
        Guard::Unchanged(key, version) => {
            let row = transaction.query_opt(REVISION, &[&key.as_str()]).await?;
            let present = row.map(|row| row.get::<_, i64>(0).to_string());
            Ok(present.as_ref() == version.map(|version| &version.0))
        }
    }
}

/// Whether the database undid a transaction because of another.
fn is_conflict(failed: &Failed) -> bool {
    let Failed::Database(error) = failed else {
        return false;
    };
    let conflicts = [
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::UNIQUE_VIOLATION,
    ];
    error.code().is_some_and(|code| conflicts.contains(code))
}
