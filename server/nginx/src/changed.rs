//! Adjusts response headers for a filter that changes the body.

use sluice_message::{FieldId, Fields};

use crate::spelling::ETAG;

/// Removes `Content-Length` and `Accept-Ranges`, and weakens the ETag (RFC 9110, section 8.8.1).
pub fn note(fields: &mut Fields) {
    fields.remove(FieldId::ContentLength);
    fields.remove(FieldId::AcceptRanges);
    let Some(tag) = fields.first(FieldId::Etag) else {
        return;
    };
    if tag.starts_with(b"\"") {
        let weak = [b"W/", tag].concat();
        fields.set_raw(FieldId::Etag, ETAG, &weak);
    } else if !tag.starts_with(b"W/") {
        // The tag is malformed.
        fields.remove(FieldId::Etag);
    }
}
