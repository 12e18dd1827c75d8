//! The limits of this package, each with the reason for its number.

use std::time::Duration;

/// Room for one read of a request head: holds nearly every head, and a page or four is cheap to pool.
pub const READ_BUFFER_BYTES: usize = 16 * 1024;

/// Room for one read of a body that is passed on: large enough that a 190 KB answer takes a few system calls,
/// small enough that ten thousand slow clients stay below a gigabyte.
pub const BODY_BUFFER_BYTES: usize = 64 * 1024;

/// What is kept in memory of its own of a request body that stalls inside of its framing, such as half a chunk size: its
/// buffer is given back. More than that can only be trailers, which are read at once nearly always.
pub const STALLED_BYTES_MAX: usize = 1024;

/// Buffers of either size that a worker keeps for reuse; beyond it they are freed.
pub const BUFFERS_KEPT_MAX: usize = 256;

/// Used exchanges that a worker keeps: as many requests as may be waiting for upstreams at once, or each of them
/// makes a dozen buffers anew. One takes about two kilobytes.
pub const EXCHANGES_KEPT_MAX: usize = 4096;

/// The largest head whose memory a kept exchange keeps: most are shorter, and kept ones must not all be as long as the
/// longest.
pub const HEAD_KEPT_BYTES_MAX: usize = 8 * 1024;

/// The largest inline body whose memory a kept exchange keeps.
pub const INLINE_KEPT_BYTES_MAX: usize = 2 * 1024;

/// A body up to this size is copied behind its head, so that one plain write sends both.
pub const COPY_BYTES_MAX: usize = 8 * 1024;

/// A file longer than this is sent with full segments only: a shorter one goes out in one call anyway.
pub const CORK_BYTES_MIN: u64 = 64 * 1024;

/// What logs are told of the first line of a request that is refused: as much as a target may have by default.
pub const REFUSED_LINE_BYTES_MAX: usize = 8 * 1024;

/// Unread request body that is read and thrown away to keep a connection; beyond it closing is cheaper.
pub const DRAIN_BYTES_MAX: u64 = 256 * 1024;

/// The sweep of the timers: a timeout acts at most this much late.
pub const TIMER_TICK: Duration = Duration::from_millis(100);

/// Pipelined bytes taken while an answer is being made; beyond it the client has to wait.
pub const PIPELINE_BYTES_MAX: usize = 16 * 1024;

/// Requests one connection may have answered before other connections get their turn.
pub const PIPELINE_BURST_MAX: u32 = 64;

/// Interim answers that wait for the client to take them; beyond it further ones are dropped, which RFC 9110, section
/// 15.2, leaves a client free to ignore anyway. A page of hints fits; a client that does not read costs no more.
pub const INTERIM_BYTES_MAX: usize = 16 * 1024;

/// The kernel's queue of connections not yet accepted (it caps this itself at net.core.somaxconn).
pub const LISTEN_BACKLOG: i32 = 4096;

/// Connections accepted in one go before those already here get their turn.
pub const ACCEPT_BURST_MAX: usize = 64;

/// Idle connections that are closed at once for want of places: nginx's number, so that closing does not stop all else.
pub const PLACES_FREED_MAX: usize = 32;

/// Turns that a connection waits for a place while idle ones close: one is enough, unless others take what they leave.
pub const CROWD_TURNS_MAX: u32 = 4;

/// The pause between two words of a worker about a crowd: there may be thousands of refused connections in a second.
pub const CROWD_TOLD_PAUSE: Duration = Duration::from_secs(1);

/// The pause after the system refused another file descriptor, so that a full table does not spin.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// Files kept free for upstreams, logs and files to serve: connections stop at the limit minus this.
pub const FILES_RESERVED: u64 = 64;

/// One of so many files is kept for those that are sent, where clients need none for upstreams.
pub const FILES_SENT_PART: u64 = 8;

/// A new connection gets no longer than this for its first byte, whatever the keep-alive timeout is: it has
/// shown no reason to be kept.
pub const FIRST_HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Rounds of reading, serving and sending of one HTTP/2 connection before other connections get their turn. A round
/// reads 16 KiB at most and sends 64 KiB.
pub const TURNS_MAX: u32 = 16;

/// Streams polled in those rounds after which others get their turn as well: as many as there may be at a time.
pub const STEPS_MAX: usize = 128;

/// What the heads that are read in those rounds may come to before others get their turn: 128 usual ones. Some dozen bytes
/// can name fields of 30 KiB that the compression has seen before, and a read of 16 KiB holds hundreds of such requests.
pub const HEADS_BYTES_MAX: u64 = 256 * 1024;

/// What the kernel holds unsent of an HTTP/2 connection whose client says which answers it wants first: an urgent one
/// comes behind no more than this and the output. 10 ms at 100 Mbit/s, and enough that a socket is filled again in time.
pub const UNSENT_BYTES_MAX: u32 = 128 * 1024;

/// Memory for streams that a worker keeps for reuse, about a kilobyte each: as many as are served at once by some dozen
/// busy connections.
pub const STREAMS_KEPT_MAX: usize = 1024;

/// How long a client may take to hear that an HTTP/2 connection ends, where nothing is under way any more. It takes one
/// round trip.
pub const DRAIN_PATIENCE: Duration = Duration::from_secs(1);

/// Time for a refused client to read its error before the socket is closed under unread input.
pub const LINGER: Duration = Duration::from_secs(2);

/// Input thrown away while lingering.
pub const LINGER_BYTES_MAX: u64 = 256 * 1024;

/// Commands a worker can have waiting; a reload sends one and waits for the answer.
pub const COMMANDS_MAX: usize = 16;

/// Room for one read during a TLS handshake: a hello with a post-quantum key share fits, and a certificate chain
/// takes two or three.
pub const TLS_HANDSHAKE_READ_BYTES: usize = 4 * 1024;

/// Plaintext encrypted ahead of the socket: five full records, so that a head and a [`BODY_BUFFER_BYTES`] of body
/// leave by one system call.
pub const TLS_OUTPUT_BYTES_MAX: usize = 5 * 16 * 1024;

/// Sessions that a connector remembers for resumption, one or two for each server.
pub const TLS_CLIENT_SESSIONS_MAX: usize = 256;

/// The longest a handshake may take that waits for a certificate of ours to be made: authorities take some seconds, and
/// browsers give up after about a minute.
pub const TLS_PREPARATION_TIMEOUT: Duration = Duration::from_secs(60);

/// Steps of handshakes that a worker does between two looks at its sockets. One costs up to 200 us, as much as all else
/// that is done in between: whoever is served waits at most twice as long, and no handshake waits for ever.
pub const HANDSHAKES_PER_TURN: usize = 4;

/// Handshakes that a worker has open with one address, or one IPv6 network of 64 bits, once three quarters of all
/// connections are taken. A browser opens six at a time; a household behind one address has room for some of them.
pub const HANDSHAKES_PER_ORIGIN_MAX: usize = 32;

/// Handshakes that wait for their turn on one worker: two or three seconds of work, which clients wait for.
pub const HANDSHAKES_WAITING_MAX: usize = 8192;

/// Cipher suites, and groups, that are kept of what a client offers, where the configuration asks for them:
/// more than any real client has, and little beside a session.
pub const TLS_OFFERS_MAX: usize = 100;

/// A connection of HTTP/2 whose window has less left than this is held up by us: clients wait rather than send less than a
/// frame.
pub const WINDOW_LEFT_MIN: u32 = 16 * 1024;

/// Writes to temporary files that wait for the helper thread of one worker, or are being done: with 64 KiB each no more
/// than 4 MiB are on their way to a disk that is slow. Bodies whose write finds no room wait, and so do their senders.
pub const SPOOL_QUEUE_MAX: usize = 64;

/// Temporary files of one worker at a time. Each takes an open file, as the upstream connection does that it saves; bodies
/// beyond are passed on without a file, at the pace of whoever receives them.
pub const SPOOL_FILES_MAX: u64 = 8192;

/// Bytes in temporary files of one worker, beyond which no further file is begun. One body has a limit of its own; this one
/// keeps thousands of slow clients from filling any disk.
pub const SPOOL_BYTES_MAX: u64 = 64 * 1024 * 1024 * 1024;
