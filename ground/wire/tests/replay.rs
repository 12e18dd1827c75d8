//! Replays the inputs under `fuzz/seeds`, among them everything the fuzzer found, against the assertions of its
//! targets.

use std::fs;
use std::path::Path;

use crate::feed;
use crate::feed_fastcgi;
use crate::feed_h2;
use crate::feed_h3;
use crate::feed_proxy;
use crate::feed_python;
use crate::feed_resp;
use crate::feed_websocket;

/// Runs `check` on every file of one target.
fn replay(target: &str, check: impl Fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/seeds")
        .join(target);
    let mut count = 0;
    for entry in fs::read_dir(folder).expect("the target has seeds") {
        let path = entry.expect("the folder can be read").path();
        println!("{}", path.display());
        check(&fs::read(&path).expect("the seed can be read"));
        count += 1;
    }
    assert!(count >= 5, "{target} has {count} seeds");
}

#[test]
fn requests() {
    replay("h1_request", feed::check_request);
}

#[test]
fn responses() {
    replay("h1_response", feed::check_response);
}

#[test]
fn chunked_bodies() {
    replay("h1_chunked", feed::check_chunked);
}

#[test]
fn fastcgi_responses() {
    replay("fastcgi_response", feed_fastcgi::check);
}

#[test]
fn beginnings_of_connections() {
    replay("proxy_protocol", feed_proxy::check_beginning);
}

#[test]
fn replies_of_redis() {
    replay("resp", feed_resp::check);
}

#[test]
fn websockets() {
    replay("websocket", feed_websocket::check);
}

#[test]
fn http2_from_clients() {
    replay("h2_server", feed_h2::check_server);
}

#[test]
fn http2_from_servers() {
    replay("h2_client", feed_h2::check_client);
}

#[test]
fn header_blocks() {
    replay("hpack", feed_h2::check_hpack);
}

#[test]
fn http3_messages() {
    replay("h3_message", feed_h3::check_message);
}

#[test]
fn http3_control_streams() {
    replay("h3_control", feed_h3::check_control);
}

#[test]
fn http3_streams_of_peers() {
    replay("h3_peer_streams", feed_h3::check_peer_streams);
}

#[test]
fn http3_field_sections() {
    replay("qpack", feed_h3::check_qpack);
}

#[test]
fn frames_of_python_workers() {
    replay("python_lane", feed_python::check_lane);
}

#[test]
fn header_blocks_of_python_applications() {
    replay("python_block", feed_python::check_block);
}
