//! Builds routes and their handlers. `matchers` compiles matchers; each handler parses its own settings.

use sluice_model::Handler as Config;
use sluice_route::{MatcherSets, RouteIndex};

use super::{Builder, PlaceholderUses, matchers, trace};
use crate::program::{List, Route};
use crate::refusal::Refusal;

impl<'m> Builder<'m> {
    pub(super) fn list(&mut self, routes: &'m [sluice_model::Route]) -> List {
        let mut built = Vec::with_capacity(routes.len());
        for (index, route) in routes.iter().enumerate() {
            let route = self.within(&format!("[{index}]"), |b| b.route(route));
            built.push(route);
        }
        let keys: Vec<_> = built.iter().map(|route| route.matchers.key()).collect();
        List {
            routes: built,
            index: RouteIndex::build(&keys),
            errors: None,
        }
    }

    fn route(&mut self, config: &'m sluice_model::Route) -> Route {
        let around = self.written;
        self.written = config.origin.route().or(around);
        let mut sets = Vec::with_capacity(config.r#match.len());
        for (index, set) in config.r#match.iter().enumerate() {
            let built = self.within(&format!(".match[{index}]"), |b| {
                if b.uses.request_body && PlaceholderUses::of(set).request_body {
                    b.refuse(body_in_condition());
                    return None;
                }
                matchers::set(set).map_err(|refusal| b.refuse(refusal)).ok()
            });
            sets.extend(built);
        }
        let mut built = Vec::with_capacity(config.handle.len());
        for (index, handler) in config.handle.iter().enumerate() {
            let done = self.within(&format!(".handle[{index}]"), |b| {
                b.written = config.origin.handler(index).or(around);
                let done = (b.modules)(handler, b);
                done.unwrap_or_else(|refusal| {
                    b.refuse(refusal);
                    Vec::new()
                })
            });
            let logs = self.server.logs.as_ref();
            let traced =
                logs.is_some_and(|logs| logs.trace && !matches!(handler, Config::Nginx(_)));
            match self.recorder.filter(|_| traced) {
                Some(recorder) => built.extend(
                    done.into_iter()
                        .map(|done| trace::logged(done, handler, recorder)),
                ),
                None => built.extend(done),
            }
        }
        self.written = around;
        Route {
            matchers: MatcherSets::new(sets),
            handlers: built,
            group: self.group(&config.group),
            terminal: config.terminal,
            kind: None,
            site: None,
        }
    }

    /// Whether a placeholder in the configuration of a handler requires the request body.
    pub fn needs_body(&self, config: &Config) -> bool {
        self.uses.request_body && PlaceholderUses::of(config).request_body
    }

    /// Builds a list whose errors are handled by another list.
    pub fn add_list_with_errors(
        &mut self,
        routes: &'m [sluice_model::Route],
        errors: &'m [sluice_model::Route],
    ) -> usize {
        let number = self.add_list(routes);
        let errors = self.within(".errors", |b| b.add_list(errors));
        self.lists[number].errors = Some(errors);
        number
    }
}

fn body_in_condition() -> Refusal {
    Refusal::not_yet(
        "`{http.request.body}` in a condition",
        "ask for header fields, the path or the query",
    )
}
