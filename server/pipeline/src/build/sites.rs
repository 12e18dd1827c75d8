//! The sites of a server, by which its requests are counted: the hosts of its routes, or the addresses it listens on.

use std::collections::HashMap;
use std::sync::Arc;

use sluice_model as model;
use sluice_observe::site_counts::SiteTable;

use super::Builder;

impl Builder<'_> {
    /// Sets the site of each route in the first list, unless a handler has set the sites of the server.
    pub(super) fn count_sites(&mut self, first: usize) {
        if self.sites.is_some() || self.recorder.is_none() {
            return;
        }
        // The first site is that of requests for all other hosts.
        let mut names = vec![self.addresses()];
        let mut known = HashMap::new();
        let routes = &mut self.lists[first].routes;
        for (route, config) in routes.iter_mut().zip(&self.server.routes) {
            let hosts = hosts(config);
            let site = match hosts.is_empty() {
                true => 0,
                false => *known.entry(hosts).or_insert_with_key(|hosts| {
                    names.push(hosts.clone());
                    names.len() - 1
                }),
            };
            route.site = u32::try_from(site).ok();
        }
        self.set_sites(&names);
    }

    /// Counts the requests of the server by sites with these names. The handler that calls this chooses among them by
    /// [`SiteTable::enter`]; `None` if requests are only explained.
    pub fn set_sites(&mut self, names: &[String]) -> Option<Arc<SiteTable>> {
        let recorder = self.recorder?;
        let (sites, workers) = (recorder.hub().sites(), recorder.workers());
        self.sites = SiteTable::new(sites, workers, names).map(Arc::new);
        self.sites.clone()
    }

    /// The addresses of the server, as the name of a site without hosts.
    pub fn addresses(&self) -> String {
        match self.server.listen.as_slice() {
            [] => "(no address)".to_owned(),
            listen => listen.join(", "),
        }
    }
}

/// The hosts that a route is for; empty for all.
fn hosts(route: &model::Route) -> String {
    let matchers = route.r#match.iter().flat_map(|set| &set.0);
    let mut hosts: Vec<&str> = Vec::new();
    for matcher in matchers {
        if let model::Matcher::Host(list) = matcher {
            hosts.extend(list.iter().map(String::as_str));
        }
    }
    hosts.dedup();
    hosts.join(", ")
}
