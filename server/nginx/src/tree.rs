//! The virtual servers of an nginx.conf and their locations: which of them handles a request.

use crate::state::Lookup;
use crate::state::NginxContext;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, Weak};

use sluice_message::uri::decode_percent;
use sluice_message::{Method, Status, Version, path};
use sluice_model::http::RouteOrigin;
use sluice_model::nginx::HeadLimits;
use sluice_net::{Body, RequestBody, StatusLine};

use sluice_observe::log::Log;
use sluice_observe::site_counts::{SiteCounts, SiteTable};
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::{Cause, Fault};
use sluice_pipeline::handler::{Handler, Step};
use sluice_pipeline::request_id::RequestIds;

use crate::client_timeouts::ClientTimeouts;
use crate::clients::Clients;
use crate::locations::{Found, How, Locations};
use crate::pages::Pages;
use crate::realip::RealIp;
use crate::redirect::Naming;
use crate::rewrite::{Flow, Line, Response};
use crate::servers::Names as ServerNames;
use crate::state::{Purpose, REDIRECTS_MAX};
use crate::types::Types;

use crate::{clients, explained, heads, pages, redirect, rewrite, try_files, uri};

/// All virtual servers of a set of addresses.
pub struct Tree {
    pub(crate) names: ServerNames,
    pub(crate) servers: Vec<Server>,
    pub(crate) locations: Vec<Location>,
    pub(crate) places: Vec<Place>,
    /// The responses of `return` directives, by index.
    pub(crate) responses: Vec<Response>,
    /// Client settings by index; the first are nginx's defaults.
    pub(crate) timeouts: Vec<ClientTimeouts>,
    /// Whether the addresses use TLS.
    pub(crate) secure: bool,
    /// Lookup variables (`map`, `geo` and others); `None` if there are none.
    pub(crate) tables: Option<Arc<dyn Lookup>>,
    /// The error log.
    pub(crate) log: Option<Log>,
    /// The sites by which requests are counted, one for each server; `None` if requests are only explained.
    pub(crate) sites: Option<Arc<SiteTable>>,
}

/// A handler's reference to its servers, which are built after it.
#[derive(Clone, Default)]
pub struct TreeRef(pub(crate) Arc<OnceLock<Weak<Tree>>>);

impl TreeRef {
    /// The servers, if they are still running.
    pub fn get(&self) -> Option<Arc<Tree>> {
        self.0.get()?.upgrade()
    }

    /// Sets the `Content-Type` of a response that has none, by the extension of the path.
    pub fn add_type(&self, exchange: &mut Exchange) {
        if let Some(tree) = self.get() {
            rewrite::add_type(&tree, exchange);
        }
    }

    /// Whether the server of a request has named locations.
    pub fn has_names(&self, exchange: &Exchange) -> bool {
        let server = exchange
            .context
            .nginx()
            .server
            .map(|server| server as usize);
        let tree = self.get();
        let found = tree.as_ref().zip(server);
        found.is_some_and(|(tree, server)| !tree.servers[server].named.is_empty())
    }

    /// Continues with a path or a named location that an upstream selected (`X-Accel-Redirect`). A path is
    /// requested with GET; a named location gets the request unchanged, with the rest of its body in `content`
    /// (`None` if it has been consumed).
    pub fn send_on(
        &self,
        exchange: &mut Exchange,
        target: &[u8],
        content: Option<RequestBody>,
    ) -> Step {
        if target.first() == Some(&b'@') {
            return match content {
                Some(content) => {
                    exchange.body = content;
                    try_files::go_to_named(self, exchange, target)
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
        if exchange.req.method != Method::Head {
            exchange.req.method = Method::Get;
        }
        exchange.req.uri.set_path(&decoded);
        exchange.req.uri.set_query(query);
        exchange.context.nginx_mut().target.change();
        start_again(exchange)
    }
}

/// A virtual server.
pub(crate) struct Server {
    /// Its first name.
    pub(crate) name: Arc<str>,
    pub(crate) merges_slashes: bool,
    pub(crate) takes_underscores: bool,
    /// Whether headers of any name are accepted (`ignore_invalid_headers off`).
    pub(crate) takes_odd_names: bool,
    pub(crate) heads: HeadLimits,
    pub(crate) real_ip: Option<Box<RealIp>>,
    pub(crate) request_ids: Option<Box<RequestIds>>,
    /// Client certificate requirements.
    pub(crate) clients: Option<Box<Clients>>,
    pub(crate) rewrite: Vec<Line>,
    pub(crate) place: u32,
    pub(crate) locations: Locations,
    pub(crate) named: HashMap<Box<str>, u32>,
    pub(crate) origin: RouteOrigin,
}

/// A location.
pub(crate) struct Location {
    pub(crate) internal: bool,
    pub(crate) rewrite: Vec<Line>,
    pub(crate) place: u32,
    /// The scope for requests with other methods (`limit_except`).
    pub(crate) others: Option<Box<OtherMethods>>,
    pub(crate) inside: Locations,
    pub(crate) origin: RouteOrigin,
    pub(crate) how: How,
}

/// `limit_except`: the scope for all methods but those listed.
pub(crate) struct OtherMethods {
    pub(crate) than: Vec<Method>,
    pub(crate) place: u32,
}

/// Settings in effect for one nginx context after inheritance.
pub(crate) struct Place {
    /// The routes that produce the response.
    pub(crate) list: usize,
    /// The routes that add headers to error responses; `None` if there is nothing to add.
    pub(crate) errors: Option<usize>,
    pub(crate) pages: Pages,
    pub(crate) types: Arc<Types>,
    pub(crate) naming: Naming,
    /// The name of the error log; empty for that of the process.
    pub(crate) error_log: Box<str>,
    /// Whether missing files are logged (`log_not_found`).
    pub(crate) logs_missing: bool,
    /// Whether rewrites are logged (`rewrite_log`).
    pub(crate) logs_rewrites: bool,
    /// The index of the client settings.
    pub(crate) timeouts: u32,
    /// The zone in which requests that end here are counted (`status_zone`).
    pub(crate) zone: Option<Arc<SiteCounts>>,
}

/// The handler that selects server and location.
pub(crate) struct Choose {
    pub(crate) tree: Arc<Tree>,
}

/// The handler that sends the pending response of a `return`, once its scope has added headers.
pub(crate) struct Respond {
    pub(crate) tree: Arc<Tree>,
}

impl Handler for Choose {
    fn serve(&self, exchange: &mut Exchange) -> Step {
        self.tree.choose(exchange)
    }
}

impl Handler for Respond {
    fn serve(&self, exchange: &mut Exchange) -> Step {
        match exchange.context.nginx_mut().pending.take() {
            Some(response) => self.tree.responses[response as usize].give(&self.tree, exchange),
            // Reached only if every handler of the scope forwarded the request.
            None => Step::Fail(Fault::new(Status::NOT_FOUND, "no handler responds here")),
        }
    }
}

impl Tree {
    /// The scope in effect for a request.
    pub(crate) fn place(&self, exchange: &Exchange) -> &Place {
        &self.places[exchange.context.nginx().place as usize]
    }

    pub(crate) fn choose(&self, exchange: &mut Exchange) -> Step {
        if let Purpose::Slice { .. } = exchange.context.nginx().purpose {
            return Step::Enter(self.place(exchange).list);
        }
        let number = match exchange.context.nginx().server {
            Some(number) => number,
            None => match self.begin(exchange) {
                Ok(number) => number,
                Err(step) => return step,
            },
        };
        let server = &self.servers[number as usize];
        if let Some(location) = exchange.context.nginx_mut().named.take() {
            return self.go_to(exchange, server, location);
        }
        exchange.context.nginx_mut().place = server.place;
        if !server.rewrite.is_empty() {
            match self.run(&server.rewrite, exchange) {
                Flow::On | Flow::End => {}
                Flow::Response(response) => return self.response(exchange, response),
                Flow::Fail(fault) => return Step::Fail(fault),
            }
        }
        self.search(exchange, server)
    }

    /// First step for a request: selects the server and normalizes the path.
    pub(crate) fn begin(&self, exchange: &mut Exchange) -> Result<u32, Step> {
        exchange.context.set_tables(self.tables.as_ref());
        exchange.status_line = StatusLine::OfServer;
        exchange.reasons = pages::reason;
        let (number, by) = self.names.choose(exchange).map_err(Step::Fail)?;
        let server = &self.servers[number as usize];
        explained::note_effect(exchange, &server.origin, |exchange| {
            by.words(&exchange.req.host)
        });
        self.enter_site(exchange, number);
        let state = exchange.context.nginx_mut();
        state.server = Some(number);
        state.place = server.place;
        let accepted = self.accept(exchange, server);
        // Error pages for requests that are not accepted show an ID as well.
        if let Some(request_ids) = &server.request_ids {
            request_ids.assign(exchange);
        }
        accepted?;
        if !uri::is_clean(exchange.req.uri.path()) {
            let mut clean = Vec::new();
            if uri::clean(exchange.req.uri.path(), server.merges_slashes, &mut clean).is_err() {
                let fault = Fault::new(Status::BAD_REQUEST, "the path leads out of the root");
                return Err(Step::Fail(fault.caused_by(Cause::Client)));
            }
            if clean != exchange.req.uri.path() {
                exchange.req.uri.set_path(&clean);
            }
        }
        Ok(number)
    }

    /// Checks the head of a request, and determines its client.
    fn accept(&self, exchange: &mut Exchange, server: &Server) -> Result<(), Step> {
        if let Err(fault) = heads::check(exchange) {
            // Other streams of an HTTP/2 connection have nothing to do with it.
            exchange.close |= exchange.req.version < Version::Http2;
            return Err(Step::Fail(fault));
        }
        self.admit(exchange, server)?;
        if !server.takes_odd_names {
            heads::drop_odd_names(exchange, server.takes_underscores);
        }
        if let Some(real_ip) = &server.real_ip {
            real_ip.set(exchange);
        }
        Ok(())
    }

    /// Counts a request at the site of its server.
    pub(crate) fn enter_site(&self, exchange: &mut Exchange, server: u32) {
        if let Some(sites) = &self.sites {
            let (worker, mark) = (exchange.worker.index, exchange.context.site);
            exchange.context.site = sites.enter(worker, mark, server);
        }
    }

    /// Rejects requests that their server does not accept on this connection. The connection is then closed.
    pub(crate) fn admit(&self, exchange: &mut Exchange, server: &Server) -> Result<(), Step> {
        let (code, why) = if self.secure && exchange.conn.tls.is_none() {
            (PLAIN_HTTP, "client sent plain HTTP request to HTTPS port")
        } else if let Some(clients) = &server.clients {
            let is_elsewhere = clients::names_another_host(exchange);
            let is_asked_elsewhere =
                is_elsewhere && self.names.knows_sni(exchange).map_err(Step::Fail)?;
            match is_asked_elsewhere {
                true => (
                    MISDIRECTED,
                    "client attempted to request another server name",
                ),
                false => match clients.judge(exchange) {
                    Ok(()) => return Ok(()),
                    Err(refused) => refused,
                },
            }
        } else {
            return Ok(());
        };
        exchange.close = true;
        let status = Status::new(code).unwrap_or(Status::BAD_REQUEST);
        let fault = Fault::new(status, why).caused_by(Cause::Client);
        Err(Step::Fail(fault))
    }

    pub(crate) fn search(&self, exchange: &mut Exchange, server: &Server) -> Step {
        loop {
            exchange.context.nginx_mut().target.end_search();
            let found = match server.locations.is_empty() {
                true => Found::Nothing,
                false => match self.find(exchange, server) {
                    Ok(found) => found,
                    Err(fault) => return Step::Fail(fault),
                },
            };
            match found {
                Found::Nothing => {
                    exchange.context.nginx_mut().place = server.place;
                    explained::note_effect(exchange, &server.origin, |exchange| {
                        format!(
                            "no location is for {}",
                            explained::quoted(exchange.req.uri.path())
                        )
                    });
                }
                Found::NeedsSlash => {
                    exchange.context.nginx_mut().place = server.place;
                    explained::note_effect(exchange, &server.origin, |_| {
                        "a location is for the path with a slash at its end".to_owned()
                    });
                    return redirect::add_slash(&self.place(exchange).naming, exchange);
                }
                Found::Location(number) => {
                    let location = &self.locations[number as usize];
                    explained::note_effect(exchange, &location.origin, |exchange| {
                        location.how.words(exchange.req.uri.path())
                    });
                    if location.internal && !exchange.context.nginx().is_internal {
                        exchange.context.nginx_mut().place = location.place;
                        return Step::Fail(Fault::new(
                            Status::NOT_FOUND,
                            "the location is internal",
                        ));
                    }
                    if let Some(step) = self.enter(exchange, location) {
                        return step;
                    }
                }
            }
            if !exchange.context.nginx().target.needs_search() {
                return self.arrive(exchange);
            }
            if let Err(fault) = count(exchange) {
                return Step::Fail(fault);
            }
        }
    }

    pub(crate) fn find(&self, exchange: &mut Exchange, server: &Server) -> Result<Found, Fault> {
        let inside = |location: u32| &self.locations[location as usize].inside;
        // Patterns store their groups in `exchange`, so the path is moved out of it meanwhile.
        let uri = std::mem::take(&mut exchange.req.uri);
        let found = server.locations.find(exchange, uri.path(), &inside);
        exchange.req.uri = uri;
        found
    }

    /// Enters a location: runs its rewrite rules and returns a step if they end the phase.
    pub(crate) fn enter(&self, exchange: &mut Exchange, location: &Location) -> Option<Step> {
        exchange.context.nginx_mut().place = location.place;
        if let Some(others) = &location.others
            && !others.than.contains(&exchange.req.method)
        {
            // The location's rewrite rules apply to the listed methods only.
            exchange.context.nginx_mut().place = others.place;
            return None;
        }
        if location.rewrite.is_empty() {
            return None;
        }
        match self.run(&location.rewrite, exchange) {
            Flow::On | Flow::End => None,
            Flow::Response(response) => Some(self.response(exchange, response)),
            Flow::Fail(fault) => Some(Step::Fail(fault)),
        }
    }

    /// Goes to a named location.
    pub(crate) fn go_to(&self, exchange: &mut Exchange, server: &Server, location: u32) -> Step {
        let origin = &self.locations[location as usize].origin;
        explained::note_effect(exchange, origin, |_| {
            "the request is sent here by name".to_owned()
        });
        exchange.context.nginx_mut().target.end_search();
        if let Some(step) = self.enter(exchange, &self.locations[location as usize]) {
            return step;
        }
        match exchange.context.nginx().target.needs_search() {
            true => self.search(exchange, server),
            false => self.arrive(exchange),
        }
    }

    /// Runs the handlers of the scope that was reached.
    pub(crate) fn arrive(&self, exchange: &mut Exchange) -> Step {
        let place = self.place(exchange);
        let timeouts = self.timeouts_of(place);
        exchange.close |= timeouts.turns_away(exchange);
        if let RequestBody::Stream(body) = &mut exchange.body {
            body.set_idle_timeout(timeouts.body_timeout());
            body.set_min_rate(timeouts.limits().min_rate);
        }
        Step::Enter(place.list)
    }

    pub(crate) fn timeouts_of(&self, place: &Place) -> &ClientTimeouts {
        &self.timeouts[place.timeouts as usize]
    }

    /// Sends the response of a `return`, after its scope has added headers.
    pub(crate) fn response(&self, exchange: &mut Exchange, response: u32) -> Step {
        exchange.close |= self.timeouts_of(self.place(exchange)).turns_away(exchange);
        match self.place(exchange).errors {
            None => self.responses[response as usize].give(self, exchange),
            Some(list) => {
                exchange.context.nginx_mut().pending = Some(response);
                Step::Enter(list)
            }
        }
    }

    /// The location called `name` in the server of a request.
    pub(crate) fn named(&self, exchange: &Exchange, name: &str) -> Option<u32> {
        let server = exchange.context.nginx().server? as usize;
        self.servers[server].named.get(name).copied()
    }
}

/// nginx's status for plain HTTP on a TLS port; clients receive 400.
const PLAIN_HTTP: u16 = 497;
const MISDIRECTED: u16 = 421;

/// Counts an internal redirect.
pub(crate) fn count(exchange: &mut Exchange) -> Result<(), Fault> {
    exchange.context.nginx_mut().redirects += 1;
    match exchange.context.nginx().redirects > REDIRECTS_MAX {
        true => Err(Fault::new(
            Status::INTERNAL_SERVER_ERROR,
            format!(
                "rewrite or internal redirection cycle while processing \"{}\"",
                String::from_utf8_lossy(exchange.req.uri.path())
            ),
        )
        .caused_by(Cause::Error)),
        false => Ok(()),
    }
}

/// Restarts routing: discards what the previous scope added to the response.
pub(crate) fn start_again(exchange: &mut Exchange) -> Step {
    if let Err(fault) = count(exchange) {
        return Step::Fail(fault);
    }
    while let Some(filter) = exchange.context.filters.pop() {
        filter.give_up(exchange);
    }
    exchange.context.log.late.clear();
    if exchange.context.nginx().error_page.status().is_some() {
        exchange.context.filters.push(pages::keep_status());
    }
    let state = exchange.context.nginx_mut();
    state.is_internal = true;
    state.follows_alias = false;
    if let Purpose::Slice { depth } = state.purpose {
        state.purpose = Purpose::Subrequest { depth };
    }
    if state.named.is_none() {
        state.target.leave_path_to_location();
    }
    exchange.context.frames.clear();
    Step::Enter(0)
}

/// The query of a request that continues with a path without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Query {
    /// Keep the query: the resource is the same.
    Stays,
    /// Drop the query: as in nginx, a path named in the configuration stands for the complete target.
    Goes,
}

/// Continues with another path as if it had been requested, except that `internal` locations are accessible.
pub(crate) fn go_on_at(exchange: &mut Exchange, target: &[u8], own: Query) -> Step {
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
    exchange.req.uri.set_path(&clean);
    if query.is_some() || own == Query::Goes {
        exchange.req.uri.set_query(query);
    }
    exchange.context.nginx_mut().target.change();
    start_again(exchange)
}

/// An empty response with a status.
pub(crate) fn empty(exchange: &mut Exchange, status: Status) -> Step {
    exchange.res.status = status;
    Step::Done(Body::Empty)
}

/// The file name in a path, which selects the media type.
pub(crate) fn base_name(name: &[u8]) -> &[u8] {
    path::base_name(name)
}

/// An index as the configuration stores it.
pub(crate) fn number(index: usize) -> u32 {
    u32::try_from(index).expect("no configuration has four thousand million places")
}
