//! Which of Caddy's and nginx's ways a proxy takes, as the configuration says that it comes from.

use sluice_model::proxy::ReverseProxy as Config;
use sluice_route::matcher::IpRanges;

use crate::handlers::nginx::proxy::{self, NginxProxy};
use crate::handlers::reverse_proxy::buffering::Buffering;
use crate::handlers::reverse_proxy::dialect::{Caddy, Dialect};
use crate::handlers::reverse_proxy::dynamic::Sockets;
use crate::handlers::reverse_proxy::retry::{Retries, Sharing};
use crate::handlers::rewrite;
use sluice_pipeline::build::Builder;
use sluice_pipeline::refusal::Refusal;

/// What becomes of fields that a configuration sets to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EmptyFields {
    Sent,
    Skipped,
}

/// Builds the dialect; `servers` may be asked one after the other.
pub(crate) fn build(
    config: &Config,
    servers: u32,
    sharing: Sharing,
    cx: &Builder<'_>,
) -> Result<Box<dyn Dialect>, Refusal> {
    if let Some(nginx) = &config.nginx {
        return Ok(Box::new(NginxProxy::build(nginx, servers, cx)?));
    }
    let rewrite = config.rewrite.as_ref().map(rewrite::rewrite).transpose();
    Ok(Box::new(Caddy {
        retries: Retries::build(config, sharing)?,
        rewrite: rewrite.map_err(|error| Refusal::new(error.to_string()))?,
        trusted_proxies: IpRanges::new(&config.trusted_proxies)
            .map_err(|error| Refusal::new(format!("trusted_proxies: {error}")))?,
    }))
}

/// Where bodies wait.
pub(crate) fn buffering(config: &Config, cx: &Builder<'_>) -> Result<Buffering, Refusal> {
    match &config.nginx {
        Some(nginx) => proxy::buffering(config, nginx, cx),
        None => Buffering::build(config, cx),
    }
}

/// What becomes of request fields that are set to nothing.
pub(crate) fn empty_fields(config: &Config) -> EmptyFields {
    match config.nginx {
        Some(_) => EmptyFields::Skipped,
        None => EmptyFields::Sent,
    }
}

/// Whether the body of the request is not forwarded.
pub(crate) fn drops_body(config: &Config) -> bool {
    config.nginx.as_ref().is_some_and(|nginx| nginx.drop_body)
}

/// Whether a placeholder may give the path of a socket.
pub(crate) fn sockets(config: &Config) -> Sockets {
    match config.nginx {
        Some(_) => Sockets::Named,
        None => Sockets::Refused,
    }
}
