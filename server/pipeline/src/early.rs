//! Requests in TLS early data (0-RTT), which may be replayed (RFC 8470). `https` decides whether clients may send early
//! data.

use sluice_message::{FieldId, Method, Status};

use crate::context::Exchange;
use sluice_net::RequestBody;

/// The header that marks a request as early data for upstreams (RFC 8470, section 5.1).
const FIELD: &[u8] = b"Early-Data";

/// Allows and marks requests that are safe to replay; all others get 425 (Too Early), so that the client retries after
/// the handshake.
pub fn admit(x: &mut Exchange) -> Result<(), Status> {
    let is_harmless = matches!(x.req.method, Method::Get | Method::Head | Method::Options)
        && matches!(x.body, RequestBody::None)
        // After an upgrade it is unknown what is safe to replay.
        && !x.req.fields.has(FieldId::Upgrade);
    if !is_harmless {
        return Err(Status::TOO_EARLY);
    }
    // A proxy in front of us may have set it already.
    if x.req.fields.find_first(FIELD).is_none() {
        x.req.fields.push_raw(FieldId::Other, FIELD, b"1");
    }
    Ok(())
}
