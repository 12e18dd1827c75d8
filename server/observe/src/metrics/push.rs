//! Pushes metrics to a collector: OTLP over HTTP, every minute and at shutdown, on a thread of its own. `otlp` encodes
//! the message; environment variables configure the destination, as for traces.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::limits::METRICS_INTERVAL;
use crate::recorder::Recorder;
use crate::tracing::limits::EXPORT_NOTICE_PAUSE;
use crate::tracing::{CollectorClient, Destination, Signal};

/// The settings from the environment.
#[derive(Clone, Debug, PartialEq)]
pub struct PushSettings {
    destination: Destination,
    interval: Duration,
}

impl PushSettings {
    /// Reads OpenTelemetry's environment variables. The error names the invalid one.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<PushSettings, String> {
        let destination = Destination::read(&variable, Signal::Metrics)?;
        let interval = match variable("OTEL_METRIC_EXPORT_INTERVAL") {
            None => METRICS_INTERVAL,
            Some(text) => match text.trim().parse() {
                Ok(millis @ 1..) => Duration::from_millis(millis),
                Ok(0) | Err(_) => {
                    let what = "a number of milliseconds above 0";
                    return Err(format!(
                        "OTEL_METRIC_EXPORT_INTERVAL is `{text}`, not {what}"
                    ));
                }
            },
        };
        Ok(PushSettings {
            destination,
            interval,
        })
    }
}

/// The handle to the thread. Dropping it ends the thread without a last export.
#[derive(Debug)]
pub struct Pusher {
    ending: Arc<Ending>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Ending {
    how: Mutex<Option<Last>>,
    woken: Condvar,
}

/// Whether to export at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last {
    Message,
    Nothing,
}

impl Pusher {
    /// Starts the thread, if a destination is configured.
    pub fn start(settings: PushSettings, recorder: &Arc<Recorder>) -> io::Result<Pusher> {
        let ending = Arc::<Ending>::default();
        let thread = match settings.destination.collector.clone() {
            None => None,
            Some(collector) => {
                let (shared, recorder) = (ending.clone(), Arc::downgrade(recorder));
                let work = move || {
                    let client = CollectorClient::new(collector, settings.destination.timeout);
                    shared.work(&settings, &client, &recorder);
                };
                let named = thread::Builder::new().name("metrics-export".into());
                Some(named.spawn(work)?)
            }
        };
        Ok(Pusher { ending, thread })
    }

    /// Exports a last time and ends the thread, with a timeout of `timeout`.
    pub fn finish(mut self, timeout: Duration) {
        self.ending.end_with(Last::Message);
        let until = Instant::now() + timeout;
        if let Some(thread) = self.thread.take() {
            while !thread.is_finished() && Instant::now() < until {
                thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

impl Drop for Pusher {
    fn drop(&mut self) {
        self.ending.end_with(Last::Nothing);
    }
}

impl Ending {
    fn end_with(&self, last: Last) {
        lock(&self.how).get_or_insert(last);
        self.woken.notify_one();
    }

    fn work(&self, settings: &PushSettings, client: &CollectorClient, recorder: &Weak<Recorder>) {
        let mut reported: Option<Instant> = None;
        loop {
            let how = lock(&self.how);
            let waits = |how: &mut Option<Last>| how.is_none();
            let waited = self.woken.wait_timeout_while(how, settings.interval, waits);
            let how = *waited.expect(NEVER_POISONED).0;
            let Some(recorder) = recorder.upgrade().filter(|_| how != Some(Last::Nothing)) else {
                return;
            };
            let message = super::page::message(&recorder, &settings.destination.resource);
            let failed = match client.post(&message) {
                Ok(200..=299) => None,
                Ok(status) => Some(format!("status {status}")),
                Err(error) => Some(error),
            };
            // Values are cumulative, so the next export makes up for this one.
            let due = reported.is_none_or(|reported| reported.elapsed() >= EXPORT_NOTICE_PAUSE);
            if let Some(error) = failed.filter(|_| due) {
                reported = Some(Instant::now());
                recorder
                    .log()
                    .warn("http.metrics", "the collector took no metrics")
                    .text("collector", &client.collector.address)
                    .text("error", error)
                    .send();
            }
            if how.is_some() {
                return;
            }
        }
    }
}

const NEVER_POISONED: &str = "nothing panics while it holds the word of the end";

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect(NEVER_POISONED)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<PushSettings, String> {
        PushSettings::read(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| value.to_string())
        })
    }

    #[test]
    fn variables_for_metrics_come_before_those_for_everything() {
        let settings = read(&[]).expect("nothing is wrong");
        assert_eq!(settings.interval, METRICS_INTERVAL);
        let collector = settings.destination.collector.expect("a collector");
        assert_eq!(
            (collector.address.as_str(), collector.path.as_str()),
            ("localhost:4318", "/v1/metrics")
        );
        let settings = read(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://all:1"),
            ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://own:2/here"),
            ("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "70"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "250"),
        ])
        .expect("nothing is wrong");
        assert_eq!(settings.interval, Duration::from_millis(250));
        assert_eq!(settings.destination.timeout, Duration::from_millis(70));
        let collector = settings.destination.collector.expect("a collector");
        assert_eq!(
            (collector.address.as_str(), collector.path.as_str()),
            ("own:2", "/here")
        );
        let none = read(&[("OTEL_METRICS_EXPORTER", "none")]).expect("nothing is wrong");
        assert_eq!(none.destination.collector, None);
    }

    #[test]
    fn what_cannot_be_done_is_refused() {
        for (name, value) in [
            ("OTEL_METRIC_EXPORT_INTERVAL", "soon"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "0"),
            ("OTEL_METRICS_EXPORTER", "prometheus"),
            ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "grpc"),
        ] {
            assert!(read(&[(name, value)]).is_err(), "{name}={value}");
        }
    }
}
