//! The settings of QUIC connections.

use std::sync::Arc;

use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{ClientConfig, IdleTimeout, TransportConfig, VarInt};

use super::limits::{QUIC_IDLE_TIMEOUT, QUIC_WINDOW_BYTES, UNIDIRECTIONAL_MAX};

/// The settings of connections with these TLS settings, which have TLS 1.3.
///
/// # Errors
/// The TLS settings lack the cipher of Initial packets.
pub fn client(tls: Arc<rustls::ClientConfig>) -> Result<ClientConfig, String> {
    let crypto = QuicClientConfig::try_from(tls).map_err(|error| error.to_string())?;
    let mut transport = TransportConfig::default();
    transport.max_concurrent_bidi_streams(VarInt::from_u32(0));
    transport.max_concurrent_uni_streams(VarInt::from_u32(UNIDIRECTIONAL_MAX));
    transport.stream_receive_window(VarInt::from_u32(QUIC_WINDOW_BYTES));
    transport.receive_window(VarInt::from_u32(QUIC_WINDOW_BYTES));
    transport.datagram_receive_buffer_size(None);
    let idle = IdleTimeout::try_from(QUIC_IDLE_TIMEOUT).map_err(|error| error.to_string())?;
    transport.max_idle_timeout(Some(idle));
    let mut config = ClientConfig::new(Arc::new(crypto));
    config.transport_config(Arc::new(transport));
    Ok(config)
}
