//! Exports spans to a collector: OTLP over HTTP, on a thread of its own with a bounded queue. Ending a span never
//! blocks.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::limits::{
    ANSWER_BYTES_MAX, EXPORT_ATTEMPTS_MAX, EXPORT_NOTICE_PAUSE, EXPORT_PAUSE, SPANS_BATCH_MAX,
    SPANS_QUEUED_MAX,
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
            let work = move || shared.work(&collector, &log);
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

    /// Exports pending spans and ends the thread, with a timeout of `patience`.
    pub fn finish(&self, patience: Duration) {
        lock(&self.queue).finishing = true;
        self.woken.notify_one();
        let until = Instant::now() + patience;
        if let Some(thread) = lock(&self.thread).take() {
            while !thread.is_finished() && Instant::now() < until {
                thread::sleep(Duration::from_millis(1));
            }
        }
    }

    fn work(&self, collector: &Collector, log: &Log) {
        let mut told = None;
        loop {
            let (batch, finishing) = self.next_batch();
            if !batch.is_empty() {
                let spans = batch.len() as u64;
                match self.send_patiently(collector, &self.message(&batch), finishing) {
                    Ok(()) => _ = self.hub.spans.exported.fetch_add(spans, Ordering::Relaxed),
                    Err(error) => {
                        self.hub.spans.dropped.fetch_add(spans, Ordering::Relaxed);
                        let due = |at: &Instant| at.elapsed() >= EXPORT_NOTICE_PAUSE;
                        if told.as_ref().is_none_or(due) {
                            told = Some(Instant::now());
                            log.warn("http.handlers.tracing", "the collector took no spans")
                                .text("collector", &collector.address)
                                .integer("spans", spans)
                                .shown("error", error)
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
        collector: &Collector,
        message: &[u8],
        finishing: bool,
    ) -> io::Result<()> {
        let mut attempt = 1;
        loop {
            let error = match post(collector, message, self.settings.timeout) {
                Ok(status @ 200..=299) => {
                    debug_assert!(status < 300);
                    return Ok(());
                }
                // OTLP: only these statuses are retryable.
                Ok(status @ (429 | 502 | 503 | 504)) => {
                    io::Error::other(format!("status {status}"))
                }
                Ok(status) => return Err(io::Error::other(format!("status {status}"))),
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

/// Posts a message and returns the status of the response.
pub(crate) fn post(collector: &Collector, message: &[u8], timeout: Duration) -> io::Result<u16> {
    let mut stream = dial(&collector.address, timeout)?;
    stream.set_write_timeout(Some(timeout))?;
    stream.set_read_timeout(Some(timeout))?;
    let mut head = format!(
        "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/x-protobuf\r\nContent-Length: {}\r\n\
         Connection: close\r\n",
        collector.path,
        collector.authority,
        message.len()
    );
    for (name, value) in &collector.fields {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes())?;
    stream.write_all(message)?;
    let mut answer = Vec::new();
    let mut piece = [0; 512];
    while memchr::memchr(b'\n', &answer).is_none() && answer.len() < ANSWER_BYTES_MAX {
        match stream.read(&mut piece)? {
            0 => break,
            count => answer.extend_from_slice(&piece[..count]),
        }
    }
    status_of(&answer).ok_or_else(|| io::Error::other("the response is not HTTP"))
}

fn dial(address: &str, timeout: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::other("the name has no address");
    for addr in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&addr, timeout) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn status_of(answer: &[u8]) -> Option<u16> {
    let line = answer.strip_prefix(b"HTTP/1.")?;
    std::str::from_utf8(line.get(2..5)?).ok()?.parse().ok()
}

const NEVER_POISONED: &str = "nothing panics while it holds the queue of spans";

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect(NEVER_POISONED)
}

#[cfg(test)]
mod tests {
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
        assert_eq!(status_of(b"HTTP/1.1 200 OK\r\n"), Some(200));
        assert_eq!(status_of(b"HTTP/1.0 503 Busy\r\n"), Some(503));
        assert_eq!(status_of(b"HTTP/1.1"), None);
        assert_eq!(status_of(b"nonsense"), None);
    }
}
