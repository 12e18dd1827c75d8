//! `nginx`: virtual servers and locations as in nginx.conf. `servers` selects the server, `locations` the location,
//! `rewrite` changes the target and `pages` handles errors; responses come from ordinary handlers.

pub mod access;
pub mod addition;
mod autoindex;
mod browser;
mod captures;
mod changed;
pub mod charset;
pub mod client_timeouts;
mod clients;
mod connection_zone;
pub mod content;
pub mod error_log;
pub mod expires;
pub mod explained;
pub mod files;
mod geo;
pub mod groups;
pub mod gunzip;
pub mod gzip;
pub mod handshakes;
mod heads;
pub mod limit_conn;
pub mod limit_req;
pub mod limits;
mod links;
mod locations;
pub mod log;
mod matching;
pub mod mirror;
mod pages;
pub mod pass;
mod piece;
pub mod proxy;
pub mod proxy_store;
pub mod ranges;
pub mod rate;
pub mod realip;
pub mod redirect;
mod referer;
pub mod refused;
mod rewrite;
mod secure_link;
pub mod servers;
mod shared;
mod shown;
pub mod slice;
pub mod ssi;
pub mod state;
pub mod subrequest;
pub mod substitute;
mod tables;
mod tls;
pub mod trailers;
pub mod try_files;
pub mod types;
mod upstream_vars;
pub mod uri;
pub mod user_id;
mod user_id_value;
pub mod variables;
mod virtual_servers;

use state::Lookup;
pub use state::set_status;
pub use state::{Limited, NginxContext, Occasional, State};

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, Weak};

use sluice_message::uri::decode_percent;
use sluice_message::{ConnInfo, Method, Status, path};
use sluice_model::http::RouteOrigin;
use sluice_model::nginx::{
    ClientLimits as ClientLimitsConfig, HeadLimits, Location as LocationConfig, Nginx as Config,
    Place as PlaceConfig, VirtualServer,
};
use sluice_net::{Body, RequestBody};

use sluice_observe::log::Log;
use sluice_pipeline::build::Builder;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::Fault;
use sluice_pipeline::handler::{Handler, Step};
use sluice_pipeline::refusal::Refusal;

use charset::recode::Charsets;
use client_timeouts::Patience;
use clients::Clients;
use groups::{Case, Pattern};
use locations::{Found, How, Locations};
use pages::Pages;
use realip::RealIp;
use redirect::Naming;
use rewrite::{Answer, Flow, Line};
use servers::Names as ServerNames;
use shared::Shared;
use ssi::variables::Names;
use state::REDIRECTS_MAX;
pub use tables::Tables;
use types::Types;

/// All virtual servers of a set of addresses.
pub struct Tree {
    names: ServerNames,
    servers: Vec<Server>,
    locations: Vec<Location>,
    places: Vec<Place>,
    /// The responses of `return` directives, by index.
    answers: Vec<Answer>,
    /// Client settings by index; the first are nginx's defaults.
    patience: Vec<Patience>,
    /// Whether the addresses use TLS.
    secure: bool,
    /// Lookup variables (`map`, `geo` and others); `None` if there are none.
    tables: Option<Arc<dyn Lookup>>,
    /// The error log.
    log: Option<Log>,
}

/// A handler's reference to its servers, which are built after it.
#[derive(Clone, Default)]
pub struct TreeRef(Arc<OnceLock<Weak<Tree>>>);

impl TreeRef {
    /// The servers, if they are still running.
    pub fn get(&self) -> Option<Arc<Tree>> {
        self.0.get()?.upgrade()
    }

    /// Sets the `Content-Type` of a response that has none, by the extension of the path.
    pub fn add_type(&self, x: &mut Exchange) {
        if let Some(tree) = self.get() {
            rewrite::add_type(&tree, x);
        }
    }

    /// Whether the server of a request has named locations.
    pub fn has_names(&self, x: &Exchange) -> bool {
        let server = x.context.nginx().server.map(|server| server as usize);
        let tree = self.get();
        let found = tree.as_ref().zip(server);
        found.is_some_and(|(tree, server)| !tree.servers[server].named.is_empty())
    }

    /// Continues with a path or a named location that an upstream selected (`X-Accel-Redirect`). A path is
    /// requested with GET; a named location gets the request unchanged, with the rest of its body in `content`
    /// (`None` if it has been consumed).
    pub fn send_on(&self, x: &mut Exchange, target: &[u8], content: Option<RequestBody>) -> Step {
        if target.first() == Some(&b'@') {
            return match content {
                Some(content) => {
                    x.body = content;
                    try_files::go_to_named(self, x, target)
                }
                None => {
                    let why = "the upstream sends a request on whose content is gone";
                    Step::Fail(Fault::new(Status::BAD_GATEWAY, why))
                }
            };
        }
        let (path, query) = match memchr::memchr(b'?', target) {
            Some(at) => (&target[..at], Some(&target[at + 1..])),
            None => (target, None),
        };
        let mut decoded = Vec::with_capacity(path.len());
        decode_percent(path, &mut decoded);
        let is_safe = |path: &[u8]| !path.split(|byte| *byte == b'/').any(|part| part == b"..");
        if !decoded.starts_with(b"/")
            || decoded.contains(&0)
            || !is_safe(path)
            || !is_safe(&decoded)
        {
            let why = "the upstream sends the request on to what is not a path of this server";
            return Step::Fail(Fault::new(Status::NOT_FOUND, why));
        }
        if x.req.method != Method::Head {
            x.req.method = Method::Get;
        }
        x.req.uri.set_path(&decoded);
        x.req.uri.set_query(query);
        x.context.nginx_mut().rewritten = true;
        start_again(x)
    }
}

/// A virtual server.
struct Server {
    /// Its first name.
    name: Arc<str>,
    merges_slashes: bool,
    takes_underscores: bool,
    /// Whether headers of any name are accepted (`ignore_invalid_headers off`).
    takes_odd_names: bool,
    heads: HeadLimits,
    real_ip: Option<Box<RealIp>>,
    /// Client certificate requirements.
    clients: Option<Box<Clients>>,
    rewrite: Vec<Line>,
    place: u32,
    locations: Locations,
    named: HashMap<Box<str>, u32>,
    origin: RouteOrigin,
}

/// A location.
struct Location {
    internal: bool,
    rewrite: Vec<Line>,
    place: u32,
    /// The scope for requests with other methods (`limit_except`).
    others: Option<Box<OtherMethods>>,
    inside: Locations,
    origin: RouteOrigin,
    how: How,
}

/// `limit_except`: the scope for all methods but those listed.
struct OtherMethods {
    than: Vec<Method>,
    place: u32,
}

/// Settings in effect for one nginx context after inheritance.
struct Place {
    /// The routes that produce the response.
    list: usize,
    /// The routes that add headers to error responses; `None` if there is nothing to add.
    errors: Option<usize>,
    pages: Pages,
    types: Arc<Types>,
    naming: Naming,
    /// The name of the error log; empty for that of the process.
    error_log: Box<str>,
    /// Whether missing files are logged (`log_not_found`).
    tells_missing: bool,
    /// Whether rewrites are logged (`rewrite_log`).
    tells_rewrites: bool,
    /// The index of the client settings.
    patience: u32,
}

/// The handler that selects server and location.
struct Choose {
    tree: Arc<Tree>,
}

/// The handler that sends the pending response of a `return`, once its scope has added headers.
struct Respond {
    tree: Arc<Tree>,
}

impl Handler for Choose {
    fn serve(&self, x: &mut Exchange) -> Step {
        self.tree.choose(x)
    }
}

impl Handler for Respond {
    fn serve(&self, x: &mut Exchange) -> Step {
        match x.context.nginx_mut().pending.take() {
            Some(answer) => self.tree.answers[answer as usize].give(&self.tree, x),
            // Reached only if every handler of the scope forwarded the request.
            None => Step::Fail(Fault::new(Status::NOT_FOUND, "no handler responds here")),
        }
    }
}

impl Tree {
    /// The scope in effect for a request.
    fn place(&self, x: &Exchange) -> &Place {
        &self.places[x.context.nginx().place as usize]
    }

    fn choose(&self, x: &mut Exchange) -> Step {
        if x.context.nginx().is_piece {
            return Step::Enter(self.place(x).list);
        }
        let number = match x.context.nginx().server {
            Some(number) => number,
            None => match self.begin(x) {
                Ok(number) => number,
                Err(step) => return step,
            },
        };
        let server = &self.servers[number as usize];
        if let Some(location) = x.context.nginx_mut().named.take() {
            return self.go_to(x, server, location);
        }
        x.context.nginx_mut().place = server.place;
        if !server.rewrite.is_empty() {
            match self.run(&server.rewrite, x) {
                Flow::On | Flow::End => {}
                Flow::Answer(answer) => return self.answer(x, answer),
                Flow::Fail(fault) => return Step::Fail(fault),
            }
        }
        self.search(x, server)
    }

    /// First step for a request: selects the server and normalizes the path.
    fn begin(&self, x: &mut Exchange) -> Result<u32, Step> {
        x.context.set_tables(self.tables.as_ref());
        let (number, by) = self.names.choose(x).map_err(Step::Fail)?;
        let server = &self.servers[number as usize];
        explained::tell(x, &server.origin, |x| by.words(&x.req.host));
        let state = x.context.nginx_mut();
        state.server = Some(number);
        state.place = server.place;
        if let Err(fault) = heads::check(x) {
            x.close = true;
            return Err(Step::Fail(fault));
        }
        self.admit(x, server)?;
        if !server.takes_odd_names {
            heads::drop_odd_names(x, server.takes_underscores);
        }
        if let Some(real_ip) = &server.real_ip {
            real_ip.set(x);
        }
        if !uri::is_clean(x.req.uri.path()) {
            let mut clean = Vec::new();
            if uri::clean(x.req.uri.path(), server.merges_slashes, &mut clean).is_err() {
                let fault = Fault::new(Status::BAD_REQUEST, "the path leads out of the root");
                return Err(Step::Fail(fault));
            }
            if clean != x.req.uri.path() {
                x.req.uri.set_path(&clean);
            }
        }
        Ok(number)
    }

    /// Rejects requests that their server does not accept on this connection. The connection is then closed.
    fn admit(&self, x: &mut Exchange, server: &Server) -> Result<(), Step> {
        let (code, why) = if self.secure && x.conn.tls.is_none() {
            (PLAIN_HTTP, "client sent plain HTTP request to HTTPS port")
        } else if let Some(clients) = &server.clients {
            let is_elsewhere = clients::names_another_host(x);
            let is_asked_elsewhere = is_elsewhere && self.names.knows_sni(x).map_err(Step::Fail)?;
            match is_asked_elsewhere {
                true => (
                    MISDIRECTED,
                    "client attempted to request another server name",
                ),
                false => match clients.judge(x) {
                    Ok(()) => return Ok(()),
                    Err(refused) => refused,
                },
            }
        } else {
            return Ok(());
        };
        x.close = true;
        let status = Status::new(code).unwrap_or(Status::BAD_REQUEST);
        Err(Step::Fail(Fault::new(status, why)))
    }

    fn search(&self, x: &mut Exchange, server: &Server) -> Step {
        loop {
            x.context.nginx_mut().changed = false;
            let found = match server.locations.is_empty() {
                true => Found::Nothing,
                false => match self.find(x, server) {
                    Ok(found) => found,
                    Err(fault) => return Step::Fail(fault),
                },
            };
            match found {
                Found::Nothing => {
                    x.context.nginx_mut().place = server.place;
                    explained::tell(x, &server.origin, |x| {
                        format!("no location is for {}", explained::quoted(x.req.uri.path()))
                    });
                }
                Found::NeedsSlash => {
                    x.context.nginx_mut().place = server.place;
                    explained::tell(x, &server.origin, |_| {
                        "a location is for the path with a slash at its end".to_owned()
                    });
                    return redirect::add_slash(&self.place(x).naming, x);
                }
                Found::Location(number) => {
                    let location = &self.locations[number as usize];
                    explained::tell(x, &location.origin, |x| {
                        location.how.words(x.req.uri.path())
                    });
                    if location.internal && !x.context.nginx().internal {
                        x.context.nginx_mut().place = location.place;
                        return Step::Fail(Fault::new(
                            Status::NOT_FOUND,
                            "the location is internal",
                        ));
                    }
                    if let Some(step) = self.enter(x, location) {
                        return step;
                    }
                }
            }
            if !x.context.nginx().changed {
                return self.arrive(x);
            }
            if let Err(fault) = count(x) {
                return Step::Fail(fault);
            }
        }
    }

    fn find(&self, x: &mut Exchange, server: &Server) -> Result<Found, Fault> {
        let inside = |location: u32| &self.locations[location as usize].inside;
        // Patterns store their groups in `x`, so the path is moved out of it meanwhile.
        let uri = std::mem::take(&mut x.req.uri);
        let found = server.locations.find(x, uri.path(), &inside);
        x.req.uri = uri;
        found
    }

    /// Enters a location: runs its rewrite rules and returns a step if they end the phase.
    fn enter(&self, x: &mut Exchange, location: &Location) -> Option<Step> {
        x.context.nginx_mut().place = location.place;
        if let Some(others) = &location.others
            && !others.than.contains(&x.req.method)
        {
            // The location's rewrite rules apply to the listed methods only.
            x.context.nginx_mut().place = others.place;
            return None;
        }
        if location.rewrite.is_empty() {
            return None;
        }
        match self.run(&location.rewrite, x) {
            Flow::On | Flow::End => None,
            Flow::Answer(answer) => Some(self.answer(x, answer)),
            Flow::Fail(fault) => Some(Step::Fail(fault)),
        }
    }

    /// Goes to a named location.
    fn go_to(&self, x: &mut Exchange, server: &Server, location: u32) -> Step {
        let origin = &self.locations[location as usize].origin;
        explained::tell(x, origin, |_| "the request is sent here by name".to_owned());
        x.context.nginx_mut().changed = false;
        if let Some(step) = self.enter(x, &self.locations[location as usize]) {
            return step;
        }
        match x.context.nginx().changed {
            true => self.search(x, server),
            false => self.arrive(x),
        }
    }

    /// Runs the handlers of the scope that was reached.
    fn arrive(&self, x: &mut Exchange) -> Step {
        let place = self.place(x);
        let patience = self.patience_of(place);
        x.close |= patience.turns_away(x);
        if let RequestBody::Stream(body) = &mut x.body {
            body.set_idle_timeout(patience.body_timeout());
            body.set_min_rate(patience.limits().min_rate);
        }
        Step::Enter(place.list)
    }

    fn patience_of(&self, place: &Place) -> &Patience {
        &self.patience[place.patience as usize]
    }

    /// The server that the SNI name of a handshake selects.
    fn asked_by(&self, conn: &ConnInfo) -> u32 {
        let name = conn.tls.as_ref().map(|tls| tls.server_name.as_bytes());
        name.map_or(0, |name| self.names.by_sni(name))
    }

    /// Sends the response of a `return`, after its scope has added headers.
    fn answer(&self, x: &mut Exchange, answer: u32) -> Step {
        x.close |= self.patience_of(self.place(x)).turns_away(x);
        match self.place(x).errors {
            None => self.answers[answer as usize].give(self, x),
            Some(list) => {
                x.context.nginx_mut().pending = Some(answer);
                Step::Enter(list)
            }
        }
    }

    /// The location called `name` in the server of a request.
    fn named(&self, x: &Exchange, name: &str) -> Option<u32> {
        let server = x.context.nginx().server? as usize;
        self.servers[server].named.get(name).copied()
    }
}

/// nginx's status for plain HTTP on a TLS port; clients receive 400.
const PLAIN_HTTP: u16 = 497;
const MISDIRECTED: u16 = 421;

/// Counts an internal redirect.
fn count(x: &mut Exchange) -> Result<(), Fault> {
    x.context.nginx_mut().redirects += 1;
    match x.context.nginx().redirects > REDIRECTS_MAX {
        true => Err(Fault::new(
            Status::INTERNAL_SERVER_ERROR,
            format!(
                "rewrite or internal redirection cycle while processing \"{}\"",
                String::from_utf8_lossy(x.req.uri.path())
            ),
        )),
        false => Ok(()),
    }
}

/// Restarts routing: discards what the previous scope added to the response.
fn start_again(x: &mut Exchange) -> Step {
    if let Err(fault) = count(x) {
        return Step::Fail(fault);
    }
    while let Some(filter) = x.context.filters.pop() {
        filter.give_up(x);
    }
    x.context.log.late.clear();
    if x.context.nginx().status != 0 {
        x.context.filters.push(pages::keep_status());
    }
    x.context.nginx_mut().internal = true;
    x.context.nginx_mut().is_piece = false;
    if x.context.nginx().named.is_none() {
        x.context.nginx_mut().has_final_path = false;
    }
    x.context.frames.clear();
    Step::Enter(0)
}

/// The query of a request that continues with a path without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Query {
    /// Keep the query: the resource is the same.
    Stays,
    /// Drop the query: as in nginx, a path named in the configuration stands for the complete target.
    Goes,
}

/// Continues with another path as if it had been requested, except that `internal` locations are accessible.
fn go_on_at(x: &mut Exchange, target: &[u8], own: Query) -> Step {
    let (path, query) = match memchr::memchr(b'?', target) {
        Some(at) => (&target[..at], Some(&target[at + 1..])),
        None => (target, None),
    };
    let mut clean = Vec::with_capacity(path.len());
    if uri::clean(path, true, &mut clean).is_err() {
        let fault = Fault::new(
            Status::INTERNAL_SERVER_ERROR,
            "a redirect leads out of the root",
        );
        return Step::Fail(fault);
    }
    x.req.uri.set_path(&clean);
    if query.is_some() || own == Query::Goes {
        x.req.uri.set_query(query);
    }
    x.context.nginx_mut().rewritten = true;
    start_again(x)
}

/// Builds the virtual servers.
pub fn build<'m>(
    config: &'m Config,
    cx: &mut Builder<'m>,
) -> Result<Vec<Box<dyn Handler>>, Refusal> {
    let mut build = Build {
        types: config
            .types
            .iter()
            .map(Types::build)
            .map(Arc::new)
            .collect(),
        locations: Vec::new(),
        places: Vec::new(),
        answers: Vec::new(),
        patience: std::iter::once(&ClientLimitsConfig::default())
            .chain(&config.client_limits)
            .map(Patience::build)
            .collect::<Result<_, Refusal>>()?,
    };
    let tree_ref = TreeRef::default();
    cx.own.set(Shared {
        types: build.types.clone().into(),
        charsets: Arc::new(Charsets::build(config)?),
        names: Arc::new(Names::build(&config.variables, &config.families)?),
        tree: tree_ref.clone(),
    });
    let mut servers = Vec::new();
    for (index, server) in config.servers.iter().enumerate() {
        let built = cx.within(&format!(".servers[{index}]"), |cx| build.server(server, cx))?;
        servers.push(built);
    }
    if servers.is_empty() {
        return Err(Refusal::new("`nginx` without a server"));
    }
    let tree = Arc::new(Tree {
        names: ServerNames::build(&config.servers, cx)?,
        servers,
        locations: build.locations,
        places: build.places,
        answers: build.answers,
        patience: build.patience,
        secure: config.secure,
        tables: Tables::shared(&config.tables, cx.recorder)?,
        log: cx.log.cloned(),
    });
    // Set only here: each server of the model has one such handler.
    let _ = tree_ref.0.set(Arc::downgrade(&tree));
    cx.set_virtual_servers(tree.clone());
    cx.answer_errors_with(pages::handlers(&tree));
    Ok(vec![
        Box::new(Choose { tree: tree.clone() }),
        Box::new(Respond { tree }),
    ])
}

/// Items numbered during the build.
struct Build {
    types: Vec<Arc<Types>>,
    locations: Vec<Location>,
    places: Vec<Place>,
    answers: Vec<Answer>,
    patience: Vec<Patience>,
}

impl Build {
    fn server<'m>(
        &mut self,
        config: &'m VirtualServer,
        cx: &mut Builder<'m>,
    ) -> Result<Server, Refusal> {
        let place = cx.within(".place", |cx| self.place(&config.place, cx))?;
        let branches = self.branches(&config.branches, cx)?;
        let rewrite = rewrite::build(&config.rewrite, &branches, &mut self.answers, cx)?;
        let mut named = HashMap::new();
        let locations = self.locations(&config.locations, &mut named, cx)?;
        Ok(Server {
            name: config.names.first().map_or("", String::as_str).into(),
            merges_slashes: config.merge_slashes.unwrap_or(true),
            takes_underscores: config.underscores_in_headers,
            takes_odd_names: config.keeps_invalid_headers,
            heads: config.heads.clone(),
            real_ip: config
                .real_ip
                .as_ref()
                .map(|real_ip| RealIp::build(real_ip).map(Box::new))
                .transpose()?,
            clients: config
                .clients
                .as_ref()
                .map(|clients| Clients::build(clients).map(Box::new))
                .transpose()?,
            rewrite,
            place,
            locations,
            named,
            origin: config.origin.clone(),
        })
    }

    fn locations<'m>(
        &mut self,
        configs: &'m [LocationConfig],
        named: &mut HashMap<Box<str>, u32>,
        cx: &mut Builder<'m>,
    ) -> Result<Locations, Refusal> {
        let mut found = Locations::default();
        for (index, config) in configs.iter().enumerate() {
            let step = format!(".locations[{index}]");
            let location = cx.within(&step, |cx| self.location(config, named, cx))?;
            let number = number(self.locations.len());
            self.locations.push(location);
            let path = config.path.as_bytes();
            match config.modifier.as_str() {
                "=" => found.add_exact(path, number),
                "" => found.add_prefix(path, number, false, config.adds_slash),
                "^~" => found.add_prefix(path, number, true, config.adds_slash),
                "~" => found.add_pattern(
                    Pattern::new("location", &config.path, Case::Kept, cx.recorder)?,
                    number,
                ),
                "~*" => found.add_pattern(
                    Pattern::new("location", &config.path, Case::Folded, cx.recorder)?,
                    number,
                ),
                "@" => {
                    named.insert(config.path.as_str().into(), number);
                }
                other => {
                    return Err(Refusal::new(format!(
                        "`{other}` is not a way to compare a path"
                    )));
                }
            }
        }
        found.finish();
        Ok(found)
    }

    fn location<'m>(
        &mut self,
        config: &'m LocationConfig,
        named: &mut HashMap<Box<str>, u32>,
        cx: &mut Builder<'m>,
    ) -> Result<Location, Refusal> {
        let place = cx.within(".place", |cx| self.place(&config.place, cx))?;
        let branches = self.branches(&config.branches, cx)?;
        let rewrite = rewrite::build(&config.rewrite, &branches, &mut self.answers, cx)?;
        let inside = self.locations(&config.locations, named, cx)?;
        let others = match &config.other_methods {
            None => None,
            Some(others) => Some(Box::new(OtherMethods {
                than: others.than.iter().map(|name| method(name)).collect(),
                place: cx.within(".other_methods.place", |cx| self.place(&others.place, cx))?,
            })),
        };
        Ok(Location {
            internal: config.internal,
            rewrite,
            place,
            others,
            inside,
            origin: config.origin.clone(),
            how: How::of(&config.modifier),
        })
    }

    fn branches<'m>(
        &mut self,
        configs: &'m [PlaceConfig],
        cx: &mut Builder<'m>,
    ) -> Result<Vec<u32>, Refusal> {
        let mut branches = Vec::with_capacity(configs.len());
        for (index, config) in configs.iter().enumerate() {
            let step = format!(".branches[{index}]");
            branches.push(cx.within(&step, |cx| self.place(config, cx))?);
        }
        Ok(branches)
    }

    fn place<'m>(&mut self, config: &'m PlaceConfig, cx: &mut Builder<'m>) -> Result<u32, Refusal> {
        let list = cx.add_list(&config.routes);
        let errors = match config.errors.is_empty() {
            true => None,
            false => Some(cx.within(".errors", |cx| cx.add_list(&config.errors))),
        };
        let types = self.types.get(config.types as usize).cloned();
        let types =
            types.ok_or_else(|| Refusal::new("a place names media types that are not there"))?;
        let place = Place {
            list,
            errors,
            pages: Pages::build(config, cx)?,
            types,
            naming: Naming::build(&config.redirects),
            error_log: config.error_log.as_str().into(),
            tells_missing: config.log_not_found.unwrap_or(true),
            tells_rewrites: config.rewrite_log,
            patience: Some(config.client_limits)
                .filter(|number| (*number as usize) < self.patience.len())
                .ok_or_else(|| Refusal::new("a place names limits that are not there"))?,
        };
        self.places.push(place);
        Ok(number(self.places.len() - 1))
    }
}

/// The method called `name`, which the configuration check has validated.
fn method(name: &str) -> Method {
    Method::from_token(name.as_bytes()).unwrap_or_default()
}

fn number(index: usize) -> u32 {
    u32::try_from(index).expect("no configuration has four thousand million places")
}

/// An empty response with a status.
fn empty(x: &mut Exchange, status: Status) -> Step {
    x.res.status = status;
    Step::Done(Body::Empty)
}

/// The file name in a path, which selects the media type.
fn base_name(name: &[u8]) -> &[u8] {
    path::base_name(name)
}
