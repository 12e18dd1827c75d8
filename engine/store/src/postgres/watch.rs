//! Watches in PostgreSQL: a connection that listens, and is probed while it is silent, and the versions that the caller
//! knows.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Shared;
use super::session::{ENDED, Session};
use crate::failure::{Fault, StoreError};
use crate::known::Known;
use crate::limits::WRITES_MAX;
use crate::values::{Change, Version};
use crate::{Key, Watch};

const VERSIONS: &str = "
select key, coalesce(revision, 0) from certmagic_data where key = $1 or starts_with(key, $2)";

/// A subscription to the changes below a prefix.
pub(super) struct PostgresWatch {
    shared: Arc<Shared>,
    session: Session,
    known: Known,
    /// When the connection has to be probed.
    next_probe: Instant,
}

pub(super) fn begin(shared: &Arc<Shared>, prefix: &Key) -> Result<PostgresWatch, StoreError> {
    let mut session = shared.sessions.connect()?;
    let below = match prefix.as_str() {
        "" => String::new(),
        text => format!("{text}/"),
    };
    let text = prefix.as_str();
    let rows = session.run(async |client| {
        // What is written from here on is announced.
        client.batch_execute("listen sluice_data").await?;
        Ok(client.query(VERSIONS, &[&text, &below]).await?)
    });
    let rows = rows.map_err(|failed| shared.sessions.error(failed))?;
    let versions = rows.iter().filter_map(|row| {
        let key = Key::new(row.get::<_, String>(0)).ok()?;
        Some((key, Version(row.get::<_, i64>(1).to_string())))
    });
    Ok(PostgresWatch {
        shared: Arc::clone(shared),
        session,
        known: Known::new(prefix, versions.collect()),
        next_probe: Instant::now() + shared.probe,
    })
}

impl Watch for PostgresWatch {
    fn next(&mut self, timeout: Duration) -> Result<Vec<Change>, StoreError> {
        let end = Instant::now() + timeout;
        loop {
            let announced = self.announced(end)?;
            let keys = announced.into_iter().map(Key::new).filter_map(Result::ok);
            let keys = self.known.watched(keys);
            let mut changes = Vec::new();
            for part in keys.chunks(WRITES_MAX) {
                let names: Vec<&Key> = part.iter().collect();
                let values = self.shared.calls.run(|| self.shared.load(&names))?;
                changes.extend(self.known.compare(part.iter().zip(values)));
            }
            if !changes.is_empty() || Instant::now() >= end {
                return Ok(changes);
            }
        }
    }
}

impl PostgresWatch {
    /// The keys that are announced until `end`, or until the next probe.
    fn announced(&mut self, end: Instant) -> Result<Vec<String>, StoreError> {
        let now = Instant::now();
        let announced = if now >= self.next_probe {
            let (shared, session) = (&self.shared, &mut self.session);
            let probe = || {
                session
                    .probe()
                    .map_err(|failed| shared.sessions.error(failed))
            };
            shared.calls.run(probe)?
        } else {
            let left = end.min(self.next_probe).saturating_duration_since(now);
            let announced = self.session.announced(left);
            let announced = announced.ok_or_else(|| self.shared.error(Fault::Away, ENDED))?;
            if announced.is_empty() {
                return Ok(announced);
            }
            announced
        };
        self.next_probe = Instant::now() + self.shared.probe;
        Ok(announced)
    }
}
