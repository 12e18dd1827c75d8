//! Requests that came before the end of the handshake (0-RTT), which may be copies of others (RFC 8470). Whether a client
//! may send any is left to `https`.

use sluice_message::{FieldId, Method, Status};

use crate::context::Exchange;
use sluice_net::RequestBody;

/// The field that tells whoever is behind us of it (RFC 8470, section 5.1).
const FIELD: &[u8] = b"Early-Data";

/// Lets in what does no harm if it comes twice, and marks it; all else has to come again after the handshake.
pub(crate) fn admit(x: &mut Exchange) -> Result<(), Status> {
    let is_harmless = matches!(x.req.method, Method::Get | Method::Head | Method::Options)
        && matches!(x.body, RequestBody::None)
        // Nobody knows what is said on another protocol.
        && !x.req.fields.has(FieldId::Upgrade);
    if !is_harmless {
        return Err(Status::TOO_EARLY);
    }
    // Who has set it before us had the same reason.
    if x.req.fields.find_first(FIELD).is_none() {
        x.req.fields.push_raw(FieldId::Other, FIELD, b"1");
    }
    Ok(())
}
