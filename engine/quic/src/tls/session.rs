//! A TLS session in the server role that waits for the ClientHello, has its configuration chosen, and continues.

use std::any::Any;
use std::io::Cursor;
use std::sync::Arc;

use quinn_proto::crypto::{
    self, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, UnsupportedVersion,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectionId, Side, TransportError};
use rustls::HandshakeKind;
use rustls::quic::{self, Connection, KeyChange, Secrets, ServerConnection, Suite, Version};
use rustls::server::Accepted;
use sluice_message::{Offered, TlsInfo};
use sluice_net::EarlyData;
use sluice_net::tls::{ConfigChoice, Ends, SESSION_ID_LABEL, iana_name, offered};

use super::alert::crypto_error;
use super::hello::Hello;
use super::twins::twin_of;
use crate::keys::retry_tag;

/// Alerts (RFC 8446, section 6).
const UNEXPECTED_MESSAGE: u8 = 10;
const INTERNAL_ERROR: u8 = 80;
const HANDSHAKE_FAILURE: u8 = 40;
const ACCESS_DENIED: u8 = 49;
const UNRECOGNIZED_NAME: u8 = 112;

/// The version of QUIC that is spoken (RFC 9000, section 15).
const V1: u32 = 1;

/// Creates the session of one connection.
pub(crate) struct TlsServer {
    /// Chooses the configuration; `None` for first packets only.
    pub(crate) choice: Option<Arc<dyn ConfigChoice>>,
    /// Whether clients may send requests before the end of the handshake.
    pub(crate) early: EarlyData,
    pub(crate) ends: Ends,
    pub(crate) initial: Suite,
}

impl TlsServer {
    /// What serves no session, only the first packets of connections.
    pub(crate) fn for_nobody(initial: Suite) -> TlsServer {
        TlsServer {
            choice: None,
            early: EarlyData::Refused,
            ends: Ends::default(),
            initial,
        }
    }
}

impl crypto::ServerConfig for TlsServer {
    fn initial_keys(&self, version: u32, id: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        match version {
            V1 => Ok(initial_keys(&self.initial, id, Side::Server)),
            _ => Err(UnsupportedVersion),
        }
    }

    fn retry_tag(&self, _version: u32, original: &ConnectionId, packet: &[u8]) -> [u8; 16] {
        retry_tag(original, packet)
    }

    fn start_session(
        self: Arc<Self>,
        _version: u32,
        params: &TransportParameters,
    ) -> Box<dyn crypto::Session> {
        let mut own_params = Vec::new();
        params.write(&mut own_params);
        Box::new(Session {
            server: self,
            own_params,
            stage: Stage::Hello(Hello::default()),
        })
    }
}

struct Session {
    server: Arc<TlsServer>,
    own_params: Vec<u8>,
    stage: Stage,
}

enum Stage {
    /// The ClientHello arrives.
    Hello(Hello),
    /// The handshake goes on.
    Live(Box<Live>),
    /// Both ends have finished the handshake. TLS has nothing more to say and its state, of several KiB, is gone.
    Done(Box<Done>),
}

/// What remains of a session.
struct Done {
    outcome: Outcome,
    next_secrets: Option<Secrets>,
}

/// What a handshake has come to, as [`TlsInfo`] has it.
#[derive(Clone)]
struct Outcome {
    cipher: &'static str,
    server_name: String,
    alpn: Vec<u8>,
    is_resumed: bool,
    client_certs: Vec<Vec<u8>>,
    group: u16,
    offered: Option<Box<Offered>>,
}

/// A session with its configuration.
struct Live {
    connection: Connection,
    next_secrets: Option<Secrets>,
    offered: Option<Box<Offered>>,
    has_said: bool,
}

impl Session {
    /// Chooses the configuration and begins the handshake with what has arrived.
    fn begin(&self, accepted: &Accepted, received: &[u8]) -> Result<Live, TransportError> {
        let hello = accepted.client_hello();
        let TlsServer {
            choice,
            ends,
            early,
            ..
        } = &*self.server;
        let Some(choice) = choice else {
            return Err(crypto_error(HANDSHAKE_FAILURE, "no configuration"));
        };
        if let Some(preparation) = choice.prepare(&hello, *ends) {
            // The client falls back to TCP, where it waits, or comes back.
            tokio::task::spawn_local(preparation);
            return Err(crypto_error(UNRECOGNIZED_NAME, "no certificate yet"));
        }
        let config = twin_of(&choice.choose(&hello, *ends), *early);
        let offered = choice.keeps_offers().then(|| Box::new(offered(&hello)));
        let params = self.own_params.clone();
        let mut connection = ServerConnection::new(config, Version::V1, params)
            .map(Connection::Server)
            .map_err(|error| crypto_error(HANDSHAKE_FAILURE, &error.to_string()))?;
        let name = hello.server_name();
        connection.read_hs(received).map_err(|error| {
            let has_certificate = choice.has_certificate(name, *ends);
            alert_of(&connection, &error, has_certificate)
        })?;
        Ok(Live {
            connection,
            next_secrets: None,
            offered,
            has_said: false,
        })
    }

    fn live(&self) -> Option<&Live> {
        match &self.stage {
            Stage::Hello(_) | Stage::Done(_) => None,
            Stage::Live(live) => Some(live),
        }
    }
}

impl From<&mut Live> for Done {
    fn from(live: &mut Live) -> Done {
        Done {
            outcome: live.outcome(),
            next_secrets: live.next_secrets.take(),
        }
    }
}

impl Live {
    /// Whether what was negotiated is known now and was not before.
    fn says(&mut self) -> bool {
        let is_known = self.connection.alpn_protocol().is_some();
        is_known && !std::mem::replace(&mut self.has_said, is_known)
    }

    fn outcome(&self) -> Outcome {
        let connection = &self.connection;
        let certs = connection.peer_certificates().unwrap_or_default();
        let suite = connection.negotiated_cipher_suite();
        let name = match connection {
            Connection::Server(server) => server.server_name(),
            Connection::Client(_) => None,
        };
        Outcome {
            cipher: suite.map_or("", |suite| iana_name(suite.suite())),
            server_name: name.unwrap_or_default().to_owned(),
            alpn: connection.alpn_protocol().unwrap_or_default().to_vec(),
            is_resumed: connection.handshake_kind() == Some(HandshakeKind::Resumed),
            client_certs: certs.iter().map(|cert| cert.to_vec()).collect(),
            group: connection
                .negotiated_key_exchange_group()
                .map_or(0, |group| group.name().into()),
            offered: self.offered(),
        }
    }

    /// What the client offered, with an identifier of this session.
    fn offered(&self) -> Option<Box<Offered>> {
        let mut offered = self.offered.clone()?;
        let id = self
            .connection
            .export_keying_material([0; 32], SESSION_ID_LABEL, None);
        offered.id = id.unwrap_or_default();
        Some(offered)
    }
}

impl From<Outcome> for TlsInfo {
    fn from(outcome: Outcome) -> TlsInfo {
        TlsInfo {
            version: "tls1.3",
            cipher: outcome.cipher,
            server_name: outcome.server_name,
            alpn: outcome.alpn,
            resumed: outcome.is_resumed,
            client_certs: outcome.client_certs,
            early: None,
            group: outcome.group,
            offered: outcome.offered,
        }
    }
}

impl crypto::Session for Session {
    fn initial_keys(&self, id: &ConnectionId, side: Side) -> Keys {
        initial_keys(&self.server.initial, id, side)
    }

    /// A [`TlsInfo`].
    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        match &self.stage {
            Stage::Hello(_) => None,
            Stage::Live(live) => Some(Box::new(TlsInfo::from(live.outcome()))),
            Stage::Done(done) => Some(Box::new(TlsInfo::from(done.outcome.clone()))),
        }
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        let keys = self.live()?.connection.zero_rtt_keys()?;
        Some((Box::new(keys.header), Box::new(keys.packet)))
    }

    fn early_data_accepted(&self) -> Option<bool> {
        None
    }

    fn is_handshaking(&self) -> bool {
        match &self.stage {
            Stage::Hello(_) => true,
            Stage::Live(live) => live.connection.is_handshaking(),
            Stage::Done(_) => false,
        }
    }

    fn read_handshake(&mut self, bytes: &[u8]) -> Result<bool, TransportError> {
        match &mut self.stage {
            Stage::Live(live) => {
                let read = live.connection.read_hs(bytes);
                read.map_err(|error| alert_of(&live.connection, &error, true))?;
                Ok(live.says())
            }
            Stage::Hello(hello) => {
                let Some(accepted) = hello.receive(bytes)? else {
                    return Ok(false);
                };
                let received = std::mem::take(hello);
                let mut live = self.begin(&accepted, received.bytes())?;
                let says = live.says();
                self.stage = Stage::Live(Box::new(live));
                Ok(says)
            }
            // RFC 9001, section 6: keys change without a message of TLS, and clients have no others.
            Stage::Done(_) => Err(crypto_error(
                UNEXPECTED_MESSAGE,
                "a message behind the handshake",
            )),
        }
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        let params = self
            .live()
            .and_then(|live| live.connection.quic_transport_parameters());
        let Some(params) = params else {
            return Ok(None);
        };
        let read = TransportParameters::read(Side::Server, &mut Cursor::new(params));
        read.map(Some).map_err(TransportError::from)
    }

    fn write_handshake(&mut self, out: &mut Vec<u8>) -> Option<Keys> {
        let Stage::Live(live) = &mut self.stage else {
            return None;
        };
        let keys = match live.connection.write_hs(out) {
            None => {
                // Session tickets are written behind the client's Finished.
                if out.is_empty() && !live.connection.is_handshaking() {
                    self.stage = Stage::Done(Box::new(Done::from(&mut **live)));
                }
                return None;
            }
            Some(KeyChange::Handshake { keys }) => keys,
            Some(KeyChange::OneRtt { keys, next }) => {
                live.next_secrets = Some(next);
                keys
            }
        };
        Some(boxed(keys))
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let next_secrets = match &mut self.stage {
            Stage::Hello(_) => return None,
            Stage::Live(live) => &mut live.next_secrets,
            Stage::Done(done) => &mut done.next_secrets,
        };
        let keys = next_secrets.as_mut()?.next_packet_keys();
        Some(KeyPair {
            local: Box::new(keys.local),
            remote: Box::new(keys.remote),
        })
    }

    fn is_valid_retry(&self, _original: &ConnectionId, _head: &[u8], _payload: &[u8]) -> bool {
        // Only servers send Retry.
        false
    }

    fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        let live = self.live().ok_or(ExportKeyingMaterialError)?;
        let exported = live
            .connection
            .export_keying_material(output, label, Some(context));
        exported.map(|_| ()).map_err(|_| ExportKeyingMaterialError)
    }
}

fn initial_keys(suite: &Suite, id: &ConnectionId, side: Side) -> Keys {
    let side = match side {
        Side::Client => rustls::Side::Client,
        Side::Server => rustls::Side::Server,
    };
    boxed(suite.keys(id, side, Version::V1))
}

fn boxed(keys: quic::Keys) -> Keys {
    Keys {
        header: KeyPair {
            local: Box::new(keys.local.header),
            remote: Box::new(keys.remote.header),
        },
        packet: KeyPair {
            local: Box::new(keys.local.packet),
            remote: Box::new(keys.remote.packet),
        },
    }
}

/// The alert for an error. Without a matching certificate rustls sends `access_denied`, which is about client
/// authorization (RFC 8446, section 6.2).
fn alert_of(
    connection: &Connection,
    error: &rustls::Error,
    has_certificate: bool,
) -> TransportError {
    let alert = connection.alert().map_or(INTERNAL_ERROR, u8::from);
    let alert = match (alert, has_certificate) {
        (ACCESS_DENIED, true) => HANDSHAKE_FAILURE,
        (ACCESS_DENIED, false) => UNRECOGNIZED_NAME,
        (alert, _) => alert,
    };
    crypto_error(alert, &error.to_string())
}
