//! Routes and their handlers. A handler may have routes of its own, so the large ones are modules in here: the reverse
//! proxy, the cache, and those of nginx.

mod body_buffers;
pub mod cache;
pub mod nginx;
pub mod proxy;
pub mod python;
mod rate_limit;
pub mod response_cache;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::matcher::{MatcherSet, ResponseMatcher};
use crate::object::{RawModule, objects, tagged};
use crate::route_origin::RouteOrigin;
use crate::value::{Duration, WeakString};
use crate::walk::walk_fields;
use cache::Cache;
use nginx::{
    AccessLines, AccessRules, Addition, BodyFile, Charset, ConnectionLimits, Expires, Gunzip, Gzip,
    Mirror, Nginx, NginxFiles, OwnContent, PassByVariable, PostAction, Ranges, RealIp,
    ResponseRate, Slice, Ssi, Substitutions, Trailers, TryFiles, UserId,
};
use proxy::ReverseProxy;
use python::Python;
pub use rate_limit::{RateLimit, RateZone, SharedLimit};
use response_cache::ResponseCache;

/// Header fields with their values, in the order of their names.
pub type FieldValues = BTreeMap<String, Vec<String>>;

objects! {
    /// A list of handlers and when it applies.
    pub struct Route {
        /// Of the routes in one group only the first that matches is taken.
        pub group: String,
        /// Any of these sets must match; an empty list always does.
        pub r#match: Vec<MatcherSet>,
        /// The handlers, from the outside in.
        pub handle: Vec<Handler>,
        /// No further routes are tried after this one.
        pub terminal: bool,
        /// Where its handlers were written; no part of the JSON.
        #[serde(skip)]
        pub origin: RouteOrigin,
    }

    /// Routes for requests that failed.
    pub struct ErrorRoutes {
        /// The routes, tried in order.
        pub routes: Vec<Route>,
    }
}

tagged! {
    /// What happens to a request.
    pub enum Handler by "handler" {
        /// Signs certificates for others.
        AcmeServer(Box<AcmeServer>) = "acme_server",
        /// Asks who the client is.
        Authentication(Authentication) = "authentication",
        /// Serves responses of the handlers behind it from the cache, in the words of the plugin `cache-handler`.
        Cache(Box<ResponseCache>) = "cache",
        /// Writes the intercepted response.
        CopyResponse(CopyResponse) = "copy_response",
        /// Copies fields of the intercepted response.
        CopyResponseHeaders(CopyResponseHeaders) = "copy_response_headers",
        /// Compresses responses.
        Encode(Encode) = "encode",
        /// Fails the request.
        Error(StaticError) = "error",
        /// Serves files.
        FileServer(Box<FileServer>) = "file_server",
        /// Changes header fields.
        Headers(Box<Headers>) = "headers",
        /// Limits concurrent requests. sluice's own module.
        InFlight(InFlight) = "in_flight",
        /// Replaces responses.
        Intercept(Intercept) = "intercept",
        /// Calls a named route.
        Invoke(Invoke) = "invoke",
        /// Adds a field to the access log.
        LogAppend(LogAppend) = "log_append",
        /// Sets variables from a table.
        Map(Map) = "map",
        /// Serves metrics.
        Metrics(MetricsHandler) = "metrics",
        /// The virtual servers of an nginx.conf. Our own module.
        Nginx(Box<Nginx>) = "nginx",
        /// Who may come in, by nginx's rules. Our own module.
        NginxAccess(Box<AccessRules>) = "nginx_access",
        /// Responses of other paths before and after the body, as in nginx. sluice's own module.
        NginxAddition(Addition) = "nginx_addition",
        /// Request bodies in files, as in nginx. sluice's own module.
        NginxBodyFile(BodyFile) = "nginx_body_file",
        /// A request that follows another one, as in nginx. sluice's own module.
        NginxPostAction(PostAction) = "nginx_post_action",
        /// Serves responses of an upstream from the cache, as nginx does. sluice's own module.
        NginxCache(Box<Cache>) = "nginx_cache",
        /// Which encoding texts have, as nginx says it. Our own module.
        NginxCharset(Charset) = "nginx_charset",
        /// Limits concurrent requests as nginx's `limit_conn` does. sluice's own module.
        NginxConnections(ConnectionLimits) = "nginx_limit_conn",
        /// nginx's built-in content. sluice's own module.
        NginxContent(OwnContent) = "nginx_content",
        /// `Range` requests for responses that other handlers may change. sluice's own module.
        NginxRanges(Ranges) = "nginx_ranges",
        /// Limits the rate at which responses are sent, as nginx does. sluice's own module.
        NginxRate(ResponseRate) = "nginx_limit_rate",
        /// Ends responses of unknown length with the connection, for clients that cannot read chunks. sluice's own module.
        NginxUnchunked(NoSettings) = "nginx_unchunked",
        /// Determines the client address behind trusted proxies, as nginx does. sluice's own module.
        NginxRealIp(RealIp) = "nginx_realip",
        /// The `Expires` header, as in nginx. sluice's own module.
        NginxExpires(Expires) = "nginx_expires",
        /// Files as nginx serves them. Our own module.
        NginxFiles(Box<NginxFiles>) = "nginx_files",
        /// Undoes compression, as nginx does. Our own module.
        NginxGunzip(Gunzip) = "nginx_gunzip",
        /// Compresses responses as nginx does. sluice's own module.
        NginxGzip(Gzip) = "nginx_gzip",
        /// nginx's access logs. sluice's own module.
        NginxLog(AccessLines) = "nginx_log",
        /// Sends copies of requests elsewhere, as nginx does. Our own module.
        NginxMirror(Mirror) = "nginx_mirror",
        /// Passes requests on to addresses with variables, as nginx does. Our own module.
        NginxPass(Box<PassByVariable>) = "nginx_pass",
        /// Fetches responses in slices. sluice's own module.
        NginxSlice(Slice) = "nginx_slice",
        /// Commands in pages. Our own module.
        NginxSsi(Box<Ssi>) = "nginx_ssi",
        /// Replaces text in responses as nginx does. sluice's own module.
        NginxSub(Substitutions) = "nginx_sub",
        /// Trailers, as in nginx. sluice's own module.
        NginxTrailers(Trailers) = "nginx_trailers",
        /// Goes on with the first file that exists, as nginx does. Our own module.
        NginxTryFiles(Box<TryFiles>) = "nginx_try_files",
        /// Cookies by which clients are known again, as nginx gives them. Our own module.
        NginxUserId(Box<UserId>) = "nginx_userid",
        /// Sheds requests that an upstream cannot serve in time. sluice's own module.
        Overload(Box<Overload>) = "overload",
        /// Pushes resources over HTTP/2.
        Push(Push) = "push",
        /// Serves requests with a Python application. Not in Caddy itself: Caddy Snake's module, with settings of our own.
        Python(Box<Python>) = "python",
        /// Refuses requests that come too often. Not in Caddy itself: a plugin's module.
        RateLimit(Box<RateLimit>) = "rate_limit",
        /// Limits or replaces the request body.
        RequestBody(RequestBody) = "request_body",
        /// Passes the request on.
        ReverseProxy(Box<ReverseProxy>) = "reverse_proxy",
        /// Changes method or target.
        Rewrite(Box<Rewrite>) = "rewrite",
        /// Sends a fixed response.
        StaticResponse(StaticResponse) = "static_response",
        /// Routes within a route.
        Subroute(Subroute) = "subroute",
        /// Runs responses through templates.
        Templates(Templates) = "templates",
        /// Timeouts for the transfer of bodies.
        Timeouts(Timeouts) = "timeouts",
        /// Adds a span to a trace.
        Tracing(Tracing) = "tracing",
        /// Sets variables.
        Vars(BTreeMap<String, Value>) = "vars",
    }
}

impl Handler {
    /// The lists of routes inside of it, each to be walked for itself.
    pub fn route_lists_mut(&mut self) -> Vec<&mut Vec<Route>> {
        match self {
            Self::Subroute(subroute) => {
                let errors = subroute.errors.iter_mut().map(|errors| &mut errors.routes);
                core::iter::once(&mut subroute.routes)
                    .chain(errors)
                    .collect()
            }
            Self::ReverseProxy(proxy) => response_routes(&mut proxy.handle_response),
            Self::Intercept(intercept) => response_routes(&mut intercept.handle_response),
            Self::Nginx(nginx) => nginx.route_lists_mut(),
            Self::NginxPass(pass) => pass.to.values_mut().collect(),
            _ => Vec::new(),
        }
    }
}

fn response_routes(handlers: &mut [ResponseHandler]) -> Vec<&mut Vec<Route>> {
    handlers
        .iter_mut()
        .map(|handler| &mut handler.routes)
        .collect()
}

objects! {
    /// Limits concurrent requests.
    pub struct InFlight {
        /// The most at a time.
        pub max: i64,
        /// What is counted apart; all together when it has no placeholder.
        pub key: String,
        /// How many more wait for a place.
        pub queue: i64,
        /// How long one waits, 10 s when zero.
        pub timeout: Duration,
        /// Counts together with other servers.
        pub distributed: Option<SharedFlight>,
    }

    /// How several servers count requests in flight together.
    pub struct SharedFlight {
        /// Limits with the same name in one store are one.
        pub name: String,
        /// The URL of the Redis server where all count.
        pub store: String,
        /// A file with the CAs (PEM) that the server's certificate may come from; those of the system when empty.
        pub ca: String,
        /// How long a request waits for the store at most, 5 ms when zero.
        pub deadline: Duration,
        /// What happens to requests without the store: `local` lets each server count for itself, `closed` refuses; `local`
        /// when empty.
        pub on_error: String,
    }

    /// Sheds requests that an upstream cannot serve in time.
    pub struct Overload {
        /// What happens beyond the limit: `fail_fast`, `queue`, or `adaptive`, which finds the limit itself.
        pub mode: String,
        /// Handlers with the same name and settings share one limit; each has its own when empty.
        pub name: String,
        /// The most requests at a time. With `adaptive` the highest limit, 10,000 when zero.
        pub max: i64,
        /// The lowest limit of `adaptive`, 2 when zero.
        pub min: i64,
        /// The latency that requests may have under load with `adaptive`, 100 ms when zero.
        pub target_latency: Duration,
        /// How many requests wait at most, 1,000 when zero.
        pub queue: i64,
        /// How long a request waits, 1 s when zero; with `adaptive`, `target_latency`.
        pub timeout: Duration,
        /// What identifies a client, its address when empty.
        pub key: String,
        /// Bits of a key that is an IPv4 address; all 32 when zero.
        pub ipv4_prefix: i64,
        /// Bits of a key that is an IPv6 address; 64 when zero.
        pub ipv6_prefix: i64,
        /// The class of a request, `high`, `normal` or `low`; any other text leaves it to `priorities`.
        pub priority: String,
        /// The classes of requests that match, the first one counts.
        pub priorities: Vec<Priority>,
    }

    /// Requests of one class.
    pub struct Priority {
        /// `high`, `normal` or `low`.
        pub class: String,
        /// The requests that have it.
        pub r#match: Vec<MatcherSet>,
    }

    /// Signs certificates for others.
    pub struct AcmeServer {
        /// The ID of the CA.
        pub ca: String,
        /// The lifetime of certificates.
        pub lifetime: Duration,
        /// The name in the directory.
        pub host: String,
        /// The path all resources start with.
        pub path_prefix: String,
        /// Signs with the root.
        pub sign_with_root: bool,
        /// DNS servers for validation.
        pub resolvers: Vec<String>,
        /// The challenges offered.
        pub challenges: Vec<String>,
        /// Which names may be asked for.
        pub policy: Option<AcmePolicy>,
        /// Where http-01 looks, 80 when 0. Ours: Caddy looks nowhere else.
        pub validation_http_port: u16,
        /// Where tls-alpn-01 looks, 443 when 0. Ours, too.
        pub validation_tls_port: u16,
    }

    /// Which names may be asked for.
    pub struct AcmePolicy {
        /// Names that may.
        pub allow: Option<AcmeRules>,
        /// Names that may not.
        pub deny: Option<AcmeRules>,
        /// Allows wildcards.
        pub allow_wildcard_names: bool,
    }

    /// Names and addresses.
    pub struct AcmeRules {
        /// Domains.
        pub domains: Vec<String>,
        /// Address ranges.
        pub ip_ranges: Vec<String>,
    }

    /// Asks who the client is.
    pub struct Authentication {
        /// The ways to ask.
        pub providers: AuthenticationProviders,
    }

    /// The ways to ask; one success suffices.
    pub struct AuthenticationProviders {
        /// Name and password.
        pub http_basic: Option<HttpBasic>,
    }

    /// Name and password.
    pub struct HttpBasic {
        /// How passwords are hashed, bcrypt when absent.
        pub hash: Option<PasswordHash>,
        /// The accounts.
        pub accounts: Vec<Account>,
        /// The realm shown to people.
        pub realm: String,
        /// Remembers checked passwords.
        pub hash_cache: Option<HashCache>,
    }

    /// Remembers checked passwords.
    pub struct HashCache {}

    /// Settings of bcrypt.
    pub struct Bcrypt {
        /// The work factor for new hashes.
        pub cost: i64,
    }

    /// Settings of argon2id.
    pub struct Argon2id {
        /// Passes.
        pub time: u32,
        /// Memory in KiB.
        pub memory: u32,
        /// Lanes.
        pub threads: u8,
        /// Bytes of the key.
        pub key_len: u32,
        /// Bytes of the salt.
        pub salt_length: i64,
    }

    /// Writes the intercepted response.
    pub struct CopyResponse {
        /// A status that replaces the response's own.
        pub status_code: WeakString,
    }

    /// Copies fields of the intercepted response.
    pub struct CopyResponseHeaders {
        /// Only these.
        pub include: Vec<String>,
        /// All but these.
        pub exclude: Vec<String>,
    }

    /// Compresses responses.
    pub struct Encode {
        /// The encodings and their settings.
        pub encodings: Encodings,
        /// The order of preference.
        pub prefer: Vec<String>,
        /// The size from which compression pays, 512 when zero.
        pub minimum_length: u64,
        /// The responses that are compressed; a list of content types when absent.
        pub r#match: Option<ResponseMatcher>,
    }

    /// The encodings and their settings.
    pub struct Encodings {
        /// Brotli; a word of ours, Caddy has it only for files compressed ahead.
        pub br: Option<LevelEncoder>,
        /// Gzip.
        pub gzip: Option<LevelEncoder>,
        /// Zstandard.
        pub zstd: Option<ZstdEncoder>,
    }

    /// An encoder with a numeric level.
    pub struct LevelEncoder {
        /// The level, the encoder's own default when zero.
        pub level: i64,
    }

    /// Zstandard.
    pub struct ZstdEncoder {
        /// `fastest`, `default`, `better` or `best`.
        pub level: String,
        /// Whether a checksum ends the stream.
        pub checksum: Option<bool>,
    }

    /// Fails the request.
    pub struct StaticError {
        /// The message, which may hold placeholders.
        pub error: String,
        /// The status, 500 when empty.
        pub status_code: WeakString,
    }

    /// Serves files.
    pub struct FileServer {
        /// The name of the file system, the local disk when empty.
        pub fs: String,
        /// The folder, `{http.vars.root}` when empty.
        pub root: String,
        /// Names and paths that are never shown.
        pub hide: Vec<String>,
        /// Names tried for a folder.
        pub index_names: Vec<String>,
        /// Lists folders, when present.
        pub browse: Option<Browse>,
        /// Whether requests are redirected to the one right spelling of a path.
        pub canonical_uris: Option<bool>,
        /// The status of successful responses.
        pub status_code: WeakString,
        /// Passes the request on when there is no file.
        pub pass_thru: bool,
        /// Encodings that are looked for beside the file.
        pub precompressed: Precompressed,
        /// The order of preference among them.
        pub precompressed_order: Vec<String>,
        /// Endings of files that hold an ETag.
        pub etag_file_extensions: Vec<String>,
    }

    /// Lists folders.
    pub struct Browse {
        /// A template for the page.
        pub template_file: String,
        /// Shows where symbolic links lead.
        pub reveal_symlinks: bool,
        /// The field and direction of sorting.
        pub sort: Vec<String>,
        /// The most entries shown.
        pub file_limit: i64,
        /// The layout of times in listings as plain text, in Go's notation.
        pub plain_time_format: String,
    }

    /// Encodings that are looked for beside the file.
    pub struct Precompressed {
        /// Brotli, `.br`.
        pub br: Option<NoSettings>,
        /// Gzip, `.gz`.
        pub gzip: Option<NoSettings>,
        /// Zstandard, `.zst`.
        pub zstd: Option<NoSettings>,
    }

    /// An object without fields.
    pub struct NoSettings {}

    /// Changes header fields.
    pub struct Headers {
        /// Of the request.
        pub request: Option<HeaderOps>,
        /// Of the response.
        pub response: Option<ResponseHeaderOps>,
    }

    /// Changes to header fields.
    pub struct HeaderOps {
        /// Fields to add.
        pub add: FieldValues,
        /// Fields to replace.
        pub set: FieldValues,
        /// Fields to remove; a `*` at either end is a wildcard.
        pub delete: Vec<String>,
        /// Texts to replace within fields.
        pub replace: BTreeMap<String, Vec<Replacement>>,
    }

    /// Changes to the fields of a response.
    pub struct ResponseHeaderOps {
        /// Fields to add.
        pub add: FieldValues,
        /// Fields to replace.
        pub set: FieldValues,
        /// Fields to remove; a `*` at either end is a wildcard.
        pub delete: Vec<String>,
        /// Texts to replace within fields.
        pub replace: BTreeMap<String, Vec<Replacement>>,
        /// The responses that are changed.
        pub require: Option<ResponseMatcher>,
        /// Changes when the head is written rather than before the next handler.
        pub deferred: bool,
        /// Values that come to nothing are not added. Our own word.
        pub skip_empty: bool,
    }

    /// A text to replace.
    pub struct Replacement {
        /// What to look for.
        pub search: String,
        /// The pattern to look for.
        pub search_regexp: String,
        /// What to put in its place.
        pub replace: String,
    }

    /// Replaces responses.
    pub struct Intercept {
        /// Responses and what to do with them.
        pub handle_response: Vec<ResponseHandler>,
    }

    /// A kind of response and what to do with it.
    pub struct ResponseHandler {
        /// The responses; all when absent.
        pub r#match: Option<ResponseMatcher>,
        /// A status that replaces the response's own.
        pub status_code: WeakString,
        /// Routes that produce the response instead.
        pub routes: Vec<Route>,
    }

    /// Calls a named route.
    pub struct Invoke {
        /// Its name.
        pub name: String,
    }

    /// Adds a field to the access log.
    pub struct LogAppend {
        /// The key.
        pub key: String,
        /// The value, which may be a placeholder or the name of a variable.
        pub value: String,
        /// Takes the value before the request is handled.
        pub early: bool,
    }

    /// Sets variables from a table.
    pub struct Map {
        /// The text that is looked up.
        pub source: String,
        /// The placeholders that are set.
        pub destinations: Vec<String>,
        /// The rows, tried in order.
        pub mappings: Vec<Mapping>,
        /// Values where no row fits.
        pub defaults: Vec<String>,
    }

    /// A row of a table.
    pub struct Mapping {
        /// The exact text.
        pub input: String,
        /// The pattern.
        pub input_regexp: String,
        /// One value for each destination; null leaves it to the default.
        pub outputs: Vec<Value>,
    }

    /// Serves metrics.
    pub struct MetricsHandler {
        /// Offers the plain text format only.
        pub disable_openmetrics: bool,
    }

    /// Pushes resources over HTTP/2.
    pub struct Push {
        /// What is pushed.
        pub resources: Vec<PushResource>,
        /// Fields of the pushed requests.
        pub headers: Option<HeaderOps>,
    }

    /// A pushed resource.
    pub struct PushResource {
        /// The method, GET when empty.
        pub method: String,
        /// The path.
        pub target: String,
    }

    /// Limits or replaces the request body.
    pub struct RequestBody {
        /// The most bytes.
        pub max_size: i64,
        /// How long reading may take.
        pub read_timeout: Duration,
        /// How long writing may take.
        pub write_timeout: Duration,
        /// A text that replaces the body.
        pub set: String,
    }

    /// Timeouts for the transfer of bodies.
    pub struct Timeouts {
        /// How long reading the request body may make no progress.
        pub read_timeout: Duration,
        /// The lowest rate at which the client may send, in bytes per second, after `read_timeout`.
        pub read_min_rate: i64,
        /// How long writing the response may make no progress.
        pub write_timeout: Duration,
        /// The lowest rate at which the client may take the response, in bytes per second, after `write_timeout`.
        pub write_min_rate: i64,
        /// The most bytes of one write. Without effect: timeouts are for bytes, not for writes.
        pub max_write_chunk: i64,
    }

    /// Changes method or target.
    pub struct Rewrite {
        /// The method.
        pub method: String,
        /// The target.
        pub uri: String,
        /// What is cut from the front of the path.
        pub strip_path_prefix: String,
        /// What is cut from the end of the path.
        pub strip_path_suffix: String,
        /// Texts replaced in the target.
        pub uri_substring: Vec<UriReplacement>,
        /// Patterns replaced in the path.
        pub path_regexp: Vec<PathReplacement>,
        /// Changes to the query.
        pub query: Option<QueryOps>,
    }

    /// A text replaced in the target.
    pub struct UriReplacement {
        /// What to look for.
        pub find: String,
        /// What to put in its place.
        pub replace: String,
        /// How many times; without end when zero.
        pub limit: i64,
    }

    /// A pattern replaced in the path.
    pub struct PathReplacement {
        /// The pattern.
        pub find: String,
        /// What to put in its place.
        pub replace: String,
    }

    /// Changes to the query.
    pub struct QueryOps {
        /// Keys to rename.
        pub rename: Vec<QueryPair>,
        /// Keys to replace.
        pub set: Vec<QueryPair>,
        /// Values to add.
        pub add: Vec<QueryPair>,
        /// Texts to replace within values.
        pub replace: Vec<QueryReplacement>,
        /// Keys to remove.
        pub delete: Vec<String>,
    }

    /// A key and a value.
    pub struct QueryPair {
        /// The key.
        pub key: String,
        /// The value.
        pub val: String,
    }

    /// A text to replace within the values of a key.
    pub struct QueryReplacement {
        /// The key; `*` for all.
        pub key: String,
        /// What to look for.
        pub search: String,
        /// The pattern to look for.
        pub search_regexp: String,
        /// What to put in its place.
        pub replace: String,
    }

    /// Sends a fixed response.
    pub struct StaticResponse {
        /// The status, 200 when empty.
        pub status_code: WeakString,
        /// Response headers.
        pub headers: FieldValues,
        /// The body, which may hold placeholders.
        pub body: String,
        /// Closes the connection afterwards.
        pub close: bool,
        /// Closes the connection without a response.
        pub abort: bool,
    }

    /// Routes within a route.
    pub struct Subroute {
        /// The routes, tried in order.
        pub routes: Vec<Route>,
        /// Routes for requests that failed in here.
        pub errors: Option<ErrorRoutes>,
    }

    /// Runs responses through templates.
    pub struct Templates {
        /// The folder of included files.
        pub file_root: String,
        /// The content types that are templates.
        pub mime_types: Vec<String>,
        /// What opens and closes an action.
        pub delimiters: Vec<String>,
        /// Modules that add functions.
        pub r#match: RawModule,
    }
}

tagged! {
    /// How passwords are hashed.
    pub enum PasswordHash by "algorithm" {
        /// Bcrypt.
        Bcrypt(Bcrypt) = "bcrypt",
        /// Argon2id.
        Argon2id(Argon2id) = "argon2id",
    }
}

walk_fields! {
    Account { username, password }
    Tracing { span, span_attributes }
}

/// One account.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Account {
    /// The name.
    pub username: String,
    /// The hash of the password.
    pub password: String,
}

/// Adds a span to a trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tracing {
    /// The name of the span.
    pub span: String,
    /// Attributes of the span.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub span_attributes: BTreeMap<String, String>,
}
