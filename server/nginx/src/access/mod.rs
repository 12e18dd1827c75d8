//! `nginx_access`: access control by address (`allow`, `deny`), by password (`auth_basic`) and by subrequest
//! (`auth_request`). With `satisfy all` every check has to allow the request, with `satisfy any` one of them.

mod location;
mod rules;
mod users;

use std::future::poll_fn;
use std::time::Duration;

use sluice_message::{FieldId, Status};
use sluice_model::nginx::AccessRules as Config;

use crate::state::NginxContext;
use sluice_pipeline::build::Builder;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::{Cause, Fault};
use sluice_pipeline::handler::{Account, Assumed, Handler, Step, Waiting};
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::settings::given;

use location::AskLocation;
use rules::{Rules, Ruling};
use users::PasswordFile;

/// The handler.
struct Access {
    rules: Rules,
    /// Checks other than addresses; most locations have none.
    more: Option<Box<More>>,
}

struct More {
    enough: Enough,
    basic: Option<PasswordFile>,
    request: Option<AskLocation>,
    /// Delay before a 401 response (`auth_delay`).
    delay: Option<Duration>,
}

/// How many of the checks have to allow the request (`satisfy`).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Enough {
    All,
    Any,
}

/// The result of one check.
enum Opinion {
    /// The check does not apply.
    None,
    /// The request is allowed.
    Allowed,
    /// The request is denied; with `satisfy any` another check may still allow it.
    Refused(Fault),
    /// The check itself failed.
    Failed(Fault),
}

/// Builds the handler.
pub fn build(config: &Config, builder: &Builder<'_>) -> Result<Box<dyn Handler>, Refusal> {
    let basic = config
        .basic
        .as_ref()
        .map(|file| PasswordFile::build(file, builder));
    let request = config
        .request
        .as_ref()
        .map(|asked| AskLocation::build(asked, builder));
    let more = More {
        enough: match config.any {
            true => Enough::Any,
            false => Enough::All,
        },
        basic: basic.transpose()?,
        request: request.transpose()?,
        delay: given(config.delay),
    };
    Ok(Box::new(Access {
        rules: Rules::build(&config.rules)?,
        more: (more.basic.is_some() || more.request.is_some()).then(|| Box::new(more)),
    }))
}

impl Handler for Access {
    fn serve(&self, exchange: &mut Exchange) -> Step {
        // A subrequest was authorized together with its parent request.
        if exchange.context.nginx().is_subrequest() {
            return Step::Next;
        }
        match (self.rules.rule(exchange), self.more.as_deref()) {
            (
                Ruling::Denied,
                None
                | Some(More {
                    enough: Enough::All,
                    ..
                }),
            ) => Step::Fail(forbidden()),
            (
                Ruling::Allowed,
                Some(More {
                    enough: Enough::Any,
                    ..
                }),
            ) => Step::Next,
            (_, None) => Step::Next,
            (ruling, Some(more)) => more.at_once(exchange, ruling),
        }
    }

    fn wait<'a>(&'a self, exchange: &'a mut Exchange) -> Waiting<'a> {
        Box::pin(async move {
            let ruling = self.rules.rule(exchange);
            match &self.more {
                Some(more) => more.ask(exchange, ruling).await,
                None => Step::Next,
            }
        })
    }

    fn account(&self, exchange: &mut Exchange) -> Account {
        let Some(more) = &self.more else {
            return Account::default();
        };
        let mut says = Vec::new();
        if let Some(basic) = &more.basic {
            says.extend(basic.account(exchange));
        }
        if let Some(request) = &more.request {
            says.push(request.account());
        }
        let ruling = self.rules.rule(exchange);
        let step = match (ruling, more.enough) {
            (Ruling::Denied, Enough::All) => Step::Fail(forbidden()),
            _ => Step::Next,
        };
        Account {
            says,
            assumed: Some(Assumed::Step(step)),
        }
    }
}

impl More {
    /// Decides without awaiting; `Step::Later` if that is not possible.
    fn at_once(&self, exchange: &mut Exchange, ruling: Ruling) -> Step {
        if self.request.is_some() {
            return Step::Later;
        }
        let Some(opinion) = self
            .basic
            .as_ref()
            .and_then(|basic| basic.at_once(exchange))
        else {
            return Step::Later;
        };
        let mut refusal = refusal_of(ruling);
        match self.weigh(exchange, opinion, &mut refusal) {
            Some(step) => self.unless_delayed(step),
            None => match refusal {
                Some(fault) => self.unless_delayed(Step::Fail(fault)),
                None => Step::Next,
            },
        }
    }

    /// Turns a 401 that `auth_delay` applies to into `Step::Later`.
    fn unless_delayed(&self, step: Step) -> Step {
        match &step {
            Step::Fail(fault) if fault.status == Status::UNAUTHORIZED && self.delay.is_some() => {
                Step::Later
            }
            _ => step,
        }
    }

    async fn ask(&self, exchange: &mut Exchange, ruling: Ruling) -> Step {
        let mut refusal = refusal_of(ruling);
        if let Some(basic) = &self.basic {
            let opinion = match basic.at_once(exchange) {
                Some(opinion) => opinion,
                None => basic.check(exchange).await,
            };
            if let Some(step) = self.weigh(exchange, opinion, &mut refusal) {
                return self.held_back(exchange, step).await;
            }
        }
        if let Some(request) = &self.request {
            let opinion = request.ask(exchange).await;
            if let Some(step) = self.weigh(exchange, opinion, &mut refusal) {
                return self.held_back(exchange, step).await;
            }
        }
        match refusal {
            Some(fault) => self.held_back(exchange, Step::Fail(fault)).await,
            None => Step::Next,
        }
    }

    /// Takes a check's result into account; returns a step if the decision is final.
    fn weigh(
        &self,
        exchange: &mut Exchange,
        opinion: Opinion,
        refusal: &mut Option<Fault>,
    ) -> Option<Step> {
        match (opinion, self.enough) {
            (Opinion::Failed(fault), _) | (Opinion::Refused(fault), Enough::All) => {
                Some(Step::Fail(fault))
            }
            (Opinion::Allowed, Enough::Any) => {
                exchange.res.fields.remove(FieldId::WwwAuthenticate);
                Some(Step::Next)
            }
            (Opinion::Refused(fault), Enough::Any) => {
                // A 401 wins over other refusals, so that the client learns that it can log in.
                let asks = |known: &Fault| known.status == Status::UNAUTHORIZED;
                if !refusal.as_ref().is_some_and(asks) {
                    *refusal = Some(fault);
                }
                None
            }
            (Opinion::None, _) | (Opinion::Allowed, Enough::All) => None,
        }
    }

    /// Delays a 401, so that guessing passwords is slow and response times reveal nothing.
    async fn held_back(&self, exchange: &Exchange, step: Step) -> Step {
        let is_unauthorized =
            matches!(&step, Step::Fail(fault) if fault.status == Status::UNAUTHORIZED);
        if let Some(delay) = self.delay.filter(|_| is_unauthorized) {
            let timer = exchange.worker.timers.timer();
            // Measure from now: the worker's cached clock may be behind.
            exchange.worker.clock.tick();
            timer.set(&exchange.worker.clock, delay);
            poll_fn(|cx| timer.poll_expired(cx)).await;
        }
        step
    }
}

fn forbidden() -> Fault {
    Fault::new(Status::FORBIDDEN, "access forbidden by rule").caused_by(Cause::Error)
}

fn refusal_of(ruling: Ruling) -> Option<Fault> {
    (ruling == Ruling::Denied).then(forbidden)
}
