//! What the walk through the routes keeps for one request. Its connection is left to `sluice-net`.

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

/// A request on its way through this server.
pub type Exchange = sluice_net::Exchange<Context>;

/// What is remembered from one step of a request to the next.
#[derive(Default)]
pub struct Context {
    /// Where the walk is; the innermost list of routes last.
    pub frames: Vec<Frame>,
    /// Lists with routes for errors that were entered, innermost last.
    pub scopes: Seldom<Vec<Scope>>,
    /// Groups of routes of which one was taken.
    pub groups: Groups,
    /// What changes the answer, applied last to first.
    pub filters: Vec<Arc<dyn Filter>>,
    /// Variables (`vars`, `map`, `root`), by name.
    pub vars: Vars,
    /// Captures of regular expressions.
    pub scratch: Scratch,
    /// The client's address as trusted proxies name it; `None` until asked for, or where the peer is meant.
    pub client_ip: Option<std::net::IpAddr>,
    /// Whether the peer is a trusted proxy.
    pub from_trusted_proxy: bool,
    /// What `{http.error.*}` shows, once a handler failed.
    pub error: Option<Box<ErrorInfo>>,
    /// The method before it was rewritten; `None` while it was not.
    pub original_method: Option<Box<sluice_message::Method>>,
    /// Placeholders that `map` set, by their names.
    pub mapped: Seldom<Vars>,
    /// What reverse proxying tells to logs and placeholders (`{http.reverse_proxy.*}`).
    pub upstream: UpstreamInfo,
    /// What was put aside; few requests have anything.
    pub aside: Option<Box<Aside>>,
    /// What `{http.request.uuid}` shows; 0 until it is asked for.
    pub uuid: std::cell::Cell<Uuid>,
    /// Pages that templates have asked the server for, for the answer to one request.
    pub includes: std::cell::Cell<u16>,
    /// What the access log is told.
    pub log: Seldom<LogInfo>,
    /// What is remembered for metrics.
    pub metrics: Marks,
    /// Where the request is among the locations of an nginx.conf.
    pub nginx: NginxState,
    /// The tables of an nginx.conf, where it has any.
    pub tables: Option<Arc<Tables>>,
    /// The groups of the latest pattern of an nginx.conf that matched.
    pub captures: Seldom<Captures>,
    /// Whether a match was given up while a value was looked for, which has no way to fail: the request fails as soon as
    /// the handler that wanted the value is done.
    pub given_up: std::cell::Cell<bool>,
    /// What else few requests to an nginx.conf need.
    pub occasional: Seldom<Occasional>,
}

/// What few requests put aside.
#[derive(Default)]
pub struct Aside {
    /// What `{http.request.body}` shows, once it was read for that.
    pub body_text: Option<Box<[u8]>>,
    /// The answer of an upstream, for `copy_response`.
    pub of_upstream: Option<Held>,
    /// The head of the upstream's answer as it came, for whoever shares or stores it.
    pub shared_head: Option<ResponseHead>,
    /// Its places behind `in_flight`.
    pub in_flight: Vec<InFlight>,
    /// Where limits of an nginx.conf count it.
    pub connections: Vec<Counted>,
    /// Answers that `intercept` took, innermost last: they go out if the routes in their place give none.
    pub intercepted: Vec<Held>,
    /// When the answer has to be sent, where a handler set a time.
    pub write_until: Option<Moment>,
    /// What `{http.intercept.*}` shows: the head of the latest answer that was taken.
    pub head: Option<ResponseHead>,
}

/// A random number of 128 bits, in halves: whole it would have to stand at a multiple of sixteen bytes.
pub type Uuid = [u64; 2];

/// What few requests have. It takes memory of its own when something is first written to it, so that thousands of
/// requests that wait for upstreams do without.
#[derive(Clone, Debug, Default)]
pub struct Seldom<T>(Option<Box<T>>);

/// What has an empty value that all can share.
pub trait Empty: Default + 'static {
    /// The empty value.
    fn empty() -> &'static Self;
    /// Empties it and keeps its memory.
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

/// A whole answer, put aside while routes decide what becomes of it.
pub struct Held {
    /// Its status, and the fields that are not in the answer under way.
    pub head: ResponseHead,
    /// Its body.
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
    /// Whether `group` is in it.
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

/// Small named values. Few enough per request that looking through them beats hashing.
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

    /// What the value called `name` is, as its configuration wrote it: a text, a number or a flag.
    pub fn kind(&self, name: &str) -> Kind {
        let mut set = self.entries[..self.used].iter();
        set.find(|var| &*var.name == name)
            .map_or(Kind::Null, |var| var.kind)
    }

    /// What the value called `name` may contribute to paths; `None` where it is not set.
    pub fn provenance(&self, name: &str) -> Option<Provenance> {
        let mut set = self.entries[..self.used].iter();
        set.find(|var| &*var.name == name).map(|var| var.provenance)
    }

    /// As [`Vars::slot`], for a value from there.
    pub fn slot_from(&mut self, name: &Arc<str>, provenance: Provenance) -> &mut Vec<u8> {
        let at = self.place_of(name, Kind::Text);
        let var = &mut self.entries[at];
        var.provenance = provenance;
        &mut var.value
    }

    /// Sets the text called `name`, a value of the request; returns its emptied buffer to write to.
    pub fn slot(&mut self, name: &Arc<str>) -> &mut Vec<u8> {
        self.slot_from(name, Provenance::Name)
    }

    /// As [`Vars::slot`], for a value of that kind that the configuration gives.
    pub fn slot_of(&mut self, name: &Arc<str>, kind: Kind) -> &mut Vec<u8> {
        let at = self.place_of(name, kind);
        let var = &mut self.entries[at];
        var.provenance = Provenance::Configured;
        &mut var.value
    }

    /// The number of the emptied value called `name`, of a request unless something else is said.
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

    /// Forgets all values and keeps their memory.
    pub fn clear(&mut self) {
        self.used = 0;
    }

    /// All values, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.entries[..self.used]
            .iter()
            .map(|var| (&*var.name, &var.value[..]))
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

/// What is known of the upstream of a request.
#[derive(Debug, Default)]
pub struct UpstreamInfo {
    /// Its address as configured, empty while none was chosen.
    pub address: String,
    /// Attempts made.
    pub attempts: u32,
    /// What placeholders show of the time and of the load, where the configuration has such.
    pub facts: Option<Box<ProxyFacts>>,
    /// Status it answered with.
    pub status: Option<Status>,
    /// What the store of answers had for the request, where it was asked.
    pub cache: Option<CacheStatus>,
    /// Fields it answered with, where `handle_response` lets others see them.
    pub fields: Seldom<Fields>,
}

/// What few configurations ask of reverse proxying: it costs readings of the clock.
#[derive(Debug, Default)]
pub struct ProxyFacts {
    /// When the request came to the proxy.
    pub began: Moment,
    /// When the last upstream was turned to.
    pub asked: Moment,
    /// From there to the head of its answer, once that is here.
    pub latency: Option<std::time::Duration>,
    /// Requests that it was working on for us then, if they are counted.
    pub requests: usize,
    /// The most that it gets; 0 without limit.
    pub requests_max: usize,
    /// Its failures that still counted then.
    pub fails: u32,
    /// All upstreams that were turned to, in their order.
    pub tries: Vec<ProxyTry>,
}

/// An upstream that was turned to, as variables of an nginx.conf show it.
#[derive(Debug, Default)]
pub struct ProxyTry {
    /// Its address as configured.
    pub address: String,
    /// Whether it was turned to after a redirect within the server.
    pub is_later: bool,
    /// When it was turned to.
    pub began: Moment,
    /// How long it took until a connection to it was there.
    pub connected: Option<std::time::Duration>,
    /// How long it took until the head of its answer was here.
    pub answered: Option<std::time::Duration>,
    /// The status that it answered with, or that its failure stands for.
    pub status: Option<Status>,
    /// What is known of the body of its answer.
    pub body: std::rc::Rc<ProxyBody>,
    /// The bytes to it and from it.
    pub traffic: std::rc::Rc<sluice_net::upstream::Traffic>,
}

/// The body of an upstream's answer, as far as it has come.
#[derive(Debug, Default)]
pub struct ProxyBody {
    /// Its bytes.
    pub bytes: std::cell::Cell<u64>,
    /// How long it took until it had ended.
    pub ended: std::cell::Cell<Option<std::time::Duration>>,
    /// The fields behind it.
    pub trailers: std::cell::RefCell<Option<Fields>>,
}

/// What adds to the access log when the answer has ended.
pub trait Late: std::fmt::Debug + Send + Sync {
    /// Adds to `x.context.log.fields`.
    fn add(&self, x: &mut Exchange);
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
    /// What is still to be asked for fields, when the answer has ended.
    pub late: Vec<Arc<dyn Late>>,
    /// Bytes of the answer's body that were sent, once it has ended.
    pub body_bytes_sent: u64,
    /// Bytes of the request's body that were read, once the answer has ended.
    pub body_bytes_read: u64,
    /// Bytes of the answer as it was sent, known once it has ended; 0 before.
    pub bytes_sent: u64,
    /// How many of these are its head.
    pub head_bytes_sent: u64,
    /// Whether it has ended and was sent whole.
    pub is_complete: bool,
    /// Error that ended the request, if any.
    pub error: Option<String>,
    /// Whether the log was told of it already.
    pub is_told: bool,
    /// The span of a trace, where `tracing` asked for one.
    pub trace: Option<Box<Span>>,
}

impl Context {
    /// The body of the request, if it was read for placeholders.
    pub fn body_text(&self) -> Option<&[u8]> {
        self.aside.as_ref()?.body_text.as_deref()
    }

    /// Keeps no more of it than a limit allows.
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

    /// What another request needs that is made in place of this one, when that has been answered: everything by which
    /// placeholders have their values.
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

    /// Makes it ready for the next request.
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
