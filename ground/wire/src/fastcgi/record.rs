//! The eight-byte header of every record (FastCGI specification, section 3.3).

/// The number of the only request on a connection.
pub const REQUEST_ID: u16 = 1;

/// The bytes of a record before its content.
pub const HEAD_BYTES: usize = 8;

/// The content that one record can have.
pub const CONTENT_BYTES_MAX: usize = u16::MAX as usize;

const VERSION: u8 = 1;

/// What a record carries: those that a web server sends or expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The beginning of a request.
    Begin,
    /// The end of a response.
    End,
    /// Variables of the request.
    Params,
    /// Content of the request.
    Stdin,
    /// Head and body of the response.
    Stdout,
    /// Complaints of the application.
    Stderr,
}

impl Kind {
    const fn number(self) -> u8 {
        match self {
            Kind::Begin => 1,
            Kind::End => 3,
            Kind::Params => 4,
            Kind::Stdin => 5,
            Kind::Stdout => 6,
            Kind::Stderr => 7,
        }
    }
}

/// The head of a record of ours, without padding: no application asks for it, and all read records without.
pub const fn head(kind: Kind, length: u16) -> [u8; HEAD_BYTES] {
    let [id_high, id_low] = REQUEST_ID.to_be_bytes();
    let [length_high, length_low] = length.to_be_bytes();
    [
        VERSION,
        kind.number(),
        id_high,
        id_low,
        length_high,
        length_low,
        0,
        0,
    ]
}

/// What is wrong with the head of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadRefused {
    /// The version is not 1.
    Version(u8),
    /// The type is not that of a response record.
    Kind(u8),
    /// It belongs to another request than ours.
    Id(u16),
}

/// The head of a record that came: kind, length of the content, length of the padding.
pub fn decode_head(bytes: [u8; HEAD_BYTES]) -> Result<(Kind, u16, u8), HeadRefused> {
    let [
        version,
        kind,
        id_high,
        id_low,
        high,
        low,
        padding,
        _reserved,
    ] = bytes;
    if version != VERSION {
        return Err(HeadRefused::Version(version));
    }
    // Management records (request ID 0) are replies to queries, and sluice sends none.
    let kind = match kind {
        3 => Kind::End,
        6 => Kind::Stdout,
        7 => Kind::Stderr,
        other => return Err(HeadRefused::Kind(other)),
    };
    match u16::from_be_bytes([id_high, id_low]) {
        REQUEST_ID => Ok((kind, u16::from_be_bytes([high, low]), padding)),
        other => Err(HeadRefused::Id(other)),
    }
}
