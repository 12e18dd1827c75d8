//! The header block of each cache file: response head, key and times. A file whose block fails its checksum is invalid.

use sluice_message::caching::{Lifetime, Times};
use sluice_message::{FieldId, Fields, ResponseHead, Status, Version};

use crate::limits::{BLOCK_BYTES_MAX, BLOCK_SPARE_BYTES, BLOCK_STEP_BYTES, KEY_BYTES_MAX};

/// The header block of a cache file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    /// Length of the block, which is the offset of the body.
    pub block_len: usize,
    /// Distinguishes this version of the file from all others.
    pub nonce: u64,
    pub head: ResponseHead,
    pub times: Times,
    pub content_len: u64,
    pub key: Vec<u8>,
    /// The headers listed in `Vary`, and their values in the request.
    pub names: Vec<u8>,
    pub variant: Vec<u8>,
}

const MAGIC: &[u8; 8] = b"sluice\0\x01";
const FIXED: usize = 88;

impl Record {
    /// Encodes the block; `None` if it exceeds the maximum size, or `block_len` if that is given.
    pub fn encode(&self, block_len: Option<usize>) -> Option<Vec<u8>> {
        let mut out = Vec::with_capacity(1024);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&[0; FIXED - 8]);
        for text in [&self.key, &self.names, &self.variant] {
            out.extend_from_slice(text);
        }
        for field in self.head.fields.iter() {
            out.extend_from_slice(&u16::try_from(field.name.len()).ok()?.to_le_bytes());
            out.extend_from_slice(&u32::try_from(field.value.len()).ok()?.to_le_bytes());
            out.extend_from_slice(field.name);
            out.extend_from_slice(field.value);
        }
        let used = out.len();
        let length = match block_len {
            Some(length) => length,
            // Leave room for headers that a revalidation adds.
            None => (used + BLOCK_SPARE_BYTES).next_multiple_of(BLOCK_STEP_BYTES),
        };
        if used > length || length > BLOCK_BYTES_MAX || self.key.len() > KEY_BYTES_MAX {
            return None;
        }
        out.resize(length, 0);
        let lifetime = self.times.lifetime;
        let mut fixed = Writer(&mut out[16..FIXED]);
        fixed.u32(u32::try_from(length).ok()?);
        fixed.u32(u32::try_from(used).ok()?);
        fixed.u64(self.nonce);
        fixed.u64(self.times.since);
        fixed.u64(self.content_len);
        for number in [
            lifetime.age,
            lifetime.fresh,
            lifetime.stale_if_error,
            lifetime.stale_while_updating,
            u32::from(lifetime.is_strict),
            u32::from(self.head.status.code()),
            u32::from(version_number(self.head.version)),
            u32::try_from(self.key.len()).ok()?,
            u32::try_from(self.names.len()).ok()?,
            u32::try_from(self.variant.len()).ok()?,
        ] {
            fixed.u32(number);
        }
        let sum = sum(&out[16..]);
        out[8..16].copy_from_slice(&sum.to_le_bytes());
        Some(out)
    }

    /// Whether a file that starts with these bytes was written by this program.
    pub fn is_ours(start: &[u8]) -> bool {
        start.starts_with(MAGIC)
    }

    /// The block length, from the first bytes of a file.
    pub fn block_len(start: &[u8]) -> Option<usize> {
        let length = start.get(16..20)?.first_chunk::<4>()?;
        let length = u32::from_le_bytes(*length) as usize;
        let is_known = Record::is_ours(start) && (FIXED..=BLOCK_BYTES_MAX).contains(&length);
        is_known.then_some(length)
    }

    /// Decodes a complete block.
    pub fn decode(block: &[u8]) -> Option<Record> {
        if Record::block_len(block)? != block.len() {
            return None;
        }
        let checksum = block.get(8..16)?.first_chunk::<8>()?;
        if u64::from_le_bytes(*checksum) != sum(&block[16..]) {
            return None;
        }
        let mut fixed = Reader(&block[20..FIXED]);
        let used = fixed.u32()? as usize;
        let (nonce, since, content_len) = (fixed.u64()?, fixed.u64()?, fixed.u64()?);
        let lifetime = Lifetime {
            age: fixed.u32()?,
            fresh: fixed.u32()?,
            stale_if_error: fixed.u32()?,
            stale_while_updating: fixed.u32()?,
            is_strict: fixed.u32()? != 0,
        };
        let status = Status::new(u16::try_from(fixed.u32()?).ok()?)?;
        let version = version(fixed.u32()?)?;
        let lengths = [fixed.u32()?, fixed.u32()?, fixed.u32()?];
        let mut rest = Reader(block.get(FIXED..used)?);
        let key = rest.take(lengths[0] as usize)?.to_vec();
        let names = rest.take(lengths[1] as usize)?.to_vec();
        let variant = rest.take(lengths[2] as usize)?.to_vec();
        let mut fields = Fields::new();
        while !rest.0.is_empty() {
            let (name, value) = (rest.u16()?, rest.u32()?);
            let name = rest.take(usize::from(name))?;
            let value = rest.take(value as usize)?;
            fields.push_raw(FieldId::of(name), name, value);
        }
        Some(Record {
            block_len: block.len(),
            nonce,
            head: ResponseHead {
                status,
                version,
                fields,
                ..ResponseHead::default()
            },
            times: Times { since, lifetime },
            content_len,
            key,
            names,
            variant,
        })
    }
}

fn version_number(version: Version) -> u8 {
    match version {
        Version::Http10 => 10,
        Version::Http11 => 11,
        Version::Http2 => 20,
        Version::Http3 => 30,
    }
}

fn version(number: u32) -> Option<Version> {
    Some(match number {
        10 => Version::Http10,
        11 => Version::Http11,
        20 => Version::Http2,
        30 => Version::Http3,
        _ => return None,
    })
}

/// FNV-1a over words of eight bytes. It only has to detect partial writes.
fn sum(bytes: &[u8]) -> u64 {
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let mut sum = 0xcbf2_9ce4_8422_2325_u64;
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        sum = (sum ^ u64::from_le_bytes(word)).wrapping_mul(PRIME);
        sum ^= sum >> 29;
    }
    sum
}

struct Writer<'a>(&'a mut [u8]);

impl Writer<'_> {
    fn put(&mut self, bytes: &[u8]) {
        let (here, rest) = std::mem::take(&mut self.0).split_at_mut(bytes.len());
        here.copy_from_slice(bytes);
        self.0 = rest;
    }

    fn u32(&mut self, value: u32) {
        self.put(&value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.put(&value.to_le_bytes());
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn number<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.first_chunk::<N>().copied()
    }

    fn u16(&mut self) -> Option<u16> {
        self.number().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.number().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.number().map(u64::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        let mut record = Record {
            nonce: 7,
            content_len: 1 << 40,
            key: b"http://a/b".to_vec(),
            names: b"accept,".to_vec(),
            variant: b"x".to_vec(),
            times: Times {
                since: 5,
                lifetime: Lifetime {
                    age: 1,
                    fresh: 2,
                    stale_if_error: 3,
                    stale_while_updating: 4,
                    is_strict: true,
                },
            },
            ..Record::default()
        };
        record.head.status = Status::NOT_FOUND;
        record.head.version = Version::Http2;
        record.head.fields.push(FieldId::Etag, b"\"t\"");
        record.head.fields.push_raw(FieldId::Other, b"X-Own", b"1");
        record
    }

    #[test]
    fn what_was_written_is_read() {
        let block = record().encode(None).unwrap();
        assert_eq!(Record::block_len(&block), Some(block.len()));
        let found = Record::decode(&block).unwrap();
        assert_eq!((found.nonce, found.content_len), (7, 1 << 40));
        assert_eq!(found.times, record().times);
        assert_eq!(found.head.status, Status::NOT_FOUND);
        assert_eq!(found.head.version, Version::Http2);
        assert_eq!(found.head.fields.first(FieldId::Etag), Some(&b"\"t\""[..]));
        assert_eq!(found.head.fields.find_first(b"x-own"), Some(&b"1"[..]));
        assert_eq!(
            (found.key, found.names, found.variant),
            (b"http://a/b".to_vec(), b"accept,".to_vec(), b"x".to_vec())
        );
    }

    #[test]
    fn every_byte_that_is_wrong_is_noticed() {
        let block = record().encode(None).unwrap();
        for at in 0..block.len() {
            let mut wrong = block.clone();
            wrong[at] ^= 0x10;
            assert!(Record::decode(&wrong).is_none(), "byte {at}");
        }
        for end in 0..block.len() {
            assert!(Record::decode(&block[..end]).is_none(), "{end} bytes");
        }
    }

    #[test]
    fn a_beginning_has_room_and_a_limit() {
        let mut grown = record();
        let length = grown.encode(None).unwrap().len();
        let more = vec![b'a'; BLOCK_SPARE_BYTES - 32];
        grown.head.fields.push_raw(FieldId::Other, b"X-M", &more);
        assert_eq!(
            grown.encode(Some(length)).map(|block| block.len()),
            Some(length)
        );
        let more = vec![b'a'; BLOCK_BYTES_MAX];
        grown.head.fields.push_raw(FieldId::Other, b"X-M", &more);
        assert!(grown.encode(Some(length)).is_none() && grown.encode(None).is_none());
        let mut keyed = record();
        keyed.key = vec![b'k'; KEY_BYTES_MAX + 1];
        assert!(keyed.encode(None).is_none());
    }
}
