//! The walk of a request through the routes of its server. What each handler does is left to the handlers; here
//! is only the order: which route is next, what a group or a terminal route skips, and where errors go.

use std::sync::Arc;

use sluice_message::{FieldId, ResponseHead, Status, Version};
use sluice_net::{Answer, Body, FailureKind, Side, clock};
use sluice_route::{MatcherSets, RouteIndex};

use crate::context::{ErrorInfo, Exchange, Held};
use crate::failure::Fault;
use crate::handler::{Filter, Handler, Step};
use crate::handlers::nginx::Tree;
use crate::limits::FRAMES_MAX;
use crate::site::SiteRef;
use crate::values;
use sluice_observe::metrics::SiteMetrics;

/// All lists of routes of one server, by number. The first is where requests begin.
pub struct Program {
    pub(crate) lists: Vec<List>,
    /// The list that handles errors nothing else handled.
    pub(crate) errors: Option<usize>,
    /// Whether that list handles errors of its own as well. It then has to end by itself.
    pub(crate) errors_recur: bool,
    /// The server that it belongs to, for handlers that ask it for a page.
    pub(crate) itself: SiteRef,
    /// The servers of an nginx.conf, where it was made from one.
    pub(crate) nginx: Option<Arc<Tree>>,
    /// Counts requests by the routes of the first list, where the configuration asks for it.
    pub(crate) metrics: Option<SiteMetrics>,
}

/// Routes that are tried in order.
#[derive(Default)]
pub struct List {
    pub(crate) routes: Vec<Route>,
    /// Which routes can match a host and path at all; skips the others at no cost.
    pub(crate) index: RouteIndex,
    /// The list that handles errors from here.
    pub(crate) errors: Option<usize>,
}

/// Handlers and when they run.
pub struct Route {
    pub(crate) matchers: MatcherSets,
    pub(crate) handlers: Vec<Box<dyn Handler>>,
    /// Of the routes with one number only the first that matches runs.
    pub(crate) group: Option<u32>,
    pub(crate) terminal: bool,
    /// What metrics call its first handler, as a number.
    pub(crate) kind: Option<u8>,
}

/// A place in a list of routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    list: usize,
    /// The route whose handlers run, or the first that was not looked at.
    route: usize,
    /// The next handler of that route; `None` while the route is still to be chosen.
    handler: Option<usize>,
}

impl Frame {
    fn at(list: usize) -> Self {
        Frame {
            list,
            route: 0,
            handler: None,
        }
    }
}

/// A list with routes for errors that was entered, and where to go on after those.
#[derive(Debug)]
pub struct Scope {
    errors: usize,
    outer: Vec<Frame>,
}

/// Sees a walk as it happens. The walk is compiled for each kind of watch, so that requests, which nobody watches,
/// pay nothing for it; whoever explains a request watches the very walk that would serve it.
pub(crate) trait Watch {
    /// Whether filters may wait for the body of an answer and for others.
    const WAITS: bool = true;

    /// Runs the next handler, the one at this place.
    fn serve(&mut self, _at: Place, handler: &dyn Handler, x: &mut Exchange) -> Step {
        handler.serve(x)
    }

    /// Routes of a list, from the first to before the second number, cannot match by host or path.
    fn left_out(&mut self, _x: &Exchange, _list: usize, _from: usize, _to: usize) {}

    /// A route was looked at.
    fn looked_at(&mut self, _x: &Exchange, _list: usize, _route: usize, _verdict: Verdict) {}

    /// The request failed; the list with this number goes on with it, if there is one.
    fn failed(&mut self, _fault: &Fault, _errors: Option<usize>) {}

    /// Lets a filter change the answer. `count` filters are left after it.
    fn filter(&mut self, _count: usize, filter: &dyn Filter, x: &mut Exchange, body: Body) -> Body {
        filter.apply(x, body)
    }
}

/// Where a handler is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) list: usize,
    pub(crate) route: usize,
    pub(crate) handler: usize,
}

/// What became of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Its handlers run.
    Taken,
    /// Another of its group ran before.
    GroupTaken,
    /// Its conditions are not met.
    NotMatched,
    /// One of its conditions fails the request.
    Refused,
}

/// Nobody watches.
struct Unwatched;

impl Watch for Unwatched {}

impl Program {
    /// Starts the walk.
    pub fn start<'a>(&'a self, x: &'a mut Exchange) -> Answer<'a, Step> {
        x.context.frames.push(Frame::at(0));
        self.walk(x, &mut Unwatched).into_answer(x)
    }

    /// As `start`, seen by `watch`, whose handlers do not wait.
    pub(crate) fn watched(&self, x: &mut Exchange, watch: &mut impl Watch) -> Option<Body> {
        x.context.frames.push(Frame::at(0));
        match self.walk(x, watch) {
            Applied::Answer(body) => Some(body),
            Applied::Later(_) | Applied::Filter(..) => None,
        }
    }

    /// Goes on with what a handler decided after waiting.
    pub fn go_on<'a>(&'a self, x: &'a mut Exchange, step: Step) -> Answer<'a, Step> {
        let applied = self.apply(x, step, &mut Unwatched);
        applied
            .unwrap_or_else(|| self.walk(x, &mut Unwatched))
            .into_answer(x)
    }

    /// Answers a request that has no head to walk with: it fails before the first step.
    pub fn refuse<'a>(&'a self, x: &'a mut Exchange, fault: Fault) -> Answer<'a, Step> {
        let applied = self.fail(x, fault, &mut Unwatched);
        applied
            .unwrap_or_else(|| self.walk(x, &mut Unwatched))
            .into_answer(x)
    }

    /// Has the handlers of a list note what they have to say of a request that gets no answer.
    pub(crate) fn note(&self, x: &mut Exchange, list: usize) {
        x.context.frames.push(Frame::at(list));
        // Whatever they answer is thrown away, also where it would have to be waited for.
        let _ = self.walk(x, &mut Unwatched);
        x.context.frames.clear();
        x.context.filters.clear();
    }

    fn walk<W: Watch>(&self, x: &mut Exchange, watch: &mut W) -> Applied<'_> {
        loop {
            let applied = match self.next_handler(x, watch) {
                Ok(Some((place, handler))) => match watch.serve(place, handler, x) {
                    Step::Later => Some(Applied::Later(handler)),
                    step => self.apply(x, step, watch),
                },
                Ok(None) => fall_through(x, watch),
                Err(fault) => self.fail(x, fault, watch),
            };
            if let Some(applied) = applied {
                return applied;
            }
        }
    }

    fn apply<W: Watch>(&self, x: &mut Exchange, step: Step, watch: &mut W) -> Option<Applied<'_>> {
        if !matches!(step, Step::Fail(_) | Step::Later)
            && let Some(fault) = given_up(x)
        {
            return self.fail(x, fault, watch);
        }
        match step {
            Step::Next => None,
            Step::Done(body) => {
                if x.context.metrics.kinds != 0 {
                    let after = clock::now().since(x.started);
                    x.context.metrics.answer_begins(after);
                }
                let applied = finish(x, body, watch);
                match given_up(x) {
                    Some(fault) => self.fail(x, fault, watch),
                    None => applied,
                }
            }
            Step::Fail(fault) => self.fail(x, fault, watch),
            Step::Enter(_) if x.context.frames.len() >= FRAMES_MAX => {
                let fault = Fault::new(Status::LOOP_DETECTED, "routes call each other without end");
                self.fail(x, fault, watch)
            }
            Step::Enter(list) => {
                self.enter(x, list);
                None
            }
            // Only reached after waiting: the same handler waits on.
            Step::Later => self.current_handler(x).map(Applied::Later),
        }
    }

    fn enter(&self, x: &mut Exchange, list: usize) {
        if let Some(errors) = self.lists[list].errors {
            x.context.scopes.push(Scope {
                errors,
                outer: x.context.frames.clone(),
            });
        }
        x.context.frames.push(Frame::at(list));
    }

    /// The handler that gave the last step.
    fn current_handler(&self, x: &Exchange) -> Option<&dyn Handler> {
        let frame = x.context.frames.last()?;
        let route = self.lists[frame.list].routes.get(frame.route)?;
        Some(&**route.handlers.get(frame.handler?.checked_sub(1)?)?)
    }

    /// The handler that is next on the walk, `None` at its end.
    fn next_handler<W: Watch>(
        &self,
        x: &mut Exchange,
        watch: &mut W,
    ) -> Result<Option<(Place, &dyn Handler)>, Fault> {
        loop {
            let Some(frame) = x.context.frames.last_mut() else {
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
                    // A terminal route ends the walk, also that through the lists around it.
                    x.context.frames.clear();
                    return Ok(None);
                }
                *frame = Frame {
                    list: frame.list,
                    route: frame.route + 1,
                    handler: None,
                };
            }
            let from = *frame;
            let chosen = self.choose(x, from, watch)?;
            x.context.frames.pop();
            if let Some(route) = chosen {
                if let Some(metrics) = &self.metrics
                    && let Some(kind) = self.lists[from.list].routes[route].kind
                {
                    x.context.metrics = metrics.enter(x, x.context.metrics, kind);
                }
                x.context.frames.push(Frame {
                    list: from.list,
                    route,
                    handler: Some(0),
                });
            }
        }
    }

    /// The first route at or behind `frame` that matches.
    fn choose<W: Watch>(
        &self,
        x: &mut Exchange,
        frame: Frame,
        watch: &mut W,
    ) -> Result<Option<usize>, Fault> {
        let (number, mut from) = (frame.list, frame.route);
        let list = &self.lists[number];
        loop {
            let found = list.index.candidate(&x.req.host, x.req.uri.path(), from);
            watch.left_out(x, number, from, found.unwrap_or(list.routes.len()));
            let Some(index) = found else { return Ok(None) };
            let route = &list.routes[index];
            let taken = route
                .group
                .is_some_and(|group| x.context.groups.contains(group));
            let always = route.matchers.is_always();
            let verdict = match taken {
                true => Verdict::GroupTaken,
                false if always => Verdict::Taken,
                false => match values::matches(&route.matchers, x) {
                    Ok(true) => Verdict::Taken,
                    Ok(false) => Verdict::NotMatched,
                    Err(fault) => {
                        watch.looked_at(x, number, index, Verdict::Refused);
                        return Err(fault);
                    }
                },
            };
            watch.looked_at(x, number, index, verdict);
            if verdict == Verdict::Taken {
                if let Some(group) = route.group {
                    x.context.groups.insert(group);
                }
                return Ok(Some(index));
            }
            from = index + 1;
        }
    }

    /// Sends the walk to the routes for errors; where there are none gives the plain answer.
    fn fail<W: Watch>(&self, x: &mut Exchange, fault: Fault, watch: &mut W) -> Option<Applied<'_>> {
        // As nginx a server of an nginx.conf says nothing to a client that is too slow.
        let gone = fault.failure.as_ref().is_some_and(|failure| {
            failure.side == Side::Client && failure.kind == FailureKind::Closed
                || failure.is_slow_client() && self.nginx.is_some()
        });
        // RFC 9110, section 15.5.9: the rest of a request that came too late is not waited for. In HTTP/2 that concerns its
        // stream only.
        x.close |= x.req.version < Version::Http2
            && fault.failure.as_ref().is_some_and(|failure| {
                failure.side == Side::Client && failure.kind == FailureKind::Timeout
            });
        x.context.log.error = Some(fault.message.to_string());
        x.res.status = fault.status;
        let handled_before = x.context.error.is_some();
        let inner = x.context.scopes.last().map(|scope| scope.errors);
        watch.failed(
            &fault,
            inner.or(self.errors.filter(|_| !handled_before || self.errors_recur)),
        );
        x.context.error = Some(Box::new(ErrorInfo {
            status: fault.status,
            message: fault.message.into_owned(),
            id: values::error_id(),
        }));
        // Filters belong to answers of the handlers that were left behind, and so do answers put aside.
        if let Some(aside) = &mut x.context.aside {
            aside.intercepted.clear();
        }
        while let Some(filter) = x.context.filters.pop() {
            filter.give_up(x);
        }
        if gone {
            if let Some(tree) = &self.nginx {
                tree.tell_gone(x, fault.failure.as_ref());
            }
            return Some(Applied::Answer(Body::Abort));
        }
        if let Some(scope) = x.context.scopes.pop() {
            x.context.frames = scope.outer;
            x.context.frames.push(Frame::at(scope.errors));
            return None;
        }
        match self.errors {
            Some(errors) if !handled_before || self.errors_recur => {
                x.context.frames.clear();
                x.context.frames.push(Frame::at(errors));
                x.context.groups.clear();
                None
            }
            Some(_) | None => finish(x, Body::Empty, watch),
        }
    }
}

enum Applied<'a> {
    Answer(Body),
    Later(&'a dyn Handler),
    /// The filter has to wait before the answer is one.
    Filter(Arc<dyn Filter>, Body),
}

impl<'a> Applied<'a> {
    fn into_answer(self, x: &'a mut Exchange) -> Answer<'a, Step> {
        match self {
            Applied::Answer(body) => Answer::Ready(body),
            Applied::Later(handler) => Answer::Later(handler.wait(x)),
            Applied::Filter(filter, body) => Answer::Later(filter.wait(x, body)),
        }
    }
}

/// The failure of a request for which a match was given up while a value was looked for. What answers an error goes out
/// as it is.
fn given_up(x: &Exchange) -> Option<Fault> {
    let fails = x.context.given_up.take() && x.context.error.is_none();
    fails.then(|| {
        let why = "a pattern has too many ways to match";
        Fault::new(Status::INTERNAL_SERVER_ERROR, why)
    })
}

/// The answer where no handler gave one: that which `intercept` put aside, or else an empty one, with the status of
/// the error if one is being handled. `None` if routes are to answer in its place.
fn fall_through<'a, W: Watch>(x: &mut Exchange, watch: &mut W) -> Option<Applied<'a>> {
    let aside = x.context.aside.as_mut();
    if let Some(answer) = aside.and_then(|aside| aside.intercepted.pop()) {
        x.res.status = answer.head.status;
        x.res.fields.append(&answer.head.fields);
        x.inline = answer.inline;
        return finish(x, answer.body, watch);
    }
    if let Some(error) = &x.context.error {
        x.res.status = error.status;
    }
    finish(x, Body::Empty, watch)
}

/// Lets the filters change an answer, the last one added first. `None` if one of them sends the walk to routes that
/// are to answer in its place.
fn finish<'a, W: Watch>(x: &mut Exchange, mut body: Body, watch: &mut W) -> Option<Applied<'a>> {
    while let Some(filter) = x.context.filters.pop() {
        if !matches!(body, Body::Tunnel(_) | Body::Abort)
            && let Some(list) = filter.diverts(x)
        {
            return divert(x, body, list).map(Applied::Answer);
        }
        if W::WAITS && filter.waits(x, &body) {
            return Some(Applied::Filter(filter, body));
        }
        body = watch.filter(x.context.filters.len(), &*filter, x, body);
    }
    if let Some(aside) = &mut x.context.aside {
        aside.intercepted.clear();
    }
    Some(Applied::Answer(body))
}

/// Puts an answer aside and goes on with the routes of `list`.
fn divert(x: &mut Exchange, body: Body, list: usize) -> Option<Body> {
    let aside = x.context.aside.get_or_insert_default();
    if aside.intercepted.len() >= FRAMES_MAX {
        // Routes that intercept what they answer themselves.
        x.context.log.error = Some("responses are intercepted in a loop".to_owned());
        x.context.filters.clear();
        aside.intercepted.clear();
        x.res.status = Status::LOOP_DETECTED;
        return Some(Body::Empty);
    }
    aside.head = Some(x.res.clone());
    // These tell of the content that is put aside; all other fields belong to whatever answer goes out.
    let mut head = ResponseHead {
        status: x.res.status,
        ..ResponseHead::default()
    };
    for id in [FieldId::ContentEncoding, FieldId::ContentRange] {
        for value in x.res.fields.all(id) {
            head.fields.push(id, value);
        }
        x.res.fields.remove(id);
    }
    x.res.status = Status::OK;
    aside.intercepted.push(Held {
        head,
        body,
        inline: std::mem::take(&mut x.inline),
    });
    x.context.frames.clear();
    x.context.frames.push(Frame::at(list));
    None
}
