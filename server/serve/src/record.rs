//! Exactly one log line and one count for each request, failed ones included. Which logs there are is left to `log`,
//! showing the counts to the control interface.

use std::cell::RefCell;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use sluice_cache::store::Stores;
use sluice_net::{Completion, Ending};

use crate::context::Exchange;
use crate::handlers::nginx::limit_conn::Zones as ConnectionZones;
use crate::handlers::rate_limit::Zones;
use crate::log::{AccessLog, Credentials, Head, Level, Log, RequestFacts, Route, add_request};
use crate::metrics::{Hub, PushSettings, Pusher, SiteMetrics};
use crate::tracing::{Exporter, Settings};

/// Counts and logs requests. One for the whole process: it outlives configurations.
#[derive(Debug)]
pub struct Recorder {
    log: Log,
    hub: Arc<Hub>,
    exporter: Mutex<Option<Arc<Exporter>>>,
    zones: Zones,
    stores: Stores,
    connection_zones: ConnectionZones,
    pusher: Mutex<Option<Pusher>>,
    workers: Box<[Counts]>,
}

/// The counts of one worker. Only that worker writes them, so an addition is a load and a store; each stands on its
/// own cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Counts {
    started: AtomicU64,
    /// Answers by the first digit of their status; 0 counts requests that got none.
    ended: [AtomicU64; CLASSES],
    failed: AtomicU64,
    bytes_sent: AtomicU64,
    bytes_read: AtomicU64,
}

/// First digits of statuses, 0 for none. Statuses from 600 up count as 5xx: no client knows them as anything else.
const CLASSES: usize = 6;

/// Counts of all workers, added up at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Requests that a service began to answer.
    pub started: u64,
    /// Requests that ended, by the first digit of the status; 0 counts those without an answer.
    pub ended: [u64; CLASSES],
    /// Of those, answers that did not reach the client whole.
    pub failed: u64,
    /// Bytes of response bodies.
    pub bytes_sent: u64,
    /// Bytes of requests' bodies.
    pub bytes_read: u64,
}

impl Totals {
    /// Requests in flight.
    pub fn in_flight(&self) -> u64 {
        self.started.saturating_sub(self.ended.iter().sum())
    }
}

/// A worker's memory for the line it writes.
#[derive(Default)]
struct LineScratch(RefCell<Vec<u8>>);

impl Recorder {
    /// Counts of zero for so many workers.
    pub fn new(log: Log, workers: usize) -> Recorder {
        Recorder {
            log,
            hub: Arc::default(),
            exporter: Mutex::default(),
            zones: Zones::default(),
            stores: Stores::default(),
            connection_zones: ConnectionZones::default(),
            pusher: Mutex::default(),
            workers: (0..workers).map(|_| Counts::default()).collect(),
        }
    }

    /// Where entries go.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Where everything that is counted can be read.
    pub fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    /// The zones of rate limits that are in use.
    pub fn zones(&self) -> &Zones {
        &self.zones
    }

    /// The stores of answers that are in use.
    pub fn stores(&self) -> &Stores {
        &self.stores
    }

    /// The zones that count requests in progress for an nginx.conf.
    pub fn connection_zones(&self) -> &ConnectionZones {
        &self.connection_zones
    }

    /// What sends spans of traces away; started when it is first asked for. The error says what is wrong with the
    /// environment.
    pub fn exporter(&self) -> Result<Arc<Exporter>, String> {
        let mut exporter = self.exporter.lock().expect(NEVER_POISONED);
        if let Some(exporter) = &*exporter {
            return Ok(exporter.clone());
        }
        let settings = Settings::read(|name| std::env::var(name).ok())?;
        let started = Exporter::start(settings, self.hub.clone(), self.log.clone());
        let started = started.map_err(|error| format!("a thread cannot be started: {error}"))?;
        Ok(exporter.insert(started).clone())
    }

    /// Sends metrics to a collector from now on, or to none. One that they are sent to already stays: the environment
    /// of a process does not change.
    pub fn push_metrics(self: &Arc<Self>, settings: Option<PushSettings>) -> io::Result<()> {
        let mut pusher = self.pusher.lock().expect(NEVER_POISONED);
        match settings {
            None => *pusher = None,
            Some(_) if pusher.is_some() => {}
            Some(settings) => *pusher = Some(Pusher::start(settings, self)?),
        }
        Ok(())
    }

    /// Sends the metrics and the spans that wait, waiting at most `patience` for each.
    pub fn finish_exports(&self, patience: Duration) {
        let pusher = self.pusher.lock().expect(NEVER_POISONED).take();
        if let Some(pusher) = pusher {
            pusher.finish(patience);
        }
        let exporter = self.exporter.lock().expect(NEVER_POISONED).take();
        if let Some(exporter) = exporter {
            exporter.finish(patience);
        }
    }

    /// Counts the start of a request on the worker with this number.
    pub fn begin(&self, worker: usize) {
        if let Some(counts) = self.workers.get(worker) {
            add(&counts.started, 1);
        }
    }

    /// Counts and logs a request that has ended. To be called once for each [`Recorder::begin`].
    pub fn end(
        &self,
        x: &mut Exchange,
        completion: &Completion,
        access: Option<&AccessLog>,
        metrics: Option<&SiteMetrics>,
    ) {
        let aborted = matches!(completion.ending, Ending::Aborted);
        let status = if aborted { 0 } else { x.res.status.code() };
        if let Some(counts) = self.workers.get(x.worker.index) {
            counts.end(status, completion);
        }
        if let Some(metrics) = metrics {
            metrics.leave(x, completion, status);
        }
        if x.context.log.trace.is_some()
            && let Some(span) = x.context.log.trace.take()
        {
            span.end(x, status, completion.body_bytes_sent);
        }
        if x.context.log.error.is_some() && !x.context.log.is_told {
            self.log_error(x, completion, status, access);
        }
        if let Some(access) = access.filter(|_| !x.context.log.skip) {
            if !x.context.log.late.is_empty() {
                x.context.log.body_bytes_sent = completion.body_bytes_sent;
                x.context.log.body_bytes_read = completion.body_bytes_read;
                x.context.log.bytes_sent = completion.bytes_sent;
                x.context.log.head_bytes_sent = completion.head_bytes_sent;
                x.context.log.is_complete = matches!(completion.ending, Ending::Complete);
                // As the directives are nested in Caddy: the last one says its word first.
                for late in std::mem::take(&mut x.context.log.late).into_iter().rev() {
                    late.add(x);
                }
            }
            let scratch = x.worker.local::<LineScratch>();
            let line = &mut *scratch.0.borrow_mut();
            let facts = facts(x, completion, status);
            access.write(&facts, &x.context.log.names, || self.log.plan(), line);
        }
    }

    /// What was counted so far.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for counts in &self.workers {
            // Ended ones are read first, so that no request seems to have ended before it began.
            for (total, ended) in totals.ended.iter_mut().zip(&counts.ended) {
                *total += ended.load(Ordering::Acquire);
            }
            totals.started += counts.started.load(Ordering::Acquire);
            totals.failed += counts.failed.load(Ordering::Relaxed);
            totals.bytes_sent += counts.bytes_sent.load(Ordering::Relaxed);
            totals.bytes_read += counts.bytes_read.load(Ordering::Relaxed);
        }
        totals
    }

    /// The entry that says why a request failed; clients are never told.
    fn log_error(
        &self,
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
        let plan = self.log.plan();
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
        // The loggers are called like those that take the request itself.
        match (x.context.log.names.as_slice(), access) {
            ([], None) => write(""),
            ([], Some(access)) => access.names_for(&x.req.host).for_each(write),
            (names, _) => names.iter().for_each(|name| write(name)),
        }
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

/// Something that is told of a request while it is served, in the words of nginx.
pub(crate) struct Remark<'a> {
    /// What a log takes it from.
    pub(crate) logger: &'a str,
    pub(crate) level: Level,
    pub(crate) message: &'a str,
    /// The name of the virtual server.
    pub(crate) server: &'a str,
    /// The number of the connection.
    pub(crate) connection: u64,
    /// The upstream that it is about; empty for none.
    pub(crate) upstream: &'a str,
}

/// Tells it.
pub(crate) fn tell(log: &Log, x: &Exchange, remark: &Remark<'_>) {
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

const NEVER_POISONED: &str = "nothing panics while it starts the exporter";

const ERRORS: &str = "http.log.error";

impl Counts {
    fn end(&self, status: u16, completion: &Completion) {
        let class = (usize::from(status) / 100).min(CLASSES - 1);
        if matches!(completion.ending, Ending::Failed(_)) {
            add(&self.failed, 1);
        }
        add(&self.bytes_sent, completion.body_bytes_sent);
        add(&self.bytes_read, completion.body_bytes_read);
        add(&self.ended[class], 1);
    }
}

fn add(count: &AtomicU64, more: u64) {
    count.store(
        count.load(Ordering::Relaxed).wrapping_add(more),
        Ordering::Release,
    );
}

fn facts<'a>(x: &'a Exchange, completion: &Completion, status: u16) -> RequestFacts<'a> {
    RequestFacts {
        remote: x.conn.remote,
        client_ip: x.context.client_ip,
        protocol: x.req.version.as_str(),
        method: x
            .context
            .original_method
            .as_deref()
            .unwrap_or(&x.req.method)
            .as_str(),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn completion(ending: Ending) -> Completion {
        Completion {
            ending,
            body_bytes_sent: 10,
            bytes_sent: 60,
            head_bytes_sent: 50,
            body_bytes_read: 2,
            duration: Duration::from_millis(1),
        }
    }

    #[test]
    fn counts_of_all_workers_are_added_up() {
        let recorder = Recorder::new(Log::silent(), 2);
        recorder.begin(0);
        recorder.begin(1);
        recorder.begin(1);
        recorder.begin(9);
        recorder.workers[0].end(200, &completion(Ending::Complete));
        recorder.workers[1].end(0, &completion(Ending::Aborted));
        let totals = recorder.totals();
        assert_eq!(totals.in_flight(), 1);
        assert_eq!(totals.ended, [1, 0, 1, 0, 0, 0]);
        assert_eq!((totals.bytes_sent, totals.bytes_read), (20, 4));
    }

    #[test]
    fn the_counts_of_workers_share_no_cache_line() {
        assert_eq!(align_of::<Counts>(), 128);
        assert_eq!(size_of::<[Counts; 2]>() % 128, 0);
    }
}
