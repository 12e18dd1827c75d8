//! What the builder of a proxy asks an nginx.conf.

use sluice_model::proxy::{NginxProxy as Nginx, ReverseProxy as Config};

use super::NginxProxy;
use super::buffering::buffering;
use crate::handlers::reverse_proxy::addresses::Sockets;
use crate::handlers::reverse_proxy::buffering::Buffering;
use crate::handlers::reverse_proxy::dialect::Dialect;
use crate::handlers::reverse_proxy::language::{EmptyFields, Language};
use crate::handlers::reverse_proxy::retry::Sharing;
use sluice_pipeline::build::Builder;
use sluice_pipeline::refusal::Refusal;

/// The settings of `proxy_pass` and its siblings that only nginx has.
pub struct NginxConf<'m>(pub &'m Nginx);

impl Language for NginxConf<'_> {
    fn dialect(
        &self,
        _config: &Config,
        servers: u32,
        _sharing: Sharing,
        cx: &Builder<'_>,
    ) -> Result<Box<dyn Dialect>, Refusal> {
        Ok(Box::new(NginxProxy::build(self.0, servers, cx)?))
    }

    fn buffering(&self, config: &Config, cx: &Builder<'_>) -> Result<Buffering, Refusal> {
        buffering(config, self.0, cx)
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
}
