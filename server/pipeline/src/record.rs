//! Exactly one log line and one count for each request, failed ones included. Which logs and counts there are is left to
//! `sluice-observe`.

use std::cell::RefCell;
use std::time::{Duration, SystemTime};

use sluice_message::Method;
use sluice_net::{Completion, Ending, Side};
use sluice_observe::Recorder;
use sluice_observe::log::{
    AccessLog, Credentials, Head, Level, Log, RequestFacts, Route, Severity, Timings, add_request,
};
use sluice_observe::metrics::SiteMetrics;
use sluice_observe::site_counts::SiteTable;
use sluice_observe::tracing::Ended;

use crate::context::Exchange;

/// A worker's buffer for log lines.
#[derive(Default)]
struct LineScratch(RefCell<Vec<u8>>);

/// Where requests of a server are counted and logged.
#[derive(Clone, Copy)]
pub struct Counting<'a> {
    /// The counters and logs of the process.
    pub recorder: &'a Recorder,
    /// The access log of the server, if it has one.
    pub access: Option<&'a AccessLog>,
    /// Metrics by handler, status and method, if the configuration enables them.
    pub metrics: Option<&'a SiteMetrics>,
    /// Counters by site.
    pub sites: Option<&'a SiteTable>,
}

/// Counts and logs the end of a request. Call it once for each [`Recorder::begin`].
pub fn end(counting: &Counting<'_>, exchange: &mut Exchange, completion: &Completion) {
    let Counting {
        recorder,
        access,
        metrics,
        sites,
    } = *counting;
    let aborted = matches!(completion.ending, Ending::Aborted);
    let status = if aborted {
        0
    } else {
        exchange.res.status.code()
    };
    recorder.end(exchange.worker.index, status, completion);
    if let Some(sites) = sites {
        let mark = exchange.context.site;
        sites.end(exchange.worker.index, mark, status, completion);
    }
    note_failure(recorder, exchange, completion, status);
    if let Some(metrics) = metrics {
        let failed = exchange.context.log.error.is_some();
        metrics.leave(
            exchange,
            exchange.context.metrics,
            (completion, status),
            failed,
        );
    }
    if exchange.context.log.trace.is_some()
        && let Some(span) = exchange.context.log.trace.take()
    {
        let ended = Ended {
            method: original_method(exchange),
            client_ip: exchange.context.client_ip,
            status,
            body_bytes_sent: completion.body_bytes_sent,
        };
        span.end(exchange, ended);
    }
    if exchange.context.log.error.is_some() && !exchange.context.log.is_logged {
        log_error(recorder.log(), exchange, completion, status, access);
    }
    if let Some(access) = access.filter(|_| !exchange.context.log.skip) {
        if !exchange.context.log.late.is_empty() {
            exchange.context.log.body_bytes_sent = completion.body_bytes_sent;
            exchange.context.log.body_bytes_read = completion.body_bytes_read;
            exchange.context.log.bytes_sent = completion.bytes_sent;
            exchange.context.log.head_bytes_sent = completion.head_bytes_sent;
            exchange.context.log.is_complete = matches!(completion.ending, Ending::Complete);
            // As with Caddy's nested handlers, the last directive adds its fields first.
            for late in std::mem::take(&mut exchange.context.log.late)
                .into_iter()
                .rev()
            {
                late.add(exchange);
            }
        }
        let scratch = exchange.worker.local::<LineScratch>();
        let line = &mut *scratch.0.borrow_mut();
        let facts = facts(exchange, completion, status);
        access.write(
            &facts,
            &exchange.context.log.names,
            || recorder.log().plan(),
            line,
        );
    }
}

/// Keeps a request that failed on our side for the status page.
fn note_failure(recorder: &Recorder, exchange: &Exchange, completion: &Completion, status: u16) {
    let truncated = match &completion.ending {
        Ending::Failed(failure) if failure.side != Side::Client => Some(failure),
        Ending::Failed(_) | Ending::Complete | Ending::Aborted => None,
    };
    let logged = exchange.context.log.error.as_ref();
    let error = exchange.context.error.as_deref();
    if truncated.is_none() && (status < 500 || logged.is_none() && error.is_none()) {
        return;
    }
    recorder.failures().note(exchange.worker.index, |failure| {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        failure.status = status;
        failure.method = original_method(exchange).as_str().to_owned();
        failure.host = text(&exchange.req.host);
        let path = exchange.req.target.split(|byte| *byte == b'?').next();
        failure.path = text(path.unwrap_or_default());
        failure.error = match (truncated, logged) {
            (Some(truncated), _) => truncated.to_string(),
            (None, Some(reason)) => reason.text.to_string(),
            (None, None) => error.map_or_else(String::new, |error| error.message.clone()),
        };
        failure.id = match &exchange.context.request_id {
            Some(id) => id.as_str().to_owned(),
            None => error.map_or_else(String::new, |error| error.id.clone()),
        };
        failure.upstream = exchange.context.upstream.address.clone();
    });
}

/// Logs the end of a subrequest, if handlers have asked for that. It is not counted.
pub fn end_subrequest(exchange: &mut Exchange) {
    if !exchange.context.dialect.is_subrequest() || exchange.context.log.late.is_empty() {
        return;
    }
    exchange.context.log.is_complete = true;
    for late in std::mem::take(&mut exchange.context.log.late)
        .into_iter()
        .rev()
    {
        late.add(exchange);
    }
}

/// Logs why a request failed; this is never shown to clients.
fn log_error(
    log: &Log,
    exchange: &Exchange,
    completion: &Completion,
    status: u16,
    access: Option<&AccessLog>,
) {
    let level = if status >= 500 || status == 0 {
        Level::Error
    } else {
        Level::Debug
    };
    let plan = log.plan();
    let write = |name: &str| {
        let logger = match name {
            "" => ERRORS.to_owned(),
            name => format!("{ERRORS}.{name}"),
        };
        let route = plan.route(&logger);
        if route.takes(level) {
            let head = Head {
                severity: level.into(),
                logger: &logger,
                message: "request failed",
                caller: std::panic::Location::caller(),
            };
            write_error(exchange, completion, status, &route, &head, access);
        }
    };
    // The logger names are the same as those of the access log entry.
    match (exchange.context.log.names.as_slice(), access) {
        ([], None) => write(""),
        ([], Some(access)) => access.names_for(&exchange.req.host).for_each(write),
        (names, _) => names.iter().for_each(|name| write(name)),
    }
}

fn write_error(
    exchange: &Exchange,
    completion: &Completion,
    status: u16,
    route: &Route,
    head: &Head<'_>,
    access: Option<&AccessLog>,
) {
    let facts = facts(exchange, completion, status);
    let reason = exchange.context.log.error.as_ref();
    let message = reason.map_or("", |reason| &*reason.text);
    let id = exchange
        .context
        .error
        .as_ref()
        .map_or("", |error| &error.id);
    let credentials = access.map_or(Credentials::Hidden, AccessLog::credentials);
    let mut line = Vec::new();
    route.write(&mut line, SystemTime::now(), head, |fields| {
        fields.text("error", message.as_bytes());
        add_request(fields, &facts, credentials);
        fields.duration("duration", facts.duration);
        fields.integer("status", u64::from(status));
        fields.text("err_id", id.as_bytes());
        if let Some(id) = &exchange.context.request_id {
            fields.text("request_id", id.as_str().as_bytes());
        }
    });
}

/// A message about a request in progress, in nginx's wording.
pub struct Remark<'a> {
    /// The logger name.
    pub logger: &'a str,
    /// How serious it is.
    pub severity: Severity,
    /// The message.
    pub message: &'a str,
    /// The name of the virtual server.
    pub server: &'a str,
    /// The connection number.
    pub connection: u64,
    /// The upstream concerned; empty if there is none.
    pub upstream: &'a str,
}

/// Logs the message.
pub fn log_remark(log: &Log, exchange: &Exchange, remark: &Remark<'_>) {
    let route = log.plan().route(remark.logger);
    if !route.takes(remark.severity.level()) {
        return;
    }
    let head = Head {
        severity: remark.severity,
        logger: remark.logger,
        message: "request",
        caller: std::panic::Location::caller(),
    };
    let completion = Completion {
        ending: Ending::Complete,
        body_bytes_sent: 0,
        bytes_sent: 0,
        head_bytes_sent: 0,
        body_bytes_read: 0,
        duration: Duration::ZERO,
    };
    let facts = facts(exchange, &completion, exchange.res.status.code());
    let mut line = Vec::new();
    route.write(&mut line, SystemTime::now(), &head, |fields| {
        fields.text("error", remark.message.as_bytes());
        fields.integer("connection", remark.connection);
        fields.text("server", remark.server.as_bytes());
        add_request(fields, &facts, Credentials::Hidden);
        if !remark.upstream.is_empty() {
            fields.text("upstream", remark.upstream.as_bytes());
        }
        if let Some(id) = &exchange.context.request_id {
            fields.text("request_id", id.as_str().as_bytes());
        }
    });
}

const ERRORS: &str = "http.log.error";

fn facts<'a>(exchange: &'a Exchange, completion: &Completion, status: u16) -> RequestFacts<'a> {
    RequestFacts {
        remote: exchange.conn.remote,
        client_ip: exchange.context.client_ip,
        protocol: exchange.req.version.as_str(),
        method: original_method(exchange).as_str(),
        authority: &exchange.req.authority,
        host: &exchange.req.host,
        target: &exchange.req.target,
        fields: &exchange.req.fields,
        tls: exchange.conn.tls.as_deref(),
        bytes_read: completion.body_bytes_read,
        user: exchange.context.log.user.as_deref().unwrap_or_default(),
        duration: completion.duration,
        size: completion.body_bytes_sent,
        status,
        response_fields: &exchange.res.fields,
        extra: &exchange.context.log.fields,
        level: exchange.context.log.level,
        timings: exchange
            .came
            .responded
            .map(|_| timings(exchange, completion)),
    }
}

/// How long the stages of the request took.
fn timings(exchange: &Exchange, completion: &Completion) -> Timings {
    let conn = &exchange.conn.facts;
    let ended = exchange.started + completion.duration;
    let ready = exchange.came.responded.unwrap_or(ended);
    let facts = exchange.context.upstream.facts.as_ref();
    let last = facts.and_then(|facts| facts.tries.last());
    let body = last.and_then(|last| {
        let (ended, responded) = (last.body.ended.get()?, last.responded?);
        Some(ended.saturating_sub(responded))
    });
    Timings {
        handshake: (exchange.conn.tls.is_some() && conn.requests.get() == 1)
            .then_some(conn.handshake),
        idle: exchange.came.idle,
        head: exchange.came.head_time,
        queue: exchange.context.log.queued,
        connect: last.and_then(|last| last.connected),
        upstream_head: last.and_then(|last| {
            let responded = last.responded?;
            Some(responded.saturating_sub(last.connected.unwrap_or_default()))
        }),
        upstream_body: body,
        handling: ready.since(exchange.started),
        sending: ended.since(ready),
    }
}

/// Notes that a handler has held the request back since `began`.
pub fn held_since(exchange: &mut Exchange, began: sluice_message::Moment) {
    exchange.context.log.queued += sluice_net::clock::now().since(began);
}

/// The method as the client sent it.
fn original_method(exchange: &Exchange) -> &Method {
    let original = exchange.context.original_method.as_deref();
    original.unwrap_or(&exchange.req.method)
}
