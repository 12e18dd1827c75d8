//! Header names that nginx spells differently from the customary form of Go.

/// `ETag`
pub(crate) const ETAG: &[u8] = b"ETag";
/// `WWW-Authenticate`
pub(crate) const WWW_AUTHENTICATE: &[u8] = b"WWW-Authenticate";
