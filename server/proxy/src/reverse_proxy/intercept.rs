//! `handle_response` and `replace_status`: replaces responses of upstreams. The handlers of the routes produce the
//! replacement.

use sluice_message::ResponseHead;
use sluice_model::handler::{CopyResponse, ResponseHandler as Config};
use sluice_model::walk::contains;
use sluice_route::matcher::ResponseMatcher;
use sluice_upstream::{Call, Pool, Response};

use super::ReverseProxy;
use super::request::Switch;
use sluice_handlers::headers::response_matcher;
use sluice_pipeline::build::Builder;
use sluice_pipeline::context::{Exchange, Held};
use sluice_pipeline::failure::Fault;
use sluice_pipeline::handler::Step;
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::status::StatusText;

/// A rule: which responses it applies to, and what it does.
pub struct Interception {
    /// `None` matches all responses.
    when: Option<ResponseMatcher>,
    then: Then,
}

enum Then {
    /// Replaces the status.
    Replace(StatusText),
    /// Runs the routes of this list, which respond or continue with the request.
    Enter {
        list: usize,
        /// Whether the routes may use `copy_response`, so that the body has to be kept.
        keeps: bool,
    },
}

impl Interception {
    /// Parses the settings.
    pub fn build<'m>(
        config: &'m Config,
        builder: &mut Builder<'m>,
    ) -> Result<Interception, Refusal> {
        let when = config.r#match.as_ref().map(response_matcher).transpose()?;
        let then = match StatusText::build(config.status_code.as_str(), builder)? {
            Some(status) => Then::Replace(status),
            None => Then::Enter {
                keeps: contains::<CopyResponse>(config),
                list: builder.add_list(&config.routes),
            },
        };
        Ok(Interception { when, then })
    }

    /// The list of routes that it runs, if any.
    pub fn list(&self) -> Option<usize> {
        match self.then {
            Then::Enter { list, .. } => Some(list),
            Then::Replace(_) => None,
        }
    }

    /// Describes the responses that it applies to.
    pub fn when(&self) -> String {
        let statuses = self
            .when
            .as_ref()
            .map_or(&[][..], ResponseMatcher::statuses);
        let word = |status: &u16| match status {
            class @ 0..=9 => format!("{class}xx"),
            code => code.to_string(),
        };
        match statuses {
            [] => "anything else".to_owned(),
            statuses => statuses.iter().map(word).collect::<Vec<_>>().join(" or "),
        }
    }

    fn is_meant(&self, head: &ResponseHead, exchange: &Exchange) -> bool {
        self.when
            .as_ref()
            .is_none_or(|when| when.matches(head, &exchange.context.scratch))
    }
}

impl ReverseProxy {
    /// Returns the response and its call if no rule replaces it, otherwise the step to take.
    pub(super) fn intercept(
        &self,
        exchange: &mut Exchange,
        call: Call,
        mut response: Response,
        switch: &Switch,
    ) -> Result<(Call, Response), Step> {
        let rule = self
            .interceptions
            .iter()
            .find(|rule| rule.is_meant(&response.head, exchange));
        let Some(rule) = rule else {
            return Ok((call, response));
        };
        exchange.context.upstream.status = Some(response.head.status);
        exchange.context.upstream.fields.clear();
        exchange
            .context
            .upstream
            .fields
            .append(&response.head.fields);
        match &rule.then {
            Then::Replace(status) => match status.resolve(exchange) {
                Some(status) => {
                    response.head.status = status;
                    Ok((call, response))
                }
                None => {
                    let status = sluice_message::Status::INTERNAL_SERVER_ERROR;
                    Err(Step::Fail(Fault::new(
                        status,
                        "the replaced status is not a number",
                    )))
                }
            },
            Then::Enter { list, keeps: true } => {
                let under_way = std::mem::take(&mut exchange.res);
                let step = self.pass_back(exchange, call, response, switch);
                let head = std::mem::replace(&mut exchange.res, under_way);
                let Step::Done(body) = step else {
                    return Err(step);
                };
                exchange.context.aside.get_or_insert_default().of_upstream = Some(Held {
                    head,
                    body,
                    inline: std::mem::take(&mut exchange.inline),
                });
                Err(Step::Enter(*list))
            }
            Then::Enter { list, keeps: false } => {
                Pool::of(&exchange.worker).give_back(response.head);
                // The body is discarded. If it has arrived completely, its connection can be reused, otherwise it is
                // closed.
                let unwanted = call.into_body(&exchange.worker, response.framing, &mut Vec::new());
                drop(unwanted);
                let aside = exchange.context.aside.get_or_insert_default();
                aside.is_vouched_for = true;
                Err(Step::Enter(*list))
            }
        }
    }
}
