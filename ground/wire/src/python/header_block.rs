//! Parses the header blocks of applications: `Name: value` and CR LF for each header.

use core::fmt;

use sluice_message::{FieldId, Fields};

use crate::h1::FieldFault;
use crate::h1::field_line::{Section, Seen, read_section};
use crate::h1::parse_length;
use crate::limits::{Limits, OddNames, PYTHON_HEADERS_BYTES_MAX, PYTHON_HEADERS_MAX};

/// What becomes of headers that concern the connection to the client, which belongs to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HopByHop {
    /// They are refused (PEP 3333, "Other HTTP Features").
    Refuse,
    /// They are left out (ASGI: `Transfer-Encoding` must be ignored).
    Drop,
}

/// Why a header block was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockFault {
    /// A line is malformed.
    Field(FieldFault),
    /// The last line has no end, or there is an empty line.
    Unfinished,
    /// A header that concerns the connection to the client.
    HopByHop(FieldId),
    /// Content-Length is not one number.
    Length,
}

impl fmt::Display for BlockFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BlockFault::Field(fault) => fault.fmt(f),
            BlockFault::Unfinished => f.write_str("a header contains a line end"),
            BlockFault::HopByHop(id) => write!(f, "hop-by-hop header `{}`", id.as_str()),
            BlockFault::Length => f.write_str("Content-Length is not one number"),
        }
    }
}

impl core::error::Error for BlockFault {}

const LIMITS: Limits = Limits {
    head_bytes_max: PYTHON_HEADERS_BYTES_MAX as usize,
    fields_max: PYTHON_HEADERS_MAX,
    odd_names: OddNames::Refuse,
    ..Limits::DEFAULT
};

/// Parses a header block into `fields`, which is empty. Returns the Content-Length, which stays in `fields`.
///
/// # Errors
///
/// The first fault; `fields` is empty then.
pub fn decode_block(
    block: &[u8],
    hop_by_hop: HopByHop,
    fields: &mut Fields,
) -> Result<Option<u64>, BlockFault> {
    let decoded = decode(block, hop_by_hop, fields);
    if decoded.is_err() {
        fields.clear();
    }
    decoded
}

fn decode(
    block: &[u8],
    hop_by_hop: HopByHop,
    fields: &mut Fields,
) -> Result<Option<u64>, BlockFault> {
    let mut seen = Seen::default();
    let section = read_section(block, 0, &LIMITS, fields, &mut seen);
    match section.map_err(|found| BlockFault::Field(found.fault))? {
        Section::Unfinished(at) if at == block.len() => fields.adopt_marked(block),
        Section::Unfinished(_) | Section::End(_) => return Err(BlockFault::Unfinished),
    }
    let found = fields.ids().find(|id| is_hop_by_hop(*id));
    match (found, hop_by_hop) {
        (None, _) => {}
        (Some(id), HopByHop::Refuse) => return Err(BlockFault::HopByHop(id)),
        (Some(_), HopByHop::Drop) => fields.retain(|field| !is_hop_by_hop(field.id)),
    }
    if !seen.has(Seen::LENGTH) {
        return Ok(None);
    }
    let length = fields.first(FieldId::ContentLength).and_then(parse_length);
    match (length, seen.repeated(Seen::LENGTH)) {
        (Some(length), false) => Ok(Some(length)),
        (Some(_) | None, _) => Err(BlockFault::Length),
    }
}

/// The headers of RFC 9110, section 7.6.1 and those of proxies; `Alt-Svc` and others that proxies of strangers strip are
/// the application's to set.
fn is_hop_by_hop(id: FieldId) -> bool {
    matches!(
        id,
        FieldId::Connection
            | FieldId::KeepAlive
            | FieldId::ProxyAuthenticate
            | FieldId::ProxyAuthorization
            | FieldId::ProxyConnection
            | FieldId::Te
            | FieldId::Trailer
            | FieldId::TransferEncoding
            | FieldId::Upgrade
    )
}
