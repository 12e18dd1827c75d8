//! The text header (section 2.1 of the specification).

use core::net::{IpAddr, SocketAddr};

use super::{Beginning, Ends, HeaderError};

pub(super) const SIGNATURE: &[u8] = b"PROXY ";

/// The longest line that can be written by the rules, its end included.
const LINE_BYTES_MAX: usize = 107;

/// Reads a line that begins with the signature, or with a part of it.
pub(super) fn decode(bytes: &[u8]) -> Result<Beginning, HeaderError> {
    let window = &bytes[..bytes.len().min(LINE_BYTES_MAX)];
    let Some(end) = window.iter().position(|byte| *byte == b'\n') else {
        return match bytes.len() < LINE_BYTES_MAX {
            true => Ok(Beginning::Incomplete),
            false => Err(HeaderError::BadLine),
        };
    };
    let line = window[..end].strip_suffix(b"\r");
    let line = line.and_then(|line| line.strip_prefix(SIGNATURE));
    let line = line.and_then(|line| core::str::from_utf8(line).ok());
    let ends = ends(line.ok_or(HeaderError::BadLine)?)?;
    Ok(Beginning::Header {
        length: end + 1,
        ends,
        extensions: end + 1,
    })
}

fn ends(line: &str) -> Result<Option<Ends>, HeaderError> {
    let mut words = line.split(' ');
    let is_v4 = match words.next() {
        Some("TCP4") => true,
        Some("TCP6") => false,
        // Whatever follows is to be passed over.
        Some("UNKNOWN") => return Ok(None),
        _ => return Err(HeaderError::BadFamily),
    };
    let mut next = || words.next().ok_or(HeaderError::BadLine);
    let (source, destination) = (ip(next()?, is_v4)?, ip(next()?, is_v4)?);
    let (source_port, destination_port) = (port(next()?)?, port(next()?)?);
    match words.next() {
        None => Ok(Some(Ends {
            source: SocketAddr::new(source, source_port),
            destination: SocketAddr::new(destination, destination_port),
        })),
        Some(_) => Err(HeaderError::BadLine),
    }
}

fn ip(text: &str, is_v4: bool) -> Result<IpAddr, HeaderError> {
    let ip: IpAddr = text.parse().map_err(|_| HeaderError::BadLine)?;
    if ip.is_ipv4() == is_v4 {
        Ok(ip)
    } else {
        Err(HeaderError::BadLine)
    }
}

/// A number without sign or leading zeros.
fn port(text: &str) -> Result<u16, HeaderError> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let is_short = text == "0" || !text.starts_with('0');
    match text.parse() {
        Ok(port) if is_number && is_short => Ok(port),
        Ok(_) | Err(_) => Err(HeaderError::BadLine),
    }
}
