//! The settings of QUIC, from those of the listener.

use std::sync::Arc;
use std::time::Duration;

use quinn_proto::congestion::{BbrConfig, CubicConfig};
use quinn_proto::{EndpointConfig, IdleTimeout, ServerConfig, TransportConfig, VarInt, crypto};
use sluice_net::{Congestion, Http3, Segmentation};

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

/// The settings of connections of a listener with these limits. An idle connection is closed after `idle`; zero: its driver
/// does.
pub(crate) fn transport(limits: &Http3, idle: Duration) -> TransportConfig {
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
    } = limits;
    let mut config = TransportConfig::default();
    config.max_concurrent_bidi_streams(VarInt::from(*streams_max));
    config.max_concurrent_uni_streams(VarInt::from(UNIDIRECTIONAL_MAX));
    config.stream_receive_window(VarInt::from(*stream_window_bytes));
    config.receive_window(VarInt::from(*window_bytes));
    config.send_window(UNACKNOWLEDGED_BYTES_MIN);
    // Zero disables keep-alive; the driver closes such a connection itself after its first request.
    let lasts = IdleTimeout::try_from(idle).ok();
    config.max_idle_timeout(lasts.filter(|_| !idle.is_zero()));
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

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use quinn_proto::congestion::{Bbr, Cubic};
    use quinn_proto::crypto::rustls::QuicClientConfig;
    use quinn_proto::{ClientConfig, Connection, Endpoint};
    use rustls::RootCertStore;

    use super::*;

    const IDLE: Duration = Duration::from_secs(90);

    /// A connection with these limits; its side makes no difference to them.
    fn connection(limits: &Http3) -> Connection {
        let tls = rustls::ClientConfig::builder()
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        let tls = QuicClientConfig::try_from(tls).expect("it has the suite of Initial packets");
        let mut config = ClientConfig::new(Arc::new(tls));
        config.transport_config(Arc::new(transport(limits, IDLE)));
        let mut endpoint = Endpoint::new(Arc::default(), None, true, None);
        let server = "127.0.0.1:1".parse().expect("an address");
        let begun = endpoint.connect(Instant::now(), config, server, "a.test");
        begun.expect("it can be configured").1
    }

    #[test]
    fn congestion_is_controlled_as_configured() {
        let controller = |congestion| {
            let limits = Http3 {
                congestion,
                ..Http3::default()
            };
            connection(&limits)
                .congestion_state()
                .clone_box()
                .into_any()
        };
        assert!(controller(Congestion::Bbr).is::<Bbr>());
        assert!(controller(Congestion::Cubic).is::<Cubic>());
    }

    #[test]
    fn packets_are_split_by_the_kernel_unless_that_is_off() {
        for (segmentation, is_on) in [(Segmentation::Offloaded, true), (Segmentation::Own, false)] {
            let limits = Http3 {
                segmentation,
                ..Http3::default()
            };
            let shown = format!("{:?}", transport(&limits, IDLE));
            let expected = format!("enable_segmentation_offload: {is_on}");
            assert!(shown.contains(&expected), "{shown}");
        }
    }

    #[test]
    fn idle_connections_last_as_long_as_those_over_tcp() {
        let shown = |idle| format!("{:?}", transport(&Http3::default(), idle));
        let (some, none) = (shown(IDLE), shown(Duration::ZERO));
        assert!(some.contains("max_idle_timeout: Some(90000)"), "{some}");
        assert!(none.contains("max_idle_timeout: None"), "{none}");
    }
}
