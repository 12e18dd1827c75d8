//! Properties that hold for the first bytes of any connection, however they are split. Used by the tests and by the
//! fuzz target.

use sluice_wire::proxy_protocol::{Beginning, HEADER_BYTES_MAX, decode};

/// Checks that more bytes never change what was said, and that nothing is waited for beyond the limit.
pub fn check_beginning(bytes: &[u8]) {
    let whole = decode(bytes);
    let mut said = None;
    for end in 0..=bytes.len().min(HEADER_BYTES_MAX + 1) {
        let now = decode(&bytes[..end]);
        match (said, now) {
            (None, Ok(Beginning::Incomplete)) => {
                assert!(end < HEADER_BYTES_MAX, "it ends at the limit");
            }
            (None, now) => said = Some(now),
            (Some(said), now) => assert_eq!(said, now, "after {end} bytes"),
        }
        if let Ok(Beginning::Header { length, .. }) = now {
            assert!(length <= end && length > 0);
        }
    }
    if let Some(said) = said {
        assert_eq!(said, whole);
    }
}
