//! Limits of this package, each with the reason for its number. Those that a configuration can change are in
//! [`sluice_net::Http3`].

use std::time::Duration;

/// The bytes of a ClientHello: with post-quantum key shares it has 2 KiB, with long ticket and many extensions 4.
pub const CLIENT_HELLO_BYTES_MAX: usize = 16 * 1024;

/// TLS configurations that the process keeps in the form for QUIC: one for each connection policy in use.
pub const TWINS_MAX: usize = 64;

/// Sessions of clients that may be resumed with early data, per TLS configuration: some 500 bytes each.
pub const EARLY_SESSIONS_MAX: usize = 4_096;

/// Datagrams, or trains of them that the kernel joined, taken by one system call.
pub const RECEIVE_BATCH: usize = 8;

/// Such calls before other tasks of the worker get their turn.
pub const RECEIVE_TURNS: usize = 8;

/// The largest datagram that is received, and the largest packet that is announced (RFC 9000, section 18.2): more than
/// an Ethernet frame holds.
pub const DATAGRAM_BYTES_MAX: u16 = 1_500;

/// Datagrams of a client that wait while its connection waits for its turn to be accepted, per connection and in total.
pub const INCOMING_BYTES_MAX: u64 = 16 * 1024;
/// See [`INCOMING_BYTES_MAX`].
pub const INCOMING_BYTES_TOTAL_MAX: u64 = 4 * 1024 * 1024;

/// Connections of a worker that wait for their turn to be accepted.
pub const INCOMING_MAX: usize = 1_024;

/// Handshakes that begin on one worker within a second before clients have to prove their address. Caddy: 1,000 in
/// total; a worker can do some 2,000 with ECDSA.
pub const HANDSHAKES_BEFORE_RETRY: u32 = 500;

/// Packets in one call of the kernel that splits them: what fits the largest IP packet.
pub const SEGMENTS_MAX: usize = 44;

/// Bytes that one connection sends before other connections get their turn.
pub const SENT_PER_TURN_MAX: usize = 256 * 1024;

/// Data of responses that a connection holds until it is acknowledged, at least: what the first round trips can carry. It
/// grows with what the client has shown to take, up to [`sluice_net::Http3::unacknowledged_bytes_max`], so that slow
/// clients cost no more memory than over HTTP/2.
pub const UNACKNOWLEDGED_BYTES_MIN: u64 = 64 * 1024;

/// Times the congestion window that is held: one part is on its way, one waits to be sent when it is acknowledged.
pub const UNACKNOWLEDGED_WINDOWS: u64 = 2;

/// How often a connection is kept alive while its requests are silent, if idle connections are not kept at all.
pub const PING_INTERVAL: Duration = Duration::from_secs(15);

/// Rounds of reading, serving and sending before other connections get their turn.
pub const TURNS_MAX: usize = 8;

/// Requests polled in these rounds.
pub const STEPS_MAX: usize = 128;

/// Streams in one direction that a client may open: its control stream, two of QPACK, and some that mean nothing
/// (RFC 9114, section 6.2.3).
pub const UNIDIRECTIONAL_MAX: u32 = 8;

/// Instructions of our decoder that wait for the client to take them. Clients allow at least a kilobyte (RFC 9114, section
/// 6.2), and 128 requests at a time need half of one.
pub const DECODER_UNSENT_BYTES_MAX: usize = 4 * 1024;

/// Quiet times of a connection between two additions of what it sent and received to the counters of the worker.
pub const RESTS_PER_COUNT: u32 = 64;

/// Slots of requests that a quiet connection keeps: clients that send one request after the other need one or two, of some
/// 300 bytes.
pub const SLOTS_KEPT_MAX: usize = 2;

/// The most data of a response that is handed to QUIC at once.
pub const PIECE_BYTES_MAX: usize = 32 * 1024;

/// Data up to this size is copied behind the head of its response or frame: one buffer is cheaper than two.
pub const COPY_BYTES_MAX: usize = 2 * 1024;

/// CRYPTO data out of order, for a handshake with a client certificate chain.
pub const CRYPTO_BYTES_MAX: usize = 32 * 1024;

/// How long a connection waits for the client after GOAWAY and the end of its last request.
pub const LEAVE_TIMEOUT: Duration = Duration::from_secs(1);

/// Points of the budget for frames that bring no request forward (see `sluice_wire::glitch`).
pub const GLITCH_POINTS_MAX: u32 = 16 * 1024;
