//! The key of a cached response.

use std::sync::Arc;

use sluice_pipeline::context::Exchange;
use sluice_pipeline::values::{expanded, matches};
use sluice_route::values::origin_form;
use sluice_route::{MatcherSets, Template};

/// How keys are made.
pub(super) enum KeyMaker {
    /// From a text with placeholders.
    Text(Template),
    /// From parts of the request. Paths that match a pattern may have parts of their own; the first that matches counts.
    Parts {
        usual: KeyParts,
        by_path: Box<[(MatcherSets, KeyParts)]>,
    },
}

/// What identifies the responses to a request, all variants together.
pub(super) struct EntryName {
    pub key: Vec<u8>,
    /// Request headers by which the responses vary, whatever they say; see [`KeyParts::headers`].
    pub headers: Option<Arc<[u8]>>,
    /// Whether `Cache-Status` shows the key.
    pub is_shown: bool,
}

impl EntryName {
    /// As the cache looks it up: the key and the headers.
    pub fn parts(&self) -> (&[u8], &[u8]) {
        (&self.key, self.headers.as_deref().unwrap_or_default())
    }
}

impl From<Vec<u8>> for EntryName {
    fn from(key: Vec<u8>) -> EntryName {
        EntryName {
            key,
            headers: None,
            is_shown: false,
        }
    }
}

/// What a key consists of.
pub(super) struct KeyParts {
    pub method: Part,
    /// The scheme and the listen addresses of the server. A client can put any host into its request, so that two servers
    /// could share a response otherwise.
    pub scheme: Option<Box<[u8]>>,
    pub host: Part,
    pub query: Query,
    /// Request headers by which requests with one key have variants of a response, as with `Vary`: one purge removes all
    /// of them, and no list shows their values. As in [`Vary::Names`](sluice_message::caching::Vary::Names).
    pub headers: Option<Arc<[u8]>>,
    /// The whole key.
    pub text: Option<Template>,
    /// Whether `Cache-Status` shows the key.
    pub is_shown: bool,
}

/// Whether a part is in the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    In,
    Out,
}

/// How the query is in the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Query {
    AsSent,
    Sorted,
    Out,
}

impl KeyMaker {
    /// Under which name the cache has the response to a request.
    pub fn name(&self, exchange: &Exchange) -> EntryName {
        match self {
            KeyMaker::Text(text) => expanded(text, exchange).into(),
            KeyMaker::Parts { .. } => self.parts(exchange).map_or_else(
                || Vec::new().into(),
                |parts| EntryName {
                    key: parts.key(exchange),
                    headers: parts.headers.clone(),
                    is_shown: parts.is_shown,
                },
            ),
        }
    }

    /// The key of the response to a GET request for the target of a request.
    pub fn key(&self, exchange: &Exchange) -> Vec<u8> {
        self.name(exchange).key
    }

    /// The beginning of all keys that a purge is about whose target ends with an asterisk; `None` if the key has none
    /// there.
    pub fn beginning(&self, exchange: &Exchange) -> Option<Vec<u8>> {
        let parts = self.parts(exchange);
        let parts = parts.filter(|parts| parts.text.is_none());
        match parts.and_then(|parts| Some((parts, rewritten(exchange)?))) {
            Some((parts, original)) => {
                let mut key = parts.origin(exchange);
                key.extend_from_slice(original.strip_suffix(b"*")?);
                Some(key)
            }
            None => self.key(exchange).strip_suffix(b"*").map(<[u8]>::to_vec),
        }
    }

    fn parts(&self, exchange: &Exchange) -> Option<&KeyParts> {
        match self {
            KeyMaker::Text(_) => None,
            KeyMaker::Parts { usual, by_path } => {
                let mut by_path = by_path.iter();
                let found = by_path.find(|(path, _)| matches(path, exchange).unwrap_or(false));
                Some(found.map_or(usual, |(_, parts)| parts))
            }
        }
    }
}

impl KeyParts {
    fn key(&self, exchange: &Exchange) -> Vec<u8> {
        if let Some(text) = &self.text {
            return expanded(text, exchange);
        }
        let req = &exchange.req;
        let mut key = self.origin(exchange);
        // Routes that remove a prefix have one path for different resources.
        if let Some(original) = rewritten(exchange) {
            key.extend_from_slice(original);
            key.push(b' ');
        }
        key.extend_from_slice(req.uri.path_raw());
        if let Some(query) = req.uri.query() {
            match self.query {
                Query::Out => {}
                Query::AsSent => {
                    key.push(b'?');
                    key.extend_from_slice(query);
                }
                Query::Sorted => push_sorted(&mut key, query),
            }
        }
        key
    }

    /// What comes before the path.
    fn origin(&self, exchange: &Exchange) -> Vec<u8> {
        let mut key = Vec::with_capacity(64);
        if self.method == Part::In {
            // A HEAD request is served from the response to GET.
            key.extend_from_slice(b"GET-");
        }
        if let Some(listen) = &self.scheme {
            key.extend_from_slice(exchange.conn.scheme().as_str().as_bytes());
            key.extend_from_slice(listen);
            key.push(b'-');
        }
        if self.host == Part::In {
            key.extend_from_slice(&exchange.req.authority);
            key.push(b'-');
        }
        key
    }
}

/// The path as the client has sent it, if handlers in front of the cache have changed it.
fn rewritten(exchange: &Exchange) -> Option<&[u8]> {
    let (sent, _) = origin_form(&exchange.req.target);
    // The path of an absolute target may be empty.
    let sent = if sent.is_empty() { b"/" } else { sent };
    (sent != exchange.req.uri.path_raw()).then_some(sent)
}

/// The order of parameters with one name has a meaning, so it is kept.
fn push_sorted(key: &mut Vec<u8>, query: &[u8]) {
    let mut parameters: Vec<&[u8]> = query.split(|byte| *byte == b'&').collect();
    let name = |parameter: &&[u8]| {
        let end = parameter.iter().position(|byte| *byte == b'=');
        parameter[..end.unwrap_or(parameter.len())].to_vec()
    };
    parameters.sort_by_cached_key(name);
    key.push(b'?');
    key.extend_from_slice(&parameters.join(&b'&'));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorted_queries_keep_the_order_of_one_name() {
        let sorted = |query: &str| {
            let mut key = Vec::new();
            push_sorted(&mut key, query.as_bytes());
            String::from_utf8(key).unwrap()
        };
        assert_eq!(sorted("b=2&a=1"), "?a=1&b=2");
        assert_eq!(sorted("b=2&a=9&b=1&a=3"), "?a=9&a=3&b=2&b=1");
        assert_eq!(sorted("ab=1&a&a=0"), "?a&a=0&ab=1");
        assert_eq!(sorted(""), "?");
    }
}
