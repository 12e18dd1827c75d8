//! Leases in PostgreSQL: rows with the time at which they end, by the clock of the database, and a fencing token.

use std::sync::Arc;
use std::time::Duration;

use super::Shared;
use crate::calls::{held_by, holder, taken_within};
use crate::failure::{Fault, StoreError};
use crate::lease::{Fence, Keep, Lease};

/// Takes a lease that nobody holds, or that this call has taken in an attempt before.
const TAKE: &str = "
insert into certmagic_locks as present (key, expires, token, holder)
values ($1, clock_timestamp() + $2 * interval '1 second', nextval('sluice_revision'), $3)
on conflict (key) do update set expires = excluded.expires, token = excluded.token,
  holder = excluded.holder, renewals = present.renewals + 1
where present.expires <= clock_timestamp() or present.holder = excluded.holder
returning token";

const HOLDER: &str = "select coalesce(holder, '') from certmagic_locks where key = $1";

/// The count of renewals shows the trigger that the statement is ours and not Caddy's.
const RENEW: &str = "
update certmagic_locks
set expires = clock_timestamp() + $3 * interval '1 second', renewals = renewals + 1
where key = $1 and token = $2";

const RELEASE: &str = "delete from certmagic_locks where key = $1 and token = $2";

const END: &str = "
delete from certmagic_locks where key = $1 returning expires > clock_timestamp()";

const NAMES: &str = "
select key from certmagic_locks where expires > clock_timestamp() order by key collate \"C\"";

/// Takes the lease `name`, waiting up to `timeout` for its holder.
pub(super) fn take(
    shared: &Arc<Shared>,
    name: &str,
    timeout: Duration,
) -> Result<Lease, StoreError> {
    let token = taken_within(timeout, || shared.calls.run(|| attempt(shared, name)))?;
    let fence = Fence {
        name: name.to_owned(),
        token: token.to_string(),
    };
    let kept = Kept {
        shared: Arc::clone(shared),
        name: name.to_owned(),
        token,
    };
    Lease::held(fence, shared.lease_ttl / 3, kept)
        .map_err(|error| shared.error(Fault::Limit, error.to_string()))
}

fn attempt(shared: &Shared, name: &str) -> Result<i64, StoreError> {
    let seconds = shared.lease_ttl.as_secs_f64();
    let own = holder();
    let row = shared.sessions.run(|session| {
        session.run(async |client| Ok(client.query_opt(TAKE, &[&name, &seconds, &own]).await?))
    })?;
    if let Some(row) = row {
        return Ok(row.get(0));
    }
    let row = shared.sessions.run(|session| {
        session.run(async |client| Ok(client.query_opt(HOLDER, &[&name]).await?))
    })?;
    let present: String = row.map(|row| row.get(0)).unwrap_or_default();
    Err(shared.error(Fault::Held, held_by(name, present.as_bytes())))
}

/// Ends the lease `name` of any holder; whether it was held.
pub(super) fn end(shared: &Shared, name: &str) -> Result<bool, StoreError> {
    let row = shared
        .sessions
        .run(|session| session.run(async |client| Ok(client.query_opt(END, &[&name]).await?)))?;
    let was_held: Option<bool> = row.and_then(|row| row.get(0));
    Ok(was_held == Some(true))
}

/// The names of the leases that are held.
pub(super) fn names(shared: &Shared) -> Result<Vec<String>, StoreError> {
    let rows = shared
        .sessions
        .run(|session| session.run(async |client| Ok(client.query(NAMES, &[]).await?)))?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

struct Kept {
    shared: Arc<Shared>,
    name: String,
    token: i64,
}

impl Keep for Kept {
    fn renew(&mut self) -> Result<(), StoreError> {
        let Kept {
            shared,
            name,
            token,
        } = self;
        let seconds = shared.lease_ttl.as_secs_f64();
        let renewed = shared.calls.run(|| {
            shared.sessions.run(|session| {
                session
                    .run(async |client| Ok(client.execute(RENEW, &[name, token, &seconds]).await?))
            })
        })?;
        match renewed {
            0 => Err(shared.error(Fault::Refused, name.as_str())),
            _ => Ok(()),
        }
    }

    fn release(&mut self) {
        let Kept {
            shared,
            name,
            token,
        } = self;
        // If the database is away, the lease ends by itself.
        let _ = shared.calls.run(|| {
            shared.sessions.run(|session| {
                session.run(async |client| Ok(client.execute(RELEASE, &[name, token]).await?))
            })
        });
    }
}
