//! The state of one request while it passes through the routes. `sluice-net` manages its connection.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use sluice_message::{Fields, Moment, ResponseHead, Status};
use sluice_net::Body;

use crate::handler::Filter;
use crate::handlers::cache::CacheStatus;
use crate::handlers::in_flight::Held as InFlight;
use crate::handlers::nginx::limit_conn::Held as Counted;
use crate::handlers::nginx::{Captures, Occasional, State as NginxState, Tables};
use crate::pipeline::{Frame, Scope};
use sluice_observe::metrics::Marks;
use sluice_observe::tracing::Span;
use sluice_route::{Kind, Provenance, Scratch};

/// A request in this server, with its connection and its response.
pub type Exchange = sluice_net::Exchange<Context>;

/// State kept across the handlers of a request.
#[derive(Default)]
pub struct Context {
    /// Positions in the routes; the innermost list is last.
    pub frames: Vec<Frame>,
    /// Lists with error routes that the request has entered, innermost last.
    pub scopes: Seldom<Vec<Scope>>,
    /// Route groups of which one route has run.
    pub groups: Groups,
    /// Filters for the response, applied last to first.
    pub filters: Vec<Arc<dyn Filter>>,
    /// Variables (`vars`, `map`, `root`), by name.
    pub vars: Vars,
    /// Captures of regular expressions.
    pub scratch: Scratch,
    /// The client address from trusted proxies; `None` if it is not determined yet or if it is the address of the peer.
    pub client_ip: Option<std::net::IpAddr>,
    /// Whether the peer is a trusted proxy.
    pub from_trusted_proxy: bool,
    /// The values of `{http.error.*}`, after a handler failed.
    pub error: Option<Box<ErrorInfo>>,
    /// The method before it was rewritten; `None` if it was not.
    pub original_method: Option<Box<sluice_message::Method>>,
    /// Placeholders set by `map`, by name.
    pub mapped: Seldom<Vars>,
    /// Data about the upstream for logs and placeholders (`{http.reverse_proxy.*}`).
    pub upstream: UpstreamInfo,
    /// State that few requests need.
    pub aside: Option<Box<Aside>>,
    /// The value of `{http.request.uuid}`; 0 until it is used.
    pub uuid: std::cell::Cell<Uuid>,
    /// Number of pages included by templates for this response.
    pub includes: std::cell::Cell<u16>,
    /// Data for the access log.
    pub log: Seldom<LogInfo>,
    /// Data for metrics.
    pub metrics: Marks,
    /// The current location in an nginx.conf.
    pub nginx: NginxState,
    /// The lookup tables of an nginx.conf, if it has any.
    pub tables: Option<Arc<Tables>>,
    /// The captures of the latest regular expression in an nginx.conf that matched.
    pub captures: Seldom<Captures>,
    /// Whether a regular expression exceeded its matching limit while a value was computed. Values cannot fail, so the
    /// request fails once the current handler returns.
    pub given_up: std::cell::Cell<bool>,
    /// State that few requests to an nginx.conf need.
    pub occasional: Seldom<Occasional>,
}

/// State that few requests need.
#[derive(Default)]
pub struct Aside {
    /// The value of `{http.request.body}`, once the body was read for it.
    pub body_text: Option<Box<[u8]>>,
    /// The upstream's response, for `copy_response`.
    pub of_upstream: Option<Held>,
    /// The head of the upstream's response as received, for coalescing and the cache.
    pub shared_head: Option<ResponseHead>,
    /// Its slots in `in_flight` limits.
    pub in_flight: Vec<InFlight>,
    /// Its entries in the connection limits of an nginx.conf.
    pub connections: Vec<Counted>,
    /// Responses held back by `intercept`, innermost last. They are sent if the replacement routes do not produce a
    /// response.
    pub intercepted: Vec<Held>,
    /// The deadline for sending the response, if a handler set one.
    pub write_until: Option<Moment>,
    /// The head of the latest intercepted response, for `{http.intercept.*}`.
    pub head: Option<ResponseHead>,
}

/// A random 128-bit number in two halves: a `u128` would require 16-byte alignment.
pub type Uuid = [u64; 2];

/// A value that few requests need. It is allocated on first write, so that thousands of requests waiting for upstreams
/// do not use memory for it.
#[derive(Clone, Debug, Default)]
pub struct Seldom<T>(Option<Box<T>>);

/// A type with an empty value that can be shared.
pub trait Empty: Default + 'static {
    /// The empty value.
    fn empty() -> &'static Self;
    /// Clears the value and keeps its allocation.
    fn clear(&mut self);
}

impl<T: Empty> Seldom<T> {
    /// Empties it.
    pub fn clear(&mut self) {
        if let Some(value) = &mut self.0 {
            value.clear();
        }
    }
}

impl<T: Empty> Deref for Seldom<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_deref().unwrap_or_else(|| T::empty())
    }
}

impl<T: Empty> DerefMut for Seldom<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.get_or_insert_default()
    }
}

impl Empty for Vec<Scope> {
    fn empty() -> &'static Self {
        static EMPTY: Vec<Scope> = Vec::new();
        &EMPTY
    }

    fn clear(&mut self) {
        Vec::clear(self);
    }
}

impl Empty for Vars {
    fn empty() -> &'static Self {
        static EMPTY: Vars = Vars {
            entries: Vec::new(),
            used: 0,
        };
        &EMPTY
    }

    fn clear(&mut self) {
        Vars::clear(self);
    }
}

impl Empty for Fields {
    fn empty() -> &'static Self {
        static EMPTY: Fields = Fields::new();
        &EMPTY
    }

    fn clear(&mut self) {
        Fields::clear(self);
    }
}

impl Empty for LogInfo {
    fn empty() -> &'static Self {
        static EMPTY: LogInfo = LogInfo {
            skip: false,
            user: None,
            names: Vec::new(),
            fields: Vec::new(),
            late: Vec::new(),
            body_bytes_sent: 0,
            body_bytes_read: 0,
            bytes_sent: 0,
            head_bytes_sent: 0,
            is_complete: false,
            error: None,
            is_told: false,
            trace: None,
        };
        &EMPTY
    }

    fn clear(&mut self) {
        self.skip = false;
        self.user = None;
        self.names.clear();
        self.fields.clear();
        self.late.clear();
        self.body_bytes_sent = 0;
        self.body_bytes_read = 0;
        self.bytes_sent = 0;
        self.head_bytes_sent = 0;
        self.is_complete = false;
        self.error = None;
        self.is_told = false;
        self.trace = None;
    }
}

/// A complete response, held back while other routes run.
pub struct Held {
    /// The status, and the headers that are not in the response being built.
    pub head: ResponseHead,
    /// The body.
    pub body: Body,
    /// The bytes of a body that is [`Body::Inline`].
    pub inline: Vec<u8>,
}

/// A set of small numbers.
#[derive(Default)]
pub struct Groups {
    words: Vec<u64>,
}

impl Groups {
    /// Whether the set contains `group`.
    pub fn contains(&self, group: u32) -> bool {
        self.words
            .get(group as usize / 64)
            .is_some_and(|word| word & (1 << (group % 64)) != 0)
    }

    /// Adds `group`.
    pub fn insert(&mut self, group: u32) {
        let at = group as usize / 64;
        if self.words.len() <= at {
            self.words.resize(at + 1, 0);
        }
        self.words[at] |= 1 << (group % 64);
    }

    /// Empties it.
    pub fn clear(&mut self) {
        self.words.clear();
    }
}

/// A small map of named values. Requests have so few that a linear search is faster than hashing.
#[derive(Clone, Default)]
pub struct Vars {
    entries: Vec<Var>,
    used: usize,
}

#[derive(Clone)]
struct Var {
    name: Arc<str>,
    kind: Kind,
    provenance: Provenance,
    value: Vec<u8>,
}

impl Vars {
    /// The value called `name`.
    pub fn find(&self, name: &str) -> Option<&[u8]> {
        self.entries[..self.used]
            .iter()
            .find(|var| &*var.name == name)
            .map(|var| &var.value[..])
    }

    /// The type of the value called `name` in the configuration: string, number or boolean.
    pub fn kind(&self, name: &str) -> Kind {
        let mut set = self.entries[..self.used].iter();
        set.find(|var| &*var.name == name)
            .map_or(Kind::Null, |var| var.kind)
    }

    /// Which parts of a path the value called `name` may affect; `None` if it is not set.
    pub fn provenance(&self, name: &str) -> Option<Provenance> {
        let mut set = self.entries[..self.used].iter();
        set.find(|var| &*var.name == name).map(|var| var.provenance)
    }

    /// Like [`Vars::slot`], with the given provenance.
    pub fn slot_from(&mut self, name: &Arc<str>, provenance: Provenance) -> &mut Vec<u8> {
        let at = self.place_of(name, Kind::Text);
        let var = &mut self.entries[at];
        var.provenance = provenance;
        &mut var.value
    }

    /// Sets the string called `name`, a value derived from the request; returns its cleared buffer for writing.
    pub fn slot(&mut self, name: &Arc<str>) -> &mut Vec<u8> {
        self.slot_from(name, Provenance::Name)
    }

    /// Like [`Vars::slot`], for a value of type `kind` that the configuration provides.
    pub fn slot_of(&mut self, name: &Arc<str>, kind: Kind) -> &mut Vec<u8> {
        let at = self.place_of(name, kind);
        let var = &mut self.entries[at];
        var.provenance = Provenance::Configured;
        &mut var.value
    }

    /// The index of the value called `name`, which is cleared or added. A new value has request provenance.
    fn place_of(&mut self, name: &Arc<str>, kind: Kind) -> usize {
        let at = self.entries[..self.used]
            .iter()
            .position(|var| var.name == *name);
        let at = at.unwrap_or_else(|| {
            match self.entries.get_mut(self.used) {
                Some(spare) => spare.name = name.clone(),
                None => self.entries.push(Var {
                    name: name.clone(),
                    kind,
                    provenance: Provenance::Name,
                    value: Vec::new(),
                }),
            }
            self.used += 1;
            self.used - 1
        });
        let var = &mut self.entries[at];
        var.kind = kind;
        var.value.clear();
        at
    }

    /// Removes all values and keeps their allocations.
    pub fn clear(&mut self) {
        self.used = 0;
    }

    /// All values, in the order in which they were set.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.entries[..self.used]
            .iter()
            .map(|var| (&*var.name, &var.value[..]))
    }
}

/// The values of `{http.error.*}`.
#[derive(Debug)]
pub struct ErrorInfo {
    /// The status of the error.
    pub status: Status,
    /// The message.
    pub message: String,
    /// The ID of the error, shown in the log and in the response.
    pub id: String,
}

/// Data about the upstream of a request.
#[derive(Debug, Default)]
pub struct UpstreamInfo {
    /// The address as configured; empty until an upstream is selected.
    pub address: String,
    /// Number of attempts.
    pub attempts: u32,
    /// Latency and load, if the configuration uses placeholders for them.
    pub facts: Option<Box<ProxyFacts>>,
    /// The status of the upstream's response.
    pub status: Option<Status>,
    /// The cache status, if the request was looked up in the cache.
    pub cache: Option<CacheStatus>,
    /// Headers of the upstream's response, if `handle_response` needs them.
    pub fields: Seldom<Fields>,
}

/// Latency and load of upstreams. Collected only if the configuration uses them, because they require clock readings.
#[derive(Debug, Default)]
pub struct ProxyFacts {
    /// When the proxy handler received the request.
    pub began: Moment,
    /// When the latest attempt began.
    pub asked: Moment,
    /// The time from there to the response head; `None` until it arrives.
    pub latency: Option<std::time::Duration>,
    /// Our requests in flight on that upstream at that time, if they are counted.
    pub requests: usize,
    /// Its limit of requests in flight; 0 for unlimited.
    pub requests_max: usize,
    /// Its number of recent failures at that time.
    pub fails: u32,
    /// All attempts, in order.
    pub tries: Vec<ProxyTry>,
}

/// One attempt, as the variables of an nginx.conf show it.
#[derive(Debug, Default)]
pub struct ProxyTry {
    /// The address as configured.
    pub address: String,
    /// Whether the attempt was made after an internal redirect.
    pub is_later: bool,
    /// When the attempt began.
    pub began: Moment,
    /// The time until the connection was established.
    pub connected: Option<std::time::Duration>,
    /// The time until the response head was received.
    pub answered: Option<std::time::Duration>,
    /// The status of the response, or the status that corresponds to the failure.
    pub status: Option<Status>,
    /// The response body.
    pub body: std::rc::Rc<ProxyBody>,
    /// The bytes sent to and received from the upstream.
    pub traffic: std::rc::Rc<sluice_upstream::Traffic>,
}

/// The body of an upstream's response, as far as it was received.
#[derive(Debug, Default)]
pub struct ProxyBody {
    /// Bytes received so far.
    pub bytes: std::cell::Cell<u64>,
    /// The time until the end of the body.
    pub ended: std::cell::Cell<Option<std::time::Duration>>,
    /// The trailer section.
    pub trailers: std::cell::RefCell<Option<Fields>>,
}

/// Adds access log fields after the response has ended.
pub trait Late: std::fmt::Debug + Send + Sync {
    /// Adds to `x.context.log.fields`.
    fn add(&self, x: &mut Exchange);
}

/// Data for the access log, in addition to the request.
#[derive(Debug, Default)]
pub struct LogInfo {
    /// Whether `log_skip` applies.
    pub skip: bool,
    /// The user authenticated by `basic_auth`.
    pub user: Option<String>,
    /// Loggers set by `log_name` instead of the site's.
    pub names: Vec<Arc<str>>,
    /// Fields added by `log_append`.
    pub fields: Vec<(Arc<str>, String)>,
    /// Fields to compute when the response has ended.
    pub late: Vec<Arc<dyn Late>>,
    /// Response body bytes sent; set when the response has ended.
    pub body_bytes_sent: u64,
    /// Request body bytes read; set when the response has ended.
    pub body_bytes_read: u64,
    /// Response bytes sent, including the head; 0 until the response has ended.
    pub bytes_sent: u64,
    /// Bytes of the response head sent.
    pub head_bytes_sent: u64,
    /// Whether the response was sent completely.
    pub is_complete: bool,
    /// The error that ended the request, if any.
    pub error: Option<String>,
    /// Whether the error was already logged.
    pub is_told: bool,
    /// The span of the trace, if `tracing` applies.
    pub trace: Option<Box<Span>>,
}

impl Context {
    /// The request body, if it was read for placeholders.
    pub fn body_text(&self) -> Option<&[u8]> {
        self.aside.as_ref()?.body_text.as_deref()
    }

    /// Truncates the body read for placeholders to `bytes_max`.
    pub fn shorten_body_text(&mut self, bytes_max: u64) {
        let Ok(bytes_max) = usize::try_from(bytes_max) else {
            return;
        };
        if let Some(text) = self
            .aside
            .as_mut()
            .and_then(|aside| aside.body_text.as_mut())
            && text.len() > bytes_max
        {
            *text = text[..bytes_max].into();
        }
    }

    /// A context for a subrequest made after this request was served: everything that placeholder values depend on.
    pub fn apart(&self) -> Context {
        Context {
            vars: self.vars.clone(),
            client_ip: self.client_ip,
            from_trusted_proxy: self.from_trusted_proxy,
            original_method: self.original_method.clone(),
            uuid: self.uuid.clone(),
            nginx: self.nginx,
            tables: self.tables.clone(),
            captures: self.captures.clone(),
            mapped: self.mapped.clone(),
            occasional: self.occasional.clone(),
            ..Context::default()
        }
    }

    /// Resets the context for the next request.
    pub fn reset(&mut self) {
        self.frames.clear();
        self.filters.clear();
        self.vars.clear();
        self.scopes.clear();
        self.groups.clear();
        self.scratch.clear();
        self.uuid.set([0; 2]);
        self.includes.set(0);
        self.aside = None;
        self.client_ip = None;
        self.from_trusted_proxy = false;
        self.error = None;
        self.original_method = None;
        self.mapped.clear();
        self.upstream.address.clear();
        self.upstream.attempts = 0;
        self.upstream.facts = None;
        self.upstream.status = None;
        self.upstream.cache = None;
        self.upstream.fields.clear();
        self.log.clear();
        self.metrics = Marks::default();
        self.nginx = NginxState::default();
        self.captures.clear();
        self.occasional.clear();
        self.tables = None;
    }
}
