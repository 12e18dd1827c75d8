//! What the walk through the routes keeps for one request. Its connection is left to `sluice-net`.

use std::sync::Arc;

use sluice_message::Status;

use crate::handler::Filter;
use crate::pipeline::Frame;

/// A request on its way through this server.
pub type Exchange = sluice_net::Exchange<Context>;

/// What is remembered from one step of a request to the next.
#[derive(Default)]
pub struct Context {
    /// Where the walk is; the innermost list of routes last.
    pub frames: Vec<Frame>,
    /// What changes the answer, applied last to first.
    pub filters: Vec<Arc<dyn Filter>>,
    /// Variables (`vars`, `map`, `root`), by name.
    pub vars: Vars,
    /// Captures of regular expressions and of the `file` matcher, by placeholder name.
    pub captures: Vars,
    /// What `{http.error.*}` shows, once a handler failed.
    pub error: Option<ErrorInfo>,
    /// Method and target before the first rewrite, where there was one.
    pub original: Option<Box<Original>>,
    /// What reverse proxying tells to logs and placeholders (`{http.reverse_proxy.*}`).
    pub upstream: UpstreamInfo,
    /// What the access log is told.
    pub log: LogInfo,
}

/// Small named values. Few enough per request that looking through them beats hashing.
#[derive(Default)]
pub struct Vars {
    entries: Vec<(Arc<str>, Vec<u8>)>,
    used: usize,
}

impl Vars {
    /// The value called `name`.
    pub fn find(&self, name: &str) -> Option<&[u8]> {
        self.entries[..self.used].iter().find(|(n, _)| &**n == name).map(|(_, v)| &v[..])
    }

    /// Sets the value called `name`; returns its emptied buffer to write to.
    pub fn slot(&mut self, name: &Arc<str>) -> &mut Vec<u8> {
        let at = self.entries[..self.used].iter().position(|(n, _)| n == name);
        let at = at.unwrap_or_else(|| {
            match self.entries.get_mut(self.used) {
                Some(spare) => spare.0 = name.clone(),
                None => self.entries.push((name.clone(), Vec::new())),
            }
            self.used += 1;
            self.used - 1
        });
        let value = &mut self.entries[at].1;
        value.clear();
        value
    }

    /// Forgets all values and keeps their memory.
    pub fn clear(&mut self) {
        self.used = 0;
    }

    /// All values, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.entries[..self.used].iter().map(|(n, v)| (&**n, &v[..]))
    }
}

/// What `{http.error.*}` shows.
#[derive(Debug)]
pub struct ErrorInfo {
    /// The status of the error.
    pub status: Status,
    /// Its message.
    pub message: String,
    /// Identifies the error in log and answer.
    pub id: String,
}

/// A request line before it was rewritten.
#[derive(Debug, Default)]
pub struct Original {
    /// The method.
    pub method: sluice_message::Method,
    /// Path and query.
    pub uri: sluice_message::Uri,
}

/// What is known of the upstream of a request.
#[derive(Debug, Default)]
pub struct UpstreamInfo {
    /// Its address as configured, empty while none was chosen.
    pub address: String,
    /// Attempts made.
    pub attempts: u32,
    /// From choosing to the first byte of its answer.
    pub latency: Option<std::time::Duration>,
    /// Status it answered with.
    pub status: Option<Status>,
}

/// What the access log is told besides the request.
#[derive(Debug, Default)]
pub struct LogInfo {
    /// `log_skip` was met.
    pub skip: bool,
    /// The user that `basic_auth` let in.
    pub user: Option<String>,
    /// Loggers named by `log_name` instead of the site's.
    pub names: Vec<Arc<str>>,
    /// Fields added by `log_append`.
    pub fields: Vec<(Arc<str>, String)>,
    /// Error that ended the request, if any.
    pub error: Option<String>,
}

impl Context {
    /// Makes it ready for the next request.
    pub fn reset(&mut self) {
        self.frames.clear();
        self.filters.clear();
        self.vars.clear();
        self.captures.clear();
        self.error = None;
        self.original = None;
        self.upstream.address.clear();
        self.upstream.attempts = 0;
        self.upstream.latency = None;
        self.upstream.status = None;
        self.log.skip = false;
        self.log.user = None;
        self.log.names.clear();
        self.log.fields.clear();
        self.log.error = None;
    }
}
