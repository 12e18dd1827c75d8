//! `Cache-Status` (RFC 9211): what a cache did with a request.

use std::fmt::Write;

use sluice_message::Status;
use sluice_pipeline::context::{CacheNote, CacheStatus};

/// The name of the header.
pub(super) const NAME: &[u8] = b"Cache-Status";

/// The member of one cache or node. `upstream` is the status of the response that the request was forwarded for.
pub(super) fn member(
    label: &str,
    status: Option<CacheStatus>,
    upstream: Option<Status>,
    note: &CacheNote,
) -> String {
    let mut text = label.to_owned();
    match forwarding(status, note) {
        None => {
            text.push_str("; hit");
            if let Some(ttl) = note.ttl {
                put(&mut text, format_args!("; ttl={ttl}"));
            }
        }
        Some(reason) => {
            put(&mut text, format_args!("; fwd={reason}"));
            if let Some(upstream) = upstream {
                put(&mut text, format_args!("; fwd-status={}", upstream.code()));
            }
            if note.is_stored {
                text.push_str("; stored");
            }
        }
    }
    if let Some(detail) = &note.detail {
        match is_token(detail) {
            true => put(&mut text, format_args!("; detail={detail}")),
            false => put(&mut text, format_args!("; detail=\"{detail}\"")),
        }
    }
    text
}

/// Why the request was forwarded; `None` if it was not (section 2.2).
fn forwarding(status: Option<CacheStatus>, note: &CacheNote) -> Option<&'static str> {
    match status {
        _ if note.is_forwarded => Some("miss"),
        Some(CacheStatus::Hit | CacheStatus::Stale | CacheStatus::Updating) => None,
        Some(CacheStatus::Miss) => Some("miss"),
        Some(CacheStatus::Expired | CacheStatus::Revalidated) if note.is_by_request => {
            Some("request")
        }
        Some(CacheStatus::Expired | CacheStatus::Revalidated) => Some("stale"),
        Some(CacheStatus::Bypass) => Some("bypass"),
        None => Some("method"),
    }
}

/// Adds the key to a member, if a string may have its characters (RFC 8941, section 3.3.3).
pub(super) fn push_key(text: &mut String, key: &[u8]) {
    if !key.iter().all(|byte| matches!(byte, b' '..=b'~')) {
        return;
    }
    text.push_str("; key=\"");
    for byte in key {
        if matches!(byte, b'"' | b'\\') {
            text.push('\\');
        }
        text.push(char::from(*byte));
    }
    text.push('"');
}

/// Names of nodes have no character that a string would have to escape, and neither have the words beside them.
fn is_token(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic()) && !text.contains(' ')
}

fn put(text: &mut String, more: std::fmt::Arguments<'_>) {
    text.write_fmt(more)
        .expect("writing to memory does not fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_say_what_a_cache_did() {
        let usual = CacheNote::default();
        let hit = CacheNote {
            ttl: Some(-3),
            ..CacheNote::default()
        };
        let stored = CacheNote {
            is_stored: true,
            ..CacheNote::default()
        };
        let forwarded = |detail: &str| CacheNote {
            detail: Some(detail.to_owned()),
            is_forwarded: true,
            ..CacheNote::default()
        };
        let ok = Some(Status::OK);
        let cases = [
            (Some(CacheStatus::Stale), None, &hit, "a; hit; ttl=-3"),
            (
                Some(CacheStatus::Miss),
                ok,
                &stored,
                "a; fwd=miss; fwd-status=200; stored",
            ),
            (
                Some(CacheStatus::Revalidated),
                Some(Status::NOT_MODIFIED),
                &usual,
                "a; fwd=stale; fwd-status=304",
            ),
            (Some(CacheStatus::Bypass), None, &usual, "a; fwd=bypass"),
            (None, ok, &usual, "a; fwd=method; fwd-status=200"),
            (
                Some(CacheStatus::Hit),
                ok,
                &forwarded("b"),
                "a; fwd=miss; fwd-status=200; detail=b",
            ),
            (
                Some(CacheStatus::Miss),
                ok,
                &forwarded("b is away"),
                "a; fwd=miss; fwd-status=200; detail=\"b is away\"",
            ),
            (
                Some(CacheStatus::Miss),
                ok,
                &forwarded("1"),
                "a; fwd=miss; fwd-status=200; detail=\"1\"",
            ),
        ];
        for (status, upstream, note, expected) in cases {
            assert_eq!(member("a", status, upstream, note), expected);
        }
        let refused = CacheNote {
            is_by_request: true,
            ..CacheNote::default()
        };
        let text = member("a", Some(CacheStatus::Expired), ok, &refused);
        assert_eq!(text, "a; fwd=request; fwd-status=200");
    }

    #[test]
    fn keys_are_strings() {
        let with = |key: &[u8]| {
            let mut text = "a; hit".to_owned();
            push_key(&mut text, key);
            text
        };
        assert_eq!(with(b"GET-/a\"b\\"), "a; hit; key=\"GET-/a\\\"b\\\\\"");
        assert_eq!(with(b"/\xc3\xa9"), "a; hit", "not ASCII");
    }
}
