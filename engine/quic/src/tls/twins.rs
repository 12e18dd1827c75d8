//! The TLS configurations for QUIC: each is the twin of one for TCP, with the protocol h3 and QUIC's rules for early data.

use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use rustls::ServerConfig;
use rustls::server::ServerSessionMemoryCache;
use sluice_net::EarlyData;
use sluice_net::tls::NoTickets;

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

#[cfg(test)]
mod tests {
    use super::*;

    use rustls::crypto::aws_lc_rs::{Ticketer, default_provider};
    use rustls::server::ResolvesServerCertUsingSni;

    fn config() -> Arc<ServerConfig> {
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(ResolvesServerCertUsingSni::new()));
        config.ticketer = Ticketer::new().unwrap();
        Arc::new(config)
    }

    #[test]
    fn a_configuration_has_one_twin_for_each_rule_of_early_data() {
        let (one, other) = (config(), config());
        let twin = twin_of(&one, EarlyData::Refused);
        assert!(Arc::ptr_eq(&twin, &twin_of(&one, EarlyData::Refused)));
        assert!(!Arc::ptr_eq(&twin, &twin_of(&one, EarlyData::Accepted)));
        assert!(!Arc::ptr_eq(&twin, &twin_of(&other, EarlyData::Refused)));
        assert_eq!(twin.alpn_protocols, [H3]);
    }

    #[test]
    fn sessions_with_early_data_are_resumed_once() {
        let config = config();
        for refused in [EarlyData::Refused, EarlyData::AsOverTcp] {
            let twin = twin_of(&config, refused);
            assert_eq!(twin.max_early_data_size, 0);
            assert!(twin.ticketer.enabled());
        }
        let twin = twin_of(&config, EarlyData::Accepted);
        assert_eq!(twin.max_early_data_size, u32::MAX);
        assert!(!twin.ticketer.enabled());
        assert!(
            twin.session_storage
                .put(b"ticket".into(), b"session".into())
        );
        assert_eq!(
            twin.session_storage.take(b"ticket"),
            Some(b"session".into())
        );
        assert_eq!(twin.session_storage.take(b"ticket"), None);
    }
}
