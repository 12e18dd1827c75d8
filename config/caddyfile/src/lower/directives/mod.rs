//! One function for every directive, and the table that finds it.

mod acme_server;
mod basic_auth;
pub(super) mod bind;
mod copy_response;
mod encode;
mod error;
mod file_server;
mod forward_auth;
mod handle;
mod handle_errors;
mod headers;
mod in_flight;
mod intercept;
mod invoke;
mod log;
mod map;
mod metrics;
mod php_fastcgi;
mod push;
mod rate_limit;
mod redir;
mod request_body;
mod respond;
mod reverse_proxy;
mod rewrite;
mod root;
mod templates;
mod tls;
mod tracing;
mod try_files;
mod uri;
mod vars;

use sluice_diag::closest;
use sluice_model::Handler;

use super::Lowering;
use super::outcome::{Ordered, Outcome};
use super::routes::route;
use crate::registry::{self, Verdict};
use crate::tree::{Directive, Token};

/// What a directive amounts to; nothing when it was refused.
type Outcomes = Option<Vec<Outcome>>;

impl Lowering<'_> {
    /// Lowers one directive.
    pub(super) fn directive(&mut self, line: &Directive) -> Option<Vec<Ordered>> {
        let name = line.name.text.as_str();
        let Some(entry) = registry::directive(name) else {
            return self.unknown_directive(line);
        };
        if let Some(refused) = entry.verdict.refused() {
            let title = format!("directive `{name}` is not supported");
            let diagnostic = line.name.error("unsupported-directive", title, refused.why);
            return self.refuse(diagnostic.help(refused.instead));
        }
        if let Verdict::Renamed(new) = entry.verdict {
            let title = format!("directive `{name}` has a new name");
            let diagnostic = line.name.warning("deprecated-directive", title, "old name");
            self.report.push(diagnostic.help(format!("write `{new}`")));
        }
        let place = std::mem::replace(&mut self.place, entry.name);
        self.subject.clone_from(&line.name.text);
        let outcomes = self.dispatch(name, line).map(|mut outcomes| {
            self.note_origin(line, &mut outcomes);
            outcomes
        });
        self.place = place;
        // `handle_path` is sorted and grouped as the `handle` that it is.
        let directive = if name == "handle_path" {
            "handle"
        } else {
            name
        };
        let ordered = |outcome| Ordered {
            directive: directive.to_string(),
            outcome,
        };
        Some(outcomes?.into_iter().map(ordered).collect())
    }

    fn dispatch(&mut self, name: &str, line: &Directive) -> Outcomes {
        match name {
            "abort" => self.abort(line),
            "acme_server" => self.acme_server(line),
            "basic_auth" | "basicauth" => self.basic_auth(line),
            "bind" => self.bind(line),
            "copy_response" => self.copy_response(line),
            "copy_response_headers" => self.copy_response_headers(line),
            "encode" => self.encode(line),
            "error" => self.error(line),
            "file_server" => self.file_server(line),
            "forward_auth" => self.forward_auth(line),
            "fs" => self.fs(line),
            "handle" => self.handle(line),
            "handle_errors" => self.handle_errors(line),
            "handle_path" => self.handle_path(line),
            "header" => self.header(line),
            "in_flight" => self.in_flight(line),
            "intercept" => self.intercept(line),
            "invoke" => self.invoke(line),
            "log" => self.log(line),
            "log_append" => self.log_append(line),
            "log_name" => self.log_name(line),
            "log_skip" | "skip_log" => self.log_skip(line),
            "map" => self.map(line),
            "method" => self.method(line),
            "metrics" => self.metrics(line),
            "php_fastcgi" => self.php_fastcgi(line),
            "push" => self.push(line),
            "rate_limit" => self.rate_limit(line),
            "redir" => self.redir(line),
            "request_body" => self.request_body(line),
            "request_header" => self.request_header(line),
            "respond" => self.respond(line),
            "reverse_proxy" => self.reverse_proxy(line),
            "rewrite" => self.rewrite(line),
            "root" => self.root(line),
            "route" => self.route(line),
            "templates" => self.templates(line),
            "tls" => self.tls(line),
            "tracing" => self.tracing(line),
            "try_files" => self.try_files(line),
            "uri" => self.uri(line),
            "vars" => self.vars(line),
            _ => self.unknown_directive(line),
        }
    }

    fn unknown_directive<T>(&mut self, line: &Directive) -> Option<T> {
        let name = line.name.text.as_str();
        let known = registry::DIRECTIVES.iter().map(|entry| entry.name);
        let mut diagnostic = line
            .name
            .error(
                "unknown-directive",
                format!("unknown directive `{name}`"),
                "not a directive",
            )
            .did_you_mean(closest(name, known));
        if let Some(help) = registry::old_name(name) {
            diagnostic = diagnostic.help(help);
        } else if let Some(owner) = registry::owner_of(name) {
            diagnostic = diagnostic.help(format!("`{name}` is an option of `{owner}`"));
        }
        self.refuse(diagnostic)
    }

    /// The one route of a directive that is a handler behind an optional matcher.
    fn handler<'t>(
        &mut self,
        line: &'t Directive,
        read: impl FnOnce(&mut Self, &'t [Token]) -> Option<Handler>,
    ) -> Outcomes {
        let (matcher, args) = self.matched(line)?;
        let handler = read(self, args)?;
        Some(vec![Outcome::Route(route(matcher, handler))])
    }
}

/// A text as JSON has it: a number or a boolean where it looks like one.
pub(super) fn scalar(text: &str) -> serde_json::Value {
    if let Ok(number) = text.parse::<i64>() {
        return number.into();
    }
    let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
    match (text, number(text)) {
        ("true", _) => true.into(),
        ("false", _) => false.into(),
        (_, Some(number)) => number.into(),
        (_, None) => text.into(),
    }
}
