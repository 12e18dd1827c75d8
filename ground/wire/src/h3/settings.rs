//! Settings (RFC 9114, section 7.2.4): what each end announces once, at the beginning of its control stream.

use alloc::vec::Vec;

use super::error::Code;
use super::frame::{FrameKind, encode_frame_head};
use super::limits::Limits;
use super::varint::{decode_varint, encode_varint};

/// The settings of one end. Those that neither end needs to know are not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The dynamic table that the other end may use when it compresses, in bytes.
    pub table_bytes_max: u64,
    /// Streams that the other end may block.
    pub blocked_streams_max: u64,
    /// The largest decoded field section taken; advice only.
    pub section_bytes_max: u64,
    /// Whether a server takes CONNECT with `:protocol` (RFC 9220).
    pub extended_connect: bool,
    /// Whether HTTP datagrams are taken (RFC 9297).
    pub datagrams: bool,
}

impl Default for Settings {
    /// What holds before anything was said.
    fn default() -> Self {
        Settings {
            table_bytes_max: 0,
            blocked_streams_max: 0,
            section_bytes_max: u64::MAX,
            extended_connect: false,
            datagrams: false,
        }
    }
}

impl From<&Limits> for Settings {
    /// What an end with these limits announces, without extensions.
    fn from(limits: &Limits) -> Self {
        Settings {
            table_bytes_max: limits.table_bytes_max.into(),
            blocked_streams_max: limits.blocked_streams_max.into(),
            section_bytes_max: limits.block_bytes_max as u64,
            ..Settings::default()
        }
    }
}

const QPACK_MAX_TABLE_CAPACITY: u64 = 0x1;
const MAX_FIELD_SECTION_SIZE: u64 = 0x6;
const QPACK_BLOCKED_STREAMS: u64 = 0x7;
const ENABLE_CONNECT_PROTOCOL: u64 = 0x8;
const H3_DATAGRAM: u64 = 0x33;

/// A setting that means nothing, so that peers do not forget to ignore those (RFC 9114, section 7.2.4.1).
const GREASE: u64 = 0x1f * 7 + 0x21;

impl Settings {
    /// Reads the payload of a SETTINGS frame. Unknown settings are ignored.
    ///
    /// # Errors
    /// H3_FRAME_ERROR if the payload ends within a setting; H3_SETTINGS_ERROR for a known setting that is repeated or has
    /// a value that it must not have, and for those of HTTP/2.
    pub fn decode(mut payload: &[u8]) -> Result<Settings, Code> {
        let mut settings = Settings::default();
        let mut seen = 0u64;
        while !payload.is_empty() {
            let (id, value, length) = setting(payload).ok_or(Code::FRAME_ERROR)?;
            payload = &payload[length..];
            if id < 64 {
                if seen & 1 << id != 0 {
                    return Err(Code::SETTINGS_ERROR);
                }
                seen |= 1 << id;
            }
            settings.set(id, value)?;
        }
        Ok(settings)
    }

    fn set(&mut self, id: u64, value: u64) -> Result<(), Code> {
        match id {
            QPACK_MAX_TABLE_CAPACITY => self.table_bytes_max = value,
            MAX_FIELD_SECTION_SIZE => self.section_bytes_max = value,
            QPACK_BLOCKED_STREAMS => self.blocked_streams_max = value,
            ENABLE_CONNECT_PROTOCOL => self.extended_connect = switch(value)?,
            H3_DATAGRAM => self.datagrams = switch(value)?,
            // RFC 9114, section 7.2.4.1: those of HTTP/2 without a meaning here.
            0x0 | 0x2..=0x5 => return Err(Code::SETTINGS_ERROR),
            _ => {}
        }
        Ok(())
    }

    /// Appends the SETTINGS frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut payload = Vec::with_capacity(32);
        let unlimited = u64::MAX;
        for (id, value, usual) in [
            (QPACK_MAX_TABLE_CAPACITY, self.table_bytes_max, 0),
            (QPACK_BLOCKED_STREAMS, self.blocked_streams_max, 0),
            (MAX_FIELD_SECTION_SIZE, self.section_bytes_max, unlimited),
            (ENABLE_CONNECT_PROTOCOL, self.extended_connect.into(), 0),
            (H3_DATAGRAM, self.datagrams.into(), 0),
            (GREASE, 1, 0),
        ] {
            if value != usual {
                encode_varint(id, &mut payload);
                encode_varint(value, &mut payload);
            }
        }
        encode_frame_head(FrameKind::SETTINGS, payload.len() as u64, out);
        out.extend_from_slice(&payload);
    }
}

/// The setting at the front of `payload`: its number, its value and its length.
fn setting(payload: &[u8]) -> Option<(u64, u64, usize)> {
    let (id, at) = decode_varint(payload)?;
    let (value, more) = decode_varint(&payload[at..])?;
    Some((id, value, at + more))
}

fn switch(value: u64) -> Result<bool, Code> {
    match value {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Code::SETTINGS_ERROR),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_come_back() {
        let ours = Settings {
            table_bytes_max: 4096,
            blocked_streams_max: 16,
            section_bytes_max: 32 << 10,
            extended_connect: true,
            datagrams: false,
        };
        for settings in [ours, Settings::default()] {
            let mut out = Vec::new();
            settings.encode(&mut out);
            assert_eq!((out[0], usize::from(out[1])), (4, out.len() - 2));
            assert_eq!(Settings::decode(&out[2..]), Ok(settings));
        }
    }

    #[test]
    fn wrong_settings_are_refused() {
        for (payload, code) in [
            (&[0x6][..], Code::FRAME_ERROR),
            (&[0x6, 0x40], Code::FRAME_ERROR),
            (&[0x6, 1, 0x6, 1], Code::SETTINGS_ERROR),
            (&[0x8, 2], Code::SETTINGS_ERROR),
            (&[0x33, 2], Code::SETTINGS_ERROR),
            (&[0x0, 0], Code::SETTINGS_ERROR),
            (&[0x2, 0], Code::SETTINGS_ERROR),
            (&[0x5, 0], Code::SETTINGS_ERROR),
        ] {
            assert_eq!(Settings::decode(payload), Err(code), "{payload:?}");
        }
        assert_eq!(Settings::decode(&[0x40, 0x51, 9]), Ok(Settings::default()));
    }
}
