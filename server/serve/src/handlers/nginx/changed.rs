//! What the head of an answer no longer says once its content is changed on its way.

use sluice_message::{FieldId, Fields};

/// The length is not known beforehand, parts of it are not given, and its tag says only that it means the same (RFC 9110,
/// section 8.8.1).
pub fn note(fields: &mut Fields) {
    fields.remove(FieldId::ContentLength);
    fields.remove(FieldId::AcceptRanges);
    let Some(tag) = fields.first(FieldId::Etag) else {
        return;
    };
    if tag.starts_with(b"\"") {
        let weak = [b"W/", tag].concat();
        fields.set(FieldId::Etag, &weak);
    } else if !tag.starts_with(b"W/") {
        // It is none.
        fields.remove(FieldId::Etag);
    }
}
