//! Changes of method, path and query, as the directives `rewrite`, `uri`, `method` and `handle_path` ask for them.
//! Asking for a redirect is left to `sluice-serve`.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use sluice_message::uri::decode_percent;
use sluice_message::{Method, RequestHead, Status, Uri};

use crate::limits::REWRITTEN_URI_BYTES_MAX;
use crate::matcher::{Input, Refusal, parse_method};
use crate::path::{Slashes, clean_into};
use crate::placeholder::{Key, Template, TemplateError, Unknown};
use crate::query::{encode_pairs, pairs};
use crate::regexp::{Regexp, RegexpError, escape_replacement};

/// Why a rewrite cannot be compiled. Each carries the text at fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RewriteError {
    /// A text with too many placeholders.
    Template(String, TemplateError),
    /// A malformed or oversized regular expression.
    Regexp(String, RegexpError),
}

impl fmt::Display for RewriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RewriteError::Template(text, error) => write!(f, "`{text}`: {error}"),
            RewriteError::Regexp(text, error) => write!(f, "regular expression `{text}`: {error}"),
        }
    }
}

impl core::error::Error for RewriteError {}

/// Operations on a request, applied in the order of [`Op`]'s variants whatever order they were added in; several
/// of one kind keep theirs.
#[derive(Clone, Debug, Default)]
pub struct Rewrite {
    ops: Vec<Op>,
}

#[derive(Clone, Debug)]
enum Op {
    Method(Template),
    Uri(Target),
    StripPrefix(Template),
    StripSuffix(Template),
    Substring {
        find: Template,
        replace: Template,
        limit: usize,
    },
    PathRegexp {
        regexp: Regexp,
        replace: Template,
    },
    Query(QueryOps),
}

/// What a rewrite changes; what stays is `None`.
#[derive(Clone, Debug, Default)]
pub struct Change {
    /// The new method.
    pub method: Option<Method>,
    /// The new path and query.
    pub uri: Option<Uri>,
}

impl Change {
    /// Writes the change into `head` and gives back the method it replaced, if it did.
    pub fn write(self, head: &mut RequestHead) -> Option<Method> {
        if let Some(uri) = self.uri {
            head.uri = uri;
        }
        self.method
            .map(|method| core::mem::replace(&mut head.method, method))
    }
}

impl Rewrite {
    /// No operation.
    pub fn new() -> Rewrite {
        Rewrite::default()
    }

    /// Sets the method.
    pub fn method(self, method: &str) -> Result<Rewrite, RewriteError> {
        let op = Op::Method(template(method)?);
        Ok(self.with(op))
    }

    /// Sets path and query to `uri`: a path keeps the query unless `uri` has a `?`, and `?…` alone keeps the path.
    /// What follows a `#` is never sent and ignored.
    pub fn uri(self, uri: &str) -> Result<Rewrite, RewriteError> {
        let op = Op::Uri(Target::parse(uri)?);
        Ok(self.with(op))
    }

    /// Removes `prefix` from the path, if it begins so. Case does not count, and a character matches its escape
    /// unless `prefix` holds the escape itself.
    pub fn strip_prefix(self, prefix: &str) -> Result<Rewrite, RewriteError> {
        let op = Op::StripPrefix(template(prefix)?);
        Ok(self.with(op))
    }

    /// Removes `suffix` from the path, if it ends so; otherwise as [`Rewrite::strip_prefix`].
    pub fn strip_suffix(self, suffix: &str) -> Result<Rewrite, RewriteError> {
        let op = Op::StripSuffix(template(suffix)?);
        Ok(self.with(op))
    }

    /// Replaces `find` in the encoded path and in the query, `limit` times each; 0 is without limit.
    pub fn substring(
        self,
        find: &str,
        replace: &str,
        limit: usize,
    ) -> Result<Rewrite, RewriteError> {
        let op = Op::Substring {
            find: template(find)?,
            replace: template(replace)?,
            limit,
        };
        Ok(self.with(op))
    }

    /// Replaces all matches of `find` in the encoded path; `replace` may name groups as `$1` and `${name}`.
    pub fn path_regexp(self, find: &str, replace: &str) -> Result<Rewrite, RewriteError> {
        let op = Op::PathRegexp {
            regexp: regexp(find)?,
            replace: template(replace)?,
        };
        Ok(self.with(op))
    }

    /// Changes the parameters of the query, which then are in the order of their names.
    pub fn query(self, ops: QueryOps) -> Rewrite {
        self.with(Op::Query(ops))
    }

    /// What this makes of a request. Placeholders have the values from before all of its operations.
    pub fn apply(&self, input: &Input<'_>) -> Result<Change, Refusal> {
        let mut change = Change::default();
        let mut uri = None;
        for op in &self.ops {
            if let Op::Method(method) = op {
                change.method = new_method(method, input);
                continue;
            }
            let uri = uri.get_or_insert_with(|| input.head.uri.clone());
            op.apply(uri, input);
            // Replacements can multiply what a client sent; each step is held to the limit.
            if uri.as_bytes().len() > REWRITTEN_URI_BYTES_MAX {
                return Err(Refusal {
                    status: Status::URI_TOO_LONG,
                });
            }
        }
        change.method = change.method.filter(|method| *method != input.head.method);
        change.uri = uri.filter(|uri| uri.as_bytes() != input.head.uri.as_bytes());
        Ok(change)
    }

    fn with(mut self, op: Op) -> Rewrite {
        self.ops.push(op);
        self.ops.sort_by_key(Op::rank);
        self
    }
}

fn template(text: &str) -> Result<Template, RewriteError> {
    Template::parse(text).map_err(|error| RewriteError::Template(text.into(), error))
}

fn regexp(pattern: &str) -> Result<Regexp, RewriteError> {
    Regexp::new(pattern).map_err(|error| RewriteError::Regexp(pattern.into(), error))
}

fn expand(template: &Template, input: &Input<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    template.expand(input.values, Unknown::Empty, &mut out);
    out
}

fn new_method(method: &Template, input: &Input<'_>) -> Option<Method> {
    let mut token = expand(method, input);
    token.make_ascii_uppercase();
    parse_method(&token)
}

impl Op {
    fn rank(&self) -> u8 {
        match self {
            Op::Method(_) => 0,
            Op::Uri(_) => 1,
            Op::StripPrefix(_) => 2,
            Op::StripSuffix(_) => 3,
            Op::Substring { .. } => 4,
            Op::PathRegexp { .. } => 5,
            Op::Query(_) => 6,
        }
    }

    fn apply(&self, uri: &mut Uri, input: &Input<'_>) {
        match self {
            Op::Method(_) => {}
            Op::Uri(target) => target.apply(uri, input),
            Op::StripPrefix(prefix) => {
                let mut prefix = expand(prefix, input);
                if prefix.first() != Some(&b'/') {
                    prefix.insert(0, b'/');
                }
                change_path(uri, &|path| strip(path, &prefix, End::Start));
            }
            Op::StripSuffix(suffix) => {
                let suffix = expand(suffix, input);
                change_path(uri, &|path| strip(path, &suffix, End::End));
            }
            Op::Substring {
                find,
                replace,
                limit,
            } => {
                let (find_text, replace) = (expand(find, input), expand(replace, input));
                if find_text.is_empty() {
                    return;
                }
                let slashes = slashes_of(find.source().as_bytes());
                change_path(uri, &|path| {
                    replace_text(&cleaned(path, slashes), &find_text, &replace, *limit)
                });
                if let Some(query) = uri.query() {
                    let query = replace_text(query, &find_text, &replace, *limit);
                    set_query(uri, &query);
                }
            }
            Op::PathRegexp { regexp, replace } => {
                let mut replacement = Vec::new();
                // Only the text of the configuration names groups: dollar signs in values are plain.
                replace.expand_each(
                    input.values,
                    Unknown::Empty,
                    &mut replacement,
                    |_, out, start| {
                        escape_replacement(out, start);
                    },
                );
                change_path(uri, &|path| regexp.replace_all(path, &replacement));
            }
            Op::Query(ops) => ops.apply(uri, input),
        }
    }
}

/// The target of a `rewrite`, taken apart.
#[derive(Clone, Debug)]
struct Target {
    path: Option<Template>,
    query: Option<Vec<QueryPart>>,
}

/// A name or value of the query of a target.
#[derive(Clone, Debug)]
struct QueryPart {
    text: Template,
    is_value: bool,
}

impl Target {
    fn parse(uri: &str) -> Result<Target, RewriteError> {
        let uri = uri.split_once('#').map_or(uri, |(uri, _fragment)| uri);
        let (path, query) = match uri.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (uri, None),
        };
        let path = if path.is_empty() {
            None
        } else {
            Some(template(path)?)
        };
        Ok(Target {
            path,
            query: query.map(query_parts).transpose()?,
        })
    }

    fn apply(&self, uri: &mut Uri, input: &Input<'_>) {
        let mut injected = None;
        let path = self.path.as_ref().map(|path| {
            let mut text = Vec::new();
            path.expand_each(
                input.values,
                Unknown::Empty,
                &mut text,
                |key, out, start| {
                    if is_decoded_path(key, input) {
                        let mut encoded = Vec::new();
                        encode_path(&out[start..], &mut encoded);
                        out.truncate(start);
                        out.extend_from_slice(&encoded);
                    }
                },
            );
            // A value such as `{http.request.uri}` may bring a query along.
            if let Some(at) = memchr::memchr(b'?', &text) {
                injected = Some(encode_braces(&text.split_off(at + 1)));
                text.pop();
            }
            text
        });
        let query = self
            .query
            .as_ref()
            .map(|parts| match injected.filter(|_| parts.is_empty()) {
                Some(injected) => injected,
                None => build_query(parts, input),
            });
        if let Some(path) = path {
            let mut decoded = Vec::with_capacity(path.len());
            if !decode_percent(&path, &mut decoded) {
                decoded = path;
            }
            set_decoded(uri, &decoded);
        }
        if let Some(query) = query {
            set_query(uri, &query);
        }
    }
}

/// Encodes braces, which Caddy does for a query that came with a value.
fn encode_braces(query: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(query.len());
    for &byte in query {
        match byte {
            b'{' | b'}' => push_escape(byte, &mut out),
            _ => out.push(byte),
        }
    }
    out
}

/// Whether the value of `key` is a path, or part of one, in decoded form. It is encoded before it becomes part of
/// a target: otherwise a `%3F` or `%25` of the client would be decoded a second time.
fn is_decoded_path(key: &Key, input: &Input<'_>) -> bool {
    match key {
        Key::Path
        | Key::PathDir
        | Key::PathFile
        | Key::PathFileBase
        | Key::PathFileExt
        | Key::PathSegment(_)
        | Key::OrigPath
        | Key::OrigPathDir
        | Key::OrigPathFile
        | Key::OrigPathSegment(_)
        | Key::File(_) => true,
        Key::Capture { regexp, group } => {
            input.scratch.captured_from_path(regexp.as_deref(), group)
        }
        _ => false,
    }
}

/// Splits the query of a target at its `&` and `=`. Nothing stands for nothing, not for one empty part.
fn query_parts(query: &str) -> Result<Vec<QueryPart>, RewriteError> {
    let mut parts = Vec::new();
    let (mut rest, mut is_value) = (query, false);
    while !rest.is_empty() {
        let end = rest.find(['&', '=']).unwrap_or(rest.len());
        parts.push(QueryPart {
            text: template(&rest[..end])?,
            is_value,
        });
        is_value = rest[end..].starts_with('=');
        rest = rest.get(end + 1..).unwrap_or_default();
    }
    Ok(parts)
}

fn build_query(parts: &[QueryPart], input: &Input<'_>) -> Vec<u8> {
    let mut query = Vec::new();
    for part in parts {
        let mut text = Vec::new();
        part.text.expand_each(
            input.values,
            Unknown::Empty,
            &mut text,
            |key, out, start| {
                // A whole query in the place of a name is encoded already.
                if part.is_value || *key != Key::Query {
                    let value = out.split_off(start);
                    sluice_message::uri::encode_query(&value, out);
                }
            },
        );
        if part.is_value {
            query.push(b'=');
        } else if !query.is_empty() && !text.is_empty() {
            query.push(b'&');
        }
        query.extend_from_slice(&text);
    }
    query
}

/// Operations on the parameters of a query, applied kind by kind: rename, set, add, replace, delete.
#[derive(Clone, Debug, Default)]
pub struct QueryOps {
    rename: Vec<(Template, Template)>,
    set: Vec<(Template, Template)>,
    add: Vec<(Template, Template)>,
    replace: Vec<Replacement>,
    delete: Vec<Template>,
}

#[derive(Clone, Debug)]
struct Replacement {
    name: Template,
    search: Search,
    replace: Template,
}

#[derive(Clone, Debug)]
enum Search {
    Text(Template),
    Regexp(Regexp),
}

/// Parameters by name, each with its values in order.
type Params = BTreeMap<Vec<u8>, Vec<Vec<u8>>>;

impl QueryOps {
    /// No operation.
    pub fn new() -> QueryOps {
        QueryOps::default()
    }

    /// Gives the parameter `from` the name `to`, in place of one that has it.
    pub fn rename(mut self, from: &str, to: &str) -> Result<QueryOps, RewriteError> {
        self.rename.push((template(from)?, template(to)?));
        Ok(self)
    }

    /// Gives the parameter `name` one value.
    pub fn set(mut self, name: &str, value: &str) -> Result<QueryOps, RewriteError> {
        self.set.push((template(name)?, template(value)?));
        Ok(self)
    }

    /// Adds a value to the parameter `name`.
    pub fn add(mut self, name: &str, value: &str) -> Result<QueryOps, RewriteError> {
        self.add.push((template(name)?, template(value)?));
        Ok(self)
    }

    /// Replaces `search` in the values of `name`, or of all parameters if it is `*`.
    pub fn replace(
        mut self,
        name: &str,
        search: &str,
        replace: &str,
    ) -> Result<QueryOps, RewriteError> {
        let search = Search::Text(template(search)?);
        self.replace.push(Replacement {
            name: template(name)?,
            search,
            replace: template(replace)?,
        });
        Ok(self)
    }

    /// Replaces the matches of `pattern` in the values of `name`, or of all parameters if it is `*`.
    pub fn replace_regexp(
        mut self,
        name: &str,
        pattern: &str,
        replace: &str,
    ) -> Result<QueryOps, RewriteError> {
        let search = Search::Regexp(regexp(pattern)?);
        self.replace.push(Replacement {
            name: template(name)?,
            search,
            replace: template(replace)?,
        });
        Ok(self)
    }

    /// Removes the parameter `name`.
    pub fn delete(mut self, name: &str) -> Result<QueryOps, RewriteError> {
        self.delete.push(template(name)?);
        Ok(self)
    }

    fn apply(&self, uri: &mut Uri, input: &Input<'_>) {
        let mut params = Params::new();
        for (name, value) in pairs(uri.query().unwrap_or_default()) {
            params
                .entry(name.into_owned())
                .or_default()
                .push(value.into_owned());
        }
        for (from, to) in &self.rename {
            let (from, to) = (expand(from, input), expand(to, input));
            if !from.is_empty()
                && !to.is_empty()
                && from != to
                && let Some(values) = params.remove(&from)
            {
                params.insert(to, values);
            }
        }
        for (name, value) in &self.set {
            let name = expand(name, input);
            if !name.is_empty() {
                params.insert(name, Vec::from([expand(value, input)]));
            }
        }
        for (name, value) in &self.add {
            let name = expand(name, input);
            if !name.is_empty() {
                params.entry(name).or_default().push(expand(value, input));
            }
        }
        for replacement in &self.replace {
            replacement.apply(&mut params, input);
        }
        for name in &self.delete {
            params.remove(&expand(name, input));
        }
        let flat = params.iter().flat_map(|(name, values)| {
            values
                .iter()
                .map(|value| (name.as_slice(), value.as_slice()))
        });
        let mut query = Vec::new();
        encode_pairs(flat, &mut query);
        uri.set_query((!query.is_empty()).then_some(query.as_slice()));
    }
}

impl Replacement {
    fn apply(&self, params: &mut Params, input: &Input<'_>) {
        let name = expand(&self.name, input);
        let mut replace = Vec::new();
        let escape = matches!(self.search, Search::Regexp(_));
        self.replace.expand_each(
            input.values,
            Unknown::Keep,
            &mut replace,
            |_, out, start| {
                if escape {
                    escape_replacement(out, start);
                }
            },
        );
        let chosen = params
            .iter_mut()
            .filter(|(found, _)| name == b"*" || **found == name);
        for value in chosen.flat_map(|(_, values)| values) {
            *value = match &self.search {
                Search::Text(search) => {
                    let mut text = Vec::new();
                    search.expand(input.values, Unknown::Keep, &mut text);
                    if text.is_empty() {
                        return;
                    }
                    replace_text(value, &text, &replace, 0)
                }
                Search::Regexp(regexp) => regexp.replace_all(value, &replace),
            };
        }
    }
}

/// Sets the query; an empty one goes with its question mark. Bytes that may not stand in a request target are
/// encoded, so that no value can end the request line.
fn set_query(uri: &mut Uri, query: &[u8]) {
    if query.is_empty() {
        return uri.set_query(None);
    }
    let mut safe = Vec::with_capacity(query.len());
    for &byte in query {
        if byte <= b' ' || byte >= 0x7f || byte == b'#' {
            push_escape(byte, &mut safe);
        } else {
            safe.push(byte);
        }
    }
    uri.set_query(Some(&safe));
}

/// Sets the path to what `edit` makes of its encoded form. A result that is no well-formed path is taken as its
/// meaning: decoded as far as possible and encoded anew.
fn change_path(uri: &mut Uri, edit: &dyn Fn(&[u8]) -> Vec<u8>) {
    let encoded = edit(uri.path_raw());
    let mut decoded = Vec::with_capacity(encoded.len());
    let well_formed = decode_percent(&encoded, &mut decoded);
    if !well_formed {
        let decoded = edit(uri.path());
        return set_decoded(uri, &decoded);
    }
    if encoded.first() == Some(&b'/') && encoded.iter().all(|&byte| is_path_byte(byte)) {
        uri.set_path_raw(&encoded);
    } else if encoded.first() != Some(&b'/') && encoded.iter().all(|&byte| is_path_byte(byte)) {
        let rooted = [b"/", encoded.as_slice()].concat();
        uri.set_path_raw(&rooted);
    } else {
        set_decoded(uri, &decoded);
    }
}

/// Sets the path to `decoded`, encoded as needed. A path begins with a slash (RFC 9112, section 3.2.1); one is
/// added where it is missing.
fn set_decoded(uri: &mut Uri, decoded: &[u8]) {
    let mut encoded = Vec::with_capacity(decoded.len() + 1);
    if decoded.first() != Some(&b'/') {
        encoded.push(b'/');
    }
    encode_path(decoded, &mut encoded);
    uri.set_path_raw(&encoded);
}

/// Encodes as Go does, which leaves fewer characters plain than RFC 3986 allows: upstreams see the same target
/// behind either server.
fn encode_path(decoded: &[u8], out: &mut Vec<u8>) {
    for &byte in decoded {
        if byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(&byte) {
            out.push(byte);
        } else {
            push_escape(byte, out);
        }
    }
}

fn push_escape(byte: u8, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    out.extend_from_slice(&[
        b'%',
        HEX[usize::from(byte >> 4)],
        HEX[usize::from(byte & 15)],
    ]);
}

/// Whether `byte` may stand in an encoded path (RFC 3986, section 3.3, and brackets, which clients send).
fn is_path_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:@[]/%".contains(&byte)
}

/// Slashes are merged unless the text of the configuration has a doubled one.
fn slashes_of(text: &[u8]) -> Slashes {
    match memchr::memmem::find(text, b"//") {
        Some(_) => Slashes::Keep,
        None => Slashes::Merge,
    }
}

fn cleaned(path: &[u8], slashes: Slashes) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len());
    clean_into(path, slashes, &mut out);
    out
}

fn replace_text(text: &[u8], find: &[u8], replace: &[u8], limit: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let (mut at, mut count) = (0, 0);
    while limit == 0 || count < limit {
        let Some(found) = memchr::memmem::find(&text[at..], find) else {
            break;
        };
        out.extend_from_slice(&text[at..at + found]);
        out.extend_from_slice(replace);
        at += found + find.len();
        count += 1;
        if out.len() > REWRITTEN_URI_BYTES_MAX {
            break;
        }
    }
    out.extend_from_slice(&text[at..]);
    out
}

/// Which end of a path is stripped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Start,
    End,
}

/// The cleaned `path` without `affix` at that end, or as it is if it has none.
fn strip(path: &[u8], affix: &[u8], end: End) -> Vec<u8> {
    let path = cleaned(path, slashes_of(affix));
    let mut path_units: Vec<&[u8]> = units(&path).collect();
    let mut affix_units: Vec<&[u8]> = units(affix).collect();
    if end == End::End {
        path_units.reverse();
        affix_units.reverse();
    }
    let fits = path_units.len() >= affix_units.len()
        && affix_units
            .iter()
            .zip(&path_units)
            .all(|(wanted, found)| is_same(wanted, found));
    if !fits {
        return path;
    }
    let width: usize = path_units[..affix_units.len()]
        .iter()
        .map(|unit| unit.len())
        .sum();
    match end {
        End::Start => path[width..].into(),
        End::End => path[..path.len() - width].into(),
    }
}

/// The characters of an encoded text: single bytes and whole escapes.
fn units(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = text;
    core::iter::from_fn(move || {
        let escape = rest.first() == Some(&b'%')
            && rest
                .get(1..3)
                .is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let (unit, tail) = rest.split_at_checked(if escape { 3 } else { 1 })?;
        rest = tail;
        Some(unit)
    })
}

/// Whether a character of a path is the one wanted: an escape only that escape, any other either form.
fn is_same(wanted: &[u8], found: &[u8]) -> bool {
    if wanted.len() == found.len() {
        return wanted.eq_ignore_ascii_case(found);
    }
    let mut decoded = Vec::new();
    wanted.len() == 1 && decode_percent(found, &mut decoded) && decoded.eq_ignore_ascii_case(wanted)
}
