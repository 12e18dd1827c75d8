//! The state of one request while it passes through the routes. `sluice-net` manages its connection.

use std::any::Any;
use std::sync::Arc;

use sluice_message::{FieldName, Fields, Moment, ResponseHead, Status};
use sluice_net::{Body, ClientLimits};

use crate::failure::Reason;
use crate::frame::{Frame, Scope};
use crate::seldom::{Empty, Seldom};
use crate::step::Waiting;
use crate::vars::Vars;
use sluice_observe::log::Level;
use sluice_observe::metrics::Marks;
use sluice_observe::site_counts::SiteMark;
use sluice_observe::tracing::Span;
use sluice_route::placeholder::NginxKey;
use sluice_route::{Found, Provenance, Scratch};

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
    /// The ID of the request, with `request_id`.
    pub request_id: Option<Arc<RequestId>>,
    /// Number of pages included by templates for this response.
    pub includes: std::cell::Cell<u16>,
    /// Data for the access log.
    pub log: Seldom<LogInfo>,
    /// Data for metrics.
    pub metrics: Marks,
    /// The site that it counts at.
    pub site: SiteMark,
    /// State of the configuration language that the server was configured in, if it keeps any.
    pub dialect: DialectSlot,
    /// Whether a regular expression exceeded its matching limit while a value was computed. Values cannot fail, so the
    /// request fails once the current handler returns.
    pub given_up: std::cell::Cell<bool>,
}

/// Changes a response on its way to the client; the filter added last runs first. Filters see responses only, not
/// errors that have yet to be turned into one.
pub trait Filter: Send + Sync {
    /// Changes the head (`exchange.res`) or the body of a response.
    fn apply(&self, exchange: &mut Exchange, body: Body) -> Body;

    /// Whether the filter has to await the body or something else; if so, [`Filter::wait`] is called instead of
    /// `apply`.
    fn waits(&self, _x: &Exchange, _body: &Body) -> bool {
        false
    }

    /// Changes a response asynchronously, or fails.
    fn wait<'a>(self: Arc<Self>, _x: &'a mut Exchange, _body: Body) -> Waiting<'a> {
        unreachable!("a filter that waits says how")
    }

    /// Undoes the handler's changes to the request, because the response it was meant for is not sent.
    fn give_up(&self, _x: &mut Exchange) {}

    /// The list of routes that produces a response to replace this one, if any.
    fn diverts(&self, _x: &mut Exchange) -> Option<usize> {
        None
    }
}

/// State that few requests need.
#[derive(Default)]
pub struct Aside {
    /// The value of `{http.request.body}`, once the body was read for it.
    pub body_text: Option<Box<[u8]>>,
    /// The upstream's response, for `copy_response`.
    pub of_upstream: Option<Held>,
    /// Whether a proxy has asked an upstream about the request and then passed it on, as `forward_auth` does: the
    /// response may be for this client only.
    pub is_vouched_for: bool,
    /// Whether a cache has the handlers behind it respond. Further ones would wait for it, as their keys are the same.
    pub is_being_cached: bool,
    /// The head of the upstream's response as received, for coalescing and the cache.
    pub shared_head: Option<ResponseHead>,
    /// What the request holds until the response has ended: its slots in `in_flight` and connection limits, for
    /// instance. Dropping an element releases it.
    pub guards: Vec<Box<dyn Any>>,
    /// Responses held back by `intercept`, innermost last. They are sent if the replacement routes do not produce a
    /// response.
    pub intercepted: Vec<Held>,
    /// The deadline for sending the response, if a handler set one.
    pub write_until: Option<Moment>,
    /// The limits for the client while it takes the response, if a handler set some.
    pub client_limits: Option<Arc<ClientLimits>>,
    /// The head of the latest intercepted response, for `{http.intercept.*}`.
    pub head: Option<ResponseHead>,
    /// What a handler that returned [`Step::Later`](crate::Step::Later) continues with.
    pub awaited: Option<Box<dyn Any>>,
    /// What a cache did with the request, for `Cache-Status`, if it sends that.
    pub cache: Option<Box<CacheNote>>,
}

/// What a cache did with a request.
#[derive(Debug, Default)]
pub struct CacheNote {
    /// Whether another node of the cache sent the request: it gets the response as the upstream sent it.
    pub is_for_peer: bool,
    /// Seconds for which the cached response is still fresh; negative if it is stale.
    pub ttl: Option<i64>,
    /// Whether the response is being cached.
    pub is_stored: bool,
    /// The node that the request was forwarded to, or why it was not.
    pub detail: Option<String>,
    /// Whether another node has responded instead.
    pub is_forwarded: bool,
    /// Whether the request was forwarded because it does not accept the cached response.
    pub is_by_request: bool,
}

/// The ID of a request, which `request_id` has set.
#[derive(Debug)]
pub struct RequestId {
    /// Its text: letters, digits and signs that need no escapes in headers, logs and HTML.
    pub(crate) text: Box<str>,
    /// The header that has it.
    pub(crate) header: Arc<FieldName>,
}

impl RequestId {
    /// Its text, which needs no escapes in headers, logs and HTML.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// A random 128-bit number in two halves: a `u128` would require 16-byte alignment.
pub type Uuid = [u64; 2];

/// State that a configuration language keeps for each request. The pipeline stores it without knowing its type.
pub trait DialectState: Any {
    /// Clears the state for the next request and keeps its allocations.
    fn clear(&mut self);

    /// The state of a subrequest made after this request was served.
    fn apart(&self) -> Box<dyn DialectState>;

    /// Whether the request is a subrequest.
    fn is_subrequest(&self) -> bool;

    /// Whether the response is a part of a larger one that `key` distinguishes, so that it can be cached separately.
    fn is_part(&self, key: &[u8]) -> bool;

    /// Whether the handler that responds leaves ranges to a filter; if so, this marks them as offered in the header
    /// fields of the response.
    fn leaves_ranges(&mut self, fields: &mut Fields) -> bool;

    /// Appends the value of a placeholder that only this language has.
    fn value(&self, exchange: &Exchange, key: &NginxKey, out: &mut Vec<u8>) -> Found;

    /// What a client is called whose connection came over a unix socket and has no address.
    fn unix_client(&self) -> &'static str;

    /// The provenance of that value when it is used in paths; `None` for that of the key.
    fn provenance(&self, exchange: &Exchange, key: &NginxKey) -> Option<Provenance>;
}

/// The state of at most one configuration language. It is allocated on first write and kept for later requests of the
/// connection.
#[derive(Default)]
pub struct DialectSlot(Option<Box<dyn DialectState>>);

impl DialectSlot {
    /// The state, if it is there and of this type.
    pub fn find<T: DialectState>(&self) -> Option<&T> {
        let state: &dyn Any = &**self.0.as_ref()?;
        state.downcast_ref()
    }

    /// The state, created if necessary.
    pub fn state<T: DialectState + Default>(&mut self) -> &mut T {
        if self.find::<T>().is_none() {
            self.0 = None;
        }
        let state = self.0.get_or_insert_with(|| Box::<T>::default());
        let state: &mut dyn Any = &mut **state;
        state
            .downcast_mut()
            .expect("a state of another type was removed")
    }

    /// The state of any type, if it is there.
    pub fn any(&self) -> Option<&dyn DialectState> {
        self.0.as_deref()
    }

    /// Whether the request is a subrequest of the configuration language.
    pub fn is_subrequest(&self) -> bool {
        self.any().is_some_and(DialectState::is_subrequest)
    }

    /// Whether the response is a part that `key` distinguishes from others.
    pub fn is_part(&self, key: &[u8]) -> bool {
        self.any().is_some_and(|state| state.is_part(key))
    }

    /// Whether the handler that responds leaves ranges to a filter. If so, they are marked as offered in `fields`.
    pub fn leaves_ranges(&mut self, fields: &mut Fields) -> bool {
        let state = self.0.as_mut();
        state.is_some_and(|state| state.leaves_ranges(fields))
    }

    fn apart(&self) -> DialectSlot {
        DialectSlot(self.any().map(DialectState::apart))
    }

    fn clear(&mut self) {
        if let Some(state) = &mut self.0 {
            state.clear();
        }
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

impl Empty for LogInfo {
    fn empty() -> &'static Self {
        static EMPTY: LogInfo = LogInfo {
            skip: false,
            level: None,
            user: None,
            names: Vec::new(),
            fields: Vec::new(),
            queued: std::time::Duration::ZERO,
            late: Vec::new(),
            body_bytes_sent: 0,
            body_bytes_read: 0,
            bytes_sent: 0,
            head_bytes_sent: 0,
            is_complete: false,
            error: None,
            is_logged: false,
            trace: None,
        };
        &EMPTY
    }

    fn clear(&mut self) {
        self.skip = false;
        self.queued = std::time::Duration::ZERO;
        self.level = None;
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
        self.is_logged = false;
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
#[derive(Clone, Default)]
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

/// The cache status of a request, as in nginx's `$upstream_cache_status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheStatus {
    /// A fresh response was used.
    Hit,
    /// There was no cached response.
    Miss,
    /// A stale response was replaced.
    Expired,
    /// A stale response was used.
    Stale,
    /// A stale response was used while another request updates it.
    Updating,
    /// A stale response was confirmed by the upstream.
    Revalidated,
    /// The cache was not used.
    Bypass,
}

impl CacheStatus {
    /// nginx's name for the status.
    pub const fn as_str(self) -> &'static str {
        match self {
            CacheStatus::Hit => "HIT",
            CacheStatus::Miss => "MISS",
            CacheStatus::Expired => "EXPIRED",
            CacheStatus::Stale => "STALE",
            CacheStatus::Updating => "UPDATING",
            CacheStatus::Revalidated => "REVALIDATED",
            CacheStatus::Bypass => "BYPASS",
        }
    }
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
    /// The address that the connection leads to, once it is established; `None` for a Unix socket.
    pub peer: Option<std::net::SocketAddr>,
    /// Whether the attempt was made after an internal redirect.
    pub is_later: bool,
    /// When the attempt began.
    pub began: Moment,
    /// The time until the connection was established.
    pub connected: Option<std::time::Duration>,
    /// The time until the response head was received.
    pub responded: Option<std::time::Duration>,
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
    /// Adds to `exchange.context.log.fields`.
    fn add(&self, exchange: &mut Exchange);
}

/// Data for the access log, in addition to the request.
#[derive(Debug, Default)]
pub struct LogInfo {
    /// Whether `log_skip` applies.
    pub skip: bool,
    /// The level of the entry instead of the one that follows from the status, if `log_level` set one.
    pub level: Option<Level>,
    /// The user authenticated by `basic_auth`.
    pub user: Option<String>,
    /// Loggers set by `log_name` instead of the site's.
    pub names: Vec<Arc<str>>,
    /// Fields added by `log_append`.
    pub fields: Vec<(Arc<str>, String)>,
    /// How long handlers have held it back.
    pub queued: std::time::Duration,
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
    pub error: Option<Reason>,
    /// Whether the error was already logged.
    pub is_logged: bool,
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
            request_id: self.request_id.clone(),
            dialect: self.dialect.apart(),
            mapped: self.mapped.clone(),
            ..Context::default()
        }
    }

    /// A context with which the handlers that follow the current one can run apart from this request, whose client gets
    /// another response meanwhile.
    pub fn continued(&self) -> Context {
        Context {
            frames: self.frames.clone(),
            groups: self.groups.clone(),
            scratch: self.scratch.copied(),
            ..self.apart()
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
        self.request_id = None;
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
        self.site = SiteMark::default();
        self.dialect.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::EXCHANGE_BYTES_MAX;

    #[test]
    fn a_request_takes_no_more_than_its_limit() {
        let bytes = size_of::<Exchange>();
        assert!(bytes <= EXCHANGE_BYTES_MAX, "{bytes} bytes");
    }
}
