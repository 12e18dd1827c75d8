//! Classification of header names. It is computed once and kept in the tables, so an indexed field needs no further
//! lookup.

use sluice_message::FieldId;
use sluice_message::name::{is_token_byte, is_value_byte};

/// What a name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameKind {
    /// The name of a field: a token without upper-case letters (RFC 9113, section 8.2.1).
    Field(FieldId),
    /// A pseudo-field.
    Pseudo(Pseudo),
    /// No name.
    Empty,
    /// A byte that cannot stand in a name.
    Bad,
}

/// The pseudo-fields (RFC 9113, section 8.3; RFC 8441, section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pseudo {
    /// `:authority`
    Authority,
    /// `:method`
    Method,
    /// `:path`
    Path,
    /// `:scheme`
    Scheme,
    /// `:status`
    Status,
    /// `:protocol`
    Protocol,
    /// Any other.
    Unknown,
}

impl NameKind {
    /// What `name` is.
    #[inline]
    pub fn look(name: &[u8]) -> NameKind {
        let valid = |byte: &u8| is_token_byte(*byte) && !byte.is_ascii_uppercase();
        match name {
            [] => NameKind::Empty,
            [b':', rest @ ..] => NameKind::Pseudo(Pseudo::of(rest)),
            _ if name.iter().all(valid) => NameKind::Field(FieldId::of(name)),
            _ => NameKind::Bad,
        }
    }
}

impl Pseudo {
    fn of(rest: &[u8]) -> Pseudo {
        match rest {
            b"authority" => Pseudo::Authority,
            b"method" => Pseudo::Method,
            b"path" => Pseudo::Path,
            b"scheme" => Pseudo::Scheme,
            b"status" => Pseudo::Status,
            b"protocol" => Pseudo::Protocol,
            _ => Pseudo::Unknown,
        }
    }
}

/// Whether `value` may stand in a field: no control characters, no white space at its ends (RFC 9113,
/// section 8.2.1).
#[inline]
pub(crate) fn is_clean(value: &[u8]) -> bool {
    let edge = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    let bytes = value
        .iter()
        .fold(true, |clean, byte| clean & is_value_byte(*byte));
    bytes && !edge(value.first()) && !edge(value.last())
}
