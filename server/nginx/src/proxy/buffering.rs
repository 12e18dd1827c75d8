//! Buffering as nginx has it, on unless it is switched off. Where bodies wait is left to `reverse_proxy`.

use sluice_model::nginx::NginxProxy as Config;
use sluice_model::proxy::{ReverseProxy, Transport};

use crate::limits::BUFFER_RESPONSE_BYTES;
use sluice_pipeline::build::Builder;
use sluice_pipeline::refusal::Refusal;
use sluice_proxy::limits::{BUFFER_FILE_BYTES_MAX, BUFFER_REQUEST_BYTES};
use sluice_proxy::reverse_proxy::buffering::{Buffering, ReadAhead, Rules, Spooling};

/// How nginx buffers, as the location says.
pub fn buffering(
    config: &ReverseProxy,
    nginx: &Config,
    builder: &Builder<'_>,
) -> Result<Buffering, Refusal> {
    // As in nginx, gRPC messages and memcached values are not buffered.
    if nginx.trailers || matches!(config.transport, Some(Transport::Memcached(_))) {
        return Ok(Buffering::default());
    }
    let ignores = |name: &str| nginx.ignore.iter().any(|ignored| ignored == name);
    let (request, response) = (&nginx.request_buffers, &nginx.response_buffers);
    Ok(Buffering {
        spooling: Some(Spooling {
            rules: Rules::build(request, (BUFFER_REQUEST_BYTES, u64::MAX), builder)?,
            always: !request.off,
        }),
        ahead: Some(ReadAhead {
            rules: Rules::build(
                response,
                (BUFFER_RESPONSE_BYTES, BUFFER_FILE_BYTES_MAX),
                builder,
            )?,
            usually: !response.off,
            obeys: !ignores("X-Accel-Buffering"),
        }),
        ..Buffering::default()
    })
}
