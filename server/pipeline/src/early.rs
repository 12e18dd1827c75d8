//! Requests in TLS early data (0-RTT), which may be replayed (RFC 8470). `https` decides whether clients may send early
//! data.

use sluice_message::{FieldId, Method, Status};

use crate::context::Exchange;
use sluice_net::RequestBody;

/// The header that marks a request as early data for upstreams (RFC 8470, section 5.1).
const FIELD: &[u8] = b"Early-Data";

/// Allows and marks requests that are safe to replay; all others get 425 (Too Early), so that the client retries after
/// the handshake.
pub fn admit(exchange: &mut Exchange) -> Result<(), Status> {
    let is_harmless = matches!(exchange.req.method, Method::Get | Method::Head | Method::Options)
        && matches!(exchange.body, RequestBody::None)
        // After an upgrade it is unknown what is safe to replay.
        && !exchange.req.fields.has(FieldId::Upgrade);
    if !is_harmless {
        return Err(Status::TOO_EARLY);
    }
    // A proxy in front of us may have set it already.
    if exchange.req.fields.find_first(FIELD).is_none() {
        exchange.req.fields.push_raw(FieldId::Other, FIELD, b"1");
    }
    Ok(())
}
