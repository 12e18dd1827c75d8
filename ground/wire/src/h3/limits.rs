//! Limits on what one HTTP/3 connection may use beyond what QUIC bounds: streams, windows and idle time are the
//! transport's.

/// Bounds of one HTTP/3 connection. Bytes and items are both counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// A field section as it comes, before it is decoded. Encoding makes no head longer than this unless on purpose.
    pub block_bytes_max: usize,
    /// The dynamic table that the peer may use when it compresses; at most 65,535 bytes.
    pub table_bytes_max: u16,
    /// Requests that may wait for entries of the dynamic table (RFC 9204, section 2.1.2).
    pub blocked_streams_max: u16,
    /// The payload of a frame on the control stream that has to be read as a whole: SETTINGS of today have 30 bytes,
    /// priorities 20.
    pub control_frame_bytes_max: usize,
}

impl Limits {
    /// Those of servers.
    pub const SERVER: Limits = Limits {
        block_bytes_max: 32 * 1024,
        table_bytes_max: 4096,
        blocked_streams_max: 16,
        control_frame_bytes_max: 1024,
    };
}

/// The longest value of a field line that an encoder remembers: dates, media types and server names are shorter. There is a
/// line for each known name at most.
pub(crate) const LINE_VALUE_BYTES_MAX: usize = 64;
