//! Frames (RFC 6455, section 5): their headers, and the mask of what clients send.

use alloc::vec::Vec;

use super::deflate::Compression;
use super::fault::Fault;
use super::part::MessagePart;

/// The payload of a control frame (section 5.5).
pub(super) const CONTROL_BYTES_MAX: usize = 125;

/// The bit of the first byte of a compressed message (RFC 7692, section 6).
const COMPRESSED: u8 = 0x40;

/// The longest header: two bytes, a length of eight, a mask.
pub(super) const HEADER_BYTES_MAX: usize = 14;

/// Which end of a connection this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Server,
    /// Clients mask what they send; the state of the generator of masks.
    Client {
        masks: u64,
    },
}

impl Role {
    pub(super) fn next_mask(&mut self) -> Option<[u8; 4]> {
        match self {
            Role::Server => None,
            Role::Client { masks } => {
                *masks ^= *masks << 13;
                *masks ^= *masks >> 7;
                *masks ^= *masks << 17;
                let [a, b, c, d, ..] = masks.to_le_bytes();
                Some([a, b, c, d])
            }
        }
    }
}

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// UTF-8.
    Text,
    /// Any bytes.
    Binary,
}

/// What a frame is (section 5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opcode {
    Continuation,
    Start(Kind),
    Close,
    Ping,
    Pong,
}

impl Opcode {
    fn of(bits: u8) -> Option<Opcode> {
        Some(match bits {
            0 => Opcode::Continuation,
            1 => Opcode::Start(Kind::Text),
            2 => Opcode::Start(Kind::Binary),
            8 => Opcode::Close,
            9 => Opcode::Ping,
            10 => Opcode::Pong,
            _ => return None,
        })
    }

    const fn bits(self) -> u8 {
        match self {
            Opcode::Continuation => 0,
            Opcode::Start(Kind::Text) => 1,
            Opcode::Start(Kind::Binary) => 2,
            Opcode::Close => 8,
            Opcode::Ping => 9,
            Opcode::Pong => 10,
        }
    }

    /// Whether frames of this kind may stand between those of a message.
    pub(super) const fn is_control(self) -> bool {
        matches!(self, Opcode::Close | Opcode::Ping | Opcode::Pong)
    }
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) opcode: Opcode,
    /// Whether it is the last frame of its message.
    pub(super) is_last: bool,
    /// Whether it begins a compressed message.
    pub(super) is_compressed: bool,
    /// The length of the payload.
    pub(super) length: u64,
    /// Zero if the payload is not masked.
    pub(super) mask: [u8; 4],
}

/// How long the header is that starts with these two bytes.
fn header_bytes(second: u8) -> usize {
    let length = match second & 0x7f {
        126 => 2,
        127 => 8,
        _ => 0,
    };
    let mask = if second & 0x80 == 0 { 0 } else { 4 };
    2 + length + mask
}

/// The header that `bytes` begins with and its length, once it is complete. What `receiver` must not get is refused with
/// the first bytes that show it.
pub(super) fn parse(
    bytes: &[u8],
    receiver: Role,
    compression: Compression,
) -> Result<Option<(Header, usize)>, Fault> {
    let Some(&first) = bytes.first() else {
        return Ok(None);
    };
    let reserved = first & 0x70;
    if reserved & !COMPRESSED != 0 || reserved != 0 && compression == Compression::Off {
        return Err(Fault::ReservedBits);
    }
    let opcode = Opcode::of(first & 0x0f).ok_or(Fault::Opcode(first & 0x0f))?;
    let is_compressed = reserved != 0;
    if is_compressed && !matches!(opcode, Opcode::Start(_)) {
        return Err(Fault::ReservedBits);
    }
    let is_last = first & 0x80 != 0;
    if opcode.is_control() && !is_last {
        return Err(Fault::FragmentedControl);
    }
    let Some(&second) = bytes.get(1) else {
        return Ok(None);
    };
    match (receiver, second & 0x80 != 0) {
        (Role::Server, false) => return Err(Fault::Unmasked),
        (Role::Client { .. }, true) => return Err(Fault::Masked),
        (Role::Server, true) | (Role::Client { .. }, false) => {}
    }
    if opcode.is_control() && usize::from(second & 0x7f) > CONTROL_BYTES_MAX {
        return Err(Fault::LongControl);
    }
    let whole = header_bytes(second);
    let Some(header) = bytes.get(..whole) else {
        return Ok(None);
    };
    let (length, mask) = header[2..].split_at(match second & 0x7f {
        126 => 2,
        127 => 8,
        _ => 0,
    });
    let length = length_of(second & 0x7f, length)?;
    let mask = mask.try_into().unwrap_or([0; 4]);
    let header = Header {
        opcode,
        is_last,
        is_compressed,
        length,
        mask,
    };
    Ok(Some((header, whole)))
}

/// A length in its shortest form (section 5.2).
fn length_of(short: u8, long: &[u8]) -> Result<u64, Fault> {
    let length = long.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    match long.len() {
        0 => Ok(u64::from(short)),
        2 if length >= 126 => Ok(length),
        8 if length > u64::from(u16::MAX) && length >> 63 == 0 => Ok(length),
        _ => Err(Fault::Length),
    }
}

/// What the first byte of a frame says.
#[derive(Clone, Copy, Debug)]
pub(super) struct First {
    pub(super) opcode: Opcode,
    pub(super) piece: MessagePart,
    /// Whether it begins a compressed message.
    pub(super) is_compressed: bool,
}

impl From<Opcode> for First {
    /// An unfragmented frame.
    fn from(opcode: Opcode) -> First {
        First {
            opcode,
            piece: MessagePart::Last,
            is_compressed: false,
        }
    }
}

/// Appends the header of a frame.
pub(super) fn push_header(out: &mut Vec<u8>, first: First, length: usize, mask: Option<[u8; 4]>) {
    let last = if first.piece.is_last() { 0x80 } else { 0 };
    let compressed = if first.is_compressed { COMPRESSED } else { 0 };
    out.push(last | compressed | first.opcode.bits());
    let masked = if mask.is_some() { 0x80 } else { 0 };
    match length {
        short @ 0..=125 => out.push(masked | short as u8),
        middle @ 126..=0xffff => {
            out.push(masked | 126);
            out.extend_from_slice(&(middle as u16).to_be_bytes());
        }
        long => {
            out.push(masked | 127);
            out.extend_from_slice(&(long as u64).to_be_bytes());
        }
    }
    out.extend(mask.iter().flatten());
}

/// Masks `payload`, or removes the mask (section 5.3). `at` is its place in the payload of the frame.
pub(super) fn mask(payload: &mut [u8], mask: [u8; 4], at: usize) {
    let mut mask = mask;
    mask.rotate_left(at % 4);
    let wide = u64::from(u32::from_ne_bytes(mask));
    let wide = wide | wide << 32;
    let (words, rest) = payload.as_chunks_mut::<8>();
    for word in words {
        *word = (u64::from_ne_bytes(*word) ^ wide).to_ne_bytes();
    }
    for (byte, mask) in rest.iter_mut().zip(mask.iter().cycle()) {
        *byte ^= mask;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_applies_alike_wherever_the_payload_is_cut() {
        let plain: Vec<u8> = (0..61).collect();
        let key = [1, 20, 255, 8];
        let expected: Vec<u8> = (plain.iter().zip(key.iter().cycle()))
            .map(|(byte, mask)| byte ^ mask)
            .collect();
        for cut in 0..=plain.len() {
            let mut bytes = plain.clone();
            let (first, second) = bytes.split_at_mut(cut);
            mask(first, key, 0);
            mask(second, key, cut);
            assert_eq!(bytes, expected, "{cut}");
        }
    }

    #[test]
    fn lengths_have_their_shortest_form() {
        for length in [0, 125, 126, 65535, 65536, 1 << 40] {
            let mut bytes = Vec::new();
            let first = Opcode::Start(Kind::Text).into();
            push_header(&mut bytes, first, length, Some([7; 4]));
            let (header, taken) = parse(&bytes, Role::Server, Compression::Off)
                .unwrap()
                .unwrap();
            assert_eq!((header.length, taken), (length as u64, bytes.len()));
            assert_eq!(header.mask, [7; 4]);
            for end in 0..bytes.len() {
                assert_eq!(
                    parse(&bytes[..end], Role::Server, Compression::Off),
                    Ok(None)
                );
            }
        }
        for long in [
            &b"\x82\xfe\0\x7d"[..],
            b"\x82\xff\0\0\0\0\0\0\xff\xff",
            b"\x82\xff\x80\0\0\0\0\0\0\0",
        ] {
            let bytes = [long, &[0; 4]].concat();
            assert_eq!(
                parse(&bytes, Role::Server, Compression::Off),
                Err(Fault::Length),
                "{long:?}"
            );
        }
    }
}
