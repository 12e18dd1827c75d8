//! Turns the results of directives into a list of routes: sorted, grouped and merged.

use std::cmp::Reverse;

use sluice_model::handler::Subroute;
use sluice_model::{Handler, Matcher, MatcherSet, Route};

use super::Lowering;
use super::definition::Definition;
use super::outcome::{Ordered, Outcome};
use crate::tree::Directive;

/// The order in which directives run, first to last.
#[derive(Clone, Debug)]
pub(super) struct DirectiveOrder(pub(super) Vec<String>);

impl DirectiveOrder {
    /// The order of a list of definitions.
    pub(super) fn of(definitions: &[&Definition]) -> DirectiveOrder {
        let names = definitions.iter().map(|known| known.entry.name);
        DirectiveOrder(names.map(str::to_string).collect())
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|other| other == name)
    }
}

/// Whether a block keeps the order it is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sorting {
    /// As `route`: in the order written.
    AsWritten,
    /// By the directive order and the matchers.
    ByOrder,
}

/// A route without matchers for one handler.
pub(super) fn route(r#match: Vec<MatcherSet>, handler: Handler) -> Route {
    Route {
        r#match,
        handle: vec![handler],
        ..Route::default()
    }
}

/// A handler for routes within a route.
pub(super) fn subroute(routes: Vec<Route>) -> Handler {
    Handler::Subroute(Subroute {
        routes,
        errors: None,
    })
}

/// Directives of which only the first match is taken, in the order their groups are drawn.
const EXCLUSIVE: [&str; 3] = ["handle", "rewrite", "root"];

impl Lowering<'_> {
    /// Lowers the lines of a nested block to routes.
    pub(super) fn block_routes(&mut self, lines: &[Directive], sorting: Sorting) -> Vec<Route> {
        self.enter_scope(lines);
        let mut ordered = Vec::new();
        for line in lines.iter().filter(|line| !line.name.text.starts_with('@')) {
            for found in self.directive(line).unwrap_or_default() {
                if let Some(what) = outside_routes(&found.outcome) {
                    self.not_in_routes(line, what);
                    continue;
                }
                ordered.push(found);
            }
        }
        self.leave_scope();
        self.build_routes(ordered, sorting)
    }

    fn not_in_routes(&mut self, line: &Directive, what: &str) {
        let name = &line.name.text;
        self.report.push(
            line.name
                .error(
                    "misplaced-directive",
                    format!("`{name}` is not allowed inside another directive"),
                    "only allowed at the top of a site",
                )
                .help(format!(
                    "move `{name}` to the top of the site: it sets {what} of the site"
                )),
        );
    }

    /// Sorts, groups and joins routes.
    pub(super) fn build_routes(
        &mut self,
        mut results: Vec<Ordered>,
        sorting: Sorting,
    ) -> Vec<Route> {
        if sorting == Sorting::ByOrder {
            results.sort_by_key(|found| self.order.position(&found.directive));
            for run in results.chunk_by_mut(|a, b| a.directive == b.directive) {
                sort_run(run);
            }
        }
        let groups = self.draw_groups(&results);
        let mut routes = Vec::new();
        for found in results {
            let group = groups.iter().find(|(name, _)| *name == found.directive);
            match found.outcome {
                Outcome::Route(mut route) => {
                    if let Some((_, group)) = group {
                        route.group.clone_from(group);
                    }
                    routes.push(route);
                }
                Outcome::Routes(kept) => routes.extend(kept),
                Outcome::ErrorRoutes(_) | Outcome::Bind(_) | Outcome::Log(_) | Outcome::Tls(_) => {}
            }
        }
        join_routes(routes)
    }

    /// Draws a group for every exclusive directive that occurs more than once, and always one for
    /// `rewrite`, since a handler before it may rewrite as well.
    fn draw_groups(&mut self, results: &[Ordered]) -> Vec<(&'static str, String)> {
        let mut groups = Vec::new();
        for name in EXCLUSIVE {
            let count = results
                .iter()
                .filter(|found| found.directive == name)
                .count();
            if count > 1 || name == "rewrite" {
                groups.push((name, self.draw_group()));
            }
        }
        groups
    }
}

/// What a result other than a route sets on the site.
fn outside_routes(outcome: &Outcome) -> Option<&'static str> {
    match outcome {
        Outcome::Route(_) | Outcome::Routes(_) => None,
        Outcome::ErrorRoutes(_) => Some("the error routes"),
        Outcome::Bind(_) => Some("the addresses"),
        Outcome::Log(_) => Some("the access log"),
        Outcome::Tls(_) => Some("the certificates"),
    }
}

/// Sorts results of one directive by how specific their matchers are.
///
/// The order is not a total one (a route without a path is equal to all others with a matcher), so
/// the result depends on the algorithm. Caddy's is an insertion sort, and so is this.
fn sort_run(run: &mut [Ordered]) {
    insertion_sort(run, |a, b| {
        let (Outcome::Route(left), Outcome::Route(right)) = (&a.outcome, &b.outcome) else {
            return false;
        };
        // Of several `vars` or `log_level` the last one wins, so the least specific comes first.
        match a.directive.as_str() {
            "vars" | "log_level" => more_specific(right, left),
            _ => more_specific(left, right),
        }
    });
}

/// Sorts in place; `before` may be any relation.
pub(super) fn insertion_sort<T>(items: &mut [T], before: impl Fn(&T, &T) -> bool) {
    for end in 1..items.len() {
        let mut at = end;
        while at > 0 && before(&items[at], &items[at - 1]) {
            items.swap(at, at - 1);
            at -= 1;
        }
    }
}

fn more_specific(left: &Route, right: &Route) -> bool {
    match (single_path(left), single_path(right)) {
        (Some(a), Some(b)) => specificity(a) < specificity(b),
        _ => !left.r#match.is_empty() && right.r#match.is_empty(),
    }
}

/// Sorts paths by specificity: the longest first, then by letters, an exact one before its wildcard.
fn specificity(path: &str) -> (Reverse<usize>, &str, usize) {
    let fixed = path.strip_suffix('*').unwrap_or(path);
    (Reverse(fixed.len()), fixed, path.len())
}

/// The path of a route that matches on one set with one path.
fn single_path(route: &Route) -> Option<&str> {
    let [set] = route.r#match.as_slice() else {
        return None;
    };
    let paths = set.0.iter().find_map(|matcher| match matcher {
        Matcher::Path(paths) => Some(paths),
        _ => None,
    })?;
    match paths.as_slice() {
        [path] if !path.is_empty() => Some(path),
        _ => None,
    }
}

/// Joins neighbours that differ in their handlers only.
pub(super) fn join_routes(routes: Vec<Route>) -> Vec<Route> {
    let mut joined: Vec<Route> = Vec::with_capacity(routes.len());
    for route in routes {
        match joined.last_mut() {
            Some(last)
                if last.r#match == route.r#match
                    && last.terminal == route.terminal
                    && last.group == route.group =>
            {
                last.handle.extend(route.handle);
                last.origin.0.extend(route.origin.0);
            }
            _ => joined.push(route),
        }
    }
    joined
}
