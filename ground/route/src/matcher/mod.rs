//! Request matchers, compiled when the configuration is built. `sluice-serve` provides those that read files or
//! evaluate expressions, as [`Hook`]s.

mod address;
mod escaped;
mod fields;
mod host;
mod path;
mod response;

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;

use sluice_message::{ConnInfo, FieldId, Method, Remote, RequestHead, Status, Version};

pub use address::{AddressSpan, IpRange, IpRanges};
pub use fields::{HeaderMatcher, QueryMatcher, VarMatcher};
pub use host::HostMatcher;
pub use path::PathMatcher;
pub use response::ResponseMatcher;

use crate::glob::GlobError;
use crate::limits::NOT_DEPTH_MAX;
pub use crate::named_regexp::NamedRegexp;
use crate::path::{Case, Slashes, normalize};
use crate::placeholder::{Found, Key, TemplateError, Values};
use crate::regexp::RegexpError;
use crate::router::{RouteKey, SetKey};
use crate::scratch::{Origin, Scratch};

/// What matchers look at.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    /// The head as it is now, after rewrites.
    pub head: &'a RequestHead,
    /// The connection it arrived on.
    pub conn: &'a ConnInfo,
    /// The client as trusted proxies name it; `None` where the peer is meant.
    pub client_ip: Option<IpAddr>,
    /// The values of placeholders and variables.
    pub values: &'a dyn Values,
    /// Where matches are remembered.
    pub scratch: &'a Scratch,
}

/// A matcher ends the request instead of returning a result: its status becomes the request's error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The status of the error.
    pub status: Status,
    /// Its message.
    pub reason: Cow<'static, str>,
}

impl Refusal {
    /// What a condition means that asks for a status by itself, such as the file `=404`.
    pub const fn asked_for(status: Status) -> Refusal {
        Refusal {
            status,
            reason: Cow::Borrowed("a matcher refused"),
        }
    }
}

/// A condition that this package cannot decide alone: files and expressions.
pub trait Hook: fmt::Debug + Send + Sync {
    /// Whether the request meets the condition.
    fn matches(&self, input: &Input<'_>) -> Result<bool, Refusal>;

    /// The name of the condition in configurations.
    fn name(&self) -> &'static str {
        "expression"
    }
}

/// Why a condition cannot be compiled. Each carries the text at fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MatcherError {
    /// A text with too many placeholders.
    Template(String, TemplateError),
    /// A malformed path pattern.
    Glob(String, GlobError),
    /// A malformed or oversized regular expression.
    Regexp(String, RegexpError),
    /// Not an address or a network such as `10.0.0.0/8`.
    Range(String),
    /// Not one of the protocols.
    Protocol(String),
    /// Not a token.
    Method(String),
    /// A host that stands twice in one matcher.
    HostRepeated(String),
    /// A host that has no ASCII form.
    HostName(String),
    /// `not` within `not` beyond the limit.
    TooDeep,
}

impl fmt::Display for MatcherError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MatcherError::Template(text, error) => write!(f, "`{text}`: {error}"),
            MatcherError::Glob(text, error) => write!(f, "path pattern `{text}`: {error}"),
            MatcherError::Regexp(text, error) => write!(f, "regular expression `{text}`: {error}"),
            MatcherError::Range(text) => write!(f, "`{text}` is not an IP address or network"),
            MatcherError::Protocol(text) => {
                write!(f, "`{text}` is not a protocol that can be matched")
            }
            MatcherError::Method(text) => write!(f, "`{text}` is not a valid method"),
            MatcherError::HostRepeated(text) => {
                write!(f, "host `{text}` stands twice in one matcher")
            }
            MatcherError::HostName(text) => write!(f, "`{text}` is not a valid host name"),
            MatcherError::TooDeep => {
                write!(f, "more than {NOT_DEPTH_MAX} `not` matchers in one another")
            }
        }
    }
}

impl core::error::Error for MatcherError {}

fn named_regexp(name: &str, pattern: &str) -> Result<Arc<NamedRegexp>, MatcherError> {
    NamedRegexp::new(name, pattern).map_err(|error| MatcherError::Regexp(pattern.into(), error))
}

/// The protocols that can be matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Without TLS.
    Http,
    /// With TLS.
    Https,
    /// A content type that begins with `application/grpc`.
    Grpc,
    /// Exactly that version.
    Exactly(Version),
    /// That version or a later one.
    AtLeast(Version),
}

impl Protocol {
    /// The protocol called `text` in matchers.
    pub fn parse(text: &str) -> Option<Protocol> {
        Some(match text {
            "http" => Protocol::Http,
            "https" => Protocol::Https,
            "grpc" => Protocol::Grpc,
            "http/1.0" => Protocol::Exactly(Version::Http10),
            "http/1.0+" => Protocol::AtLeast(Version::Http10),
            "http/1.1" => Protocol::Exactly(Version::Http11),
            "http/1.1+" => Protocol::AtLeast(Version::Http11),
            "http/2" => Protocol::Exactly(Version::Http2),
            "http/2+" => Protocol::AtLeast(Version::Http2),
            "http/3" => Protocol::Exactly(Version::Http3),
            "http/3+" => Protocol::AtLeast(Version::Http3),
            _ => return None,
        })
    }

    fn matches(self, input: &Input<'_>) -> bool {
        match self {
            Protocol::Http => input.conn.tls.is_none(),
            Protocol::Https => input.conn.tls.is_some(),
            Protocol::Grpc => {
                let content_type = input.head.fields.first(FieldId::ContentType);
                content_type.is_some_and(|value| value.starts_with(b"application/grpc"))
            }
            Protocol::Exactly(version) => input.head.version == version,
            Protocol::AtLeast(version) => input.head.version >= version,
        }
    }
}

/// One condition. The order of the variants is that of their cost: a set tries the cheap ones
/// first.
#[derive(Clone, Debug)]
pub enum Matcher {
    /// `method`
    Method(Vec<Method>),
    /// `protocol`
    Protocol(Protocol),
    /// `tls`: on TLS, and with the handshake complete or not as given.
    Tls(Option<bool>),
    /// `host`
    Host(HostMatcher),
    /// `path`
    Path(PathMatcher),
    /// `remote_ip`
    RemoteIp(IpRanges),
    /// `client_ip`
    ClientIp(IpRanges),
    /// `header`
    Header(HeaderMatcher),
    /// `query`
    Query(QueryMatcher),
    /// `path_regexp`
    PathRegexp(Arc<NamedRegexp>),
    /// `header_regexp`: fields and their expressions, all of which have to match.
    HeaderRegexp(Vec<(String, Arc<NamedRegexp>)>),
    /// `vars`
    Vars(VarMatcher),
    /// `vars_regexp`: variables or placeholders and their expressions, one of which has to match.
    VarsRegexp(Vec<(Key, Arc<NamedRegexp>)>),
    /// `not`: none of the sets matches.
    Not(Vec<MatcherSet>),
    /// `file` and `expression`
    Hook(Arc<dyn Hook>),
}

impl Matcher {
    /// `host`
    pub fn host<S: AsRef<str>>(hosts: &[S]) -> Result<Matcher, MatcherError> {
        HostMatcher::new(hosts).map(Matcher::Host)
    }

    /// `path`
    pub fn path<S: AsRef<str>>(patterns: &[S]) -> Result<Matcher, MatcherError> {
        PathMatcher::new(patterns).map(Matcher::Path)
    }

    /// `path_regexp`; `name` may be empty.
    pub fn path_regexp(name: &str, pattern: &str) -> Result<Matcher, MatcherError> {
        named_regexp(name, pattern).map(Matcher::PathRegexp)
    }

    /// `method`, in any case: methods in use are in upper case.
    pub fn method<S: AsRef<str>>(methods: &[S]) -> Result<Matcher, MatcherError> {
        let parse = |text: &S| {
            Method::from_token(text.as_ref().to_ascii_uppercase().as_bytes())
                .ok_or_else(|| MatcherError::Method(text.as_ref().into()))
        };
        methods
            .iter()
            .map(parse)
            .collect::<Result<_, _>>()
            .map(Matcher::Method)
    }

    /// `query`: names with the values that each may have. Without names it matches an empty query.
    pub fn query<'a, V>(params: V) -> Result<Matcher, MatcherError>
    where
        V: IntoIterator<Item = (&'a str, &'a [String])>,
    {
        QueryMatcher::new(params).map(Matcher::Query)
    }

    /// `header`: names with the values that each may have; `None` where the field must be absent,
    /// an empty list where any value will do.
    pub fn header<'a, V>(fields: V) -> Result<Matcher, MatcherError>
    where
        V: IntoIterator<Item = (&'a str, Option<&'a [String]>)>,
    {
        HeaderMatcher::new(fields).map(Matcher::Header)
    }

    /// `header_regexp`: field, name and pattern of each expression.
    pub fn header_regexp<'a, V>(expressions: V) -> Result<Matcher, MatcherError>
    where
        V: IntoIterator<Item = (&'a str, &'a str, &'a str)>,
    {
        let compile = |(field, name, pattern): (&str, &str, &str)| {
            Ok((field.into(), named_regexp(name, pattern)?))
        };
        expressions
            .into_iter()
            .map(compile)
            .collect::<Result<_, _>>()
            .map(Matcher::HeaderRegexp)
    }

    /// `protocol`
    pub fn protocol(name: &str) -> Result<Matcher, MatcherError> {
        Protocol::parse(name)
            .map(Matcher::Protocol)
            .ok_or_else(|| MatcherError::Protocol(name.into()))
    }

    /// `remote_ip`
    pub fn remote_ip<S: AsRef<str>>(ranges: &[S]) -> Result<Matcher, MatcherError> {
        IpRanges::new(ranges).map(Matcher::RemoteIp)
    }

    /// `client_ip`
    pub fn client_ip<S: AsRef<str>>(ranges: &[S]) -> Result<Matcher, MatcherError> {
        IpRanges::new(ranges).map(Matcher::ClientIp)
    }

    /// `not`
    pub fn not(sets: Vec<MatcherSet>) -> Result<Matcher, MatcherError> {
        let matcher = Matcher::Not(sets);
        if matcher.depth() > NOT_DEPTH_MAX {
            Err(MatcherError::TooDeep)
        } else {
            Ok(matcher)
        }
    }

    /// `vars`: variable names or `{placeholders}` with the values that each may have.
    pub fn vars<'a, V>(vars: V) -> Result<Matcher, MatcherError>
    where
        V: IntoIterator<Item = (&'a str, &'a [String])>,
    {
        VarMatcher::new(vars).map(Matcher::Vars)
    }

    /// `vars_regexp`: variable name or `{placeholder}`, name and pattern of each expression.
    pub fn vars_regexp<'a, V>(expressions: V) -> Result<Matcher, MatcherError>
    where
        V: IntoIterator<Item = (&'a str, &'a str, &'a str)>,
    {
        let compile = |(var, name, pattern): (&str, &str, &str)| {
            Ok((fields::var_key(var), named_regexp(name, pattern)?))
        };
        expressions
            .into_iter()
            .map(compile)
            .collect::<Result<_, _>>()
            .map(Matcher::VarsRegexp)
    }

    /// Whether the request meets the condition.
    pub fn matches(&self, input: &Input<'_>) -> Result<bool, Refusal> {
        Ok(match self {
            Matcher::Method(methods) => methods.contains(&input.head.method),
            Matcher::Protocol(protocol) => protocol.matches(input),
            // Requests in early data are not accepted, so a handshake is always complete here.
            Matcher::Tls(complete) => input
                .conn
                .tls
                .as_deref()
                .is_some_and(|tls| complete.is_none_or(|complete| complete != tls.is_early())),
            Matcher::Host(matcher) => matcher.matches(input),
            Matcher::Path(matcher) => matcher.matches(input),
            Matcher::RemoteIp(ranges) => remote_ip(input).is_some_and(|ip| ranges.contains(ip)),
            Matcher::ClientIp(ranges) => input
                .client_ip
                .or(remote_ip(input))
                .is_some_and(|ip| ranges.contains(ip)),
            Matcher::Header(matcher) => matcher.matches(input),
            Matcher::Query(matcher) => matcher.matches(input),
            Matcher::PathRegexp(regexp) => input.scratch.with_buf(|buf| {
                let path = normalize(input.head.uri.path(), Slashes::Merge, Case::Keep, buf);
                input.scratch.capture(regexp, path, Origin::Path)
            }),
            Matcher::HeaderRegexp(expressions) => expressions.iter().all(|(field, regexp)| {
                fields::header_values(input.head, field.as_bytes())
                    .any(|value| input.scratch.capture(regexp, value, Origin::Value))
            }),
            Matcher::Vars(matcher) => matcher.matches(input),
            Matcher::VarsRegexp(expressions) => expressions.iter().any(|(key, regexp)| {
                input.scratch.with_buf(|buf| {
                    let _: Found = input.values.value(key, buf);
                    input.scratch.capture(regexp, buf, Origin::Value)
                })
            }),
            Matcher::Not(sets) => {
                for set in sets {
                    if set.matches(input)? {
                        return Ok(false);
                    }
                }
                true
            }
            Matcher::Hook(hook) => return hook.matches(input),
        })
    }

    /// Its name in configurations.
    pub fn name(&self) -> &'static str {
        match self {
            Matcher::Method(_) => "method",
            Matcher::Protocol(_) => "protocol",
            Matcher::Tls(_) => "tls",
            Matcher::Host(_) => "host",
            Matcher::Path(_) => "path",
            Matcher::RemoteIp(_) => "remote_ip",
            Matcher::ClientIp(_) => "client_ip",
            Matcher::Header(_) => "header",
            Matcher::Query(_) => "query",
            Matcher::PathRegexp(_) => "path_regexp",
            Matcher::HeaderRegexp(_) => "header_regexp",
            Matcher::Vars(_) => "vars",
            Matcher::VarsRegexp(_) => "vars_regexp",
            Matcher::Not(_) => "not",
            Matcher::Hook(hook) => hook.name(),
        }
    }

    /// Its place in a set: of the conditions of a set the cheap ones are asked first.
    pub fn cost(&self) -> u8 {
        match self {
            Matcher::Method(_) => 0,
            Matcher::Protocol(_) | Matcher::Tls(_) => 1,
            Matcher::Host(_) => 2,
            Matcher::Path(_) => 3,
            Matcher::RemoteIp(_) | Matcher::ClientIp(_) => 4,
            Matcher::Header(_) => 5,
            Matcher::Query(_) => 6,
            Matcher::PathRegexp(_) => 7,
            Matcher::HeaderRegexp(_) => 8,
            Matcher::Vars(_) => 9,
            Matcher::VarsRegexp(_) => 10,
            Matcher::Not(_) => 11,
            Matcher::Hook(_) => 12,
        }
    }

    /// Whether it leaves something behind for placeholders, so that the order of asking can be seen.
    pub fn leaves_traces(&self) -> bool {
        match self {
            Matcher::PathRegexp(_)
            | Matcher::HeaderRegexp(_)
            | Matcher::VarsRegexp(_)
            | Matcher::Hook(_) => true,
            Matcher::Not(sets) => sets
                .iter()
                .flat_map(|set| &set.matchers)
                .any(Matcher::leaves_traces),
            Matcher::Method(_)
            | Matcher::Protocol(_)
            | Matcher::Tls(_)
            | Matcher::Host(_)
            | Matcher::Path(_)
            | Matcher::RemoteIp(_)
            | Matcher::ClientIp(_)
            | Matcher::Header(_)
            | Matcher::Query(_)
            | Matcher::Vars(_) => false,
        }
    }

    fn depth(&self) -> usize {
        match self {
            Matcher::Not(sets) => {
                let inner = sets
                    .iter()
                    .flat_map(|set| &set.matchers)
                    .map(Matcher::depth)
                    .max();
                1 + inner.unwrap_or(0)
            }
            _ => 0,
        }
    }
}

fn remote_ip(input: &Input<'_>) -> Option<IpAddr> {
    match input.conn.remote {
        Remote::Ip(addr) => Some(addr.ip()),
        Remote::Unix => None,
    }
}

/// Conditions that all have to be met. An empty set matches every request.
#[derive(Clone, Debug, Default)]
pub struct MatcherSet {
    matchers: Vec<Matcher>,
}

impl MatcherSet {
    /// The set of `matchers`; they are tried in the order of their cost.
    pub fn new(mut matchers: Vec<Matcher>) -> MatcherSet {
        matchers.sort_by_key(Matcher::cost);
        MatcherSet { matchers }
    }

    /// Whether the request meets all conditions.
    pub fn matches(&self, input: &Input<'_>) -> Result<bool, Refusal> {
        for matcher in &self.matchers {
            if !matcher.matches(input)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn key(&self) -> SetKey {
        let mut key = SetKey {
            is_host_alone: matches!(self.matchers.as_slice(), [Matcher::Host(_)]),
            ..SetKey::default()
        };
        for matcher in &self.matchers {
            match matcher {
                Matcher::Host(matcher) => key.hosts = matcher.key(),
                Matcher::Path(matcher) => key.paths = matcher.key(),
                _ => {}
            }
        }
        key
    }
}

/// The matchers of a route: sets of which one has to match. Without sets every request matches.
#[derive(Clone, Debug, Default)]
pub struct MatcherSets {
    sets: Vec<MatcherSet>,
}

impl MatcherSets {
    /// The alternatives `sets`.
    pub fn new(sets: Vec<MatcherSet>) -> MatcherSets {
        MatcherSets { sets }
    }

    /// Whether every request matches, whatever it is.
    pub fn is_always(&self) -> bool {
        self.sets.is_empty() || self.sets.iter().any(|set| set.matchers.is_empty())
    }

    /// Whether the request meets all conditions of one set.
    pub fn matches(&self, input: &Input<'_>) -> Result<bool, Refusal> {
        if self.sets.is_empty() {
            return Ok(true);
        }
        for set in &self.sets {
            if set.matches(input)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// For each set, the names of its conditions and whether the request meets them: the detailed form of `matches`. A
    /// condition that ends the request with an error is not met.
    pub fn verdicts(&self, input: &Input<'_>) -> Vec<Vec<(&'static str, bool)>> {
        let verdict = |matcher: &Matcher| {
            let met = matcher.matches(input).unwrap_or(false);
            (matcher.name(), met)
        };
        let sets = self.sets.iter();
        sets.map(|set| set.matchers.iter().map(verdict).collect())
            .collect()
    }

    /// What [`crate::RouteIndex`] needs to know of a route with these matchers.
    pub fn key(&self) -> RouteKey {
        RouteKey {
            any_of: self.sets.iter().map(MatcherSet::key).collect(),
        }
    }
}
