//! Request matchers and response matchers as configured. `ground/route` compiles them to matchers that can be
//! evaluated.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::de::Error as _;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::object::{RawModule, objects, read_nested};
use crate::walk::{Visitor, Walk, walk_fields};

/// Matchers that must all hold. Kept in the order of their names, in which they are written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MatcherSet(pub Vec<Matcher>);

/// One question about a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Matcher {
    /// The client's address, after trusted proxies were believed.
    ClientIp(IpRanges),
    /// A CEL expression.
    Expression(Expression),
    /// Files that exist.
    File(FileMatcher),
    /// Header fields with any of the values; an absent list asks that the field is missing.
    Header(BTreeMap<String, Option<Vec<String>>>),
    /// Header fields whose value matches a pattern.
    HeaderRegexp(BTreeMap<String, Regexp>),
    /// Host names, with wildcards for single labels.
    Host(Vec<String>),
    /// Request methods.
    Method(Vec<String>),
    /// None of these sets matches.
    Not(Vec<MatcherSet>),
    /// Paths, exact or with wildcards.
    Path(Vec<String>),
    /// A pattern over the path.
    PathRegexp(Regexp),
    /// `http`, `https`, `grpc`, `http/2`, `http/2+` …
    Protocol(String),
    /// Query keys with any of the values.
    Query(BTreeMap<String, Vec<String>>),
    /// The address of the peer.
    RemoteIp(IpRanges),
    /// Properties of the TLS connection.
    Tls(TlsMatcher),
    /// A pattern of the URL Pattern standard.
    UrlPattern(UrlPattern),
    /// Variables or placeholders with any of the values.
    Vars(BTreeMap<String, Vec<String>>),
    /// Variables or placeholders whose value matches a pattern.
    VarsRegexp(BTreeMap<String, Regexp>),
    /// A matcher this build has no type for.
    Other(String, Value),
}

objects! {
    /// Addresses and address ranges.
    pub struct IpRanges {
        /// Each an address or a CIDR range.
        pub ranges: Vec<String>,
    }

    /// Looks for files on disk.
    pub struct FileMatcher {
        /// The name of the file system, the local disk when empty.
        pub fs: String,
        /// The folder the files are looked up in.
        pub root: String,
        /// The candidates, in order.
        pub try_files: Vec<String>,
        /// How to choose among those that exist.
        pub try_policy: String,
        /// Where a path is split into script and path info.
        pub split_path: Vec<String>,
    }

    /// Properties of the TLS connection.
    pub struct TlsMatcher {
        /// Whether the handshake must be complete (or must not be).
        pub handshake_complete: Option<bool>,
    }

    /// A pattern of the URL Pattern standard.
    pub struct UrlPattern {
        /// The pattern: of a path, or of a URL with scheme and host.
        pub pattern: String,
        /// The URL that a pattern of a path is relative to; empty for any scheme and host.
        pub base_url: String,
        /// Whether letters match in upper and lower case.
        pub ignore_case: bool,
    }

    /// Chooses responses.
    pub struct ResponseMatcher {
        /// Status codes; one digit stands for a class.
        pub status_code: Vec<u16>,
        /// Header fields with any of the values; an absent list asks that the field is missing.
        pub headers: BTreeMap<String, Option<Vec<String>>>,
    }
}

/// A regular expression, with a name for its captures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Regexp {
    /// The name under which captures are found.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The pattern, in RE2 syntax.
    pub pattern: String,
}

walk_fields! {
    Regexp { name, pattern }
    Expression { expr, name }
}

/// A CEL expression, with a name for the captures inside it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Expression {
    /// The text of the expression.
    pub expr: String,
    /// The name of the matcher it came from.
    pub name: String,
}

impl Serialize for Expression {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.name.is_empty() {
            return serializer.serialize_str(&self.expr);
        }
        let mut map = serializer.serialize_map(None)?;
        if !self.expr.is_empty() {
            map.serialize_entry("expr", &self.expr)?;
        }
        map.serialize_entry("name", &self.name)?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for Expression {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Default, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        struct Full {
            expr: String,
            name: String,
        }
        match Value::deserialize(deserializer)? {
            Value::String(expr) => Ok(Self {
                expr,
                name: String::new(),
            }),
            other => {
                let full: Full = read_nested(other, "")?;
                Ok(Self {
                    expr: full.expr,
                    name: full.name,
                })
            }
        }
    }
}

impl Matcher {
    /// The name of the matcher in JSON and in the Caddyfile.
    pub fn module(&self) -> &str {
        match self {
            Self::ClientIp(_) => "client_ip",
            Self::Expression(_) => "expression",
            Self::File(_) => "file",
            Self::Header(_) => "header",
            Self::HeaderRegexp(_) => "header_regexp",
            Self::Host(_) => "host",
            Self::Method(_) => "method",
            Self::Not(_) => "not",
            Self::Path(_) => "path",
            Self::PathRegexp(_) => "path_regexp",
            Self::Protocol(_) => "protocol",
            Self::Query(_) => "query",
            Self::RemoteIp(_) => "remote_ip",
            Self::Tls(_) => "tls",
            Self::Vars(_) => "vars",
            Self::UrlPattern(_) => "url_pattern",
            Self::VarsRegexp(_) => "vars_regexp",
            Self::Other(name, _) => name,
        }
    }

    fn read<E: serde::de::Error>(name: &str, value: Value) -> Result<Self, E> {
        Ok(match name {
            "client_ip" => Self::ClientIp(read_nested(value, name)?),
            "expression" => Self::Expression(read_nested(value, name)?),
            "file" => Self::File(read_nested(value, name)?),
            "header" => Self::Header(read_nested(value, name)?),
            "header_regexp" => Self::HeaderRegexp(read_nested(value, name)?),
            "host" => Self::Host(read_nested(value, name)?),
            "method" => Self::Method(read_nested(value, name)?),
            "not" => Self::Not(read_nested(value, name)?),
            "path" => Self::Path(read_nested(value, name)?),
            "path_regexp" => Self::PathRegexp(read_nested(value, name)?),
            "protocol" => Self::Protocol(read_nested(value, name)?),
            "query" => Self::Query(read_nested(value, name)?),
            "remote_ip" => Self::RemoteIp(read_nested(value, name)?),
            "tls" => Self::Tls(read_nested(value, name)?),
            "vars" => Self::Vars(read_nested(value, name)?),
            "url_pattern" => Self::UrlPattern(read_nested(value, name)?),
            "vars_regexp" => Self::VarsRegexp(read_nested(value, name)?),
            _ => Self::Other(name.to_string(), value),
        })
    }
}

impl MatcherSet {
    /// A set of one matcher.
    pub fn of(matcher: Matcher) -> Self {
        Self(alloc::vec![matcher])
    }

    /// Adds a matcher at its place.
    pub fn insert(&mut self, matcher: Matcher) {
        let at = self
            .0
            .partition_point(|other| other.module() <= matcher.module());
        self.0.insert(at, matcher);
    }
}

impl Walk for MatcherSet {
    fn walk(&self, visitor: &mut dyn Visitor) {
        visitor.object(self);
        self.0.walk(visitor);
    }
}

impl Walk for Matcher {
    fn walk(&self, visitor: &mut dyn Visitor) {
        visitor.object(self);
        match self {
            Self::ClientIp(body) | Self::RemoteIp(body) => body.walk(visitor),
            Self::Expression(body) => body.walk(visitor),
            Self::File(body) => body.walk(visitor),
            Self::Header(body) => body.walk(visitor),
            Self::HeaderRegexp(body) | Self::VarsRegexp(body) => body.walk(visitor),
            Self::Host(body) | Self::Method(body) | Self::Path(body) => body.walk(visitor),
            Self::Not(body) => body.walk(visitor),
            Self::PathRegexp(body) => body.walk(visitor),
            Self::Protocol(body) => body.walk(visitor),
            Self::Query(body) | Self::Vars(body) => body.walk(visitor),
            Self::Tls(body) => body.walk(visitor),
            Self::UrlPattern(body) => body.walk(visitor),
            Self::Other(name, body) => {
                visitor.text(name);
                body.walk(visitor);
            }
        }
    }
}

impl Serialize for MatcherSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for matcher in &self.0 {
            map.serialize_key(matcher.module())?;
            match matcher {
                Matcher::ClientIp(body) | Matcher::RemoteIp(body) => map.serialize_value(body)?,
                Matcher::Expression(body) => map.serialize_value(body)?,
                Matcher::File(body) => map.serialize_value(body)?,
                Matcher::Header(body) => map.serialize_value(body)?,
                Matcher::HeaderRegexp(body) | Matcher::VarsRegexp(body) => {
                    map.serialize_value(body)?;
                }
                Matcher::Host(body) | Matcher::Method(body) | Matcher::Path(body) => {
                    map.serialize_value(body)?;
                }
                Matcher::Not(body) => map.serialize_value(body)?,
                Matcher::PathRegexp(body) => map.serialize_value(body)?,
                Matcher::Protocol(body) => map.serialize_value(body)?,
                Matcher::Query(body) | Matcher::Vars(body) => map.serialize_value(body)?,
                Matcher::Tls(body) => map.serialize_value(body)?,
                Matcher::UrlPattern(body) => map.serialize_value(body)?,
                Matcher::Other(_, body) => map.serialize_value(body)?,
            }
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for MatcherSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let map = RawModule::deserialize(deserializer)?;
        let mut set = Self::default();
        for (name, value) in map {
            if name.is_empty() {
                return Err(D::Error::custom("a matcher has an empty name"));
            }
            set.0.push(Matcher::read(&name, value)?);
        }
        Ok(set)
    }
}
