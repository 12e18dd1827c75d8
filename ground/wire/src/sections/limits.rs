//! Limits on heads.

use crate::limits::TargetBytes;

/// Bounds of one head. The protocols have them among the limits of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadLimits {
    /// Names, values and 32 bytes for each field.
    pub section_bytes_max: u32,
    /// Fields, pseudo-fields and crumbs of cookies included.
    pub fields_max: u16,
    /// Bytes of a field name.
    pub name_bytes_max: u16,
    /// Bytes of a field value of a request, pseudo-fields excepted.
    pub value_bytes_max: u32,
    /// Bytes of the method.
    pub method_bytes_max: u16,
    /// Bytes of path and query.
    pub target_bytes_max: u16,
    /// Which bytes a request target may have.
    pub targets: TargetBytes,
}
