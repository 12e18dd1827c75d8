//! The frames of a lane (decision 0023).

/// Length of a frame's header.
pub const HEADER_LEN: usize = 16;
/// The last frame of its direction of the stream.
pub const END: u8 = 1;
/// A request.
pub const REQUEST: u8 = 0x01;
/// The first and the last type of the other frames that sluice sends on a lane.
pub const OTHERS: std::ops::RangeInclusive<u8> = 0x02..=0x06;
const RESPONSE: u8 = 0x11;

/// The header of a frame.
pub struct Header {
    pub length: usize,
    pub stream: u32,
    pub kind: u8,
    pub flags: u8,
    pub small: u16,
    pub large: u32,
}

impl Header {
    /// Reads a header.
    pub fn decode(bytes: &[u8; HEADER_LEN]) -> Header {
        let [a, b, c, d, e, f, g, h, kind, flags, i, j, k, l, m, n] = *bytes;
        Header {
            length: u32::from_le_bytes([a, b, c, d]) as usize,
            stream: u32::from_le_bytes([e, f, g, h]),
            kind,
            flags,
            small: u16::from_le_bytes([i, j]),
            large: u32::from_le_bytes([k, l, m, n]),
        }
    }
}

/// The header of a RESPONSE with END. The whole frame is shorter than `PART_BYTES_MAX` and a header block.
pub fn response_header(stream: u32, status: u16, block: usize, body: usize) -> [u8; HEADER_LEN] {
    let mut header = [0; HEADER_LEN];
    header[..4].copy_from_slice(&((block + body) as u32).to_le_bytes());
    header[4..8].copy_from_slice(&stream.to_le_bytes());
    header[8] = RESPONSE;
    header[9] = END;
    header[10..12].copy_from_slice(&status.to_le_bytes());
    header[12..].copy_from_slice(&(block as u32).to_le_bytes());
    header
}
