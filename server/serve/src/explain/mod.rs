//! Explains how a request would be handled, and why: which listener, site, route and line of the configuration apply,
//! what each handler changes, and why earlier routes did not match.
//!
//! Explanations do not use a second interpreter. The configuration is built as for serving, and the request takes the
//! walk of `pipeline` through the same compiled matchers and handlers. The walk is generic over an observer, so
//! requests that are served pay nothing for it. Explaining does not have side effects: no log lines, no metrics, no
//! connections. Handlers that would wait for another program are not called but return a [`sluice_pipeline::handler::Account`];
//! files are accessed as for a request.
//!
//! A step combines three sources: the origins recorded by the configuration format ([`Written`]) give the position in
//! the text, the model gives the configured conditions (`request_facts`), and comparing the exchange before and after gives the
//! effect (`changes`). The command line formats the [`report::Explanation`], which comes from a file or from a running
//! server.

mod ask;
mod changes;
pub mod report;
mod request_facts;
mod watch;

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use sluice_diag::{Written, shown};
use sluice_message::FieldId;
use sluice_model::Config;
use sluice_net::Body;

pub use ask::Question;

use crate::limits::BODY_SHOWN_BYTES_MAX;
use crate::site::{Rules, Site};
use report::{Explanation, Outcome};
use sluice_pipeline::build::{Listed, Slots};
use sluice_pipeline::context::Exchange;
use sluice_pipeline::refusal::Refusal;
use sluice_proxy::cache::Defaults;
use sluice_server_nginx::explained;
use sluice_tls as https;
use watch::Watcher;

/// The outcome if no handler produced a response.
const NOT_RESPONDED: &str = "no route responded";

/// The reason why a request cannot be explained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unexplained {
    /// The configuration cannot run.
    Refused(Vec<Refusal>),
    /// The request would not reach any server, or it is invalid.
    Invalid {
        /// The reason.
        problem: String,
        /// How to fix the question.
        help: String,
    },
}

impl fmt::Display for Unexplained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unexplained::Refused(refusals) => {
                let said: Vec<String> = refusals.iter().map(ToString::to_string).collect();
                f.write_str(&said.join("\n"))
            }
            Unexplained::Invalid { problem, help } if help.is_empty() => f.write_str(problem),
            Unexplained::Invalid { problem, help } => write!(f, "{problem}; {help}"),
        }
    }
}

impl std::error::Error for Unexplained {}

/// A configuration for explaining requests.
pub struct Explainer {
    config: Arc<Config>,
    config_files: Vec<String>,
    written: Option<Arc<Written>>,
    /// The running servers, by name; explanations include the state of their upstreams.
    sites: HashMap<String, Arc<Site>>,
}

impl Explainer {
    /// Explains with a configuration that is not running.
    pub fn offline(
        config: Arc<Config>,
        config_files: Vec<String>,
        written: Option<Arc<Written>>,
    ) -> Explainer {
        Explainer::running(config, config_files, written, HashMap::new())
    }

    /// Explains with a running configuration and the servers built from it.
    pub(crate) fn running(
        config: Arc<Config>,
        config_files: Vec<String>,
        written: Option<Arc<Written>>,
        sites: HashMap<String, Arc<Site>>,
    ) -> Explainer {
        Explainer {
            config,
            config_files,
            written,
            sites,
        }
    }

    /// Explains one request.
    pub fn explain(&self, question: &Question) -> Result<Explanation, Unexplained> {
        // Pretend that no certificates are loaded: they do not affect routes.
        let config = https::expand(&self.config, &BTreeSet::new()).config;
        let found = ask::find(&config, question)?;
        let place = format!("apps.http.servers.{}", found.listener.server);
        let shared = Slots::default();
        shared.set(Defaults::of(&config));
        let (built, listed) = Rules::build(found.server, &place, &self.config_files, &shared, None)
            .map_err(Unexplained::Refused)?;
        let site = self.sites.get(&found.listener.server);
        let rules = match site.map(|site| &site.rules) {
            // The same configuration yields the same lists, so the indices are valid.
            Some(rules) if rules.program.lists.len() == listed.len() => rules,
            Some(_) | None => &built,
        };
        let mut exchange = ask::exchange(&found, question)?;
        let mut explanation = Explanation {
            method: question.method.clone(),
            url: found.url.clone(),
            listener: found.listener.clone(),
            ..Explanation::default()
        };
        self.walk(rules, &listed, &mut exchange, &mut explanation);
        Ok(explanation)
    }

    fn walk(
        &self,
        rules: &Rules,
        listed: &[Listed<'_>],
        exchange: &mut Exchange,
        explanation: &mut Explanation,
    ) {
        Rules::prepare(exchange);
        explained::begin(exchange);
        if let Err(status) = rules.admit(exchange) {
            exchange.res.status = status;
            explanation.outcome = outcome(exchange, &Body::Empty);
            explanation.outcome.text =
                "the host is not the one that the TLS handshake was for".to_owned();
            return;
        }
        let mut watcher = Watcher::new(&rules.program, listed, self.written.as_deref());
        let body = rules.program.watched(exchange, &mut watcher);
        explanation.steps = watcher.steps;
        explanation.outcome = match (watcher.elsewhere, body) {
            (None, Some(body)) if watcher.has_response || exchange.context.error.is_some() => {
                outcome(exchange, &body)
            }
            (None, Some(body)) => Outcome {
                text: NOT_RESPONDED.to_owned(),
                ..outcome(exchange, &body)
            },
            (elsewhere, _) => Outcome {
                text: elsewhere.unwrap_or_default(),
                fields: fields(exchange),
                ..Outcome::default()
            },
        };
    }
}

fn fields(exchange: &Exchange) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let all = exchange.res.fields.iter();
    all.map(|field| (text(field.name), text(field.value)))
        .collect()
}

/// What the client receives.
fn outcome(exchange: &Exchange, body: &Body) -> Outcome {
    let mut outcome = Outcome {
        text: body_words(exchange, body),
        ..Outcome::default()
    };
    if matches!(body, Body::Abort) {
        return outcome;
    }
    outcome.status = exchange.res.status.code();
    outcome.reason = exchange.res.status.reason().to_owned();
    outcome.fields = fields(exchange);
    outcome.body_bytes = body.len(exchange.inline.len());
    let bytes = match body {
        Body::Inline => &exchange.inline[..],
        Body::Shared(slice) => slice.as_bytes(),
        Body::Empty | Body::File(_) | Body::Stream(_) | Body::Tunnel(_) | Body::Abort => &[],
    };
    let encoded = exchange.res.fields.has(FieldId::ContentEncoding);
    let begins = &bytes[..bytes.len().min(BODY_SHOWN_BYTES_MAX)];
    if let Ok(text) = std::str::from_utf8(begins)
        && !encoded
    {
        outcome.body_begins = text.to_owned();
    }
    outcome
}

/// Describes a response body in one line.
pub(crate) fn body_words(exchange: &Exchange, body: &Body) -> String {
    let status = format!(
        "{} {}",
        exchange.res.status.code(),
        exchange.res.status.reason()
    );
    let kind = exchange.res.fields.first(FieldId::ContentType);
    let kind = kind.map(|kind| format!(", {}", shown(&String::from_utf8_lossy(kind))));
    let kind = kind.unwrap_or_default();
    match body {
        Body::Abort => "closes the connection without a response".to_owned(),
        Body::Empty => format!("responds {status} without a body"),
        Body::Tunnel(_) => format!("responds {status} and becomes a tunnel"),
        Body::Inline | Body::Shared(_) | Body::File(_) | Body::Stream(_) => {
            match body.len(exchange.inline.len()) {
                Some(1) => format!("responds {status}{kind}, 1 byte"),
                Some(bytes) => format!("responds {status}{kind}, {bytes} bytes"),
                None => format!("responds {status}{kind}"),
            }
        }
    }
}
