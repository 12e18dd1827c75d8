//! `Alt-Svc` (RFC 7838): tells clients of HTTP/1.1 and HTTP/2 that HTTP/3 is served as well, as Caddy does.

use sluice_message::{FieldId, FixedField, Version};
use sluice_net::datagrams::Bound;
use sluice_pipeline::context::Exchange;

/// The port of HTTPS, which a `Host` header need not name.
const HTTPS_PORT: u16 = 443;

/// What a server announces.
#[derive(Default)]
pub(crate) struct AltSvc {
    offers: Vec<Offer>,
}

/// HTTP/3 on one port.
struct Offer {
    port: u16,
    /// Whether the sockets of its addresses are bound.
    bound: Vec<Bound>,
    /// The field for clients that name this port.
    field: FixedField,
}

impl AltSvc {
    /// HTTP/3 is served on `port` as long as `bound` says so.
    pub(crate) fn add(&mut self, port: u16, bound: Bound) {
        match self.offers.iter_mut().find(|offer| offer.port == port) {
            Some(offer) => offer.bound.push(bound),
            None => self.offers.push(Offer {
                port,
                bound: vec![bound],
                field: FixedField::known(FieldId::AltSvc, value(port).as_bytes()),
            }),
        }
    }

    /// Announces HTTP/3 in the response of `exchange`, with the port that the client has reached: it may be another one
    /// than that of the socket, for example in front of a container.
    pub(crate) fn announce(&self, exchange: &mut Exchange) {
        if self.offers.is_empty() || exchange.req.version >= Version::Http3 {
            return;
        }
        let local = exchange.conn.local.address().map(|addr| addr.port());
        let offer = self.offers.iter().find(|offer| Some(offer.port) == local);
        let Some(offer) = offer.filter(|offer| offer.bound.iter().any(Bound::is_set)) else {
            return;
        };
        let port = exchange.req.port.unwrap_or(HTTPS_PORT);
        match port == offer.port {
            true => exchange.res.fields.push_fixed(&offer.field),
            false => {
                let value = value(port);
                exchange.res.fields.push(FieldId::AltSvc, value.as_bytes());
            }
        }
    }
}

/// Caddy's value: 30 days.
fn value(port: u16) -> String {
    format!("h3=\":{port}\"; ma=2592000")
}
