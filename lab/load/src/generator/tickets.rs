//! TLS sessions that connections may resume. All clients of a load share them: rustls keeps the tickets of one visitor, of which a
//! hundred clients that connect at once would resume a few.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pki_types::ServerName;
use rustls::NamedGroup;
use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};

use super::limits::TICKETS_MAX;

/// Sessions of the server of a load. As it is only one, its name does not matter.
#[derive(Debug, Default)]
pub struct Tickets(Mutex<Sessions>);

#[derive(Debug, Default)]
struct Sessions {
    group: Option<NamedGroup>,
    /// Of TLS 1.2, which can be used again and again.
    tls12: Option<Tls12ClientSessionValue>,
    /// Of TLS 1.3, each for one connection (RFC 8446, appendix C.4).
    tls13: VecDeque<Tls13ClientSessionValue>,
}

impl Tickets {
    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientSessionStore for Tickets {
    fn set_kx_hint(&self, _: ServerName<'static>, group: NamedGroup) {
        self.sessions().group = Some(group);
    }

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        self.sessions().group
    }

    fn set_tls12_session(&self, _: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.sessions().tls12 = Some(value);
    }

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.sessions().tls12.clone()
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {
        self.sessions().tls12 = None;
    }

    fn insert_tls13_ticket(&self, _: ServerName<'static>, value: Tls13ClientSessionValue) {
        let mut sessions = self.sessions();
        if sessions.tls13.len() >= TICKETS_MAX {
            sessions.tls13.pop_front();
        }
        sessions.tls13.push_back(value);
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.sessions().tls13.pop_back()
    }
}
