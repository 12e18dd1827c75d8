//! Our own module `nginx`: the virtual servers of an nginx.conf that share their addresses. Caddy has no words for how
//! nginx chooses a location, for its phase of rewriting, and for requests that are redirected within the server.
//! What a location answers with are handlers as everywhere.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use crate::http::{MinDataRate, Route, RouteOrigin};
use crate::object::{objects, tagged};
use crate::value::Duration;

objects! {
    /// The virtual servers that share their addresses.
    pub struct Nginx {
        /// Media types by extension; places name them by number.
        pub types: Vec<MediaTypes>,
        /// Variables whose values are looked up when they are asked for.
        pub tables: Vec<VariableTable>,
        /// The servers; the first gets the requests that name none of the others.
        pub servers: Vec<VirtualServer>,
        /// The encodings of texts that the configuration names anywhere: upstreams may ask for these.
        pub charsets: Vec<String>,
        /// From one encoding into another, and back.
        pub charset_maps: Vec<CharsetMap>,
        /// The variables that pages may show: by name the placeholder without its braces, or a text behind `=`.
        pub variables: BTreeMap<String, String>,
        /// The beginnings of families of such variables, and of the placeholders for them.
        pub families: BTreeMap<String, String>,
        /// Whether TLS is spoken at their addresses: who does not gets an error.
        pub secure: bool,
        /// What holds for clients in some places, which name it by number, from 1.
        pub client_limits: Vec<ClientLimits>,
    }

    /// What holds for clients in a place: while they send and take, and for their connections after that. What is absent
    /// is as nginx has it by default.
    pub struct ClientLimits {
        /// The longest pause between two reads of a body; 60 seconds when absent.
        pub body_timeout: Option<Duration>,
        /// The longest pause between two writes of an answer; 60 seconds when absent.
        pub send_timeout: Option<Duration>,
        /// The lowest rate at which bodies may come and responses be taken (ours).
        pub min_data_rate: Option<MinDataRate>,
        /// How long a connection waits for another request, and closes where it is zero; 75 seconds when absent.
        pub keepalive_timeout: Option<Duration>,
        /// The seconds that clients are told of that; they are told nothing when 0.
        pub keepalive_told: u32,
        /// For how long a connection is not closed to make room, or because the process ends.
        pub keepalive_min: Duration,
        /// Requests that a connection may bring; 1000 when absent.
        pub keepalive_requests: Option<u64>,
        /// How old a connection may become; an hour when absent.
        pub keepalive_time: Option<Duration>,
        /// Browsers whose connections close after each answer: `msie6` after a POST, `safari`; `msie6` when absent.
        pub keepalive_disable: Option<Vec<String>>,
        /// When what a client still sends is read before its connection closes: `off`, `always`; where something was sent
        /// that is not read when empty.
        pub lingering: String,
        /// The longest that is done; 30 seconds when absent.
        pub lingering_time: Option<Duration>,
        /// The longest pause while it is done; 5 seconds when absent.
        pub lingering_timeout: Option<Duration>,
        /// Whether connections that time out are reset.
        pub reset_timed_out: bool,
    }

    /// What holds for connections whose handshakes named a server, or that is the default one, and for their heads.
    pub struct HeadLimits {
        /// How long a head may take; 60 seconds when absent.
        pub timeout: Option<Duration>,
        /// The most bytes that a head may have; 32 KiB when 0.
        pub bytes_max: u64,
        /// The most headers that a head may have; 1000 when absent.
        pub headers_max: Option<u64>,
        /// Requests at a time on one connection of HTTP/2; 128, which are the most, when absent.
        pub streams_max: Option<u64>,
        /// What a request over HTTP/2 may send of its body before anything is read of it; 64 KiB when absent.
        pub body_ahead: Option<u64>,
    }

    /// What clients have to show of themselves.
    pub struct ClientCertificates {
        /// How much: `on`, `optional`, or `optional_no_ca`, where nobody has to vouch for them.
        pub verify: String,
        /// Files of authorities that vouch for clients.
        pub authorities: Vec<String>,
        /// Files of lists of revoked certificates.
        pub revoked: Vec<String>,
        /// How many authorities may stand between a client and a root.
        pub depth: u32,
    }

    /// A table between two encodings.
    pub struct CharsetMap {
        /// The one, which has a byte for each letter.
        pub from: String,
        /// The other; UTF-8, or one that has a byte for each letter, too.
        pub to: String,
        /// The bytes of letters in both, in hexadecimal digits. Letters of ASCII need not be named.
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
        /// How: `map`, `geo`, `split_clients`; `script` and `path_info` for the two parts of the path of a script; `referer`,
        /// `secure_link`, `secure_link_expires`, `real_path`, and `connections` for what the server counts.
        pub kind: String,
        /// The rows. Of `map`: a text, `*.host`, `host.*`, `~regex`, `~*regex`; of `geo`: a network, or addresses `first-last`, of which
        /// the narrowest counts;
        /// of `split_clients`: a share in hundredths of a percent, empty for what is left; of the parts of a path: the pattern that
        /// splits it, and what is added to one that ends with a slash; of `referer`: the words of nginx; of `secure_link`: `md5` or
        /// `secret`, and the text or word that is added; of `connections`: what is counted.
        pub rows: Vec<TableRow>,
        /// The value where no row fits.
        pub default: String,
        /// Texts with an asterisk at either end are names of hosts.
        pub hostnames: bool,
        /// Networks of proxies, for `geo`: of their requests the address counts that they tell in X-Forwarded-For.
        pub proxies: Vec<String>,
        /// Of several told addresses the last counts that is no proxy, and not just the last.
        pub proxy_recursive: bool,
    }

    /// A row of a table.
    pub struct TableRow {
        /// What is looked for.
        pub key: String,
        /// The value, with placeholders.
        pub value: String,
    }

    /// A virtual server.
    pub struct VirtualServer {
        /// Its names as nginx writes them: exact, `*.a`, `a.*`, `.a`, `~regex`.
        pub names: Vec<String>,
        /// Whether several slashes in a path count as one; they do when absent.
        pub merge_slashes: Option<bool>,
        /// Whether fields with an underscore in their names count.
        pub underscores_in_headers: bool,
        /// Whether fields count that have anything in their names but letters, digits, hyphens and underscores.
        pub keeps_invalid_headers: bool,
        /// What holds for heads.
        pub heads: HeadLimits,
        /// Whose word counts for the address of a client.
        pub real_ip: Option<RealIp>,
        /// What clients have to show of themselves; nothing when absent.
        pub clients: Option<ClientCertificates>,
        /// What happens before a location is chosen.
        pub rewrite: Vec<Action>,
        /// What holds outside of locations.
        pub place: Place,
        /// What holds within its `if` blocks; actions name them by number.
        pub branches: Vec<Place>,
        /// Its locations.
        pub locations: Vec<Location>,
        /// Where it was written; no part of the JSON.
        #[serde(skip)]
        pub origin: RouteOrigin,
    }

    /// A location.
    pub struct Location {
        /// How its path is compared: empty for a prefix, `=`, `^~`, `~`, `~*`, or `@` for a name.
        pub modifier: String,
        /// The path, pattern or name.
        pub path: String,
        /// Only requests that the server redirected itself get here.
        pub internal: bool,
        /// A request for its path without the slash at the end is redirected there.
        pub adds_slash: bool,
        /// What happens once it was chosen.
        pub rewrite: Vec<Action>,
        /// What holds for requests with other methods than these.
        pub other_methods: Option<OtherMethods>,
        /// What holds in it.
        pub place: Place,
        /// What holds within its `if` blocks; actions name them by number.
        pub branches: Vec<Place>,
        /// The locations inside of it.
        pub locations: Vec<Location>,
        /// Where it was written; no part of the JSON.
        #[serde(skip)]
        pub origin: RouteOrigin,
    }

    /// What holds for requests with other methods.
    pub struct OtherMethods {
        /// The methods that it does not hold for.
        pub than: Vec<String>,
        /// What holds for all others.
        pub place: Place,
    }

    /// What holds somewhere: what answers, and what becomes of errors.
    pub struct Place {
        /// What answers.
        pub routes: Vec<Route>,
        /// What changes answers to errors.
        pub errors: Vec<Route>,
        /// Pages in place of answers with some statuses.
        pub error_pages: Vec<ErrorPage>,
        /// Whether a page may have a page for its own errors.
        pub recursive_error_pages: bool,
        /// The number of its media types.
        pub types: u32,
        /// The name of the server at the foot of pages; ours when absent.
        pub signature: Option<String>,
        /// How redirects name this server.
        pub redirects: Redirects,
        /// The name of its log of errors below `http.log.error`; that of the process when empty.
        pub error_log: String,
        /// Whether the log of errors is told of files that are not there; it is when absent.
        pub log_not_found: Option<bool>,
        /// Whether it is told what `rewrite` does.
        pub rewrite_log: bool,
        /// The number of what holds for its clients; what nginx has by default when 0.
        pub client_limits: u32,
    }

    /// How redirects name this server.
    pub struct Redirects {
        /// They give a path only.
        pub relative: bool,
        /// They give no port.
        pub without_port: bool,
        /// The name they give; that of the request when empty.
        pub name: String,
    }

    /// A page in place of answers with some statuses.
    pub struct ErrorPage {
        /// The statuses.
        pub codes: Vec<u16>,
        /// The status of the answer: that of the error when absent, that of the page when 0.
        pub status: Option<u16>,
        /// A path, a named location or an address elsewhere, with placeholders.
        pub uri: String,
        /// Where it was written; no part of the JSON.
        #[serde(skip)]
        pub origin: RouteOrigin,
    }

    /// Sets a variable.
    pub struct SetVariable {
        /// Its name, without the dollar sign.
        pub variable: String,
        /// Its value, with placeholders.
        pub value: String,
        /// Where it was written; no part of the JSON.
        #[serde(skip)]
        pub origin: RouteOrigin,
    }

    /// Answers at once.
    pub struct ReturnAnswer {
        /// The status.
        pub status: u16,
        /// Where a redirect leads to, or what the answer says, with placeholders; the server's own page when absent.
        pub text: Option<String>,
        /// Where it was written; no part of the JSON.
        #[serde(skip)]
        pub origin: RouteOrigin,
    }

    /// Changes the target if its path matches.
    pub struct RewriteTarget {
        /// The pattern.
        pub pattern: String,
        /// The new path, with placeholders.
        pub path: String,
        /// The new query, with placeholders.
        pub query: String,
        /// Drops the query of the request.
        pub drops_query: bool,
        /// What then: nothing, `last`, `break`, or the status of a redirect.
        pub then: String,
        /// Where it was written; no part of the JSON.
        #[serde(skip)]
        pub origin: RouteOrigin,
    }

    /// Does something if something holds.
    pub struct IfHolds {
        /// The condition.
        pub condition: Condition,
        /// What is done.
        pub actions: Vec<Action>,
        /// The place that holds from there on.
        pub branch: Option<u32>,
        /// Where it was written; no part of the JSON.
        #[serde(skip)]
        pub origin: RouteOrigin,
    }

    /// No more is done.
    pub struct Nothing {
        /// Where it was written; no part of the JSON.
        #[serde(skip)]
        pub origin: RouteOrigin,
    }

    /// A condition.
    pub struct Condition {
        /// What is looked at, with placeholders.
        pub subject: String,
        /// How: `is set`, `=`, `~`, `~*`, `file`, `directory`, `exists`, `executable`.
        pub test: String,
        /// What it is compared with, with placeholders; or a pattern.
        pub with: String,
        /// Holds if the test does not.
        pub negated: bool,
        /// Which links are followed on the way to a file.
        pub links: FollowedLinks,
    }

    /// Answers with files as nginx does.
    pub struct NginxFiles {
        /// The path of the file, with placeholders.
        pub path: String,
        /// The number of the media types.
        pub types: u32,
        /// Names tried for a folder, with placeholders. One with a slash at its beginning is a path of its own.
        pub index: Vec<String>,
        /// Lists folders without an index.
        pub autoindex: Option<Autoindex>,
        /// Whether answers have an ETag; they do when absent.
        pub etag: Option<bool>,
        /// When a date in a request means that nothing has changed: where it is that of the file when empty, `before` where it is
        /// not earlier, `off` never.
        pub if_modified_since: String,
        /// The most parts that are sent of one file; none are where it is 0.
        pub max_ranges: Option<u32>,
        /// One of its files, whichever, stands for a folder.
        pub random_index: bool,
        /// Who gets the file with `.gz` behind its name in its place: nobody when empty, with `on` who takes it, with `always`
        /// everybody.
        pub gzip_static: String,
        /// Who takes it.
        pub gzip_clients: GzipClients,
        /// How redirects name this server.
        pub redirects: Redirects,
        /// Which links are followed.
        pub links: FollowedLinks,
    }

    /// Which symbolic links are followed on the way to a file.
    pub struct FollowedLinks {
        /// All when empty, `on` for none, `if_not_owner` for those that belong to the owner of what they lead to: nginx's words
        /// for when they are not.
        pub disabled: String,
        /// The beginning of paths that is not looked at, with placeholders.
        pub from: String,
    }

    /// Lists folders.
    pub struct Autoindex {
        /// Sizes are rounded.
        pub rounded: bool,
        /// How they are written: `json`, `jsonp`, `xml`; HTML when empty.
        pub format: String,
        /// Times are those of the system's time zone, as far as HTML has them.
        pub local_times: bool,
    }

    /// Goes on with the first file that exists.
    pub struct TryFiles {
        /// The candidates, with placeholders; those with a slash at the end are folders.
        pub files: Vec<String>,
        /// The folder they are looked up in, with placeholders.
        pub root: String,
        /// How much of a candidate the folder stands in for: the path of the location, where it has an alias.
        pub alias_of: String,
        /// Where to go on if there is none: a path or a named location, with placeholders.
        pub fallback: String,
        /// The status of the answer if there is none.
        pub status: u16,
        /// Which links are followed.
        pub links: FollowedLinks,
    }

    /// Who may come in: by address, by password, by what another location says.
    pub struct AccessRules {
        /// The rules for addresses, tried in order.
        pub rules: Vec<AccessRule>,
        /// One of the checks that lets a request in is enough.
        pub any: bool,
        /// Asks for a name and a password.
        pub basic: Option<PasswordFile>,
        /// Asks another location.
        pub request: Option<AskLocation>,
        /// How long a refusal with 401 is held back.
        pub delay: Duration,
    }

    /// Asks for a name and a password.
    pub struct PasswordFile {
        /// What clients are told that they log in to, with placeholders; nobody is asked where it is `off`.
        pub realm: String,
        /// The file of names and hashes, with placeholders.
        pub users: String,
    }

    /// Asks another location whether a request may come in.
    pub struct AskLocation {
        /// The path that is asked for.
        pub uri: String,
        /// What is kept of the answer.
        pub set: Vec<SetVariable>,
    }

    /// Lets some addresses in, or keeps them out.
    pub struct AccessRule {
        /// Lets them in.
        pub allow: bool,
        /// An address, a range of addresses, `unix:` or `all`.
        pub from: String,
    }

    /// Answers with something that the server has itself.
    pub struct OwnContent {
        /// What: `stub_status` or `empty_gif`.
        pub what: String,
    }

    /// How fast answers are sent.
    pub struct AnswerRate {
        /// Bytes each second as nginx writes them, with placeholders; `0` for any number.
        pub rate: String,
        /// Bytes that are sent without waiting, with placeholders.
        pub after: String,
    }

    /// Gives parts of answers, once everything that may change them has seen them.
    pub struct Ranges {
        /// The most parts that are sent of one answer; any number when absent, none where it is 0.
        pub max: Option<u32>,
    }

    /// Asks for an answer piece by piece.
    pub struct Slice {
        /// The bytes of each piece but the last; more than none.
        pub size: u64,
    }

    /// How many requests of one key are answered at a time.
    pub struct ConnectionLimits {
        /// The limits; the first that is reached refuses.
        pub limits: Vec<ConnectionLimit>,
        /// The status of refusals, 503 when zero.
        pub status: u16,
        /// Refuses nobody.
        pub dry_run: bool,
        /// The level at which refusals are told, `error` when empty.
        pub log_level: String,
    }

    /// A limit of requests at a time.
    pub struct ConnectionLimit {
        /// The zone that counts; places with one zone count together.
        pub zone: String,
        /// What is counted apart, with placeholders; nothing is counted where it is empty.
        pub key: String,
        /// The most at a time.
        pub max: u32,
    }

    /// Whose word counts for the address of a client.
    pub struct RealIp {
        /// Addresses and networks that are believed.
        pub from: Vec<String>,
        /// Whether peers on unix sockets are.
        pub from_unix: bool,
        /// The field that tells it; the header of the PROXY protocol when empty.
        pub field: String,
        /// Of several addresses the last one that is not believed itself counts, not the last.
        pub recursive: bool,
    }

    /// Passes a request on to an address that is known only with the request.
    pub struct PassByVariable {
        /// The address, with placeholders.
        pub address: String,
        /// What answers: by `http://` or `https://` and the name of a group, by these alone for all other addresses.
        /// Without such beginnings where the address has none.
        pub to: BTreeMap<String, Vec<Route>>,
        /// Whether names that are no group are looked up.
        pub looks_up: bool,
        /// The port of an address without scheme that names none; 9000 when zero.
        pub port: u16,
    }

    /// What the access logs are told of a request.
    pub struct AccessLines {
        /// The lines.
        pub lines: Vec<AccessLine>,
    }

    /// A line of an access log.
    pub struct AccessLine {
        /// The logger that it goes to, below `http.log.access`.
        pub logger: String,
        /// What it says, with placeholders.
        pub format: String,
        /// How values are made harmless: `default`, `json` or `none`.
        pub escape: String,
        /// It is left out where this is empty or `0`; always written when absent.
        pub condition: Option<String>,
        /// The file that each line names anew, in place of a logger.
        pub file: Option<alloc::boxed::Box<NamedFile>>,
    }

    /// A file whose name follows from the request.
    pub struct NamedFile {
        /// Its path, with placeholders.
        pub path: String,
        /// The folder without which nothing is written, with placeholders.
        pub root: String,
        /// The log of errors that is told of files that cannot be opened, below `http.log.error`; empty for that itself.
        pub errors: String,
        /// How many such files stay open; none where it is 0.
        pub open_max: u32,
        /// How long a file stays open that nothing is written to.
        pub inactive: Duration,
        /// How often a file is written to within that time before it stays open.
        pub uses_min: u32,
        /// After this time the path of an open file is looked at anew.
        pub valid: Duration,
    }

    /// Who gets compressed answers, of those who say that they take them.
    pub struct GzipClients {
        /// Also clients of HTTP/1.0.
        pub http10: bool,
        /// Which answers to requests that came through proxies: the words of `gzip_proxied`; none where there are none.
        pub proxied: Vec<String>,
        /// Patterns of browsers that get none; `msie6` for old ones of one kind.
        pub not_for: Vec<String>,
        /// Answers that depend on it say so.
        pub vary: bool,
    }

    /// Compresses answers.
    pub struct Gzip {
        /// How hard it tries, from 1 to 9.
        pub level: i64,
        /// The length from which on it is worth it.
        pub minimum_length: u64,
        /// The media types of such answers; `*` for all.
        pub types: Vec<String>,
        /// Who gets them.
        pub clients: GzipClients,
    }

    /// Undoes the compression of answers for clients that do not take it.
    pub struct Gunzip {
        /// Who gets them as they are.
        pub clients: GzipClients,
    }

    /// Sends copies of requests to other paths of the server, whose answers are thrown away.
    pub struct Mirror {
        /// The paths.
        pub uris: Vec<String>,
        /// Copies come without the body of the request.
        pub without_body: bool,
    }

    /// Replaces texts in what is answered.
    pub struct Substitutions {
        /// What is replaced by what.
        pub texts: Vec<Substitution>,
        /// Each is replaced wherever it stands, not only the first time.
        pub every: bool,
        /// The media types of such answers; `*` for all.
        pub types: Vec<String>,
        /// Answers still say when they were changed.
        pub keeps_last_modified: bool,
    }

    /// A text that is replaced.
    pub struct Substitution {
        /// The text, with placeholders; letters of both cases are the same.
        pub text: String,
        /// What stands in its place, with placeholders.
        pub with: String,
    }

    /// Adds fields behind what is answered.
    pub struct Trailers {
        /// The fields.
        pub fields: Vec<Trailer>,
    }

    /// A field behind what is answered.
    pub struct Trailer {
        /// Its name.
        pub name: String,
        /// Its value, with placeholders.
        pub value: String,
        /// Also behind answers to errors.
        pub always: bool,
    }

    /// Adds what other paths of the server answer in front of what is answered, and behind it.
    pub struct Addition {
        /// What stands in front; nothing when empty.
        pub before: String,
        /// What stands behind; nothing when empty.
        pub after: String,
        /// The media types of such answers; `*` for all.
        pub types: Vec<String>,
    }

    /// Gives clients a cookie by which they are known again.
    pub struct UserId {
        /// How: `on`, `v1`, or `log`, which gives none.
        pub mode: String,
        /// The name of the cookie.
        pub name: String,
        /// Its `Domain`; none when empty.
        pub domain: String,
        /// Its `Path`.
        pub path: String,
        /// How many seconds it is kept: until the browser ends when absent, as long as there is to say when negative.
        pub expires: Option<i64>,
        /// What else it says: `Secure`, `HttpOnly`, `SameSite=Strict` and the like.
        pub flags: Vec<String>,
        /// The letter, digit or `=` in its last place; one without it is given anew. Nothing when empty.
        pub mark: String,
        /// The text of the field `P3P`; nothing when empty.
        pub p3p: String,
        /// The number of the server in the cookie; that of its address when absent.
        pub service: Option<u32>,
        /// Clients get another one where this is neither empty nor `0`, with placeholders.
        pub reset: String,
    }

    /// Says which encoding texts have, and gives it to them.
    pub struct Charset {
        /// The encoding, with placeholders; only what upstreams ask for when empty.
        pub name: String,
        /// The encoding that they come in where they do not say it, with placeholders; when empty they stay as they are.
        pub source: String,
        /// Those that say another one are changed, too.
        pub overrides: bool,
        /// The media types of such texts; `*` for all.
        pub types: Vec<String>,
    }

    /// Does what the commands in pages say.
    pub struct Ssi {
        /// The media types of pages; `*` for all.
        pub types: Vec<String>,
        /// The bytes that a value in a command may not reach.
        pub value_length: u64,
        /// Mistakes are not shown in pages.
        pub silent: bool,
        /// Pages still say when they were changed.
        pub keeps_last_modified: bool,
        /// The variables that follow from the place, by name: texts with placeholders.
        pub variables: BTreeMap<String, String>,
    }

    /// Says until when answers are fresh.
    pub struct Expires {
        /// The length of that time; negative for answers that are not to be kept. The second of the day with `daily`.
        pub seconds: i64,
        /// A time as the directive takes it, with placeholders, in place of a length.
        pub value: String,
        /// From when: `access`, `modified`, `epoch` or `max`; `daily` until a time of the day.
        pub from: String,
        /// Also for answers to errors.
        pub always: bool,
    }
}

tagged! {
    /// A step of the phase of rewriting.
    pub enum Action by "do" {
        /// Ends the phase.
        Break(Nothing) = "break",
        /// Does something if something holds.
        If(IfHolds) = "if",
        /// Answers at once.
        Return(ReturnAnswer) = "return",
        /// Changes the target.
        Rewrite(RewriteTarget) = "rewrite",
        /// Sets a variable.
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
