//! A QUIC client whose packets say something else than quinn-proto wants: their content is replaced before they are sealed.

use std::any::Any;
use std::sync::{Arc, Mutex};

use bytes::BytesMut;
use quinn_proto::crypto::{
    ClientConfig, CryptoError, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey,
    Session,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectError, ConnectionId, Side, TransportError};

/// What is known of a packet that is about to be sealed.
#[derive(Clone, Copy, Debug)]
pub struct Sealing {
    /// Whether it is one of the connection's application data, and not of its handshake.
    pub is_data: bool,
    /// The largest number of a packet that the server has sent with the same keys.
    pub received: u64,
}

/// Replaces the frames of a packet, or leaves them. The new ones must not be longer; padding fills the rest.
pub type Forge = dyn FnMut(Sealing, &[u8]) -> Option<Vec<u8>> + Send;

/// What a connection sends instead.
#[derive(Clone, Default)]
pub struct Forger(Arc<Mutex<Option<Box<Forge>>>>);

impl Forger {
    /// Forges packets from now on.
    pub fn begin(&self, forge: impl FnMut(Sealing, &[u8]) -> Option<Vec<u8>> + Send + 'static) {
        *self.0.lock().expect("unpoisoned") = Some(Box::new(forge));
    }

    /// A configuration whose packets are forged.
    pub fn around(&self, inner: Arc<dyn ClientConfig>) -> Arc<dyn ClientConfig> {
        Arc::new(Config {
            inner,
            forger: self.clone(),
        })
    }

    fn frames(&self, sealing: Sealing, frames: &[u8]) -> Option<Vec<u8>> {
        let mut forge = self.0.lock().expect("unpoisoned");
        forge.as_mut()?(sealing, frames)
    }

    fn keys(&self, keys: Keys, is_data: bool) -> Keys {
        Keys {
            header: keys.header,
            packet: self.pair(keys.packet, is_data),
        }
    }

    fn pair(
        &self,
        pair: KeyPair<Box<dyn PacketKey>>,
        is_data: bool,
    ) -> KeyPair<Box<dyn PacketKey>> {
        let received = Arc::<Mutex<u64>>::default();
        let key = |inner| {
            Box::new(Key {
                inner,
                forger: self.clone(),
                is_data,
                received: received.clone(),
            })
        };
        KeyPair {
            local: key(pair.local),
            remote: key(pair.remote),
        }
    }
}

struct Config {
    inner: Arc<dyn ClientConfig>,
    forger: Forger,
}

impl ClientConfig for Config {
    fn start_session(
        self: Arc<Self>,
        version: u32,
        server_name: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        let inner = self.inner.clone();
        Ok(Box::new(Forging {
            inner: inner.start_session(version, server_name, params)?,
            forger: self.forger.clone(),
            levels: 0,
        }))
    }
}

struct Forging {
    inner: Box<dyn Session>,
    forger: Forger,
    /// How many sets of keys the handshake has given: the first are its own, the second those of data.
    levels: u8,
}

impl Session for Forging {
    fn initial_keys(&self, dst_cid: &ConnectionId, side: Side) -> Keys {
        let keys = self.inner.initial_keys(dst_cid, side);
        self.forger.keys(keys, false)
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        self.inner.handshake_data()
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        self.inner.peer_identity()
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        self.inner.early_crypto()
    }

    fn early_data_accepted(&self) -> Option<bool> {
        self.inner.early_data_accepted()
    }

    fn is_handshaking(&self) -> bool {
        self.inner.is_handshaking()
    }

    fn read_handshake(&mut self, buf: &[u8]) -> Result<bool, TransportError> {
        self.inner.read_handshake(buf)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        self.inner.transport_parameters()
    }

    fn write_handshake(&mut self, buf: &mut Vec<u8>) -> Option<Keys> {
        let keys = self.inner.write_handshake(buf)?;
        self.levels += 1;
        Some(self.forger.keys(keys, self.levels > 1))
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let pair = self.inner.next_1rtt_keys()?;
        Some(self.forger.pair(pair, true))
    }

    fn is_valid_retry(&self, orig_dst_cid: &ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        self.inner.is_valid_retry(orig_dst_cid, header, payload)
    }

    fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        self.inner.export_keying_material(output, label, context)
    }
}

struct Key {
    inner: Box<dyn PacketKey>,
    forger: Forger,
    is_data: bool,
    received: Arc<Mutex<u64>>,
}

impl PacketKey for Key {
    fn encrypt(&self, packet: u64, buf: &mut [u8], header_len: usize) {
        let end = buf.len() - self.inner.tag_len();
        let frames = &mut buf[header_len..end];
        let sealing = Sealing {
            is_data: self.is_data,
            received: *self.received.lock().expect("unpoisoned"),
        };
        if let Some(forged) = self.forger.frames(sealing, frames)
            && forged.len() <= frames.len()
        {
            frames.fill(0);
            frames[..forged.len()].copy_from_slice(&forged);
        }
        self.inner.encrypt(packet, buf, header_len);
    }

    fn decrypt(
        &self,
        packet: u64,
        header: &[u8],
        payload: &mut BytesMut,
    ) -> Result<(), CryptoError> {
        self.inner.decrypt(packet, header, payload)?;
        let mut received = self.received.lock().expect("unpoisoned");
        *received = packet.max(*received);
        Ok(())
    }

    fn tag_len(&self) -> usize {
        self.inner.tag_len()
    }

    fn confidentiality_limit(&self) -> u64 {
        self.inner.confidentiality_limit()
    }

    fn integrity_limit(&self) -> u64 {
        self.inner.integrity_limit()
    }
}

/// A number as four bytes (RFC 9000, section 16).
pub fn varint(number: u64) -> [u8; 4] {
    let number = u32::try_from(number).expect("it has 30 bits");
    assert!(number < 1 << 30, "it has 30 bits");
    (number | 2 << 30).to_be_bytes()
}

/// An ACK frame of all packets from `first` to `largest` (RFC 9000, section 19.3).
pub fn ack(first: u64, largest: u64) -> Vec<u8> {
    let mut frame = vec![2];
    frame.extend(varint(largest));
    // No delay, and no further ranges.
    frame.extend([0, 0]);
    frame.extend(varint(largest - first));
    frame
}

/// A CRYPTO frame (RFC 9000, section 19.6).
pub fn crypto(offset: u64, data: &[u8]) -> Vec<u8> {
    let mut frame = vec![6];
    frame.extend(varint(offset));
    frame.extend(varint(data.len() as u64));
    frame.extend(data);
    frame
}
