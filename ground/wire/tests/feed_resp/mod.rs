//! Properties that hold for any bytes that a Redis server may send. Used by the tests and by the fuzz target.

use sluice_wire::limits::RESP_REPLY_BYTES_MAX;
use sluice_wire::resp::{Reply, decode_reply};

/// Checks that replies do not depend on how their bytes arrive, and that no reply takes much more memory than its bytes.
pub fn check(bytes: &[u8]) {
    let mut at = 0;
    while let Ok(Some((reply, taken))) = decode_reply(&bytes[at..]) {
        let rest = &bytes[at..];
        assert!(taken > 0 && taken <= rest.len());
        assert!(size(&reply) <= taken);
        // A reply is complete with its last byte and not before, and further bytes do not change it.
        assert_eq!(decode_reply(&rest[..taken]), Ok(Some((reply, taken))));
        for end in (0..taken).rev().take(64) {
            assert_eq!(
                decode_reply(&rest[..end]),
                Ok(None),
                "{end} of {taken} bytes"
            );
        }
        at += taken;
    }
    let rest = &bytes[at..];
    if decode_reply(rest) == Ok(None) {
        assert!(
            rest.len() <= RESP_REPLY_BYTES_MAX,
            "it waits for bytes beyond the limit"
        );
    }
}

/// The bytes of content, and one for each reply.
fn size(reply: &Reply) -> usize {
    match reply {
        Reply::Status(text) | Reply::Error(text) | Reply::Bulk(text) => 1 + text.len(),
        Reply::Integer(_) | Reply::Nil => 1,
        Reply::Array(replies) => 1 + replies.iter().map(size).sum::<usize>(),
    }
}
