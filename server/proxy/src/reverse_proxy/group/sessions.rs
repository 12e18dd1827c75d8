//! Learned sessions (`sticky learn`): maps sessions to servers. `sticky` determines the session ID.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use md5::{Digest, Md5};
use sluice_message::{Fields, Moment};
use sluice_model::proxy::StickyLearn as Config;
use sluice_net::{Body, BodyStream, Failure, clock};

use crate::limits::{SESSION_TIMEOUT, SESSIONS_MAX};
use sluice_pipeline::settings::given;

/// The sessions of a group, shared by all workers.
pub struct Sessions {
    /// Maximum number of sessions.
    count_max: usize,
    timeout: Duration,
    table: Mutex<Table>,
}

/// Two generations: when the young one is full, it replaces the old one, which drops all sessions that were not used
/// meanwhile. Thus a full table does not require a search for the oldest session.
#[derive(Default)]
struct Table {
    young: HashMap<Name, Session>,
    old: HashMap<Name, Session>,
}

/// The MD5 of the session ID, so that long IDs do not take more memory.
type Name = [u8; 16];

struct Session {
    /// The dial address of the server.
    dial: Arc<str>,
    used_at: Moment,
}

impl Sessions {
    /// Creates an empty table.
    pub fn new(config: &Config) -> Sessions {
        let count = usize::try_from(config.sessions_max).unwrap_or(usize::MAX);
        Sessions {
            count_max: count.clamp(2, SESSIONS_MAX),
            timeout: given(config.timeout).unwrap_or(SESSION_TIMEOUT),
            table: Mutex::default(),
        }
    }

    /// The dial address of a session's server. The session becomes young again.
    pub fn find(&self, name: &[u8], now: Moment) -> Option<Arc<str>> {
        let name: Name = Md5::digest(name).into();
        let mut table = self.table();
        let session = match table.young.remove(&name) {
            Some(session) => session,
            None => table.old.remove(&name)?,
        };
        if now.since(session.used_at) > self.timeout {
            return None;
        }
        let dial = session.dial.clone();
        self.put(&mut table, name, dial.clone(), now);
        Some(dial)
    }

    /// Records that the server at `dial` has a session.
    pub fn learn(&self, name: &[u8], dial: &str, now: Moment) {
        let name: Name = Md5::digest(name).into();
        let mut table = self.table();
        table.old.remove(&name);
        self.put(&mut table, name, dial.into(), now);
    }

    fn put(&self, table: &mut Table, name: Name, dial: Arc<str>, now: Moment) {
        let is_new = !table.young.contains_key(&name);
        if is_new && table.young.len() >= self.count_max / 2 {
            table.old = std::mem::take(&mut table.young);
        }
        let used_at = now;
        table.young.insert(name, Session { dial, used_at });
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A session that is created at the end of a response.
pub struct Beginning {
    /// The table.
    pub sessions: Arc<Sessions>,
    /// The session ID.
    pub name: Vec<u8>,
    /// The dial address of the server.
    pub dial: String,
}

impl Beginning {
    /// Wraps `body` so that its end creates the session.
    pub fn follow(self, body: Body) -> Body {
        match body {
            Body::Stream(inner) => Body::Stream(Box::new(Followed {
                inner,
                beginning: Some(self),
            })),
            whole => {
                self.note();
                whole
            }
        }
    }

    fn note(&self) {
        self.sessions.learn(&self.name, &self.dial, clock::now());
    }
}

struct Followed {
    inner: Box<dyn BodyStream>,
    beginning: Option<Beginning>,
}

impl BodyStream for Followed {
    fn len(&self) -> Option<u64> {
        self.inner.len()
    }

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<&[u8], Failure>> {
        let data = ready!(self.inner.poll_data(cx))?;
        if data.is_empty()
            && let Some(beginning) = self.beginning.take()
        {
            beginning.note();
        }
        Poll::Ready(Ok(data))
    }

    fn consume(&mut self, count: usize) {
        self.inner.consume(count);
        // A body of known length may not be polled for its end.
        if self.inner.len() == Some(0)
            && let Some(beginning) = self.beginning.take()
        {
            beginning.note();
        }
    }

    fn trailers(&mut self) -> Option<Fields> {
        self.inner.trailers()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sessions(sessions_max: u32) -> Sessions {
        Sessions::new(&Config {
            sessions_max,
            ..Config::default()
        })
    }

    fn at(seconds: u64) -> Moment {
        Moment::START + Duration::from_secs(seconds)
    }

    #[test]
    fn sessions_that_are_used_stay_and_others_end() {
        let sessions = sessions(100);
        sessions.learn(b"a", "127.0.0.1:1", at(0));
        sessions.learn(b"b", "127.0.0.1:2", at(0));
        let found = |name: &[u8], now| sessions.find(name, now).as_deref().map(str::to_owned);
        assert_eq!(found(b"a", at(500)).as_deref(), Some("127.0.0.1:1"));
        assert_eq!(found(b"a", at(1000)).as_deref(), Some("127.0.0.1:1"));
        assert_eq!(found(b"b", at(1000)), None, "ten minutes");
        assert_eq!(found(b"c", at(0)), None);
        sessions.learn(b"a", "127.0.0.1:2", at(1001));
        assert_eq!(found(b"a", at(1001)).as_deref(), Some("127.0.0.1:2"));
    }

    #[test]
    fn there_are_so_many_at_most() {
        let sessions = sessions(100);
        sessions.learn(b"used", "127.0.0.1:1", at(0));
        for number in 0..10_000u32 {
            sessions.learn(&number.to_le_bytes(), "127.0.0.1:1", at(1));
            assert!(sessions.find(b"used", at(1)).is_some(), "{number}");
            let table = sessions.table();
            assert!(table.young.len() + table.old.len() <= 100);
        }
        assert!(sessions.find(&9_999u32.to_le_bytes(), at(1)).is_some());
        assert!(sessions.find(&0u32.to_le_bytes(), at(1)).is_none());
    }
}
