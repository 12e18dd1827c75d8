//! The rewrite phase: `set`, `rewrite`, `return`, `if`, `break`. The tree then selects a location.

use std::sync::Arc;

use sluice_cache::Missing;
use sluice_message::{FieldId, Status};
use sluice_model::http::RouteOrigin;
use sluice_model::nginx::{
    Action as Config, Condition as ConditionConfig, ReturnResponse, RewriteTarget,
};
use sluice_net::Body;
use sluice_route::placeholder::nginx::variable_name;
use sluice_route::{Provenance, Template, UnfitPath};

use super::groups::{Case, Pattern};
use super::links::Links;
use super::state::{Search, set_status};
use super::{Tree, empty, explained, redirect, uri};
use crate::state::NginxContext;
use sluice_observe::log::Severity;
use sluice_pipeline::build::Builder;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::{Cause, Fault};
use sluice_pipeline::files;
use sluice_pipeline::handler::Step;
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::values::{expand, expand_path, expanded, expanded_traced, is_set};

/// One action of the phase and where it was written.
pub struct Line {
    action: Action,
    origin: RouteOrigin,
}

/// An action of the phase.
enum Action {
    /// Ends the phase without a new location lookup.
    Break,
    /// Sets a variable.
    Set(Arc<str>, Template),
    /// Sends the response with this index.
    Return(u32),
    /// Changes the target.
    Rewrite(Box<Change>),
    /// Runs more actions if the condition holds; the scope with this index is then in effect.
    If {
        condition: Box<Condition>,
        actions: Vec<Line>,
        branch: Option<u32>,
    },
}

/// The outcome of the phase.
pub enum Flow {
    /// All actions ran.
    On,
    /// The phase was ended by an action.
    End,
    /// Send the response with this index.
    Response(u32),
    /// The request fails.
    Fail(Fault),
}

/// A `rewrite`.
pub struct Change {
    pattern: Pattern,
    path: Template,
    query: Template,
    drops_query: bool,
    then: Then,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    GoOn,
    Last,
    Break,
    Redirect(Status),
}

/// The condition of an `if`.
pub struct Condition {
    subject: Template,
    test: Test,
    negated: bool,
    links: Links,
}

enum Test {
    IsSet,
    Equals(Template),
    Matches(Pattern),
    File,
    Directory,
    Exists,
    Executable,
}

/// The response of a `return`.
pub struct Response {
    status: u16,
    text: Option<Template>,
}

impl Tree {
    /// Runs actions in order.
    pub(super) fn run(&self, lines: &[Line], exchange: &mut Exchange) -> Flow {
        for line in lines {
            let origin = &line.origin;
            let flow = match &line.action {
                Action::Break => {
                    exchange.context.nginx_mut().target.end_search();
                    explained::note_effect(exchange, origin, |_| {
                        "no more is rewritten here".to_owned()
                    });
                    Flow::End
                }
                Action::Set(name, value) => {
                    let (text, provenance) = expanded_traced(value, exchange);
                    explained::note_effect(exchange, origin, |_| {
                        format!("the value is {}", explained::quoted(&text))
                    });
                    *exchange.context.vars.slot_from(name, provenance) = text;
                    Flow::On
                }
                Action::Return(response) => {
                    explained::note_effect(exchange, origin, |_| {
                        "the response, whatever the location".to_owned()
                    });
                    Flow::Response(*response)
                }
                Action::Rewrite(change) => change.apply(self, exchange, origin),
                Action::If {
                    condition,
                    actions,
                    branch,
                } => match condition.holds(self, exchange, origin) {
                    Err(fault) => Flow::Fail(fault),
                    Ok(true) => {
                        if let Some(place) = branch {
                            exchange.context.nginx_mut().place = *place;
                        }
                        self.run(actions, exchange)
                    }
                    Ok(false) => Flow::On,
                },
            };
            if !matches!(flow, Flow::On) {
                return flow;
            }
        }
        Flow::On
    }
}

/// Messages of `rewrite_log`.
impl Tree {
    fn log_rewrite(&self, exchange: &Exchange, what: impl FnOnce() -> String) {
        if self.place(exchange).logs_rewrites {
            self.log_error(exchange, Severity::Notice, &what(), "");
        }
    }

    fn log_match(&self, exchange: &Exchange, pattern: &Pattern, subject: &[u8], matches: bool) {
        self.log_rewrite(exchange, || {
            let verb = match matches {
                true => "matches",
                false => "does not match",
            };
            let (pattern, subject) = (pattern.as_str(), shown(subject));
            format!("\"{pattern}\" {verb} \"{subject}\"")
        });
    }
}

fn shown(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

impl Change {
    /// Describes the change for `explain`.
    fn words(&self, from: &[u8], to: &[u8]) -> String {
        let (from, to) = (explained::quoted(from), explained::quoted(to));
        let then = match self.then {
            Then::GoOn => "",
            Then::Break => ", and no more is rewritten",
            Then::Last | Then::Redirect(_) => ", and a location is chosen anew",
        };
        format!("{from} → {to}{then}")
    }

    /// The new query, followed by the one that was sent.
    fn new_query(&self, exchange: &Exchange) -> Vec<u8> {
        let mut query = expanded(&self.query, exchange);
        if !self.drops_query
            && let Some(before) = exchange.req.uri.query().filter(|before| !before.is_empty())
        {
            if !query.is_empty() {
                query.push(b'&');
            }
            query.extend_from_slice(before);
        }
        query
    }

    fn apply(&self, tree: &Tree, exchange: &mut Exchange, origin: &RouteOrigin) -> Flow {
        let path = exchange.req.uri.path().to_vec();
        let matches = match self.pattern.matches(exchange, &path, Provenance::Path) {
            Ok(matches) => matches,
            Err(fault) => return Flow::Fail(fault),
        };
        tree.log_match(exchange, &self.pattern, &path, matches);
        if !matches {
            explained::pass(exchange, origin, |_| {
                format!("{} does not match", explained::quoted(&path))
            });
            return Flow::On;
        }
        let is_redirect = matches!(self.then, Then::Redirect(_));
        let was_escaped = was_escaped(exchange);
        let captures = exchange.context.captures_mut();
        captures.set_escapes(is_redirect && was_escaped);
        let mut new = expanded(&self.path, exchange);
        exchange.context.captures_mut().set_escapes(was_escaped);
        let query = self.new_query(exchange);
        exchange.context.captures_mut().set_escapes(false);
        if let Then::Redirect(status) = self.then {
            if !query.is_empty() {
                new.push(b'?');
                new.extend_from_slice(&query);
            }
            tree.log_rewrite(exchange, || {
                format!("rewritten redirect: \"{}\"", shown(&new))
            });
            if !self.path.source().starts_with("//") {
                tree.place(exchange).naming.keep_here(&mut new);
            }
            explained::note_effect(exchange, origin, |_| {
                format!("{} is redirected", explained::quoted(&path))
            });
            return Flow::Fail(redirect::to(
                &tree.place(exchange).naming,
                exchange,
                status,
                new,
            ));
        }
        let mut clean = Vec::with_capacity(new.len());
        if new.is_empty() || uri::clean(&new, false, &mut clean).is_err() {
            let why = "a rewrite gives a path that leads nowhere";
            return Flow::Fail(Fault::new(Status::INTERNAL_SERVER_ERROR, why));
        }
        exchange.req.uri.set_path(&clean);
        exchange
            .req
            .uri
            .set_query((!query.is_empty()).then_some(&query));
        tree.log_rewrite(exchange, || {
            let (path, args) = (shown(&clean), shown(&query));
            format!("rewritten data: \"{path}\", args: \"{args}\"")
        });
        explained::note_effect(exchange, origin, |exchange| {
            self.words(&path, exchange.req.uri.as_bytes())
        });
        let state = exchange.context.nginx_mut();
        state.is_internal = true;
        match self.then {
            Then::Break => state.target.rewrite_finally(),
            Then::GoOn | Then::Last | Then::Redirect(_) => state.target.rewrite(Search::Due),
        }
        match self.then {
            Then::GoOn => Flow::On,
            Then::Last | Then::Break | Then::Redirect(_) => Flow::End,
        }
    }
}

/// Whether the path was sent percent-encoded: only then are groups escaped when they become part of a query.
fn was_escaped(exchange: &Exchange) -> bool {
    let sent = super::variables::sent(exchange)
        .split(|byte| *byte == b'?')
        .next();
    sent.is_some_and(|path| memchr::memchr2(b'%', b'+', path).is_some())
}

impl Condition {
    fn holds(
        &self,
        tree: &Tree,
        exchange: &mut Exchange,
        origin: &RouteOrigin,
    ) -> Result<bool, Fault> {
        let (subject, provenance) = expanded_traced(&self.subject, exchange);
        let now = exchange.worker.clock.coarse();
        let facts =
            |exchange: &Exchange| match expand_path(&self.subject, exchange, &mut Vec::new()) {
                Ok(()) => files::facts(&subject, self.links.access(exchange, &subject), now),
                Err(UnfitPath) => Err(Missing::Impossible),
            };
        let is = |exchange: &Exchange, kind| facts(exchange).is_ok_and(|facts| facts.kind == kind);
        let holds = match &self.test {
            Test::IsSet => is_set(&subject),
            Test::Equals(text) => expanded(text, exchange) == subject,
            Test::Matches(pattern) => {
                let from = match provenance {
                    Provenance::Configured | Provenance::Path => Provenance::Path,
                    Provenance::Name | Provenance::Unfit => Provenance::Name,
                };
                let matches = pattern.matches(exchange, &subject, from)?;
                tree.log_match(exchange, pattern, &subject, matches);
                matches
            }
            Test::File => is(exchange, sluice_cache::Kind::File),
            Test::Directory => is(exchange, sluice_cache::Kind::Directory),
            Test::Exists => facts(exchange).is_ok(),
            Test::Executable => facts(exchange).is_ok_and(|facts| facts.mode & 0o111 != 0),
        };
        let holds = holds != self.negated;
        let text = |_: &Exchange| {
            let is = if holds { "holds" } else { "does not hold" };
            format!("it {is} for {}", explained::quoted(&subject))
        };
        match holds {
            true => explained::note_effect(exchange, origin, text),
            false => explained::pass(exchange, origin, text),
        }
        Ok(holds)
    }
}

impl Response {
    /// Sends the response.
    pub(super) fn give(&self, tree: &Tree, exchange: &mut Exchange) -> Step {
        if self.status == CLOSE {
            // The connection is closed without a response; the status is only logged.
            exchange.res.status = Status::new(CLOSE).unwrap_or(exchange.res.status);
            return Step::Done(Body::Abort);
        }
        // Statuses were validated during the build.
        let status = Status::new(self.status).unwrap_or(Status::INTERNAL_SERVER_ERROR);
        match &self.text {
            Some(text) if redirect::is_redirect(self.status) => {
                let mut target = expanded(text, exchange);
                if !text.source().starts_with("//") {
                    tree.place(exchange).naming.keep_here(&mut target);
                }
                Step::Fail(redirect::to(
                    &tree.place(exchange).naming,
                    exchange,
                    status,
                    target,
                ))
            }
            None if self.status >= 300 => {
                let fault = Fault::new(status, "`return` of the configuration");
                Step::Fail(fault.caused_by(Cause::Configured))
            }
            None => {
                if status != Status::NO_CONTENT {
                    add_type(tree, exchange);
                }
                empty(exchange, status)
            }
            Some(text) => {
                let mut body = std::mem::take(&mut exchange.inline);
                body.clear();
                expand(text, exchange, &mut body);
                exchange.inline = body;
                exchange.res.status = status;
                add_type(tree, exchange);
                set_status(exchange);
                Step::Done(Body::Inline)
            }
        }
    }
}

/// Sets the `Content-Type` by the extension of the path.
pub(super) fn add_type(tree: &Tree, exchange: &mut Exchange) {
    if !exchange.res.fields.has(FieldId::ContentType)
        && let Some(field) = tree.place(exchange).types.of(exchange.req.uri.path())
    {
        exchange.res.fields.push_fixed(field);
    }
}

/// nginx's status for closing the connection without a response.
const CLOSE: u16 = 444;

/// Compiles actions; `branches` are the indexes of the scopes that `if` blocks open.
pub fn build(
    configs: &[Config],
    branches: &[u32],
    responses: &mut Vec<Response>,
    builder: &Builder<'_>,
) -> Result<Vec<Line>, Refusal> {
    let mut actions = Vec::with_capacity(configs.len());
    for config in configs {
        let (action, origin) = match config {
            Config::Break(nothing) => (Action::Break, &nothing.origin),
            Config::Set(set) => {
                let name = variable_name(&set.variable).into();
                (
                    Action::Set(name, builder.template(&set.value)?),
                    &set.origin,
                )
            }
            Config::Return(config) => {
                responses.push(response(config, builder)?);
                let number = super::number(responses.len() - 1);
                (Action::Return(number), &config.origin)
            }
            Config::Rewrite(config) => {
                let change = change(config, builder)?;
                (Action::Rewrite(Box::new(change)), &config.origin)
            }
            Config::If(config) => {
                let action = Action::If {
                    condition: Box::new(condition(&config.condition, builder)?),
                    actions: build(&config.actions, branches, responses, builder)?,
                    branch: match config.branch {
                        None => None,
                        Some(index) => Some(*branches.get(index as usize).ok_or_else(|| {
                            Refusal::new("an `if` names a place that is not there")
                        })?),
                    },
                };
                (action, &config.origin)
            }
            Config::Other(_) => {
                return Err(Refusal::new(format!(
                    "unknown action `{}`",
                    config.module()
                )));
            }
        };
        actions.push(Line {
            action,
            origin: origin.clone(),
        });
    }
    Ok(actions)
}

fn response(config: &ReturnResponse, builder: &Builder<'_>) -> Result<Response, Refusal> {
    if !(100..=999).contains(&config.status) {
        return Err(Refusal::new(format!("`return {}`", config.status))
            .with_help("a status has three digits"));
    }
    let text = config.text.as_ref().map(|text| builder.template(text));
    Ok(Response {
        status: config.status,
        text: text.transpose()?,
    })
}

fn change(config: &RewriteTarget, builder: &Builder<'_>) -> Result<Change, Refusal> {
    let then = match config.then.as_str() {
        "" => Then::GoOn,
        "last" => Then::Last,
        "break" => Then::Break,
        "301" => Then::Redirect(Status::MOVED_PERMANENTLY),
        "302" => Then::Redirect(Status::FOUND),
        other => {
            return Err(Refusal::new(format!(
                "`{other}` is nothing that a `rewrite` does"
            )));
        }
    };
    Ok(Change {
        pattern: Pattern::new("rewrite", &config.pattern, Case::Kept, builder.recorder)?,
        path: builder.template(&config.path)?,
        query: builder.template(&config.query)?,
        drops_query: config.drops_query,
        then,
    })
}

fn condition(config: &ConditionConfig, builder: &Builder<'_>) -> Result<Condition, Refusal> {
    let test = match config.test.as_str() {
        "is set" => Test::IsSet,
        "=" => Test::Equals(builder.template(&config.with)?),
        "~" => Test::Matches(Pattern::new(
            "if",
            &config.with,
            Case::Kept,
            builder.recorder,
        )?),
        "~*" => Test::Matches(Pattern::new(
            "if",
            &config.with,
            Case::Folded,
            builder.recorder,
        )?),
        "file" => Test::File,
        "directory" => Test::Directory,
        "exists" => Test::Exists,
        "executable" => Test::Executable,
        other => {
            return Err(Refusal::new(format!(
                "`{other}` is not a condition of an `if`"
            )));
        }
    };
    Ok(Condition {
        subject: builder.template(&config.subject)?,
        test,
        negated: config.negated,
        links: Links::build(&config.links, builder)?,
    })
}
