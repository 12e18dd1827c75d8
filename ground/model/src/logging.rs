//! Logs: where entries go, which entries are written, and in what format.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use serde_json::Value;

use crate::nginx::ErrorLogEncoder;
use crate::object::{RawModule, objects, tagged};
use crate::value::Duration;

objects! {
    /// All logs.
    pub struct Logging {
        /// What libraries print outside of any log.
        pub sink: Option<Log>,
        /// The logs by name; `default` takes what no other took.
        pub logs: BTreeMap<String, Log>,
    }

    /// One log.
    pub struct Log {
        /// Where entries go, standard error when absent.
        pub writer: Option<LogWriter>,
        /// How entries are written.
        pub encoder: Option<LogEncoder>,
        /// A core that replaces writer and encoder.
        pub core: Option<RawModule>,
        /// The least level that is written, `INFO` when empty.
        pub level: String,
        /// Thins out repeated entries.
        pub sampling: Option<LogSampling>,
        /// Adds the place in the source.
        pub with_caller: bool,
        /// Frames to skip for that place.
        pub with_caller_skip: i64,
        /// The level from which a stack trace is added.
        pub with_stacktrace: String,
        /// Names of loggers to take.
        pub include: Vec<String>,
        /// Names of loggers to leave.
        pub exclude: Vec<String>,
    }

    /// Thins out repeated entries.
    pub struct LogSampling {
        /// The window in which entries are counted.
        pub interval: Duration,
        /// How many equal entries are written first.
        pub first: i64,
        /// After those, every so-manieth.
        pub thereafter: i64,
    }

    /// A writer without settings.
    pub struct PlainWriter {}

    /// Writes messages alone. Our own module.
    pub struct MessageEncoder {}

    /// Writes what syslog wants before each line of another encoder (RFC 3164). Our own module.
    pub struct SyslogEncoder {
        /// The encoder that writes.
        pub wrap: Option<alloc::boxed::Box<LogEncoder>>,
        /// The facility, `local7` when empty.
        pub facility: String,
        /// The severity of lines that are not errors, `info` when empty.
        pub severity: String,
        /// Who says it, `nginx` when empty.
        pub tag: String,
        /// Leaves out the name of the machine.
        pub without_host: bool,
    }

    /// Writes to a file that is rolled over.
    pub struct FileWriter {
        /// The path.
        pub filename: String,
        /// The permission bits, as octal text.
        pub mode: String,
        /// The permission bits of created folders: octal text, `inherit` or `from_file`.
        pub dir_mode: String,
        /// Whether the file is rolled over at all.
        pub roll: Option<bool>,
        /// The size that starts a new file, in MiB.
        pub roll_size_mb: i64,
        /// The time that starts a new file.
        pub roll_interval: Duration,
        /// Minutes of the hour that start a new file.
        pub roll_minutes: Vec<i64>,
        /// Times of the day that start a new file.
        pub roll_at: Vec<String>,
        /// Whether old files are compressed.
        pub roll_gzip: Option<bool>,
        /// How old files are compressed.
        pub roll_compression: String,
        /// Names old files by local time.
        pub roll_local_time: bool,
        /// How many old files are kept.
        pub roll_keep: i64,
        /// How many days old files are kept.
        pub roll_keep_days: i64,
        /// The time format in names of old files.
        pub backup_time_format: String,
        /// Lines are held back until they are so many bytes; none are where it is 0. Our own word.
        pub hold_bytes: i64,
        /// The longest that a line is held back; for ever where it is 0. Our own word.
        pub hold_time: Duration,
        /// How hard pieces of the file are compressed, from 1 to 9; not at all where it is 0. Our own word.
        pub gzip_level: i64,
    }

    /// Writes to a socket.
    pub struct NetWriter {
        /// The address to dial.
        pub address: String,
        /// How long dialling may take.
        pub dial_timeout: Duration,
        /// Starts even though the peer is away.
        pub soft_start: bool,
    }

    /// Keys and formats of the console and JSON encoders.
    pub struct LineEncoder {
        /// The key of the message.
        pub message_key: Option<String>,
        /// The key of the level.
        pub level_key: Option<String>,
        /// The key of the time.
        pub time_key: Option<String>,
        /// The key of the logger's name.
        pub name_key: Option<String>,
        /// The key of the place in the source.
        pub caller_key: Option<String>,
        /// The key of the stack trace.
        pub stacktrace_key: Option<String>,
        /// What ends an entry.
        pub line_ending: Option<String>,
        /// The format of times.
        pub time_format: String,
        /// Writes local times.
        pub time_local: bool,
        /// The format of durations.
        pub duration_format: String,
        /// The format of levels.
        pub level_format: String,
    }

    /// Changes fields before another encoder writes them.
    pub struct FilterEncoder {
        /// The encoder that writes.
        pub wrap: Option<alloc::boxed::Box<LogEncoder>>,
        /// Filters by field; `a>b` reaches into objects.
        pub fields: BTreeMap<String, RawModule>,
    }

    /// Writes the priority before each line of another encoder, as systemd's journal reads it.
    pub struct JournaldEncoder {
        /// The encoder that writes.
        pub wrap: Option<alloc::boxed::Box<LogEncoder>>,
    }

    /// Adds fields before another encoder writes them.
    pub struct AppendEncoder {
        /// The encoder that writes.
        pub wrap: Option<alloc::boxed::Box<LogEncoder>>,
        /// The fields.
        pub fields: BTreeMap<String, Value>,
    }
}

tagged! {
    /// Where entries go.
    pub enum LogWriter by "output" {
        /// Standard error.
        Stderr(PlainWriter) = "stderr",
        /// Standard output.
        Stdout(PlainWriter) = "stdout",
        /// Nowhere.
        Discard(PlainWriter) = "discard",
        /// A file.
        File(FileWriter) = "file",
        /// A socket.
        Net(NetWriter) = "net",
    }
}

tagged! {
    /// How entries are written.
    pub enum LogEncoder by "format" {
        /// For people.
        Console(LineEncoder) = "console",
        /// One JSON object a line.
        Json(LineEncoder) = "json",
        /// Changes fields first.
        Filter(FilterEncoder) = "filter",
        /// Adds fields first.
        Append(AppendEncoder) = "append",
        /// For systemd's journal.
        Journald(JournaldEncoder) = "journald",
        /// The message alone. Our own module.
        Message(MessageEncoder) = "message",
        /// As in nginx's log of errors. Our own module.
        Nginx(ErrorLogEncoder) = "nginx",
        /// With what syslog wants before each line. Our own module.
        Syslog(SyslogEncoder) = "syslog",
    }
}
