//! `intercept`: replaces responses of later handlers, or their status. `pipeline` holds back the original response.

use std::sync::Arc;

use sluice_model::handler::{Intercept as Config, ResponseHandler};
use sluice_net::Body;
use sluice_route::matcher::ResponseMatcher;

use super::headers::response_matcher;
use sluice_pipeline::build::Builder;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::handler::{Filter, Handler, Step};
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::status::StatusText;

struct Intercept {
    rules: Arc<Rules>,
}

struct Rules(Vec<Rule>);

struct Rule {
    /// `None` matches all responses.
    when: Option<ResponseMatcher>,
    then: Then,
}

enum Then {
    /// Replaces the status.
    Replace(StatusText),
    /// Runs the routes of this list; if they do not produce a response, the original one is sent.
    Enter(usize),
}

impl Handler for Intercept {
    fn serve(&self, exchange: &mut Exchange) -> Step {
        exchange.context.filters.push(self.rules.clone());
        Step::Next
    }
}

impl Filter for Rules {
    fn apply(&self, exchange: &mut Exchange, body: Body) -> Body {
        if let Some(Then::Replace(status)) = self.meant(exchange)
            && let Some(status) = status.resolve(exchange)
        {
            exchange.res.status = status;
        }
        body
    }

    fn diverts(&self, exchange: &mut Exchange) -> Option<usize> {
        match self.meant(exchange)? {
            Then::Replace(_) => None,
            Then::Enter(list) => Some(*list),
        }
    }
}

impl Rules {
    /// The action of the first rule that matches the response.
    fn meant(&self, exchange: &Exchange) -> Option<&Then> {
        let meant = |rule: &&Rule| {
            let when = rule.when.as_ref();
            when.is_none_or(|when| when.matches(&exchange.res, &exchange.context.scratch))
        };
        self.0.iter().find(meant).map(|rule| &rule.then)
    }
}

fn rule<'m>(config: &'m ResponseHandler, builder: &mut Builder<'m>) -> Result<Rule, Refusal> {
    let ResponseHandler {
        r#match,
        status_code,
        routes,
    } = config;
    let when = r#match.as_ref().map(response_matcher).transpose()?;
    let then = match StatusText::build(status_code.as_str(), builder)? {
        Some(status) => Then::Replace(status),
        None => Then::Enter(builder.add_list(routes)),
    };
    Ok(Rule { when, then })
}

/// Builds `intercept`.
pub fn build<'m>(
    config: &'m Config,
    builder: &mut Builder<'m>,
) -> Result<Box<dyn Handler>, Refusal> {
    let rules = config.handle_response.iter().enumerate();
    let rules = rules.map(|(index, config)| {
        builder.within(&format!(".handle_response[{index}]"), |builder| {
            rule(config, builder)
        })
    });
    let rules = rules.collect::<Result<_, _>>()?;
    Ok(Box::new(Intercept {
        rules: Arc::new(Rules(rules)),
    }))
}
