//! The TLS configurations for QUIC: each is the twin of one for TCP, with the protocol h3 and QUIC's rules for early data.

use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use rustls::ServerConfig;
use rustls::server::{ProducesTickets, ServerSessionMemoryCache};
use sluice_net::EarlyData;

use crate::limits::{EARLY_SESSIONS_MAX, TWINS_MAX};

/// The ALPN protocol of HTTP/3 (RFC 9114, section 3.1).
const H3: &[u8] = b"h3";

/// The twins in use, shared by all workers: a session that one of them began may be resumed at another, once.
static TWINS: LazyLock<Mutex<Vec<Twin>>> = LazyLock::new(Mutex::default);

struct Twin {
    /// Weak, so that a configuration that was replaced is freed.
    of: Weak<ServerConfig>,
    early: EarlyData,
    twin: Arc<ServerConfig>,
}

/// The twin of `config`.
pub(super) fn twin_of(config: &Arc<ServerConfig>, early: EarlyData) -> Arc<ServerConfig> {
    let mut known = TWINS.lock().unwrap_or_else(PoisonError::into_inner);
    let is_of = |twin: &&Twin| twin.early == early && twin.of.as_ptr() == Arc::as_ptr(config);
    if let Some(twin) = known.iter().find(is_of) {
        return twin.twin.clone();
    }
    known.retain(|twin| twin.of.strong_count() > 0);
    if known.len() >= TWINS_MAX {
        known.remove(0);
    }
    let twin = Arc::new(for_quic(config, early));
    known.push(Twin {
        of: Arc::downgrade(config),
        early,
        twin: twin.clone(),
    });
    twin
}

fn for_quic(config: &ServerConfig, early: EarlyData) -> ServerConfig {
    let mut twin = config.clone();
    twin.alpn_protocols = vec![H3.to_vec()];
    let is_early = match early {
        EarlyData::AsOverTcp => config.max_early_data_size > 0,
        EarlyData::Accepted => true,
        EarlyData::Refused => false,
    };
    // RFC 9001, section 4.6.1: the size of early data is limited by flow control, and this field says only whether
    // there may be any.
    twin.max_early_data_size = if is_early { u32::MAX } else { 0 };
    if is_early && config.ticketer.enabled() {
        // Sessions are kept here instead of in tickets, so that each is resumed once: that is what keeps a copy of early
        // data from being served (RFC 8446, section 8.1).
        twin.ticketer = Arc::new(NoTickets);
        twin.session_storage = ServerSessionMemoryCache::new(EARLY_SESSIONS_MAX);
    }
    twin
}

/// Makes no tickets.
#[derive(Debug)]
struct NoTickets;

impl ProducesTickets for NoTickets {
    fn enabled(&self) -> bool {
        false
    }

    fn lifetime(&self) -> u32 {
        0
    }

    fn encrypt(&self, _plain: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn decrypt(&self, _cipher: &[u8]) -> Option<Vec<u8>> {
        None
    }
}
