//! Regular expressions of nginx.conf. The request stores their groups: numbered ones until the next match, named
//! ones as variables. As in nginx, the caller decides what happens if a match exceeds its limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sluice_message::Status;
use sluice_route::pcre;
use sluice_route::placeholder::nginx::variable_name;

use sluice_observe::Recorder;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::Fault;
use sluice_pipeline::refusal::Refusal;

pub use sluice_route::pcre::Case;

/// A compiled pattern with the names of its groups.
#[derive(Debug)]
pub struct Pattern {
    pattern: pcre::Pattern,
    text: Box<str>,
    /// The directive that contains it, for the log.
    directive: &'static str,
    /// Named groups by number.
    pub(super) named: Vec<(u8, Arc<str>)>,
    /// Only for patterns that can exceed the match limit.
    limited: Option<Box<Limited>>,
}

/// State of a pattern that can exceed the match limit.
#[derive(Debug)]
struct Limited {
    recorder: Option<Arc<Recorder>>,
    /// Whether that was logged. Once is enough: each failed request is logged anyway.
    is_logged: AtomicBool,
}

impl Pattern {
    /// Compiles a pattern of this directive; `recorder` counts matches that exceed the limit.
    pub fn new(
        directive: &'static str,
        text: &str,
        case: Case,
        recorder: Option<&Arc<Recorder>>,
    ) -> Result<Pattern, Refusal> {
        let pattern = pcre::Pattern::new(text, case).map_err(|error| {
            let at = error.at + 1;
            Refusal::new(format!("pattern `{text}`, at character {at}: {error}"))
        })?;
        let named = pattern.names().filter_map(|(name, number)| {
            let name = variable_name(&name.to_ascii_lowercase());
            Some((u8::try_from(number).ok()?, name.into()))
        });
        let limited = (!pattern.is_linear()).then(|| {
            Box::new(Limited {
                recorder: recorder.cloned(),
                is_logged: AtomicBool::new(false),
            })
        });
        Ok(Pattern {
            named: named.collect(),
            limited,
            pattern,
            directive,
            text: text.into(),
        })
    }

    /// The number of groups.
    pub fn groups_count(&self) -> usize {
        self.pattern.groups_count()
    }

    /// The number of the group that sets this variable.
    pub fn group_of(&self, variable: &str) -> Option<usize> {
        let mut named = self.named.iter();
        let found = named.find(|(_, name)| **name == *variable);
        found.map(|(number, _)| usize::from(*number))
    }

    /// The source text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether `text` matches.
    pub fn is_match(&self, text: &[u8]) -> Result<bool, Fault> {
        self.pattern
            .is_match(text)
            .map_err(|pcre::Exhausted| self.given_up())
    }

    /// Whether `text` matches, and the positions of its groups, the whole match first.
    pub fn find(&self, text: &[u8], groups: &mut Vec<Option<(u32, u32)>>) -> Result<bool, Fault> {
        self.pattern
            .groups(text, groups)
            .map_err(|pcre::Exhausted| self.given_up())
    }

    /// Counts and logs a match that exceeded the limit.
    fn given_up(&self) -> Fault {
        let text = &*self.text;
        if let Some(limited) = &self.limited
            && let Some(recorder) = &limited.recorder
        {
            let count = &recorder.hub().patterns_given_up;
            count.fetch_add(1, Ordering::Relaxed);
            if !limited.is_logged.swap(true, Ordering::Relaxed) {
                let log = recorder.log();
                let entry = log.error(
                    "http.handlers.nginx",
                    "a pattern has too many ways to match",
                );
                let entry = entry.text("pattern", text);
                entry.text("directive", self.directive).send();
            }
        }
        let directive = self.directive;
        let why = format!("the pattern `{text}` of `{directive}` has too many ways to match");
        Fault::new(Status::INTERNAL_SERVER_ERROR, why)
    }
}

/// The result of a match where only a value is needed. One that exceeded the limit counts as no match, and makes
/// the request fail before a response is sent.
pub fn found_or_fails(exchange: &Exchange, found: Result<bool, Fault>) -> bool {
    found.unwrap_or_else(|_| {
        exchange.context.given_up.set(true);
        false
    })
}
