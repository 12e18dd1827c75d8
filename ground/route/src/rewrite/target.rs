//! The target of `rewrite`: a path, a query or both, with placeholders. `edit` writes them into the URI.

use alloc::vec::Vec;

use sluice_message::Uri;
use sluice_message::hex::push_escape;
use sluice_message::uri::{decode_percent, encode_path_as_go, encode_query};

use super::edit::{set_decoded, set_query};
use super::{RewriteError, template};
use crate::matcher::Input;
use crate::placeholder::{Key, Provenance, Template, UnfitPath, Unknown};
use crate::scratch::Scratch;

/// The target of a `rewrite`, taken apart.
#[derive(Clone, Debug)]
pub(super) struct Target {
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
    pub(super) fn parse(uri: &str) -> Result<Target, RewriteError> {
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

    /// # Errors
    /// A value of the request that is not a valid path part would lead out of the folder that the target names.
    pub(super) fn apply(&self, uri: &mut Uri, input: &Input<'_>) -> Result<(), UnfitPath> {
        let (mut injected, mut climbs) = (None, false);
        let path = self.path.as_ref().map(|path| {
            let mut text = Vec::new();
            path.expand_each(
                input.values,
                Unknown::Empty,
                &mut text,
                |key, out, start| {
                    if is_decoded_path(key, input.scratch) {
                        let mut encoded = Vec::new();
                        encode_path_as_go(&out[start..], &mut encoded);
                        out.truncate(start);
                        out.extend_from_slice(&encoded);
                    } else if !matches!(
                        input.values.provenance(key),
                        Provenance::Configured | Provenance::Path
                    ) {
                        climbs |= has_dot_segments(&out[start..]);
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
        if climbs {
            return Err(UnfitPath);
        }
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
        Ok(())
    }
}

/// Whether the path of a value has segments that a file system resolves.
fn has_dot_segments(value: &[u8]) -> bool {
    let path = value.split(|byte| *byte == b'?').next().unwrap_or_default();
    let mut decoded = Vec::with_capacity(path.len());
    decode_percent(path, &mut decoded);
    let mut segments = decoded.split(|byte| *byte == b'/');
    segments.any(|segment| matches!(segment, b"." | b".."))
}

/// Encodes braces, which Caddy does for a query that came with a value.
fn encode_braces(query: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(query.len());
    for &byte in query {
        match byte {
            b'{' | b'}' => push_escape(&mut out, byte),
            _ => out.push(byte),
        }
    }
    out
}

/// Whether the value of `key` is a path, or part of one, in decoded form. It is encoded before it
/// becomes part of a target: otherwise a `%3F` or `%25` of the client would be decoded a second
/// time.
pub fn is_decoded_path(key: &Key, scratch: &Scratch) -> bool {
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
        Key::Capture { regexp, group } => scratch.captured_from_path(regexp.as_deref(), group),
        _ => false,
    }
}

/// Splits the query of a target at its `&` and `=`. Nothing stands for nothing, not for one empty
/// part.
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
                    encode_query(&value, out);
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
