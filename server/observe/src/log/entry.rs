//! Log entries about the process, and the handle for writing them. `access` writes entries for requests.

use std::io::{self, IsTerminal};
use std::panic::Location;
use std::sync::{Arc, RwLock};
use std::time::{Duration, SystemTime};

use super::Level;
use super::encode::{Fields, Head};
use super::output::Outputs;
use super::plan::{Plan, for_stream};
use super::severity::Severity;

/// The handle to all logs; clones are equivalent.
#[derive(Clone, Debug)]
pub struct Log {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    outputs: Outputs,
    plan: RwLock<Arc<Plan>>,
}

impl Log {
    /// Starts the log writers with the default log at `level`.
    pub fn start(level: Level) -> io::Result<Log> {
        let outputs = Outputs::start(for_stream(io::stderr().is_terminal()))?;
        let plan = RwLock::new(Arc::new(Plan::initial(level, &outputs)));
        Ok(Log {
            shared: Arc::new(Shared { outputs, plan }),
        })
    }

    /// The log outputs.
    pub fn outputs(&self) -> &Outputs {
        &self.shared.outputs
    }

    /// A log that discards every line, for tests.
    pub fn silent() -> Log {
        let log = Log::start(Level::Error).expect("threads can be started");
        let logging =
            serde_json::json!({ "logs": { "default": { "writer": { "output": "discard" } } } });
        let logging = serde_json::from_value(logging).expect("the model has these names");
        let plan = Plan::build(Some(&logging), log.outputs()).expect("nothing has to be opened");
        log.replace(Arc::new(plan));
        log
    }

    /// The active logging plan.
    pub fn plan(&self) -> Arc<Plan> {
        self.shared.plan.read().expect(NEVER_POISONED).clone()
    }

    /// Activates `plan`.
    pub fn replace(&self, plan: Arc<Plan>) {
        *self.shared.plan.write().expect(NEVER_POISONED) = plan;
        // Another configuration may have other files.
        self.shared.outputs.named().reopen();
    }

    /// Writes pending entries and stops, with a timeout of `timeout`.
    pub fn finish(&self, timeout: Duration) {
        self.shared.outputs.finish(timeout);
    }

    /// Starts an entry of `logger` (a dotted name such as `http.log.error`; may be empty). The message is a constant
    /// text; variable data belongs in fields.
    #[track_caller]
    pub fn entry<'a>(
        &'a self,
        severity: impl Into<Severity>,
        logger: &'a str,
        message: &'a str,
    ) -> Entry<'a> {
        Entry {
            log: self,
            head: Head {
                severity: severity.into(),
                logger,
                message,
                caller: Location::caller(),
            },
            values: Vec::new(),
        }
    }

    /// Starts a debug entry.
    #[track_caller]
    pub fn debug<'a>(&'a self, logger: &'a str, message: &'a str) -> Entry<'a> {
        self.entry(Level::Debug, logger, message)
    }

    /// Starts an informational entry.
    #[track_caller]
    pub fn info<'a>(&'a self, logger: &'a str, message: &'a str) -> Entry<'a> {
        self.entry(Level::Info, logger, message)
    }

    /// Starts a warning.
    #[track_caller]
    pub fn warn<'a>(&'a self, logger: &'a str, message: &'a str) -> Entry<'a> {
        self.entry(Level::Warn, logger, message)
    }

    /// Starts an error entry.
    #[track_caller]
    pub fn error<'a>(&'a self, logger: &'a str, message: &'a str) -> Entry<'a> {
        self.entry(Level::Error, logger, message)
    }
}

const NEVER_POISONED: &str = "nothing panics while it holds the plan of the logs";

/// The logger of workers that have reached their connection limit.
pub const CONNECTION_COUNTS: &str = "connections";

/// An entry under construction; [`Entry::send`] writes it.
#[must_use = "an entry is written by `send`"]
#[derive(Debug)]
pub struct Entry<'a> {
    log: &'a Log,
    head: Head<'a>,
    values: Vec<(&'a str, Value)>,
}

#[derive(Debug)]
enum Value {
    Text(Vec<u8>),
    Integer(u64),
    Boolean(bool),
    Duration(Duration),
    Texts(Vec<String>),
    Json(Vec<u8>),
}

impl<'a> Entry<'a> {
    /// Adds a string of arbitrary bytes.
    pub fn text(self, key: &'a str, value: impl AsRef<[u8]>) -> Self {
        self.with(key, Value::Text(value.as_ref().to_vec()))
    }

    /// Adds the `Display` representation of a value.
    pub fn shown(self, key: &'a str, value: impl std::fmt::Display) -> Self {
        self.with(key, Value::Text(value.to_string().into_bytes()))
    }

    /// Adds an integer.
    pub fn integer(self, key: &'a str, value: u64) -> Self {
        self.with(key, Value::Integer(value))
    }

    /// Adds a boolean.
    pub fn boolean(self, key: &'a str, value: bool) -> Self {
        self.with(key, Value::Boolean(value))
    }

    /// Adds a duration.
    pub fn duration(self, key: &'a str, value: Duration) -> Self {
        self.with(key, Value::Duration(value))
    }

    /// Adds a value that is JSON.
    pub fn json(self, key: &'a str, value: &[u8]) -> Self {
        self.with(key, Value::Json(value.to_vec()))
    }

    /// Adds a list of strings.
    pub fn texts(self, key: &'a str, values: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.with(
            key,
            Value::Texts(values.into_iter().map(Into::into).collect()),
        )
    }

    fn with(mut self, key: &'a str, value: Value) -> Self {
        self.values.push((key, value));
        self
    }

    /// Writes the entry to all logs that accept it. Never blocks.
    pub fn send(self) {
        let route = self.log.plan().route(self.head.logger);
        if !route.takes(self.head.level()) {
            return;
        }
        let mut line = Vec::new();
        route.write(&mut line, SystemTime::now(), &self.head, |fields| {
            for (key, value) in &self.values {
                add(fields, key, value);
            }
        });
    }
}

fn add(fields: &mut Fields<'_, '_>, key: &str, value: &Value) {
    match value {
        Value::Text(text) => fields.text(key, text),
        Value::Integer(number) => fields.integer(key, *number),
        Value::Boolean(truth) => fields.boolean(key, *truth),
        Value::Duration(duration) => fields.duration(key, *duration),
        Value::Json(json) => {
            fields.json.key(key.as_bytes());
            fields.json.raw(json);
        }
        Value::Texts(texts) => {
            fields.json.key(key.as_bytes());
            fields.json.begin_array();
            for text in texts {
                fields.json.text(text.as_bytes());
            }
            fields.json.end_array();
        }
    }
}
