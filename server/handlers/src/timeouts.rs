//! `timeouts`: timeouts and minimum data rates for the transfer of bodies, instead of those of the server.

use std::sync::Arc;
use std::time::Duration;

use sluice_model::handler::Timeouts as Config;
use sluice_net::{ClientLimits, RequestBody};
use sluice_policy::MinDataRate;

use sluice_pipeline::build::Builder;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::handler::{Handler, Step};
use sluice_pipeline::settings::{given, rate_after, settings};

struct Timeouts {
    /// The maximum pause between two reads of the request body.
    read: Option<Duration>,
    read_rate: Option<MinDataRate>,
    /// The limits of the server with another timeout and rate for the response.
    write: Option<Arc<ClientLimits>>,
}

impl Handler for Timeouts {
    fn serve(&self, exchange: &mut Exchange) -> Step {
        if let RequestBody::Stream(body) = &mut exchange.body
            && let Some(read) = self.read
        {
            body.set_idle_timeout(read);
            if self.read_rate.is_some() {
                body.set_min_rate(self.read_rate);
            }
        }
        if let Some(limits) = &self.write {
            exchange.context.aside.get_or_insert_default().client_limits = Some(limits.clone());
        }
        Step::Next
    }
}

/// Builds `timeouts`. A rate without a timeout has no effect, as in Caddy.
pub fn build(config: &Config, builder: &Builder<'_>) -> Box<dyn Handler> {
    let write = given(config.write_timeout).map(|idle| {
        let usual = settings(builder.server).client;
        let rate = rate_after(config.write_min_rate, config.write_timeout);
        Arc::new(ClientLimits {
            write_idle_timeout: idle,
            write_min_rate: rate.or(usual.write_min_rate),
            ..usual
        })
    });
    Box::new(Timeouts {
        read: given(config.read_timeout),
        read_rate: rate_after(config.read_min_rate, config.read_timeout),
        write,
    })
}
