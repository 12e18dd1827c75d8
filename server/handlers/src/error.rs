//! `error`: fails the request with a status and a message, for `handle_errors` to handle.

use sluice_message::Status;
use sluice_model::handler::StaticError as Config;
use sluice_route::{Template, Unknown};

use sluice_pipeline::build::Builder;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::Fault;
use sluice_pipeline::handler::{Handler, Step};
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::status::StatusText;
use sluice_pipeline::values::At;

struct StaticError {
    message: Template,
    status: Option<StatusText>,
}

impl Handler for StaticError {
    fn serve(&self, exchange: &mut Exchange) -> Step {
        let default = Status::INTERNAL_SERVER_ERROR;
        let status = self
            .status
            .as_ref()
            .map_or(Some(default), |status| status.resolve(exchange));
        let mut message = Vec::new();
        self.message
            .expand(&At(exchange), Unknown::Keep, &mut message);
        let message = String::from_utf8_lossy(&message).into_owned();
        Step::Fail(Fault::new(status.unwrap_or(default), message))
    }
}

/// Builds `error`.
pub fn build(config: &Config, builder: &mut Builder<'_>) -> Result<Box<dyn Handler>, Refusal> {
    let message = builder.template(&config.error)?;
    Ok(Box::new(StaticError {
        message,
        status: StatusText::build(config.status_code.as_str(), builder)?,
    }))
}
