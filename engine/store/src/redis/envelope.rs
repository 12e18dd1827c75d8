//! Values as caddy-storage-redis writes them: JSON with the value in base64, its time and size, and whether it is
//! compressed and encrypted.

use std::io::{Read, Write};
use std::time::SystemTime;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::{DeflateDecoder, ZlibDecoder};
use flate2::write::{DeflateEncoder, ZlibEncoder};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::Compression;
use crate::limits::INFLATED_BYTES_MAX;
use crate::values::{Value, Version};

/// Encodes and decodes values.
pub(super) struct Envelopes {
    compression: Compression,
    /// The first encrypts, all decrypt.
    keys: Vec<LessSafeKey>,
}

#[derive(Serialize, Deserialize)]
struct Envelope {
    value: String,
    modified: String,
    size: u64,
    /// 0 for none, 1 for DEFLATE, 2 for zlib.
    compression: u8,
    /// 1 if the value is a nonce of 12 bytes and what AES-256-GCM makes of it.
    encryption: u8,
}

impl Envelopes {
    /// `keys` are empty if values are not encrypted.
    pub(super) fn new<'k>(
        compression: Compression,
        keys: impl IntoIterator<Item = &'k [u8; 32]>,
    ) -> Envelopes {
        let keys = keys.into_iter().map(|key| {
            let key = UnboundKey::new(&AES_256_GCM, key);
            LessSafeKey::new(key.expect("the cipher takes 32 bytes"))
        });
        Envelopes {
            compression,
            keys: keys.collect(),
        }
    }

    /// Whether values are encrypted.
    pub(super) fn has_key(&self) -> bool {
        !self.keys.is_empty()
    }

    /// Whether a stored text is encrypted with the first key.
    pub(super) fn is_current(&self, text: &[u8]) -> bool {
        let envelope: Result<Envelope, _> = serde_json::from_slice(text);
        let bytes = envelope.ok().filter(|envelope| envelope.encryption > 0);
        let bytes = bytes.and_then(|envelope| STANDARD.decode(envelope.value).ok());
        let first = self.keys.first();
        first
            .zip(bytes)
            .is_some_and(|(key, bytes)| opened(key, bytes).is_some())
    }

    /// The text that is stored for a value that is written now.
    pub(super) fn encode(&self, value: &[u8], now: SystemTime) -> String {
        let (compressed, compression) = match self.compression {
            Compression::None => (None, 0),
            Compression::Flate => {
                let mut out = DeflateEncoder::new(Vec::new(), flate2::Compression::default());
                (out.write_all(value).and_then(|()| out.finish()).ok(), 1)
            }
            Compression::Zlib => {
                let mut out = ZlibEncoder::new(Vec::new(), flate2::Compression::default());
                (out.write_all(value).and_then(|()| out.finish()).ok(), 2)
            }
        };
        let smaller = compressed.filter(|bytes| bytes.len() < value.len());
        let (mut bytes, compression) = match smaller {
            Some(bytes) => (bytes, compression),
            None => (value.to_vec(), 0),
        };
        if let Some(key) = self.keys.first() {
            bytes = sealed(key, bytes);
        }
        let modified = OffsetDateTime::from(now).format(&Rfc3339);
        let envelope = Envelope {
            value: STANDARD.encode(bytes),
            modified: modified.expect("the year of a clock has four digits"),
            size: value.len() as u64,
            compression,
            encryption: u8::from(self.has_key()),
        };
        serde_json::to_string(&envelope).expect("texts and numbers are JSON")
    }

    /// The value in a stored text, or why it is not one.
    pub(super) fn decode(&self, text: &[u8]) -> Result<Value, &'static str> {
        let envelope: Envelope = serde_json::from_slice(text)
            .map_err(|_| "it is not a value as caddy-storage-redis writes them")?;
        let mut bytes = STANDARD
            .decode(&envelope.value)
            .map_err(|_| "its content is not base64")?;
        if envelope.encryption > 0 {
            if !self.has_key() {
                return Err("it is encrypted, and no encryption key is configured");
            }
            let found = self.keys.iter().find_map(|key| opened(key, bytes.clone()));
            bytes = found.ok_or("the encryption key does not decrypt it")?;
        }
        let bytes = match envelope.compression {
            0 => bytes,
            1 => inflated(DeflateDecoder::new(&*bytes))?,
            2 => inflated(ZlibDecoder::new(&*bytes))?,
            _ => return Err("its compression is unknown"),
        };
        Ok(Value {
            bytes,
            modified: modified(&envelope.modified),
            version: version(text),
        })
    }
}

/// A time as Go writes it.
pub(super) fn modified(text: &str) -> SystemTime {
    let parsed = OffsetDateTime::parse(text, &Rfc3339);
    parsed.map_or(SystemTime::UNIX_EPOCH, SystemTime::from)
}

/// The version of a stored text, as `redis.sha1hex` in a script computes it.
pub(super) fn version(text: &[u8]) -> Version {
    let digest = digest(&SHA1_FOR_LEGACY_USE_ONLY, text);
    let hex = digest.as_ref().iter().map(|byte| format!("{byte:02x}"));
    Version(hex.collect())
}

fn sealed(key: &LessSafeKey, mut bytes: Vec<u8>) -> Vec<u8> {
    let mut nonce = [0; NONCE_LEN];
    aws_lc_rs::rand::fill(&mut nonce).expect("aws-lc always has random bytes");
    let unique = Nonce::assume_unique_for_key(nonce);
    key.seal_in_place_append_tag(unique, Aad::empty(), &mut bytes)
        .expect("a value is far smaller than what the cipher takes");
    [&nonce[..], &bytes].concat()
}

fn opened(key: &LessSafeKey, mut bytes: Vec<u8>) -> Option<Vec<u8>> {
    let nonce: [u8; NONCE_LEN] = bytes.get(..NONCE_LEN)?.try_into().ok()?;
    let nonce = Nonce::assume_unique_for_key(nonce);
    let content = bytes.get_mut(NONCE_LEN..)?;
    let opened = key.open_in_place(nonce, Aad::empty(), content).ok()?;
    Some(opened.to_vec())
}

fn inflated(from: impl Read) -> Result<Vec<u8>, &'static str> {
    let mut bytes = Vec::new();
    from.take(INFLATED_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|_| "its compressed content is damaged")?;
    match bytes.len() as u64 > INFLATED_BYTES_MAX {
        true => Err("its compressed content is too large"),
        false => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &[u8; 32] = b"0123456789abcdef0123456789abcdef";

    #[test]
    fn each_form_is_read_by_every_store() {
        let text = "a value that repeats, a value that repeats ".repeat(20);
        let now = SystemTime::now();
        for compression in [Compression::None, Compression::Flate, Compression::Zlib] {
            for key in [None, Some(KEY)] {
                let written = Envelopes::new(compression, key).encode(text.as_bytes(), now);
                let json: serde_json::Value = serde_json::from_str(&written).unwrap();
                assert_eq!(json["size"], text.len());
                assert_eq!(json["encryption"], u8::from(key.is_some()));
                assert_eq!(json["compression"], compression as u8);
                let reader = Envelopes::new(Compression::None, Some(KEY));
                let value = reader.decode(written.as_bytes()).unwrap();
                assert_eq!(value.bytes, text.as_bytes());
                assert_eq!(value.modified, now);
                assert_eq!(value.version, version(written.as_bytes()));
            }
        }
        // What compression makes larger is stored as it is.
        let written = Envelopes::new(Compression::Flate, None).encode(b"x", now);
        assert!(written.contains("\"compression\":0"), "{written}");
    }

    #[test]
    fn the_documented_forms_of_others_are_read() {
        // Go writes times with the offset of its time zone.
        let plain = br#"{"value":"aGVsbG8=","modified":"2026-03-01T12:00:00.5+02:00","size":5,"compression":0,"encryption":0}"#;
        let value = Envelopes::new(Compression::None, None)
            .decode(plain)
            .unwrap();
        assert_eq!(value.bytes, b"hello");
        let seconds = value
            .modified
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap();
        assert_eq!(seconds.as_millis(), 1_772_359_200_500);
        // Python: zlib.compressobj(wbits=-15) and zlib.compress of 100 times `a`.
        let flate = br#"{"value":"S0ykPQAA","modified":"2026-03-01T12:00:00Z","size":100,"compression":1,"encryption":0}"#;
        let zlib = br#"{"value":"eJxLTKQ9AAB6RyXl","modified":"2026-03-01T12:00:00Z","size":100,"compression":2,"encryption":0}"#;
        for text in [&flate[..], zlib] {
            let value = Envelopes::new(Compression::None, None)
                .decode(text)
                .unwrap();
            assert_eq!(value.bytes, [b'a'; 100]);
        }
    }

    #[test]
    fn former_keys_decrypt_and_the_first_encrypts() {
        let now = SystemTime::now();
        let (new, old) = (&[2; 32], KEY);
        let both = Envelopes::new(Compression::None, [new, old]);
        let before = Envelopes::new(Compression::None, Some(old)).encode(b"x", now);
        assert_eq!(both.decode(before.as_bytes()).unwrap().bytes, b"x");
        let plain = Envelopes::new(Compression::None, None).encode(b"x", now);
        let current = both.encode(b"x", now);
        for (text, is_current) in [(&before, false), (&plain, false), (&current, true)] {
            assert_eq!(both.is_current(text.as_bytes()), is_current, "{text}");
        }
        assert!(!both.is_current(b"garbage"));
        let only_new = Envelopes::new(Compression::None, Some(new));
        assert_eq!(only_new.decode(current.as_bytes()).unwrap().bytes, b"x");
    }

    #[test]
    fn what_is_not_ours_has_one_clear_reason() {
        let reader = Envelopes::new(Compression::None, None);
        assert!(
            reader
                .decode(b"garbage")
                .unwrap_err()
                .contains("caddy-storage-redis")
        );
        let written = Envelopes::new(Compression::None, Some(KEY)).encode(b"x", SystemTime::now());
        assert!(
            reader
                .decode(written.as_bytes())
                .unwrap_err()
                .contains("no encryption key")
        );
        let other = Envelopes::new(Compression::None, Some(&[7; 32]));
        assert!(
            other
                .decode(written.as_bytes())
                .unwrap_err()
                .contains("does not decrypt")
        );
        let bomb = Envelopes::new(Compression::Flate, None);
        let bomb = bomb.encode(&vec![0; INFLATED_BYTES_MAX as usize + 1], SystemTime::now());
        assert!(
            reader
                .decode(bomb.as_bytes())
                .unwrap_err()
                .contains("too large")
        );
    }
}
