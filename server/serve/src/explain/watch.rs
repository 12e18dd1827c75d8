//! Observes a walk and records its steps. `request_facts` describes conditions, `changes` describes changes.

use sluice_diag::{Origin, Place as Words, Sources, Written};
use sluice_model::{Handler as Config, Route};
use sluice_net::Body;
use sluice_route::{Input, MatcherSets, Scratch};

use super::body_words;
use super::changes::Before;
use super::report::{Remark, RemarkKind, Spot, Step as Recorded, StepKind};
use super::request_facts::{quoted, seen};
use crate::limits::PASSED_RECORDED_MAX;
use sluice_pipeline::build::Listed;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::Fault;
use sluice_pipeline::handler::{Account, Assumed, Filter, Handler, Step};
use sluice_pipeline::program::{Place, Program, Verdict, Watch};
use sluice_pipeline::values::At;
use sluice_server_nginx::explained;
use sluice_server_nginx::state::ExplainedLine as Line;

/// The name of steps that do not come from a line of the configuration.
const AUTOMATIC: &str = "automatic HTTPS";

/// Records the steps of one walk.
pub(super) struct Watcher<'a> {
    /// The model of each route list, by index.
    pub(super) listed: &'a [Listed<'a>],
    /// The program that runs.
    pub(super) program: &'a Program,
    /// The source text of the configuration, if it is known.
    pub(super) written: Option<&'a Written>,
    /// The recorded steps.
    pub(super) steps: Vec<Recorded>,
    /// What another program does with the request, if the response comes from there.
    pub(super) elsewhere: Option<String>,
    /// Whether a handler produced the response.
    pub(super) has_response: bool,
    /// The step that added each filter.
    filters: Vec<Recorded>,
    /// Non-matching routes of each list.
    passed: Vec<PassedBy>,
    /// The nginx.conf line recorded last: handlers without an origin belong to it.
    line: Option<(String, Option<Spot>)>,
}

/// Non-matching routes of one list.
#[derive(Clone, Copy, Default)]
struct PassedBy {
    recorded: usize,
    /// The step of the last one that was recorded.
    last: usize,
}

impl<'a> Watcher<'a> {
    pub(super) fn new(
        program: &'a Program,
        listed: &'a [Listed<'a>],
        written: Option<&'a Written>,
    ) -> Self {
        Watcher {
            listed,
            program,
            written,
            steps: Vec::new(),
            elsewhere: None,
            has_response: false,
            filters: Vec::new(),
            passed: vec![PassedBy::default(); listed.len()],
            line: None,
        }
    }

    /// A route of the model; `None` for routes that a handler created.
    fn route(&self, list: usize, route: usize) -> Option<&'a Route> {
        self.listed[list].routes.get(route)
    }

    fn origin(&self, list: usize, route: usize, handler: usize) -> Option<&'a Origin> {
        let id = self.route(list, route)?.origin.handler(handler)?;
        self.written?.origins.find(id)
    }

    /// Creates a step for a handler, or for a whole route.
    fn step(
        &self,
        kind: StepKind,
        list: usize,
        route: usize,
        handler: Option<usize>,
        exchange: &Exchange,
    ) -> Recorded {
        let origin = self.origin(list, route, handler.unwrap_or(0));
        let modules = self.route(list, route).map(|route| &route.handle);
        let module = modules.and_then(|modules| modules.get(handler.unwrap_or(0)));
        let module = module.map_or("", Config::module);
        let follows = self.line.as_ref().filter(|_| origin.is_none());
        // If the source text is known, handlers without an origin come from automatic HTTPS.
        let name = match (origin, follows, self.written) {
            (Some(origin), _, _) => &origin.name,
            (None, Some((name, _)), _) => name,
            (None, None, Some(_)) if module != "nginx" => AUTOMATIC,
            (None, None, _) => module,
        };
        let mut place = format!("{}[{route}]", self.listed[list].place);
        if let Some(handler) = handler {
            place.push_str(&format!(".handle[{handler}]"));
        }
        Recorded {
            kind,
            name: name.to_owned(),
            place,
            depth: exchange.context.frames.len(),
            at: match follows {
                Some((_, at)) => at.clone(),
                None => origin.and_then(|origin| self.spot(origin.place)),
            },
            remarks: Vec::new(),
            more: 0,
        }
    }

    fn spot(&self, place: Words) -> Option<Spot> {
        Some(spot(&self.written?.sources, place))
    }

    /// Describes the conditions of a route that are met, or those that are not.
    fn conditions(&self, exchange: &Exchange, list: usize, route: usize, met: bool) -> Vec<Remark> {
        let Some(config) = self.route(list, route) else {
            return Vec::new();
        };
        let verdicts = verdicts(&self.program.lists[list].routes[route].matchers, exchange);
        let mut out = Vec::new();
        for (set, verdicts) in config.r#match.iter().zip(verdicts) {
            let all = verdicts.iter().all(|(_, met)| *met);
            if met && !all {
                continue;
            }
            for matcher in &set.0 {
                let name = matcher.module();
                let mut of_name = verdicts.iter().filter(|(known, _)| *known == name);
                if of_name.any(|(_, found)| *found == met) {
                    let mut remark = Remark::new(kind_of(met), name, seen(matcher, exchange));
                    remark.at = self.condition_spot(exchange, list, route, name, met);
                    out.push(remark);
                }
            }
            if met {
                break;
            }
        }
        // The model sorts conditions by name; restore the order of the source text.
        out.sort_by_key(|remark| remark.at.as_ref().map(|spot| (spot.line, spot.column)));
        out
    }

    /// The position of a condition, if it is not the whole directive.
    fn condition_spot(
        &self,
        exchange: &Exchange,
        list: usize,
        route: usize,
        name: &str,
        met: bool,
    ) -> Option<Spot> {
        let origin = self.origin(list, route, 0)?;
        let host = std::str::from_utf8(&exchange.req.host).unwrap_or_default();
        let named = |wanted: &str| origin.conditions.iter().any(|(known, _)| known == wanted);
        let place = match origin.name == "site" {
            true if met && named(host) => origin.condition(host),
            // A site with wildcards: it does not matter much which of them matched.
            true if met => origin
                .conditions
                .first()
                .map_or(origin.place, |(_, at)| *at),
            true => origin.place,
            false => origin.condition(name),
        };
        (origin.name == "site" || place != origin.place)
            .then(|| self.spot(place))
            .flatten()
    }

    /// Records the nginx.conf lines that a handler went through; lines without an origin are added to its own step.
    /// Returns whether there were any with one.
    fn lines(&mut self, lines: Vec<Line>, step: &mut Recorded) -> bool {
        let before = self.steps.len();
        for line in lines {
            let origin = line.origin.and_then(|id| self.written?.origins.find(id));
            let name = origin.map_or("", |origin| &origin.name);
            let kind = match line.took_part {
                false => RemarkKind::Unmet,
                true if matches!(name, "server" | "location" | "if") => RemarkKind::Met,
                true => RemarkKind::Does,
            };
            let remark = Remark::new(kind, "", line.text);
            let Some(origin) = origin else {
                step.remarks.push(remark);
                continue;
            };
            let at = self.spot(origin.place);
            self.line = Some((name.to_owned(), at.clone()));
            self.steps.push(Recorded {
                kind: StepKind::Ran,
                name: name.to_owned(),
                at,
                remarks: vec![remark],
                ..step.clone()
            });
        }
        self.steps.len() > before
    }

    /// Records a route that does not match.
    fn pass(&mut self, exchange: &Exchange, list: usize, route: usize, remarks: Vec<Remark>) {
        let mut step = self.step(StepKind::Passed, list, route, None, exchange);
        step.remarks = remarks;
        self.passed[list].recorded += 1;
        self.passed[list].last = self.steps.len();
        self.steps.push(step);
    }

    /// Whether to record another non-matching route of a list; if not, it is counted at the last one recorded.
    fn records_passed(&mut self, list: usize) -> bool {
        let PassedBy { recorded, last } = self.passed[list];
        if recorded >= PASSED_RECORDED_MAX {
            self.steps[last].more += 1;
        }
        recorded < PASSED_RECORDED_MAX
    }

    /// The step of a handler, which is not called if it would affect anything outside of the request.
    fn take(&mut self, handler: &dyn Handler, exchange: &mut Exchange) -> (Vec<Remark>, Step) {
        let Account { says, assumed } = handler.account(exchange);
        let first = says.first().cloned();
        let does = |text| Remark::new(RemarkKind::Does, "", text);
        let mut remarks: Vec<Remark> = says.into_iter().map(does).collect();
        let step = match assumed {
            None => handler.serve(exchange),
            Some(Assumed::Step(step)) => step,
            Some(Assumed::Elsewhere) => Step::Later,
        };
        if !matches!(step, Step::Later) {
            return (remarks, step);
        }
        let text = first.unwrap_or_else(|| {
            let text = "would wait for another response".to_owned();
            remarks.push(Remark::new(RemarkKind::Does, "", text.clone()));
            text
        });
        self.elsewhere = Some(text);
        // The walk needs some response in order to end; it is not shown.
        (remarks, Step::Done(Body::Empty))
    }
}

impl Watch for Watcher<'_> {
    const WAITS: bool = false;

    fn serve(&mut self, at: Place, handler: &dyn Handler, exchange: &mut Exchange) -> Step {
        let mut recorded = self.step(StepKind::Ran, at.list, at.route, Some(at.handler), exchange);
        let before = Before::of(exchange);
        let filters = exchange.context.filters.len();
        let (remarks, step) = self.take(handler, exchange);
        recorded.remarks = remarks;
        let lines = self.lines(explained::take(exchange), &mut recorded);
        let responses = matches!(step, Step::Done(_)) && self.elsewhere.is_none();
        // Response headers are shown with the response.
        let changes = before.changes(exchange).into_iter();
        let has_line = |kind| lines && matches!(kind, RemarkKind::Rewrite | RemarkKind::Variable);
        recorded.remarks.extend(
            changes.filter(|c| {
                (!responses || c.kind != RemarkKind::ResponseField) && !has_line(c.kind)
            }),
        );
        if exchange.context.filters.len() > filters {
            let text = "changes the response on its way out";
            recorded
                .remarks
                .push(Remark::new(RemarkKind::Note, "", text));
        }
        match &step {
            Step::Done(body) if responses => {
                self.has_response = true;
                let text = body_words(exchange, body);
                recorded
                    .remarks
                    .push(Remark::new(RemarkKind::Response, "", text));
            }
            // Each setting of an nginx.conf location is a handler; most of them do nothing for most requests.
            Step::Next if recorded.remarks.is_empty() && self.line.is_none() => {
                let text = "does nothing to this request";
                let remark = Remark::new(RemarkKind::Nothing, "", text);
                recorded.remarks.push(remark);
            }
            Step::Done(_) | Step::Next | Step::Fail(_) | Step::Enter(_) | Step::Later => {}
        }
        self.filters
            .resize(exchange.context.filters.len(), recorded.clone());
        if self.line.is_none() || !recorded.remarks.is_empty() {
            self.steps.push(recorded);
        }
        step
    }

    fn left_out(&mut self, exchange: &Exchange, list: usize, from: usize, to: usize) {
        for route in from..to {
            if self.records_passed(list) {
                let remarks = self.conditions(exchange, list, route, false);
                self.pass(exchange, list, route, remarks);
            }
        }
    }

    fn looked_at(&mut self, exchange: &Exchange, list: usize, route: usize, verdict: Verdict) {
        match verdict {
            Verdict::Taken => {
                let mut step = self.step(StepKind::Taken, list, route, None, exchange);
                step.remarks = self.conditions(exchange, list, route, true);
                self.steps.push(step);
            }
            Verdict::NotMatched | Verdict::Refused => {
                if self.records_passed(list) {
                    let remarks = self.conditions(exchange, list, route, false);
                    self.pass(exchange, list, route, remarks);
                }
            }
            Verdict::GroupTaken => {
                if self.records_passed(list) {
                    let name = self.origin(list, route, 0).map_or("route", |o| &o.name);
                    let text = format!("another `{name}` was taken before");
                    let remark = Remark::new(RemarkKind::Unmet, "group", text);
                    self.pass(exchange, list, route, vec![remark]);
                }
            }
        }
    }

    fn failed(&mut self, fault: &Fault, errors: Option<usize>) {
        let mut text = format!("error {} {}", fault.status.code(), fault.status.reason());
        if fault.message != fault.status.reason() {
            text.push_str(&format!(": {}", quoted(fault.message.as_bytes())));
        }
        text.push_str(match errors {
            Some(_) => ", which the error routes handle",
            None => ", which no error route handles",
        });
        if let Some(last) = self.steps.last() {
            let mut step = last.clone();
            step.kind = StepKind::Failed;
            step.remarks = vec![Remark::new(RemarkKind::Error, "", text)];
            step.more = 0;
            self.steps.push(step);
        }
        self.filters.clear();
    }

    fn filter(
        &mut self,
        count: usize,
        filter: &dyn Filter,
        exchange: &mut Exchange,
        body: Body,
    ) -> Body {
        if self.elsewhere.is_some() {
            return body;
        }
        let before = Before::of(exchange);
        let body = filter.apply(exchange, body);
        let remarks: Vec<Remark> = before
            .changes(exchange)
            .into_iter()
            .filter(|change| change.kind == RemarkKind::ResponseField)
            .collect();
        if let Some(added) = self.filters.get(count).filter(|_| !remarks.is_empty()) {
            self.steps.push(Recorded {
                kind: StepKind::Filtered,
                remarks,
                ..added.clone()
            });
        }
        body
    }
}

fn kind_of(met: bool) -> RemarkKind {
    match met {
        true => RemarkKind::Met,
        false => RemarkKind::Unmet,
    }
}

/// Evaluates all conditions of a route with separate scratch memory, so that their captures do not affect the request.
fn verdicts(matchers: &MatcherSets, exchange: &Exchange) -> Vec<Vec<(&'static str, bool)>> {
    let scratch = Scratch::new();
    scratch.set_env(exchange.worker.clone());
    matchers.verdicts(&Input {
        head: &exchange.req,
        conn: &exchange.conn,
        client_ip: exchange.context.client_ip,
        values: &At(exchange),
        scratch: &scratch,
    })
}

/// Converts a position in a configuration to a spot with its line.
fn spot(sources: &Sources, place: Words) -> Spot {
    let source = sources.source(place.span.source);
    let position = source.position(place.span.start);
    let (line, start, text) = source.line(place.span.start);
    let imports = sources
        .import_chain(place.import)
        .map(|step| format!("{}, imported at {}", step.what, sources.place(step.at)));
    Spot {
        file: source.name().to_owned(),
        line,
        column: position.column,
        text: text.to_owned(),
        start: place.span.start - start,
        end: (place.span.end - start).min(text.len() as u32),
        imports: imports.collect(),
    }
}
