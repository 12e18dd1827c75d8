//! `try_files`: rewrites to the first file that exists.

use sluice_model::handler::Rewrite;
use sluice_model::matcher::FileMatcher;
use sluice_model::{Matcher, MatcherSet, Route};

use super::rewrite::rewrite_handler;
use crate::lower::Lowering;
use crate::lower::definition::Read::Choice;
use crate::lower::definition::{Definition, Options, directive, option};
use crate::lower::matchers::TRY_POLICIES;
use crate::lower::outcome::{Outcome, Outcomes};
use crate::lower::routes::route;
use crate::tree::Directive;

/// `try_files`.
pub(super) static TRY_FILES: Definition =
    directive("try_files", "try_files <files...> [{ … }]", |cx, line| {
        cx.try_files(line)
    })
    .with(&OPTIONS);

static OPTIONS: Options<String> = Options::new(
    "try_files",
    &[option(
        "policy",
        "policy first_exist|first_exist_fallback|smallest_size|largest_size|most_recently_modified",
        Choice(&TRY_POLICIES, |policy| policy),
    )],
);

impl Lowering<'_> {
    fn try_files(&mut self, line: &Directive) -> Outcomes {
        self.between(line, &line.args, 1, usize::MAX)?;
        let mut policy = String::new();
        self.read_options(&OPTIONS, line.lines(), &mut policy)?;
        // A candidate with a query needs a rewrite of its own.
        let mut routes = Vec::new();
        let mut candidates: Vec<String> = Vec::new();
        for word in &line.args {
            match word.text.find('?') {
                Some(at) => {
                    if !candidates.is_empty() {
                        routes.push(try_route(std::mem::take(&mut candidates), "", &policy));
                    }
                    let (path, query) = word.text.split_at(at);
                    routes.push(try_route(vec![path.to_string()], query, &policy));
                }
                None => candidates.push(word.text.clone()),
            }
        }
        if !candidates.is_empty() {
            routes.push(try_route(candidates, "", &policy));
        }
        if routes.len() > 1 {
            let group = self.draw_group();
            for route in &mut routes {
                route.group.clone_from(&group);
            }
        }
        Some(routes.into_iter().map(Outcome::Route).collect())
    }
}

/// A route that rewrites to the first of some files.
fn try_route(try_files: Vec<String>, query: &str, policy: &str) -> Route {
    let try_policy = policy.to_string();
    let file = FileMatcher {
        try_files,
        try_policy,
        ..FileMatcher::default()
    };
    let uri = format!("{{http.matchers.file.relative}}{query}");
    let rewrite = Rewrite {
        uri,
        ..Rewrite::default()
    };
    route(
        vec![MatcherSet::of(Matcher::File(file))],
        rewrite_handler(rewrite),
    )
}
