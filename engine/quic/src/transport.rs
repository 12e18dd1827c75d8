//! The settings of QUIC, from those of the listener.

use std::sync::Arc;

use quinn_proto::congestion::{BbrConfig, CubicConfig};
use quinn_proto::{EndpointConfig, IdleTimeout, ServerConfig, TransportConfig, VarInt, crypto};
use sluice_net::{Congestion, Http3, Segmentation, Settings};

use crate::connection_ids::ConnectionIds;
use crate::keys::Keys;
use crate::limits::{
    CRYPTO_BYTES_MAX, DATAGRAM_BYTES_MAX, INCOMING_BYTES_MAX, INCOMING_BYTES_TOTAL_MAX,
    INCOMING_MAX, UNACKNOWLEDGED_BYTES_MIN, UNIDIRECTIONAL_MAX,
};

/// The version of QUIC (RFC 9000, section 15). quinn-proto would take drafts as well.
const VERSIONS: [u32; 1] = [1];

/// The configuration of an endpoint whose socket has this number.
pub(crate) fn endpoint(index: u8, keys: &Keys) -> Arc<EndpointConfig> {
    let mut config = EndpointConfig::new(keys.reset.clone());
    config.cid_generator(move || Box::new(ConnectionIds { index }));
    config.supported_versions(VERSIONS.to_vec());
    config
        .max_udp_payload_size(DATAGRAM_BYTES_MAX)
        .expect("the size is in the range of RFC 9000, section 18.2");
    Arc::new(config)
}

/// The configuration of connections.
pub(crate) fn server(
    crypto: Arc<dyn crypto::ServerConfig>,
    transport: Arc<TransportConfig>,
    keys: &Keys,
) -> ServerConfig {
    let mut config = ServerConfig::new(crypto, keys.token.clone());
    config.transport_config(transport);
    config.max_incoming(INCOMING_MAX);
    config.incoming_buffer_size(INCOMING_BYTES_MAX);
    config.incoming_buffer_size_total(INCOMING_BYTES_TOTAL_MAX);
    config
}

/// The settings of connections of a listener with these settings.
pub(crate) fn transport(settings: &Settings) -> TransportConfig {
    let Http3 {
        codec: _,
        streams_max,
        stream_window_bytes,
        window_bytes,
        unacknowledged_bytes_max: _,
        address_validation: _,
        early_data: _,
        congestion,
        segmentation,
        host_key: _,
    } = &settings.h3;
    let mut config = TransportConfig::default();
    config.max_concurrent_bidi_streams(VarInt::from(*streams_max));
    config.max_concurrent_uni_streams(VarInt::from(UNIDIRECTIONAL_MAX));
    config.stream_receive_window(VarInt::from(*stream_window_bytes));
    config.receive_window(VarInt::from(*window_bytes));
    config.send_window(UNACKNOWLEDGED_BYTES_MIN);
    // Zero disables keep-alive; the transport closes such a connection itself after its first request.
    let idle = IdleTimeout::try_from(settings.client.keep_alive_timeout);
    config.max_idle_timeout(
        idle.ok()
            .filter(|_| !settings.client.keep_alive_timeout.is_zero()),
    );
    config.crypto_buffer_size(CRYPTO_BYTES_MAX);
    config.datagram_receive_buffer_size(None);
    config.enable_segmentation_offload(*segmentation == Segmentation::Offloaded);
    match congestion {
        Congestion::Cubic => {
            config.congestion_controller_factory(Arc::new(CubicConfig::default()));
        }
        Congestion::Bbr => {
            config.congestion_controller_factory(Arc::new(BbrConfig::default()));
        }
    }
    config
}
