//! The limits of this package, each with the reason for its number.

use std::time::Duration;

/// The future of an HTTP/1 connection, idle or not. tokio adds 104 bytes and aligns the whole to 128: up to 512 bytes are
/// one allocation of that size. A larger task would take at least 768, as the allocator makes up for the alignment.
pub const CONNECTION_BYTES_MAX: usize = 408;

/// The socket, input and timer of a connection: an allocation of 176 bytes with its counts of references.
pub const LINK_BYTES_MAX: usize = 160;

/// A socket, of which each proxied request has two.
pub const STREAM_BYTES_MAX: usize = 40;

/// Buffer for one read of a request head: holds nearly every head, and four pages are cheap to pool.
pub const READ_BUFFER_BYTES: usize = 16 * 1024;

/// Buffer for one read of a forwarded body: large enough that a 190 KB response takes a few system calls, small enough
/// that ten thousand slow clients stay below a gigabyte.
pub const BODY_BUFFER_BYTES: usize = 64 * 1024;

/// Buffer for one read that others usually forward at once: the head and body of a response, and of a request on a connection
/// that has sent large ones. A 64 KB body takes one read and one write, and 190 KB two: 15 % less CPU time than with four
/// (decision 0034). What has to wait moves to a smaller buffer if it fits, and a slow receiver gets no second one of this size.
pub const BULK_BUFFER_BYTES: usize = 128 * 1024;

/// Buffers of [`BULK_BUFFER_BYTES`] that a worker pools. They are in use only from a read to the next write.
pub const BULK_BUFFERS_KEPT_MAX: usize = 16;

/// A request body that stalls in the middle of its framing, such as half a chunk size, keeps up to this much in a small
/// allocation and frees its buffer. Only trailers can be longer, and they nearly always arrive in one piece.
pub const STALLED_BYTES_MAX: usize = 1024;

/// Buffers of each size that a worker pools; further ones are freed.
pub const BUFFERS_KEPT_MAX: usize = 256;

/// Exchanges that a worker pools: as many as there may be requests waiting for upstreams, since each new exchange
/// allocates a dozen buffers. One takes about two kilobytes.
pub const EXCHANGES_KEPT_MAX: usize = 4096;

/// The largest request head whose memory a pooled exchange retains. Most heads are shorter, and pooled exchanges must
/// not all grow to the largest one.
pub const HEAD_KEPT_BYTES_MAX: usize = 8 * 1024;

/// The largest inline body whose memory a pooled exchange retains.
pub const INLINE_KEPT_BYTES_MAX: usize = 2 * 1024;

/// A body up to this size is copied behind its head, so that one write sends both.
pub const COPY_BYTES_MAX: usize = 8 * 1024;

/// Files longer than this are sent in full segments only (`TCP_CORK`); a shorter one goes out in one call anyway.
pub const CORK_BYTES_MIN: u64 = 64 * 1024;

/// How much of the request line of a refused request is logged: as much as a target may have by default.
pub const REFUSED_LINE_BYTES_MAX: usize = 8 * 1024;

/// How much of an unread request body is read and discarded for the sake of keep-alive; beyond it, closing is cheaper.
pub const DRAIN_BYTES_MAX: u64 = 256 * 1024;

/// The interval of the timer sweep: a timeout fires at most this much late.
pub const TIMER_TICK: Duration = Duration::from_millis(100);

/// Pipelined input buffered while a response is being produced; beyond it, the client has to wait.
pub const PIPELINE_BYTES_MAX: usize = 16 * 1024;

/// Requests of one connection served before other connections get their turn.
pub const PIPELINE_BURST_MAX: u32 = 64;

/// Unsent interim responses per connection; further ones are dropped, as clients may ignore them anyway (RFC 9110,
/// section 15.2). A page of early hints fits; a client that does not read costs no more.
pub const INTERIM_BYTES_MAX: usize = 16 * 1024;

/// How long a request body waits under memory pressure before its request fails: as long as a client waits for a
/// connection.
pub const BODY_HELD_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes that a worker allocates for data before memory is measured once more, if there is a limit: measuring takes some
/// 20 us, and a process may exceed its limit by a few times this.
pub const MEMORY_MEASURED_BYTES: usize = 4 * 1024 * 1024;

/// Idle connections that a worker closes at each tick under memory pressure: ten thousand a second, so that closing does
/// not delay everything else.
pub const IDLE_CLOSED_MAX: usize = 1_000;

/// One in this many idle connections is closed at each tick under memory pressure, those idle longest first.
pub const IDLE_CLOSED_PART: usize = 4;

/// The kernel's accept queue, which the kernel caps at net.core.somaxconn.
pub const LISTEN_BACKLOG: i32 = 4096;

/// Connections accepted in a row before existing ones get their turn.
pub const ACCEPT_BURST_MAX: usize = 64;

/// Idle connections closed at once when slots run out: nginx's number, so that closing does not delay everything else.
pub const PLACES_FREED_MAX: usize = 32;

/// How many turns a connection waits for a slot while idle ones close: one is enough, unless other connections take the
/// freed slots.
pub const SLOT_WAIT_TURNS_MAX: u32 = 4;

/// Minimum pause between log messages of a worker about exhausted slots: thousands of connections may be refused in a
/// second.
pub const SHORTAGE_REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// Pause after the system has refused another file descriptor, so that a full table does not cause a busy loop.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// File descriptors reserved for upstreams, logs and files to serve: client connections stop at the limit minus this.
pub const FILES_RESERVED: u64 = 64;

/// One in this many file descriptors is reserved for files being served, if clients need none for upstreams.
pub const FILES_SENT_PART: u64 = 8;

/// A new connection waits no longer than this for its first byte, whatever the keep-alive timeout: it has not proven
/// useful yet.
pub const FIRST_HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Rounds of reading, serving and sending of one HTTP/2 connection before other connections get their turn. A round
/// reads at most 16 KiB and sends 64 KiB.
pub const TURNS_MAX: u32 = 16;

/// Streams polled in these rounds before other connections get their turn: as many as can be open at a time.
pub const STEPS_MAX: usize = 128;

/// Decoded size of the request heads read in these rounds before other connections get their turn: 128 usual ones. A
/// few bytes can refer to 30 KiB of headers in the HPACK table, and a read of 16 KiB holds hundreds of such requests.
pub const HEADS_BYTES_MAX: u64 = 256 * 1024;

/// Unsent data in the kernel for an HTTP/2 connection whose client sends priorities: an urgent response is delayed by
/// no more than this and the output buffer. 10 ms at 100 Mbit/s, and enough to refill the socket in time.
pub const UNSENT_BYTES_MAX: u32 = 128 * 1024;

/// Stream allocations that a worker pools, about a kilobyte each: as many as some dozen busy connections use at once.
pub const STREAMS_KEPT_MAX: usize = 1024;

/// How long a client may take to receive the GOAWAY of a drained HTTP/2 connection without open streams. It takes one
/// round trip.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Time for a refused client to read its error before the socket is closed with unread input.
pub const LINGER: Duration = Duration::from_secs(2);

/// Input discarded during a lingering close.
pub const LINGER_BYTES_MAX: u64 = 256 * 1024;

/// Commands queued for a worker; a reload sends one and waits for it.
pub const COMMANDS_MAX: usize = 16;

/// Buffer for one read during a TLS handshake: a ClientHello with a post-quantum key share fits, and a certificate
/// chain takes two or three reads.
pub const TLS_HANDSHAKE_READ_BYTES: usize = 4 * 1024;

/// Plaintext encrypted ahead of the socket: five full records, so that a head and a [`BODY_BUFFER_BYTES`] of body leave
/// in one system call.
pub const TLS_OUTPUT_BYTES_MAX: usize = 5 * 16 * 1024;

/// Sessions that a connector caches for resumption, one or two per server.
pub const TLS_CLIENT_SESSIONS_MAX: usize = 256;

/// Maximum duration of a handshake that waits for a certificate to be issued: CAs take some seconds, and browsers give
/// up after about a minute.
pub const TLS_PREPARATION_TIMEOUT: Duration = Duration::from_secs(60);

/// Handshake steps of a worker between two polls of its sockets. One costs up to 200 us, as much as everything else in
/// between: clients being served wait at most twice as long, and no handshake starves.
pub const HANDSHAKES_PER_TURN: usize = 4;

/// Open handshakes per worker and address, or IPv6 /64 network, once three quarters of all connection slots are taken.
/// A browser opens six at a time; there is room for some of them behind one shared address.
pub const HANDSHAKES_PER_ORIGIN_MAX: usize = 32;

/// Queued handshakes per worker: two or three seconds of work, which clients are willing to wait.
pub const HANDSHAKES_WAITING_MAX: usize = 8192;

/// Cipher suites and groups recorded from a ClientHello, if the configuration requests it: more than any real client
/// offers, and little compared with a session.
pub const TLS_OFFERS_MAX: usize = 100;

/// If less than this is left of an HTTP/2 connection's receive window, the server holds up the client: clients wait
/// rather than send a small frame.
pub const WINDOW_LEFT_MIN: u32 = 16 * 1024;

/// Queued writes to temporary files per worker, including the one in progress: at 64 KiB each, at most 4 MiB wait for a
/// slow disk. Bodies whose write does not fit wait, and so do their senders.
pub const SPOOL_QUEUE_MAX: usize = 64;

/// Temporary files of one worker at a time. Each takes a file descriptor, as does the upstream connection it frees;
/// further bodies are forwarded without a file, at the pace of the receiver.
pub const SPOOL_FILES_MAX: u64 = 8192;

/// Names that are tried for one temporary file: files of earlier processes take some, and the numbers between attempts
/// are far apart.
pub const SPOOL_NAMES_TRIED_MAX: usize = 100;

/// Total size of one worker's temporary files, beyond which it starts no further file. Single bodies have their own
/// limit; this one keeps thousands of slow clients from filling a disk.
pub const SPOOL_BYTES_MAX: u64 = 64 * 1024 * 1024 * 1024;

/// How long a tunnel lasts without traffic after one side has ended its direction. The other side usually follows at
/// once; one that has vanished would otherwise hold the connection for ever.
pub const HALF_CLOSED_TIMEOUT: Duration = Duration::from_secs(60);

/// How often a request in the queue of a group looks for a server that is back, though no request has ended.
pub const QUEUE_RECHECK: Duration = Duration::from_millis(200);

/// Certificates of a peer's chain that are considered. OpenSSL accepts chains of a hundred; real ones have three.
pub const PEER_CHAIN_MAX: usize = 16;

/// CAs with the same name that are tried for a certificate's signature: a CA has a few keys, each try costs a
/// verification, and peers choose the name.
pub const ISSUERS_TRIED_MAX: usize = 8;

/// Maximum depth of the certificate chains of peers, whatever the configuration says.
pub const PEER_DEPTH_MAX: usize = PEER_CHAIN_MAX;

/// The buffers of a UDP socket: with less, a burst of a thousand handshakes loses datagrams.
pub const DATAGRAM_BUFFER_BYTES: usize = 4 * 1024 * 1024;

/// The longest message between the two processes of a binary upgrade: a configuration may have 64 MiB, and as much again is
/// left for counts.
pub const HANDOVER_BYTES_MAX: usize = 128 * 1024 * 1024;

/// What one packet of such a message carries: a fraction of a socket's send buffer (`net.core.wmem_default`, 208 KiB).
pub const HANDOVER_PACKET_BYTES: usize = 32 * 1024;

/// How long idle client connections stay open when another process takes over. A client that sends its next request
/// meanwhile gets a response with `Connection: close`, so a request is never reset on its way. Clients that pause longer
/// than this between requests are rarely about to send one.
pub const IDLE_LINGER: Duration = Duration::from_secs(2);

/// Datagrams sent in one call: the kernel's work for each of them outweighs the call itself by then.
pub const PACKETS_MAX: usize = 16;
