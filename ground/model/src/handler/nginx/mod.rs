//! sluice's own module `nginx`: the virtual servers of an nginx.conf that share their listen addresses. It models what
//! Caddy's JSON has no words for: how nginx selects a location, the rewrite phase, and internal redirects. The handlers
//! inside a location are the same as everywhere else.

mod connection_limits;
mod proxy;

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

pub use connection_limits::{ConnectionLimit, ConnectionLimits};
pub use proxy::{CookieFlags, KeepFile, LocationChange, NginxProxy, Target};

use super::Route;
use crate::data_rate::MinDataRate;
use crate::http::RequestIdHeader;
use crate::object::{objects, tagged};
use crate::route_origin::RouteOrigin;
use crate::value::Duration;

objects! {
    /// The virtual servers that share a set of listen addresses.
    pub struct Nginx {
        /// Media types by extension; a [`Place`] refers to them by number.
        pub types: Vec<MediaTypes>,
        /// Variables whose values are looked up when they are used.
        pub tables: Vec<VariableTable>,
        /// The servers; the first is the default server.
        pub servers: Vec<VirtualServer>,
        /// All charsets that the configuration names; upstreams may select these with `X-Accel-Charset`.
        pub charsets: Vec<String>,
        /// Tables for conversion between two charsets, in both directions.
        pub charset_maps: Vec<CharsetMap>,
        /// The variables that SSI pages may use: by name, the placeholder without its braces, or a text after `=`.
        pub variables: BTreeMap<String, String>,
        /// The prefixes of families of such variables, and of the placeholders for them.
        pub families: BTreeMap<String, String>,
        /// Whether the addresses use TLS; a client that does not use TLS gets an error.
        pub secure: bool,
        /// Limits for clients, which a [`Place`] refers to by number, from 1.
        pub client_limits: Vec<ClientLimits>,
    }

    /// Timeouts and limits for clients in one [`Place`], while they send and receive, and for their connection
    /// afterwards. Absent values are nginx's defaults.
    pub struct ClientLimits {
        /// The longest pause between two reads of a body; 60 seconds when absent.
        pub body_timeout: Option<Duration>,
        /// The longest pause between two writes of a response; 60 seconds when absent.
        pub send_timeout: Option<Duration>,
        /// The lowest rate at which a client may send a body or read a response (sluice's own setting).
        pub min_data_rate: Option<MinDataRate>,
        /// How long an idle connection waits for another request; zero closes it at once; 75 seconds when absent.
        pub keepalive_timeout: Option<Duration>,
        /// The timeout in the `Keep-Alive` response header, in seconds; 0 omits the header.
        #[serde(rename = "keepalive_told")]
        pub keepalive_announced: u32,
        /// For how long an idle connection is not closed to free a connection slot or because the process shuts down.
        pub keepalive_min: Duration,
        /// Maximum number of requests on one connection; 1000 when absent.
        pub keepalive_requests: Option<u64>,
        /// Maximum age of a connection; an hour when absent.
        pub keepalive_time: Option<Duration>,
        /// Browsers whose connections are closed after each response: `msie6` after a POST, `safari`; `msie6` when
        /// absent.
        pub keepalive_disable: Option<Vec<String>>,
        /// When to keep reading what a client still sends before its connection is closed: `off`, `always`; when empty,
        /// only if the client has sent data that was not read.
        pub lingering: String,
        /// Maximum total time of that reading; 30 seconds when absent.
        pub lingering_time: Option<Duration>,
        /// The longest pause in that reading; 5 seconds when absent.
        pub lingering_timeout: Option<Duration>,
        /// Whether connections that time out are reset.
        pub reset_timed_out: bool,
    }

    /// Limits on request heads, for connections whose TLS handshake named this server or that reach the default server.
    pub struct HeadLimits {
        /// How long a client may take to send a head; 60 seconds when absent.
        pub timeout: Option<Duration>,
        /// Maximum size of a head in bytes; 32 KiB when 0.
        pub bytes_max: u64,
        /// Maximum size of a request line or of one header in bytes, its line end included; 8 KiB when 0.
        pub line_bytes_max: u64,
        /// Maximum number of headers; 1000 when absent.
        pub headers_max: Option<u64>,
        /// Maximum number of concurrent streams of an HTTP/2 connection; 128 when absent, which is also the maximum.
        pub streams_max: Option<u64>,
        /// How many bytes of its body an HTTP/2 request may send before the server reads any of it; 64 KiB when absent.
        pub body_ahead: Option<u64>,
    }

    /// Verification of client certificates.
    pub struct ClientCertificates {
        /// The mode: `on`, `optional`, or `optional_no_ca`, which accepts certificates of unknown CAs.
        pub verify: String,
        /// Files of the CA certificates that client certificates are verified against.
        pub authorities: Vec<String>,
        /// Files of certificate revocation lists (CRLs).
        pub revoked: Vec<String>,
        /// Maximum number of CA certificates between a client certificate and a root.
        pub depth: u32,
    }

    /// A conversion table between two charsets.
    pub struct CharsetMap {
        /// The first charset, in which each character is a single byte.
        pub from: String,
        /// The second charset: UTF-8, or another one in which each character is a single byte.
        pub to: String,
        /// The bytes of each character in both charsets, in hexadecimal. ASCII characters may be omitted.
        pub rows: Vec<TableRow>,
    }

    /// Media types by extension.
    pub struct MediaTypes {
        /// The types, by extension in lower case and without its dot.
        pub by_extension: BTreeMap<String, String>,
        /// The type of everything else; none when empty.
        pub default: String,
    }

    /// A variable whose value is looked up: `map`, `geo` and `split_clients`.
    pub struct VariableTable {
        /// Its name, without the dollar sign.
        pub variable: String,
        /// The text that is looked up, with placeholders.
        pub source: String,
        /// The kind: `map`, `geo`, `split_clients`; `script` and `path_info` for the two parts of a script path;
        /// `referer`, `secure_link`, `secure_link_expires`, `real_path`, and `connections` for the server's connection
        /// counters.
        pub kind: String,
        /// The rows. For `map`: a text, `*.host`, `host.*`, `~regex`, `~*regex`. For `geo`: a network, or an address
        /// range `first-last`; the narrowest match wins. For `split_clients`: a share in hundredths of a percent, empty
        /// for the remainder. For the parts of a path: the pattern that splits it, and the suffix for one that ends
        /// with a slash. For `referer`: nginx's keywords. For `secure_link`: `md5` or `secret`, and the expression or
        /// secret word. For `connections`: the name of the counter.
        pub rows: Vec<TableRow>,
        /// The value if no row matches.
        pub default: String,
        /// Keys with an asterisk at either end are host names.
        pub hostnames: bool,
        /// For `geo`: networks of trusted proxies, whose requests are looked up by the address in X-Forwarded-For.
        pub proxies: Vec<String>,
        /// If X-Forwarded-For lists several addresses, use the last one that is not a trusted proxy instead of the last
        /// one.
        pub proxy_recursive: bool,
    }

    /// A row of a table.
    pub struct TableRow {
        /// The key.
        pub key: String,
        /// The value, with placeholders.
        pub value: String,
    }

    /// A virtual server.
    pub struct VirtualServer {
        /// Its names in nginx's syntax: exact, `*.a`, `a.*`, `.a`, `~regex`.
        pub names: Vec<String>,
        /// The zone in which its requests are counted (`status_zone`); its names when empty.
        pub status_zone: String,
        /// Whether adjacent slashes in a path are merged; they are when absent.
        pub merge_slashes: Option<bool>,
        /// Whether headers with an underscore in their names are accepted.
        pub underscores_in_headers: bool,
        /// Whether headers are accepted whose names contain characters other than letters, digits, hyphens and
        /// underscores.
        pub keeps_invalid_headers: bool,
        /// Gives each request an ID, in a header and on error pages (sluice's own setting).
        pub request_id: Option<RequestIdHeader>,
        /// Limits on request heads.
        pub heads: HeadLimits,
        /// How the client address is determined behind trusted proxies.
        pub real_ip: Option<RealIp>,
        /// Verification of client certificates.
        pub clients: Option<ClientCertificates>,
        /// The rewrite phase before a location is selected.
        pub rewrite: Vec<Action>,
        /// The settings outside of locations.
        pub place: Place,
        /// The settings inside its `if` blocks, which actions refer to by number.
        pub branches: Vec<Place>,
        /// Its locations.
        pub locations: Vec<Location>,
        /// Where it was written in the source; not part of the JSON.
        #[serde(skip)]
        pub origin: RouteOrigin,
    }

    /// A location.
    pub struct Location {
        /// How its path is matched: empty for a prefix, `=`, `^~`, `~`, `~*`, or `@` for a named location.
        pub modifier: String,
        /// The path, pattern or name.
        pub path: String,
        /// Only internal redirects reach this location.
        pub internal: bool,
        /// A request for its path without the trailing slash is redirected to the path with it.
        pub adds_slash: bool,
        /// The rewrite phase after the location is selected.
        pub rewrite: Vec<Action>,
        /// The settings for requests with methods other than these (`limit_except`).
        pub other_methods: Option<OtherMethods>,
        /// The settings of the location.
        pub place: Place,
        /// The settings inside its `if` blocks, which actions refer to by number.
        pub branches: Vec<Place>,
        /// Nested locations.
        pub locations: Vec<Location>,
        /// Where it was written in the source; not part of the JSON.
        #[serde(skip)]
        pub origin: RouteOrigin,
    }

    /// Settings for requests whose method is not listed (`limit_except`).
    pub struct OtherMethods {
        /// The listed methods, to which the settings do not apply.
        pub than: Vec<String>,
        /// The settings for all other methods.
        pub place: Place,
    }

    /// Settings in effect for one nginx context (`server`, `location`, `if` or `limit_except`) after inheritance.
    pub struct Place {
        /// The handlers that produce the response, in order.
        pub routes: Vec<Route>,
        /// The handlers that process error responses.
        pub errors: Vec<Route>,
        /// Error pages: what replaces responses with certain statuses.
        pub error_pages: Vec<ErrorPage>,
        /// Whether an error page may lead to another error page (`recursive_error_pages`).
        pub recursive_error_pages: bool,
        /// The number of its media types.
        pub types: u32,
        /// The server name at the bottom of generated pages; sluice's own when absent.
        pub signature: Option<String>,
        /// How this server refers to itself in `Location` headers (`absolute_redirect`, `server_name_in_redirect`,
        /// `port_in_redirect`).
        pub redirects: Redirects,
        /// The name of its error log below `http.log.error`; the process's error log when empty.
        pub error_log: String,
        /// Whether the error log records files that are not found; it does when absent.
        pub log_not_found: Option<bool>,
        /// Whether the error log records the steps of the rewrite phase (`rewrite_log`).
        pub rewrite_log: bool,
        /// The number of its [`ClientLimits`]; 0 for nginx's defaults.
        pub client_limits: u32,
        /// The zone in which requests that end here are counted (`status_zone` of a location); none when empty.
        pub status_zone: String,
        /// The row with its values in tables of the kind `place`.
        pub facts: u32,
    }

    /// How this server refers to itself in `Location` headers (`absolute_redirect`, `server_name_in_redirect`,
    /// `port_in_redirect`).
    pub struct Redirects {
        /// `Location` contains a path only.
        pub relative: bool,
        /// `Location` contains no port.
        pub without_port: bool,
        /// The host name in `Location`; that of the request when empty.
        pub name: String,
    }

    /// Writes lines as in nginx's error log. sluice's own log encoder.
    pub struct ErrorLogEncoder {}

    /// A page that replaces responses with certain statuses (`error_page`).
    pub struct ErrorPage {
        /// The statuses.
        pub codes: Vec<u16>,
        /// The status of the response: that of the error when absent, that of the page when 0.
        pub status: Option<u16>,
        /// A path, a named location or an external URL, with placeholders.
        pub uri: String,
        /// Where it was written in the source; not part of the JSON.
        #[serde(skip)]
        pub origin: RouteOrigin,
    }

    /// Sets a variable (`set`).
    pub struct SetVariable {
        /// Its name, without the dollar sign.
        pub variable: String,
        /// Its value, with placeholders.
        pub value: String,
        /// Where it was written in the source; not part of the JSON.
        #[serde(skip)]
        pub origin: RouteOrigin,
    }

    /// Responds immediately (`return`).
    pub struct ReturnResponse {
        /// The status.
        pub status: u16,
        /// The target of a redirect, or the body of the response, with placeholders; the server's built-in page when
        /// absent.
        pub text: Option<String>,
        /// Where it was written in the source; not part of the JSON.
        #[serde(skip)]
        pub origin: RouteOrigin,
    }

    /// Changes the request target if its path matches (`rewrite`).
    pub struct RewriteTarget {
        /// The pattern.
        pub pattern: String,
        /// The new path, with placeholders.
        pub path: String,
        /// The new query, with placeholders.
        pub query: String,
        /// Drops the query of the request.
        pub drops_query: bool,
        /// What happens next: empty to continue, `last`, `break`, or the status of a redirect.
        pub then: String,
        /// Where it was written in the source; not part of the JSON.
        #[serde(skip)]
        pub origin: RouteOrigin,
    }

    /// Performs actions if a condition holds (`if`).
    pub struct IfHolds {
        /// The condition.
        pub condition: Condition,
        /// The actions.
        pub actions: Vec<Action>,
        /// The [`Place`] in effect from there on, by its number among the branches.
        pub branch: Option<u32>,
        /// Where it was written in the source; not part of the JSON.
        #[serde(skip)]
        pub origin: RouteOrigin,
    }

    /// Ends the rewrite phase (`break`).
    pub struct Nothing {
        /// Where it was written in the source; not part of the JSON.
        #[serde(skip)]
        pub origin: RouteOrigin,
    }

    /// A condition.
    pub struct Condition {
        /// The tested value, with placeholders.
        pub subject: String,
        /// The operator: `is set`, `=`, `~`, `~*`, `file`, `directory`, `exists`, `executable`.
        pub test: String,
        /// The value to compare with, with placeholders; or a pattern.
        pub with: String,
        /// The condition holds if the test fails.
        pub negated: bool,
        /// How a file is looked up.
        pub links: FileLookup,
    }

    /// Serves static files as nginx does.
    pub struct NginxFiles {
        /// The path of the file, with placeholders.
        pub path: String,
        /// The number of the media types.
        pub types: u32,
        /// Index file names for directories, with placeholders. A name that starts with a slash is a URI of its own.
        pub index: Vec<String>,
        /// Lists directories that have no index file.
        pub autoindex: Option<Autoindex>,
        /// Whether responses have an `ETag`; they do when absent.
        pub etag: Option<bool>,
        /// How `If-Modified-Since` is compared: empty for an exact match with the file's time, `before` for a time not
        /// earlier than that, `off` for never.
        pub if_modified_since: String,
        /// Maximum number of ranges sent of one file; 0 disables ranges.
        pub max_ranges: Option<u32>,
        /// A directory is represented by one of its files, chosen at random.
        pub random_index: bool,
        /// Who gets the precompressed file with the suffix `.gz`: nobody when empty, clients that accept gzip with
        /// `on`, all clients with `always`.
        pub gzip_static: String,
        /// Which clients get the precompressed file.
        pub gzip_clients: GzipClients,
        /// How this server refers to itself in `Location` headers (`absolute_redirect`, `server_name_in_redirect`,
        /// `port_in_redirect`).
        pub redirects: Redirects,
        /// How files are looked up.
        pub links: FileLookup,
    }

    /// How files are looked up: which symbolic links are followed (`disable_symlinks`), and how long results are cached
    /// (`open_file_cache`).
    pub struct FileLookup {
        /// When links are refused, in nginx's words: never when empty, `on` for always, `if_not_owner` for links whose
        /// owner differs from that of their target.
        pub disabled: String,
        /// The path prefix that is not checked, with placeholders.
        pub from: String,
        /// How old what is known of a file may be (`open_file_cache_valid`); each request looks at the file when 0.
        pub cached_for: Duration,
        /// That a file is missing is cached as well (`open_file_cache_errors`).
        pub caches_errors: bool,
    }

    /// Directory listings (`autoindex`).
    pub struct Autoindex {
        /// Sizes are rounded.
        pub rounded: bool,
        /// The format: `json`, `jsonp`, `xml`; HTML when empty.
        pub format: String,
        /// HTML listings show times in the system's time zone.
        pub local_times: bool,
    }

    /// Continues with the first file that exists (`try_files`).
    pub struct TryFiles {
        /// The candidates, with placeholders; a trailing slash denotes a directory.
        pub files: Vec<String>,
        /// The directory in which they are looked up, with placeholders.
        pub root: String,
        /// The prefix of a candidate that the directory replaces: the path of the location if it has an `alias`.
        pub alias_of: String,
        /// Candidates follow the whole `alias` of a location with a pattern.
        pub follows_alias: bool,
        /// What to use if no candidate exists: a path or a named location, with placeholders.
        pub fallback: String,
        /// The status of the response if there is no fallback.
        pub status: u16,
        /// How files are looked up.
        pub links: FileLookup,
    }

    /// Access control by address, password, or the result of a subrequest.
    pub struct AccessRules {
        /// The rules for addresses, tried in order.
        pub rules: Vec<AccessRule>,
        /// A request that passes any one of the checks is allowed (`satisfy any`).
        pub any: bool,
        /// HTTP basic authentication.
        pub basic: Option<PasswordFile>,
        /// A subrequest that decides on access.
        pub request: Option<AskLocation>,
        /// How long a 401 response is delayed (`auth_delay`).
        pub delay: Duration,
    }

    /// HTTP basic authentication.
    pub struct PasswordFile {
        /// The realm shown to clients, with placeholders; `off` disables authentication.
        pub realm: String,
        /// The file of names and hashes, with placeholders.
        pub users: String,
    }

    /// Decides on access by the status of a subrequest (`auth_request`).
    pub struct AskLocation {
        /// The path of the subrequest.
        pub uri: String,
        /// Variables to set from its response.
        pub set: Vec<SetVariable>,
    }

    /// Allows or denies a set of addresses.
    pub struct AccessRule {
        /// Allows them; denies them when false.
        pub allow: bool,
        /// An address, a range of addresses, `unix:` or `all`.
        pub from: String,
    }

    /// Serves built-in content.
    pub struct OwnContent {
        /// Which content: `stub_status` or `empty_gif`.
        pub what: String,
    }

    /// The rate at which responses are sent (`limit_rate`).
    pub struct ResponseRate {
        /// Bytes per second in nginx's notation, with placeholders; `0` for no limit.
        pub rate: String,
        /// Bytes that are sent before the limit applies, with placeholders.
        pub after: String,
    }

    /// Applies `Range` requests to responses after all handlers that may change the body.
    pub struct Ranges {
        /// Maximum number of ranges sent of one response; no limit when absent, 0 disables ranges.
        pub max: Option<u32>,
    }

    /// Fetches a response from the upstream in slices (`slice`).
    pub struct Slice {
        /// The size in bytes of each slice but the last; not 0.
        pub size: u64,
    }

    /// How the client address is determined behind trusted proxies.
    pub struct RealIp {
        /// Trusted addresses and networks.
        pub from: Vec<String>,
        /// Whether peers on unix sockets are trusted.
        pub from_unix: bool,
        /// The header that holds the client address; empty for the PROXY protocol header.
        pub field: String,
        /// If the header lists several addresses, use the last one that is not trusted itself instead of the last one.
        pub recursive: bool,
    }

    /// Proxies a request to an address that depends on the request.
    pub struct PassByVariable {
        /// The address, with placeholders.
        pub address: String,
        /// The routes per destination: by `http://` or `https://` and the name of an upstream group; by the scheme
        /// alone for all other addresses. Without the scheme if the address has none.
        pub to: BTreeMap<String, Vec<Route>>,
        /// Whether names that are not upstream groups are resolved.
        pub looks_up: bool,
        /// The port of an address that has neither scheme nor port; 9000 when zero.
        pub port: u16,
    }

    /// The access log lines of a request.
    pub struct AccessLines {
        /// The lines.
        pub lines: Vec<AccessLine>,
        /// Subrequests are logged as well (`log_subrequest`).
        pub subrequests: bool,
    }

    /// A line of an access log.
    pub struct AccessLine {
        /// The logger that it goes to, below `http.log.access`.
        pub logger: String,
        /// Its format, with placeholders.
        pub format: String,
        /// How values are escaped: `default`, `json` or `none`.
        pub escape: String,
        /// The line is skipped if this is empty or `0`; always written when absent.
        pub condition: Option<String>,
        /// The file whose path depends on the request, instead of a logger.
        pub file: Option<alloc::boxed::Box<NamedFile>>,
    }

    /// A log file whose path depends on the request.
    pub struct NamedFile {
        /// Its path, with placeholders.
        pub path: String,
        /// The directory that must exist for the line to be written, with placeholders.
        pub root: String,
        /// The error log for files that cannot be opened, below `http.log.error`; empty for that log itself.
        pub errors: String,
        /// Maximum number of such files kept open; 0 keeps none.
        pub open_max: u32,
        /// How long an unused file stays open.
        pub inactive: Duration,
        /// How often a file must be used within that time to stay open.
        pub uses_min: u32,
        /// How often the path of an open file is checked again.
        pub valid: Duration,
    }

    /// Which of the clients that accept gzip get compressed responses.
    pub struct GzipClients {
        /// Also clients of HTTP/1.0.
        pub http10: bool,
        /// Which responses to proxied requests are compressed: the keywords of `gzip_proxied`; none when empty.
        pub proxied: Vec<String>,
        /// User-Agent patterns that get no compressed responses; `msie6` for old versions of Internet Explorer.
        pub not_for: Vec<String>,
        /// Adds `Vary: Accept-Encoding` to responses that depend on it.
        pub vary: bool,
    }

    /// Compresses responses (`gzip`).
    pub struct Gzip {
        /// Compression level, from 1 to 9.
        pub level: i64,
        /// Minimum length in bytes of a response to compress.
        pub minimum_length: u64,
        /// The media types of the responses to process; `*` for all.
        pub types: Vec<String>,
        /// Which clients get compressed responses.
        pub clients: GzipClients,
    }

    /// Decompresses responses for clients that do not accept gzip (`gunzip`).
    pub struct Gunzip {
        /// Which clients get the compressed response unchanged.
        pub clients: GzipClients,
    }

    /// Stores request bodies in files that upstreams can read (`client_body_in_file_only`).
    pub struct BodyFile {
        /// The directory; the system's temporary directory when empty.
        pub folder: String,
        /// The lengths of the names of nested directories.
        pub levels: Vec<u8>,
        /// Files stay after the request.
        pub keep: bool,
        /// Where it was written in the source; not part of the JSON.
        #[serde(skip)]
        pub origin: RouteOrigin,
    }

    /// A request that follows when another one has ended (`post_action`).
    pub struct PostAction {
        /// A path, or `@` and the name of a location.
        pub uri: String,
    }

    /// Sends copies of requests to other paths of the server, whose responses are discarded (`mirror`).
    pub struct Mirror {
        /// The paths.
        pub uris: Vec<String>,
        /// Copies do not include the request body.
        pub without_body: bool,
    }

    /// Replaces text in responses (`sub_filter`).
    pub struct Substitutions {
        /// The replacements.
        pub texts: Vec<Substitution>,
        /// Replaces every occurrence, not only the first.
        pub every: bool,
        /// The media types of the responses to process; `*` for all.
        pub types: Vec<String>,
        /// Keeps the `Last-Modified` header.
        pub keeps_last_modified: bool,
    }

    /// One replacement.
    pub struct Substitution {
        /// The text to find, with placeholders; case-insensitive.
        pub text: String,
        /// The replacement, with placeholders.
        pub with: String,
    }

    /// Adds trailers to responses (`add_trailer`).
    pub struct Trailers {
        /// The trailers.
        pub fields: Vec<Trailer>,
    }

    /// One trailer.
    pub struct Trailer {
        /// Its name.
        pub name: String,
        /// Its value, with placeholders.
        pub value: String,
        /// Added to error responses as well.
        pub always: bool,
    }

    /// Adds the responses of other paths of the server before and after the body (`add_before_body`, `add_after_body`).
    pub struct Addition {
        /// The path whose response precedes the body; nothing when empty.
        pub before: String,
        /// The path whose response follows the body; nothing when empty.
        pub after: String,
        /// The media types of the responses to process; `*` for all.
        pub types: Vec<String>,
    }

    /// Sends clients a cookie that identifies them (`userid`).
    pub struct UserId {
        /// The mode: `on`, `v1`, or `log`, which sends no cookie.
        pub mode: String,
        /// The name of the cookie.
        pub name: String,
        /// Its `Domain`; none when empty.
        pub domain: String,
        /// Its `Path`.
        pub path: String,
        /// Its lifetime in seconds: until the browser exits when absent, as long as possible when negative.
        pub expires: Option<i64>,
        /// Further attributes: `Secure`, `HttpOnly`, `SameSite=Strict`, `SameSite=Lax`, `SameSite=None`.
        pub flags: Vec<String>,
        /// The letter, digit or `=` in its last position; a cookie without it is sent again. Nothing when empty.
        pub mark: String,
        /// The value of the `P3P` header; nothing when empty.
        pub p3p: String,
        /// The service number in the cookie; derived from the server's address when absent.
        pub service: Option<u32>,
        /// Clients get a new cookie if this is neither empty nor `0`, with placeholders.
        pub reset: String,
    }

    /// Adds the charset to `Content-Type` and converts text to it (`charset`).
    pub struct Charset {
        /// The charset, with placeholders; when empty, only charsets that upstreams request apply.
        pub name: String,
        /// The charset of text that does not declare one, with placeholders; when empty, text is not converted.
        pub source: String,
        /// Converts text that declares another charset, too.
        pub overrides: bool,
        /// The media types of such text; `*` for all.
        pub types: Vec<String>,
    }

    /// Processes server-side includes (`ssi`).
    pub struct Ssi {
        /// The media types of pages; `*` for all.
        pub types: Vec<String>,
        /// Length in bytes that a parameter value of a command must stay below.
        pub value_length: u64,
        /// Errors are not shown in pages.
        pub silent: bool,
        /// Keeps the `Last-Modified` header.
        pub keeps_last_modified: bool,
        /// The variables that depend on the [`Place`], by name: texts with placeholders.
        pub variables: BTreeMap<String, String>,
    }

    /// Sets the `Expires` and `Cache-Control` headers (`expires`).
    pub struct Expires {
        /// The lifetime in seconds; negative for responses that must not be cached. With `daily`, the second of the
        /// day.
        pub seconds: i64,
        /// A time in the syntax of the directive, with placeholders, instead of `seconds`.
        pub value: String,
        /// What the time counts from: `access`, `modified`, `epoch` or `max`; `daily` for a time of day.
        pub from: String,
        /// Set in error responses as well.
        pub always: bool,
    }
}

tagged! {
    /// A step of the rewrite phase.
    pub enum Action by "do" {
        /// Ends the rewrite phase.
        Break(Nothing) = "break",
        /// Performs actions if a condition holds (`if`).
        If(IfHolds) = "if",
        /// Responds immediately (`return`).
        Return(ReturnResponse) = "return",
        /// Changes the request target.
        Rewrite(RewriteTarget) = "rewrite",
        /// Sets a variable (`set`).
        Set(SetVariable) = "set",
    }
}

impl Nginx {
    /// The lists of routes in all of its places.
    pub(crate) fn route_lists_mut(&mut self) -> Vec<&mut Vec<Route>> {
        let mut lists = Vec::new();
        for server in &mut self.servers {
            server.place.add_lists(&mut lists);
            for branch in &mut server.branches {
                branch.add_lists(&mut lists);
            }
            for location in &mut server.locations {
                location.add_lists(&mut lists);
            }
        }
        lists
    }
}

impl Location {
    fn add_lists<'a>(&'a mut self, lists: &mut Vec<&'a mut Vec<Route>>) {
        self.place.add_lists(lists);
        if let Some(others) = &mut self.other_methods {
            others.place.add_lists(lists);
        }
        for branch in &mut self.branches {
            branch.add_lists(lists);
        }
        for location in &mut self.locations {
            location.add_lists(lists);
        }
    }
}

impl Place {
    fn add_lists<'a>(&'a mut self, lists: &mut Vec<&'a mut Vec<Route>>) {
        lists.push(&mut self.routes);
        lists.push(&mut self.errors);
    }
}
