//! Keys of endpoints: of stateless resets and address tokens, shared by the workers of the process, and the fixed one of
//! Retry packets.

use std::sync::{Arc, LazyLock};

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::{hkdf, hmac, rand};
use quinn_proto::ConnectionId;
use quinn_proto::crypto::{HandshakeTokenKey, HmacKey};

/// The keys of this process, if the caller gives no secret that outlives binary upgrades.
static OF_PROCESS: LazyLock<Keys> = LazyLock::new(|| {
    let mut secret = [0; 64];
    rand::fill(&mut secret).expect("the system has random bytes");
    Keys::of(&secret)
});

/// The keys of an endpoint.
#[derive(Clone)]
pub(crate) struct Keys {
    /// That of stateless resets (RFC 9000, section 10.3.2).
    pub(crate) reset: Arc<dyn HmacKey>,
    /// That of Retry and address tokens (RFC 9000, section 8.1).
    pub(crate) token: Arc<dyn HandshakeTokenKey>,
}

impl Keys {
    /// The keys that follow from the secret of an operator, or those of this process.
    pub(crate) fn new(secret: Option<&[u8]>) -> Keys {
        secret.map_or_else(|| OF_PROCESS.clone(), Keys::of)
    }

    fn of(secret: &[u8]) -> Keys {
        let derive = |label: &[u8]| hkdf::Salt::new(hkdf::HKDF_SHA256, label).extract(secret);
        let mut reset = [0; 32];
        derive(b"sluice quic reset")
            .expand(&[b"key"], hkdf::HKDF_SHA256)
            .and_then(|key| key.fill(&mut reset))
            .expect("the key is as long as the hash");
        Keys {
            reset: Arc::new(hmac::Key::new(hmac::HMAC_SHA256, &reset)),
            token: Arc::new(derive(b"sluice quic token")),
        }
    }
}

/// The key and nonce of the integrity of Retry packets, which everybody knows (RFC 9001, section 5.8).
const RETRY_KEY: [u8; 16] = [
    0xbe, 0x0c, 0x69, 0x0b, 0x9f, 0x66, 0x57, 0x5a, 0x1d, 0x76, 0x6b, 0x54, 0xe3, 0x68, 0xc8, 0x4e,
];
const RETRY_NONCE: [u8; 12] = [
    0x46, 0x15, 0x99, 0xd3, 0x5d, 0x63, 0x2b, 0xf2, 0x23, 0x98, 0x25, 0xbb,
];

/// The integrity tag of a Retry packet: of the original connection ID with its length, and the packet.
pub(crate) fn retry_tag(original: &ConnectionId, packet: &[u8]) -> [u8; 16] {
    let mut pseudo_packet = Vec::with_capacity(1 + original.len() + packet.len());
    pseudo_packet.push(original.len() as u8);
    pseudo_packet.extend_from_slice(original);
    pseudo_packet.extend_from_slice(packet);
    let key = UnboundKey::new(&AES_128_GCM, &RETRY_KEY).expect("the key has 16 bytes");
    let nonce = Nonce::assume_unique_for_key(RETRY_NONCE);
    let sealed =
        LessSafeKey::new(key).seal_in_place_separate_tag(nonce, Aad::from(pseudo_packet), &mut []);
    let mut tag = [0; 16];
    tag.copy_from_slice(
        sealed
            .expect("nothing is sealed, only the tag is made")
            .as_ref(),
    );
    tag
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_secret_gives_the_same_keys() {
        let tag = |secret: Option<&[u8]>| {
            let mut tag = [0; 32];
            Keys::new(secret).reset.sign(b"id", &mut tag);
            tag
        };
        assert_eq!(tag(Some(b"a secret")), tag(Some(b"a secret")));
        assert_ne!(tag(Some(b"a secret")), tag(Some(b"another")));
        assert_eq!(tag(None), tag(None));
        assert_ne!(tag(None), tag(Some(b"a secret")));
    }

    /// RFC 9001, appendix A.4.
    #[test]
    fn the_tag_of_the_standard_s_example() {
        let original = ConnectionId::new(&[0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08]);
        let packet = [
            0xff, 0x00, 0x00, 0x00, 0x01, 0x00, 0x08, 0xf0, 0x67, 0xa5, 0x50, 0x2a, 0x42, 0x62,
            0xb5, 0x74, 0x6f, 0x6b, 0x65, 0x6e,
        ];
        let expected = [
            0x04, 0xa2, 0x65, 0xba, 0x2e, 0xff, 0x4d, 0x82, 0x90, 0x58, 0xfb, 0x3f, 0x0f, 0x24,
            0x96, 0xba,
        ];
        assert_eq!(retry_tag(&original, &packet), expected);
    }
}
