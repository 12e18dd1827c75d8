//! Runs a request through the routes of its server. Handlers do the work; this module only decides the order: which
//! route is next, what a group or a terminal route skips, and which routes handle errors.

use std::sync::Arc;

use sluice_message::{FieldId, ResponseHead, Status, Version};
use sluice_net::{Body, FailureKind, Response, Side, clock};
use sluice_route::{MatcherSets, RouteIndex};

use crate::context::{ErrorInfo, Exchange, Held};
use crate::failure::Fault;
use crate::frame::{Frame, Scope};
use crate::handler::{Filter, Handler, Step};
use crate::limits::FRAMES_MAX;
use crate::request_id;
use crate::subrequests::ServerRef;
use crate::values;
use crate::virtual_servers::VirtualServers;
use sluice_observe::metrics::SiteMetrics;
use sluice_observe::site_counts::SiteTable;

/// All route lists of one server, by index. Requests start in the first.
pub struct Program {
    /// The lists.
    pub lists: Vec<List>,
    /// The list that handles errors no other list handles.
    pub errors: Option<usize>,
    /// Whether that list also handles its own errors. It must then terminate by itself.
    pub errors_recur: bool,
    /// The server that this belongs to, for handlers that make subrequests.
    pub itself: ServerRef,
    /// The virtual servers, if handlers select them.
    pub virtual_servers: Option<Arc<dyn VirtualServers>>,
    /// Counts requests by the routes of the first list, if the configuration enables metrics.
    pub metrics: Option<SiteMetrics>,
    /// Counts requests by site; `None` if requests are only explained.
    pub sites: Option<Arc<SiteTable>>,
}

/// Routes that are tried in order.
#[derive(Default)]
pub struct List {
    /// The routes, in the order in which they are tried.
    pub routes: Vec<Route>,
    /// Finds the routes that can match a host and path; skips all others at no cost.
    pub index: RouteIndex,
    /// The list that handles errors from this list.
    pub errors: Option<usize>,
}

/// A route: matchers and handlers.
pub struct Route {
    /// When it applies.
    pub matchers: MatcherSets,
    /// What it does, in order.
    pub handlers: Vec<Box<dyn Handler>>,
    /// Of the routes with the same group only the first that matches runs.
    pub group: Option<u32>,
    /// Whether no later route is tried.
    pub terminal: bool,
    /// The metrics label of its first handler, as an index.
    pub kind: Option<u8>,
    /// The site that a request belongs to if it takes this route; only in the first list.
    pub site: Option<u32>,
}

/// Observes the walk through the routes. The walk is monomorphized for each observer, so ordinary requests pay nothing
/// for it, and `explain` observes the same code that would serve the request.
pub trait Watch {
    /// Whether filters may await the response body or something else.
    const WAITS: bool = true;

    /// Runs the next handler, which is at this position.
    fn serve(&mut self, _at: Place, handler: &dyn Handler, exchange: &mut Exchange) -> Step {
        handler.serve(exchange)
    }

    /// The routes from `from` up to, but not including, `to` cannot match by host or path.
    fn left_out(&mut self, _x: &Exchange, _list: usize, _from: usize, _to: usize) {}

    /// A route was tried.
    fn looked_at(&mut self, _x: &Exchange, _list: usize, _route: usize, _verdict: Verdict) {}

    /// The request failed; the list `errors` handles it, if any.
    fn failed(&mut self, _fault: &Fault, _errors: Option<usize>) {}

    /// Applies a filter to the response; `count` filters remain.
    fn filter(
        &mut self,
        _count: usize,
        filter: &dyn Filter,
        exchange: &mut Exchange,
        body: Body,
    ) -> Body {
        filter.apply(exchange, body)
    }
}

/// The position of a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The index of the list.
    pub list: usize,
    /// The index of the route in the list.
    pub route: usize,
    /// The index of the handler in the route.
    pub handler: usize,
}

/// The outcome of trying a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Its handlers run.
    Taken,
    /// Another route of its group ran before.
    GroupTaken,
    /// Its matchers do not match.
    NotMatched,
    /// One of its matchers fails the request.
    Refused,
}

/// The observer of ordinary requests, which does nothing.
struct Unwatched;

impl Watch for Unwatched {}

impl Program {
    /// Starts the walk.
    pub fn start<'a>(&'a self, exchange: &'a mut Exchange) -> Response<'a, Step> {
        exchange.context.frames.push(Frame::at(0));
        self.walk(exchange, &mut Unwatched).into_response(exchange)
    }

    /// Like `start`, observed by `watch`, with handlers that do not await.
    pub fn watched(&self, exchange: &mut Exchange, watch: &mut impl Watch) -> Option<Body> {
        exchange.context.frames.push(Frame::at(0));
        match self.walk(exchange, watch) {
            Applied::Response(body) => Some(body),
            Applied::Later(_) | Applied::Filter(..) => None,
        }
    }

    /// Continues with the step that a handler returned after awaiting.
    pub fn go_on<'a>(&'a self, exchange: &'a mut Exchange, step: Step) -> Response<'a, Step> {
        let applied = self.apply(exchange, step, &mut Unwatched);
        applied
            .unwrap_or_else(|| self.walk(exchange, &mut Unwatched))
            .into_response(exchange)
    }

    /// Produces the response for a request without a usable head: it fails before the first handler.
    pub fn refuse<'a>(&'a self, exchange: &'a mut Exchange, fault: Fault) -> Response<'a, Step> {
        let applied = self.fail(exchange, fault, &mut Unwatched);
        applied
            .unwrap_or_else(|| self.walk(exchange, &mut Unwatched))
            .into_response(exchange)
    }

    /// Runs the handlers of a list for a request that does not get a response, so that they can record their notes.
    pub fn note(&self, exchange: &mut Exchange, list: usize) {
        exchange.context.frames.push(Frame::at(list));
        // The responses of these handlers are discarded, including those that would have to be awaited.
        let _ = self.walk(exchange, &mut Unwatched);
        exchange.context.frames.clear();
        exchange.context.filters.clear();
    }

    fn walk<W: Watch>(&self, exchange: &mut Exchange, watch: &mut W) -> Applied<'_> {
        loop {
            let applied = match self.next_handler(exchange, watch) {
                Ok(Some((place, handler))) => match watch.serve(place, handler, exchange) {
                    Step::Later => Some(Applied::Later(handler)),
                    step => self.apply(exchange, step, watch),
                },
                Ok(None) => fall_through(exchange, watch),
                Err(fault) => self.fail(exchange, fault, watch),
            };
            if let Some(applied) = applied {
                return applied;
            }
        }
    }

    fn apply<W: Watch>(
        &self,
        exchange: &mut Exchange,
        step: Step,
        watch: &mut W,
    ) -> Option<Applied<'_>> {
        if !matches!(step, Step::Fail(_) | Step::Later)
            && let Some(fault) = given_up(exchange)
        {
            return self.fail(exchange, fault, watch);
        }
        match step {
            Step::Next => None,
            Step::Done(body) => {
                if exchange.context.metrics.kinds != 0 {
                    let after = clock::now().since(exchange.started);
                    exchange.context.metrics.response_begins(after);
                }
                let applied = finish(exchange, body, watch);
                match given_up(exchange) {
                    Some(fault) => self.fail(exchange, fault, watch),
                    None => applied,
                }
            }
            Step::Fail(fault) => self.fail(exchange, fault, watch),
            Step::Enter(_) if exchange.context.frames.len() >= FRAMES_MAX => {
                let fault = Fault::new(Status::LOOP_DETECTED, "routes call each other without end");
                self.fail(exchange, fault, watch)
            }
            Step::Enter(list) => {
                self.enter(exchange, list);
                None
            }
            // Reached only after awaiting: the same handler continues to await.
            Step::Later => self.current_handler(exchange).map(Applied::Later),
        }
    }

    fn enter(&self, exchange: &mut Exchange, list: usize) {
        if let Some(errors) = self.lists[list].errors {
            exchange.context.scopes.push(Scope {
                errors,
                outer: exchange.context.frames.clone(),
            });
        }
        exchange.context.frames.push(Frame::at(list));
    }

    /// The handler that returned the last step.
    fn current_handler(&self, exchange: &Exchange) -> Option<&dyn Handler> {
        let frame = exchange.context.frames.last()?;
        let route = self.lists[frame.list].routes.get(frame.route)?;
        Some(&**route.handlers.get(frame.handler?.checked_sub(1)?)?)
    }

    /// The next handler of the walk; `None` at its end.
    fn next_handler<W: Watch>(
        &self,
        exchange: &mut Exchange,
        watch: &mut W,
    ) -> Result<Option<(Place, &dyn Handler)>, Fault> {
        loop {
            let Some(frame) = exchange.context.frames.last_mut() else {
                return Ok(None);
            };
            let list = &self.lists[frame.list];
            if let Some(handler) = frame.handler {
                let route = &list.routes[frame.route];
                if let Some(found) = route.handlers.get(handler) {
                    frame.handler = Some(handler + 1);
                    let place = Place {
                        list: frame.list,
                        route: frame.route,
                        handler,
                    };
                    return Ok(Some((place, &**found)));
                }
                if route.terminal {
                    // A terminal route ends the walk, including the lists around it.
                    exchange.context.frames.clear();
                    return Ok(None);
                }
                *frame = Frame {
                    list: frame.list,
                    route: frame.route + 1,
                    handler: None,
                };
            }
            let from = *frame;
            let chosen = self.choose(exchange, from, watch)?;
            exchange.context.frames.pop();
            if let Some(route) = chosen {
                if let Some(site) = self.lists[from.list].routes[route].site
                    && let Some(sites) = &self.sites
                {
                    let (worker, mark) = (exchange.worker.index, exchange.context.site);
                    exchange.context.site = sites.enter(worker, mark, site);
                }
                if let Some(metrics) = &self.metrics
                    && let Some(kind) = self.lists[from.list].routes[route].kind
                {
                    exchange.context.metrics =
                        metrics.enter(exchange, exchange.context.metrics, kind);
                }
                exchange.context.frames.push(Frame {
                    list: from.list,
                    route,
                    handler: Some(0),
                });
            }
        }
    }

    /// The first matching route at or after `frame`.
    fn choose<W: Watch>(
        &self,
        exchange: &mut Exchange,
        frame: Frame,
        watch: &mut W,
    ) -> Result<Option<usize>, Fault> {
        let (number, mut from) = (frame.list, frame.route);
        let list = &self.lists[number];
        loop {
            let found = list
                .index
                .candidate(&exchange.req.host, exchange.req.uri.path(), from);
            watch.left_out(exchange, number, from, found.unwrap_or(list.routes.len()));
            let Some(index) = found else { return Ok(None) };
            let route = &list.routes[index];
            let taken = route
                .group
                .is_some_and(|group| exchange.context.groups.contains(group));
            let always = route.matchers.is_always() || list.index.decides(index);
            let verdict = match taken {
                true => Verdict::GroupTaken,
                false if always => Verdict::Taken,
                false => match values::matches(&route.matchers, exchange) {
                    Ok(true) => Verdict::Taken,
                    Ok(false) => Verdict::NotMatched,
                    Err(fault) => {
                        watch.looked_at(exchange, number, index, Verdict::Refused);
                        return Err(fault);
                    }
                },
            };
            watch.looked_at(exchange, number, index, verdict);
            if verdict == Verdict::Taken {
                if let Some(group) = route.group {
                    exchange.context.groups.insert(group);
                }
                return Ok(Some(index));
            }
            from = index + 1;
        }
    }

    /// Continues the walk with the error routes; without error routes produces the default error response.
    fn fail<W: Watch>(
        &self,
        exchange: &mut Exchange,
        fault: Fault,
        watch: &mut W,
    ) -> Option<Applied<'_>> {
        let virtual_servers = self.virtual_servers.as_deref();
        let gone = fault.failure.as_ref().is_some_and(|failure| {
            failure.side == Side::Client && failure.kind == FailureKind::Closed
                || failure.is_slow_client()
                    && virtual_servers.is_some_and(VirtualServers::drop_slow)
        });
        // RFC 9110, section 15.5.9: after a request timeout the connection is closed rather than reading the rest of
        // the request. In HTTP/2 this affects only the stream.
        exchange.close |= exchange.req.version < Version::Http2
            && fault.failure.as_ref().is_some_and(|failure| {
                failure.side == Side::Client && failure.kind == FailureKind::Timeout
            });
        exchange.context.log.error = Some(fault.reason());
        exchange.res.status = fault.status;
        let handled_before = exchange.context.error.is_some();
        let inner = exchange.context.scopes.last().map(|scope| scope.errors);
        watch.failed(
            &fault,
            inner.or(self.errors.filter(|_| !handled_before || self.errors_recur)),
        );
        exchange.context.error = Some(Box::new(ErrorInfo {
            status: fault.status,
            message: fault.message.into_owned(),
            id: values::error_id(),
        }));
        // Filters and intercepted responses belong to the handlers that were abandoned.
        if let Some(aside) = &mut exchange.context.aside {
            aside.intercepted.clear();
        }
        while let Some(filter) = exchange.context.filters.pop() {
            filter.give_up(exchange);
        }
        if gone {
            if let Some(servers) = virtual_servers {
                servers.client_gone(exchange, fault.failure.as_ref());
            }
            return Some(Applied::Response(Body::Abort));
        }
        if let Some(scope) = exchange.context.scopes.pop() {
            exchange.context.frames = scope.outer;
            exchange.context.frames.push(Frame::at(scope.errors));
            return None;
        }
        match self.errors {
            Some(errors) if !handled_before || self.errors_recur => {
                exchange.context.frames.clear();
                exchange.context.frames.push(Frame::at(errors));
                exchange.context.groups.clear();
                None
            }
            Some(_) | None => {
                let body = request_id::error_body(exchange);
                finish(exchange, body, watch)
            }
        }
    }
}

enum Applied<'a> {
    Response(Body),
    Later(&'a dyn Handler),
    /// The filter has to be awaited before the response is complete.
    Filter(Arc<dyn Filter>, Body),
}

impl<'a> Applied<'a> {
    fn into_response(self, exchange: &'a mut Exchange) -> Response<'a, Step> {
        match self {
            Applied::Response(body) => Response::Ready(body),
            Applied::Later(handler) => Response::Later(handler.wait(exchange)),
            Applied::Filter(filter, body) => Response::Later(filter.wait(exchange, body)),
        }
    }
}

/// The fault of a request whose regular expression exceeded the matching limit while a value was computed. While an
/// error is being handled the response is sent regardless.
fn given_up(exchange: &Exchange) -> Option<Fault> {
    let fails = exchange.context.given_up.take() && exchange.context.error.is_none();
    fails.then(|| {
        let why = "a pattern has too many ways to match";
        Fault::new(Status::INTERNAL_SERVER_ERROR, why)
    })
}

/// The response if no handler produced one: the response held back by `intercept`, otherwise an empty one with the
/// status of the error being handled, if any. `None` if a filter diverts to other routes.
fn fall_through<'a, W: Watch>(exchange: &mut Exchange, watch: &mut W) -> Option<Applied<'a>> {
    let aside = exchange.context.aside.as_mut();
    if let Some(response) = aside.and_then(|aside| aside.intercepted.pop()) {
        exchange.res.status = response.head.status;
        exchange.res.fields.append(&response.head.fields);
        exchange.inline = response.inline;
        return finish(exchange, response.body, watch);
    }
    let mut body = Body::Empty;
    if let Some(error) = &exchange.context.error {
        exchange.res.status = error.status;
        body = request_id::error_body(exchange);
    }
    finish(exchange, body, watch)
}

/// Applies the filters to a response, last added first. `None` if a filter diverts to routes that produce a response to
/// replace it.
fn finish<'a, W: Watch>(
    exchange: &mut Exchange,
    mut body: Body,
    watch: &mut W,
) -> Option<Applied<'a>> {
    while let Some(filter) = exchange.context.filters.pop() {
        if !matches!(body, Body::Tunnel(_) | Body::Abort)
            && let Some(list) = filter.diverts(exchange)
        {
            return divert(exchange, body, list).map(Applied::Response);
        }
        if W::WAITS && filter.waits(exchange, &body) {
            return Some(Applied::Filter(filter, body));
        }
        body = watch.filter(exchange.context.filters.len(), &*filter, exchange, body);
    }
    if let Some(aside) = &mut exchange.context.aside {
        aside.intercepted.clear();
    }
    request_id::label(exchange);
    Some(Applied::Response(body))
}

/// Holds a response back and continues with the routes of `list`.
fn divert(exchange: &mut Exchange, body: Body, list: usize) -> Option<Body> {
    let aside = exchange.context.aside.get_or_insert_default();
    if aside.intercepted.len() >= FRAMES_MAX {
        // The routes intercept responses that they produce themselves.
        exchange.context.log.error = Some("responses are intercepted in a loop".into());
        exchange.context.filters.clear();
        aside.intercepted.clear();
        exchange.res.status = Status::LOOP_DETECTED;
        return Some(Body::Empty);
    }
    aside.head = Some(exchange.res.clone());
    // These headers describe the content that is held back; all other headers apply to whichever response is sent.
    let mut head = ResponseHead {
        status: exchange.res.status,
        ..ResponseHead::default()
    };
    for id in [FieldId::ContentEncoding, FieldId::ContentRange] {
        for value in exchange.res.fields.all(id) {
            head.fields.push(id, value);
        }
        exchange.res.fields.remove(id);
    }
    exchange.res.status = Status::OK;
    aside.intercepted.push(Held {
        head,
        body,
        inline: std::mem::take(&mut exchange.inline),
    });
    exchange.context.frames.clear();
    exchange.context.frames.push(Frame::at(list));
    None
}
