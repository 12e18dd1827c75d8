//! Formats log entries: as JSON, or in columns for terminals. The callers decide on the fields.

use std::panic::Location;
use std::time::{Duration, SystemTime};

use sluice_message::decimal::push_integer;
use sluice_message::span;

use super::Level;
use super::json::{JsonWriter, push_seconds, push_string};
use super::layers::Layers;
use super::nginx_line;
use super::place::{ConnectionSlots, short};
use super::severity::Severity;
use super::syslog::Beginning;
use super::time_text::TimeFormat;
use super::zone::Zone;

/// Formats entries.
#[derive(Clone, Debug)]
pub struct Encoder {
    /// The format.
    pub form: Form,
    /// The names of the common fields.
    pub keys: Keys,
    /// The format of times.
    pub time: TimeFormat,
    /// The time zone.
    pub zone: Zone,
    /// The format of durations.
    pub duration: DurationFormat,
    /// The format of levels.
    pub level: LevelFormat,
    /// The line terminator.
    pub line_ending: Box<str>,
    /// The line prefix.
    pub prefix: Prefix,
    /// Changes to the fields before formatting.
    pub layers: Layers,
    /// Whether the source location is shown.
    pub places: ConnectionSlots,
}

/// What lines of each level begin with, up to their time.
pub type Starts = [Box<[u8]>; Level::ALL.len()];

/// The prefix of a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Prefix {
    /// None.
    #[default]
    None,
    /// `<6>`: the priority, which systemd's journal parses and strips (sd-daemon(3)).
    Priority,
    /// The syslog header.
    Syslog(Box<Beginning>),
}

/// The format of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One JSON object.
    Json,
    /// Columns separated by tabs: time, level, logger, message, fields as JSON.
    Console,
    /// Only the message, which is a complete line formatted by the caller.
    Message,
    /// nginx's error log format.
    Nginx,
}

/// The format of durations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DurationFormat {
    /// Seconds as a decimal number.
    #[default]
    Seconds,
    /// Whole milliseconds.
    Millis,
    /// Whole nanoseconds.
    Nanos,
    /// `1.5s`, `166.951µs`
    Text,
}

/// The format of levels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LevelFormat {
    /// `info`
    #[default]
    Lower,
    /// `INFO`
    Upper,
    /// `INFO` in colour.
    Colour,
}

/// The names of the common fields in JSON. A field with an empty name is omitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    /// The message; `msg`.
    pub message: Box<str>,
    /// The level; `level`.
    pub level: Box<str>,
    /// The time; `ts`.
    pub time: Box<str>,
    /// The logger; `logger`.
    pub name: Box<str>,
    /// The source location, if it is shown; `caller`.
    pub caller: Box<str>,
    /// The stack trace, if it is shown; `stacktrace`.
    pub stack: Box<str>,
}

impl Default for Keys {
    fn default() -> Self {
        Keys {
            message: "msg".into(),
            level: "level".into(),
            time: "ts".into(),
            name: "logger".into(),
            caller: "caller".into(),
            stack: "stacktrace".into(),
        }
    }
}

impl DurationFormat {
    /// The format with this name in the configuration.
    pub fn from_name(name: &str) -> Option<DurationFormat> {
        Some(match name {
            "" | "s" | "second" | "seconds" => DurationFormat::Seconds,
            "ms" | "milli" | "millis" => DurationFormat::Millis,
            "ns" | "nano" | "nanos" => DurationFormat::Nanos,
            "string" => DurationFormat::Text,
            _ => return None,
        })
    }
}

impl LevelFormat {
    /// The format with this name in the configuration.
    pub fn from_name(name: &str) -> Option<LevelFormat> {
        Some(match name {
            "lower" => LevelFormat::Lower,
            "upper" => LevelFormat::Upper,
            "color" => LevelFormat::Colour,
            _ => return None,
        })
    }
}

impl Encoder {
    /// JSON with default settings.
    pub fn json() -> Self {
        Encoder {
            form: Form::Json,
            keys: Keys::default(),
            time: TimeFormat::UnixSeconds,
            duration: DurationFormat::Seconds,
            level: LevelFormat::Lower,
            line_ending: "\n".into(),
            zone: Zone::Utc,
            prefix: Prefix::None,
            layers: Layers::default(),
            places: ConnectionSlots::default(),
        }
    }

    /// Console format with default settings.
    pub fn console(level: LevelFormat) -> Self {
        Encoder {
            form: Form::Console,
            time: TimeFormat::wall(),
            level,
            ..Encoder::json()
        }
    }

    /// Appends one line. `fields` adds the fields specific to this entry.
    pub fn line(
        &self,
        out: &mut Vec<u8>,
        time: SystemTime,
        head: &Head<'_>,
        fields: impl FnOnce(&mut Fields<'_, '_>),
    ) {
        self.prefix(out, time, head);
        match self.form {
            Form::Json => {
                let mut json = JsonWriter::new(out, false);
                self.push_start(&mut json, head.level());
                if !self.keys.time.is_empty() {
                    json.value(|out| self.push_time(out, time));
                }
                self.push_names(&mut json, head);
                self.finish_json(json, head, fields);
            }
            Form::Console => self.console_line(out, time, head, fields),
            Form::Message => out.extend_from_slice(head.message.as_bytes()),
            Form::Nginx => self.nginx_line(out, time, head, fields),
        }
        out.extend_from_slice(self.line_ending.as_bytes());
    }

    /// As [`Encoder::line`], where the texts before and after the time were written once.
    pub fn line_after(
        &self,
        out: &mut Vec<u8>,
        time: SystemTime,
        head: &Head<'_>,
        (start, names): (&[u8], &[u8]),
        fields: impl FnOnce(&mut Fields<'_, '_>),
    ) {
        self.prefix(out, time, head);
        out.extend_from_slice(start);
        if !self.keys.time.is_empty() {
            self.push_time(out, time);
        }
        out.extend_from_slice(names);
        let is_first = out.last() == Some(&b'{');
        let json = JsonWriter::go_on(out, is_first);
        self.finish_json(json, head, fields);
        out.extend_from_slice(self.line_ending.as_bytes());
    }

    /// What lines of each level begin with, up to the time; `None` if that is not JSON.
    pub fn starts(&self) -> Option<Box<Starts>> {
        (self.form == Form::Json).then(|| {
            let start = |level| {
                let mut out = Vec::new();
                self.push_start(&mut JsonWriter::new(&mut out, false), level);
                out.into()
            };
            Box::new(Level::ALL.map(start))
        })
    }

    /// What follows the time in all lines of a logger with one message. The level of `head` makes no difference.
    pub fn names(&self, head: &Head<'_>) -> Box<[u8]> {
        let mut out = Vec::new();
        let mut json = JsonWriter::new(&mut out, false);
        self.push_start(&mut json, head.level());
        if !self.keys.time.is_empty() {
            json.value(|_| ());
        }
        let start = out.len();
        let is_first = out.ends_with(b"{");
        self.push_names(&mut JsonWriter::go_on(&mut out, is_first), head);
        out.split_off(start).into()
    }

    fn prefix(&self, out: &mut Vec<u8>, time: SystemTime, head: &Head<'_>) {
        match &self.prefix {
            Prefix::None => {}
            Prefix::Priority => out.extend_from_slice(priority(head.level())),
            Prefix::Syslog(beginning) => {
                let level = (self.form != Form::Message).then_some(head.level());
                beginning.push(out, time, level);
            }
        }
    }

    fn push_start(&self, json: &mut JsonWriter<'_>, level: Level) {
        json.begin_object();
        if !self.keys.level.is_empty() {
            json.key(self.keys.level.as_bytes());
            json.value(|out| {
                out.push(b'"');
                self.push_level(out, level);
                out.push(b'"');
            });
        }
        if !self.keys.time.is_empty() {
            json.key(self.keys.time.as_bytes());
        }
    }

    fn push_names(&self, json: &mut JsonWriter<'_>, head: &Head<'_>) {
        if !head.logger.is_empty() && !self.keys.name.is_empty() {
            json.key(self.keys.name.as_bytes());
            json.text(head.logger.as_bytes());
        }
        if self.shows_caller() {
            json.key(self.keys.caller.as_bytes());
            json.text(short(head.caller).as_bytes());
        }
        if !self.keys.message.is_empty() {
            json.key(self.keys.message.as_bytes());
            json.text(head.message.as_bytes());
        }
    }

    fn finish_json(
        &self,
        mut json: JsonWriter<'_>,
        head: &Head<'_>,
        fields: impl FnOnce(&mut Fields<'_, '_>),
    ) {
        self.members(&mut json, fields);
        if let Some(stack) = self.stack(head) {
            json.key(self.keys.stack.as_bytes());
            json.text(stack.as_bytes());
        }
        json.end_object();
    }

    fn console_line(
        &self,
        out: &mut Vec<u8>,
        time: SystemTime,
        head: &Head<'_>,
        fields: impl FnOnce(&mut Fields<'_, '_>),
    ) {
        // The journal records the time itself.
        if !self.keys.time.is_empty() && self.prefix == Prefix::None {
            self.time.push(out, time, self.zone);
            out.push(b'\t');
        }
        if !self.keys.level.is_empty() {
            self.push_level(out, head.level());
            out.push(b'\t');
        }
        if !head.logger.is_empty() && !self.keys.name.is_empty() {
            push_column(out, head.logger);
            out.push(b'\t');
        }
        if self.shows_caller() {
            push_column(out, &short(head.caller));
            out.push(b'\t');
        }
        if !self.keys.message.is_empty() {
            push_column(out, head.message);
        }
        let before = out.len();
        out.push(b'\t');
        let mut json = JsonWriter::new(out, true);
        json.begin_object();
        self.members(&mut json, fields);
        json.end_object();
        if out.len() == before + b"\t{}".len() {
            out.truncate(before);
        }
        if let Some(stack) = self.stack(head) {
            out.push(b'\n');
            out.extend_from_slice(stack.trim_end().as_bytes());
        }
    }

    fn nginx_line(
        &self,
        out: &mut Vec<u8>,
        time: SystemTime,
        head: &Head<'_>,
        fields: impl FnOnce(&mut Fields<'_, '_>),
    ) {
        let mut members = Vec::new();
        let mut json = JsonWriter::new(&mut members, false);
        json.begin_object();
        self.members(&mut json, fields);
        json.end_object();
        nginx_line::push(out, time, head, &members);
    }

    fn shows_caller(&self) -> bool {
        self.places.caller && !self.keys.caller.is_empty()
    }

    fn stack(&self, head: &Head<'_>) -> Option<String> {
        let stack = self.places.stack(head.level());
        stack.filter(|_| !self.keys.stack.is_empty())
    }

    /// Writes the fields specific to this entry.
    fn members(&self, json: &mut JsonWriter<'_>, fields: impl FnOnce(&mut Fields<'_, '_>)) {
        let duration = self.duration;
        if self.layers.is_empty() {
            return fields(&mut Fields { json, duration });
        }
        let mut plain = Vec::new();
        let mut inner = JsonWriter::new(&mut plain, false);
        inner.begin_object();
        fields(&mut Fields {
            json: &mut inner,
            duration,
        });
        inner.end_object();
        self.layers.write(&plain, json);
    }

    fn push_time(&self, out: &mut Vec<u8>, time: SystemTime) {
        if self.time.is_number() {
            return self.time.push(out, time, self.zone);
        }
        let start = out.len();
        self.time.push(out, time, self.zone);
        // A time layout may contain any text.
        let text = out.split_off(start);
        push_string(out, &text);
    }

    fn push_level(&self, out: &mut Vec<u8>, level: Level) {
        let (upper, colour) = match level {
            Level::Debug => ("DEBUG", "35"),
            Level::Info => ("INFO", "34"),
            Level::Warn => ("WARN", "33"),
            Level::Error => ("ERROR", "31"),
        };
        match (self.level, self.form) {
            (LevelFormat::Lower, _) => out.extend_from_slice(level.as_str().as_bytes()),
            (LevelFormat::Upper, _) => out.extend_from_slice(upper.as_bytes()),
            (LevelFormat::Colour, form) => {
                let escape = match form {
                    Form::Json => "\\u001b[",
                    Form::Console | Form::Message | Form::Nginx => "\x1b[",
                };
                for part in [escape, colour, "m", upper, escape, "0m"] {
                    out.extend_from_slice(part.as_bytes());
                }
            }
        }
    }
}

/// The priorities of syslog(3): debug, informational, warning, error.
const fn priority(level: Level) -> &'static [u8] {
    match level {
        Level::Debug => b"<7>",
        Level::Info => b"<6>",
        Level::Warn => b"<4>",
        Level::Error => b"<3>",
    }
}

/// Appends text for a column, quoted if it could break the columns or contains control characters.
fn push_column(out: &mut Vec<u8>, text: &str) {
    if text.chars().any(char::is_control) {
        push_string(out, text.as_bytes());
    } else {
        out.extend_from_slice(text.as_bytes());
    }
}

/// The common fields of an entry, except its time.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// The severity, of which most formats show the level.
    pub severity: Severity,
    /// The logger; may be empty.
    pub logger: &'a str,
    /// The message, a constant text.
    pub message: &'a str,
    /// The source location of the call.
    pub caller: &'static Location<'static>,
}

impl Head<'_> {
    /// The level.
    pub fn level(&self) -> Level {
        self.severity.level()
    }
}

/// The fields specific to one entry.
pub struct Fields<'a, 'b> {
    /// For values of other types.
    pub json: &'a mut JsonWriter<'b>,
    /// The format of durations.
    pub(super) duration: DurationFormat,
}

impl Fields<'_, '_> {
    /// Adds a string of arbitrary bytes.
    pub fn text(&mut self, key: &str, value: &[u8]) {
        self.json.key(key.as_bytes());
        self.json.text(value);
    }

    /// Adds an integer.
    pub fn integer(&mut self, key: &str, value: u64) {
        self.json.key(key.as_bytes());
        self.json.integer(value);
    }

    /// Adds a boolean.
    pub fn boolean(&mut self, key: &str, value: bool) {
        self.json.key(key.as_bytes());
        self.json.boolean(value);
    }

    /// Adds a duration in the encoder's format.
    pub fn duration(&mut self, key: &str, value: Duration) {
        self.json.key(key.as_bytes());
        let format = self.duration;
        self.json.value(|out| push_duration(out, value, format));
    }
}

/// Appends a duration.
pub(super) fn push_duration(out: &mut Vec<u8>, value: Duration, format: DurationFormat) {
    let clamp = |number: u128| u64::try_from(number).unwrap_or(u64::MAX);
    match format {
        DurationFormat::Seconds => push_seconds(out, value),
        DurationFormat::Millis => push_integer(out, clamp(value.as_millis())),
        DurationFormat::Nanos => push_integer(out, clamp(value.as_nanos())),
        DurationFormat::Text => {
            out.push(b'"');
            span::push_duration(out, value);
            out.push(b'"');
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    fn line(encoder: &Encoder) -> String {
        let mut out = Vec::new();
        let head = Head {
            severity: Severity::Warn,
            logger: "admin",
            message: "stopped",
            caller: Location::caller(),
        };
        let time = UNIX_EPOCH + Duration::new(1_795_295_096, 910_145_800);
        encoder.line(&mut out, time, &head, |fields| {
            fields.text("why", b"a\x1b[31m\nb");
            fields.integer("count", 3);
            fields.duration("took", Duration::from_micros(1_500));
        });
        String::from_utf8(out).expect("a line is UTF-8")
    }

    #[test]
    fn a_json_line_has_the_common_fields_first() {
        assert_eq!(
            line(&Encoder::json()),
            "{\"level\":\"warn\",\"ts\":1795295096.910145,\"logger\":\"admin\",\"msg\":\"stopped\",\
             \"why\":\"a\\u001b[31m\\nb\",\"count\":3,\"took\":0.0015}\n"
        );
    }

    #[test]
    fn texts_written_once_make_the_same_line() {
        let mut encoders = Vec::new();
        for hidden in 0..32 {
            let key = |bit: u8, name: &str| match hidden >> bit & 1 {
                0 => name.into(),
                _ => "".into(),
            };
            let mut encoder = Encoder::json();
            encoder.keys.level = key(0, "level");
            encoder.keys.time = key(1, "t\"s");
            encoder.keys.name = key(2, "logger");
            encoder.keys.message = key(3, "msg");
            encoder.places.caller = hidden >> 4 == 0;
            encoders.push(encoder);
        }
        let mut calendar = Encoder::json();
        calendar.time = TimeFormat::from_name("rfc3339");
        calendar.level = LevelFormat::Colour;
        calendar.prefix = Prefix::Priority;
        calendar.line_ending = "\r\n".into();
        calendar.places.stack_from = Some(Level::Error);
        encoders.push(calendar);
        let severities = [
            Severity::Debug,
            Severity::Info,
            Severity::Warn,
            Severity::Error,
        ];
        for (encoder, severity) in encoders.iter().flat_map(|one| severities.map(|s| (one, s))) {
            let head = Head {
                severity,
                logger: "http.log.access",
                message: "handled\nrequest",
                caller: Location::caller(),
            };
            let starts = encoder.starts().expect("it is JSON");
            let parts = (&*starts[head.level() as usize], &*encoder.names(&head));
            let time = UNIX_EPOCH + Duration::new(1_795_295_096, 910_145_800);
            let (mut once, mut each) = (Vec::new(), Vec::new());
            encoder.line_after(&mut once, time, &head, parts, |fields| {
                fields.integer("n", 1)
            });
            encoder.line(&mut each, time, &head, |fields| fields.integer("n", 1));
            let [once, each] = [once, each].map(|line| String::from_utf8(line).expect("UTF-8"));
            // Traces of the two calls differ.
            let without_stack =
                |line: &str| line.split(",\"stacktrace\"").next().map(str::to_owned);
            assert_eq!(without_stack(&once), without_stack(&each));
        }
        assert!(Encoder::console(LevelFormat::Upper).starts().is_none());
    }

    #[test]
    fn a_console_line_has_columns() {
        assert_eq!(
            line(&Encoder::console(LevelFormat::Colour)),
            "2026/11/21 21:04:56.910\t\u{1b}[33mWARN\u{1b}[0m\tadmin\tstopped\t\
             {\"why\": \"a\\u001b[31m\\nb\", \"count\": 3, \"took\": 0.0015}\n"
        );
        let mut out = Vec::new();
        let head = Head {
            severity: Severity::Notice,
            logger: "",
            message: "no\nfields",
            caller: Location::caller(),
        };
        Encoder::console(LevelFormat::Upper).line(&mut out, UNIX_EPOCH, &head, |_| ());
        assert_eq!(out, b"1970/01/01 00:00:00.000\tINFO\t\"no\\nfields\"\n");
    }

    #[test]
    fn options_change_keys_and_spelling() {
        let mut encoder = Encoder::json();
        encoder.keys.message = "m".into();
        encoder.level = LevelFormat::Upper;
        encoder.time = TimeFormat::from_name("rfc3339");
        encoder.duration = DurationFormat::Text;
        assert_eq!(
            line(&encoder),
            "{\"level\":\"WARN\",\"ts\":\"2026-11-21T21:04:56Z\",\"logger\":\"admin\",\"m\":\"stopped\",\
             \"why\":\"a\\u001b[31m\\nb\",\"count\":3,\"took\":\"1.5ms\"}\n"
        );
    }

    #[test]
    fn fields_without_a_name_are_left_out() {
        for encoder in [Encoder::json(), Encoder::console(LevelFormat::Lower)] {
            let keys = Keys {
                message: "".into(),
                level: "".into(),
                time: "".into(),
                name: "".into(),
                ..Keys::default()
            };
            let text = line(&Encoder { keys, ..encoder });
            assert!(text.starts_with(['{', '\t']), "{text}");
            assert!(
                !text.contains("stopped") && !text.contains("1795295096"),
                "{text}"
            );
        }
    }

    #[test]
    fn the_place_of_an_entry_is_shown_where_a_log_asks_for_it() {
        let mut encoder = Encoder::json();
        encoder.places = ConnectionSlots {
            caller: true,
            stack_from: Some(Level::Warn),
        };
        encoder.keys.caller = "from".into();
        encoder.keys.stack = "by".into();
        let text = line(&encoder);
        let places = r#""logger":"admin","from":"observe/log/encode.rs:"#;
        assert!(text.contains(places), "{text}");
        assert!(text.contains(r#""took":0.0015,"by":""#), "{text}");
        encoder.form = Form::Console;
        let text = line(&encoder);
        assert!(text.contains("admin\tobserve/log/encode.rs:"), "{text}");
        assert!(text.lines().count() > 3, "{text}");
        encoder.keys.caller = "".into();
        encoder.keys.stack = "".into();
        let text = line(&encoder);
        assert!(!text.contains("encode.rs"), "{text}");
    }

    #[test]
    fn the_journal_reads_the_priority_first() {
        let mut encoder = Encoder::console(LevelFormat::Upper);
        encoder.prefix = Prefix::Priority;
        assert!(line(&encoder).starts_with("<4>WARN\tadmin\tstopped\t{"));
        let mut encoder = Encoder::json();
        encoder.prefix = Prefix::Priority;
        assert!(line(&encoder).starts_with("<4>{\"level\":\"warn\",\"ts\":"));
    }

    #[test]
    fn colour_in_json_is_escaped() {
        let mut encoder = Encoder::json();
        encoder.level = LevelFormat::Colour;
        let text = line(&encoder);
        assert!(
            text.starts_with(r#"{"level":"\u001b[33mWARN\u001b[0m","ts""#),
            "{text}"
        );
    }
}
