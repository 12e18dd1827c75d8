//! The directives: each file has the definition of a directive, or of a few that go together, and lowers it.

mod acme_server;
mod basic_auth;
pub(super) mod bind;
pub(super) mod cache;
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
mod overload;
mod php_fastcgi;
mod push;
mod python;
mod rate_limit;
mod redir;
mod request_body;
mod respond;
mod reverse_proxy;
mod rewrite;
mod root;
mod templates;
mod timeouts;
mod tls;
mod tracing;
mod try_files;
mod uri;
mod vars;

use sluice_diag::closest;
use sluice_model::Handler;

use super::Lowering;
use super::definition::{Block, Definition, Verdict};
use super::outcome::{Ordered, Outcome, Outcomes};
use super::routes::route;
use crate::registry::old_names::old_name;
use crate::registry::plugins::plugin_word;
use crate::tree::{Directive, Quote, Token};

/// The directives that handle requests, in the order in which they run unless the option `order` changes it. It is Caddy's
/// order; `cache` is placed where the documentation of its plugin says, so that its keys have the target as it was sent; `rate_limit`,
/// `in_flight` and `overload` are placed where the `rate_limit` plugin recommends, before password hashing, and
/// `python` where Caddy Snake registers it.
pub(crate) static IN_ORDER: &[&Definition] = &[
    &tracing::TRACING,
    &map::MAP,
    &vars::VARS,
    &root::FS,
    &root::ROOT,
    &log::LOG_APPEND,
    &log::SKIP_LOG,
    &log::LOG_SKIP,
    &log::LOG_NAME,
    &log::LOG_LEVEL,
    &headers::HEADER,
    &copy_response::COPY_RESPONSE_HEADERS,
    &request_body::REQUEST_BODY,
    &timeouts::TIMEOUTS,
    &redir::REDIR,
    &rewrite::METHOD,
    &cache::CACHE,
    &rewrite::REWRITE,
    &uri::URI,
    &try_files::TRY_FILES,
    &rate_limit::RATE_LIMIT,
    &in_flight::IN_FLIGHT,
    &overload::OVERLOAD,
    &basic_auth::BASICAUTH,
    &basic_auth::BASIC_AUTH,
    &forward_auth::FORWARD_AUTH,
    &headers::REQUEST_HEADER,
    &encode::ENCODE,
    &push::PUSH,
    &intercept::INTERCEPT,
    &templates::TEMPLATES,
    &invoke::INVOKE,
    &handle::HANDLE,
    &handle::HANDLE_PATH,
    &python::PYTHON,
    &handle::ROUTE,
    &respond::ABORT,
    &error::ERROR,
    &copy_response::COPY_RESPONSE,
    &respond::RESPOND,
    &metrics::METRICS,
    &reverse_proxy::REVERSE_PROXY,
    &php_fastcgi::PHP_FASTCGI,
    &file_server::FILE_SERVER,
    &acme_server::ACME_SERVER,
];

/// The directives that have no place in the order: they set something of the site, or are refused.
pub(crate) static UNORDERED: &[&Definition] = &[
    &bind::BIND,
    &handle_errors::HANDLE_ERRORS,
    &log::LOG_DIRECTIVE,
    &tls::TLS,
];

fn all() -> impl Iterator<Item = &'static Definition> {
    IN_ORDER.iter().chain(UNORDERED).copied()
}

/// The directive with this name.
pub(crate) fn find(name: &str) -> Option<&'static Definition> {
    all().find(|known| known.entry.name == name)
}

/// All directives, sorted by name.
pub(crate) fn by_name() -> impl Iterator<Item = &'static Definition> {
    let mut all: Vec<_> = all().collect();
    all.sort_unstable_by_key(|known| known.entry.name);
    all.into_iter()
}

/// The directive that has an option of this name, if only one has.
fn owner_of(name: &str) -> Option<&'static str> {
    let owns = |known: &&Definition| match known.entry.block {
        Block::Options(table) => table.find(name).is_some(),
        Block::Free | Block::Directives | Block::Modules(_) | Block::ModuleLines(_) => false,
    };
    let mut owners = all().filter(owns).map(|known| known.entry.name);
    match (owners.next(), owners.next()) {
        (Some(only), None) => Some(only),
        _ => None,
    }
}

impl Lowering<'_> {
    /// Lowers one directive.
    pub(super) fn directive(&mut self, line: &Directive) -> Option<Vec<Ordered>> {
        let name = line.name.text.as_str();
        let Some(definition) = find(name) else {
            return self.unknown_directive(line);
        };
        let verdict = definition.entry.verdict;
        if let Some(refused) = verdict.refused() {
            let title = format!("directive `{name}` is not supported");
            let diagnostic = line.name.error("unsupported-directive", title, refused.why);
            return self.refuse(diagnostic.help(refused.instead));
        }
        if let Verdict::Renamed(new) = verdict {
            let title = format!("directive `{name}` has a new name");
            let diagnostic = line.name.warning("deprecated-directive", title, "old name");
            self.report.push(diagnostic.help(format!("write `{new}`")));
        }
        let place = std::mem::replace(&mut self.place, definition);
        self.subject.clone_from(&line.name.text);
        let outcomes = (definition.lower)(self, line).map(|mut outcomes| {
            self.note_origin(line, &mut outcomes);
            outcomes
        });
        self.place = place;
        let ordered = |outcome| Ordered {
            directive: definition.sorted_as.to_string(),
            outcome,
        };
        Some(outcomes?.into_iter().map(ordered).collect())
    }

    fn unknown_directive<T>(&mut self, line: &Directive) -> Option<T> {
        let name = line.name.text.as_str();
        if let Some(word) = plugin_word(name) {
            let title = format!("directive `{name}` is not built in");
            return self.refuse_plugin_word(&line.name, "unsupported-directive", title, word);
        }
        let known = by_name().map(|known| known.entry.name);
        let mut diagnostic = line
            .name
            .error(
                "unknown-directive",
                format!("unknown directive `{name}`"),
                "not a directive",
            )
            .did_you_mean(closest(name, known));
        if let Some(help) = old_name(name) {
            diagnostic = diagnostic.help(help);
        } else if let Some(owner) = owner_of(name) {
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

/// A word as JSON has it: a number or a boolean where it looks like one and has no quotes. Numbers and booleans are
/// those of Go's `strconv`, but for hexadecimal ones and infinity.
pub(super) fn scalar(word: &Token) -> serde_json::Value {
    let text = word.text.as_str();
    if word.quote != Quote::None {
        return text.into();
    }
    if let Ok(number) = text.parse::<i64>() {
        return number.into();
    }
    match (text, float(text)) {
        ("true" | "TRUE" | "True" | "t" | "T", _) => true.into(),
        ("false" | "FALSE" | "False" | "f" | "F", _) => false.into(),
        // A whole number is written as one.
        (_, Some(number)) if number.fract() == 0.0 && number.abs() < EXACT_MAX => {
            (number as i64).into()
        }
        (_, Some(number)) => number.into(),
        (_, None) => text.into(),
    }
}

/// Whole numbers below are exact as floating-point numbers.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// A finite decimal number, in which single underscores may separate digits.
fn float(text: &str) -> Option<f64> {
    let bytes = text.as_bytes();
    let is_digit = |at: Option<usize>| {
        at.and_then(|at| bytes.get(at))
            .is_some_and(u8::is_ascii_digit)
    };
    let mut underscores = (0..bytes.len()).filter(|at| bytes[*at] == b'_');
    if !underscores.all(|at| is_digit(at.checked_sub(1)) && is_digit(Some(at + 1))) {
        return None;
    }
    let number = text.replace('_', "").parse::<f64>().ok()?;
    number.is_finite().then_some(number)
}
