//! `ngx_http_v2_module` and `ngx_http_v3_module`: the supported HTTP versions.

use crate::arguments::each;
use crate::definition::Takes::{Flag, Number, Size, Time, Words};
use crate::definition::Verdict::{Always, Idle, Partly};
use crate::definition::Wrong;
use crate::definition::{Definition, many, once};
use crate::lower::level::Level;
use crate::lower::values::size;
use crate::tree::Directive;

const CONNECTIONS: &str =
    "removed from nginx too; `keepalive_timeout` and `keepalive_requests` apply";
const HEADS: &str = "removed from nginx too; `large_client_header_buffers` applies";
const PUSHES: &str = "removed from nginx too: browsers do not support server push";

/// Those of HTTP/2.
pub const V2: &[Definition] = &[
    once("http2", Flag).but(Partly(
        "for a server with regular expressions as names, the setting of the default server applies, as its certificate does",
    )),
    once("http2_body_preread_size", Size).but(Partly(
        "64 to 256 KiB: clients may send 64 KiB before they learn of a smaller limit (RFC 9113, section 6.9.2)",
    )),
    once("http2_chunk_size", Size)
        .but(Always(
            "frames have at most 16 KiB, so that more urgent responses can be sent in between",
        ))
        .checked(chunk_size),
    once("http2_idle_timeout", Time).but(Idle(CONNECTIONS)),
    once("http2_max_concurrent_pushes", Number).but(Idle(PUSHES)),
    once("http2_max_concurrent_streams", Number)
        .but(Partly("up to 128 (nginx's default)")),
    once("http2_max_field_size", Size).but(Idle(HEADS)),
    once("http2_max_header_size", Size).but(Idle(HEADS)),
    once("http2_max_requests", Number).but(Idle(CONNECTIONS)),
    many("http2_push", Words(1, 1)).but(Idle(PUSHES)),
    once("http2_push_preload", Flag).but(Idle(PUSHES)),
    once("http2_recv_buffer_size", Size).but(Always(
        "buffers are allocated while data is read and released afterwards",
    )),
    once("http2_recv_timeout", Time).but(Idle(
        "removed from nginx too; `client_header_timeout` applies",
    )),
];

/// What becomes of files that ask for HTTP/3. A server with it speaks HTTP/2 as well, and browsers that hear nothing over
/// UDP use that, so such files start.
pub const NO_HTTP3: &str =
    "HTTP/3 is not supported yet: clients get HTTP/2 and HTTP/1.1; do not advertise it";

/// Those of HTTP/3.
pub const V3: &[Definition] = &[
    once("http3", Flag).but(Idle(NO_HTTP3)),
    once("http3_hq", Flag).but(Idle(NO_HTTP3)),
    once("http3_max_concurrent_streams", Number).but(Idle(NO_HTTP3)),
    once("http3_stream_buffer_size", Size).but(Idle(NO_HTTP3)),
    once("quic_active_connection_id_limit", Number).but(Idle(NO_HTTP3)),
    once("quic_bpf", Flag).but(Idle(NO_HTTP3)),
    once("quic_gso", Flag).but(Idle(NO_HTTP3)),
    once("quic_host_key", Words(1, 1)).but(Idle(NO_HTTP3)),
    once("quic_retry", Flag).but(Idle(NO_HTTP3)),
];

/// Whether a server speaks HTTP/2 by itself.
pub fn is_on(level: &Level<'_>) -> bool {
    level.is_on("http2", false)
}

fn chunk_size(directive: &Directive) -> Option<Wrong> {
    each(directive, "a size such as `8k`", |word| {
        size(word).is_some_and(|bytes| bytes > 0)
    })
}
