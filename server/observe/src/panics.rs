//! Reports panics in the log. A panic ends one request; logging it must not take down the server. Therefore the number
//! and the size of log lines are limited, and only the first panic at each location has a backtrace.

use std::backtrace::Backtrace;
use std::collections::HashSet;
use std::fmt;
use std::panic::{self, PanicHookInfo};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use crate::limits::{
    PANIC_BACKTRACE_BYTES_MAX, PANIC_LINES_MAX, PANIC_LINES_PERIOD, PANIC_MESSAGE_BYTES_MAX,
    PANIC_PLACES_MAX,
};
use crate::log::Log;

/// The logger name for panics.
const LOGGER: &str = "panic";

/// Number of panics in this process, in any thread.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// The number of panics in this process.
pub fn count() -> u64 {
    COUNT.load(Ordering::Relaxed)
}

/// Installs a panic hook that reports panics to `log`. The main thread, whose panic ends the process, reports to stderr
/// as well.
///
/// A dedicated thread writes the lines, because the panicking thread may hold a lock that the log needs.
///
/// # Errors
/// The thread cannot be started.
pub fn report_to(log: Log) -> std::io::Result<()> {
    let (sender, reports) = sync_channel(PANIC_LINES_MAX as usize);
    thread::Builder::new()
        .name("panics".into())
        .spawn(move || write_all(&log, &reports))?;
    let bounds = Mutex::new(Bounds::default());
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        COUNT.fetch_add(1, Ordering::Relaxed);
        if thread::current().name() == Some("main") {
            before(info);
        }
        note(info, &bounds, &sender);
    }));
    Ok(())
}

fn note(info: &PanicHookInfo<'_>, bounds: &Mutex<Bounds>, sender: &SyncSender<Report>) {
    let place = info.location().map(Place::of).unwrap_or_default();
    let verdict = {
        let mut bounds = bounds.lock().unwrap_or_else(PoisonError::into_inner);
        bounds.note(&place, Instant::now())
    };
    let Some(verdict) = verdict else {
        return;
    };
    let payload = info.payload_as_str().unwrap_or("a value that is not text");
    let report = Report {
        message: cut(payload, PANIC_MESSAGE_BYTES_MAX).to_owned(),
        place,
        thread: thread::current().name().unwrap_or_default().to_owned(),
        backtrace: verdict.is_first.then(|| {
            let text = Backtrace::force_capture().to_string();
            cut(&text, PANIC_BACKTRACE_BYTES_MAX).to_owned()
        }),
        suppressed: verdict.suppressed,
    };
    // The channel has room for all lines of a period, so it is full only if the log is stuck.
    if let Err(TrySendError::Full(report) | TrySendError::Disconnected(report)) =
        sender.try_send(report)
    {
        let mut bounds = bounds.lock().unwrap_or_else(PoisonError::into_inner);
        bounds.suppressed += report.suppressed + 1;
    }
}

fn write_all(log: &Log, reports: &Receiver<Report>) {
    for report in reports {
        let entry = log
            .error(LOGGER, "a panic ended a request or a task")
            .text("message", &report.message)
            .shown("place", &report.place)
            .text("thread", &report.thread);
        let entry = match report.suppressed {
            0 => entry,
            suppressed => entry.integer("suppressed", suppressed),
        };
        match &report.backtrace {
            Some(backtrace) => entry.text("backtrace", backtrace).send(),
            None => entry.send(),
        }
    }
}

/// The longest prefix of a text with at most `bytes_max` bytes.
fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

/// A panic to log.
struct Report {
    message: String,
    place: Place,
    thread: String,
    /// The backtrace, for the first panic at a location.
    backtrace: Option<String>,
    /// Panics since the previous line that were not logged.
    suppressed: u64,
}

/// The location of a panic.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Place {
    file: String,
    line: u32,
}

impl Place {
    fn of(location: &panic::Location<'_>) -> Place {
        Place {
            file: location.file().to_owned(),
            line: location.line(),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// Decides which panics are logged.
#[derive(Debug, Default)]
struct Bounds {
    /// The start of the current period, and the lines in it.
    begun: Option<Instant>,
    lines: u32,
    /// Panics that were not logged since the last one that was.
    suppressed: u64,
    places: HashSet<Place>,
}

/// What to log about a panic.
#[derive(Debug, PartialEq, Eq)]
struct Verdict {
    is_first: bool,
    suppressed: u64,
}

impl Bounds {
    fn note(&mut self, place: &Place, now: Instant) -> Option<Verdict> {
        let is_over = |begun| now.saturating_duration_since(begun) >= PANIC_LINES_PERIOD;
        if self.begun.is_none_or(is_over) {
            (self.begun, self.lines) = (Some(now), 0);
        }
        if self.lines >= PANIC_LINES_MAX {
            self.suppressed += 1;
            return None;
        }
        self.lines += 1;
        let has_room = self.places.len() < PANIC_PLACES_MAX;
        let is_first = has_room && self.places.insert(place.clone());
        Some(Verdict {
            is_first,
            suppressed: std::mem::take(&mut self.suppressed),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(line: u32) -> Place {
        Place {
            file: "a.rs".into(),
            line,
        }
    }

    #[test]
    fn a_flood_of_panics_gets_a_few_lines_in_a_period_and_its_rest_is_counted() {
        let mut bounds = Bounds::default();
        let start = Instant::now();
        let mut lines = 0;
        for _ in 0..100_000 {
            lines += u32::from(bounds.note(&place(1), start).is_some());
        }
        assert_eq!(lines, PANIC_LINES_MAX);
        let next = bounds.note(&place(1), start + PANIC_LINES_PERIOD);
        let suppressed = 100_000 - u64::from(PANIC_LINES_MAX);
        let expected = Verdict {
            is_first: false,
            suppressed,
        };
        assert_eq!(next, Some(expected));
        let after = bounds.note(&place(1), start + PANIC_LINES_PERIOD);
        assert_eq!(after.map(|verdict| verdict.suppressed), Some(0));
    }

    #[test]
    fn only_the_first_panic_of_a_place_shows_how_the_program_came_there() {
        let mut bounds = Bounds::default();
        let mut now = Instant::now();
        for round in 0..2 {
            for line in 0..2 * PANIC_PLACES_MAX as u32 {
                now += PANIC_LINES_PERIOD;
                let verdict = bounds.note(&place(line), now).expect("a period has begun");
                let expected = round == 0 && line < PANIC_PLACES_MAX as u32;
                assert_eq!(verdict.is_first, expected, "round {round}, line {line}");
            }
        }
        assert_eq!(bounds.places.len(), PANIC_PLACES_MAX);
    }

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(cut("aé", 1), "a");
        assert_eq!(cut("aé", 2), "a");
        assert_eq!(cut("aé", 3), "aé");
        assert_eq!(cut("aé", 99), "aé");
    }
}
