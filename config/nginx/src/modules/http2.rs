//! `ngx_http_v2_module` and `ngx_http_v3_module`: the supported HTTP versions.

use sluice_diag::Diagnostic;
use sluice_model::http::Http3;

use crate::arguments::each;
use crate::definition::Takes::{Flag, Number, Size, Time, Words};
use crate::definition::Verdict::{Always, Idle, Partly};
use crate::definition::Wrong;
use crate::definition::{Definition, many, once};
use crate::lower::level::Level;
use crate::lower::lowering::Lowering;
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

/// Those of HTTP/3.
pub const V3: &[Definition] = &[
    once("http3", Flag),
    once("http3_hq", Flag).but(Always(
        "`off` (nginx's default): HTTP/0.9 over QUIC serves interoperability tests only, and `on` is refused",
    )),
    once("http3_max_concurrent_streams", Number).but(Partly("up to 128 (nginx's default)")),
    once("http3_stream_buffer_size", Size),
    once("quic_active_connection_id_limit", Number)
        .but(Always("clients keep up to 5 connection IDs in reserve")),
    once("quic_bpf", Flag).but(Always(
        "packets reach the worker of their connection, also after the client's address has changed",
    )),
    once("quic_gso", Flag),
    once("quic_host_key", Words(1, 1)),
    once("quic_retry", Flag),
];

/// Whether a server speaks HTTP/3 where a `listen` has `quic`.
pub fn speaks_http3(level: &Level<'_>) -> bool {
    level.is_on("http3", true)
}

/// What a server says of HTTP/3.
pub fn http3(cx: &mut Lowering<'_>, level: &Level<'_>) -> Option<Http3> {
    if let Some(line) = level
        .find("http3_hq")
        .filter(|_| level.is_on("http3_hq", false))
    {
        cx.report.push(
            Diagnostic::error("unsupported-directive", "`http3_hq on` is not supported")
                .at(
                    line.span(),
                    "HTTP/0.9 over QUIC serves interoperability tests only",
                )
                .imported(line.name.import)
                .help("remove it: clients use HTTP/3"),
        );
    }
    let streams = level.word("http3_max_concurrent_streams");
    let streams = streams.and_then(|word| word.parse::<i64>().ok());
    let window = level.size("http3_stream_buffer_size");
    let key = level.word("quic_host_key");
    let http3 = Http3 {
        max_streams: streams.unwrap_or_default().clamp(0, STREAMS_MAX),
        stream_window: window
            .and_then(|bytes| bytes.try_into().ok())
            .unwrap_or_default(),
        congestion: String::new(),
        always_retry: level.is_on("quic_retry", false),
        // nginx leaves it off unless it is on; what a network card cannot do, the kernel does for it.
        no_segmentation_offload: !level.is_on("quic_gso", true),
        host_key_file: key.map(|path| cx.path(path)).unwrap_or_default(),
    };
    (http3 != Http3::default()).then_some(http3)
}

/// The most concurrent requests of a connection.
const STREAMS_MAX: i64 = 128;

/// Whether a server speaks HTTP/2 by itself.
pub fn is_on(level: &Level<'_>) -> bool {
    level.is_on("http2", false)
}

fn chunk_size(directive: &Directive) -> Option<Wrong> {
    each(directive, "a size such as `8k`", |word| {
        size(word).is_some_and(|bytes| bytes > 0)
    })
}
