//! Makes log entries of what an application writes to standard output or error: one for each line, with its level, and
//! one for a whole traceback. Pure: bytes and time in, entries out.

use sluice_message::Moment;

use crate::limits::{ENTRIES_BURST, ENTRIES_PER_SECOND, ENTRY_BYTES_MAX, LINE_BYTES_MAX};
use crate::notice::Level;

/// The output of one stream.
#[derive(Debug)]
pub(super) struct Lines {
    /// The level of lines that name none.
    default: Level,
    /// A line without its end.
    line: Vec<u8>,
    /// The entry that may have more lines.
    entry: Vec<u8>,
    kind: Kind,
    bucket: Bucket,
}

/// What the entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// There is none.
    Nothing,
    /// A line that may be followed by the traceback that belongs to it.
    ErrorLine,
    /// A traceback before its last line.
    Frames,
    /// A traceback after the line with the exception; another one may follow.
    Exception,
    /// Stacks of threads, as faulthandler writes them.
    Stacks,
}

/// Bounds the number of entries.
#[derive(Debug)]
struct Bucket {
    free: u32,
    filled_at: Moment,
    dropped: u64,
}

/// An entry.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub level: Level,
    pub text: String,
}

impl Lines {
    /// Reads a stream whose lines have this level unless they name another.
    pub fn new(default: Level) -> Lines {
        Lines {
            default,
            line: Vec::new(),
            entry: Vec::new(),
            kind: Kind::Nothing,
            bucket: Bucket {
                free: ENTRIES_BURST,
                filled_at: Moment::START,
                dropped: 0,
            },
        }
    }

    /// Reads bytes of the stream; complete entries go to `emit`.
    pub fn receive(&mut self, mut bytes: &[u8], now: Moment, emit: &mut dyn FnMut(Entry)) {
        while let Some(at) = bytes.iter().position(|byte| *byte == b'\n') {
            self.push(&bytes[..at]);
            bytes = &bytes[at + 1..];
            let line = std::mem::take(&mut self.line);
            self.take_line(line.strip_suffix(b"\r").unwrap_or(&line), now, emit);
            self.line = line;
            self.line.clear();
        }
        self.push(bytes);
    }

    /// Whether something waits for more.
    pub fn is_waiting(&self) -> bool {
        !self.line.is_empty() || self.kind != Kind::Nothing
    }

    /// Nothing more has come for a while, or will come.
    pub fn flush(&mut self, now: Moment, emit: &mut dyn FnMut(Entry)) {
        if !self.line.is_empty() {
            let line = std::mem::take(&mut self.line);
            self.take_line(&line, now, emit);
        }
        self.end_entry(now, emit);
    }

    fn push(&mut self, bytes: &[u8]) {
        let room = LINE_BYTES_MAX.saturating_sub(self.line.len());
        self.line.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn take_line(&mut self, line: &[u8], now: Moment, emit: &mut dyn FnMut(Entry)) {
        let next = match self.kind {
            Kind::Nothing => None,
            Kind::ErrorLine => starts_traceback(line).then_some(Kind::Frames),
            Kind::Frames => Some(match is_inner(line) {
                true => Kind::Frames,
                false => Kind::Exception,
            }),
            Kind::Exception => match (line.is_empty() || is_link(line), starts_traceback(line)) {
                (_, true) => Some(Kind::Frames),
                (true, false) => Some(Kind::Exception),
                (false, false) => None,
            },
            Kind::Stacks => (is_inner(line) || is_of_stacks(line)).then_some(Kind::Stacks),
        };
        match next {
            Some(kind) => {
                self.append(line);
                self.kind = kind;
            }
            None => {
                self.end_entry(now, emit);
                self.begin_entry(line, now, emit);
            }
        }
    }

    fn begin_entry(&mut self, line: &[u8], now: Moment, emit: &mut dyn FnMut(Entry)) {
        if line.is_empty() {
            return;
        }
        self.append(line);
        self.kind = if starts_traceback(line) {
            Kind::Frames
        } else if is_of_stacks(line) {
            Kind::Stacks
        } else {
            Kind::ErrorLine
        };
        if self.kind == Kind::ErrorLine && level_of(line) != Some(Level::Error) {
            self.end_entry(now, emit);
        }
    }

    fn append(&mut self, line: &[u8]) {
        let room = ENTRY_BYTES_MAX.saturating_sub(self.entry.len() + 1);
        if !self.entry.is_empty() && room > 0 {
            self.entry.push(b'\n');
        }
        self.entry.extend_from_slice(&line[..line.len().min(room)]);
    }

    fn end_entry(&mut self, now: Moment, emit: &mut dyn FnMut(Entry)) {
        let kind = std::mem::replace(&mut self.kind, Kind::Nothing);
        let text = String::from_utf8_lossy(&self.entry).trim_end().to_owned();
        let level = match kind {
            Kind::Nothing => return,
            Kind::ErrorLine => level_of(&self.entry).unwrap_or(self.default),
            Kind::Frames | Kind::Exception | Kind::Stacks => Level::Error,
        };
        self.entry.clear();
        if !self.bucket.take(now) {
            return;
        }
        if self.bucket.dropped > 0 {
            let dropped = std::mem::take(&mut self.bucket.dropped);
            let text = format!("{dropped} entries of the application were dropped: too many");
            emit(Entry {
                level: Level::Warn,
                text,
            });
        }
        emit(Entry { level, text });
    }
}

impl Bucket {
    /// Takes one entry's share; counts the entry if there is none.
    fn take(&mut self, now: Moment) -> bool {
        let elapsed = now.since(self.filled_at).as_millis();
        let earned = elapsed * u128::from(ENTRIES_PER_SECOND) / 1_000;
        if earned > 0 {
            let earned = u32::try_from(earned).unwrap_or(ENTRIES_BURST);
            self.free = self.free.saturating_add(earned).min(ENTRIES_BURST);
            self.filled_at = now;
        }
        match self.free.checked_sub(1) {
            Some(left) => {
                self.free = left;
                true
            }
            None => {
                self.dropped += 1;
                false
            }
        }
    }
}

fn starts_traceback(line: &[u8]) -> bool {
    let line = line.trim_ascii_start();
    let line = line.strip_prefix(b"+ Exception Group ").unwrap_or(line);
    line.starts_with(b"Traceback (most recent call last):")
}

/// Whether a line belongs to the frames before it: it is indented, or empty.
fn is_inner(line: &[u8]) -> bool {
    matches!(line.first(), None | Some(b' ' | b'\t'))
}

/// A line between two tracebacks of one chain.
fn is_link(line: &[u8]) -> bool {
    line.starts_with(b"During handling of the above exception")
        || line.starts_with(b"The above exception was the direct cause")
}

/// A line of faulthandler that is not indented.
fn is_of_stacks(line: &[u8]) -> bool {
    const STARTS: [&[u8]; 5] = [
        b"Fatal Python error:",
        b"Current thread 0x",
        b"Thread 0x",
        b"Extension modules:",
        b"Python runtime state:",
    ];
    STARTS.iter().any(|start| line.starts_with(start))
}

/// The level that a line names at its beginning, in capital letters as Python's `logging` writes it.
fn level_of(line: &[u8]) -> Option<Level> {
    /// Longer prefixes hardly have a level: a date, a time, a process, a thread and a logger fit.
    const PREFIX: usize = 96;
    let first = line.split(|byte| *byte == b'\n').next().unwrap_or(line);
    let prefix = &first[..first.len().min(PREFIX)];
    let mut words = prefix.split(|byte| !byte.is_ascii_alphanumeric());
    words.find_map(|word| match word {
        b"DEBUG" | b"TRACE" => Some(Level::Debug),
        b"INFO" | b"NOTICE" => Some(Level::Info),
        b"WARNING" | b"WARN" => Some(Level::Warn),
        b"ERROR" | b"CRITICAL" | b"FATAL" => Some(Level::Error),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// The entries of a text that arrives in pieces of this size.
    fn entries(text: &str, size: usize) -> Vec<(Level, String)> {
        let mut lines = Lines::new(Level::Warn);
        let mut all = Vec::new();
        let mut emit = |entry: Entry| all.push((entry.level, entry.text));
        for piece in text.as_bytes().chunks(size) {
            lines.receive(piece, Moment::START, &mut emit);
        }
        lines.flush(Moment::START, &mut emit);
        assert!(!lines.is_waiting());
        all
    }

    #[test]
    fn lines_have_the_level_that_they_name() {
        let text = "plain\nINFO:root:started\n2026-11-25 12:00:00,123 - app - ERROR - broken\r\n\
                    [25/Nov/2026 12:00:00] WARNING late\nDEBUGGER\n\nthe end";
        for size in [1, 7, 1000] {
            let found = entries(text, size);
            let levels: Vec<Level> = found.iter().map(|(level, _)| *level).collect();
            use Level::{Error, Info, Warn};
            assert_eq!(levels, [Warn, Info, Error, Warn, Warn, Warn]);
            assert_eq!(found[2].1, "2026-11-25 12:00:00,123 - app - ERROR - broken");
        }
    }

    const CHAIN: &str = "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\n    g()\n\
        KeyError: 1\n\nDuring handling of the above exception, another exception occurred:\n\n\
        Traceback (most recent call last):\n  File \"a.py\", line 3, in f\nValueError: x";

    #[test]
    fn a_traceback_is_one_entry_with_the_line_before_it() {
        let text = format!("INFO before\nERROR:app:failed\n{CHAIN}\nINFO after\n");
        for size in [1, 13, 10_000] {
            let found = entries(&text, size);
            assert_eq!(found.len(), 3, "{found:#?}");
            assert_eq!(
                found[1],
                (Level::Error, format!("ERROR:app:failed\n{CHAIN}"))
            );
            assert_eq!(found[2].1, "INFO after");
        }
        let found = entries(&format!("{CHAIN}\n{CHAIN}\n"), 50);
        assert!(found.iter().all(|(level, _)| *level == Level::Error));
    }

    #[test]
    fn stacks_of_faulthandler_are_one_entry() {
        let stacks = "Fatal Python error: Segmentation fault\n\nCurrent thread 0x01 (most recent call first):\n  \
                      File \"a.py\", line 1 in f\n\nThread 0x02 (most recent call first):\n  File \"b.py\", line 2 in g";
        let found = entries(&format!("{stacks}\nplain\n"), 10);
        assert_eq!(found[0], (Level::Error, stacks.to_owned()));
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn sizes_and_rates_are_bounded() {
        let found = entries(&"x".repeat(LINE_BYTES_MAX * 3), 1000);
        assert_eq!((found.len(), found[0].1.len()), (1, LINE_BYTES_MAX));
        let frames = "  File \"a.py\", line 1, in f\n".repeat(10_000);
        let found = entries(
            &format!("Traceback (most recent call last):\n{frames}E: x\n"),
            5000,
        );
        assert_eq!(found.len(), 1);
        assert!(found[0].1.len() <= ENTRY_BYTES_MAX);
        let mut lines = Lines::new(Level::Info);
        let mut all = Vec::new();
        let mut emit = |entry: Entry| all.push(entry.text);
        lines.receive("x\n".repeat(10_000).as_bytes(), Moment::START, &mut emit);
        lines.receive(b"y\n", Moment::new(Duration::from_secs(1)), &mut emit);
        assert_eq!(all.len(), ENTRIES_BURST as usize + 2);
        assert!(all[ENTRIES_BURST as usize].starts_with("6000 entries"));
        assert_eq!(all.last().map(String::as_str), Some("y"));
    }

    #[test]
    fn bytes_that_are_not_text_are_shown() {
        let mut all = Vec::new();
        let mut lines = Lines::new(Level::Info);
        let mut emit = |entry: Entry| all.push(entry.text);
        lines.receive(b"\xff\x00\n", Moment::START, &mut emit);
        assert_eq!(all, ["\u{fffd}\0"]);
    }
}
