//! How much of each part of a message is accepted. The owner of the socket enforces timeouts.

/// Bounds of HTTP/1 messages. Bytes and items are both counted: many small items cost more than few large ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// A whole head, from its first byte to its empty line. 32 KiB holds the largest cookie jars browsers send
    /// (about 16 KiB) twice; nginx takes 4 times 8 KiB by default.
    pub head_bytes_max: usize,
    /// Field lines in one head or trailer section. Browsers send about 20, long proxy chains about 40.
    pub fields_max: usize,
    /// A request target. 8,000 bytes are what RFC 9110, section 4.1 asks for at least.
    pub target_bytes_max: usize,
    /// A method. The longest registered one, `UPDATEREDIRECTREF`, has 17 letters.
    pub method_bytes_max: usize,
    /// Bytes of a header name. Longer names are not genuine but attempts to fill tables. At most 65,535.
    pub name_bytes_max: usize,
    /// A request line or a header line, its line end included. `head_bytes_max` bounds it where nothing else does.
    pub line_bytes_max: usize,
    /// Empty lines before a request line, which some clients send after a body (RFC 9112, section 2.2).
    pub empty_lines_max: usize,
    /// The line before a chunk, extensions included. Signed uploads to object stores use about 90 bytes.
    pub chunk_line_bytes_max: usize,
    /// By how many bytes chunk lines may outweigh the content so far: extensions have to be paid for with
    /// content, or reading costs us more than sending costs the peer.
    pub chunk_surplus_bytes_max: usize,
    /// A whole trailer section.
    pub trailer_bytes_max: usize,
    /// What becomes of a message with a field whose name is none.
    pub odd_names: OddNames,
    /// What heads may have that RFC 9112 does not allow.
    pub leniency: Leniency,
}

/// What a decoder of heads accepts although RFC 9112 lets a server refuse it, for peers that rely on it. Nothing by
/// default. A message that needed one of these rules for its framing is the last of its connection, so that no byte
/// behind it can be read as another message. Chunks and trailers are read strictly in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leniency {
    /// How a line of a head may end.
    pub line_ends: LineEnds,
    /// Which bytes a request target may have.
    pub targets: TargetBytes,
    /// What becomes of a request of HTTP/1.0 whose method carries content and that declares no length.
    pub undeclared_content: UndeclaredContent,
}

/// How a line of a head may end (RFC 9112, section 2.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LineEnds {
    /// With CR LF.
    #[default]
    CrLf,
    /// Also with LF alone. The connection ends with such a message.
    LfToo,
}

/// Which bytes a request target may have (RFC 9112, section 3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TargetBytes {
    /// Visible ASCII characters except `#`.
    #[default]
    Ascii,
    /// Also bytes from 0x80, and a fragment: path and query end before the first `#`.
    Raw,
}

/// What becomes of a request of HTTP/1.0 whose method carries content and that declares no length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UndeclaredContent {
    /// It is refused with 411.
    #[default]
    Refuse,
    /// It has no body. The connection ends with it: clients that send content until they close exist.
    Empty,
}

/// What becomes of a message with a field whose name has a byte that no name has (RFC 9110, section 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OddNames {
    /// It is refused.
    Refuse,
    /// The field is left out, unless the byte is white space or a control character: those are what different readers
    /// take for different names.
    PassOver,
}

impl Limits {
    /// The limits that stand where nobody sets others.
    pub const DEFAULT: Limits = Limits {
        head_bytes_max: 32 * 1024,
        fields_max: 100,
        target_bytes_max: 8 * 1024,
        method_bytes_max: 32,
        name_bytes_max: 256,
        line_bytes_max: usize::MAX,
        empty_lines_max: 2,
        chunk_line_bytes_max: 256,
        chunk_surplus_bytes_max: 4096,
        trailer_bytes_max: 8 * 1024,
        odd_names: OddNames::Refuse,
        leniency: Leniency {
            line_ends: LineEnds::CrLf,
            targets: TargetBytes::Ascii,
            undeclared_content: UndeclaredContent::Refuse,
        },
    };
}

impl Default for Limits {
    fn default() -> Self {
        Limits::DEFAULT
    }
}

/// The first line of memcached's reply: a key of 250 bytes, which is its limit, two numbers and the text around them
/// take less than 300, and error messages are short.
pub const MEMCACHED_LINE_BYTES_MAX: usize = 2048;

/// A reply of Redis: the scripts of limits return a few numbers, and error messages quote a script at most.
pub const RESP_REPLY_BYTES_MAX: usize = 64 * 1024;

/// A line of a Redis reply: a number, or an error message.
pub const RESP_LINE_BYTES_MAX: usize = 8 * 1024;

/// Arrays in arrays of a Redis reply. The commands that sluice sends return one; the recursion stays shallow.
pub const RESP_DEPTH_MAX: usize = 4;

/// Bytes that an application may write to standard error in one response and have kept; further bytes are only counted.
/// A PHP notice takes 150 bytes, so this holds hundreds, and ten thousand concurrent responses take 640 MiB at worst.
pub const STDERR_BYTES_MAX: usize = 64 * 1024;

/// A WebSocket message, unless configured otherwise: what uvicorn takes by default (`--ws-max-size`).
pub const WEBSOCKET_MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Memory that a WebSocket keeps between two messages, in each direction. Chat messages are far below; a larger buffer is
/// returned, because most WebSockets are silent most of the time.
pub const WEBSOCKET_IDLE_BYTES_MAX: usize = 4096;

/// Bytes of a WebSocket message that are reported together: a longer one is reported in pieces, so that a connection holds
/// no more than this of what it receives. Most messages are shorter.
pub const WEBSOCKET_PIECE_BYTES_MAX: usize = 64 * 1024;

/// Messages below this length are sent uncompressed: without the context of earlier ones they shrink little or grow.
pub const WEBSOCKET_DEFLATE_BYTES_MIN: usize = 128;

/// Compression level of WebSocket messages, of 9: a message is compressed for each of its receivers.
pub const WEBSOCKET_DEFLATE_LEVEL: i32 = 3;

/// Payload of one frame between sluice and a Python worker (decision 0023): the dictionary of a request with the longest
/// head that can be configured. Bodies and WebSocket messages are sent in pieces.
pub const PYTHON_PAYLOAD_BYTES_MAX: u32 = 16 * 1024 * 1024;

/// Header block of a Python application's response, early hints or trailers: twice what clients' heads may have, since
/// applications set several large cookies at once.
pub const PYTHON_HEADERS_BYTES_MAX: u32 = 64 * 1024;

/// Lines in such a block. Ten times what browsers send.
pub const PYTHON_HEADERS_MAX: usize = 1000;

/// Text of an error that a Python worker reports: a traceback through a thousand frames.
pub const PYTHON_ERROR_BYTES_MAX: u32 = 256 * 1024;

/// Payload of one frame on the control channel of a Python worker: a failure with its traceback.
pub const PYTHON_CONTROL_BYTES_MAX: u32 = 1024 * 1024;

/// A piece of a WebSocket message between sluice and a Python worker: the flow-control window, which a piece has to fit
/// into.
pub const PYTHON_MESSAGE_BYTES_MAX: u32 = 256 * 1024;

/// What each piece of a WebSocket message between sluice and a Python worker counts besides its bytes: about the memory that
/// an entry in a queue takes, so that a window bounds empty messages as well.
pub const PYTHON_MESSAGE_OVERHEAD_BYTES: usize = 128;

/// Reason of a WebSocket's end (RFC 6455, section 5.5: control frames have at most 125 bytes, two of them the code).
pub const PYTHON_REASON_BYTES_MAX: u32 = 123;

/// Streams open on one lane: their slots have to fit into 16 bits.
pub const PYTHON_STREAMS_MAX: usize = 16_384;

/// Credit beyond which a Python worker cannot mean what it says: a window is 256 KiB.
pub const PYTHON_CREDIT_MAX: i64 = 1 << 31;
