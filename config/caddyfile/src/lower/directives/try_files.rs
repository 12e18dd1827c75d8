//! `try_files`: rewrites to the first file that exists.

use sluice_model::handler::Rewrite;
use sluice_model::matcher::FileMatcher;
use sluice_model::{Matcher, MatcherSet, Route};

use super::Outcomes;
use super::rewrite::rewrite_handler;
use crate::lower::Lowering;
use crate::lower::outcome::Outcome;
use crate::lower::routes::route;
use crate::tree::Directive;

impl Lowering<'_> {
    pub(super) fn try_files(&mut self, line: &Directive) -> Outcomes {
        self.between(line, &line.args, 1, usize::MAX)?;
        let mut policy = String::new();
        self.each(line.lines(), |this, option| {
            match option.name.text.as_str() {
                "policy" => policy = this.try_policy(option)?,
                _ => return this.unknown_option(option),
            }
            Some(())
        })?;
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
