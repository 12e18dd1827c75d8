//! The binary header (section 2.2 of the specification). `extensions` reads those (TLVs) after the addresses.

use core::net::{IpAddr, SocketAddr};

use super::{Beginning, Ends, HEADER_BYTES_MAX, HeaderError};

pub(super) const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// Signature, version and command, family, length of what follows.
const FIXED_BYTES: usize = 16;

/// Reads a header that begins with the signature, or with a part of it.
pub(super) fn decode(bytes: &[u8]) -> Result<Beginning, HeaderError> {
    let Some((fixed, rest)) = bytes.split_at_checked(FIXED_BYTES) else {
        return Ok(Beginning::Incomplete);
    };
    let is_local = match fixed[12] {
        0x20 => true,
        0x21 => false,
        _ => return Err(HeaderError::BadVersion),
    };
    let follows = usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
    let length = FIXED_BYTES + follows;
    if length > HEADER_BYTES_MAX {
        return Err(HeaderError::TooLong);
    }
    // What is wrong is said before all of it was waited for.
    let addresses = match (fixed[13], is_local) {
        (_, true) | (0x00, false) => Addresses::None,
        (0x11 | 0x12, false) => Addresses::V4,
        (0x21 | 0x22, false) => Addresses::V6,
        // A pair of unix sockets says nothing of a client.
        (0x31 | 0x32, false) => Addresses::None,
        (_, false) => return Err(HeaderError::BadFamily),
    };
    if follows < addresses.bytes() {
        return Err(HeaderError::TooShort);
    }
    if rest.len() < follows {
        return Ok(Beginning::Incomplete);
    }
    let ends = addresses.read(&rest[..addresses.bytes()]);
    Ok(Beginning::Header {
        length,
        ends,
        extensions: FIXED_BYTES + addresses.bytes(),
    })
}

#[derive(Clone, Copy)]
enum Addresses {
    None,
    V4,
    V6,
}

impl Addresses {
    const fn bytes(self) -> usize {
        match self {
            Addresses::None => 0,
            Addresses::V4 => 12,
            Addresses::V6 => 36,
        }
    }

    /// The addresses in as many bytes as they take.
    fn read(self, bytes: &[u8]) -> Option<Ends> {
        match self {
            Addresses::None => None,
            Addresses::V4 => read::<4, 12>(bytes),
            Addresses::V6 => read::<16, 36>(bytes),
        }
    }
}

/// Two addresses of `IP` bytes each, then two ports: `ALL` bytes.
fn read<const IP: usize, const ALL: usize>(bytes: &[u8]) -> Option<Ends>
where
    IpAddr: From<[u8; IP]>,
{
    let (source, rest) = bytes.first_chunk::<ALL>()?.split_first_chunk::<IP>()?;
    let (destination, ports) = rest.split_first_chunk::<IP>()?;
    let port = |at: usize| u16::from_be_bytes([ports[at], ports[at + 1]]);
    Some(Ends {
        source: SocketAddr::new(IpAddr::from(*source), port(0)),
        destination: SocketAddr::new(IpAddr::from(*destination), port(2)),
    })
}
