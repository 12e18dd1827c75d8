//! Exactly one log line and one count for each request, failed ones included. Which logs and counts there are is left to
//! `sluice-observe`.

use std::cell::RefCell;
use std::time::{Duration, SystemTime};

use sluice_message::Method;
use sluice_net::{Completion, Ending};
use sluice_observe::Recorder;
use sluice_observe::log::{
    AccessLog, Credentials, Head, Level, Log, RequestFacts, Route, add_request,
};
use sluice_observe::metrics::SiteMetrics;
use sluice_observe::tracing::Ended;

use crate::context::Exchange;

/// A worker's buffer for log lines.
#[derive(Default)]
struct LineScratch(RefCell<Vec<u8>>);

/// Counts and logs the end of a request. Call it once for each [`Recorder::begin`].
pub fn end(
    recorder: &Recorder,
    x: &mut Exchange,
    completion: &Completion,
    access: Option<&AccessLog>,
    metrics: Option<&SiteMetrics>,
) {
    let aborted = matches!(completion.ending, Ending::Aborted);
    let status = if aborted { 0 } else { x.res.status.code() };
    recorder.end(x.worker.index, status, completion);
    if let Some(metrics) = metrics {
        let failed = x.context.log.error.is_some();
        metrics.leave(x, x.context.metrics, (completion, status), failed);
    }
    if x.context.log.trace.is_some()
        && let Some(span) = x.context.log.trace.take()
    {
        let ended = Ended {
            method: original_method(x),
            client_ip: x.context.client_ip,
            status,
            body_bytes_sent: completion.body_bytes_sent,
        };
        span.end(x, ended);
    }
    if x.context.log.error.is_some() && !x.context.log.is_told {
        log_error(recorder.log(), x, completion, status, access);
    }
    if let Some(access) = access.filter(|_| !x.context.log.skip) {
        if !x.context.log.late.is_empty() {
            x.context.log.body_bytes_sent = completion.body_bytes_sent;
            x.context.log.body_bytes_read = completion.body_bytes_read;
            x.context.log.bytes_sent = completion.bytes_sent;
            x.context.log.head_bytes_sent = completion.head_bytes_sent;
            x.context.log.is_complete = matches!(completion.ending, Ending::Complete);
            // As with Caddy's nested handlers, the last directive adds its fields first.
            for late in std::mem::take(&mut x.context.log.late).into_iter().rev() {
                late.add(x);
            }
        }
        let scratch = x.worker.local::<LineScratch>();
        let line = &mut *scratch.0.borrow_mut();
        let facts = facts(x, completion, status);
        access.write(&facts, &x.context.log.names, || recorder.log().plan(), line);
    }
}

/// Logs why a request failed; this is never shown to clients.
fn log_error(
    log: &Log,
    x: &Exchange,
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
                level,
                logger: &logger,
                message: "request failed",
                caller: std::panic::Location::caller(),
            };
            write_error(x, completion, status, &route, &head, access);
        }
    };
    // The logger names are the same as those of the access log entry.
    match (x.context.log.names.as_slice(), access) {
        ([], None) => write(""),
        ([], Some(access)) => access.names_for(&x.req.host).for_each(write),
        (names, _) => names.iter().for_each(|name| write(name)),
    }
}

fn write_error(
    x: &Exchange,
    completion: &Completion,
    status: u16,
    route: &Route,
    head: &Head<'_>,
    access: Option<&AccessLog>,
) {
    let facts = facts(x, completion, status);
    let message = x.context.log.error.as_deref().unwrap_or_default();
    let id = x.context.error.as_ref().map_or("", |error| &error.id);
    let credentials = access.map_or(Credentials::Hidden, AccessLog::credentials);
    let mut line = Vec::new();
    route.write(&mut line, SystemTime::now(), head, |fields| {
        fields.text("error", message.as_bytes());
        add_request(fields, &facts, credentials);
        fields.duration("duration", facts.duration);
        fields.integer("status", u64::from(status));
        fields.text("err_id", id.as_bytes());
    });
}

/// A message about a request in progress, in nginx's wording.
pub struct Remark<'a> {
    /// The logger name.
    pub logger: &'a str,
    /// The log level.
    pub level: Level,
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
pub fn tell(log: &Log, x: &Exchange, remark: &Remark<'_>) {
    let route = log.plan().route(remark.logger);
    if !route.takes(remark.level) {
        return;
    }
    let head = Head {
        level: remark.level,
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
    let facts = facts(x, &completion, x.res.status.code());
    let mut line = Vec::new();
    route.write(&mut line, SystemTime::now(), &head, |fields| {
        fields.text("error", remark.message.as_bytes());
        fields.integer("connection", remark.connection);
        fields.text("server", remark.server.as_bytes());
        add_request(fields, &facts, Credentials::Hidden);
        if !remark.upstream.is_empty() {
            fields.text("upstream", remark.upstream.as_bytes());
        }
    });
}

const ERRORS: &str = "http.log.error";

fn facts<'a>(x: &'a Exchange, completion: &Completion, status: u16) -> RequestFacts<'a> {
    RequestFacts {
        remote: x.conn.remote,
        client_ip: x.context.client_ip,
        protocol: x.req.version.as_str(),
        method: original_method(x).as_str(),
        authority: &x.req.authority,
        host: &x.req.host,
        target: &x.req.target,
        fields: &x.req.fields,
        tls: x.conn.tls.as_deref(),
        bytes_read: completion.body_bytes_read,
        user: x.context.log.user.as_deref().unwrap_or_default(),
        duration: completion.duration,
        size: completion.body_bytes_sent,
        status,
        answer_fields: &x.res.fields,
        extra: &x.context.log.fields,
    }
}

/// The method as the client sent it.
fn original_method(x: &Exchange) -> &Method {
    let original = x.context.original_method.as_deref();
    original.unwrap_or(&x.req.method)
}
