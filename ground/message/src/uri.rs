//! The path and query of a request, as sent and decoded. Routing by path is in `sluice-route`; code that opens files
//! checks file names itself.

use alloc::vec::Vec;

use crate::hex::{hex_pair, push_escaped};

/// The path and query of a request target (RFC 3986, sections 3.3 and 3.4).
///
/// The path exists twice: as sent, and with percent-encoding undone once, which is what matchers and file names
/// use. Both stay in step whatever is set.
#[derive(Clone, Debug, Default)]
pub struct Uri {
    /// Path as sent, then `?` and the query if there is one.
    raw: Vec<u8>,
    path_len: usize,
    /// Empty while the path as sent holds no `%`: then it is its own decoded form.
    decoded: Vec<u8>,
}

impl Uri {
    /// Memory held, in bytes.
    pub fn capacity_bytes(&self) -> usize {
        self.raw.capacity() + self.decoded.capacity()
    }

    /// Empties it and keeps its memory.
    pub fn clear(&mut self) {
        self.raw.clear();
        self.path_len = 0;
        self.decoded.clear();
    }

    /// Sets the URI to `raw`, a path with an optional query as in a request target, and returns whether its
    /// percent-encoding is well-formed. A malformed URI is kept as literal text.
    pub fn set(&mut self, raw: &[u8]) -> bool {
        self.raw.clear();
        self.raw.extend_from_slice(raw);
        // One look for both: a target is short, and most hold neither.
        let (mut query_at, mut escapes) = (raw.len(), false);
        for (at, byte) in raw.iter().enumerate() {
            match byte {
                b'?' => {
                    query_at = at;
                    break;
                }
                b'%' => escapes = true,
                _ => {}
            }
        }
        self.path_len = query_at;
        self.decoded.clear();
        !escapes || self.decode_path()
    }

    /// Path and query as sent.
    pub fn as_bytes(&self) -> &[u8] {
        &self.raw
    }

    /// The path as sent, still percent-encoded.
    pub fn path_raw(&self) -> &[u8] {
        &self.raw[..self.path_len]
    }

    /// The path with percent-encoding undone once. It may hold any byte.
    pub fn path(&self) -> &[u8] {
        if self.decoded.is_empty() {
            self.path_raw()
        } else {
            &self.decoded
        }
    }

    /// The query without its `?`; `None` where there is no `?`.
    pub fn query(&self) -> Option<&[u8]> {
        self.raw.get(self.path_len + 1..)
    }

    /// Replaces the path by a decoded one, which is encoded as needed; the query stays.
    pub fn set_path(&mut self, decoded: &[u8]) {
        let mut encoded = Vec::with_capacity(decoded.len());
        encode_path(decoded, &mut encoded);
        self.set_path_raw(&encoded);
    }

    /// Replaces the path by an already encoded one; the query stays.
    pub fn set_path_raw(&mut self, encoded: &[u8]) {
        self.raw.splice(..self.path_len, encoded.iter().copied());
        self.path_len = encoded.len();
        self.decode_path();
    }

    /// Replaces the query (without `?`); `None` removes it with its `?`.
    pub fn set_query(&mut self, query: Option<&[u8]>) {
        self.raw.truncate(self.path_len);
        if let Some(query) = query {
            self.raw.push(b'?');
            self.raw.extend_from_slice(query);
        }
    }

    fn decode_path(&mut self) -> bool {
        self.decoded.clear();
        let path = &self.raw[..self.path_len];
        if memchr::memchr(b'%', path).is_none() {
            return true;
        }
        decode_percent(path, &mut self.decoded)
    }
}

/// Undoes percent-encoding once, appending to `out`. Malformed escapes are copied as they are and reported by
/// `false`.
pub fn decode_percent(text: &[u8], out: &mut Vec<u8>) -> bool {
    let (mut at, mut well_formed) = (0, true);
    while let Some(&byte) = text.get(at) {
        let escape = (byte == b'%').then(|| hex_pair(&text[at + 1..]));
        match escape {
            Some(Some(value)) => {
                out.push(value);
                at += 3;
            }
            other => {
                well_formed &= other.is_none();
                out.push(byte);
                at += 1;
            }
        }
    }
    well_formed
}

/// Percent-encodes a decoded path, appending to `out`: all but unreserved characters, `/` and those that
/// RFC 3986, section 3.3 allows in a path segment.
pub fn encode_path(decoded: &[u8], out: &mut Vec<u8>) {
    push_escaped(out, decoded, b"-._~/$&+,:;=@!'()*");
}

/// Percent-encodes a decoded path as Go does, which leaves fewer characters plain than RFC 3986 allows: upstreams and
/// clients see the same path behind Caddy.
pub fn encode_path_as_go(decoded: &[u8], out: &mut Vec<u8>) {
    push_escaped(out, decoded, b"-_.~$&+,/:;=@");
}

/// Percent-encodes text for use as one query name or value, appending to `out`; a space becomes `+`.
pub fn encode_query(text: &[u8], out: &mut Vec<u8>) {
    for (at, word) in text.split(|byte| *byte == b' ').enumerate() {
        if at > 0 {
            out.push(b'+');
        }
        push_escaped(out, word, b"-._~");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_and_query_are_separated_and_decoded_once() {
        let mut uri = Uri::default();
        assert!(uri.set(b"/a%2520b/%41?x=%31"));
        assert_eq!(uri.path(), b"/a%20b/A");
        assert_eq!(uri.query(), Some(&b"x=%31"[..]));
        uri.set_path(b"/new path");
        assert_eq!(uri.as_bytes(), b"/new%20path?x=%31");
        assert_eq!(uri.path(), b"/new path");
        uri.set_query(None);
        assert_eq!(uri.as_bytes(), b"/new%20path");
    }

    #[test]
    fn malformed_escapes_are_reported_and_kept() {
        let mut uri = Uri::default();
        assert!(!uri.set(b"/%zz%4"));
        assert_eq!(uri.path(), b"/%zz%4");
        assert_eq!(uri.query(), None);
    }
}
