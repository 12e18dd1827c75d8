//! Records where routes were written, so that the handling of a request can be explained by configuration lines.
//!
//! Everything a directive produces has the directive's line as its origin, except for what the lines of its block
//! produced: those were recorded earlier, so the first record stays.

use sluice_diag::{Origin, OriginId};
use sluice_model::Route;
use sluice_model::http::RouteOrigin;

use super::Lowering;
use super::address::SiteAddress;
use super::outcome::Outcome;
use crate::tree::{Directive, Token};

/// What a site is called as an origin; no directive has this name.
const SITE: &str = "site";

impl Lowering<'_> {
    /// Notes that a directive wrote the routes among its outcomes.
    pub(super) fn note_origin(&mut self, line: &Directive, outcomes: &mut [Outcome]) {
        let mut id = None;
        for outcome in outcomes {
            let routes = match outcome {
                Outcome::Route(route) => std::slice::from_mut(route),
                Outcome::Routes(routes) | Outcome::ErrorRoutes(routes) => routes.as_mut_slice(),
                Outcome::Bind(_) | Outcome::Log(_) | Outcome::Tls(_) => continue,
            };
            let id = *id.get_or_insert_with(|| self.directive_origin(line));
            for route in routes {
                note(route, id);
            }
        }
    }

    fn directive_origin(&mut self, line: &Directive) -> OriginId {
        let mut conditions = Vec::new();
        if let Some(first) = line.args.first() {
            if first.text.starts_with('@') {
                conditions = self.conditions_of(&first.text);
                conditions.push((first.text.clone(), first.place()));
            } else if first.text.starts_with('/') {
                conditions.push(("path".to_owned(), first.place()));
            }
        }
        self.origins.add(Origin {
            name: line.name.text.clone(),
            place: line.place(),
            conditions,
        })
    }

    /// Notes one word of a directive: a file or a folder that may be missing.
    pub(super) fn word_origin(&mut self, line: &Directive, word: &Token) -> OriginId {
        self.origins.add(Origin {
            name: line.name.text.clone(),
            place: word.place(),
            conditions: Vec::new(),
        })
    }

    /// Notes where a site was written: the words of its addresses are its conditions.
    pub(super) fn site_origin(&mut self, addresses: &[SiteAddress]) -> RouteOrigin {
        let Some(first) = addresses.first() else {
            return RouteOrigin::default();
        };
        let conditions = addresses
            .iter()
            .map(|address| (address.host.clone(), address.word.place()))
            .collect();
        let id = self.origins.add(Origin {
            name: SITE.to_owned(),
            place: first.word.place(),
            conditions,
        });
        RouteOrigin(vec![id])
    }
}

/// Notes the origin of a route and of those inside of it, where none is known.
fn note(route: &mut Route, id: OriginId) {
    if !route.origin.0.is_empty() {
        return;
    }
    route.origin.0 = vec![id; route.handle.len().max(1)];
    for handler in &mut route.handle {
        for routes in handler.route_lists_mut() {
            for route in routes {
                note(route, id);
            }
        }
    }
}
