//! Builds a running server from the model: either everything is opened, bound and loaded, or nothing changes. Each
//! handler parses its own settings in its own file.

mod matchers;
mod placeholder_uses;
mod routes;
mod sites;
mod trace;

use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use sluice_diag::OriginId;
use sluice_model as model;
use sluice_route::{MatcherSets, RouteIndex, Template};

pub use placeholder_uses::PlaceholderUses;

use crate::handler::Handler;
use crate::keys::{Authorities, Keys};
use crate::program::{List, Program, Route};
use crate::refusal::Refusal;
use crate::subrequests::ServerRef;
use crate::virtual_servers::VirtualServers;
use sluice_observe::Recorder;
use sluice_observe::log::Log;
use sluice_observe::metrics::SiteMetrics;
use sluice_observe::site_counts::SiteTable;

/// Compiles one matcher set from the settings of a handler.
pub fn matcher_set(config: &model::MatcherSet) -> Result<sluice_route::MatcherSet, Refusal> {
    matchers::set(config)
}

/// The model that a list of routes was built from.
#[derive(Clone, Debug)]
pub struct Listed<'m> {
    /// The position in the configuration: `apps.http.servers.srv0.routes`.
    pub place: String,
    /// The routes, in the order of the list.
    pub routes: &'m [model::Route],
}

/// Parses a text with placeholders.
pub fn template(text: &str) -> Result<Template, Refusal> {
    Template::parse(text).map_err(|error| Refusal::new(error.to_string()))
}

/// What the handlers of a running server need.
pub struct Serving<'m> {
    /// State that outlives the configuration.
    pub recorder: &'m Arc<Recorder>,
    /// Per-request metrics, if the configuration enables them.
    pub metrics: Option<SiteMetrics>,
    /// The local CAs, which outlive the configuration as well; `None` if it is only validated.
    pub authorities: Option<&'m dyn Authorities>,
    /// Certificates and their sources.
    pub keys: &'m Keys<'m>,
}

/// Builds the handlers of a module. `serve` provides it, so the pipeline knows no module.
pub type BuildModule =
    for<'m> fn(&'m model::Handler, &mut Builder<'m>) -> Result<Vec<Box<dyn Handler>>, Refusal>;

/// Values that handlers share while they are built, one of each type. Clones are the same slots.
#[derive(Clone, Default)]
pub struct Slots(Rc<RefCell<HashMap<TypeId, Rc<dyn Any>>>>);

impl Slots {
    /// Sets the value of a type.
    pub fn set<T: 'static>(&self, value: T) {
        self.0
            .borrow_mut()
            .insert(TypeId::of::<T>(), Rc::new(value));
    }

    /// The value of a type; if none was set, the default is.
    pub fn get<T: Clone + Default + 'static>(&self) -> T {
        let mut slots = self.0.borrow_mut();
        let slot = slots.entry(TypeId::of::<T>());
        let value = slot.or_insert_with(|| Rc::new(T::default()));
        value.downcast_ref().cloned().unwrap_or_default()
    }
}

/// Builds the routes of one server and collects all refusals.
pub struct Builder<'m> {
    /// The server to build.
    pub server: &'m model::Server,
    /// Paths of configuration files, which file servers hide.
    pub config_files: &'m [String],
    /// The log of the handlers; `None` if the configuration is only validated.
    pub log: Option<&'m Log>,
    /// The server, available once it is built.
    pub itself: ServerRef,
    /// State that outlives the configuration; `None` if the configuration is only validated.
    pub recorder: Option<&'m Arc<Recorder>>,
    /// The local CAs; `None` if the configuration is only validated.
    pub authorities: Option<&'m dyn Authorities>,
    /// Certificates and their sources; `None` if the configuration is only validated.
    pub keys: Option<&'m Keys<'m>>,
    /// What the handlers of all servers share.
    pub shared: Slots,
    /// What the handlers of this server share.
    pub own: Slots,
    modules: BuildModule,
    metrics: Option<SiteMetrics>,
    /// The sites of the server.
    sites: Option<Arc<SiteTable>>,
    lists: Vec<List>,
    /// The model of each list, by the same index.
    listed: Vec<Listed<'m>>,
    groups: HashMap<&'m str, u32>,
    named: HashMap<&'m str, usize>,
    /// What the placeholders of the server refer to.
    pub uses: PlaceholderUses,
    /// The virtual servers, if handlers select them.
    virtual_servers: Option<Arc<dyn VirtualServers>>,
    /// The list of error handlers set by [`Builder::respond_to_errors_with`].
    own_errors: Option<usize>,
    /// The current position in the configuration.
    place: String,
    /// Where the current handler was written, if that is known.
    written: Option<OriginId>,
    refusals: Vec<Refusal>,
}

impl<'m> Builder<'m> {
    /// Builds the routes of `server`, found at `place` in the configuration. Also returns the model of each list. The handlers
    /// of all servers have `shared` in common.
    pub fn program(
        server: &'m model::Server,
        place: &str,
        config_files: &'m [String],
        modules: BuildModule,
        shared: &Slots,
        serving: Option<Serving<'m>>,
    ) -> Result<(Program, Vec<Listed<'m>>), Vec<Refusal>> {
        let recorder = serving.as_ref().map(|serving| serving.recorder);
        let mut builder = Builder {
            server,
            config_files,
            log: recorder.map(|recorder| recorder.log()),
            itself: ServerRef::default(),
            recorder,
            authorities: serving.as_ref().and_then(|serving| serving.authorities),
            keys: serving.as_ref().map(|serving| serving.keys),
            shared: shared.clone(),
            own: Slots::default(),
            modules,
            metrics: serving.and_then(|serving| serving.metrics),
            sites: None,
            lists: Vec::new(),
            listed: Vec::new(),
            groups: HashMap::new(),
            named: HashMap::new(),
            uses: PlaceholderUses::of(server),
            virtual_servers: None,
            own_errors: None,
            place: place.to_owned(),
            written: None,
            refusals: Vec::new(),
        };
        let first = builder.within(".routes", |b| b.number(&server.routes));
        // Named routes are numbered before they are built, because they may invoke each other.
        for (name, route) in &server.named_routes {
            let route = std::slice::from_ref(route);
            let place = format!(".named_routes.{name}");
            let number = builder.within(&place, |b| b.number(route));
            builder.named.insert(name, number);
        }
        builder.within(".routes", |b| b.lists[first] = b.list(&server.routes));
        builder.count_routes(first);
        builder.count_sites(first);
        for (name, route) in &server.named_routes {
            let number = builder.named[name.as_str()];
            builder.within(&format!(".named_routes.{name}"), |b| {
                b.lists[number] = b.list(std::slice::from_ref(route));
            });
        }
        let errors = server
            .errors
            .as_ref()
            .map(|errors| builder.within(".errors", |b| b.add_list(&errors.routes)));
        if builder.refusals.is_empty() {
            let program = Program {
                lists: builder.lists,
                errors: errors.or(builder.own_errors),
                errors_recur: builder.own_errors.is_some(),
                itself: builder.itself,
                virtual_servers: builder.virtual_servers,
                metrics: builder.metrics,
                sites: builder.sites,
            };
            Ok((program, builder.listed))
        } else {
            Err(builder.refusals)
        }
    }

    /// Sets the metrics label of the routes in the first list.
    fn count_routes(&mut self, first: usize) {
        let Some(metrics) = &self.metrics else { return };
        let routes = &mut self.lists[first].routes;
        for (route, config) in routes.iter_mut().zip(&self.server.routes) {
            let first = config.handle.first();
            route.kind = first.and_then(|handler| metrics.kind(handler.module()));
        }
    }

    /// Builds the routes of the current object and returns the index of their list.
    pub fn add_list(&mut self, routes: &'m [model::Route]) -> usize {
        self.within(".routes", |b| {
            let number = b.number(routes);
            b.lists[number] = b.list(routes);
            number
        })
    }

    /// Sets the virtual servers that the handlers select.
    pub fn set_virtual_servers(&mut self, servers: Arc<dyn VirtualServers>) {
        self.virtual_servers = Some(servers);
    }

    /// Makes these handlers produce the response for every error, including errors of their own.
    pub fn respond_to_errors_with(&mut self, handlers: Vec<Box<dyn Handler>>) {
        let number = self.within(".errors", |b| b.number(&[]));
        let routes = vec![Route {
            matchers: MatcherSets::new(Vec::new()),
            handlers,
            group: None,
            terminal: false,
            kind: None,
            site: None,
        }];
        let keys: Vec<_> = routes.iter().map(|route| route.matchers.key()).collect();
        self.lists[number] = List {
            index: RouteIndex::build(&keys),
            routes,
            errors: None,
        };
        self.own_errors = Some(number);
    }

    /// Reserves the index of a list that is built later.
    fn number(&mut self, routes: &'m [model::Route]) -> usize {
        self.listed.push(Listed {
            place: self.place.clone(),
            routes,
        });
        self.lists.push(List::default());
        self.lists.len() - 1
    }

    /// The list index of the route called `name`.
    pub fn named_route(&self, name: &str) -> Option<usize> {
        self.named.get(name).copied()
    }

    /// Parses a text with placeholders.
    pub fn template(&self, text: &str) -> Result<Template, Refusal> {
        template(text)
    }

    /// The current position in the configuration.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Where the current handler was written, if that is known.
    pub fn written(&self) -> Option<OriginId> {
        self.written
    }

    /// Whether the configuration is built to serve requests; otherwise it is only validated or explained, and nothing
    /// must be started.
    pub fn is_live(&self) -> bool {
        self.authorities.is_some()
    }

    /// Records a refusal at the current position.
    pub fn refuse(&mut self, mut refusal: Refusal) {
        if refusal.place.is_empty() {
            refusal.place = self.place.clone();
        }
        refusal.written = refusal.written.or(self.written);
        self.refusals.push(refusal);
    }

    /// Runs `f` one step deeper in the configuration.
    pub fn within<T>(&mut self, step: &str, f: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.place.len();
        self.place.push_str(step);
        let done = f(self);
        self.place.truncate(before);
        done
    }

    fn group(&mut self, name: &'m str) -> Option<u32> {
        if name.is_empty() {
            return None;
        }
        let next = self.groups.len() as u32;
        Some(*self.groups.entry(name).or_insert(next))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::Slots;

    #[test]
    fn clones_of_slots_are_the_same_slots() {
        let slots = Slots::default();
        let clone = slots.clone();
        let counter: Rc<Cell<u32>> = clone.get();
        counter.set(7);
        assert_eq!(
            slots.get::<Rc<Cell<u32>>>().get(),
            7,
            "the first use sets it for all"
        );
        slots.set(Rc::new(Cell::new(9_u32)));
        assert_eq!(clone.get::<Rc<Cell<u32>>>().get(), 9);
        assert_eq!(slots.get::<String>(), "", "each type has a slot of its own");
    }
}
