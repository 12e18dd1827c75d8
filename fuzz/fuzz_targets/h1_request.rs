//! Requests: the outcome does not depend on how the bytes are split, accepted requests survive an encode/decode round
//! trip, and httparse reads the same headers.
#![no_main]

#[path = "../../ground/wire/tests/feed/mod.rs"]
mod feed;

use libfuzzer_sys::fuzz_target;
use sluice_message::{RequestHead, Version};
use sluice_wire::h1::{Limits, Progress, RequestDecoder};

fuzz_target!(|bytes: &[u8]| {
    feed::check_request(bytes);
    compare_with_httparse(bytes);
});

/// httparse accepts every request that we accept and parses it alike; it is laxer, so the reverse does not hold.
fn compare_with_httparse(bytes: &[u8]) {
    let mut head = RequestHead::default();
    let ours = RequestDecoder::new().decode(&Limits::DEFAULT, bytes, &mut head);
    let Ok(Progress::Complete { consumed, .. }) = ours else {
        return;
    };
    let mut lines = [httparse::EMPTY_HEADER; 100];
    let mut theirs = httparse::Request::new(&mut lines);
    match theirs.parse(bytes) {
        Ok(status) => assert_eq!(status, httparse::Status::Complete(consumed)),
        // HTTP/1.2 to 1.9, which httparse rejects.
        Err(httparse::Error::Version) => return,
        Err(error) => panic!("httparse refuses: {error}"),
    }
    assert_eq!(theirs.method, Some(head.method.as_str()));
    assert_eq!(theirs.path.map(str::as_bytes), Some(&head.target[..]));
    // An absolute target replaces or adds `Host`, and `Expect` is dropped for HTTP/1.0; all other headers are
    // unchanged.
    let is_edited = |name: &[u8]| {
        name.eq_ignore_ascii_case(b"host")
            || head.version == Version::Http10 && name.eq_ignore_ascii_case(b"expect")
    };
    let ours = head
        .fields
        .iter()
        .filter(|f| !is_edited(f.name))
        .map(|f| (f.name, f.value));
    let theirs = theirs
        .headers
        .iter()
        .map(|line| (line.name.as_bytes(), line.value));
    assert!(ours.eq(theirs.filter(|(name, _)| !is_edited(name))));
}
