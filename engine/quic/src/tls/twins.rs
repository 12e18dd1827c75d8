//! The TLS configurations for QUIC: each is the twin of one for TCP, with the protocol h3 and QUIC's rule for early data.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustls::ServerConfig;

use crate::limits::TWINS_MAX;

/// The ALPN protocol of HTTP/3 (RFC 9114, section 3.1).
const H3: &[u8] = b"h3";

/// The twins that one endpoint has used.
#[derive(Default)]
pub(crate) struct Twins(Mutex<Vec<Twin>>);

struct Twin {
    /// Weak, so that a configuration that was replaced is freed.
    of: Weak<ServerConfig>,
    twin: Arc<ServerConfig>,
}

impl Twins {
    /// The twin of `config`.
    pub(crate) fn of(&self, config: &Arc<ServerConfig>) -> Arc<ServerConfig> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known
            .iter()
            .find(|twin| std::ptr::eq(twin.of.as_ptr(), Arc::as_ptr(config)));
        if let Some(twin) = found {
            return twin.twin.clone();
        }
        known.retain(|twin| twin.of.strong_count() > 0);
        if known.len() >= TWINS_MAX {
            known.remove(0);
        }
        let twin = Arc::new(for_quic(config));
        known.push(Twin {
            of: Arc::downgrade(config),
            twin: twin.clone(),
        });
        twin
    }
}

fn for_quic(config: &ServerConfig) -> ServerConfig {
    let mut twin = config.clone();
    twin.alpn_protocols = vec![H3.to_vec()];
    // RFC 9001, section 4.6.1: the size of early data is limited by flow control, and this field says only whether
    // there may be any.
    if twin.max_early_data_size > 0 {
        twin.max_early_data_size = u32::MAX;
    }
    twin
}
