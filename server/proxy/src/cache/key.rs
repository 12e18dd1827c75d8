//! The key of a cached response.

use sluice_pipeline::context::Exchange;
use sluice_pipeline::values::{expanded, matches};
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

/// What a key consists of.
pub(super) struct KeyParts {
    pub method: Part,
    /// The scheme and the listen addresses of the server. A client can put any host into its request, so that two servers
    /// could share a response otherwise.
    pub scheme: Option<Box<[u8]>>,
    pub host: Part,
    pub query: Query,
    pub headers: Box<[Box<[u8]>]>,
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
    /// The key of the response to a GET request for the target of a request.
    pub fn key(&self, exchange: &Exchange) -> Vec<u8> {
        match self {
            KeyMaker::Text(text) => expanded(text, exchange),
            KeyMaker::Parts { .. } => self
                .parts(exchange)
                .map_or_else(Vec::new, |parts| parts.key(exchange)),
        }
    }

    /// Whether `Cache-Status` shows the key of a request.
    pub fn is_shown(&self, exchange: &Exchange) -> bool {
        self.parts(exchange).is_some_and(|parts| parts.is_shown)
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
            key.extend_from_slice(&req.authority);
            key.push(b'-');
        }
        for name in &self.headers {
            push_header(&mut key, req.fields.find(name));
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
}

/// The path comes last, so that a purge of all keys with a beginning can name a folder. Lengths keep a value from looking like
/// what follows it.
fn push_header<'a>(key: &mut Vec<u8>, values: impl Iterator<Item = &'a [u8]>) {
    for value in values {
        key.extend_from_slice(format!("{}:", value.len()).as_bytes());
        key.extend_from_slice(value);
    }
    key.push(b'-');
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

    #[test]
    fn values_of_headers_do_not_look_like_one_another() {
        let of = |values: &[&str]| {
            let mut key = Vec::new();
            push_header(&mut key, values.iter().map(|value| value.as_bytes()));
            key
        };
        assert_eq!(of(&["en"]), b"2:en-");
        assert_ne!(of(&["a2:bc"]), of(&["a", "bc"]));
        assert_ne!(of(&[]), of(&[""]));
    }
}
