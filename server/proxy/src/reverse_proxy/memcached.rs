//! `memcached_pass`: responds with a value from memcached. `sluice-wire` implements the protocol, `sluice-net` manages
//! connections.

use sluice_message::{Method, Status};
use sluice_route::Template;
use sluice_wire::memcached::encode_get;

use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::Fault;
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::values::expanded;

/// The key to fetch.
pub struct Memcached {
    key: Template,
}

impl Memcached {
    /// Parses the setting.
    pub fn build(key: &str) -> Result<Memcached, Refusal> {
        let key = Template::parse(key).map_err(|error| Refusal::new(error.to_string()))?;
        Ok(Memcached { key })
    }

    /// Allows only GET and HEAD.
    pub fn admit(&self, exchange: &Exchange) -> Result<(), Fault> {
        match exchange.req.method {
            Method::Get | Method::Head => Ok(()),
            _ => {
                let why = "`memcached_pass` accepts GET and HEAD only";
                Err(Fault::new(Status::METHOD_NOT_ALLOWED, why))
            }
        }
    }

    /// Encodes the command for a request.
    pub fn encode(&self, exchange: &Exchange, out: &mut Vec<u8>) -> Result<(), Fault> {
        let key = expanded(&self.key, exchange);
        if key.is_empty() {
            let why = "the \"$memcached_key\" variable is not set";
            return Err(Fault::new(Status::INTERNAL_SERVER_ERROR, why));
        }
        encode_get(&key, out);
        Ok(())
    }
}
