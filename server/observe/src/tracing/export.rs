//! Exports spans to a collector: OTLP over HTTP, on a thread of its own with a bounded queue. Ending a span never
//! blocks.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use sluice_dns::fetch::{FetchKind, FetchOptions, Fetcher};
use ureq::http::Request;

use super::limits::{
    EXPORT_ATTEMPTS_MAX, EXPORT_NOTICE_PAUSE, EXPORT_PAUSE, SPANS_BATCH_MAX, SPANS_QUEUED_MAX,
};
use super::protobuf::{push_bytes, push_text_attribute};
use super::settings::{Collector, Settings};
use crate::log::Log;
use crate::metrics::Hub;

/// The handle to the thread. There is one per process.
#[derive(Debug)]
pub struct Exporter {
    settings: Settings,
    hub: Arc<Hub>,
    queue: Mutex<Queue>,
    woken: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Queue {
    spans: Vec<Vec<u8>>,
    finishing: bool,
}

impl Exporter {
    /// Starts the thread, if a destination is configured.
    pub fn start(settings: Settings, hub: Arc<Hub>, log: Log) -> io::Result<Arc<Exporter>> {
        let exporter = Arc::new(Exporter {
            settings,
            hub,
            queue: Mutex::default(),
            woken: Condvar::new(),
            thread: Mutex::default(),
        });
        if let Some(collector) = exporter.settings.collector.clone() {
            let shared = exporter.clone();
            let work = move || {
                let client = CollectorClient::new(collector, shared.settings.timeout);
                shared.work(&client, &log);
            };
            let thread = thread::Builder::new()
                .name("trace-export".into())
                .spawn(work)?;
            *lock(&exporter.thread) = Some(thread);
        }
        Ok(exporter)
    }

    /// The tracing settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Queues an encoded span. If the queue is full it is dropped and counted.
    pub fn push(&self, span: Vec<u8>) {
        if self.settings.collector.is_none() {
            return;
        }
        let mut queue = lock(&self.queue);
        if queue.spans.len() >= SPANS_QUEUED_MAX {
            drop(queue);
            self.hub.spans.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        queue.spans.push(span);
        // The first span of a batch starts its delay; a full batch is sent at once.
        let wakes = matches!(queue.spans.len(), 1 | SPANS_BATCH_MAX);
        drop(queue);
        if wakes {
            self.woken.notify_one();
        }
    }

    /// Exports pending spans and ends the thread, with a timeout of `timeout`.
    pub fn finish(&self, timeout: Duration) {
        lock(&self.queue).finishing = true;
        self.woken.notify_one();
        let until = Instant::now() + timeout;
        if let Some(thread) = lock(&self.thread).take() {
            while !thread.is_finished() && Instant::now() < until {
                thread::sleep(Duration::from_millis(1));
            }
        }
    }

    fn work(&self, client: &CollectorClient, log: &Log) {
        let mut reported = None;
        loop {
            let (batch, finishing) = self.next_batch();
            if !batch.is_empty() {
                let spans = batch.len() as u64;
                match self.send_patiently(client, &self.message(&batch), finishing) {
                    Ok(()) => _ = self.hub.spans.exported.fetch_add(spans, Ordering::Relaxed),
                    Err(error) => {
                        self.hub.spans.dropped.fetch_add(spans, Ordering::Relaxed);
                        let due = |at: &Instant| at.elapsed() >= EXPORT_NOTICE_PAUSE;
                        if reported.as_ref().is_none_or(due) {
                            reported = Some(Instant::now());
                            log.warn("http.handlers.tracing", "the collector took no spans")
                                .text("collector", &client.collector.address)
                                .integer("spans", spans)
                                .text("error", error)
                                .send();
                        }
                    }
                }
            } else if finishing {
                return;
            }
        }
    }

    /// Waits for a full batch, or for the delay of a smaller one.
    fn next_batch(&self) -> (Vec<Vec<u8>>, bool) {
        let empty = |queue: &mut Queue| queue.spans.is_empty() && !queue.finishing;
        let queue = lock(&self.queue);
        let queue = self.woken.wait_while(queue, empty).expect(NEVER_POISONED);
        let small = |queue: &mut Queue| queue.spans.len() < SPANS_BATCH_MAX && !queue.finishing;
        let waited = self
            .woken
            .wait_timeout_while(queue, self.settings.delay, small);
        let mut queue = waited.expect(NEVER_POISONED).0;
        let count = queue.spans.len().min(SPANS_BATCH_MAX);
        (queue.spans.drain(..count).collect(), queue.finishing)
    }

    /// The message (`ExportTraceServiceRequest`) with these spans.
    fn message(&self, spans: &[Vec<u8>]) -> Vec<u8> {
        let mut resource = Vec::new();
        for (key, value) in &self.settings.resource {
            push_text_attribute(&mut resource, 1, key, value.as_bytes());
        }
        let mut scope = Vec::new();
        push_bytes(&mut scope, 1, b"sluice");
        push_bytes(&mut scope, 2, env!("CARGO_PKG_VERSION").as_bytes());
        let mut of_scope = Vec::new();
        push_bytes(&mut of_scope, 1, &scope);
        for span in spans {
            push_bytes(&mut of_scope, 2, span);
        }
        let mut of_resource = Vec::new();
        push_bytes(&mut of_resource, 1, &resource);
        push_bytes(&mut of_resource, 2, &of_scope);
        let mut message = Vec::new();
        push_bytes(&mut message, 1, &of_resource);
        message
    }

    fn send_patiently(
        &self,
        client: &CollectorClient,
        message: &[u8],
        finishing: bool,
    ) -> Result<(), String> {
        let mut attempt = 1;
        loop {
            let error = match client.post(message) {
                Ok(200..=299) => return Ok(()),
                // OTLP: only these statuses are retryable.
                Ok(status @ (429 | 502 | 503 | 504)) => format!("status {status}"),
                Ok(status) => return Err(format!("status {status}")),
                Err(error) => error,
            };
            if attempt == EXPORT_ATTEMPTS_MAX || finishing {
                return Err(error);
            }
            thread::sleep(EXPORT_PAUSE * attempt);
            attempt += 1;
        }
    }
}

/// Sends messages to a collector, over connections that stay open.
pub(crate) struct CollectorClient {
    pub(crate) collector: Collector,
    fetcher: Fetcher,
}

impl CollectorClient {
    /// A client without an open connection; an export may take as long as `timeout`.
    pub(crate) fn new(collector: Collector, timeout: Duration) -> CollectorClient {
        // A collector without TLS is nearby: no proxy leads to it, and no roots need to be read.
        let (kind, roots) = match collector.is_tls {
            true => (FetchKind::Service, None),
            false => (FetchKind::Direct, Some(Vec::new())),
        };
        let fetcher = Fetcher::new(&FetchOptions {
            kind,
            roots,
            timeout,
            redirects: 0,
            ..FetchOptions::default()
        });
        CollectorClient { collector, fetcher }
    }

    /// Posts a message and returns the status of the response.
    ///
    /// # Errors
    /// The collector cannot be reached, or does not respond with HTTP in time.
    pub(crate) fn post(&self, message: &[u8]) -> Result<u16, String> {
        let mut request =
            Request::post(self.collector.url()).header("Content-Type", "application/x-protobuf");
        for (name, value) in &self.collector.fields {
            request = request.header(name, value);
        }
        let request = request.body(message.to_vec());
        let response = self
            .fetcher
            .send(request.map_err(|error| error.to_string())?)?;
        Ok(response.status().as_u16())
    }
}

const NEVER_POISONED: &str = "nothing panics while it holds the queue of spans";

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect(NEVER_POISONED)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;
    use crate::log::Level;

    #[test]
    fn a_full_queue_drops_and_counts() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound").to_string();
        let settings = Settings::read(|name| {
            (name == "OTEL_EXPORTER_OTLP_ENDPOINT").then(|| format!("http://{address}"))
        });
        let hub = Arc::new(Hub::default());
        let log = Log::start(Level::Error).expect("threads can be started");
        let exporter = Exporter::start(settings.expect("an address"), hub.clone(), log)
            .expect("a thread can be started");
        // The collector accepts the connection and never responds: one batch is in flight, the others wait.
        let began = Instant::now();
        for _ in 0..SPANS_QUEUED_MAX + SPANS_BATCH_MAX + 10 {
            exporter.push(vec![1]);
        }
        assert!(began.elapsed() < Duration::from_secs(5), "nobody waits");
        assert!(hub.spans.dropped.load(Ordering::Relaxed) >= 10);
    }

    #[test]
    fn the_status_is_that_of_the_first_line() {
        let status_of = |response: &'static [u8]| {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
            let address = listener.local_addr().expect("bound");
            thread::spawn(move || {
                let (mut client, _) = listener.accept().expect("a client");
                let (mut request, mut piece) = (Vec::new(), [0; 1024]);
                while !request.ends_with(b"span") {
                    let count = client.read(&mut piece).expect("a request");
                    request.extend_from_slice(&piece[..count]);
                }
                client.write_all(response).expect("the client reads");
            });
            let endpoint = format!("http://{address}");
            let settings = Settings::read(|name| {
                (name == "OTEL_EXPORTER_OTLP_ENDPOINT").then(|| endpoint.clone())
            });
            let collector = settings.expect("an address").collector;
            let collector = collector.expect("spans are exported");
            CollectorClient::new(collector, Duration::from_secs(10)).post(b"span")
        };
        assert_eq!(
            status_of(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
            Ok(200)
        );
        assert_eq!(status_of(b"HTTP/1.0 503 Busy\r\n\r\n"), Ok(503));
        assert!(status_of(b"HTTP/1.1").is_err());
        assert!(status_of(b"nonsense").is_err());
    }
}
