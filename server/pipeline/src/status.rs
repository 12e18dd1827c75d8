//! Statuses that a configuration gives as a number or as a placeholder.

use sluice_message::Status;
use sluice_route::Template;

use crate::build::Builder;
use crate::context::Exchange;
use crate::refusal::Refusal;
use crate::values;

/// A status that may depend on the request.
pub enum StatusText {
    /// A number.
    Fixed(Status),
    /// A placeholder.
    Later(Template),
}

impl StatusText {
    /// Parses the text; `None` if it is empty.
    pub fn build(text: &str, builder: &Builder<'_>) -> Result<Option<StatusText>, Refusal> {
        if text.is_empty() {
            return Ok(None);
        }
        if let Ok(code) = text.parse::<u16>() {
            let status = Status::new(code)
                .ok_or_else(|| Refusal::new(format!("status {code} does not have three digits")))?;
            return Ok(Some(StatusText::Fixed(status)));
        }
        let template = builder.template(text)?;
        if template.literal().is_some() {
            return Err(Refusal::new(format!("`{text}` is not a status code"))
                .with_help("write a number of three digits or a placeholder"));
        }
        Ok(Some(StatusText::Later(template)))
    }

    /// The status for a request; `None` if the placeholder does not yield a number from 200 to 999. A status below 200
    /// is not valid for a final response: the client would wait for another one, or switch to another protocol.
    pub fn resolve(&self, exchange: &Exchange) -> Option<Status> {
        match self {
            StatusText::Fixed(status) => Some(*status),
            StatusText::Later(template) => {
                let text = values::expanded(template, exchange);
                let status = Status::new(std::str::from_utf8(&text).ok()?.parse().ok()?)?;
                (!status.is_informational()).then_some(status)
            }
        }
    }
}
