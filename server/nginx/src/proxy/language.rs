//! What the builder of a proxy asks an nginx.conf.

use sluice_model::nginx::NginxProxy as Nginx;
use sluice_model::proxy::ReverseProxy as Config;

use super::NginxProxy;
use super::buffering::buffering;
use sluice_pipeline::build::Builder;
use sluice_pipeline::refusal::Refusal;
use sluice_proxy::reverse_proxy::addresses::Sockets;
use sluice_proxy::reverse_proxy::buffering::Buffering;
use sluice_proxy::reverse_proxy::dialect::Dialect;
use sluice_proxy::reverse_proxy::language::{EmptyFields, Language, ShownFields};
use sluice_proxy::reverse_proxy::retry::Sharing;
use sluice_wire::h1::{Leniency, LineEnds};

/// The settings of `proxy_pass` and its siblings that only nginx has.
pub struct NginxConf<'m>(pub &'m Nginx);

impl Language for NginxConf<'_> {
    fn dialect(
        &self,
        _config: &Config,
        servers: u32,
        _sharing: Sharing,
        builder: &Builder<'_>,
    ) -> Result<Box<dyn Dialect>, Refusal> {
        Ok(Box::new(NginxProxy::build(self.0, servers, builder)?))
    }

    fn buffering(&self, config: &Config, builder: &Builder<'_>) -> Result<Buffering, Refusal> {
        buffering(config, self.0, builder)
    }

    fn empty_fields(&self) -> EmptyFields {
        EmptyFields::Skipped
    }

    fn drops_body(&self) -> bool {
        self.0.drop_body
    }

    fn sockets(&self) -> Sockets {
        Sockets::Named
    }

    fn leniency(&self) -> Leniency {
        Leniency {
            line_ends: LineEnds::LfToo,
            ..Leniency::default()
        }
    }

    fn shown_fields(&self) -> ShownFields {
        ShownFields::AsReceived
    }
}
